"""A sentence or two for each picture of this room's figures: what it shows, in numbers, for screens and print."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import xarray as xr

from moe_lab.origins import counted, figure_of
from moe_lab.recovery.gridlock.plot_helpers import name_of
from moe_lab.recovery.gridlock.stuck import verdict

KINDS = {
    "table 1": "tables",
    "table 2": "tables",
    "theorem 3": "theorem 3",
    "section 4.3": "stuck",
    "figure 3": "figure 3",
    "figure 4": "figure 4",
    "figure 5": "figure 4",
    "figure 6": "figure 6",
}
"""The table or figure that a Dataset holds -> the one that it is drawn like."""
MOST_COLUMNS = 3
"""More sizes than these are drawn as a map of who is stuck."""
VERDICT_ORDER = ("found", "still moving", "stuck", "diverged")
REACHED = 1.1
"""An error counts as that of EM from the truth up to this factor."""


def caption(data: xr.Dataset) -> str:
    """What the picture of a Dataset of `figures` shows.

    Raises:
      ValueError: the Dataset is not one of theirs.
    """
    return _SENTENCES[kind_of(data)](data)


def kind_of(data: xr.Dataset) -> str:
    """The table or figure that a Dataset is drawn like, from its attrs.

    Raises:
      ValueError: it does not say, or is not from this room.
    """
    kind = KINDS[figure_of(data, "gridlock2019", KINDS)]
    return "stuck map" if kind == "stuck" and data.sizes["k"] * data.sizes["samples"] > MOST_COLUMNS else kind


def verdict_counts(data: xr.Dataset) -> dict[str, int]:
    """How many trials were found, are still moving, are stuck or diverged."""
    words = verdict(data).values.ravel().tolist()
    return {word: words.count(word) for word in VERDICT_ORDER}


def _fits(data: xr.Dataset) -> str:
    parts = []
    for method in map(str, data["algorithm"].values):
        one = data.sel(algorithm=method).mean("trial")
        regressors, gates = (_range(one[name].values) for name in ("regressor_fit", "gating_fit"))
        parts.append(f"{name_of(method)} {regressors} and {gates}")
    return f"Mean fits of regressors and gates over {counted(data.sizes['trial'])}: {'; '.join(parts)}."


def _gates(data: xr.Dataset) -> str:
    mean, parts = data["gating_fit"].mean("trial"), []
    for samples in data["samples"].values:
        one = mean.sel(samples=samples)
        told = [
            f"{name_of('gates-em' if m == 'spectral' else str(m))} {_range(one.sel(algorithm=m).values)}"
            for m in data["algorithm"].values
        ]
        parts.append(f"n = {samples:,}: {', '.join(told)}")
    return f"Mean gating fit over {counted(data.sizes['trial'])}, with no EM of the regressors. {'; '.join(parts)}."


def _stuck(data: xr.Dataset) -> str:
    parts = []
    for method in map(str, data["algorithm"].values):
        counts = verdict_counts(data.sel(algorithm=method))
        told = [f"{counts[word]} {word}" for word in VERDICT_ORDER if counts[word]]
        parts.append(f"{name_of(method)}: {_listed(told)}")
    total = int(np.prod([size for name, size in data["stuck"].sizes.items() if name != "algorithm"]))
    rule = (
        f"the error fell by less than {100 * float(data.attrs['gain']):g} % in {int(data.attrs['window'])} iterations"
    )
    return f"Of {total} trials each, {'; '.join(parts)}. Stuck: not found, and {rule}."


def reached(data: xr.Dataset) -> xr.DataArray:
    """Whether the last error of a trial is that of EM from the truth, over all axes but iteration."""
    return data["error"].isel(iteration=-1) <= REACHED * data["best_error"]


def _curves(data: xr.Dataset) -> str:
    there = reached(data)
    total = int(np.prod([size for name, size in there.sizes.items() if name != "algorithm"]))
    parts = [f"{name_of(str(name))} {int(there.sel(algorithm=name).sum())}" for name in data["algorithm"].values]
    best = _range(data["best_error"].median("trial").values, "{:.2g}")
    return (
        f"After {int(data['iteration'][-1])} iterations, of {total} trials each: {', '.join(parts)} reach the error "
        f"of EM from the truth ({best})."
    )


def _real(data: xr.Dataset) -> str:
    medians = data["test_error"].median("trial")
    parts = [
        f"{name_of(str(name))} {float(medians.sel(algorithm=name)):.3f}"
        if medians.sel(algorithm=name).notnull()
        else f"{name_of(str(name))} has no start"
        for name in data["algorithm"].values
    ]
    source = str(data.attrs.get("source", "")).capitalize()
    return f"{source}, medians of {data.sizes['trial']} divisions: {', '.join(parts)}."


_SENTENCES: dict[str, Callable[[xr.Dataset], str]] = {
    "tables": _fits,
    "theorem 3": _gates,
    "stuck": _stuck,
    "stuck map": _stuck,
    "figure 3": _curves,
    "figure 4": _curves,
    "figure 6": _real,
}


def _range(values: np.ndarray, form: str = "{:.3f}") -> str:
    """ ".961 to .975", or one number where both ends are written alike."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "diverged"
    low, high = form.format(finite.min()), form.format(finite.max())
    return low if low == high else f"{low} to {high}"


def _listed(parts: Iterable[str]) -> str:
    several = list(parts)
    return several[0] if len(several) == 1 else f"{', '.join(several[:-1])} and {several[-1]}"
