"""The settings of a training, checked together before it starts."""

from __future__ import annotations

from typing import Any

from moe_lab.core.config import knob
from moe_lab.vision.rotation.data import CifarRotateTask, TurnTask
from moe_lab.vision.rotation.model import Mixture, ResNet18, SmallCNN
from moe_lab.vision.run import ImageRun

Task = TurnTask | CifarRotateTask


class TurnRun(ImageRun):
    """One model on one task: everything that `train` needs to know, checked together.

    Raises:
      ConfigError: a value is out of bounds.
    """

    model: SmallCNN | ResNet18 | Mixture
    task: TurnTask | CifarRotateTask
    samples: int = knob(2000, symbol="N", meaning="training samples", ge=2, le=10**6, slider=(200, 4000, 200))
    epochs: int = knob(30, symbol="E", meaning="passes over the data", ge=1, le=10**5, slider=(1, 50, 1))
    test_samples: int = knob(600, symbol="N_test", meaning="test samples", ge=2, le=10**6)
    examples: int = knob(72, meaning="test samples whose routing is recorded", ge=0, le=1000)

    def record(self) -> dict[str, Any]:
        """Returns the run as plain values for files; `turn_kind` is the `kind` of a TurnTask."""
        plain = super().record()
        if isinstance(self.task, TurnTask):
            plain["task"] |= {"kind": "TurnTask", "turn_kind": self.task.kind}
        return plain
