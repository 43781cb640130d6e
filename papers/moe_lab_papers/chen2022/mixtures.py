"""The claims of chen2022's tables 1 and 3 about mixtures, under algorithm 1 and with the authors' objective.

One rule for all, under algorithm 1 and with the authors' objective: the mean over trials, as the paper prints it, is
within a published standard deviation. It agrees in kind where it is nearer to its own published number than to those of
the models beside it: nonlinear to linear mixtures, linear mixtures to both nonlinear ones and single experts.
Deviations under half a point (accuracy) or .1 nats (entropy, 7 % of log 4) count as that much: fewer samples cost as
much. The ten trainings of the authors share one data set; ours have one each, so that the interval of a mean holds for
other data sets too. Ranges end where the numbers do: entropies at 0 and log 4.

The authors' public code comes with the data of its runs as .pt files. These are pickles, which nothing here opens;
saved as arrays they train with `specialization.ArrayTask`, and no claim judges them.
"""

from __future__ import annotations

import math
from typing import Any

import xarray as xr

from moe_lab.specialization import figures
from moe_lab.specialization.published import published
from moe_lab_papers.paper import Measured, Paper, budgets, says
from moe_lab_papers.ranges import ROUNDING, Range, near, nearer, share_from, up_to
from moe_lab_papers.readers import at

PICTURE = "moe_lab.specialization.plots:picture"
paper = Paper("chen2022", picture=PICTURE)

SETTINGS = (1, 2, 3, 4)
KINDS = {"nonlinear": "cubic", "linear": "linear"}
HIGH_ENTROPY = math.log(4) / 4
"""An entropy in nats from which clusters count as mixed: twice the largest published one of a nonlinear mixture, and
that of four clusters of which two share an expert."""
MIXED: Range = (HIGH_ENTROPY, math.log(4) + ROUNDING)
"""The entropies, up to the largest possible one, of experts that share clusters."""
_SHARED = "trainings in which two clusters share an expert lie far out, and pull the mean away from the median"
_BETTER = "ours do better than the published ones by more than their deviation"
_NOT_LITERAL = (
    "the published linear numbers are those of the authors' objective (see the claims ending in -authors); algorithm 1 "
    "as written does better by linear experts, and their entropy is lower, but stays high"
)

PAPER_TRIALS = 40
"""Four times the paper's ten, which leave the share of trials that fail uncertain."""


def of_table_3(
    paper: Paper,
    name: str,
    seconds: tuple[float, float],
    quick: tuple[int, int],
    full: tuple[int, int],
    sees: str = "",
    **more: Any,
) -> Measured:
    """Measures table 3 for some models, in a file's paper; quick and full are (samples, trials)."""
    (few, trials), (many, more_trials) = quick, full
    return paper.measure(
        name,
        figures.table3,
        seconds=seconds,
        split=("settings", "setting"),
        sees=sees,  # single experts would leave the panel of entropies empty: see table 7
        settings=SETTINGS,
        samples=budgets(few, many),
        trials=budgets(trials, more_trials, paper=PAPER_TRIALS),
        **more,
    )


MIXTURES = {
    ("nonlinear", "paper"): of_table_3(
        paper,
        "table3-nonlinear",
        seconds=(13, 74),
        quick=(4000, 6),
        full=(16000, 10),
        sees="Cubic experts under algorithm 1: nearly every trial above 99 %, with an entropy near 0.",
        models=("moe-cubic",),
    ),
    ("linear", "paper"): of_table_3(
        paper,
        "table3-linear",
        seconds=(22, 74),
        quick=(16000, 5),
        full=(16000, 10),
        sees="Linear experts under algorithm 1 lie above the stars of the paper, and their entropies stay high.",
        models=("moe-linear",),
    ),
    ("nonlinear", "authors"): of_table_3(
        paper,
        "table3-nonlinear-authors",
        seconds=(26, 124),
        quick=(8000, 4),
        full=(16000, 10),
        sees="Cubic experts with the authors' objective: medians at the stars of the paper, some trials far out.",
        models=("moe-cubic",),
        objective="authors",
        one_data_set=False,
    ),
    ("linear", "authors"): of_table_3(
        paper,
        "table3-linear-authors",
        seconds=(11, 96),
        quick=(4000, 6),
        full=(16000, 10),
        sees="Linear experts with the authors' objective: accuracies as low and entropies as high as the paper's "
        "stars.",
        models=("moe-linear",),
        objective="authors",
        one_data_set=False,
    ),
}
_REASONS = {
    ("nonlinear", "paper"): f"{_BETTER}; {_SHARED}",
    ("linear", "paper"): _NOT_LITERAL,
    ("nonlinear", "authors"): _SHARED,
    ("linear", "authors"): "",
}


def place_of(setting: int) -> tuple[str, str]:
    """Returns (part of the id, where): tables 1 and 3 share settings 1 and 2."""
    return (
        ("table1", f"tables 1 and 3, setting {setting}") if setting < 3 else ("table3", f"table 3, setting {setting}")
    )


def _in_kind(kind: str, measure: str, theirs: xr.DataArray) -> Range:
    """Returns the range that is nearer to a mixture's number than to those of other models, of theirs(model)."""
    middle = nearer(float(theirs.sel(model="moe-cubic")), float(theirs.sel(model="moe-linear")))
    if measure == "dispatch_entropy":
        return up_to(middle) if kind == "nonlinear" else (middle, MIXED[1])
    if kind == "nonlinear":
        return share_from(middle)
    return nearer(float(theirs.sel(model="moe-linear")), float(theirs.sel(model="single-linear"))), middle


def _agrees(value: float, away: float, entropy: bool) -> Range:
    """Returns the range around a published number, without what no entropy or share can be."""
    low, high = near(value, away)
    return max(low, 0.0), min(high, MIXED[1] if entropy else 1 + ROUNDING)


def _claim(setting: int, kind: str, measure: str, objective: str) -> None:
    """Claims a number of table 3."""
    table = published("table 3").sel(setting=setting)
    theirs = table.sel(model=f"moe-{KINDS[kind]}")
    value, spread = float(theirs[measure]), float(theirs[f"{measure}_std"])
    entropy, authors = measure == "dispatch_entropy", objective == "authors"
    away = max(spread, 0.1 if entropy else 0.005)
    what = f"a dispatch entropy of {value:.3f} nats" if entropy else f"{100 * value:.2f} % of the test samples"
    how = "With the authors' objective" if authors else "Under algorithm 1"
    words = {("nonlinear", False): "reach", ("nonlinear", True): "come down to", ("linear", True): "keep"}
    verb = words.get((kind, entropy), "reach only")
    key, where = place_of(setting)
    MIXTURES[kind, objective].claim(
        f"{key}/setting{setting}-{kind}" + ("-entropy" if entropy else "") + ("-authors" if authors else ""),
        f"{how} eight {kind} experts {verb} {what}",
        at(measure, setting=setting, model=f"moe-{KINDS[kind]}"),
        says(value, spread=spread).agrees(_agrees(value, away, entropy), _in_kind(kind, measure, table[measure])),
        _REASONS[kind, objective],
        where=where,
        unit="nats" if entropy else "",
    )


for objective in ("paper", "authors"):
    for setting in SETTINGS:
        for kind in KINDS:
            for measure in ("test_accuracy", "dispatch_entropy"):
                _claim(setting, kind, measure, objective)
