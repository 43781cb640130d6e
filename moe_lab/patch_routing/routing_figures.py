"""Routings compared on the patch task at equal compute, each one call that returns a labelled Dataset.

Every expert has C = ceil(c n / k) places in a sample whoever chooses, so that no routing computes more than k C
products of a patch and an expert. All train until zero training error or for `EPOCHS` epochs, at the step size
`STEP_SIZE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.figure import reproducible
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.model import PatchModel
from moe_lab.patch_routing.recipes import PatchFigure
from moe_lab.patch_routing.routed import RoutedMoE
from moe_lab.patch_routing.routing_rows import EPOCHS, GATE_ROWS, ROWS, STEP_SIZE
from moe_lab.patch_routing.run import Task

__all__ = ["EPOCHS", "GATE_ROWS", "MEASURES", "ROWS", "STEP_SIZE", "by_capacity", "by_experts_per_patch"]

MEASURES = ("test_accuracy", "signal_kept", "signal_share", "lost", "dropped")


@reproducible(first=("capacity_factor", "samples", "models"))
@checked
def by_capacity(
    capacity_factor: Sequence[float] = (0.5, 1.0, 2.0, 3.0),
    samples: int = 200,
    trials: int = 10,
    seed: int = 0,
    *,
    models: Mapping[str, RoutedMoE] | None = None,
    task: Task | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Measures accuracy and the patches kept and lost against the capacity factor.

    Args:
      capacity_factor: the values of c, places per patch.
      samples: N.
      trials: independent trainings per grid point.
      models: by name, in place of `ROWS`.
      task: in place of `PatternTask()`.
      settings: device, precision, epochs, test_samples (parameters of `PatchRun`); batch_size and learning_rate (of all
        models); store and jobs (see `moe_lab.core.sweep.sweep`).

    Returns:
      test_accuracy, signal_kept, signal_share, lost and dropped(model, capacity_factor, trial), which
      `measures.MEASURES` explains.
    """
    axes = {"capacity_factor": capacity_factor}
    return _filled(axes, ROWS if models is None else models, samples, trials, seed, task, settings)


@reproducible(first=("experts_per_patch", "samples", "models"))
@checked
def by_experts_per_patch(
    experts_per_patch: Sequence[int] = (1, 2, 4, 8),
    samples: int = 200,
    trials: int = 10,
    seed: int = 0,
    *,
    models: Mapping[str, RoutedMoE] | None = None,
    task: Task | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Measures accuracy and the patches kept and lost against the experts per patch, from one to all.

    The places stay what they are: with c = 1 and t = 2 there is room for one answer in two, so that compute is equal.

    Args:
      experts_per_patch: the values of t, at most the number of experts.
      models: by name, in place of `GATE_ROWS`; the rest as in `by_capacity`.

    Returns:
      as `by_capacity`, over (model, experts_per_patch, trial).
    """
    axes = {"experts_per_patch": experts_per_patch}
    rows = GATE_ROWS if models is None else models
    return _filled(axes, rows, samples, trials, seed, task, settings)


def _filled(
    axes: Mapping[str, Sequence[Any]],
    rows: Mapping[str, RoutedMoE],
    samples: int,
    trials: int,
    seed: int,
    task: Task | None,
    settings: Mapping[str, Any],
) -> xr.Dataset:
    given = {"learning_rate": STEP_SIZE, "epochs": EPOCHS, **settings}
    figure = PatchFigure("section 4.2", trials, seed, given, task or PatternTask())
    chosen: dict[str, PatchModel] = {row: figure.model(model) for row, model in rows.items()}
    return figure.fill(chosen, axes, MEASURES, samples=samples)
