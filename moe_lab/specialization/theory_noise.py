"""Tests of appendix C of chen2022: noise on the router's scores makes routing smooth (lemma 5.1).

A sharper bound than the paper's: with delta = |h - h^|_inf and Z the largest noisy score of the other experts, expert m
wins if r_m >= Z - h_m. Changing h to h^ changes the right-hand side by at most 2 delta, and r_m is independent of it,
so

    |p_m - p^_m| <= max P(r_m in an interval of length 2 delta) <= 2 kappa delta        for every number of experts M.

For uniform noise, h = 0 and h^_m = delta, h^_m' = -delta, the ratio tends to 2 kappa as delta -> 0, so no smaller
constant is possible. The paper's kappa M^2 comes from a union bound over pairs; it is never attained for M >= 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from moe_lab.core.config import require
from moe_lab.core.findings import Finding, judged
from moe_lab.core.numbers import finite_array

Scores = Float[np.ndarray, " M"]
_ROUNDING = 1e-9


@dataclass(frozen=True)
class UniformNoise:
    """r ~ Unif[low, high]; the paper's is Unif[0, 1]. Its density is at most kappa = 1 / (high - low) (remark C.2)."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        require(self.high > self.low, "high must be greater than low", low=self.low, high=self.high)

    @property
    def density_bound(self) -> float:
        return 1 / (self.high - self.low)

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return generator.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class GaussianNoise:
    """r ~ N(0, sigma^2). Its density is at most kappa = 1 / (sigma sqrt(2 pi)) (remark C.2)."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        require(self.sigma > 0, "sigma must be greater than 0", sigma=self.sigma)

    @property
    def density_bound(self) -> float:
        return float(1 / (self.sigma * np.sqrt(2 * np.pi)))

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return generator.normal(0, self.sigma, shape)


Noise = UniformNoise | GaussianNoise
PAPER_NOISE = UniformNoise()


def routing_probabilities(scores: Scores, noise: Noise = PAPER_NOISE) -> Scores:
    """Computes p_m = P(argmax(h + r) = m) for independent r.

    p_m is the integral over the winning score s of the density of h_m + r_m at s times the probability that all other
    scores are below s. For uniform noise the integrand is a polynomial in s between break points, so that
    Gauss-Legendre quadrature is exact; for Gaussian noise the error with 400 nodes is below 1e-10.

    >>> routing_probabilities(np.array([0.0, 0.0, 0.0, 0.0])).round(12)
    array([0.25, 0.25, 0.25, 0.25])
    >>> routing_probabilities(np.array([0.5, 0.0])).round(12)  # 1 - (1 - .5)^2 / 2
    array([0.875, 0.125])

    Args:
      scores: h, (M,).
      noise: distribution of r, independent for each expert.

    Raises:
      ValueError: a score is not finite.
    """
    h = finite_array("scores (h)", scores)
    require(h.ndim == 1 and len(h) >= 1, "scores (h) must be an array (M,)", shape=h.shape)
    if isinstance(noise, UniformNoise):
        ends = np.concatenate((h + noise.low, h + noise.high))
        breaks = np.unique(ends[ends >= h.max() + noise.low])  # below, no score can be the largest
        count = (len(h) + 1) // 2
    else:
        breaks = np.linspace(h.min() - 10 * noise.sigma, h.max() + 10 * noise.sigma, 21)
        count = 20
    nodes, weights = np.polynomial.legendre.leggauss(count)
    half = np.diff(breaks) / 2
    s = ((breaks[:-1] + half)[:, None] + half[:, None] * nodes).ravel()
    density, below = _density(s - h[:, None], noise)
    weights = (half[:, None] * weights).ravel()
    others = np.stack([np.delete(below, m, axis=0).prod(axis=0) for m in range(len(h))])
    return np.asarray((density * others) @ weights)


def _density(r: Float[np.ndarray, "M nodes"], noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Returns the density of the noise at r, and the probability that it is below r."""
    if isinstance(noise, UniformNoise):
        quantile = (r - noise.low) * noise.density_bound
        return np.where((quantile >= 0) & (quantile <= 1), noise.density_bound, 0.0), quantile.clip(0, 1)
    return noise.density_bound * np.exp(-0.5 * (r / noise.sigma) ** 2), ndtr(r / noise.sigma)


def lemma_c_1(scores: Scores, other: Float[np.ndarray, " same"], noise: Noise = PAPER_NOISE) -> Finding:
    """Tests lemma C.1 (lemma 5.1 for other noise), |p - p^|_inf <= kappa M^2 |h - h^|_inf, and the sharper 2 kappa.

    Raises:
      ValueError: h and h^ have different lengths or are equal.
    """
    rule = "scores (h) and other (h^) must have the same length and differ"
    require(len(scores) == len(other) and bool((scores != other).any()), rule, h=scores, other=other)
    moved = float(np.abs(scores - other).max())
    change = float(np.abs(routing_probabilities(scores, noise) - routing_probabilities(other, noise)).max())
    paper, sharp = noise.density_bound * len(scores) ** 2, 2 * noise.density_bound
    return Finding(
        "lemma C.1",
        judged(True, change <= paper * moved + _ROUNDING),
        f"|p - p^| = {change:.4g} is {change / moved:.4g} times |h - h^| = {moved:.4g}; the lemma allows {paper:.4g} "
        f"times, the sharper bound {sharp:.4g} times.",
        {"change": change, "moved": moved, "ratio": change / moved, "bound": paper, "sharper bound": sharp},
    )


def lemma_c_3(scores: Scores, noise: Noise = PAPER_NOISE) -> Finding:
    """Tests lemma C.3, |p_m - p_m'| <= kappa M^2 |h_m - h_m'| for all pairs: similar scores, similar probabilities."""
    h, p = finite_array("scores (h)", scores), routing_probabilities(scores, noise)
    gaps, changes = np.abs(h[:, None] - h), np.abs(p[:, None] - p)
    bound = noise.density_bound * len(h) ** 2
    ratios = changes[gaps > 0] / gaps[gaps > 0]
    worst, equal = float(ratios.max(initial=0)), float(changes[gaps == 0].max())
    return Finding(
        "lemma C.3",
        judged(True, bool((changes <= bound * gaps + _ROUNDING).all())),
        f"|p_m - p_m'| is at most {worst:.4g} times |h_m - h_m'|; the lemma allows {bound:.4g} times. "
        f"Equal scores differ by {equal:.1e} in p.",
        {"ratio": worst, "bound": bound, "difference of equals": equal},
    )


def lemma_c_4(scores: Scores, noise: Noise = PAPER_NOISE) -> Finding:
    """Tests lemma C.4: an expert whose score is below the largest by the range of the noise or more gets no sample."""
    h = finite_array("scores (h)", scores)
    noise_range = noise.high - noise.low if isinstance(noise, UniformNoise) else np.inf
    below = h <= h.max() - noise_range
    if not below.any():
        reason = f"No score is {noise_range:.4g} below the largest."
        if np.isinf(noise_range):
            reason = "Gaussian noise has no range."
        return Finding("lemma C.4", "assumption not met", reason, {"beaten": 0.0})
    largest = float(routing_probabilities(h, noise)[below].max())
    return Finding(
        "lemma C.4",
        judged(True, largest <= _ROUNDING),
        f"{int(below.sum())} of {len(h)} experts are at least {noise_range:.4g} below the largest score; the largest "
        f"probability among them is {largest:.1e}.",
        {"beaten": float(below.sum()), "largest probability": largest},
    )


class Worst(NamedTuple):
    """The largest |p - p^| / |h - h^| found by a search, and its scores."""

    ratio: float
    scores: Scores
    other: Scores


def worst_ratio(experts: int, *, tries: int = 300, seed: int = 0, noise: Noise = PAPER_NOISE) -> Worst:
    """Searches for the largest |p - p^|_inf / |h - h^|_inf of lemma 5.1: random restarts, then random hill climbing.

    Every h^ - h is delta times a vector of signs, because the largest change for a given |h - h^|_inf is at a corner.
    Measured with 300 tries, seed 0 and Unif[0, 1]: 1.998 for M = 2, 2.000 for M = 3, 4, 8 and 16 (the lemma allows 4
    to 256), always where the largest scores are nearly equal and one of them rises and the others fall, or vice versa.

    Raises:
      ValueError: experts is less than 2 (with one expert p = 1), or tries less than 1.
    """
    require(experts >= 2, "experts (M) must be at least 2", M=experts)
    require(tries >= 1, "tries must be at least 1", tries=tries)
    generator, scale = np.random.default_rng(seed), 1 / noise.density_bound
    best, best_signs = Worst(-1.0, np.zeros(experts), np.zeros(experts)), np.ones(experts)
    for attempt in range(tries):
        if attempt < tries // 4:
            h = scale * generator.uniform(-0.6, 0.6, experts)
            signs = generator.choice([-1.0, 1.0], experts)
        else:
            h = best.scores + scale * 10 ** generator.uniform(-3, -0.5) * generator.normal(size=experts)
            signs = np.where(generator.random(experts) < 1 / experts, -best_signs, best_signs)
        other = h + scale * 10 ** generator.uniform(-4, -1) * signs
        ratio = lemma_c_1(h, other, noise)["ratio"]
        if ratio > best.ratio:
            best, best_signs = Worst(ratio, h, other), signs
    return best
