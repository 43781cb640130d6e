"""The settings of a training, checked together before it starts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from moe_lab.core.config import RunConfig, knob, require
from moe_lab.core.memory import Need
from moe_lab.specialization.arrays import ArrayTask
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.layer import rows_of
from moe_lab.specialization.model import SingleExpert, SwitchMoE
from moe_lab.specialization.topk import TopKMoE

__all__ = ["ClusterRun", "ClusterTask", "Model"]

Model = SwitchMoE | SingleExpert | TopKMoE


class ClusterRun(RunConfig):
    """One model on one task: everything that `train` needs to know, checked together.

    Raises:
      ConfigError: a value is out of bounds, a task without a signal basis is to be computed in one, or filters
        have biases on an ArrayTask.
    """

    model: SwitchMoE | SingleExpert | TopKMoE
    task: ClusterTask | ArrayTask
    samples: int = knob(2000, symbol="n", meaning="training samples", ge=1, le=10**7, slider=(200, 16000, 200))
    trials: int = knob(5, symbol="T", meaning="independent trials", ge=1, le=10**6, slider=(1, 20, 1))
    steps: int | None = knob(
        None, meaning="training steps (none: where the model stops by default)", ge=1, le=10**7, slider=(50, 1000, 50)
    )
    test_samples: int = knob(2000, symbol="n_test", meaning="test samples", ge=1, le=10**7)
    measure: Literal["every", "last"] = knob("every", meaning="which Snapshots are measured on test samples")
    signal_basis: bool | None = knob(None, meaning="compute in the signal basis (none: wherever it can be)")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        own = [name for name in ("initial", "forward", "route") if hasattr(type(self.model), name)]
        rule = (
            "the steps of this room are written for its own experts and router, which a subclass must not define anew"
        )
        require(not own, rule, model=type(self.model).__name__, defines=own)
        rows_of(self.model.activation, self.model.biases, self.signal_basis)
        rule = "filters must have no biases on an ArrayTask"  # they would answer the missing signal patches, too
        require(not isinstance(self.task, ArrayTask) or not self.model.biases, rule, biases=self.model.biases)
        return self

    @property
    def numbers_per_step(self) -> float:
        stored, passing = self._numbers_per_sample
        return float(self.trials * self.samples * (stored + passing))

    @property
    def _numbers_per_sample(self) -> tuple[int, int]:
        """Numbers of a sample that are kept, and that a step computes of it."""
        model, patches, d = self.model, self.task.patches, self.task.dimension
        experts = getattr(model, "experts", 1) + getattr(model, "shared", 0)
        kind = rows_of(model.activation, model.biases, self.signal_basis)
        rows = {"none": 0, "noise": patches - 3, "all": patches}[kind]
        drawn = patches * d if kind == "all" else (patches - 3) * d  # the rows themselves if they are the noise
        stored = drawn + d + (rows * d if kind == "all" else 3 * self.task.clusters)
        passing = (4 * rows + 1) * experts * model.filters + 8 * experts  # products, values, slopes, weighted slopes
        return stored, passing

    @property
    def memory(self) -> Need:
        """The memory needed on an accelerator, where all experts compute all samples."""
        stored, passing = self._numbers_per_sample
        experts = getattr(self.model, "experts", 1) + getattr(self.model, "shared", 0)
        count, patches = self.samples + self.test_samples, self.task.patches
        numbers = count * stored + max(self.samples, self.test_samples) * passing
        ahead = 64 * self.trials * experts * self.samples if getattr(self.model, "router_noise", 0) else 0
        return Need(per_trial=self.number_bytes * numbers + 8 * count * (patches + 3), shared=4 * min(2**24, ahead))

    @property
    def last_step(self) -> int:
        """Where training stops."""
        return self.model.steps if self.steps is None else self.steps

    @property
    def why_it_stops(self) -> str:
        """Why it stops there, in words."""
        if self.steps is not None:
            return f"after the {self.steps} steps asked for"
        return f"after {self.last_step} steps, the default: {self.model.why_it_stops}"
