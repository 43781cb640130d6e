"""Which layer, task and training each figure of pruning2024 uses here, and how its Dataset says how to make it again.

The paper states d=200, n=100, k=20 and l=5, and the scale of a random start; the number of neurons, both step sizes,
the batch and the number of steps are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr
from torch import Tensor

from moe_lab.core import figure
from moe_lab.core.config import Config, require
from moe_lab.core.trials import device_and_dtype
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.initialization import BranchStart, PlantedStart, RandomStart, Start
from moe_lab.pruning.model import TokenMoE
from moe_lab.pruning.run import TokenRun
from moe_lab.pruning.training import TokenTraining


@dataclass(frozen=True)
class Recipe:
    """What differs from the defaults of `TokenMoE`, `TokenTask` and `TokenRun`.

    Attributes:
      start: the checkpoint that is fine-tuned.
      settings: parameters of the three, by their names, none of which is in two of them.
    """

    start: Start
    settings: Mapping[str, Any] = field(default_factory=dict)


_LONG = {"router_learning_rate": 0.01, "batch": 100, "steps": 300}  # from tiny routers, which must find o by themselves
RECIPES: Mapping[tuple[str, str], Recipe] = MappingProxyType(
    {
        ("planted", "expert-choice"): Recipe(PlantedStart()),
        # A sample's output is the sum over its 100 tokens here: with larger neurons their noise hides the class before
        # anything is pruned.
        ("planted", "token-choice"): Recipe(PlantedStart(others_neurons=0.02), {"top": 2, "steps": 200}),
        ("random", "expert-choice"): Recipe(RandomStart(), _LONG),
        # About one trial in ten (4 of 40) learns a single class here, and more of them with l=2.
        ("random", "token-choice"): Recipe(RandomStart(), {"top": 3, **_LONG}),
        ("pretrained", "expert-choice"): Recipe(BranchStart()),
        # With l=2 or fewer steps the whole layer errs more than the pruned one.
        ("pretrained", "token-choice"): Recipe(BranchStart(), {"top": 3, "batch": 100, "steps": 600}),
    }
)
"""(start, routing) -> recipe."""
STARTS = ("planted", "random", "pretrained")
ROUTINGS = ("expert-choice", "token-choice")
RHO = "share of each group of experts that is pruned, rounded down to whole experts"
"""What the axis rho is."""


class TokenFigure(figure.Figure):
    """A figure of pruning2024."""

    paper = "pruning2024"
    taken = ("model", "task", "record_every", "measure")

    def run(self, start: str | Start, routing: str) -> TokenRun:
        """Returns the TokenRun of a recipe with the caller's parameters; see `run_of`."""
        return run_of(self.place, start, routing, trials=self.trials, seed=self.seed, more=self.more)


def recipe_of(start: str | Start, routing: str) -> Recipe:
    """Returns the recipe of a routing and a start, which is a name or a Config with other parameters.

    Raises:
      ValueError: there is no such start or routing.
    """
    require(routing in ROUTINGS, "routing must be 'expert-choice' or 'token-choice'", routing=routing)
    kind = start.name if isinstance(start, Config) else start
    rule = "start must be 'planted', 'random', 'pretrained', or a PlantedStart, RandomStart or BranchStart"
    require(kind in STARTS, rule, start=start)
    found = RECIPES[kind, routing]
    return found if isinstance(start, str) else Recipe(start, found.settings)


def run_of(
    place: str, start: str | Start, routing: str, *, trials: int, seed: int, more: Mapping[str, Any]
) -> TokenRun:
    """Returns a recipe's TokenRun with some parameters changed, each passed to the Config that has one of its name.

    Args:
      place: what the TokenRun is for, for its errors, such as "figure 5".
      more: parameters of `TokenMoE`, `TokenTask` and `TokenRun`.

    Raises:
      ValueError: a name that none of them has, or that the figure sets itself; any wrong value or combination.
    """
    kinds: tuple[type[Config], ...] = (TokenMoE, TokenTask, TokenRun)
    known = [
        name for kind in kinds for name in kind.model_fields if name not in (*TokenFigure.taken, "start", "routing")
    ]
    strange = [name for name in more if name not in known]
    require(not strange, f"{place} takes, besides its own, the parameters {', '.join(known)}", others=strange)
    recipe = recipe_of(start, routing)
    given = {**recipe.settings, **more}
    model, task, how = ({name: given[name] for name in given if name in kind.model_fields} for kind in kinds)
    return TokenRun(
        model=TokenMoE(**{**model, "routing": routing}),
        task=TokenTask(**task),
        **{**how, "start": recipe.start, "trials": trials, "seed": seed, "measure": "last"},
    )


def trained(run: TokenRun) -> tuple[FineTuned, dict[str, np.ndarray]]:
    """Fine-tunes a run and returns both checkpoints, and the measures of `MEASURES` at the end."""
    training = TokenTraining(run.replace(record_every=run.steps))
    *_, last = training.snapshots()
    return FineTuned.of(training, run), dict(last.values)


def check_device(run: TokenRun) -> None:
    """Refuses a device or precision that is not there.

    Raises:
      ValueError, RuntimeError: as `devices.choose` and `choose_dtype` do.
    """
    device_and_dtype(run)


def labels(run: TokenRun) -> dict[str, Any]:
    """Returns the coordinates "trial", "expert" (counted from 1, as in the paper) and "group" (how it votes)."""
    experts = np.arange(1, run.model.experts + 1)
    group = np.where(experts <= run.model.experts // 2, "+", "-")
    about = {"long_name": "experts that vote + and -"}
    return {"trial": run.trial_numbers, "expert": experts, "group": ("expert", group, about)}


def array(values: Tensor) -> np.ndarray:
    """Returns a tensor of a run as a NumPy array: float64 or bool."""
    plain = values.detach().cpu()
    return np.asarray((plain.double() if plain.is_floating_point() else plain).numpy())


def variable(dims: Sequence[str], values: Any, meaning: str, units: str = "") -> xr.Variable:
    """Returns values with named axes, unit and meaning."""
    return xr.Variable(tuple(dims), values, {"units": units, "long_name": meaning})
