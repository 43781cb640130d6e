"""Which expert each test image is sent to, while a mixture trains: what a picture of images falling into bins reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from moe_lab.core.snapshots import Snapshot
from moe_lab.vision.rotation.model import Mixture
from moe_lab.vision.rotation.run import Task
from moe_lab.vision.rotation.training import train


@dataclass(frozen=True)
class Sorted:
    """Where the images of one trial are.

    Attributes:
      step: updates done.
      images: (example, channel, row, column), the same in every Sorted of a run.
      labels, clusters: (example,) of the images, likewise.
      expert: (example,) the expert that each is sent to, -1 if the trial has diverged.
      right: (example,) whether its label is predicted correctly.
      moved: (example,) whether it went to another expert than in the Sorted before.
      snapshot: the Snapshot of all trials.
    """

    step: int
    images: Float[np.ndarray, "example channel row column"]
    labels: Int[np.ndarray, " example"]
    clusters: Int[np.ndarray, " example"]
    expert: Int[np.ndarray, " example"]
    right: np.ndarray
    moved: np.ndarray
    snapshot: Snapshot


def sort(task: Task, model: Mixture | None = None, *, trial: int = 0, **settings: Any) -> Iterator[Sorted]:
    """Trains a mixture and yields where the test images of one of its trials are sent, at each Snapshot.

    Args:
      model: None for two experts.
      trial: which of the trials, by place.
      settings: the other parameters of `TurnRun`; `examples` is the number of images.

    Raises:
      ConfigError: as `train`, at once and not at the first Snapshot.
    """
    return _sorted(train(Mixture() if model is None else model, task, **settings), trial)


def _sorted(run: Iterator[Snapshot], trial: int) -> Iterator[Sorted]:
    before: np.ndarray | None = None
    for snapshot in run:
        if "example_expert" not in snapshot.values:
            continue
        labels, clusters = (snapshot[f"example_{name}"][trial].astype(np.int64) for name in ("labels", "clusters"))
        expert = np.nan_to_num(snapshot["example_expert"][trial], nan=-1).astype(np.int64)
        moved = np.zeros(len(expert), dtype=bool) if before is None else expert != before
        right = snapshot["example_predicted"][trial] == labels
        images = snapshot["example_images"][trial]
        yield Sorted(snapshot.step, images, labels, clusters, expert, right, moved, snapshot)
        before = expert
