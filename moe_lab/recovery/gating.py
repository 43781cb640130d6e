"""Softmax against sigmoid gates: the error of the experts' parameters against the number of samples.

    y = sum_i G_i(x) <a_i, x> + sigma xi,   G = softmax(<w_i, x> + b_i)   or   G_i = sigmoid(<w_i, x> + b_i)

The regressors a_i, the gates w_i and the inputs are those of `MixtureTask`. Contrary to eq. 1 of gridlock2019, y is the
mixture's mean and not the output of one expert, because Nguyen et al. 2024 state their rates for this regression. Both
kinds of gates generate data from the same parameters, and each is fitted to its own data by least squares (Levenberg
and Marquardt) from the truth, slightly perturbed, so that the error is that of estimation and not of a bad optimum. The
model may have more experts than the truth; one that is too many begins as a copy of a true one.

Source: Nguyen, Ho and Rinaldo, Sigmoid gating is more sample efficient than softmax gating in mixture of experts,
NeurIPS 2024, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.grid import checked_axes
from moe_lab.core.origins import origin
from moe_lab.core.trials import stream
from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.em import ridged, solved

Gate = Literal["softmax", "sigmoid"]
GATES: tuple[Gate, ...] = get_args(Gate)
ITERATIONS = 90
"""Of Levenberg and Marquardt. With the right number of experts 25 are enough; with one too many the minimum is so flat
that a rate still moves by .1 from 25 to 90."""
START = 0.05
"""Standard deviation of the perturbation of every parameter with which a fit begins."""
_MEANINGS = {
    "expert_error": "root mean square distance of the true experts to the nearest estimates",
    "prediction_error": "root mean square error of the fitted mean at other inputs",
}


class Mixture(NamedTuple):
    """A mixture's parameters."""

    regressors: Float[Tensor, "T k d"]
    gates: Float[Tensor, "T k d"]
    biases: Float[Tensor, "T k"]


def gate_weights(mixture: Mixture, x: Float[Tensor, "T N d"], gate: str) -> Float[Tensor, "T N k"]:
    """Computes G_i(x): a softmax over the experts, or a sigmoid of each alone.

    Raises:
      ValueError: the kind of gates is unknown.
    """
    require(gate in GATES, f"gate must be one of {', '.join(GATES)}", gate=gate)
    scores = x @ mixture.gates.mT + mixture.biases[:, None]
    return scores.softmax(2) if gate == "softmax" else scores.sigmoid()


def mean_of(mixture: Mixture, x: Float[Tensor, "T N d"], g: Activation, gate: str) -> Float[Tensor, "T N"]:
    """Computes sum_i G_i(x) g(<a_i, x>)."""
    return (gate_weights(mixture, x, gate) * g(x @ mixture.regressors.mT)).sum(2)


def jacobian(
    mixture: Mixture, x: Float[Tensor, "T N d"], g: Activation, gate: str
) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N P"]]:
    """Computes the mean and its derivatives by all regressors, all gates and all biases, P = k (2 d + 1)."""
    weights = gate_weights(mixture, x, gate)
    value, slope = g.with_slope(x @ mixture.regressors.mT)
    mean = (weights * value).sum(2)
    by_score = weights * (value - mean[..., None]) if gate == "softmax" else weights * (1 - weights) * value
    columns = torch.cat((weights * slope, by_score), dim=2)[..., None] * x[:, :, None]
    return mean, torch.cat((columns.flatten(2), by_score), dim=2)


def fit(
    start: Mixture, x: Float[Tensor, "T N d"], y: Float[Tensor, "T N"], g: Activation, gate: str, iterations: int
) -> Mixture:
    """Minimises mean (y - mean(x))^2 by Levenberg and Marquardt; a step that raises it is not taken."""
    now, damping = start, torch.full_like(y[:, :1], 1e-3)
    error = (y - mean_of(now, x, g, gate)).square().mean(1, keepdim=True)
    for _ in range(iterations):
        mean, slopes = jacobian(now, x, g, gate)
        gram = slopes.mT @ slopes / x.shape[1]
        pull = (slopes.mT @ (y - mean)[..., None])[..., 0] / x.shape[1]
        damped = gram + torch.diag_embed(damping * gram.diagonal(dim1=1, dim2=2).clamp_min(1e-9))
        tried = _moved(now, solved(ridged(damped), pull))
        after = (y - mean_of(tried, x, g, gate)).square().mean(1, keepdim=True)
        better = after <= error
        now = Mixture(*(torch.where(better.view(-1, *[1] * (new.ndim - 1)), new, old)
                        for new, old in zip(tried, now, strict=True)))  # fmt: skip
        error = torch.where(better, after, error)
        damping = torch.where(better, damping / 4, damping * 4).clamp(1e-12, 1e9)
    return now


def _moved(mixture: Mixture, step: Float[Tensor, "T P"]) -> Mixture:
    trials, k, d = mixture.regressors.shape
    a, w, b = step.split((k * d, k * d, k), dim=1)
    return Mixture(mixture.regressors + a.view(trials, k, d), mixture.gates + w.view(trials, k, d), mixture.biases + b)


def with_copies(truth: Mixture, experts: int) -> Mixture:
    """Returns the truth with its first experts copied until there are `experts`; two copies have biases lower by log 2.

    They share a softmax's weight exactly, and a sigmoid's nearly, where it is small.
    """
    k = truth.regressors.shape[1]
    index = torch.arange(experts) % k
    copies = torch.bincount(index, minlength=k).to(truth.biases)[index]
    return Mixture(truth.regressors[:, index], truth.gates[:, index], truth.biases[:, index] - copies.log())


def expert_error(found: Mixture, truth: Mixture) -> Float[np.ndarray, " T"]:
    """Computes the root mean square over the true regressors of the distance to the nearest estimate.

    An estimate that nobody needs does no harm: it may be a copy, or stand where its gate is 0.
    """
    nearest = torch.cdist(truth.regressors, found.regressors).amin(2)
    return nearest.square().mean(1).sqrt().numpy()


@reproducible()
@checked
def gating_rates(
    samples: Sequence[int] = (500, 1000, 2000, 4000, 8000),
    fitted: Sequence[int] = (2, 3),
    trials: int = 20,
    seed: int = 0,
    *,
    task: MixtureTask | None = None,
    last_gate: str = "random",
    iterations: int = ITERATIONS,
) -> xr.Dataset:
    """Measures how fast the experts are found with either kind of gates, with as many experts as there are or more.

    Args:
      samples: the values of n.
      fitted: numbers of experts of the fitted model, at least those of the task.
      trials: independent truths and samples.
      task: in place of `MixtureTask(dimension=4, noise=0.3)`, which has two experts.
      last_gate: "random", a gate of length R as all others have, or "zero", as in `MixtureTask`. A softmax depends on
        the differences of gates alone; a sigmoid of 0 is 1/2 everywhere, and then a linear expert cannot be told from
        its gate.
      iterations: of each fit.

    Returns:
      expert_error(gate, fitted, samples, trial), see the function of that name; prediction_error, the root mean square
      of the fitted mean against the true one at 2,000 other inputs; and rate(gate, fitted): minus the slope of the log
      of the median expert_error against log n, which is .5 where errors fall as n^(-1/2).

    Raises:
      ValueError: fewer fitted experts than true ones, fewer than two values of n, or another last_gate.
    """
    task = MixtureTask(dimension=4, noise=0.3) if task is None else task
    checked_axes({"fitted": fitted, "samples": samples})
    require(min(fitted) >= task.experts, "fitted must be at least experts (k)", fitted=min(fitted), k=task.experts)
    require(len(samples) >= 2, "samples must have at least two values, for a rate", samples=tuple(samples))
    require(last_gate in ("random", "zero"), "last_gate must be 'random' or 'zero'", last_gate=last_gate)
    values = {name: np.empty((len(GATES), len(fitted), len(samples), trials)) for name in _MEANINGS}
    for i, gate in enumerate(GATES):
        for j, experts in enumerate(fitted):
            for n, count in enumerate(samples):
                point = _Point(task, gate, experts, count, trials, seed, last_gate, iterations)
                for name, value in _errors(point).items():
                    values[name][i, j, n] = value
    data = xr.Dataset(
        {name: (("gate", "fitted", "samples", "trial"), value, {"long_name": _MEANINGS[name]})
         for name, value in values.items()},
        {
            "gate": list(GATES),
            "fitted": ("fitted", list(fitted), {"long_name": "experts of the fitted model"}),
            "samples": ("samples", list(samples), {"long_name": "n, samples"}),
        },
    )  # fmt: skip
    middle = np.log(np.median(values["expert_error"], axis=3)).reshape(-1, len(samples))
    slopes = np.polyfit(np.log(np.array(samples, dtype=float)), middle.T, 1)[0].reshape(len(GATES), len(fitted))
    data["rate"] = (("gate", "fitted"), -slopes, {"long_name": "exponent of 1/n"})
    config = {"name": "MixtureTask", **task.model_dump(mode="json")}
    paper = "Nguyen et al. 2024, section 2"
    data.attrs = origin(call="", config=config, seed=seed, device="cpu", paper=paper, settled={"task": task})
    return data


def truth_of(task: MixtureTask, trials: int, seed: int, last_gate: str) -> Mixture:
    """Returns the true parameters: those of `MixtureTask`, with a last gate of length R unless it is to be zero."""
    parameters = task.parameters(range(trials), seed)
    gates = parameters.gates.clone()
    if last_gate == "random":
        last = _normal(gates[:, -1], trials, seed, "last gate")
        gates[:, -1] = task.gate_norm * torch.nn.functional.normalize(last, dim=-1)
    return Mixture(parameters.regressors, gates, torch.zeros_like(gates[..., 0]))


class _Point(NamedTuple):
    """A point of the grid; the attributes are arguments of `gating_rates`."""

    task: MixtureTask
    gate: str
    experts: int
    samples: int
    trials: int
    seed: int
    last_gate: str
    iterations: int


def _errors(point: _Point) -> dict[str, np.ndarray]:
    """The errors (trial,) of one point of the grid."""
    task, gate, numbers, seed = point.task, point.gate, range(point.trials), point.seed
    x, test = (task.sample(count, trials=numbers, seed=seed, split=split).x
               for count, split in ((point.samples, "train"), (2000, "test")))  # fmt: skip
    g, truth = task.g, truth_of(task, point.trials, seed, point.last_gate)
    noise = np.stack([stream(seed, trial, "gating/noise").standard_normal(point.samples) for trial in numbers])
    y = mean_of(truth, x, g, gate) + task.noise * torch.from_numpy(noise)
    begin = with_copies(truth, point.experts)
    start = Mixture(*(part + START * _normal(part, point.trials, seed, name) for name, part in begin._asdict().items()))
    found = fit(start, x, y, g, gate, point.iterations)
    wrong = (mean_of(found, test, g, gate) - mean_of(truth, test, g, gate)).square().mean(1).sqrt()
    return {"expert_error": expert_error(found, truth), "prediction_error": wrong.numpy()}


def _normal(part: Tensor, trials: int, seed: int, name: str) -> Tensor:
    shape = part.shape[1:]
    return torch.from_numpy(np.stack([stream(seed, t, f"gating/{name}").standard_normal(shape) for t in range(trials)]))
