"""The check of notebook 00: a number read from a result."""

from __future__ import annotations

import numpy as np

from moe_lab.exercises.cases import Case, one_only
from moe_lab.exercises.verdict import Verdict, judge


def check_mean_accuracy(mean_accuracy: object) -> Verdict:
    """Checks `mean_accuracy(result) -> float`: test accuracy at the last step, averaged over trials.

    result is a Dataset with test_accuracy(step, trial), as `collect(train(...))` returns it.
    """
    praise = "A result keeps its axes by name, so code that reads it says what it means."
    samples = np.random.default_rng(10).uniform(0.5, 1, size=(7, 4))
    rows = [np.array([[0.5, 0.4, 0.55], [0.92, 0.8, 0.99], [0.7, 0.95, 0.6]]), samples]
    formula = "(1/T) sum over the trials of test_accuracy at the last step"
    return judge("mean_accuracy", mean_accuracy, [_case(accuracy) for accuracy in rows], praise, formula)


def _case(accuracy: np.ndarray) -> Case:
    import xarray as xr  # notebooks import their exercises before their first picture

    steps, trials = accuracy.shape
    result = xr.Dataset(
        {"test_accuracy": (("step", "trial"), accuracy)},
        coords={"step": 10 * np.arange(steps), "trial": np.arange(trials)},
    )
    mistakes = {
        "You average over the steps too: pick the last step with .isel(step=-1).": accuracy.mean(),
        "You do not average: there is one number a trial, take .mean('trial').": accuracy[-1],
        "You average over the trials at every step: pick the last step with .isel(step=-1).": accuracy.mean(1),
        "This is the first step, before training: the last is .isel(step=-1).": accuracy[0].mean(),
        "You take the last trial, not the last step.": accuracy[:, -1].mean(),
        "You take the best step: that is choosing by the test data. Take the last one.": accuracy.mean(1).max(),
        "You take the best trial: report the mean of all.": accuracy[-1].max(),
        "You add up the trials: take their mean.": accuracy[-1].sum(),
        **one_only("trial", accuracy[-1, 0], accuracy[-1, -1]),
    }
    about = f"for a result of {steps} steps and {trials} trials"
    return Case((result,), accuracy[-1].mean(), about, mistakes)
