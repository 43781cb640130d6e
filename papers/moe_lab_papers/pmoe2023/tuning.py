"""Figure 4 of pmoe2023 on 8x8 digits with each model at a step size of its own, found on trials that are not judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.core.origins import call_of
from moe_lab.core.snapshots import final
from moe_lab.patch_routing import CNN, JointMoE, SeparateMoE, figures
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.model import PatchModel
from moe_lab.patch_routing.recipes import RECIPES
from moe_lab.patch_routing.run import PatchRun
from moe_lab.patch_routing.training import train_batch

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the recipe's step size, which was chosen for joint training."""
_NOT_JUDGED = 10_000  # the first trial of those that tune; a figure's own are 0, 1, ...


def tuned_sample_complexity(
    samples: Sequence[int],
    trials: int,
    seed: int = 0,
    *,
    tuning_samples: int = 100,
    tuning_trials: int = 12,
    device: str = "auto",
    **settings: Any,
) -> xr.Dataset:
    """Computes figure 4 on 8x8 digits, each model at that of five step sizes with which it did best.

    Args:
      samples, trials, seed, device: as for `figures.sample_complexity`.
      tuning_samples: N at which the step sizes are compared, by the mean test accuracy.
      tuning_trials: trainings for each step size, with samples (of the same images) and weights that no judged trial
        has.
      settings: other parameters of `moe_lab.patch_routing.PatchRun`.

    Returns:
      What `figures.sample_complexity` returns, with learning_rate(model) and tuned(model, factor), the mean accuracy
      at each of `FACTORS` times the recipe's step size.
    """
    recipe = RECIPES["digits"]
    rates = [factor * (recipe.learning_rate or 1.0) for factor in FACTORS]
    separate = SeparateMoE(patches_per_expert=recipe.separate_patches)
    models: dict[str, PatchModel] = {"joint": JointMoE(), "separate": separate, "cnn": CNN()}
    how = {"trials": tuning_trials, "samples": tuning_samples, "seed": seed, "device": device, **settings}
    tuned = {name: _accuracies(model, recipe.batch_size, rates, how) for name, model in models.items()}
    best = {name: rates[int(np.argmax(found))] for name, found in tuned.items()}
    curves = [
        figures.sample_complexity(
            samples=samples,
            trials=trials,
            seed=seed,
            models={name: model},
            learning_rate=best[name],
            device=device,
            **settings,
        )
        for name, model in models.items()
    ]
    joined = xr.concat(curves, "model", data_vars="all", coords="minimal", compat="override", combine_attrs="override")
    steps = {"learning_rate": ("model", list(best.values())), "tuned": (("model", "factor"), list(tuned.values()))}
    call = {"samples": tuple(samples), "trials": trials, "seed": seed, "tuning_samples": tuning_samples}
    joined.attrs["call"] = call_of("tuned_sample_complexity", {**call, "tuning_trials": tuning_trials, **settings})
    return joined.assign(steps).assign_coords(factor=list(FACTORS))


def _accuracies(model: PatchModel, batch_size: int, rates: Sequence[float], how: dict[str, Any]) -> list[float]:
    """The mean test accuracy at each step size; 0 where a training diverged."""
    task = make_task("digits")
    runs = [
        PatchRun(
            model=model.replace(batch_size=batch_size, learning_rate=rate),
            task=task,
            first_trial=_NOT_JUDGED,
            measure="last",
            **how,
        )
        for rate in rates
    ]
    accuracy = final(train_batch(runs))["test_accuracy"].reshape(len(rates), -1)
    return [float(value) for value in np.nan_to_num(accuracy).mean(1)]
