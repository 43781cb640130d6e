"""The control without a network: a linear function of the pixels, fitted by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.trials import device_and_dtype
from moe_lab.vision.rotation.data import TurnSamples
from moe_lab.vision.rotation.run import TurnRun


def fitted(run: TurnRun) -> dict[str, Float[np.ndarray, " T"]]:
    """Fits w x + b to labels of -1 and 1 by least squares, in float64; among several solutions that of least norm.

    Args:
      run: says the task, the samples and the trials; its model is not trained.

    Returns:
      test_accuracy and train_accuracy of each trial.

    Raises:
      ValueError: the task has more than two classes.
    """
    require(run.task.classes == 2, "a linear function tells two classes apart", classes=run.task.classes)
    device, _ = device_and_dtype(run)
    where: dict[str, Any] = {"trials": run.trial_numbers, "seed": run.seed, "device": device, "dtype": torch.float64}
    samples = {
        "train": run.task.sample(run.samples, split="train", **where),
        "test": run.task.sample(run.test_samples, split="test", **where),
    }
    found: dict[str, list[float]] = {f"{split}_accuracy": [] for split in samples}
    for place in range(run.trials):
        x, answers = _rows(samples["train"], place)
        weights = torch.as_tensor(np.linalg.lstsq(x.cpu(), answers.cpu())[0], device=device)
        for split, part in samples.items():
            x, answers = _rows(part, place)
            found[f"{split}_accuracy"].append(float(((x @ weights) * answers > 0).double().mean()))
    return {name: np.array(values) for name, values in found.items()}


def parameters(image: tuple[int, int, int]) -> int:
    """Returns the number of parameters: a weight for each number of the image, and b."""
    return int(np.prod(image)) + 1


def _rows(samples: TurnSamples, place: int) -> tuple[Float[Tensor, "N pixels"], Float[Tensor, " N"]]:
    """The images of a trial with a 1 after each, and their labels as -1 and 1."""
    pixels = samples.images[place].flatten(1)
    return torch.cat([pixels, pixels.new_ones(len(pixels), 1)], 1), 2.0 * samples.labels[place].to(pixels) - 1
