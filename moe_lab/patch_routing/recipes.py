"""How the models of a figure train, and the sweep that fills a figure's Dataset (pmoe2023, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from moe_lab.config import require
from moe_lab.grid import checked_axes
from moe_lab.origins import call_of, origin, plain
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.grid_points import batches_of, cells_of, make_task, run_of
from moe_lab.patch_routing.measures import MEASURES
from moe_lab.patch_routing.model import JointMoE, Model
from moe_lab.patch_routing.run import Task
from moe_lab.sweep import sweep
from moe_lab.trials import choose_device


@dataclass(frozen=True)
class Recipe:
    """How all models train on a source, and l of separate training in figure 4."""

    batch_size: int
    learning_rate: float
    separate_patches: int


RECIPES = {"digits": Recipe(2, 8.0, 2), "mnist": Recipe(20, 2.0, 2), "patterns": Recipe(20, 5.0, 6)}
_MEANINGS = {
    "samples": "N, training samples",
    "experts": "k, experts",
    "patches_per_expert": "l, patches each expert keeps",
}
_OF_MODELS = ("batch_size", "learning_rate")
_OF_SWEEP = ("store", "jobs")
_TAKEN = ("model", "task", "samples", "trials", "first_trial", "seed", "measure", "record_every")


class Figure:
    """One figure being made: its task, its recipe, and what its caller set.

    Args:
      number: of the figure in the paper.
      name: of the function that makes it.
      source, root, task: a source's name and folder, or any other task.
      trials, seed: of every cell.
      settings: those of `Run`, of all models (batch_size, learning_rate) and of `sweep` (store, jobs).

    Raises:
      ValueError: an unknown source, or a setting that the figure itself decides.
    """

    def __init__(
        self,
        number: int,
        name: str,
        source: str,
        root: Path | str | None,
        task: Task | None,
        trials: int,
        seed: int,
        settings: Mapping[str, Any],
    ) -> None:
        self.task = task if task is not None else make_task(source, root=root)
        self.source = "patterns" if isinstance(self.task, PatternTask) else self.task.source
        self.number, self.name, self.trials, self.seed = number, name, trials, seed
        taken = [setting for setting in settings if setting in _TAKEN]
        require(not taken, "a figure sets these itself", settings=taken)
        recipe = RECIPES[self.source]
        self.recipe = Recipe(
            settings.get("batch_size", recipe.batch_size),
            settings.get("learning_rate", recipe.learning_rate),
            recipe.separate_patches,
        )
        self.of_sweep = {key: settings[key] for key in _OF_SWEEP if key in settings}
        self.of_run = {key: value for key, value in settings.items() if key not in (*_OF_MODELS, *_OF_SWEEP)}
        self.given = {key: value for key, value in settings.items() if key not in _OF_SWEEP}

    def model(self, model: Model) -> Model:
        """The model with the figure's batch size and step size."""
        return model.replace(batch_size=self.recipe.batch_size, learning_rate=self.recipe.learning_rate)

    def fill(
        self,
        models: Mapping[str, Model],
        axes: Mapping[str, Sequence[Any]],
        names: Sequence[str],
        changed: Mapping[str, Any],
        **fixed: Any,
    ) -> xr.Dataset:
        """Checks every cell of every model, trains them all, and labels what came out.

        Args:
          models: name -> model; the names become the axis "model".
          axes: name -> the values to sweep, parameters of the model or of `Run`.
          names: the measures to keep.
          changed: arguments of the figure's function that its call must repeat.
          fixed: settings of `Run` that the caller's settings replace.

        Returns:
          The named measures over (model, axes..., trial, ...); NaN where a model has no such measure.
        """
        checked = checked_axes(axes)  # an empty axis, a value twice
        settings = {**fixed, **self.of_run}
        for model in models.values():
            for point in _points(checked):
                run_of(point, model=model, task=self.task, trials=self.trials, seed=self.seed, settings=settings)
        device = settings.get("device", "auto")
        choose_device(device)
        self.task.signals([0], self.seed)  # reads the images: a missing file is an error now, not in a batch
        parts = []
        for model in models.values():
            *_, part = sweep(
                cells_of(model, self.task, settings),
                checked,
                trials=self.trials,
                seed=self.seed,
                batch=batches_of(self.trials, device, *_kept_together(model, checked)),
                measures={name: MEASURES[name] for name in names},
                meanings=_MEANINGS,
                coords={"class": self._classes()},
                config=[model, self.task, settings],
                **self.of_sweep,
            )
            parts.append(part[list(names)])
        joined = xr.concat(
            parts,
            xr.Variable("model", list(models), {"long_name": "model"}),
            data_vars="all",
            coords="minimal",
            compat="override",
            join="exact",
            combine_attrs="override",
        )
        joined.attrs = self._attrs(models, changed, settings, device)
        return joined

    def _classes(self) -> list[str]:
        return [f"o{number + 1}" for number in range(self.task.classes)]

    def _attrs(
        self, models: Mapping[str, Model], changed: Mapping[str, Any], settings: Mapping[str, Any], device: str
    ) -> dict[str, Any]:
        """How to make the Dataset again."""
        arguments = {**changed, "trials": self.trials, "seed": self.seed, "task": self.task}
        arguments |= {"batch_size": self.recipe.batch_size, "learning_rate": self.recipe.learning_rate} | self.given
        config = {
            "task": {"name": type(self.task).__name__, **self.task.model_dump(mode="json")},
            "models": {
                name: {"name": type(model).__name__, **model.model_dump(mode="json")} for name, model in models.items()
            },
            "settings": {name: plain(value) for name, value in settings.items()},
        }
        return origin(
            figure=self.number,
            source=self.source,
            call=call_of(self.name, arguments),
            config=config,
            seed=self.seed,
            device=device,
            paper=f"pmoe2023, figure {self.number}",
        )


def _kept_together(model: Model, axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """The axes along which cells share no batch: fixed patches are padded to the largest l of their batch."""
    return [] if isinstance(model, JointMoE) else [name for name in axes if name == "patches_per_expert"]


def _points(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        points = [{**point, name: value} for point in points for value in values]
    return points
