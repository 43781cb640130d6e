"""The tiny V-MoE pre-trained on ten digits: trained at first use, then kept in the user's cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from moe_lab import __version__
from moe_lab.core.errors import OperationError
from moe_lab.core.files import cache_folder, writable_folder
from moe_lab.core.snapshots import Snapshot
from moe_lab_papers.pruning2024.vmoe.digits import DigitTask
from moe_lab_papers.pruning2024.vmoe.model import VMoE
from moe_lab_papers.pruning2024.vmoe.training import DigitRun, VMoETraining

PRE_TRAINING = DigitRun(
    task=DigitTask(),
    optimizer="adamw",
    steps=700,
    learning_rate=0.002,
    weight_decay=0.05,
    warm_up=100,
    clip=1.0,
)
"""The pre-training of the tiny V-MoE: less than a minute on one core."""


_MEASURING = {"record_every", "test_images", "device"}
"""Settings of a run that do not change the model."""


def pretrained_path(run: DigitRun = PRE_TRAINING, folder: Path | str | None = None) -> Path:
    """Returns the file of a pre-trained model, named by a hash of its settings and of the library's version."""
    text = f"{__version__} {run.model_dump_json(exclude=_MEASURING)}"
    name = f"v-moe-{hashlib.sha256(text.encode()).hexdigest()[:16]}.safetensors"
    return (cache_folder("vision") if folder is None else Path(folder)) / name


def pre_train(run: DigitRun = PRE_TRAINING, folder: Path | str | None = None) -> Iterator[Snapshot]:
    """Pre-trains a model, yields its Snapshots, and stores it after the last one; a stored model yields none.

    Args:
      run: the training.
      folder: where to keep the model; None for the user's cache.

    Raises:
      RuntimeError: the loss became infinite or NaN, or the folder cannot be written to.
    """
    path = pretrained_path(run, folder)
    if path.exists():
        return
    writable_folder(path.parent)
    training = VMoETraining(run)
    for snapshot in training.snapshots():
        if snapshot.diverged.any():
            raise OperationError(f"pre-training diverged; choose a smaller learning_rate: got step={snapshot.step}")
        if snapshot.finished.all():
            training.model.save(path)
        yield snapshot


def pretrained(run: DigitRun = PRE_TRAINING, folder: Path | str | None = None) -> VMoE:
    """Returns the pre-trained model; trains it first if it is not in the cache.

    Raises:
      RuntimeError: as in `pre_train`.
      ValueError: the stored file is damaged; remove it, and the model is trained anew.
    """
    for _ in pre_train(run, folder):
        pass
    return VMoE.load(pretrained_path(run, folder))
