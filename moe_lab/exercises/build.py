"""Checks of notebook 12, in which a mixture of experts is built step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge
from moe_lab.patch_routing import stepwise as steps
from moe_lab.patch_routing.stepwise import BY_EXPERTS, BY_PATCHES


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Returns normal numbers in float64."""
    generator = np.random.default_rng(seed)
    return [torch.from_numpy(generator.normal(size=shape)) for shape in shapes]


def check_router_scores(router_scores: object) -> Verdict:
    """Checks `router_scores(patches, routers) -> (B, k, n)`: the inner product of every router and patch.

    Shapes: patches (B, n, d), routers (k, d).
    """
    patches, routers = drawn(12, (2, 4, 3), (3, 3))
    one = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[1.0, 1.0], [3.0, -1.0], [0.0, 0.5]])
    cases = [
        _scores_case("for one sample of two patches and three routers", *one),
        _scores_case("for two samples of four patches and three routers", patches, routers),
    ]
    formula = "score[b, s, j] = sum over d of routers[s, d] patches[b, j, d]"
    return judge(
        "router_scores", router_scores, cases, "A router is one vector: its score is large where a patch is.", formula
    )


def _scores_case(about: str, patches: Tensor, routers: Tensor) -> Case:
    right = steps.router_scores(patches, routers)
    lengths = routers.norm(dim=1)[None, :, None] * patches.norm(dim=2)[:, None]
    mistakes = {
        "Your axes are (sample, patch, expert): the last two change places.": right.mT,
        "Yours are gates already: a score is the inner product alone, the softmax comes later.": right.softmax(-1),
        "You divide by the lengths, which gives a cosine: a score is the inner product alone.": right / lengths,
        "You average over the patches: each patch has a score of its own.": right.mean(-1),
        "You take the mean over d: an inner product is the sum.": right / patches.shape[2],
        "You add up the routers: each has scores of its own.": right.sum(1),
    }
    return Case((patches, routers), right, about, mistakes)


def check_chosen(chosen: object) -> Verdict:
    """Checks `chosen(scores, count, dim) -> (B, k, n)` of bool, True at the `count` largest along `dim`."""
    small = torch.tensor([[[3.0, 1.0, 2.8], [0.5, 1.5, 2.5]]])
    (many,) = drawn(13, (3, 4, 6))
    cases = [
        _chosen_case("for one sample, two experts and three patches, count=2 and dim=-1", small, 2, BY_EXPERTS),
        _chosen_case("for three samples, four experts and six patches, count=2 and dim=-1", many, 2, BY_EXPERTS),
        _chosen_case("for the same scores, count=3 and dim=1", many, 3, BY_PATCHES),
    ]
    praise = "One line, two routings: along -1 the experts choose (expert choice), along 1 the patches (token choice)."
    formula = (
        "True where a score is among the `count` largest along dim: scores.topk(count, dim).indices, marked by scatter"
    )
    return judge("chosen", chosen, cases, praise, formula)


def _chosen_case(about: str, scores: Tensor, count: int, dim: int) -> Case:
    right = steps.chosen(scores, count, dim)
    other = BY_EXPERTS if dim == BY_PATCHES else BY_PATCHES
    found = scores.topk(count, dim=dim)
    whole = scores.flatten(1)
    mistakes = {
        "You choose along the other axis: dim says whether each expert (-1) or each patch (1) chooses.": (
            steps.chosen(scores, count, other)
        ),
        "You choose along axis 1 whatever dim is.": steps.chosen(scores, count, BY_PATCHES),
        "You choose along the last axis whatever dim is.": steps.chosen(scores, count, BY_EXPERTS),
        "You mark the smallest scores.": steps.chosen(-scores, count, dim),
        "You return the places of the largest scores (topk's indices): mark them in a mask of the scores' shape.": (
            found.indices
        ),
        "You return the largest scores themselves: return a mask of the scores' shape.": found.values,
        "You return the scores of the chosen: return True or False.": scores * right,
        "You mark those that are not chosen.": ~right,
        "You choose from a whole sample at once: choose along dim alone.": (
            steps.chosen(whole[:, None], count, BY_EXPERTS).view_as(scores)
        ),
        "Your mask is False everywhere. `scatter` returns a new mask and leaves the old one as it is: keep what it "
        "returns, or call `scatter_`.": torch.zeros_like(right),
        "You mark the largest score alone: mark `count` of them.": steps.chosen(scores, 1, dim),
    }
    return Case((scores, count, dim), right, about, mistakes)


def check_softmax_gates(softmax_gates: object) -> Verdict:
    """Checks `softmax_gates(scores, mask, dim) -> (B, k, n)`: a softmax over the marked along `dim`, 0 elsewhere."""
    (scores,) = drawn(14, (2, 3, 5))
    small = torch.tensor([[[6.0, 3.0, 2.0], [1.0, 4.0, 4.0]]]).log()
    cases = [
        _gates_case("for exp(scores) [[6, 3, 2], [1, 4, 4]], two chosen each", small, 2, BY_EXPERTS),
        _gates_case("for two samples, three experts and five patches", scores, 3, BY_EXPERTS),
        _gates_case("for the same scores with dim=1", scores, 2, BY_PATCHES),
        _gates_case("for scores 400 times as large", 400 * scores, 2, BY_EXPERTS),
    ]
    overflow = "exp of a large score is infinite: torch's softmax subtracts the largest score first."
    praise = "Each gate depends on the scores of its rivals: that is where the router's gradient comes from."
    formula = "G = exp(score) / sum of exp(score) over the marked along dim, and 0 elsewhere"
    return judge("softmax_gates", softmax_gates, cases, praise, formula, not_finite=overflow)


def _gates_case(about: str, scores: Tensor, count: int, dim: int) -> Case:
    mask = steps.chosen(scores, count, dim)
    right, everywhere = steps.softmax_gates(scores, mask, dim), scores.softmax(dim)
    other = BY_EXPERTS if dim == BY_PATCHES else BY_PATCHES
    mistakes = {
        "Your softmax is over all scores: only the chosen ones take part.": everywhere,
        "Your softmax is over all scores, and then some are struck out: what is left sums to less than 1.": (
            everywhere * mask
        ),
        "You set the others to 0 before the softmax, and exp(0) = 1 still counts: set them to minus infinity.": (
            (scores * mask).softmax(dim)
        ),
        "You forgot to divide: gates must sum to 1.": scores.exp() * mask,
        "Your softmax runs along the other axis: along dim the gates must sum to 1.": _softmax(scores, mask, other),
        "Your softmax runs along axis 1 whatever dim is.": _softmax(scores, mask, BY_PATCHES),
        "Your softmax runs along the last axis whatever dim is.": _softmax(scores, mask, BY_EXPERTS),
        "Your gates are all equal: the higher of two scores has the larger gate.": (
            mask.to(scores.dtype) / mask.sum(dim, keepdim=True)
        ),
    }
    return Case((scores, mask, dim), right, about, mistakes)


def _softmax(scores: Tensor, mask: Tensor, dim: int) -> Tensor:
    """A softmax over the marked, 0 where nothing is marked."""
    return scores.masked_fill(~mask, -torch.inf).softmax(dim).nan_to_num()


def check_expert_outputs(expert_outputs: object) -> Verdict:
    """Checks `expert_outputs(patches, hidden, outputs) -> (B, k, n)`: what each expert says of each patch.

    Shapes: patches (B, n, d), hidden (k, h, d), outputs (k, h).
    """
    one = (
        torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]),
        torch.tensor([[[1.0, -1.0], [0.5, 1.0]]]),
        torch.tensor([[1.0, -2.0]]),
    )
    patches, hidden, outputs = drawn(15, (2, 4, 3), (5, 6, 3), (5, 6))
    cases = [
        _experts_case("for one sample of two patches and one expert of two neurons", *one),
        _experts_case("for two samples of four patches and five experts of six neurons", patches, hidden, outputs),
    ]
    formula = "out[b, s, j] = sum over h of outputs[s, h] ReLU(sum over d of hidden[s, h, d] patches[b, j, d])"
    return judge(
        "expert_outputs", expert_outputs, cases, "Two layers: what a neuron looks for, and what it says then.", formula
    )


def _experts_case(about: str, patches: Tensor, hidden: Tensor, outputs: Tensor) -> Case:
    products = torch.einsum("khd,bnd->bkhn", hidden, patches)

    def said(values: Tensor) -> Tensor:
        return torch.einsum("kh,bkhn->bkn", outputs, values)

    right, neurons = steps.expert_outputs(patches, hidden, outputs), hidden.shape[1]
    mistakes = {
        "You left out the ReLU.": said(products),
        "You left out the output weights a.": products.relu().sum(2),
        "Your ReLU acts on the sum: it acts on every neuron first.": said(products).relu(),
        "You average over the neurons: eq. 1 sums them.": right / neurons,
        "Your axes are (sample, patch, expert): the last two change places.": right.mT,
        "You sum over the patches already: each patch has an output of its own.": right.sum(-1),
        "You sum over the experts already: each expert has an output of its own.": right.sum(1),
        **one_only("neuron", *(outputs[:, i, None] * products[:, :, i].relu() for i in (0, -1))),
    }
    return Case((patches, hidden, outputs), right, about, mistakes)


def check_mixture(mixture: object) -> Verdict:
    """Checks `mixture(gates, values, count) -> (B,)`: f, the sum of gate times value, divided by `count`."""
    gates = torch.tensor([[[0.75, 0.25, 0.0], [0.0, 0.5, 0.5]]])
    values = torch.tensor([[[4.0, 2.0, 9.0], [9.0, 1.0, 5.0]]])
    scores, said = drawn(16, (3, 4, 6), (3, 4, 6))
    many = steps.softmax_gates(scores, steps.chosen(scores, 3, BY_EXPERTS), BY_EXPERTS), said
    cases = [
        _mixture_case("for one sample, two experts and three patches, count=2", gates, values, 2),
        _mixture_case("for three samples, four experts and six patches, count=3", *many, 3),
    ]
    formula = "f[b] = (1 / count) sum over s and j of gates[b, s, j] values[b, s, j]"
    return judge("mixture", mixture, cases, "That is a mixture of experts: its sign is the class.", formula)


def _mixture_case(about: str, gates: Tensor, values: Tensor, count: int) -> Case:
    right, weighed = steps.mixture(gates, values, count), gates * values
    mistakes = {
        "You left out 1/l: divide by count.": right * count,
        "You divide by n, the number of patches: divide by count.": right * count / gates.shape[2],
        "You left out the gates.": values.sum((1, 2)) / count,
        "You count a patch fully wherever its gate is not 0: multiply by the gate.": (
            ((gates > 0) * values).sum((1, 2)) / count
        ),
        "You sum over the patches alone: sum over the experts too.": weighed.sum(2) / count,
        "You sum over the experts alone: sum over the patches too.": weighed.sum(1) / count,
        "You sum over the samples too: each has an output of its own.": weighed.sum() / count,
        "You return the class: return f itself.": right.sign(),
        "You take the mean over experts and patches: take the sum.": weighed.mean((1, 2)) / count,
        "You take the mean over the experts: take the sum.": right / gates.shape[1],
        **one_only("expert", weighed[:, 0].sum(1) / count, weighed[:, -1].sum(1) / count),
        **one_only("patch", weighed[..., 0].sum(1) / count, weighed[..., -1].sum(1) / count),
    }
    return Case((gates, values, count), right, about, mistakes)


def logistic(f: Tensor, y: Tensor) -> Tensor:
    """Computes the mean of log(1 + exp(-y f)) (eq. 2), for y = -1 or 1."""
    return softplus(-y * f).mean()


def check_logistic_loss(logistic_loss: object) -> Verdict:
    """Checks `logistic_loss(f, y)`: the mean over the samples of log(1 + exp(-y f)), y being -1 or 1."""
    f, y = torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1.0, 1.0, -1.0])
    (many,) = drawn(17, (9,))
    signs = torch.where(torch.arange(9) % 3 == 0, -1.0, 1.0).double()
    cases = [
        _loss_case("for f = [2, -1, 0.5] and y = [1, 1, -1]", f, y),
        _loss_case("for nine samples", many, signs),
        _loss_case("for f 1000 times as large", 1000 * many, signs),
    ]
    overflow = "exp(1000) is infinite: torch.nn.functional.softplus(z) is log(1 + exp(z)) for any z."
    praise = "Near 0 where a sample is safely right, about -y f where it is badly wrong."
    formula = "(1/B) sum over b of log(1 + exp(-y_b f_b))"
    return judge("logistic_loss", logistic_loss, cases, praise, formula, not_finite=overflow)


def _loss_case(about: str, f: Tensor, y: Tensor) -> Case:
    right = logistic(f, y)
    mistakes = {
        "The sign is wrong: a large y f is safely right, and must cost next to nothing.": softplus(y * f).mean(),
        "You sum over the samples: take the mean, so that the step does not grow with the batch.": right * len(f),
        "You return the loss of each sample: take the mean.": softplus(-y * f),
        "You left out the logarithm.": (1 + (-y * f).exp()).mean(),
        "You left out the 1: log(exp(z)) is z.": (-y * f).mean(),
        "This is the squared error.": (y - f).square().mean(),
        "This is the share of errors, whose gradient is 0 everywhere.": (y * f < 0).double().mean(),
        "This is the mean chance of an error: take its logarithm first.": (-y * f).sigmoid().mean(),
        "You take the logarithm after the mean: take it of each sample.": (1 + (-y * f).exp()).mean().log(),
        **one_only("sample", *(softplus(-y[b] * f[b]) for b in (0, -1))),
    }
    return Case((f, y), right, about, mistakes)


def check_sgd_step(sgd_step: object) -> Verdict:
    """Checks `sgd_step(weights, loss, rate)`: the weights after one step down the gradient that autograd finds.

    loss takes the weights and returns one number.
    """
    (weights,) = drawn(18, (3, 4))
    cases = [
        _sgd_case("for the loss w², w = 3 and rate 0.1", torch.tensor([3.0]), lambda w: w.square().sum(), 0.1),
        _sgd_case("for 12 weights", weights, lambda w: softplus(w @ w.T).mean(), 0.5),
    ]
    formula = "w - rate dL/dw"
    return judge("sgd_step", sgd_step, cases, "This is all that torch.optim.SGD does; you can do without it.", formula)


def _sgd_case(about: str, weights: Tensor, loss: Callable[[Tensor], Tensor], rate: float) -> Case:
    free = weights.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(free), free)
    mistakes = {
        "You go uphill: subtract the gradient.": weights + rate * gradient,
        "You left out the step size.": weights - gradient,
        "You return the gradient: return the new weights.": gradient,
        "You return the step: subtract it from the weights.": rate * gradient,
        "Your weights have not moved: return the new ones.": weights,
    }
    return Case((weights, loss, rate), weights - rate * gradient, about, mistakes)
