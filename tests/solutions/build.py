"""Solutions of notebook 12, and the wrong answers that its hints are for."""

from __future__ import annotations

import torch


def router_scores(patches, routers):
    return routers @ patches.transpose(1, 2)


def chosen(scores, count, dim):
    mask = torch.zeros_like(scores, dtype=torch.bool)
    return mask.scatter(dim, scores.topk(count, dim=dim).indices, True)


def softmax_gates(scores, mask, dim):
    return torch.softmax(torch.where(mask, scores, -torch.inf), dim)


def expert_outputs(patches, hidden, outputs):
    active = torch.relu(torch.einsum("khd,bnd->bknh", hidden, patches))
    return (active * outputs[:, None]).sum(-1)


def mixture(gates, values, count):
    return (gates * values).sum(dim=(1, 2)) / count


def logistic_loss(f, y):
    return torch.nn.functional.softplus(-y * f).mean()


def sgd_step(weights, loss, rate):
    free = weights.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(free), free)
    return weights - rate * gradient


def _gradient(weights, loss):
    return weights - sgd_step(weights, loss, 1.0)


def _along(scores, mask, dim):
    return torch.where(mask, scores, -torch.inf).softmax(dim).nan_to_num()


def _not_kept(scores, count, dim):
    mask = torch.zeros_like(scores, dtype=torch.bool)
    mask.scatter(dim, scores.topk(count, dim=dim).indices, True)
    return mask


WRONG = {
    "router_scores": {
        "Your axes are (sample, patch, expert)": lambda x, w: x @ w.T,
        "gates already": lambda x, w: router_scores(x, w).softmax(-1),
        "gives a cosine": lambda x, w: router_scores(x / x.norm(dim=2, keepdim=True), w / w.norm(dim=1, keepdim=True)),
        "average over the patches": lambda x, w: router_scores(x, w).mean(2),
        "mean over d": lambda x, w: (w[None, :, None] * x[:, None]).mean(-1),
        "add up the routers": lambda x, w: x @ w.sum(0),
    },
    "chosen": {
        "along the other axis": lambda scores, count, dim: chosen(scores, count, 1 if dim == -1 else -1),
        "along axis 1": lambda scores, count, dim: chosen(scores, count, 1),
        "along the last axis": lambda scores, count, dim: chosen(scores, count, -1),
        "smallest scores": lambda scores, count, dim: chosen(-scores, count, dim),
        "the places of the largest": lambda scores, count, dim: scores.topk(count, dim=dim).indices,
        "the largest scores themselves": lambda scores, count, dim: scores.topk(count, dim=dim).values,
        "the scores of the chosen": lambda scores, count, dim: torch.where(chosen(scores, count, dim), scores, 0),
        "those that are not chosen": lambda scores, count, dim: ~chosen(scores, count, dim),
        "a whole sample at once": lambda scores, count, dim: (
            scores >= scores.flatten(1).topk(count).values[:, -1, None, None]
        ),
        "`scatter` returns a new mask": _not_kept,
        "largest score alone": lambda scores, count, dim: chosen(scores, 1, dim),
    },
    "softmax_gates": {
        "over all scores: only": lambda scores, mask, dim: scores.softmax(dim),
        "sums to less than 1": lambda scores, mask, dim: scores.softmax(dim) * mask,
        "exp(0) = 1 still counts": lambda scores, mask, dim: (scores * mask).softmax(dim),
        "forgot to divide": lambda scores, mask, dim: scores.exp() * mask,
        "along the other axis": lambda scores, mask, dim: _along(scores, mask, 1 if dim == -1 else -1),
        "along axis 1": lambda scores, mask, dim: _along(scores, mask, 1),
        "along the last axis": lambda scores, mask, dim: _along(scores, mask, -1),
        "all equal": lambda scores, mask, dim: mask / mask.sum(dim, keepdim=True),
        "subtracts the largest": lambda scores, mask, dim: scores.exp() * mask / (scores.exp() * mask).sum(dim, True),
    },
    "expert_outputs": {
        "left out the ReLU": lambda x, w, a: torch.einsum("kh,khd,bnd->bkn", a, w, x),
        "left out the output weights": lambda x, w, a: expert_outputs(x, w, torch.ones_like(a)),
        "acts on the sum": lambda x, w, a: torch.einsum("kh,khd,bnd->bkn", a, w, x).relu(),
        "average over the neurons": lambda x, w, a: expert_outputs(x, w, a / a.shape[1]),
        "Your axes are (sample, patch, expert)": lambda x, w, a: expert_outputs(x, w, a).transpose(1, 2),
        "sum over the patches already": lambda x, w, a: expert_outputs(x, w, a).sum(2),
        "sum over the experts already": lambda x, w, a: expert_outputs(x, w, a).sum(1),
        "first neuron alone": lambda x, w, a: expert_outputs(x, w[:, :1], a[:, :1]),
        "last neuron alone": lambda x, w, a: expert_outputs(x, w[:, -1:], a[:, -1:]),
    },
    "mixture": {
        "left out 1/l": lambda gates, values, count: mixture(gates, values, 1),
        "divide by n": lambda gates, values, count: mixture(gates, values, gates.shape[2]),
        "left out the gates": lambda gates, values, count: mixture(torch.ones_like(gates), values, count),
        "count a patch fully": lambda gates, values, count: mixture(gates.ceil(), values, count),
        "over the patches alone": lambda gates, values, count: (gates * values).sum(2) / count,
        "over the experts alone": lambda gates, values, count: (gates * values).sum(1) / count,
        "over the samples too": lambda gates, values, count: mixture(gates, values, count).sum(),
        "return f itself": lambda gates, values, count: mixture(gates, values, count).sign(),
        "mean over experts and patches": lambda gates, values, count: (gates * values).flatten(1).mean(1) / count,
        "mean over the experts:": lambda gates, values, count: mixture(gates, values, count) / gates.shape[1],
        "first expert alone": lambda gates, values, count: mixture(gates[:, :1], values[:, :1], count),
        "last expert alone": lambda gates, values, count: mixture(gates[:, -1:], values[:, -1:], count),
        "first patch alone": lambda gates, values, count: mixture(gates[..., :1], values[..., :1], count),
        "last patch alone": lambda gates, values, count: mixture(gates[..., -1:], values[..., -1:], count),
    },
    "logistic_loss": {
        "The sign is wrong": lambda f, y: logistic_loss(-f, y),
        "You sum over the samples": lambda f, y: logistic_loss(f, y) * len(f),
        "the loss of each sample": lambda f, y: (1 + (-y * f).exp()).log(),
        "left out the logarithm": lambda f, y: (1 + (-y * f).exp()).mean(),
        "left out the 1": lambda f, y: -(y * f).mean(),
        "squared error": lambda f, y: ((f - y) ** 2).mean(),
        "share of errors": lambda f, y: (f.sign() != y).double().mean(),
        "mean chance of an error": lambda f, y: (1 / (1 + (y * f).exp())).mean(),
        "logarithm after the mean": lambda f, y: (1 + (-y * f).exp()).mean().log(),
        "first sample alone": lambda f, y: logistic_loss(f[:1], y[:1]),
        "last sample alone": lambda f, y: logistic_loss(f[-1:], y[-1:]),
        "softplus(z) is log(1 + exp(z))": lambda f, y: (1 + (-y * f).exp()).log().mean(),
    },
    "sgd_step": {
        "You go uphill": lambda w, loss, rate: sgd_step(w, loss, -rate),
        "left out the step size": lambda w, loss, rate: sgd_step(w, loss, 1.0),
        "return the gradient": lambda w, loss, rate: _gradient(w, loss),
        "return the step": lambda w, loss, rate: rate * _gradient(w, loss),
        "have not moved": lambda w, loss, rate: w,
    },
}
