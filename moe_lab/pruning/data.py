"""Samples of orthonormal tokens, one of which decides the class (pruning2024, section 4.2).

A sample holds n tokens, each one of d orthonormal patterns. Exactly one of them is task-specific: o_1 in class +1, o_2
in class -1. The others are irrelevant patterns q, sampled with replacement and alike in both classes. Because the
patterns are orthonormal, a token is determined by its pattern's number, and a sample by the counts of its patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.graphs import to_device
from moe_lab.core.trials import Draw, drawn, stream, tensor_of


@dataclass(frozen=True)
class TokenSamples:
    """Samples of some trials.

    Attributes:
      tokens: (trials, N, n) the number of each token's pattern.
      labels: (trials, N) y, -1 or +1.
      patterns: d, the number of patterns.
    """

    tokens: Int[Tensor, "trials N n"]
    labels: Float[Tensor, "trials N"]
    patterns: int

    def __len__(self) -> int:
        return int(self.labels.shape[1])

    def counts(self, into: Tensor | None = None) -> Float[Tensor, "trials d N"]:
        """Counts how often each pattern occurs in each sample; the counts of a sample sum to n.

        Args:
          into: a tensor to write to, at least as large, because allocating memory takes longer than counting.
        """
        trials, samples, _ = self.tokens.shape
        size = trials * self.patterns * samples
        counts = self.labels.new_zeros(size) if into is None else into.view(-1)[:size].zero_()
        rows = self.patterns * torch.arange(trials, device=self.tokens.device)[:, None, None] + self.tokens
        index = rows.mul_(samples).add_(torch.arange(samples, device=rows.device)[:, None]).view(-1)
        counts.scatter_add_(0, index, counts.new_ones(1).expand_as(index))
        return counts.view(trials, self.patterns, samples)

    def on(self, device: torch.device | str, dtype: torch.dtype) -> TokenSamples:
        """Returns the samples on a device, with labels of this precision."""
        return TokenSamples(to_device(self.tokens, device), to_device(self.labels, device, dtype), self.patterns)

    def only(self, begin: int, end: int) -> TokenSamples:
        """Returns samples begin ... end-1 of every trial."""
        return TokenSamples(self.tokens[:, begin:end], self.labels[:, begin:end], self.patterns)


class TokenTask(Config):
    """Classification of samples by one of their n tokens (pruning2024, section 4.2).

    Departs from the paper: it assumes that every irrelevant pattern occurs in a sample with probability O(1/d), but its
    own experiment has n=100 tokens of d=200 patterns, where each occurs with probability .4. Here n and d are free.

    Raises:
      ConfigError: a value is out of bounds, or the task's two patterns are not among the d.
    """

    patterns: int = knob(
        200, symbol="d", meaning="orthonormal patterns, and numbers in a token", ge=3, le=65536, slider=(50, 400, 10)
    )
    tokens: int = knob(100, symbol="n", meaning="tokens in a sample", ge=2, le=65536, slider=(10, 200, 5))
    zipf: float = knob(
        0.0, symbol="z", meaning="irrelevant patterns: the i-th has frequency i^-z", ge=0, le=4, slider=(0.0, 1.5, 0.1)
    )
    pair: int = knob(0, meaning="number of the task: its patterns o_1, o_2 are number 2 pair and 2 pair + 1", ge=0)

    paper: ClassVar[str] = "pruning2024, section 4.2"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        rule = "pair must be less than half of the patterns (d), and at least one pattern must be irrelevant"
        require(2 * self.pair + 2 <= self.patterns, rule, pair=self.pair, d=self.patterns)
        return self

    @property
    def specific(self) -> tuple[int, int]:
        """The indices of the task-specific patterns o_1 and o_2."""
        return 2 * self.pair, 2 * self.pair + 1

    @property
    def irrelevant(self) -> np.ndarray:
        """(d - 2,) the indices of the irrelevant patterns."""
        return np.delete(np.arange(self.patterns), self.specific)

    @property
    def frequencies(self) -> np.ndarray:
        """(d - 2,) the share of each irrelevant pattern among the irrelevant tokens; sums to 1."""
        weights = np.arange(1, self.patterns - 1, dtype=float) ** -self.zipf
        return weights / weights.sum()

    def vectors(self, trials: Sequence[int], seed: int) -> Float[Tensor, "trials d d"]:
        """Returns the patterns as rows: a random orthonormal basis for every trial, in float64."""
        bases = []
        for trial in trials:
            gaussian = stream(seed, trial, "patterns").standard_normal((self.patterns, self.patterns))
            basis, triangle = np.linalg.qr(gaussian)
            bases.append((basis * np.sign(np.diag(triangle))).T)
        return torch.as_tensor(np.stack(bases))

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: str = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> TokenSamples:
        """Returns the first N samples of a split ("train", "post", "test", "validation", ...) for each trial.

        Raises:
          ValueError: samples is less than 1, or there is no trial.
        """
        require(len(trials) >= 1, "trials must name at least one trial", trials=list(trials))
        wanted = self.draws(samples, split)
        return self.made(drawn(wanted, trials, seed)["tokens"]).on(device, dtype)

    def draws(self, samples: int, split: str) -> dict[str, Draw]:
        """Returns the raw numbers of which `made` makes samples of a split.

        Raises:
          ValueError: samples is less than 1.
        """
        require(samples >= 1, "samples (N) must be at least 1", N=samples)
        return {"tokens": Draw(f"{split}/tokens", (samples, self.tokens + 1))}

    def made(self, raw: Float[Tensor, "trials N n_and_1"]) -> TokenSamples:
        """Makes the samples that raw numbers, uniform in [0, 1), determine: a pure function of them.

        Of the n + 1 numbers of a sample the first determines its class, the second the position of o_1 or o_2, and the
        others the irrelevant tokens. The one in that position moves to the end; it is overwritten if it is the last.
        """
        first, position = raw[..., :1] < 0.5, (raw[..., 1:2] * tensor_of(self, "tokens")).long()
        ranks = self._ranks(raw[..., 2:])
        ranks = torch.cat((ranks, ranks[..., :1]), dim=2)  # any in the last place, for now
        others = torch.where(ranks < 2 * self.pair, ranks, ranks + 2)  # the irrelevant patterns: all but o_1 and o_2
        others = torch.cat((others[..., :-1], others.gather(2, position)), dim=2)
        one, two = self.specific
        tokens = others.scatter(2, position, torch.where(first, one, two))
        return TokenSamples(tokens, torch.where(first[..., 0], 1.0, -1.0).to(raw), self.patterns)

    def _ranks(self, uniform: Tensor) -> Tensor:
        """Returns ranks of irrelevant patterns, 0 being the most frequent."""
        last = self.patterns - 3
        if self.zipf == 0:
            return (uniform * (tensor_of(self, "patterns") - 2)).long().clamp(max=last)
        borders = torch.from_numpy(self.frequencies.cumsum()).to(uniform.device)
        return torch.bucketize(uniform.contiguous(), borders, right=True).clamp(max=last)


class SampleStream:
    """An endless stream of samples. Those of trial i depend neither on the other trials nor on the sizes of the calls.

    Args:
      trials: numbers of the trials; a trial that is listed several times gets the same samples each time.

    Raises:
      ValueError: there is no trial.
    """

    def __init__(
        self,
        task: TokenTask,
        *,
        trials: Sequence[int],
        seed: int,
        split: str = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        require(len(trials) >= 1, "trials must name at least one trial", trials=list(trials))
        self.task, self._device, self._dtype = task, device, dtype
        self._seed, self._split, self._numbers = seed, split, list(dict.fromkeys(trials))
        self._order = [self._numbers.index(trial) for trial in trials]

    @cached_property
    def _streams(self) -> list[np.random.Generator]:
        """The random streams of the trials."""
        return [stream(self._seed, trial, f"{self._split}/tokens") for trial in self._numbers]

    def sample(self, samples: int) -> TokenSamples:
        """Returns the next samples of every trial.

        Raises:
          ValueError: samples is less than 1.
        """
        draw = self.task.draws(samples, self._split)["tokens"]
        raw = np.stack([draw.of(random) for random in self._streams])
        made = self.task.made(torch.from_numpy(raw)).on(self._device, self._dtype)
        if len(self._order) == len(self._streams):
            return made
        return TokenSamples(made.tokens[self._order], made.labels[self._order], self.task.patterns)
