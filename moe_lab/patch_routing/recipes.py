"""How the models of a figure train, and the sweep that computes its Dataset (pmoe2023, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from moe_lab import figure
from moe_lab.grid import checked_axes, points_of
from moe_lab.origins import plain
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.grid_points import batches_of, cells_of, run_of
from moe_lab.patch_routing.measures import MEASURES
from moe_lab.patch_routing.model import JointMoE, Model
from moe_lab.patch_routing.run import Task
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


@dataclass
class Figure(figure.Figure):
    """A figure of pmoe2023.

    Args:
      more: parameters of `Run`, of all models (batch_size, learning_rate) and of the sweep (store, jobs).
      task: that all models train on.

    Raises:
      ValueError: a parameter that the figure sets itself.
    """

    paper = "pmoe2023"
    task: Task

    def __post_init__(self) -> None:
        super().__post_init__()
        self.source = "patterns" if isinstance(self.task, PatternTask) else self.task.source
        of_models = {name: value for name, value in self.given.items() if name in _OF_MODELS}
        self.recipe = replace(RECIPES[self.source], **of_models)
        self.of_run = {name: value for name, value in self.given.items() if name not in _OF_MODELS}

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
        """Checks every grid point of every model, trains them all, and labels the results.

        Args:
          models: name -> model; the names become the axis "model".
          axes: name -> the values to sweep, parameters of the model or of `Run`.
          names: the measures to keep.
          changed: arguments of the figure's function, for its call.
          fixed: settings of `Run` that the caller's settings replace.

        Returns:
          The named measures over (model, axes..., trial, ...); NaN where a model has no such measure.
        """
        checked = checked_axes(axes)
        settings = {**fixed, **self.of_run}
        for model in models.values():
            for point in points_of(checked):
                run_of(point, model=model, task=self.task, trials=self.trials, seed=self.seed, settings=settings)
        device = settings.get("device", "auto")
        choose_device(device)
        self.task.signals([0], self.seed)  # reads the images: a missing file is an error now, not in a batch
        parts = []
        for model in models.values():
            part = self.sweep(
                cells_of(model, self.task, settings),
                checked,
                batch=batches_of(self.trials, device, *_kept_together(model, checked)),
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
        joined.attrs = self._attrs(models, changed, settings, device)
        return joined

    def _attrs(
        self, models: Mapping[str, Model], changed: Mapping[str, Any], settings: Mapping[str, Any], device: str
    ) -> dict[str, Any]:
        """How to make the Dataset again."""
        arguments = {**changed, "trials": self.trials, "seed": self.seed, "task": self.task}
        arguments |= {"batch_size": self.recipe.batch_size, "learning_rate": self.recipe.learning_rate}
        config = {
            "task": {"name": type(self.task).__name__, **self.task.model_dump(mode="json")},
            "models": {
                name: {"name": type(model).__name__, **model.model_dump(mode="json")} for name, model in models.items()
            },
            "settings": {name: plain(value) for name, value in settings.items()},
        }
        return self.attrs(arguments, config, device, source=self.source)


def _kept_together(model: Model, axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """The axes along which grid points share no batch: fixed patches are padded to the largest l of their batch."""
    return [] if isinstance(model, JointMoE) else [name for name in axes if name == "patches_per_expert"]
