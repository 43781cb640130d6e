"""Figures 4 to 9 of pmoe2023 (section 5.1), each one call that returns a labelled Dataset; `plots` draws it.

`illustrations` has what the drawings of figures 1 to 3 show, of a model that is trained.

A Dataset records in `.attrs["call"]` how to make it again. Wrong values raise a ValueError before anything trains. All
models of a figure train in the same way, until zero training error, at the step size and batch size that `RECIPES` has
for the source:

- "digits": B=2, step size 8. The paper states no batch size, and a step size for raw pixels only. At N=100 the
  accuracy of the joint model (B from 1 to 20, step sizes from 4 to 80) rises with the ratio of the two: 96.7 % at B=20
  and step size 5, 97.4 % here. The CNN gains a point or two as well (86.2 to 87.4 %).
- "mnist": B=20, step size 2, within the paper's 150 epochs. B=2 trains faster and lifts the CNN by 2 to 4 points.
- "patterns": B=20, step size 5. Separate training keeps l=6 here, because l* is 5.

`recipe="authors"` is the training of the authors' code, from grey values and for all of 150 epochs, with B=20 and step
size .2 (see `start`). Figure 4 then has two CNNs: of 4 filters, as their code, and of 40, as the paper says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.illustrations import illustrations
from moe_lab.patch_routing.model import CNN, JointMoE, PatchModel, SeparateMoE
from moe_lab.patch_routing.phase import phase_map, phase_map_stream
from moe_lab.patch_routing.recipes import RECIPES, PatchFigure
from moe_lab.patch_routing.run import Task

__all__ = [
    "RECIPES",
    "accuracy_by_experts",
    "accuracy_by_patches",
    "illustrations",
    "joint_routers",
    "phase_map",
    "phase_map_stream",
    "sample_complexity",
    "samples_for",
    "samples_needed",
    "separate_routers",
]

SAMPLES = (60, 100, 200, 300, 500, 700, 1000)
FIXED_SAMPLES = (100, 300)
ROUTER_SAMPLES = (20, 40, 60, 100, 200, 300, 500, 1000)


@reproducible(first=("samples", "models"))
@checked
def sample_complexity(
    source: str = "digits",
    samples: Sequence[int] = SAMPLES,
    trials: int = 5,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    task: Task | None = None,
    models: Mapping[str, PatchModel] | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Figure 4: test accuracy of joint training, separate training and the CNN against the number of samples.

    Joint training has k=8 experts of l=6, separate training 2 experts of l=2 (see `RECIPES`), all models m=40 neurons.

    Args:
      source: "digits" (embedded 8x8 digits, 6 against 7), "mnist" (1 against 0, with root=) or "patterns".
      samples: the values of N, even.
      trials: independent trainings per grid point; a trial has its own data and weights.
      root: a folder of MNIST IDX files.
      task: any other task; the source is then the task's.
      models: {"joint": ..., "separate": ..., "cnn": ...}, to change anything about them but how they train.
      settings: device, precision, epochs, test_samples (parameters of `PatchRun`); batch_size, learning_rate and recipe
        (of all models); store and jobs (see `moe_lab.core.sweep.sweep`).

    Returns:
      test_accuracy(model, samples, trial) and coverage(model, samples, trial, class), NaN for the CNN.

    Raises:
      FileNotFoundError: image files are missing.
    """
    figure = PatchFigure("figure 4", trials, seed, settings, task or make_task(source, root=root))
    separate = SeparateMoE(patches_per_expert=figure.recipe.separate_patches)
    usual: dict[str, PatchModel] = {"joint": JointMoE(), "separate": separate, "cnn": CNN()}
    if figure.whose == "authors":
        usual["cnn-4"] = CNN(neurons=4)
    chosen = {name: figure.model(model) for name, model in (models or usual).items()}
    return figure.fill(chosen, {"samples": samples}, ("test_accuracy", "coverage"))


@reproducible(first=("experts", "samples", "model"))
@checked
def accuracy_by_experts(
    source: str = "digits",
    experts: Sequence[int] = (1, 2, 4, 5, 8, 10, 20, 40),
    samples: Sequence[int] = FIXED_SAMPLES,
    trials: int = 5,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    task: Task | None = None,
    model: JointMoE | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Figure 6: test accuracy of joint training against k, for fixed N. The m=40 neurons are divided among the experts.

    The paper does not state what it keeps fixed; here it is m, so that models of every k have the same size.

    Args:
      experts: the values of k, divisors of m.
      model: another model than `JointMoE()`, whose k is replaced; the rest as in `sample_complexity`.

    Returns:
      test_accuracy(samples, experts, trial).
    """
    figure = PatchFigure("figure 6", trials, seed, settings, task or make_task(source, root=root))
    chosen = {"joint": figure.model(model or JointMoE())}
    found = figure.fill(chosen, {"samples": samples, "experts": experts}, ("test_accuracy",))
    return found.squeeze("model", drop=True)


@reproducible(first=("patches_per_expert", "samples", "model"))
@checked
def accuracy_by_patches(
    source: str = "digits",
    patches_per_expert: Sequence[int] = (1, 2, 3, 4, 6, 8, 10, 12, 16),
    samples: Sequence[int] = FIXED_SAMPLES,
    trials: int = 5,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    task: Task | None = None,
    model: JointMoE | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Figure 7: test accuracy of joint training against l, for fixed N. At l=1 the routers cannot learn.

    Args:
      patches_per_expert: the values of l, at most n.
      model: another model than `JointMoE()`, whose l is replaced; the rest as in `sample_complexity`.

    Returns:
      test_accuracy(samples, patches_per_expert, trial) and coverage(..., class).
    """
    figure = PatchFigure("figure 7", trials, seed, settings, task or make_task(source, root=root))
    chosen = {"joint": figure.model(model or JointMoE())}
    axes = {"samples": samples, "patches_per_expert": patches_per_expert}
    found = figure.fill(chosen, axes, ("test_accuracy", "coverage"))
    return found.squeeze("model", drop=True)


@reproducible(first=("patches_per_expert", "samples", "model"))
@checked
def separate_routers(
    source: str = "digits",
    patches_per_expert: Sequence[int] = (1, 2, 4, 6),
    samples: Sequence[int] = ROUTER_SAMPLES,
    trials: int = 5,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    task: Task | None = None,
    model: SeparateMoE | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Figure 8: how often o is among the top l patches of a separately trained router, against N.

    The routers are trained before the experts and then frozen, so that one epoch of the experts suffices.

    Args:
      patches_per_expert: the values of l.
      model: another model than `SeparateMoE()`, whose l is replaced; the rest as in `sample_complexity`.

    Returns:
      coverage(patches_per_expert, samples, trial, class).
    """
    figure = PatchFigure("figure 8", trials, seed, settings, task or make_task(source, root=root))
    chosen = {"separate": figure.model(model or SeparateMoE())}
    axes = {"patches_per_expert": patches_per_expert, "samples": samples}
    return figure.fill(chosen, axes, ("coverage",), epochs=1).squeeze("model", drop=True)


@reproducible(first=("samples", "model"))
@checked
def joint_routers(
    source: str = "digits",
    samples: Sequence[int] = ROUTER_SAMPLES,
    trials: int = 5,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    task: Task | None = None,
    model: JointMoE | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Figure 9: how often o gets the largest gate of its class's best expert after joint training, against N (l=6).

    Args:
      model: another model than `JointMoE()`; the rest as in `sample_complexity`.

    Returns:
      largest_gate(samples, trial, class) and coverage(samples, trial, class).
    """
    figure = PatchFigure("figure 9", trials, seed, settings, task or make_task(source, root=root))
    chosen = {"joint": figure.model(model or JointMoE())}
    found = figure.fill(chosen, {"samples": samples}, ("largest_gate", "coverage"))
    return found.squeeze("model", drop=True)


@checked
def samples_needed(data: xr.Dataset, share: float = 0.9, accuracy: float = 0.95) -> xr.DataArray:
    """Computes the least N such that, for it and every larger N, at least `share` of the trials reach `accuracy`.

    Returns:
      N over the other axes of data.test_accuracy(..., samples, trial); NaN where no N suffices. Diverged trainings
      count as failures.

    Raises:
      ValueError: the Dataset has no such test_accuracy, or share or accuracy is not within 0 to 1.
    """
    _check_curve(data, accuracy)
    require(0 <= share <= 1, "share must be within 0 to 1", share=share)
    reached = (data["test_accuracy"] >= accuracy).mean("trial") >= share - 1e-12
    from_here = reached.sortby("samples", ascending=False).astype(int).cumprod("samples").astype(bool)
    least = from_here["samples"].where(from_here).min("samples")
    return least.assign_attrs(long_name=f"samples from which on {share:.0%} of trials reach {accuracy:.0%}")


@checked
def samples_for(data: xr.Dataset, accuracy: float = 0.95) -> xr.DataArray:
    """Interpolates the N at which the mean test accuracy crosses `accuracy`.

    Returns:
      N over the other axes; the least measured N where that already suffices, NaN where none does.

    Raises:
      ValueError: the Dataset has no test_accuracy(..., samples, trial), or accuracy is not within 0 to 1.
    """
    _check_curve(data, accuracy)
    mean = data["test_accuracy"].mean("trial").sortby("samples")
    counts = mean["samples"].values.astype(float)

    def crossing(curve: np.ndarray) -> float:
        enough = np.flatnonzero(curve >= accuracy)
        if not len(enough):
            return np.nan
        after = enough[0]
        before = max(after - 1, 0)
        return float(np.interp(accuracy, curve[[before, after]], counts[[before, after]])) if after else counts[0]

    found = xr.apply_ufunc(crossing, mean, input_core_dims=[["samples"]], vectorize=True)
    return found.assign_attrs(long_name=f"samples for a mean test accuracy of {accuracy:.0%}")


def _check_curve(data: xr.Dataset, accuracy: float) -> None:
    dims = data["test_accuracy"].dims if "test_accuracy" in data else ()
    rule = "data must have test_accuracy with the axes samples and trial"
    require({"samples", "trial"} <= set(dims), rule, dims=dims)
    require(0 <= accuracy <= 1, "accuracy must be within 0 to 1", accuracy=accuracy)
