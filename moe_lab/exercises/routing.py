"""Checks of notebook 01: which patches go to which experts, and with which gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from moe_lab.core import routing
from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge, show

# exp(score) of the worked example of notebook 01: one row a patch, one column an expert.
TABLE = np.array([[6.0, 1, 5], [3, 4, 3], [2, 4, 2], [1, 2, 1]])

LIVE = "To try it live: RoutingTable(powers, {})."
"""Said of a function that may route in the notebook's table, whose scores are `powers` there."""


def check_top_l(top_l: object) -> Verdict:
    """Checks `top_l(scores, count) -> (n,) bool`: True at the l largest scores; ties go to the lowest index."""
    rows = [
        ([1.0, 4.0, 2.0, 3.0, 0.5], 3),
        ([1.0, 4.0, 4.0, 2.0], 1),
        ([3.0, 3.0, 3.0, 3.0], 2),
        ([-3.0, -1.0, -2.0, -5.0], 3),
        (list(np.random.default_rng(1).normal(size=9)), 4),
    ]
    praise = f"Ties are broken by the lowest index, so every machine routes alike. {LIVE.format('top_l')}"
    formula = "kept_j = 1 where fewer than l scores are above score_j, or equal to it at a lower index"
    return judge("top_l", top_l, [_top_case(np.array(scores), count) for scores, count in rows], praise, formula)


def _top_case(scores: np.ndarray, count: int) -> Case:
    right = routing.top_mask(torch.from_numpy(scores), count).numpy()
    rising = scores.argsort(kind="stable")
    falling = (-scores).argsort(kind="stable")
    marked = np.zeros(len(scores), dtype=bool)
    smallest, late, one = marked.copy(), marked.copy(), marked.copy()
    smallest[rising[:count]] = True
    late[rising[len(scores) - count :]] = True
    one[falling[0]] = True
    ranks = falling.argsort(kind="stable")
    mistakes = {
        "You keep the smallest scores: sort in falling order.": smallest,
        "You keep more than l patches when scores are equal: a threshold alone is not enough, because equal scores "
        "all pass it.": scores >= scores[falling[count - 1]],
        "You give ties to the highest index: sort -scores with kind='stable', so that equal scores keep their order.": (
            late
        ),
        "You return the places of the patches: return a mask with True at these places.": falling[:count],
        "You return the l largest scores: return a mask of all n patches.": scores[falling[:count]],
        "You return ranks: keep the patches whose rank is below l.": ranks,
        "You keep the largest score alone: keep the l largest.": one,
        "You keep the first l patches, whatever their scores are.": np.arange(len(scores)) < count,
        "You leave out the l-th largest score and all that equal it: `>` keeps those above it only.": (
            scores > scores[falling[count - 1]]
        ),
    }
    return Case((scores, count), right, f"for scores {show(scores)} and l={count}", mistakes)


def check_gates(gates: object) -> Verdict:
    """Checks `gates(scores, kept) -> (n,)`: eq. 4 for one expert, zero at the patches that are not kept."""
    generator = np.random.default_rng(2)
    scores = [np.log([6.0, 3, 2, 1]), np.log([1.0, 4, 4, 2]), generator.normal(size=7), np.array([1000.0, 999, 0, -5])]
    masks = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1, 1, 0, 0], [1, 1, 0, 0]]
    cases = [_gates_case(row, np.array(mask, dtype=bool)) for row, mask in zip(scores, masks, strict=True)]
    praise = "The gates of an expert sum to 1 over the patches that it keeps. Eq. 4 as printed lacks an exponential."
    overflow = "exp(1000) is infinite: subtract the largest kept score first. The softmax does not change."
    formula = "G_j = exp(score_j) / sum of exp(score) over the kept patches, and 0 elsewhere"
    return judge("gates", gates, cases, praise, formula, not_finite=overflow)


def _gates_case(scores: np.ndarray, kept: np.ndarray) -> Case:
    tensor = torch.from_numpy(scores)
    right = tensor.masked_fill(~torch.from_numpy(kept), -torch.inf).softmax(-1).numpy()
    with np.errstate(all="ignore"):
        powers, kept_scores = np.exp(scores), scores * kept
        everywhere = tensor.softmax(-1).numpy()
        mistakes = {
            "Your gates sum to 1 over all patches: the softmax is over the kept patches only.": everywhere,
            "Your gates sum to less than 1: you divide by the sum over all patches, but eq. 4 sums over the kept "
            "patches only.": everywhere * kept,
            "This is eq. 4 as printed, with the sum of the scores below. The exponential is missing there: divide by "
            "the sum of exp(score), so that the gates sum to 1.": powers * kept / kept_scores.sum(),
            "Your gates are shares of the scores: take exp(score) above and below.": scores
            * kept
            / (scores * kept).sum(),
            "You set dropped scores to 0, and exp(0) = 1 still counts: set them to minus infinity.": (
                (tensor * torch.from_numpy(kept)).softmax(-1).numpy()
            ),
            "Dropped patches must have gate 0, and here they have not: multiply by the mask.": (
                powers / (powers * kept).sum()
            ),
            "You forgot to divide: the gates must sum to 1.": powers * kept,
            "You return the scores of the kept patches: take their softmax.": kept_scores,
            "Your gates are all equal: a patch with a higher score has a larger gate.": kept / kept.sum(),
            "Gate 1 for every kept patch is eq. 3, separate training. Here it is the softmax of eq. 4.": kept,
        }
    about = f"for scores {show(scores)} with kept {kept.astype(int).tolist()}"
    return Case((scores, kept), right, about, mistakes)


def check_token_choice(token_choice: object) -> Verdict:
    """Checks `token_choice(scores, count) -> (patches, experts)`: each patch picks its top experts."""
    table = np.log(TABLE)
    noise = np.random.default_rng(3).normal(size=(5, 4))
    cases = [_token_case(table, 2), _token_case(table, 1), _token_case(noise, 2), _token_case(noise, 3)]
    praise = f"No patch is dropped, but one expert may get all of them. {LIVE.format('token_choice')}"
    formula = "mask[j, s] = 1 where expert s is among the `count` largest scores of patch j"
    return judge("token_choice", token_choice, cases, praise, formula)


def _token_case(scores: np.ndarray, count: int) -> Case:
    tensor = torch.from_numpy(scores)
    mask, gates = routing.token_choice(tensor, count)
    right, everywhere = gates.numpy(), tensor.softmax(-1).numpy()
    columns = tensor.T.contiguous()
    _, of_expert = routing.expert_choice(columns[None, :, None], count)
    mistakes = {
        "Here the experts choose, column by column: in token-choice every row (a patch) picks its experts.": (
            of_expert[0, :, 0].T.numpy()
        ),
        "Your gates in a row sum to less than 1: the softmax is over the experts that the patch picks.": (
            everywhere * mask.numpy()
        ),
        "Every expert has a gate here: a patch goes only to the experts that it picks.": everywhere,
        "You return the mask: return the gates, 0 where the mask is False.": mask.numpy(),
        "Your softmax runs down the columns: the gates of one patch (a row) must sum to 1.": (
            tensor.masked_fill(~mask, -torch.inf).softmax(0).nan_to_num().numpy()
        ),
        "You give ties to the highest expert: equal scores go to the lowest index.": (
            routing.token_choice(tensor.flip(-1), count)[1].flip(-1).numpy()
        ),
        "Your result is transposed: one row a patch, one column an expert.": right.T,
        "You set the scores that are not picked to 0, and exp(0) = 1 still counts: set them to minus infinity.": (
            (tensor * mask).softmax(-1).numpy()
        ),
        "Your gates are all equal: a higher score has a larger gate.": mask.numpy() / count,
    }
    about = f"with {count} expert{'s' if count > 1 else ''} a patch and exp(scores) {show(np.exp(scores))}"
    return Case((scores, count), right, about, mistakes)


def check_switch(switch: object) -> Verdict:
    """Checks `switch(scores, noise) -> (samples, experts)`: argmax of score plus noise, gates noise-free."""
    generator = np.random.default_rng(4)
    table = np.log(TABLE)
    push = np.array([[0.0, 0, 1], [0, 0, 0], [3, 0, 0], [0, 0, 0]])
    cases = [
        _switch_case(table, np.zeros_like(table)),
        _switch_case(table, push),
        _switch_case(generator.normal(size=(6, 4)), generator.normal(size=(6, 4))),
    ]
    praise = f"Noise moves samples; the gate stays the softmax of the scores themselves. {LIVE.format('switch')}"
    formula = "m* = argmax (h_m + r_m); its gate is exp(h_m*) / sum over m of exp(h_m), the others are 0"
    return judge("switch", switch, cases, praise, formula)


def _switch_case(scores: np.ndarray, noise: np.ndarray) -> Case:
    tensor, push = torch.from_numpy(scores), torch.from_numpy(noise)
    mask, gates = routing.switch(tensor, push)
    right = gates.numpy()
    mistakes = {
        "The noise does not change your choice: take the argmax of score plus noise.": routing.switch(tensor)[
            1
        ].numpy(),
        "Your gate contains the noise: choose with it, then take the softmax of the scores alone.": (
            ((tensor + push).softmax(-1) * mask).numpy()
        ),
        "Your gate is 1: take the softmax over all experts, then keep the chosen one. A gate of 1 has no gradient.": (
            mask.numpy()
        ),
        "Every expert has a gate here: switch keeps one expert a sample.": tensor.softmax(-1).numpy(),
        "You return the expert's number: return one row a sample with its gate in that expert's column.": (
            mask.int().argmax(-1).numpy()
        ),
        "You return one gate a sample: put it into the column of its expert, 0 elsewhere.": gates.sum(-1).numpy(),
        "Your softmax runs down the columns: the scores of one sample are a row.": (tensor.softmax(0) * mask).numpy(),
    }
    about = f"for exp(scores) {show(np.exp(scores))} and noise {show(noise)}"
    return Case((scores, noise), right, about, mistakes)


# The tiny model of notebook 01: n=4 patches of 2 numbers, k=2 experts with one neuron each, l=2. f(x) = 1/3.
TINY: dict[str, Any] = {
    "patches": np.array([[1.0, 0], [0, 1], [2, 1], [0, -1]]),
    "routers": np.array([[np.log(2), 0], [0, np.log(3)]]),
    "neurons": np.array([[[1.0, 0]], [[2.0, -3]]]),
    "outputs": np.array([[1.0], [-2.0]]),
    "count": 2,
}


def check_output(output: object) -> Verdict:
    """Checks `output(patches, routers, neurons, outputs, count) -> f(x)`: eq. 1 with the gates of eq. 4.

    Shapes: patches (n, d), routers (k, d), neurons (k, m/k, d), outputs (k, m/k).
    """
    generator = np.random.default_rng(5)
    shapes = ((6, 3), (3, 3), (3, 2, 3), (3, 2))
    x, w, v, a = (generator.normal(size=shape) for shape in shapes)
    cases = [
        _output_case("for the tiny model", **TINY),
        _output_case("for a random model with n=6, k=3, l=4", x, w, v, a, 4),
        _output_case("for a random model with n=6, k=3, l=1", x, w, v, a, 1),
    ]
    praise = "This is the whole forward pass of pMoE: route, gate, ReLU, weigh, sum."
    formula = "f(x) = sum over s and r of (a_sr / l) sum over j kept by s of G_sj ReLU(<w_sr, x_j>)"
    return judge("output", output, cases, praise, formula)


def _output_case(about: str, patches: Any, routers: Any, neurons: Any, outputs: Any, count: int) -> Case:
    scores = routers @ patches.T
    tensor = torch.from_numpy(scores)
    mask, gates = (part[0, :, 0].numpy() for part in routing.expert_choice(tensor[None, :, None], count))
    everywhere = tensor.softmax(-1).numpy()
    products = np.einsum("srd,nd->srn", neurons, patches)
    active = np.maximum(products, 0)

    def each(values: np.ndarray, weights: np.ndarray, pooled: float = count) -> np.ndarray:
        return np.asarray(np.einsum("sr,srn,sn->srn", outputs / pooled, values, weights))

    def summed(values: np.ndarray, weights: np.ndarray, pooled: float = count) -> float:
        return float(each(values, weights, pooled).sum())

    n, parts = len(patches), each(active, gates)  # of f, by expert, neuron and patch
    right = summed(active, gates)
    best = routing.expert_choice(tensor[None, :, None], 1)[0][0, :, 0].numpy()
    pooled_first = np.maximum(np.einsum("srn,sn->sr", products, gates), 0)
    mistakes = {
        "You left out 1/l: eq. 1 weighs each neuron with a/l.": summed(active, gates, 1),
        "You divide by n, as the authors' code does: eq. 1 divides by l.": summed(active, gates, n),
        "You left out the ReLU.": summed(products, gates),
        "You left out the gates: with G = 1 this is eq. 3, separate training.": summed(active, mask),
        "You sum over all patches: an expert sees only the l patches that it scores highest.": summed(
            active, everywhere
        ),
        "Your softmax is over all patches: it is over the kept patches only.": summed(active, everywhere * mask),
        "You apply the ReLU after summing over the patches: it acts on every patch first.": (
            float((outputs / count * pooled_first).sum())
        ),
        "You left out the output weights a.": float(np.einsum("srn,sn->", active, gates) / count),
        "You return sign(f): return f itself.": float(np.sign(right)),
        "You take the mean over the experts: eq. 1 adds them up.": right / len(routers),
        "You take the mean over the neurons of an expert: eq. 1 adds them up.": right / outputs.shape[1],
        "You use each expert's best patch alone: it keeps l of them.": summed(active, best),
        "You return one number an expert: add them up.": parts.sum((1, 2)),
        **one_only("expert", parts[0].sum(), parts[-1].sum()),
        **one_only("neuron of each expert", parts[:, 0].sum(), parts[:, -1].sum()),
    }
    return Case((patches, routers, neurons, outputs, count), right, about, mistakes)
