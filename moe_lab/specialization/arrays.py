"""The user's own samples in place of generated ones: vectors with a label and a cluster each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from pydantic import field_validator, model_validator
from torch import Tensor

from moe_lab.core.arrays import (
    ArrayConfig,
    check_counted,
    check_lengths,
    held_out_count,
    samples_array,
    split_order,
)
from moe_lab.core.config import knob, require
from moe_lab.core.numbers import integer_array
from moe_lab.specialization.data import ClusterSamples, Split

_SIGNALS = 3  # the patches of a generated sample that are signals: here there are none, and their strengths are 0


class ArrayTask(ArrayConfig):
    """Samples from arrays, such as embeddings of sentences with their sentiment and language (chen2022, A.4).

    Each trial divides the samples at random into training and test samples. The clusters are not shown to the model;
    measures use them alone. Samples are divided by the root mean square norm of the patches of a trial's training
    samples (`norm`), so that their unit is of no account; filters, routers and their measures belong to samples so
    divided.

    Clusters of the user's need not be clusters for a router: embeddings that were trained to agree across languages,
    as multilingual sentence embeddings are, show no language clusters, and the dispatch ignores languages.

    >>> from moe_lab.specialization import ArrayTask, SwitchMoE, train
    >>> embeddings = np.random.default_rng(0).normal(size=(300, 16))  # your own embeddings, labels and clusters
    >>> task = ArrayTask(x=embeddings, y=np.sign(embeddings[:, 0]), cluster=np.arange(300) % 3)
    >>> run = train(SwitchMoE(), task, samples=200, test_samples=60, trials=2, steps=20)
    >>> entropies = [snapshot["dispatch_entropy"] for snapshot in run]

    Args:
      x: (samples, d), or (samples, patches, d), in any unit.
      y: (samples,) -1 or +1.
      cluster: (samples,) counted from 0 without a gap; None if there are none.
      test_share: the share of test samples.

    Raises:
      ConfigError: the arrays do not fit together, or contain other values.
    """

    x: Any = knob(..., meaning="samples, one per row")
    y: Any = knob(..., meaning="labels, -1 or +1")
    cluster: Any = knob(None, meaning="cluster of each sample")
    test_share: float = knob(0.25, meaning="share of test samples", gt=0, lt=1)

    paper: ClassVar[str] = "chen2022, appendix A.4"
    scale: ClassVar[float] = 1.0  # see `norm`

    @field_validator("x")
    @classmethod
    def _patches(cls, x: Any) -> np.ndarray:
        array = samples_array(x, "x must be an array (samples, d) or (samples, patches, d)", (2, 3))
        return array[:, None] if array.ndim == 2 else array

    @field_validator("y", "cluster")
    @classmethod
    def _whole_numbers(cls, values: Any, info: Any) -> np.ndarray | None:
        return integer_array(str(info.field_name), values)

    @model_validator(mode="after")
    def _fit(self) -> Self:
        require(self.y is not None, "y must be an array", y=self.y)
        check_lengths(x=self.x, y=self.y, cluster=self.cluster)
        require(set(np.unique(self.y).tolist()) == {-1, 1}, "y must hold -1 and +1", y=np.unique(self.y)[:5].tolist())
        if self.cluster is not None:
            check_counted("cluster", self.cluster)
        return self

    @property
    def clusters(self) -> int:
        """K, the number of clusters."""
        return 1 if self.cluster is None else int(self.cluster.max()) + 1

    @property
    def dimension(self) -> int:
        """d, the numbers in a patch."""
        return int(self.x.shape[2])

    @property
    def patches(self) -> int:
        """The number of patches for which computations reserve memory."""
        return int(self.x.shape[1]) + _SIGNALS

    def signals(self, trials: Sequence[int], seed: int) -> Float[Tensor, "trials S d"]:
        """Returns the mean of y x and of x in each cluster as unit vectors, in place of v_k and c_k."""
        total, means = (self.x / np.abs(self.x).max()).sum(1), np.zeros((2, self.clusters, self.dimension))
        for k in range(self.clusters):
            rows = slice(None) if self.cluster is None else self.cluster == k
            means[:, k] = (self.y[rows, None] * total[rows]).mean(0), total[rows].mean(0)
        flat = means.reshape(-1, self.dimension)
        unit = torch.as_tensor(flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12))
        return unit.expand(len(trials), -1, -1)

    def divided(self, trial: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of a trial's training samples and of its test samples, in its own order."""
        order, tests = split_order(seed, trial, len(self.x)), held_out_count(self.test_share, len(self.x))
        return order[tests:], order[:tests]

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
        """Returns the first N training or test samples of each trial's own division.

        Raises:
          ValueError: there are fewer.
        """
        tests = held_out_count(self.test_share, len(self.x))
        there = tests if split == "test" else len(self.x) - tests
        name, symbol = ("samples", "n") if split == "train" else ("test_samples", "n_test")
        rule = f"{name} ({symbol}) must be at most the {split} samples there are, {there}"
        require(1 <= samples <= there, rule, **{symbol: samples})
        divided = [self.divided(trial, seed) for trial in trials]
        rows = np.stack([(tested if split == "test" else trained)[:samples] for trained, tested in divided])
        cluster = np.zeros(len(self.x), dtype=np.int64) if self.cluster is None else self.cluster
        integers: dict[str, Any] = {"device": device, "dtype": torch.int64}
        numbers: dict[str, Any] = {"device": device, "dtype": dtype}
        x = [
            torch.as_tensor(self.in_unit(*pair), **numbers)
            for pair in zip(rows, (one for one, _ in divided), strict=True)
        ]
        return ClusterSamples(
            signals=self.signals(trials, seed).to(**numbers),
            labels=torch.as_tensor(self.y[rows], **integers),
            clusters=torch.as_tensor(cluster[rows], **integers),
            others=torch.as_tensor(cluster[rows], **integers),
            strengths=torch.zeros((*rows.shape, _SIGNALS), **numbers),
            noise=torch.stack(x),
            order=torch.arange(self.patches, **integers).expand(*rows.shape, -1),
        )
