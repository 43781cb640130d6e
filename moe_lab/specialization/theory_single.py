"""Tests of theorem 4.1 of chen2022 and its proof: a function summed over patches has an error of at least 1/8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.findings import Finding, judged
from moe_lab.specialization.data import CENTER, FEATURE, FEATURE_NOISE, ClusterSamples, ClusterTask

PatchFunction = Callable[[Tensor], Tensor]
"""f of theorem 4.1: (rows, d) patches in float64 -> (rows,) values."""

ERROR_FLOOR = 1 / 8
_SIGNS = tuple(product((1, -1), repeat=2))
_ROUNDING = 1e-9  # relative to the largest |F|; outputs closer to 0 count as 0


def additive_output(f: PatchFunction, samples: ClusterSamples) -> Float[Tensor, "T N"]:
    """Computes F(x) = sum_p f(x^(p)), the form of theorem 4.1: a CNN with any activation, or a sum of CNNs.

    Raises:
      ValueError: f does not return one number per patch.
    """
    patches = samples.patches().double()
    rows = patches.flatten(0, 2)
    values = f(rows)
    require(
        values.shape == rows.shape[:1],
        "f must return one number for each of the patches, (rows, d) -> (rows,)",
        shape=tuple(values.shape),
        rows=len(rows),
    )
    return values.view(patches.shape[:3]).sum(-1)


def additive_accuracy(f: PatchFunction, samples: ClusterSamples) -> float:
    """Computes the share of samples with y F(x) > 0."""
    return float((samples.labels * additive_output(f, samples) > 0).double().mean())


def four_configurations(
    samples: ClusterSamples,
) -> tuple[ClusterSamples, ClusterSamples, ClusterSamples, ClusterSamples]:
    """Returns the four configurations of each sample that appendix B considers, with epsilon = -y.

    With y = +1: (alpha v_k, beta c_k, -gamma v_k') and (-alpha v_k, beta c_k, gamma v_k'), labels + and -; then
    (gamma v_k', beta c_k', -alpha v_k) and (-gamma v_k', beta c_k', alpha v_k), labels + and -. All have the same
    noise. They are equally likely if alpha and gamma have the same distribution.
    """
    sizes = samples.strengths.abs()
    swapped = replace(samples, clusters=samples.others, others=samples.clusters)

    def opposed(base: ClusterSamples, labels: Tensor, feature: int, feature_noise: int) -> ClusterSamples:
        strengths = (labels * sizes[..., feature], sizes[..., CENTER], -labels * sizes[..., feature_noise])
        return replace(base, labels=labels, strengths=torch.stack(strengths, dim=-1))

    y = samples.labels
    return (
        opposed(samples, y, FEATURE, FEATURE_NOISE),
        opposed(samples, -y, FEATURE, FEATURE_NOISE),
        opposed(swapped, y, FEATURE_NOISE, FEATURE),
        opposed(swapped, -y, FEATURE_NOISE, FEATURE),
    )


@dataclass(frozen=True)
class Symmetrised:
    """The margins y F(x) of the four configurations."""

    margins: Float[Tensor, "T N four"]

    @property
    def scale(self) -> float:
        return float(self.margins.abs().max())

    @property
    def largest_sum(self) -> float:
        """The largest |sum of four margins|; 0 up to rounding, because each f(patch) appears once with each sign."""
        return float(self.margins.sum(-1).abs().max())

    @property
    def wrong(self) -> Float[Tensor, "T N"]:
        """The number of each four that are wrong: y F(x) is 0 up to rounding, or negative."""
        return (self.margins <= _ROUNDING * self.scale).sum(-1).double()


def symmetrised(f: PatchFunction, samples: ClusterSamples) -> Symmetrised:
    """Computes the margins of appendix B's four configurations of each sample."""
    margins = [part.labels * additive_output(f, part) for part in four_configurations(samples)]
    return Symmetrised(torch.stack(margins, dim=-1))


def appendix_b(f: PatchFunction, task: ClusterTask, *, samples: int = 500, trial: int = 0, seed: int = 0) -> Finding:
    """Tests the two steps of the proof for any f and task: the four margins sum to 0, so at least one is wrong.

    Both are algebra and hold without assumptions. Only the bound 1/8 assumes that the four are equally likely.
    """
    four = symmetrised(f, task.sample(samples, trials=[trial], seed=seed, split="test", dtype=torch.float64))
    wrong, largest_sum = four.wrong, four.largest_sum
    true = bool((wrong >= 1).all()) and largest_sum <= _ROUNDING * max(four.scale, 1e-300)
    return Finding(
        "appendix B",
        judged(True, true),
        f"Of every four configurations with epsilon = -y at least {int(wrong.min())} is wrong, "
        f"{float(wrong.mean()):.2f} on average; their margins sum to at most {largest_sum:.1e} (largest margin "
        f"{four.scale:.2g}).",
        {"least wrong": float(wrong.min()), "mean wrong": float(wrong.mean()), "largest sum": largest_sum},
    )


def theorem_4_1(f: PatchFunction, task: ClusterTask, *, samples: int = 500, trial: int = 0, seed: int = 0) -> Finding:
    """Tests theorem 4.1 for one f: if alpha and gamma have the same distribution, the test error is at least 1/8.

    The error is averaged over all signs y and epsilon of every sample, and, if alpha and gamma have the same
    distribution, over the exchange of the two clusters. All these are equally likely, so that the bound then holds
    without sampling error.
    """
    sampled = task.sample(samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
    met = task.feature == task.feature_noise and task.imbalance == 1
    opposed = four_configurations(sampled)
    agreeing = [_agreeing(part) for part in opposed]
    versions = [*opposed, *agreeing] if met else [*opposed[:2], *agreeing[:2]]
    error = 1 - float(np.mean([additive_accuracy(f, part) for part in versions]))
    same, different = "have the same distribution", f"differ: alpha is in {task.feature}, gamma in {task.feature_noise}"
    if task.imbalance != 1:
        same = different = f"do not suffice: clusters are not equally likely (rho={task.imbalance:g})"
    return Finding(
        "theorem 4.1",
        judged(met, error >= ERROR_FLOOR - _ROUNDING),
        f"The test error is {error:.4f} in {len(versions)} versions of {samples} samples; the bound is 1/8. alpha and "
        f"gamma {same if met else different}.",
        {"test error": error, "bound": ERROR_FLOOR},
    )


def _agreeing(samples: ClusterSamples) -> ClusterSamples:
    """Returns the samples with the sign of epsilon reversed."""
    strengths = samples.strengths.clone()
    strengths[..., FEATURE_NOISE] *= -1
    return replace(samples, strengths=strengths)


def every_configuration(
    signals: Float[Tensor, "S d"], strengths: tuple[float, float, float] = (1.0, 1.0, 1.0)
) -> ClusterSamples:
    """Returns one sample for each (k, k', y, epsilon), 4 K (K - 1) in total, without noise patches.

    Signals are v_1 ... v_K, c_1 ... c_K, strengths alpha, beta and gamma.
    """
    kinds = len(signals) // 2
    rows = [(k, other, y, epsilon) for k, other in permutations(range(kinds), 2) for y, epsilon in _SIGNS]
    k, other, y, epsilon = (column[None] for column in torch.tensor(rows).T)
    alpha, beta, gamma = strengths
    sizes = torch.stack((alpha * y, beta * torch.ones_like(y), gamma * epsilon), dim=-1).to(signals.dtype)
    order = torch.arange(3).expand(1, len(rows), 3)
    noise = signals.new_zeros(1, len(rows), 0, signals.shape[1])
    return ClusterSamples(signals[None], y, k, other, sizes, noise, order)


def tight_classifier(signals: Float[Tensor, "S d"], *, answer: float = 2.0) -> PatchFunction:
    """Returns an f that attains theorem 4.1's 1/8: F is wrong for exactly one in eight (k, k', y, epsilon).

    f depends only on the direction of a patch: f(+-a v_k) = +-(G + g_k) and f(b c_k) = t_k for all a, b > 0, with
    g_k = -3^-k and t_k = 1.5 3^-k, k = 1 ... K; 0 for every other patch. If epsilon = y, the two label signals agree
    and G determines the sign. If epsilon = -y, the margins of a pair k' < k are D + t_k, D - t_k, t_k' - D and
    -t_k' - D with D = g_k - g_k'. Because t_k < 2 3^-k <= D < 3^-k' < t_k', only the last is negative.

    Hence the bound is attained for every distribution of alpha, beta and gamma that theorem 4.1 covers, not only for
    constants: for half of all samples, F is wrong on one configuration in four.

    >>> task = ClusterTask(feature=(1.0, 1.0), feature_noise=(1.0, 1.0))
    >>> signals = task.signals([0], seed=0)[0]
    >>> additive_accuracy(tight_classifier(signals), every_configuration(signals))
    0.875

    Departs from the paper: the theorem gives only the lower bound; this f shows that it is tight.

    Args:
      signals: v_1 ... v_K, c_1 ... c_K.
      answer: G, at least 1.
    """
    require(answer >= 1, "answer (G) must be at least 1, so that two agreeing signals determine the sign", G=answer)
    kinds = len(signals) // 2
    powers = 3.0 ** -torch.arange(1, kinds + 1, dtype=torch.float64)
    for_features, for_centers = answer - powers, 1.5 * powers
    unit = torch.nn.functional.normalize(signals.double(), dim=1)

    def f(patches: Tensor) -> Tensor:
        cosines = torch.nn.functional.normalize(patches.double(), dim=-1) @ unit.T
        directions = torch.where(cosines.abs() > 0.999, cosines.sign(), 0.0)
        feature, center = directions[..., :kinds], directions[..., kinds:].clamp(min=0)
        return feature @ for_features + center @ for_centers

    return f
