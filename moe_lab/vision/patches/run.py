"""The settings of a training, checked together before it starts."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from moe_lab.vision.patches.data import QuadrantTask, VehiclesTask
from moe_lab.vision.patches.model import WRN, PatchWRN
from moe_lab.vision.run import ImageRun

Task = QuadrantTask | VehiclesTask


class PatchImageRun(ImageRun):
    """One model on one task: everything that `train` needs to know, checked together.

    Raises:
      ConfigError: a value is out of bounds or the model does not fit the task's images (l > n, ...).
    """

    model: PatchWRN | WRN
    task: QuadrantTask | VehiclesTask

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.model.check(self.task.image)
        return self
