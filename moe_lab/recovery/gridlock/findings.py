"""What each table and figure of gridlock2019 shows, as one plain sentence that its data decide."""

from __future__ import annotations

import xarray as xr

from moe_lab.drawing.findings import ahead, who
from moe_lab.recovery.gridlock.method_names import name_of
from moe_lab.recovery.gridlock.verdicts import FOUND

REACHED = 1.1
"""An error of at most so many times that of EM from the truth has reached it."""


def _names(data: xr.Dataset) -> list[str]:
    return [str(name) for name in data["algorithm"].values]


def regressors_found(data: xr.Dataset) -> str:
    """Tables 1 and 2: whose mean regressor fit is at least `FOUND` everywhere."""
    mean = data["regressor_fit"].mean("trial")
    found = [name_of(name) for name in _names(data) if float(mean.sel(algorithm=name).min()) >= FOUND]
    words = "{} finds the regressors", "{} find the regressors", "All methods find the regressors"
    return who(found, len(_names(data)), *words, "No method finds all regressors")


def gates_found(data: xr.Dataset) -> str:
    """Theorem 3: whose mean gating fit at the largest n is at least `FOUND`, whatever the gates."""
    mean = data["gating_fit"].isel(samples=-1).mean("trial")
    names = {name: name_of("gates-em" if name == "spectral" else name) for name in _names(data)}
    found = [words for name, words in names.items() if float(mean.sel(algorithm=name).min()) >= FOUND]
    return who(
        found, len(names), "{} finds every kind of gates", "{} find every kind of gates", "All methods find the gates",
        "No method finds every kind of gates",
    )  # fmt: skip


def reached(data: xr.Dataset) -> xr.DataArray:
    """Whether the last error of a trial is that of EM from the truth, over all axes but iteration."""
    return data["error"].isel(iteration=-1) <= REACHED * data["best_error"]


def truth_reached(data: xr.Dataset) -> str:
    """Figures 3 to 5: who comes to the error of EM from the truth in most trials, within a twentieth of them."""
    there = reached(data)
    shares = {name_of(name): float(there.sel(algorithm=name).mean()) for name in _names(data)}
    if not any(shares.values()):
        return "No method reaches the error of EM from the truth"
    most = ahead(shares, 0.05)
    return who(
        most, len(shares), "{} reaches the error of EM from the truth most often",
        "{} reach the error of EM from the truth most often", "All methods reach the error of EM from the truth alike",
    )  # fmt: skip


def predicts_best(data: xr.Dataset) -> str:
    """Figure 6: the least median test error, within a twentieth of it."""
    medians = data["test_error"].median("trial")
    errors = {name_of(name): float(medians.sel(algorithm=name)) for name in _names(data)}
    best = ahead(errors, 0.05 * float(medians.min()), least=True)
    return who(best, len(errors), "{} predicts best", "{} predict best", "All methods predict alike")


def found_most_often(data: xr.Dataset) -> str:
    """Section 4.3: who finds all regressors in most trials, within a twentieth of them, and who is stuck."""
    fit, stuck = data["regressor_fit"] >= FOUND, data["stuck"] > 0
    found = {name: float(fit.sel(algorithm=name).mean()) for name in _names(data)}
    held = [name_of(name) for name in found if float(stuck.sel(algorithm=name).mean()) > found[name]]
    most = [name_of(name) for name in ahead(found, 0.05)]
    if not any(found.values()):
        return "No method finds all regressors"
    words = "{} finds all regressors most often", "{} find all regressors most often", "All methods find them alike"
    text = who(most, len(found), *words)
    return f"{text}; {' and '.join(held)} mostly gets stuck" if held else text
