"""The models and tasks of each table and figure of chen2022, and the sweep that computes its Dataset."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.core import figure
from moe_lab.core.config import require
from moe_lab.core.grid import Point, checked_axes, points_of
from moe_lab.core.snapshots import Measure
from moe_lab.core.trials import device_labels
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.measures import MEASURES
from moe_lab.specialization.model import Model, SingleExpert, SwitchMoE
from moe_lab.specialization.run import ClusterRun
from moe_lab.specialization.training import train_run

ALL = ("moe-cubic", "moe-linear", "single-cubic", "single-linear")
"""The models of tables 1 and 3; a name has the kind, the activation and, for a single expert, optionally J."""
OBJECTIVES = ("paper", "authors")
LINEAR_START = 8e-4
"""sigma_0 of linear experts under algorithm 1, equivalent to the authors' code. With .01 they gain half a point of
accuracy, and in setting 4 their entropy falls to .4 to .6 by step 500; the paper has 1.16."""
_HEARTBEAT = 25  # steps between two reports of progress
_MEANINGS = {
    "setting": "setting of section 6.1 and appendix A.2",
    "model": "model",
}


def model_of(name: str, objective: str) -> Model:
    """Makes the model of a name: "moe-cubic", "single-linear", "single-cubic-512", or with any other activation.

    Mixtures are `SwitchMoE` of M=8 experts of J=16 filters; `objective` "authors" makes them `SwitchMoE.authors`.
    Single experts have 128 filters unless the name has another number, with biases, for both objectives.
    """
    require(objective in OBJECTIVES, "objective must be 'paper' or 'authors'", objective=objective)
    kind, activation, filters = (*str(name).split("-"), "", "")[:3]
    rule = (
        "a model must be moe-ACTIVATION, single-ACTIVATION or single-ACTIVATION-FILTERS with one of the activations "
        f"{', '.join(ACTIVATIONS)}, as in {', '.join(ALL)} and single-cubic-512"
    )
    possible = kind in ("moe", "single") and activation in ACTIVATIONS and not (kind == "moe" and filters)
    require(possible and str(name).count("-") < 3 and (filters == "" or filters.isdecimal()), rule, model=name)
    if kind == "single":
        return SingleExpert(**{"activation": activation, "filters": int(filters or 128)})
    if objective == "authors":
        return SwitchMoE.authors(activation=activation)
    start = {"initial_scale": LINEAR_START} if activation == "linear" else {}
    return SwitchMoE(**{"activation": activation, **start})


def task_of(setting: int, model: Model, objective: str) -> ClusterTask:
    """Makes the task of a setting, at the scale for which the model's step sizes are.

    Single experts and the authors' objective are trained on data times 10; the authors' ten runs share one data set.
    """
    task = ClusterTask.setting(setting)
    scaled = objective == "authors" or isinstance(model, SingleExpert)
    return task.replace(scale=10.0 if scaled else 1.0, one_data_set=objective == "authors")


def run_of(
    point: Point,
    *,
    trials: int,
    seed: int,
    objective: str,
    changes: Mapping[str, Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> ClusterRun:
    """Makes the ClusterRun of a grid point {"setting": ..., "model": ...}.

    Args:
      changes: changed parameters of all tasks (key "task"), and of models by their name.
      settings: other parameters of `ClusterRun`.
    """
    model = model_of(point["model"], objective)
    task = task_of(point["setting"], model, objective).replace(**changes.get("task", {}))
    model = model.replace(**changes.get(point["model"], {}))
    fixed = {"record_every": _HEARTBEAT, "steps": model.steps, **settings}
    return ClusterRun(model=model, task=task, trials=trials, seed=seed, **fixed)


def train_cells(points: list[Point], *, names: Sequence[str], **how: Any) -> Iterator[dict[str, np.ndarray] | None]:
    """Trains one grid point, for `moe_lab.core.sweep`: yields None as progress, then the final values.

    Yields:
      The named measures (1, trials, ...), (1, trials, step, ...) where the settings measure every Snapshot. `how` is
      as for `run_of`.
    """
    (point,) = points
    run = run_of(point, **how)
    recorded: list[Mapping[str, np.ndarray]] = []
    for snapshot in train_run(run):
        recorded = [*recorded, snapshot.values] if run.measure == "every" else [snapshot.values]
        last = snapshot
        yield None
    single = isinstance(run.model, SingleExpert)  # its measures of one expert would not fit an axis of eight
    names = [name for name in names if name in last.values and not (single and MEASURES[name].dims)]
    if run.measure == "last":
        yield {name: recorded[-1][name][None] for name in names}
        return
    more = len(steps_recorded(run)) - len(recorded)  # none, unless all trials have stopped: they stay as they are
    recorded += [recorded[-1]] * more
    yield {name: np.stack([values[name] for values in recorded], axis=1)[None] for name in names}


def steps_recorded(run: ClusterRun) -> list[int]:
    """Returns the steps of a run's Snapshots."""
    return [*range(0, run.last_step, run.record_every), run.last_step]


@dataclass
class ClusterFigure(figure.Figure):
    """A table or figure of chen2022.

    Args:
      objective, samples: of every training; there are as many test samples unless `more` has test_samples.
      every: steps between the points of curves; None for final values only.

    Raises:
      ValueError: an unknown objective, or a parameter that the figure sets itself.
    """

    paper = "chen2022"
    objective: str = "paper"
    samples: int = 16000
    every: int | None = None
    settings: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.objective in OBJECTIVES, "objective must be 'paper' or 'authors'", objective=self.objective)
        given = {name: value for name, value in self.given.items() if value is not None}
        self.settings = {"samples": self.samples, "test_samples": self.samples, "measure": "last", **given}
        if self.every is not None:
            self.settings |= {"measure": "every", "record_every": self.every}

    def runs(
        self, axes: Mapping[str, Sequence[Any]], changes: Mapping[str, Mapping[str, Any]]
    ) -> list[tuple[Point, ClusterRun]]:
        """Returns every grid point with its checked Run."""
        how: dict[str, Any] = {"objective": self.objective, "changes": changes, "settings": self.settings}
        return [(point, run_of(point, trials=self.trials, seed=self.seed, **how)) for point in points_of(axes)]

    def fill(
        self,
        axes: Mapping[str, Sequence[Any]],
        names: Sequence[str],
        changes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> xr.Dataset:
        """Checks every training, runs them all, and labels the results.

        Args:
          axes: the values of "setting" and "model".
          names: the measures to keep.
          changes: as for `run_of`.

        Returns:
          The named measures over (setting, model, trial, ...), or (setting, model, step, trial, ...) as curves; NaN
          where a model has no such measure and where a trial diverged.
        """
        checked, changes = checked_axes(axes), changes or {}
        runs = self.runs(checked, changes)
        device_labels(run for _, run in runs)  # refuses a device that is not there before any work
        curves = self.every is not None
        how: dict[str, Any] = {"objective": self.objective, "changes": changes, "settings": self.settings}
        found = self.sweep(
            functools.partial(train_cells, **how, names=tuple(names)),
            checked,
            batch=1,
            measures={name: _over_steps(MEASURES[name]) if curves else MEASURES[name] for name in names},
            meanings=_MEANINGS,
            coords=_labels([run for _, run in runs], curves),
        )
        found = found[list(names)].transpose("setting", "model", *(["step"] if curves else []), "trial", ...)
        found.attrs = self.attrs_of(runs)
        return found

    def attrs_of(self, runs: Sequence[tuple[Point, ClusterRun]]) -> dict[str, Any]:
        """Returns the attrs of the results of some Runs, as `about` does."""
        config = [{"point": point, **run.record()} for point, run in runs]
        return self.about(config, device_labels(run for _, run in runs), objective=self.objective)


def _labels(runs: Sequence[ClusterRun], curves: bool) -> dict[str, Any]:
    """The coordinates of clusters, experts and, for curves, steps: those of the largest Run."""
    experts = max(getattr(run.model, "experts", 1) for run in runs)
    labels = {"cluster": np.arange(1, runs[0].task.clusters + 1), "expert": np.arange(1, experts + 1)}
    if curves:
        labels["step"] = np.array(steps_recorded(max(runs, key=lambda run: run.last_step)))
    return labels


def _over_steps(measure: Measure) -> Measure:
    return Measure(("step", *measure.dims), measure.unit, measure.meaning)
