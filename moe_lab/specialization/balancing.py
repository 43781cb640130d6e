"""What load balancing and the division into experts do on clusters, where the right answer is known.

Each is one call that returns a labelled Dataset, which records in `.attrs["call"]` how to make it again. What the
default runs show, from a router that begins by preferring expert 1 (medians):

- Without balancing linear experts stay collapsed: one or two of eight carry everything, .81 are right.
- The Switch loss and the importance loss at strength .1 put all eight to work, each on a cluster of its own (.998).
- The z-loss lowers the scores, so that the noise on them has a say; it balances nothing, and helps half-way (.94).
- The bias balances as well as the losses, and a little fewer are right (.985, and .990 at strength 1).

References: see `moe_lab.routers.balance`; DeepSeekMoE (Dai et al., 2024, arXiv:2401.06066) for the division.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.grid import checked_axes
from moe_lab.core.origins import as_tuple, origin
from moe_lab.core.snapshots import final
from moe_lab.core.trials import device_labels
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.measures import MEASURES, TOP_K_MEASURES
from moe_lab.specialization.run import ClusterRun
from moe_lab.specialization.topk import BALANCINGS, TopKMoE
from moe_lab.specialization.training import train_run

__all__ = ["COLLAPSING", "balancing", "divisions", "summary"]

COLLAPSING = TopKMoE(activation="linear", lead=4.0)
"""A mixture that collapses without balancing: linear experts, and a router that begins by preferring expert 1."""
_KEPT = ("test_accuracy", "load_entropy", "maximal_violation", "agreement", "dispatch_entropy", "score_size")


@reproducible()
@checked
def balancing(
    kinds: str | Sequence[str] = BALANCINGS,
    strengths: float | Sequence[float] = (0.001, 0.01, 0.1, 1.0),
    trials: int = 5,
    seed: int = 0,
    samples: int = 1000,
    *,
    model: TopKMoE = COLLAPSING,
    task: ClusterTask | None = None,
    **more: Any,
) -> xr.Dataset:
    """Trains a mixture with every way to balance the load, at several strengths, on the same samples.

    Args:
      kinds: one or several of "none", "switch", "importance", "z-loss" and "bias".
      strengths: weights of the losses, and sizes of an update of the bias.
      trials: independent trainings of each.
      seed: of all random streams.
      samples: of training, and of testing.
      model: the mixture; its own balancing and strength are replaced.
      task: the clusters; the paper's setting 3 when None.
      more: other parameters of `ClusterRun`, such as steps.

    Returns:
      test_accuracy, load_entropy, maximal_violation, agreement, dispatch_entropy and score_size over (balancing,
      strength, trial); "none" is the same at every strength. Diverged trials are NaN.

    Raises:
      ConfigError, ValueError: a wrong value, before anything trains.
    """
    names, weights = as_tuple(kinds), as_tuple(strengths)
    checked_axes({"kinds": names, "strengths": weights})
    task = ClusterTask() if task is None else task
    settings = {"samples": samples, "test_samples": samples, "trials": trials, "seed": seed, **more}
    runs = {
        (name, weight): _run(model.replace(balancing=name, strength=weight), task, settings)
        for name in names
        for weight in (weights[:1] if name == "none" else weights)
    }
    found = {key: _measured(run) for key, run in runs.items()}
    grid = [[found[name, weights[0] if name == "none" else weight] for weight in weights] for name in names]
    data = _dataset(grid, {"balancing": list(names), "strength": list(weights)})
    data["strength"].attrs["long_name"] = "weight of the loss, or size of an update of the bias"
    return data.assign_attrs(_attrs("balancing", model, task, runs, seed))


@reproducible()
@checked
def divisions(
    parts: int | Sequence[int] = (1, 2, 4),
    shared: int | Sequence[int] = (0, 1),
    trials: int = 5,
    seed: int = 0,
    samples: int = 1000,
    *,
    model: TopKMoE | None = None,
    task: ClusterTask | None = None,
    **more: Any,
) -> xr.Dataset:
    """Divides experts into smaller ones and shares some, at equal parameters and equal work for a sample.

    Divided into p parts, M experts of J filters become p M experts of J / p filters, of which p work on each sample; of
    these, s are shared ones, which work on every sample, and the router chooses p - s of the p M - s others.

    Args:
      parts: p, one or several; each must divide J.
      shared: s, one or several; combinations with s >= p have no routed expert and are left out.
      trials, seed, samples, more: as for `balancing`.
      model: before the division, with one expert per sample; 8 experts of 16 filters when None.
      task: the clusters; as many as experts (8) when None, so that there is none to spare.

    Returns:
      What `balancing` returns, over (division, trial), with the coordinates experts, filters, experts_per_sample and
      shared, and parameters (numbers in all experts' filters) and active_filters, which are equal throughout.

    Raises:
      ConfigError, ValueError: a wrong value, before anything trains.

    References: Dai et al., 2024, sections 3.1 (fine-grained experts) and 3.2 (shared experts).
    """
    model = TopKMoE(filters=16) if model is None else model
    task = ClusterTask(clusters=8) if task is None else task
    rule = "model must have one expert per sample and no shared ones before the division"
    require(model.slots == 1, rule, k=model.experts_per_sample, shared=model.shared)
    settings = {"samples": samples, "test_samples": samples, "trials": trials, "seed": seed, **more}
    axes = checked_axes({"parts": as_tuple(parts), "shared": as_tuple(shared)})
    models = [_divided(model, part, common) for part in axes["parts"] for common in axes["shared"] if common < part]
    require(bool(models), "some part must be larger than shared", **axes)
    runs = {one: _run(one, task, settings) for one in models}
    data = _dataset([_measured(run) for run in runs.values()], {"division": [_words(one) for one in models]})
    for name in ("experts", "filters", "experts_per_sample", "shared"):
        data = data.assign_coords({name: ("division", [getattr(one, name) for one in models])})
    sizes = [(one.experts + one.shared) * one.filters * task.dimension for one in models]
    data["parameters"] = "division", sizes, {"long_name": "numbers in the filters of all experts"}
    data["active_filters"] = "division", [one.slots * one.filters for one in models], {"long_name": "per sample"}
    return data.assign_attrs(_attrs("divisions", model, task, runs, seed))


def summary(data: xr.Dataset) -> pd.DataFrame:
    """Returns the medians over the trials as a table: accuracy, experts' worth of the load, violation, own cluster.

    Experts' worth is exp(load_entropy), the number of equally loaded experts with the same entropy.

    Args:
      data: from `balancing` or `divisions`; an axis of one value is left out.
    """
    middle = data[list(_KEPT)].drop_vars([name for name in data.coords if name not in data.dims])
    middle = middle.squeeze([name for name in data.dims if data.sizes[name] == 1 and name != "trial"], drop=True)
    middle = middle.assign(worth=lambda data: np.exp(data["load_entropy"])).median("trial")
    columns = {"accuracy": "test_accuracy", "violation": "maximal_violation", "own cluster": "agreement"}
    table = pd.DataFrame({words: middle[name].to_series() for words, name in columns.items()})
    table.insert(1, "experts' worth", middle["worth"].to_series())
    return table.round(3)


def _divided(model: TopKMoE, parts: int, shared: int) -> TopKMoE:
    require(model.filters % parts == 0, "parts must divide the filters (J)", parts=parts, J=model.filters)
    return model.replace(
        experts=parts * model.experts - shared,
        filters=model.filters // parts,
        experts_per_sample=parts - shared,
        shared=shared,
    )


def _words(model: TopKMoE) -> str:
    words = f"{model.experts} of {model.filters} filters, top {model.experts_per_sample}"
    return words + (f", {model.shared} shared" if model.shared else "")


def _run(model: TopKMoE, task: ClusterTask, settings: dict[str, Any]) -> ClusterRun:
    return ClusterRun(model=model, task=task, **{"measure": "last", "record_every": 50, **settings})


def _measured(run: ClusterRun) -> dict[str, np.ndarray]:
    last = final(train_run(run))
    return {name: last[name] for name in _KEPT}


def _dataset(grid: list[Any], axes: dict[str, list[Any]]) -> xr.Dataset:
    """Labels nested lists of measures, one level for each axis."""

    def stacked(part: Any, name: str) -> np.ndarray:
        return part[name] if isinstance(part, dict) else np.stack([stacked(one, name) for one in part])

    values = {name: stacked(grid, name) for name in _KEPT}
    trials = {"trial": np.arange(next(iter(values.values())).shape[-1])}
    known = MEASURES | TOP_K_MEASURES
    about = {name: {"units": known[name].unit, "long_name": known[name].meaning} for name in _KEPT}
    return xr.Dataset(
        {name: ((*axes, "trial"), values[name], about[name]) for name in _KEPT}, coords={**axes, **trials}
    )


def _attrs(name: str, model: TopKMoE, task: ClusterTask, runs: dict[Any, ClusterRun], seed: int) -> dict[str, Any]:
    config = [run.record() for run in runs.values()]
    place = f"chen2022, definition 3.1 ({name})"
    return origin(
        figure=name,
        call="",
        config=config,
        seed=seed,
        device=device_labels(runs.values()),
        paper=place,
        settled={"model": model, "task": task},
    )
