"""Figures 2 to 4 of gated2019, each one call that returns a labelled Dataset, and two that the paper only speaks of.

`plots` draws them. A Dataset says in `.attrs["call"]` how to make it again. The setting is that of section 4
(`PAPER_TASK`: d=10, k=2, sigma=.05, orthonormal regressors, a gate orthogonal to them) unless parameters of
`MixtureTask` say otherwise; those of `LossRun` (batch, samples, device, precision) can be given too. Both losses begin
at the same parameters and see the same batches.

What replicates: L4 recovers from every start with the recipes of `run.RECIPES`, and L_log comes as near as with
the true regressors, within .003. What does not as such: the plateau near epoch 200. With delta = .1 and a rate of .01
every run rests, most of them in a slow direction and not at a saddle (the claim figure2/a-plateau says which).

Why l2 is stuck from about half of all starts: with the identity, E[y|x] = <a_1 + a_2, x>/2 + tanh(<w, x>/2)
<a_1 - a_2, x>/2 is nearly symmetric in w and a_1 - a_2. In the other valley the gate points along a_1* - a_2*, and
a_1 - a_2 along the true gate. It has no minimum: its floor falls, though hardly, as the gate goes to 0 and a_1 - a_2 to
infinity, towards .0014 beyond the truth's loss of .41 (the descents end at .0025).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import xarray as xr

from moe_lab.core import figure
from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.snapshots import collect
from moe_lab.core.trials import device_labels
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.landscape.gru import CONVENTIONS, GRU, gap_by_sharpness
from moe_lab.recovery.landscape.run import PAPER_TASK, RECIPES, L2Loss, L4Loss, LogLoss, LossRun
from moe_lab.recovery.landscape.stuck import stuck_at, where_l2_ended
from moe_lab.recovery.landscape.surface import Plane, surface
from moe_lab.recovery.landscape.training import descend_run

_LOSSES = ("L4", "l2")


@dataclass
class LandscapeFigure(figure.Figure):
    """A figure of gated2019.

    Args:
      every: steps from one recorded value to the next.
    """

    paper = "gated2019"
    taken = ("model", "task", "trials", "first_trial", "seed", "record_every")
    every: int = 10

    def run(self, model: L4Loss | L2Loss | LogLoss, **changed: Any) -> LossRun:
        """Returns a model's run with the caller's parameters, each passed to the Config that has one of its name."""
        settings = {"record_every": self.every, "trials": self.trials, "seed": self.seed, **self.more, **changed}
        of_task = {name: settings.pop(name) for name in list(settings) if name in MixtureTask.model_fields}
        return LossRun(model=model, task=PAPER_TASK.replace(**of_task), **settings)

    def attrs_of(self, *runs: LossRun, **more: Any) -> dict[str, Any]:
        """Returns the attrs of the results of some runs, without their call."""
        return self.about([run.record() for run in runs], device_labels(runs), **more)


@reproducible()
@checked
def l4_against_l2(trials: int = 5, seed: int = 0, steps: int | None = None, every: int = 10, **more: Any) -> xr.Dataset:
    """Figure 2 (a): the regressors' error while L4 and l2 are minimised from the same starts.

    With 40 trials it shows how often l2 gets stuck.

    Args:
      trials: starts, each with data of its own.
      seed: of all streams.
      steps: of both descents (none: the recipe's 1200).
      every: steps from one value to the next.
      more: other parameters of `MixtureTask` and `LossRun`.

    Returns:
      regressor_error(loss, step, trial); stuck and still_falling(loss, trial), see `stuck_at`; and for l2 at its end
      excess(trial), its loss beyond that of the true parameters on 50,000 fresh samples, and for two experts
      gate_to_gate and gate_to_regressors(trial), |cos| of the gate to the true gate and to a_1* - a_2*.

    Raises:
      ValueError: a wrong value or combination, before any descent.
    """
    changes = {} if steps is None else {"steps": steps}
    models: dict[str, L4Loss | L2Loss] = {"L4": RECIPES["fresh"].model.replace(**changes), "l2": L2Loss(**changes)}
    figure = LandscapeFigure("figure 2 (a)", trials, seed, more, every)
    runs = [figure.run(model) for model in models.values()]
    found = [collect(descend_run(run)) for run in runs]
    errors = xr.concat([one["regressor_error"] for one in found], dim="loss").assign_coords(loss=list(models))
    data = errors.to_dataset()
    judged = (stuck_at(torch.as_tensor(one["regressor_error"].values)) for one in found)
    stuck, falling = zip(*((part.numpy() for part in one) for one in judged), strict=True)
    data["stuck"] = ("loss", "trial"), np.stack(stuck), {"long_name": "error over .05 that has stopped to fall"}
    data["still_falling"] = ("loss", "trial"), np.stack(falling), {"long_name": "error over .05 that still falls"}
    data["diverged"] = (
        ("loss", "trial"),
        np.stack([one["diverged"].values for one in found]),
        found[0]["diverged"].attrs,
    )
    data = data.merge(where_l2_ended(runs[1], found[1].isel(step=-1)))
    return data.assign_attrs(figure.attrs_of(*runs))


@reproducible()
@checked
def gates_given_regressors(
    trials: int = 5, seed: int = 0, steps: int = 60, every: int = 1, regressor_steps: int = 1200, **more: Any
) -> xr.Dataset:
    """Figure 2 (b): the gate's error while L_log is descended, with regressors from L4, from l2, and the true ones.

    Args:
      trials, seed, more: as for `l4_against_l2`.
      steps: of L_log, which begins at the same random gates whatever the regressors.
      every: steps from one value to the next.
      regressor_steps: of L4 and of l2 before.

    Returns:
      gating_error(regressors, step, trial), and regressor_error(regressors, trial).

    Raises:
      ValueError: a wrong value or combination, before any descent.
    """
    figure = LandscapeFigure("figure 2 (b)", trials, seed, more, every)
    first = {"steps": regressor_steps}
    before = {"L4": RECIPES["fresh"].model.replace(**first), "l2": L2Loss(**first), "true": None}
    runs = [figure.run(LogLoss(regressors=model, steps=steps)) for model in before.values()]
    found = [_second_stage(collect(descend_run(run)), run) for run in runs]
    data = xr.concat([one[["gating_error"]] for one in found], dim="regressors")
    last = xr.concat([one["regressor_error"].isel(step=-1, drop=True) for one in found], dim="regressors")
    data = data.assign(regressor_error=last).assign_coords(regressors=list(before))
    data["regressors"].attrs = {"long_name": "where the regressors come from"}
    return data.assign_attrs(figure.attrs_of(*runs))


@reproducible()
@checked
def random_gates(
    trials: int = 5, seed: int = 0, steps: int = 60, every: int = 10, regressor_steps: int = 1200, **more: Any
) -> xr.Dataset:
    """Figure 3: both errors where the true gate is random on the sphere, which theorem 1 does not allow.

    Args:
      trials, seed, more: as for `l4_against_l2`.
      steps: of L_log.
      every: steps from one value of L4 to the next; L_log has ten times as many.
      regressor_steps: of L4.

    Returns:
      regressor_error(step, trial) on L4, and gating_error(gate_step, trial) on L_log with L4's regressors.

    Raises:
      ValueError: a wrong value or combination, before any descent.
    """
    figure = LandscapeFigure("figure 3", trials, seed, {"gating": "random"} | more, every)
    first = RECIPES["fresh"].model.replace(steps=regressor_steps)
    second = LogLoss(regressors=first, steps=steps)
    runs = [figure.run(first), figure.run(second, record_every=max(1, every // 10))]
    data = collect(descend_run(runs[0]))[["regressor_error"]]
    gates = _second_stage(collect(descend_run(runs[1])), runs[1])["gating_error"].rename(step="gate_step")
    settled = {"gating": figure.more["gating"]}
    return data.assign(gating_error=gates).assign_attrs(figure.attrs_of(*runs, settled=settled))


@reproducible()
@checked
def small_batches(
    trials: int = 5,
    seed: int = 0,
    batches: int | Sequence[int] = 128,
    steps: int | None = None,
    every: int = 100,
    **more: Any,
) -> xr.Dataset:
    """Figure 4: the regressors' error on L4 with batches of 128, d=5, learning rate .001.

    Args:
      trials, seed, more: as for `l4_against_l2`.
      batches: one batch size or several, all with the same recipe.
      steps: none for the recipe's 12,000.
      every: steps from one value to the next.

    Returns:
      regressor_error(batch, step, trial).

    Raises:
      ValueError: a wrong value or combination, before any descent.
    """
    sizes = tuple(int(size) for size in np.atleast_1d(np.asarray(batches)))
    require(len(set(sizes)) == len(sizes) > 0, "batches must be different batch sizes, at least one", batches=sizes)
    model = RECIPES["small"].model.replace(**({} if steps is None else {"steps": steps}))
    figure = LandscapeFigure("figure 4", trials, seed, more, every)
    runs = [figure.run(model, **{"dimension": 5} | more, batch=size) for size in sizes]
    data = xr.concat([collect(descend_run(run))[["regressor_error"]] for run in runs], dim="batch")
    data = data.assign_coords(batch=("batch", list(sizes), {"units": "samples", "long_name": "samples in a batch"}))
    return data.assign_attrs(figure.attrs_of(*runs))


@reproducible()
@checked
def loss_surface(
    loss: str = "l2",
    plane: Plane = "solutions",
    trial: int = 0,
    seed: int = 0,
    *,
    resolution: int = 41,
    samples: int = 8192,
    steps: int | None = None,
    every: int = 10,
    **more: Any,
) -> xr.Dataset:
    """Computes a loss over a plane of parameters, and the path that a descent takes, projected onto it.

    Args:
      loss: "L4" or "l2".
      plane: "solutions" contains the start, the true parameters nearest to the end, and the end (or, if it is these,
        the next solution); "path" the two main directions of the path; "regressor" the first row of A along a_1* and
        a_2*, everything else as at the end.
      trial, seed, more: which start, as for `l4_against_l2`.
      resolution: points along each side.
      samples: that the surface is computed from, of no batch.
      steps: of the descent (none: 1200).
      every: steps from one point of the path to the next.

    Returns:
      surface(v, u), path_u, path_v and off(step), how far the path is from the plane, and mark_u, mark_v, mark_off
      (mark) of start, end and solutions.

    Raises:
      ValueError: a wrong value or combination; L4's solutions are known for orthonormal regressors only.
    """
    require(loss in _LOSSES, "loss must be 'L4' or 'l2'", loss=loss)
    changes = {} if steps is None else {"steps": steps}
    model = L4Loss(**changes) if loss == "L4" else L2Loss(**changes)
    figure = LandscapeFigure("loss surface", 1, seed, more, every)
    run = figure.run(model, first_trial=trial)
    data = surface(run, plane, resolution, samples)
    return data.assign_attrs(figure.attrs_of(run))


@reproducible()
@checked
def gate_sharpness(
    sharpness: Sequence[float] = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, math.inf),
    cells: int = 5,
    seed: int = 0,
    *,
    units: int = 8,
    inputs: int = 6,
    samples: int = 4096,
) -> xr.Dataset:
    """Section 2: how far a GRU cell is from the mixture of eq. 5, for soft and for binary gates, in both conventions.

    Args:
      sharpness: beta in sigma(beta * score); infinity is a binary gate.
      cells: random cells.
      seed: of the first.
      units, inputs: m and d of each cell.
      samples: of x ~ N(0, I) and h uniform in (-1, 1).

    Returns:
      median and largest(convention, sharpness, cell): the median and the maximum, over samples, of the largest gap
      among the units.

    Raises:
      ValueError: a wrong value.
    """
    betas = tuple(float(beta) for beta in sharpness)
    require(len(betas) > 0 and cells >= 1, "sharpness must have a value, and cells be at least 1", sharpness=betas)
    require(len(set(betas)) == len(betas), "values of sharpness must differ", sharpness=betas)

    def gaps(convention: str) -> np.ndarray:  # (sharpness, cell, sample)
        models = [GRU.random(units, inputs, seed=seed + cell, convention=convention) for cell in range(cells)]
        return np.stack([gap_by_sharpness(model, betas, samples, seed) for model in models], axis=1)

    found = np.stack([gaps(name) for name in CONVENTIONS])
    dims = ("convention", "sharpness", "cell")
    coords = {"convention": list(CONVENTIONS), "cell": np.arange(cells)}
    coords["sharpness"] = "sharpness", list(betas), {"long_name": "beta in sigma(beta * score)"}
    data = xr.Dataset(coords=coords)
    data["median"] = dims, np.median(found, axis=3), {"long_name": "median over samples of a unit's largest gap"}
    data["largest"] = dims, found.max(axis=3), {"long_name": "largest gap of a unit in any sample"}
    about = LandscapeFigure("section 2", cells, seed, {}).about([], settled={"sharpness": betas})
    return data.assign_attrs(about)


def _second_stage(data: xr.Dataset, run: LossRun) -> xr.Dataset:
    """The steps of L_log alone, counted from 0."""
    before = sum(stage.steps for stage in run.stages[:-1])
    last = data.sel(step=slice(before, None))
    return last.assign_coords(step=("step", last["step"].values - before, data["step"].attrs))
