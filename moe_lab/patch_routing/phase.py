"""Figure 5 of pmoe2023: how often training succeeds, for every l and N.

One call is thousands of trainings. They run as batches of rows: grid points with the same N share a batch and their
routers whatever their l, and all share the trials' data. `phase_map_stream` yields the map as it fills, and often
enough in between that a consumer can stop it within a fraction of a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moe_lab.core import origins
from moe_lab.core.arguments import checked
from moe_lab.core.devices import device_label
from moe_lab.core.sweep import sweep
from moe_lab.patch_routing.grid_points import batches_of, cells_of, device_of, make_task, run_of
from moe_lab.patch_routing.model import JointMoE, SeparateMoE
from moe_lab.patch_routing.run import Task

if TYPE_CHECKING:
    import xarray

AXES = ("patches_per_expert", "samples", "trial")
MEANINGS = {"patches_per_expert": "l, patches each expert keeps", "samples": "N, training samples"}
SUCCESS = 0.95  # test accuracy from which a training counts as a success; the paper does not define it
MEASURES = {
    "success": f"1 where test accuracy reached {SUCCESS:.0%}, 0 where not, NaN where not run",
    "test_accuracy": "share of test samples with the right label",
    "coverage": "share of the worst class's test samples whose o is routed to its best expert",
}
KEPT = (1, 2, 3, 4, 5, 6, 7, 8)
SAMPLES = (60, 100, 140, 180, 240, 300, 360, 500, 700, 1000)


@checked
def phase_map(
    source: str = "digits",
    patches_per_expert: Sequence[int] = KEPT,
    samples: Sequence[int] = SAMPLES,
    trials: int = 20,
    seed: int = 0,
    **settings: Any,
) -> xarray.Dataset:
    """Figure 5 in one call: which trainings succeed, against l and N. See `phase_map_stream` for all arguments.

    Returns:
      success(patches_per_expert, samples, trial), 1 where test accuracy reached 95 %, with test_accuracy and the
      worst class's coverage.
    """
    *_, finished = phase_map_stream(source, patches_per_expert, samples, trials, seed, **settings)
    return finished


@checked
def phase_map_stream(
    source: str = "digits",
    patches_per_expert: Sequence[int] = KEPT,
    samples: Sequence[int] = SAMPLES,
    trials: int = 20,
    seed: int = 0,
    *,
    task: Task | None = None,
    model: SeparateMoE | JointMoE | None = None,
    root: Path | str | None = None,
    jobs: int | None = 1,
    store: Path | str | None = None,
    **settings: Any,
) -> Iterator[xarray.Dataset]:
    """Yields the map of `phase_map` while it fills; NaN where nothing has run yet.

    Args:
      source: "digits", "mnist" (with root=, a folder of IDX files) or "patterns"; ignored where a task is given.
      patches_per_expert, samples: the values of l and N.
      trials: independent trainings per grid point; all grid points of a trial share its data.
      task, model: to change anything else; the paper's figure is of separate training.
      jobs, store: processes, and a folder to resume from; see `moe_lab.core.sweep.sweep`.
      settings: other parameters of `PatchRun`, such as device or test_samples.

    Yields:
      Datasets with success, test_accuracy and coverage (of the worst class) over (patches_per_expert, samples, trial).
      In one process the same one is yielded again while a batch trains.

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    chosen = task if task is not None else make_task(source, root=root)
    base = model if model is not None else SeparateMoE()
    axes = {"patches_per_expert": list(patches_per_expert), "samples": list(samples)}
    points = [{"patches_per_expert": kept, "samples": count} for kept in patches_per_expert for count in samples]
    # Every grid point is checked before any is trained.
    runs = [run_of(point, model=base, task=chosen, trials=trials, seed=seed, settings=settings) for point in points]
    device = device_of(runs)
    filling = sweep(
        cells_of(base, chosen, {**settings, "device": str(device)}),
        axes,
        trials=trials,
        seed=seed,
        batch=batches_of(runs, jobs=jobs) if runs else 1,
        jobs=jobs,
        store=store,
        config=[base, chosen, settings],
        meanings=MEANINGS,
        attrs={
            "call": call_of(base, chosen, patches_per_expert, samples, trials, seed, settings),
            "config": json.dumps([run.record() for run in runs[:1]]),
            "device": device_label(device),
            "figure": "figure 5",
            "paper": "pmoe2023, figure 5",
        },
    )
    return _maps(filling)


def call_of(
    model: SeparateMoE | JointMoE,
    task: Task,
    patches_per_expert: Sequence[int],
    samples: Sequence[int],
    trials: int,
    seed: int,
    settings: Mapping[str, Any],
) -> str:
    """Returns the call of `phase_map` that computes a map."""
    axes = {"patches_per_expert": tuple(patches_per_expert), "samples": tuple(samples)}
    return origins.call_of(
        "phase_map", axes | {"trials": trials, "seed": seed, "task": task, "model": model, **settings}
    )


def _maps(filling: Iterator[xarray.Dataset]) -> Iterator[xarray.Dataset]:
    """Yields the figure's Dataset for each of the sweep's; computed only when that has changed."""
    known: xarray.Dataset | None = None
    for partial in filling:
        if partial is not known:
            known, figure = partial, _map(partial)
        yield figure


def _map(partial: xarray.Dataset) -> xarray.Dataset:
    """Adds success and reduces coverage to the worst class. A diverged training has no accuracy: a failure."""
    if "test_accuracy" not in partial:  # nothing has run yet
        import xarray  # here: a live map need not wait for it

        empty = xarray.full_like(partial["done"], float("nan"), dtype=float).expand_dims(trial=partial["trial"], axis=2)
        return partial.assign({name: (AXES, empty.values) for name in MEASURES})
    accuracy = partial["test_accuracy"]
    success = (accuracy >= SUCCESS).astype(float).where(partial["done"])
    coverage = partial["coverage"].min([partial["coverage"].dims[-1]])
    found = partial[["done"]].assign(success=success, test_accuracy=accuracy, coverage=coverage)
    for name, meaning in MEASURES.items():
        found[name].attrs = {"long_name": meaning}
    return found
