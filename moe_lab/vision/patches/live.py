"""Several models in training on one task, side by side: what a live picture reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moe_lab.core.config import require
from moe_lab.core.training import Snapshot
from moe_lab.vision.patches.model import WRN, Model, PatchWRN
from moe_lab.vision.patches.run import Run, Task
from moe_lab.vision.patches.training import train_run

MODELS: Mapping[str, Model] = {
    "pMoE": PatchWRN(trunk="plain", batch_size=64),
    "no gate": PatchWRN(trunk="plain", batch_size=64, gates="none"),
    "conv": WRN(trunk="plain", batch_size=64),
}
"""WRN-pMoE and its two controls, with a trunk that trains in seconds."""


def compare(
    task: Task, models: Mapping[str, Model] = MODELS, *, controls_every: int = 10, **settings: Any
) -> Iterator[Mapping[str, Snapshot]]:
    """Trains several models step by step together, and yields the Snapshots of all by name.

    Trials of the same number have the same samples in the same order for every model, and models that share a trunk
    start with the same trunk: pairs of trials can be compared.

    Args:
      models: by name; the first is the one under study, the others are controls.
      controls_every: controls are measured on test samples in every so-manieth Snapshot of theirs (and at the end);
        in between their Snapshots hold the training's accuracy and loss alone.
      settings: the other parameters of `Run`, the same for all.

    Raises:
      ConfigError: as `train`, at once and not at the first Snapshot.
      ValueError: no models, or controls_every is less than 1.
    """
    require(len(models) > 0, "models must name at least one model", models=list(models))
    require(controls_every >= 1, "controls_every must be at least 1", controls_every=controls_every)
    runs = {name: Run(model=model, task=task, **settings) for name, model in models.items()}
    first = next(iter(runs))
    for name, run in runs.items():
        if name != first:
            runs[name] = run.replace(measure_every=run.measure_every * controls_every)
    return _together({name: train_run(run) for name, run in runs.items()})


def _together(running: Mapping[str, Iterator[Snapshot]]) -> Iterator[Mapping[str, Snapshot]]:
    """Takes a Snapshot of each in turn; a model all of whose trials have diverged stays at its last."""
    shown = {name: next(run) for name, run in running.items()}
    yield dict(shown)
    while any(not snapshot.finished.all() for snapshot in shown.values()):
        for name, run in running.items():
            if not shown[name].finished.all():
                shown[name] = next(run)
        yield dict(shown)
