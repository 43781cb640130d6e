"""The solution of notebook 00, and the wrong answers that its hints are for."""

from __future__ import annotations


def mean_accuracy(result):
    return float(result["test_accuracy"].isel(step=-1).mean("trial"))


WRONG = {
    "mean_accuracy": {
        "average over the steps too": lambda result: result["test_accuracy"].mean(),
        "You do not average": lambda result: result["test_accuracy"].isel(step=-1),
        "over the trials at every step": lambda result: result["test_accuracy"].mean("trial"),
        "before training": lambda result: result["test_accuracy"].isel(step=0).mean(),
        "the last trial, not": lambda result: result["test_accuracy"].isel(trial=-1).mean(),
        "best step": lambda result: result["test_accuracy"].mean("trial").max(),
        "best trial": lambda result: result["test_accuracy"].isel(step=-1).max(),
        "add up the trials": lambda result: result["test_accuracy"].isel(step=-1).sum(),
        "first trial alone": lambda result: result["test_accuracy"].isel(step=-1, trial=0),
        "last trial alone": lambda result: result["test_accuracy"].isel(step=-1, trial=-1),
    },
}
