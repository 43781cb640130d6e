"""Tables 1 and 3 to 9 and figures 1 and 3 to 5 of chen2022, each one call that returns a labelled Dataset.

`plots` draws it beside `published.published`. A Dataset records in `.attrs["call"]` how to make it again. There are K=4
clusters, P=4 patches, d=50, M=8 experts of J=16 filters (figure 1: M=4), trained in one of two ways:

- `objective="paper"`: algorithm 1 on unscaled data with the step sizes that belong to it, for 300 steps: later some
  trials collapse. sigma_0, which the paper does not state, is .01, and 8e-4 for linear experts.
- `objective="authors"`: the training of the authors' code (see `SwitchMoE`), for at most 500 steps; trials stop early
  as theirs do. It reproduces table 3's linear experts.

Single experts are trained by Adam for 500 steps in both, with biases, as the authors' are. Eq. 3.1 has none, but the
results of tables 3, 7 and 8 for cubic ones need them (setting 1, 16,000 samples: 78 %, without biases 53 %): a filter
without bias depends only on the cube of a signal's strength.

There are as many test samples as training samples. Any other parameter of `ClusterRun` (steps, device, precision, ...)
can be given too and, where a grid is trained, store and jobs of `moe_lab.core.sweep.sweep`. Wrong values raise a
ValueError before anything trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.origins import as_tuple
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.embedding import dispatch_table, tsne
from moe_lab.specialization.published import PLACES, published
from moe_lab.specialization.recipes import ALL, ClusterFigure

__all__ = [
    "ALL",
    "PLACES",
    "dispatch_table",
    "entropy_through_time",
    "inner_products",
    "load_balancing",
    "published",
    "single_experts",
    "table1",
    "table3",
    "tsne",
]

BALANCE = 1e-3
"""lambda of table 9. The paper names it for images only (appendix A.3); the authors' code holds .001 and .0001."""
OPTIMUM = 0.875
"""The most that any single expert can reach where alpha and gamma are drawn alike (theorem 4.1)."""
_TABLE = ("test_accuracy", "dispatch_entropy", "train_accuracy", "expert_load", "expert_accuracy", "dispatch")
_ACTIVATION = {"long_name": "activation of the single expert"}
_PRODUCTS = ("expert_feature", "expert_center", "router_feature", "router_center")


@reproducible()
@checked
def table3(
    settings: int | Sequence[int] = (1, 2, 3, 4),
    trials: int = 10,
    seed: int = 0,
    objective: str = "paper",
    samples: int = 16000,
    models: str | Sequence[str] = ALL,
    *,
    one_data_set: bool | None = None,
    **more: Any,
) -> xr.Dataset:
    """Table 3: test accuracy and dispatch entropy of mixtures and single experts in the paper's four settings.

    Args:
      settings: one or several of 1 to 4.
      trials: independent trainings of each model.
      objective: "paper" or "authors".
      samples: of training, and of testing unless test_samples is given.
      models: one or several of moe-ACTIVATION, single-ACTIVATION (128 filters) or single-ACTIVATION-FILTERS.
      one_data_set: whether all trials share it; None where they do with the authors' objective alone, like theirs.
      more: other parameters of `ClusterRun`, store and jobs.

    Returns:
      test_accuracy, dispatch_entropy and train_accuracy over (setting, model, trial), dispatch(..., cluster, expert),
      expert_load(..., expert) and expert_accuracy(..., expert, cluster), all at the end. Single experts have no
      dispatch (NaN). Diverged trials are NaN throughout.
    """
    figure = ClusterFigure("table 3", trials, seed, more, objective, samples)
    changes = {"task": _given(one_data_set)}
    return figure.fill({"setting": as_tuple(settings), "model": as_tuple(models)}, _TABLE, changes)


def _given(one_data_set: bool | None) -> dict[str, Any]:
    """The argument as far as it was given."""
    return {} if one_data_set is None else {"one_data_set": one_data_set}


@reproducible()
@checked
def table1(
    trials: int = 10,
    seed: int = 0,
    objective: str = "paper",
    samples: int = 16000,
    models: str | Sequence[str] = ALL,
    **more: Any,
) -> xr.Dataset:
    """Table 1: settings 1 and 2 of `table3`, with the same arguments and values."""
    figure = ClusterFigure("table 1", trials, seed, more, objective, samples)
    return figure.fill({"setting": (1, 2), "model": as_tuple(models)}, _TABLE)


@reproducible()
@checked
def single_experts(
    settings: int | Sequence[int] = (1, 2, 3),
    activations: str | Sequence[str] = tuple(ACTIVATIONS),
    trials: int = 10,
    seed: int = 0,
    samples: int = 16000,
    *,
    filters: int = 128,
    biases: bool = True,
    feature: tuple[float, float] | None = None,
    feature_noise: tuple[float, float] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Tables 7 (setting 3) and 8 (settings 1 and 2): one expert for all clusters, with each activation.

    Args:
      settings, trials, seed, samples, more: as for `table3`.
      activations: one or several of cubic, linear, relu, celu, gelu and tanh.
      filters: J of the expert.
      biases: whether its filters have biases, as in theorem 4.1 and the authors' code; eq. 3.1 has none.
      feature, feature_noise: other ranges of alpha and gamma. Table 7 has (1, 2) for both, which are not setting
        3's: pass them to compare with it.

    Returns:
      test_accuracy and train_accuracy over (setting, activation, trial), and optimum(setting): the bound of theorem
      4.1, NaN where alpha and gamma are drawn differently, for which there is none.
    """
    names, chosen = as_tuple(activations), as_tuple(settings)
    rule = f"activations must be among {', '.join(ACTIVATIONS)}"
    require(all(name in ACTIVATIONS for name in names), rule, activations=names)
    place = "table 7" if chosen == (3,) else "table 8" if 3 not in chosen else "tables 7 and 8"
    figure = ClusterFigure(place, trials, seed, more, samples=samples)
    task = {"feature": feature, "feature_noise": feature_noise}
    axes: dict[str, list[Any]] = {"setting": list(chosen), "model": [f"single-{name}-{filters}" for name in names]}
    changes: dict[str, dict[str, Any]] = {name: {"biases": biases} for name in axes["model"]}
    changes["task"] = {name: value for name, value in task.items() if value is not None}
    data = figure.fill(axes, ("test_accuracy", "train_accuracy"), changes)
    data = data.rename(model="activation").assign_coords(activation=("activation", list(names), _ACTIVATION))
    runs = figure.runs(axes, changes)
    tasks = {point["setting"]: run.task for point, run in runs if isinstance(run.task, ClusterTask)}
    bounds = [OPTIMUM if task.feature == task.feature_noise else float("nan") for task in tasks.values()]
    data["optimum"] = "setting", bounds, {"long_name": "most that a single expert can reach, theorem 4.1"}
    return data


@reproducible()
@checked
def load_balancing(
    settings: int | Sequence[int] = (1, 2, 3, 4),
    trials: int = 10,
    seed: int = 0,
    objective: str = "paper",
    samples: int = 16000,
    *,
    strength: float = BALANCE,
    one_data_set: bool | None = None,
    **more: Any,
) -> xr.Dataset:
    """Table 9: linear experts with the load-balancing loss against cubic experts without it.

    Args:
      settings, trials, seed, objective, samples, one_data_set, more: as for `table3`.
      strength: lambda, the weight of the loss.

    Returns:
      What `table3` returns, for the models "moe-linear" (with the loss) and "moe-cubic" (without).
    """
    figure = ClusterFigure("table 9", trials, seed, more, objective, samples)
    axes = {"setting": as_tuple(settings), "model": ["moe-linear", "moe-cubic"]}
    changes = {"moe-linear": {"load_balancing": strength}, "task": _given(one_data_set)}
    return figure.fill(axes, _TABLE, changes)


@reproducible()
@checked
def entropy_through_time(
    settings: int | Sequence[int] = (1, 2),
    trials: int = 10,
    seed: int = 0,
    objective: str = "paper",
    samples: int = 16000,
    models: str | Sequence[str] = ("moe-cubic", "moe-linear"),
    *,
    every: int = 10,
    **more: Any,
) -> xr.Dataset:
    """Figure 3: the dispatch entropy of mixtures through training.

    Args:
      settings, trials, seed, objective, samples, models, more: as for `table3`; models are mixtures, trained for
        300 steps, or 500 with the authors' objective, unless `steps` is given.
      every: steps from one value to the next.

    Returns:
      dispatch_entropy and test_accuracy over (setting, model, step, trial).
    """
    names = as_tuple(models)
    require(all(str(name).startswith("moe-") for name in names), "only mixtures have a dispatch entropy", models=names)
    more = _timed(more, objective)
    figure = ClusterFigure("figure 3", trials, seed, more, objective, samples, every)
    data = figure.fill({"setting": as_tuple(settings), "model": names}, ("dispatch_entropy", "test_accuracy"))
    return data.assign_attrs(settled={"steps": more["steps"]})


@reproducible()
@checked
def inner_products(
    activation: str = "cubic",
    setting: int = 1,
    trials: int = 1,
    seed: int = 0,
    objective: str = "paper",
    samples: int = 16000,
    *,
    every: int = 5,
    **more: Any,
) -> xr.Dataset:
    """Figures 4 (cubic) and 5 (linear): what experts and routers have learned of v_k and c_k, through training.

    Args:
      activation: of the experts.
      setting, trials, seed, objective, samples, more: as for `entropy_through_time`.
      every: steps from one value to the next.

    Returns:
      expert_feature, expert_center (largest |<w, v_k>| and |<w, c_k>| among an expert's filters), router_feature and
      router_center (<theta, v_k> and <theta, c_k>, which the paper may show without their sign), all over
      (step, trial, expert, cluster).
    """
    place = {"cubic": "figure 4", "linear": "figure 5"}.get(activation, "figures 4 and 5, another activation")
    more = _timed(more, objective)
    figure = ClusterFigure(place, trials, seed, more, objective, samples, every)
    found = figure.fill({"setting": [setting], "model": [f"moe-{activation}"]}, _PRODUCTS)
    found = found.transpose("setting", "model", "step", "trial", "expert", "cluster").squeeze(("setting", "model"))
    return found.assign_attrs(settled={"steps": more["steps"]})


def _timed(more: dict[str, Any], objective: str) -> dict[str, Any]:
    """Sets one number of steps for all trials, so that their lines have the same length."""
    return {"steps": {"authors": 500}.get(objective, 300)} | more
