"""How the models of a figure train, and the sweep that computes its Dataset (pmoe2023, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from moe_lab.core import figure
from moe_lab.core.config import Config, require
from moe_lab.core.devices import device_label
from moe_lab.core.grid import checked_axes, points_of
from moe_lab.core.origins import plain
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.grid_points import batches_of, cells_of, device_of, run_of
from moe_lab.patch_routing.measures import MEASURES
from moe_lab.patch_routing.model import PatchModel
from moe_lab.patch_routing.run import Task


@dataclass(frozen=True)
class Recipe:
    """Batch and step size of all models on a source (None: the task's own), and l of separate training in figure 4."""

    batch_size: int
    learning_rate: float | None
    separate_patches: int


RECIPES = {
    "digits": Recipe(2, 8.0, 2),
    "mnist": Recipe(20, 2.0, 2),
    "patterns": Recipe(20, 5.0, 6),
    "arrays": Recipe(20, None, 2),
    "authors": Recipe(20, 0.2, 2),
}
_MEANINGS = {
    "samples": "N, training samples",
    "experts": "k, experts",
    "patches_per_expert": "l, patches each expert keeps",
    "capacity_factor": "c, places for each patch",
    "experts_per_patch": "t, experts that each patch asks",
}
_OF_MODELS = ("batch_size", "learning_rate", "recipe")


def trained_as(recipe: str, task: Task) -> tuple[Task, dict[str, Any]]:
    """Returns a task as a recipe has it, and the settings of `PatchRun` that the recipe fixes.

    The authors' code takes pixels from 0 to 1 and trains for 150 epochs, also after zero training error.

    Raises:
      ValueError: an unknown recipe, or the authors' on patterns.
    """
    require(recipe in ("paper", "authors"), "recipe must be 'paper' or 'authors'", recipe=recipe)
    if recipe == "paper":
        return task, {}
    require(isinstance(task, DigitTask), "the authors' recipe is for images of digits", task=type(task).__name__)
    return task.replace(pixels="raw"), {"until": "epochs", "epochs": 150}


@dataclass
class PatchFigure(figure.Figure):
    """A figure of pmoe2023, whose models all train on one task.

    Args:
      task: as the paper's recipe has it.
      more: may also hold batch_size, learning_rate and recipe.
    """

    paper = "pmoe2023"
    task: Task

    def __post_init__(self) -> None:
        super().__post_init__()
        self.source = "patterns" if isinstance(self.task, PatternTask) else getattr(self.task, "source", "arrays")
        self.whose = self.given.get("recipe", "paper")
        self.task, of_run = trained_as(self.whose, self.task)
        of_models = {name: value for name, value in self.given.items() if name in ("batch_size", "learning_rate")}
        self.recipe = replace(RECIPES["authors" if self.whose == "authors" else self.source], **of_models)
        self.of_run = {**of_run, **{name: value for name, value in self.given.items() if name not in _OF_MODELS}}

    def model(self, model: PatchModel) -> PatchModel:
        """Returns the model with the figure's recipe, batch size and step size."""
        how = {"batch_size": self.recipe.batch_size, "learning_rate": self.recipe.learning_rate}
        return model.replace(recipe=self.whose, **how)

    def fill(
        self,
        models: Mapping[str, PatchModel],
        axes: Mapping[str, Sequence[Any]],
        names: Sequence[str],
        **fixed: Any,
    ) -> xr.Dataset:
        """Checks every grid point of every model, trains them all, and labels the results.

        Args:
          models: by name; the names become the axis "model".
          axes: the values of parameters of the model or of `PatchRun`.
          names: the measures to keep.
          fixed: default settings of `PatchRun`.

        Returns:
          The named measures over (model, axes..., trial, ...); NaN where a model has no such measure.
        """
        checked = checked_axes(axes)
        settings = {**fixed, **self.of_run}
        how: dict[str, Any] = {"task": self.task, "trials": self.trials, "seed": self.seed, "settings": settings}
        runs = {
            name: [run_of(point, model=model, **how) for point in points_of(checked)] for name, model in models.items()
        }
        devices = {name: device_of(of_model) for name, of_model in runs.items()}
        self.task.signals([0], self.seed)  # reads the images: a missing file is an error now, not in a batch
        parts = []
        for name, model in models.items():
            part = self.sweep(
                cells_of(model, self.task, {**settings, "device": str(devices[name])}),
                checked,
                batch=batches_of(runs[name], *_kept_together(model, checked), jobs=self.more.get("jobs", 1)),
                measures={name: MEASURES[name] for name in names},
                meanings=_MEANINGS,
                coords={"class": [f"o{number + 1}" for number in range(self.task.classes)]},
                config=[model, self.task, settings],
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
        settled: dict[str, Any] = {"source": None, "root": None, "task": self.task}  # the task tells the source
        settled |= {"batch_size": self.recipe.batch_size, "learning_rate": self.recipe.learning_rate, **self.given}
        config = {
            "task": _record(self.task),
            "models": {name: _record(model) for name, model in models.items()},
            "settings": {name: plain(value) for name, value in settings.items()},
        }
        device = " and ".join(sorted({device_label(one) for one in devices.values()}))
        joined.attrs = self.about(config, device, source=self.source, settled=settled)
        return joined


def _record(config: Config) -> dict[str, Any]:
    return {"name": type(config).__name__, **config.model_dump(mode="json")}


def _kept_together(model: PatchModel, axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """The axes along which grid points share no batch: parameters of the model that a batch has once."""
    return [name for name in axes if name in type(model).model_fields and name not in model.per_row]
