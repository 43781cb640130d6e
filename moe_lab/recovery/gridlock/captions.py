"""Describes each table and figure in a sentence or two with numbers, for screen readers and for print."""

from __future__ import annotations

import numpy as np
import xarray as xr

from moe_lab.core.words import counted, series, span
from moe_lab.recovery.gridlock.plot_helpers import name_of
from moe_lab.recovery.gridlock.stuck import verdict

VERDICT_ORDER = ("found", "still moving", "stuck", "diverged")
REACHED = 1.1
"""An error counts as that of EM from the truth up to this factor."""


def verdict_counts(data: xr.Dataset) -> dict[str, int]:
    """How many trials were found, are still moving, are stuck or diverged."""
    words = verdict(data).values.ravel().tolist()
    return {word: words.count(word) for word in VERDICT_ORDER}


def tables(data: xr.Dataset) -> str:
    parts = []
    for method in map(str, data["algorithm"].values):
        one = data.sel(algorithm=method).mean("trial")
        regressors, gates = (span(one[name].values) for name in ("regressor_fit", "gating_fit"))
        parts.append(f"{name_of(method)} {regressors} and {gates}")
    return f"Mean fits of regressors and gates over {counted(data.sizes['trial'])}: {'; '.join(parts)}."


def gates(data: xr.Dataset) -> str:
    mean, parts = data["gating_fit"].mean("trial"), []
    for samples in data["samples"].values:
        one = mean.sel(samples=samples)
        numbers = [
            f"{name_of('gates-em' if m == 'spectral' else str(m))} {span(one.sel(algorithm=m).values)}"
            for m in data["algorithm"].values
        ]
        parts.append(f"n = {samples:,}: {', '.join(numbers)}")
    return f"Mean gating fit over {counted(data.sizes['trial'])}, with no EM of the regressors. {'; '.join(parts)}."


def stuck(data: xr.Dataset) -> str:
    parts = []
    for method in map(str, data["algorithm"].values):
        counts = verdict_counts(data.sel(algorithm=method))
        numbers = [f"{counts[word]} {word}" for word in VERDICT_ORDER if counts[word]]
        parts.append(f"{name_of(method)}: {series(numbers)}")
    total = int(np.prod([size for name, size in data["stuck"].sizes.items() if name != "algorithm"]))
    rule = (
        f"the error fell by less than {100 * float(data.attrs['gain']):g} % in {int(data.attrs['window'])} iterations"
    )
    return f"Of {total} trials each, {'; '.join(parts)}. Stuck: not found, and {rule}."


def reached(data: xr.Dataset) -> xr.DataArray:
    """Whether the last error of a trial is that of EM from the truth, over all axes but iteration."""
    return data["error"].isel(iteration=-1) <= REACHED * data["best_error"]


def curves(data: xr.Dataset) -> str:
    there = reached(data)
    total = int(np.prod([size for name, size in there.sizes.items() if name != "algorithm"]))
    parts = [f"{name_of(str(name))} {int(there.sel(algorithm=name).sum())}" for name in data["algorithm"].values]
    best = span(data["best_error"].median("trial").values, "{:.2g}")
    return (
        f"After {int(data['iteration'][-1])} iterations, of {total} trials each: {', '.join(parts)} reach the error "
        f"of EM from the truth ({best})."
    )


def real_data(data: xr.Dataset) -> str:
    medians = data["test_error"].median("trial")
    parts = [
        f"{name_of(str(name))} {float(medians.sel(algorithm=name)):.3f}"
        if medians.sel(algorithm=name).notnull()
        else f"{name_of(str(name))} has no start"
        for name in data["algorithm"].values
    ]
    source = str(data.attrs.get("source", "")).capitalize()
    return f"{source}, medians of {data.sizes['trial']} divisions: {', '.join(parts)}."
