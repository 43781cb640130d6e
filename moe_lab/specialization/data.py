"""Samples from clusters, each with its own label signal (chen2022, definition 3.1).

A sample of cluster k consists of its label signal y alpha v_k, its cluster center beta c_k, the label signal of another
cluster with a random sign, epsilon gamma v_k', and P - 3 patches of Gaussian noise, in a random order. Only the center
indicates which of the two label signals determines the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.trials import Draw, drawn

ROLES = ("feature", "center", "feature noise", "random noise")
FEATURE, CENTER, FEATURE_NOISE, RANDOM_NOISE = range(4)
Split = Literal["train", "test"]
Range = tuple[float, float]


@dataclass(frozen=True)
class ClusterSamples:
    """Samples of many trials, stored as the components of their patches.

    Attributes:
      signals: (trials, 2K, d) orthonormal: v_1 ... v_K, then c_1 ... c_K.
      labels: (trials, N) y, -1 or +1.
      clusters: (trials, N) k, from 0.
      others: (trials, N) k', the cluster whose label signal is the feature noise.
      strengths: (trials, N, 3) the factors of v_k, c_k and v_k': y alpha, beta, epsilon gamma (all times the scale).
      noise: (trials, N, P - 3, d) the patches of random noise (times the scale).
      order: (trials, N, P) the patch at each position, an index into (feature, center, feature noise, noise ...).
    """

    signals: Float[Tensor, "trials S d"]
    labels: Int[Tensor, "trials N"]
    clusters: Int[Tensor, "trials N"]
    others: Int[Tensor, "trials N"]
    strengths: Float[Tensor, "trials N 3"]
    noise: Float[Tensor, "trials N Q d"]
    order: Int[Tensor, "trials N P"]

    def __len__(self) -> int:
        return int(self.labels.shape[1])

    @property
    def kinds(self) -> int:
        """K, the number of clusters."""
        return self.signals.shape[1] // 2

    @property
    def roles(self) -> Int[Tensor, "trials N P"]:
        """The role of each patch, an index into ROLES."""
        return self.order.clamp(max=RANDOM_NOISE)

    @property
    def directions(self) -> Int[Tensor, "trials N 3"]:
        """The row of `signals` that each of the three strengths multiplies."""
        return torch.stack((self.clusters, self.clusters + self.kinds, self.others), dim=-1)

    def signal_patches(self) -> Float[Tensor, "trials N 3 d"]:
        """Returns the feature, center and feature noise patches of every sample."""
        trials = torch.arange(len(self.labels), device=self.labels.device)[:, None, None]
        return self.strengths[..., None] * self.signals[trials, self.directions]

    def patches(self) -> Float[Tensor, "trials N P d"]:
        """Returns the patches of every sample in their random order. Allocates trials * N * P * d numbers."""
        unshuffled = torch.cat((self.signal_patches(), self.noise), dim=2)
        return unshuffled.gather(2, self.order[..., None].expand(*self.order.shape, unshuffled.shape[-1]))


class ClusterTask(Config):
    """Clusters whose label signals are noise in the samples of other clusters (chen2022, definition 3.1).

    The defaults are setting 3 of the paper, in which alpha and gamma have the same distribution, as theorem 4.1
    assumes; `ClusterTask.setting(1)` ... `setting(4)` are those of section 6.1 and appendix A.2.

    Raises:
      ConfigError: a value is out of bounds, or there are more signals than dimensions.
    """

    clusters: int = knob(4, symbol="K", meaning="clusters, each with its own label signal", ge=2, slider=(2, 8, 1))
    patches: int = knob(4, symbol="P", meaning="patches in a sample", ge=3, le=1024, slider=(3, 12, 1))
    dimension: int = knob(50, symbol="d", meaning="numbers in a patch", ge=4, le=4096, slider=(16, 100, 2))
    feature: Range = knob((0.5, 2.0), symbol="alpha", meaning="range of the label signal's strength")
    center: Range = knob((1.0, 2.0), symbol="beta", meaning="range of the cluster center's strength")
    feature_noise: Range = knob((0.5, 2.0), symbol="gamma", meaning="range of the feature noise's strength")
    noise: float = knob(
        1.0, symbol="sigma_p", meaning="random noise, length of a noise patch", ge=0, le=1e3, slider=(0.0, 5.0, 0.25)
    )
    imbalance: float = knob(
        1.0, symbol="rho", meaning="share of a cluster over that of the next", ge=1, le=100, slider=(1.0, 4.0, 0.25)
    )
    scale: float = knob(1.0, meaning="all patches are multiplied by this (the authors' code: 10)", gt=0, le=1e6)
    one_data_set: bool = knob(False, meaning="every trial draws trial 0's samples, as the authors' ten runs do")

    paper: ClassVar[str] = "chen2022, definition 3.1"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        rule = "dimension (d) must be at least 2 clusters (K), so that all signals can be orthogonal"
        require(self.dimension >= 2 * self.clusters, rule, d=self.dimension, K=self.clusters)
        for name, symbol in (("feature", "alpha"), ("center", "beta"), ("feature_noise", "gamma")):
            low, high = getattr(self, name)
            rule = f"{name} ({symbol}) must be a range (low, high) with 0 < low <= high <= 1e6"
            require(0 < low <= high <= 1e6, rule, **{symbol: (low, high)})
        return self

    @classmethod
    def setting(cls, number: int) -> Self:
        """Returns the task of setting 1, 2, 3 or 4 of the paper (section 6.1 and appendix A.2).

        Raises:
          ValueError: number is not 1, 2, 3 or 4.
        """
        require(number in (1, 2, 3, 4), "setting must be 1, 2, 3 or 4", setting=number)
        return cls(feature_noise=(0.5, 3.0) if number <= 2 else (0.5, 2.0), noise=2.0 if number % 2 == 0 else 1.0)

    @property
    def shares(self) -> np.ndarray:
        """(K,) the probability of each cluster, all equal in the paper."""
        shares = float(self.imbalance) ** -np.arange(self.clusters)
        return np.asarray(shares / shares.sum())

    def signals(self, trials: Sequence[int], seed: int) -> Float[Tensor, "trials S d"]:
        """Returns v_1 ... v_K, c_1 ... c_K of each trial, random orthonormal vectors in float64."""
        return _orthonormal(self._signal_draw.by_trial(self._data_trials(trials), seed))

    @property
    def _signal_draw(self) -> Draw:
        return Draw("signals", (self.dimension, 2 * self.clusters), "normal")

    def _data_trials(self, trials: Sequence[int]) -> list[int]:
        """The trials whose streams the data of some trials come from."""
        return [0 if self.one_data_set else trial for trial in trials]

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: Split = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> ClusterSamples:
        """Generates N samples per trial; the samples of one trial do not depend on the other trials.

        Raises:
          ValueError: samples is less than 1.
        """
        require(samples >= 1, "samples (N) must be at least 1", N=samples)
        require(len(trials) >= 1, "trials must name at least one trial", trials=list(trials))
        made = self.made(drawn(self.draws(samples, split), self._data_trials(trials), seed))
        there = {field.name: getattr(made, field.name).to(device) for field in fields(made)}
        return ClusterSamples(**{n: part.to(dtype) if part.is_floating_point() else part for n, part in there.items()})

    def draws(self, samples: int, split: Split) -> dict[str, Draw]:
        """Returns the raw numbers of a trial: a stream for each part, so that fewer samples are a prefix of more."""
        parts = ("clusters", "others", "labels", "sign", "feature", "center", "feature noise")
        return {
            **{part: Draw(f"{split}/{part}", (samples,)) for part in parts},
            "order": Draw(f"{split}/order", (samples, self.patches)),
            "noise": Draw(f"{split}/noise", (samples, self.patches - 3, self.dimension), "normal"),
            "signals": self._signal_draw,
        }

    def made(self, raw: Mapping[str, Tensor]) -> ClusterSamples:
        """Makes the samples that raw numbers (trial, ...) determine, a pure function of them."""
        k = self.clusters

        def between(part: str, bounds: Range) -> Tensor:
            return bounds[0] + (bounds[1] - bounds[0]) * raw[part]

        def one_of(part: str, count: int) -> Tensor:
            return (raw[part] * count).long().clamp(max=count - 1)

        def sign(part: str) -> Tensor:
            return torch.where(raw[part] < 0.5, -1, 1)

        clusters, labels = one_of("clusters", k), sign("labels")
        if self.imbalance != 1:
            borders = torch.from_numpy(self.shares.cumsum()[:-1]).to(clusters.device)
            clusters = torch.bucketize(raw["clusters"], borders, right=True)
        feature, center = labels * between("feature", self.feature), between("center", self.center)
        strengths = torch.stack((feature, center, sign("sign") * between("feature noise", self.feature_noise)), dim=2)
        return ClusterSamples(
            signals=_orthonormal(raw["signals"]),
            labels=labels,
            clusters=clusters,
            others=(clusters + 1 + one_of("others", k - 1)) % k,
            strengths=strengths * self.scale,
            noise=raw["noise"] * (self.noise * self.scale / self.dimension**0.5),
            order=raw["order"].sort(dim=2, stable=True).indices,
        )


def _orthonormal(gaussian: Float[Tensor, "trials d S"]) -> Float[Tensor, "trials S d"]:
    """Returns random orthonormal vectors, whose signs do not depend on the algorithm of the decomposition."""
    basis, triangular = torch.linalg.qr(gaussian)
    return (basis * triangular.diagonal(dim1=1, dim2=2).sign()[:, None]).mT.contiguous()
