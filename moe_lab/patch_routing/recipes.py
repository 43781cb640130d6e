"""How the models of a figure train, and the sweep that computes its Dataset (pmoe2023, section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from moe_lab import figure
from moe_lab.config import Config
from moe_lab.grid import checked_axes, points_of
from moe_lab.origins import plain
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.grid_points import batches_of, cells_of, run_of
from moe_lab.patch_routing.measures import MEASURES
from moe_lab.patch_routing.model import JointMoE, Model, RoutedMoE
from moe_lab.patch_routing.run import Task
from moe_lab.trials import choose_device


@dataclass(frozen=True)
class Recipe:
    """Batch and step size of all models on a source, and l of separate training in figure 4."""

    batch_size: int
    learning_rate: float
    separate_patches: int


RECIPES = {"digits": Recipe(2, 8.0, 2), "mnist": Recipe(20, 2.0, 2), "patterns": Recipe(20, 5.0, 6)}
_MEANINGS = {
    "samples": "N, training samples",
    "experts": "k, experts",
    "patches_per_expert": "l, patches each expert keeps",
    "capacity_factor": "c, places for each patch",
    "experts_per_patch": "t, experts that each patch asks",
}
_OF_MODELS = ("batch_size", "learning_rate")


@dataclass
class Figure(figure.Figure):
    """A figure of pmoe2023, whose models all train on one task; `more` may also hold batch_size and learning_rate."""

    paper = "pmoe2023"
    task: Task

    def __post_init__(self) -> None:
        super().__post_init__()
        self.source = "patterns" if isinstance(self.task, PatternTask) else self.task.source
        of_models = {name: value for name, value in self.given.items() if name in _OF_MODELS}
        self.recipe = replace(RECIPES[self.source], **of_models)
        self.of_run = {name: value for name, value in self.given.items() if name not in _OF_MODELS}

    def model(self, model: Model) -> Model:
        """Returns the model with the figure's batch size and step size."""
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
          models: by name; the names become the axis "model".
          axes: the values of parameters of the model or of `Run`.
          names: the measures to keep.
          changed: arguments of the figure's function, for its call.
          fixed: default settings of `Run`.

        Returns:
          The named measures over (model, axes..., trial, ...); NaN where a model has no such measure.
        """
        checked = checked_axes(axes)
        settings = {**fixed, **self.of_run}
        how: dict[str, Any] = {"task": self.task, "trials": self.trials, "seed": self.seed, "settings": settings}
        runs = {
            name: [run_of(point, model=model, **how) for point in points_of(checked)] for name, model in models.items()
        }
        device = settings.get("device", "auto")
        choose_device(device)
        self.task.signals([0], self.seed)  # reads the images: a missing file is an error now, not in a batch
        parts = []
        for name, model in models.items():
            part = self.sweep(
                cells_of(model, self.task, settings),
                checked,
                batch=batches_of(runs[name], *_kept_together(model, checked)),
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
        arguments = {**changed, "trials": self.trials, "seed": self.seed, "task": self.task}
        arguments |= {"batch_size": self.recipe.batch_size, "learning_rate": self.recipe.learning_rate}
        config = {
            "task": _record(self.task),
            "models": {name: _record(model) for name, model in models.items()},
            "settings": {name: plain(value) for name, value in settings.items()},
        }
        joined.attrs = self.attrs(arguments, config, device, source=self.source)
        return joined


def _record(config: Config) -> dict[str, Any]:
    return {"name": type(config).__name__, **config.model_dump(mode="json")}


def _kept_together(model: Model, axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """The axes along which grid points share no batch: fixed patches are padded to the largest l of their batch."""
    if isinstance(model, RoutedMoE):
        return [name for name in axes if name in RoutedMoE.model_fields]
    return [] if isinstance(model, JointMoE) else [name for name in axes if name == "patches_per_expert"]
