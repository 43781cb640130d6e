"""Theorem 4.1 of chen2022 and its proof, tried out: one function, summed over the patches, errs on an eighth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.config import require
from moe_lab.findings import Finding, judged
from moe_lab.specialization.data import CENTER, FEATURE, FEATURE_NOISE, ClusterTask, Samples

PatchFunction = Callable[[Tensor], Tensor]
"""f of theorem 4.1: (rows, d) patches in float64 -> (rows,) values."""

ERROR_FLOOR = 1 / 8
_ROUNDING = 1e-9  # of the largest |F|: an answer this close to 0 is none


def additive_output(f: PatchFunction, samples: Samples) -> Float[Tensor, "T N"]:
    """F(x) = sum_p f(x^(p)), the form of theorem 4.1: a CNN with any activation, or a sum of CNNs.

    Args:
      f: any function of single patches.
      samples: its `noise` may be empty.

    Raises:
      ValueError: f does not give one number a patch.
    """
    patches = samples.patches().double()
    rows = patches.flatten(0, 2)
    values = f(rows)
    require(
        values.shape == rows.shape[:1],
        "f must give one number for each of the patches, (rows, d) -> (rows,)",
        given=tuple(values.shape),
        rows=len(rows),
    )
    return values.view(patches.shape[:3]).sum(-1)


def additive_accuracy(f: PatchFunction, samples: Samples) -> float:
    """The share of samples with y F(x) > 0."""
    return float((samples.labels * additive_output(f, samples) > 0).double().mean())


def four_configurations(samples: Samples) -> tuple[Samples, Samples, Samples, Samples]:
    """The four samples that appendix B makes of each sample, epsilon = -y in all of them.

    With y = +1: (alpha v_k, beta c_k, -gamma v_k') and (-alpha v_k, beta c_k, gamma v_k'), labels + and -; then
    (gamma v_k', beta c_k', -alpha v_k) and (-gamma v_k', beta c_k', alpha v_k), labels + and -; the same noise in all.
    They are equally likely when alpha and gamma are drawn alike.
    """
    sizes = samples.strengths.abs()

    def made(labels: Tensor, swap: bool) -> Samples:
        first, second = (FEATURE_NOISE, FEATURE) if swap else (FEATURE, FEATURE_NOISE)
        strengths = torch.stack(
            (labels * sizes[..., first], sizes[..., CENTER], -labels * sizes[..., second]),
            dim=-1,
        )
        k, other = (samples.others, samples.clusters) if swap else (samples.clusters, samples.others)
        return replace(samples, labels=labels, clusters=k, others=other, strengths=strengths)

    y = samples.labels
    return made(y, False), made(-y, False), made(y, True), made(-y, True)


@dataclass(frozen=True)
class Symmetrised:
    """The margins y F(x) of the four configurations.

    Attributes:
      margins: (T, N, 4).
    """

    margins: Float[Tensor, "T N four"]

    @property
    def scale(self) -> float:
        return float(self.margins.abs().max())

    @property
    def largest_sum(self) -> float:
        """The largest |sum of four margins|; 0 but for rounding, because every f(patch) appears once with each sign."""
        return float(self.margins.sum(-1).abs().max())

    @property
    def wrong(self) -> Float[Tensor, "T N"]:
        """How many of each four are wrong: y F(x) is not above 0, or not by more than rounding."""
        return (self.margins <= _ROUNDING * self.scale).sum(-1).double()


def symmetrised(f: PatchFunction, samples: Samples) -> Symmetrised:
    """The margins of appendix B's four configurations of every sample."""
    four = [part.labels * additive_output(f, part) for part in four_configurations(samples)]
    return Symmetrised(torch.stack(four, dim=-1))


def appendix_b(f: PatchFunction, task: ClusterTask, *, samples: int = 500, trial: int = 0, seed: int = 0) -> Finding:
    """The proof's two steps for any f on any task: the four margins sum to 0, so at least one of each four is wrong.

    Both are algebra and need no assumption. That the four are equally likely, which makes an eighth of it, does.
    """
    found = symmetrised(f, task.sample(samples, trials=[trial], seed=seed, split="test", dtype=torch.float64))
    wrong, sums = found.wrong, found.largest_sum
    true = bool((wrong >= 1).all()) and sums <= _ROUNDING * max(found.scale, 1e-300)
    return Finding(
        "appendix B",
        judged(True, true),
        f"Of every four configurations with epsilon = -y at least {int(wrong.min())} is wrong, "
        f"{float(wrong.mean()):.2f} on average; their margins sum to at most {sums:.1e} (largest margin "
        f"{found.scale:.2g}).",
        {"least wrong": float(wrong.min()), "mean wrong": float(wrong.mean()), "largest sum": sums},
    )


def theorem_4_1(f: PatchFunction, task: ClusterTask, *, samples: int = 500, trial: int = 0, seed: int = 0) -> Finding:
    """Theorem 4.1 for one f: where alpha and gamma are drawn alike, the test error is at least 1/8.

    Counted over all signs y and epsilon of every drawn sample; where alpha and gamma are drawn alike, also over the
    exchange of the two clusters. All these are equally likely, and the bound then holds without any sampling error.
    """
    drawn = task.sample(samples, trials=[trial], seed=seed, split="test", dtype=torch.float64)
    met = task.feature == task.feature_noise
    opposed = four_configurations(drawn)
    agreeing = [_agreeing(part) for part in opposed]
    versions = [*opposed, *agreeing] if met else [*opposed[:2], *agreeing[:2]]
    error = 1 - float(np.mean([additive_accuracy(f, part) for part in versions]))
    alike = "alike" if met else f"differently, alpha from {task.feature} and gamma from {task.feature_noise}"
    return Finding(
        "theorem 4.1",
        judged(met, error >= ERROR_FLOOR - _ROUNDING),
        f"Test error {error:.4f} in {len(versions)} versions of {samples} samples against 1/8; alpha and gamma are "
        f"drawn {alike}.",
        {"test error": error, "bound": ERROR_FLOOR},
    )


def _agreeing(samples: Samples) -> Samples:
    """The same samples with epsilon turned round."""
    strengths = samples.strengths.clone()
    strengths[..., FEATURE_NOISE] *= -1
    return replace(samples, strengths=strengths)


def every_configuration(
    signals: Float[Tensor, "S d"], strengths: tuple[float, float, float] = (1.0, 1.0, 1.0)
) -> Samples:
    """Each (k, k', y, epsilon) once, without noise patches: 4 K (K - 1) samples that stand for the whole distribution.

    Args:
      signals: v_1 ... v_K, c_1 ... c_K, as `ClusterTask.signals` gives them.
      strengths: alpha, beta, gamma.
    """
    kinds = len(signals) // 2
    rows = [
        (k, other, y, epsilon)
        for k in range(kinds)
        for other in range(kinds)
        if other != k
        for y in (1, -1)
        for epsilon in (1, -1)
    ]
    k, other, y, epsilon = (column[None] for column in torch.tensor(rows).T)
    alpha, beta, gamma = strengths
    sizes = torch.stack((alpha * y, beta * torch.ones_like(y), gamma * epsilon), dim=-1).to(signals.dtype)
    order = torch.arange(3).expand(1, len(rows), 3)
    noise = signals.new_zeros(1, len(rows), 0, signals.shape[1])
    return Samples(signals[None], y, k, other, sizes, noise, order)


def tight_classifier(signals: Float[Tensor, "S d"], *, answer: float = 2.0) -> PatchFunction:
    """An f for which theorem 4.1's 1/8 is exact: F is right on every (k, k', y, epsilon) but one of each eight.

    f reads a patch's direction alone: f(+-a v_k) = +-(G + g_k) and f(b c_k) = t_k for all a, b > 0, with g_k = -3^-k
    and t_k = 1.5 3^-k, k = 1 ... K; 0 for every other patch. Where epsilon = y the two label signals agree and G
    decides. Where epsilon = -y the margins of a pair k' < k are D + t_k, D - t_k, t_k' - D and -t_k' - D with
    D = g_k - g_k'. Because t_k < 2 3^-k <= D < 3^-k' < t_k', only the last is negative.

    So the bound is attained for every distribution of alpha, beta and gamma that theorem 4.1 covers, not only for
    constants: in half of all samples F errs on one configuration in four.

    >>> task = ClusterTask(feature=(1.0, 1.0), feature_noise=(1.0, 1.0))
    >>> signals = task.signals([0], seed=0)[0]
    >>> additive_accuracy(tight_classifier(signals), every_configuration(signals))
    0.875

    Departs from the paper: the theorem gives the lower bound only; this is the other side of it.

    Args:
      signals: v_1 ... v_K, c_1 ... c_K.
      answer: G, at least 1.

    Raises:
      ValueError: answer is less than 1.
    """
    require(answer >= 1, "answer (G) must be at least 1, so that two signals that agree decide", G=answer)
    kinds = len(signals) // 2
    powers = 3.0 ** -torch.arange(1, kinds + 1, dtype=torch.float64)
    for_features, for_centers = answer - powers, 1.5 * powers
    unit = torch.nn.functional.normalize(signals.double(), dim=1)

    def f(patches: Tensor) -> Tensor:
        cosines = torch.nn.functional.normalize(patches.double(), dim=-1) @ unit.T
        known = torch.where(cosines.abs() > 0.999, cosines.sign(), 0.0)
        feature, center = known[..., :kinds], known[..., kinds:].clamp(min=0)
        return feature @ for_features + center @ for_centers

    return f
