"""The settings of a fine-tuning, checked together before it starts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from moe_lab.core.config import RunConfig, knob, require
from moe_lab.core.memory import Need
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.initialization import PlantedStart, Start, check_start
from moe_lab.pruning.model import TokenMoE


class TokenRun(RunConfig):
    """A layer fine-tuned on a task from a checkpoint, by SGD on fresh samples (pruning2024, algorithm 1).

    Raises:
      ConfigError: a value is out of bounds, an expert is to keep more tokens than there are, or the start cannot be
        made for the model.
    """

    model: TokenMoE
    task: TokenTask
    start: Start = knob(PlantedStart(), meaning="the checkpoint that is fine-tuned")
    steps: int = knob(110, symbol="T", meaning="fine-tuning steps", ge=1, le=10**7, slider=(10, 300, 10))
    batch: int = knob(50, symbol="B", meaning="fresh samples in a step", ge=1, le=10**6, slider=(10, 200, 10))
    trials: int = knob(8, meaning="independent trials", ge=1, le=10**6, slider=(1, 20, 1))
    test_samples: int = knob(1000, symbol="n_test", meaning="test samples", ge=1, le=10**7)
    measure: Literal["every", "last"] = knob("every", meaning="which Snapshots are measured on test samples")

    @property
    def numbers_per_step(self) -> float:
        model, d = self.model, self.task.patterns
        weights = model.experts * d * (model.neurons + 2)
        return float(self.trials * (weights + self.batch * (self._gates + 2 * d)))

    @property
    def _gates(self) -> int:
        """Numbers of a sample's routing."""
        model = self.model
        return 5 * model.experts * self.task.patterns if model.routing == "expert-choice" else 2 * model.experts

    @property
    def memory(self) -> Need:
        """The memory needed on an accelerator, where steps search all patterns and one block has all test samples."""
        model, d, n = self.model, self.task.patterns, self.task.tokens
        weights = model.experts * d * (model.neurons + 2)
        most = max(self.batch, self.test_samples)
        numbers = 4 * weights + most * (self._gates + 2 * d)
        return Need(per_trial=self.number_bytes * numbers + 8 * (n + 1) * most, shared=2**26)

    @property
    def last_step(self) -> int:
        """Where training stops."""
        return self.steps

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rule = "top (l) must be at most tokens (n) where experts choose"
        fits = self.model.routing == "token-choice" or self.model.top <= self.task.tokens
        require(fits, rule, l=self.model.top, n=self.task.tokens)
        check_start(self.start, self.model, self.task)
        return self
