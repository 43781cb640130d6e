"""The settings of a training, checked together before it starts."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from moe_lab.core.config import RunConfig, knob, require
from moe_lab.core.memory import Need
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.arrays import ArrayTask
from moe_lab.patch_routing.data import PatternTask, check_balance
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.own import OwnModel, check_own
from moe_lab.patch_routing.routed import RoutedMoE

Task = PatternTask | DigitTask | ArrayTask


class PatchRun(RunConfig):
    """One model on one task: everything that `train` needs to know, checked together.

    Raises:
      ConfigError: a value is out of bounds or the model does not fit the task (l > n, m not divisible by k, ...).
    """

    model: models.JointMoE | models.SeparateMoE | models.CNN | RoutedMoE | OwnModel
    task: PatternTask | DigitTask | ArrayTask
    samples: int = knob(200, symbol="N", meaning="training samples", ge=2, le=10**7, slider=(20, 1000, 20))
    trials: int = knob(5, symbol="T", meaning="independent trials", ge=1, le=10**6, slider=(1, 20, 1))
    epochs: int = knob(150, symbol="E", meaning="most passes over the data", ge=1, le=10**6)
    test_samples: int = knob(1000, symbol="N_test", meaning="test samples", ge=2, le=10**7)
    until: Literal["no error", "epochs"] = knob(
        "no error", meaning="what ends a trial: zero training error, or the epochs alone"
    )
    measure: Literal["every", "last"] = knob("every", meaning="which Snapshots are measured on test samples")

    @property
    def last_step(self) -> int:
        """The step after which every trial has ended."""
        return self.epochs * -(-self.samples // self.model.batch_size)

    @property
    def numbers_per_step(self) -> float:
        return float(self.trials * self._numbers_per_trial)

    @property
    def _numbers_per_trial(self) -> int:
        """The numbers of one trial's weights, gradients, steps and of the values of a batch."""
        model, n, classes = self.model, self.task.patches, self.task.classes
        pixels = {"digits": 64, "mnist": 784}  # what a task of digits would read from files
        d = pixels[self.task.source] if isinstance(self.task, DigitTask) else self.task.dimension
        experts = models.experts_of(model, classes)
        received, routers = getattr(model, "patches_per_expert", n) * experts, experts
        if isinstance(model, RoutedMoE):
            slots = experts * model.places(n) if model.routing == "soft" else 0
            step = (n + slots) * (2 * d + 6 * model.neurons) + n * (9 * slots + (9 + 3 * classes) * experts)
            routers = max(2 * experts, slots)
        elif isinstance(model, models.JointMoE | OwnModel):
            step = n * (2 * d + 3 * model.neurons + (3 * classes + 6) * experts)
        else:
            step = received * (d + 3 * model.neurons // experts)
        return 3 * (model.neurons + routers) * d + model.batch_size * step

    @property
    def memory(self) -> Need:
        """The memory needed on an accelerator: samples, weights, a step, and an evaluation in chunks."""
        model, n = self.model, self.task.patches
        all_at_once = isinstance(model, RoutedMoE | models.JointMoE | OwnModel)
        places = 0 if all_at_once else 2 * models.experts_of(model, self.task.classes) * n
        indices = (self.samples + self.test_samples) * (3 * n + 2 + places)
        return Need(per_trial=self.number_bytes * self._numbers_per_trial + 8 * indices, shared=2**29)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_own(self.model)
        models.check_model(self.model, self.task.patches, self.task.classes)
        check_balance(self.samples, self.task.classes)
        check_balance(self.test_samples, self.task.classes, name="test_samples", symbol="N_test")
        if isinstance(self.task, ArrayTask):
            self.task.check(self.samples, "train")
            self.task.check(self.test_samples, "test")
        rule = "batch_size (B) must be at most samples (N)"
        require(self.model.batch_size <= self.samples, rule, B=self.model.batch_size, N=self.samples)
        if isinstance(self.model, models.SeparateMoE) and self.model.router_samples is not None:
            rule = "router_samples (N_r) must be at most samples (N)"
            require(self.model.router_samples <= self.samples, rule, N_r=self.model.router_samples, N=self.samples)
            check_balance(self.model.router_samples, self.task.classes, name="router_samples", symbol="N_r")
        return self
