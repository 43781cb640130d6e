"""Everything that a fine-tuning needs to know, checked together before it starts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from moe_lab.config import RunConfig, knob, require
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.initialization import PlantedStart, Start, check_start
from moe_lab.pruning.model import TokenMoE
from moe_lab.trials import Precision


class Run(RunConfig):
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
    first_trial: int = knob(0, meaning="number of the first trial", ge=0, le=2**31)
    seed: int = knob(0, symbol="seed", meaning="seed of all random streams", ge=0, le=2**63, slider=(0, 99, 1))
    test_samples: int = knob(1000, symbol="n_test", meaning="test samples", ge=1, le=10**7)
    record_every: int = knob(10, meaning="steps from one Snapshot to the next", ge=1, le=10**9)
    measure: Literal["every", "last"] = knob("every", meaning="which Snapshots are measured on test samples")
    device: str = knob("auto", meaning="where to compute: auto, cpu, cuda, cuda:N or mps")
    precision: Precision = knob("float32", meaning="float32 or float64")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rule = "top (l) must be at most tokens (n) where experts choose"
        fits = self.model.routing == "token-choice" or self.model.top <= self.task.tokens
        require(fits, rule, l=self.model.top, n=self.task.tokens)
        check_start(self.start, self.model, self.task)
        return self

    @property
    def trial_numbers(self) -> list[int]:
        return list(range(self.first_trial, self.first_trial + self.trials))
