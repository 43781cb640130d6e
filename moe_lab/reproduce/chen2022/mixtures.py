"""The claims of chen2022's tables 1 and 3: mixtures, under algorithm 1 and with the authors' objective, single experts.

One rule for all mixtures: a number agrees within a published standard deviation of its own. It agrees in kind where it
is nearer to its own published number than to those of the models beside it: nonlinear to linear mixtures, linear
mixtures to both nonlinear ones and single experts. Of nonlinear experts the median of the trials is judged: single
trials, in which two clusters share an expert, lie far out. Deviations under half a point (accuracy) or .1 nats
(entropy, 7 % of log 4) count as that much: fewer samples cost as much. With the authors' objective two deviations are
allowed: their ten trainings share one data set, so do ours, and both means move with it.

Single experts have no published deviation: three points are allowed, two or three deviations between our trainings of
linear ones. They agree in kind where they fail, as theorem 4.1 says, and are nearer to their number than to guessing.

The authors' public code comes with the data of its runs as .pt files. These are pickles, which nothing here opens;
saved as arrays they train with `specialization.ArrayTask`, and no claim judges them.
"""

from __future__ import annotations

import math

import xarray as xr

from moe_lab.reproduce.chen2022.sources import FIGURES, PICTURE
from moe_lab.reproduce.claim import (
    ROUNDING,
    Claim,
    Measurement,
    Published,
    Range,
    Rule,
    near,
    nearer,
    selected,
    share_from,
    up_to,
)
from moe_lab.specialization.published import published

SETTINGS = (1, 2, 3, 4)
BOUND = 0.875
_KINDS = {"nonlinear": "cubic", "linear": "linear"}
HIGH_ENTROPY = math.log(4) / 4
"""An entropy in nats from which clusters count as mixed: twice the largest published one of a nonlinear mixture."""
_GUESSING = 0.5
_UNSTEADY = (
    "our trainings share one data set too, and with some data sets all of them are worse (setting 1, 8,000 samples: "
    "a median of 98.0 % and .64 nats at one seed, 100.0 % and .05 at another; setting 2: 98.6 % and .13 nats at "
    "seed 0, 97.6 % and .45 nats, which agrees in kind, at seed 21)"
)
_BETTER = "ours do better than the published ones by more than their deviation"
_NOT_LITERAL = (
    "the published linear numbers are those of the authors' objective (see the claims ending in -authors); algorithm 1 "
    "as written does better by linear experts, and their entropy is lower, but stays high"
)
_BY_SEED = {
    (1, "linear", "dispatch_entropy"): "1.26, 1.15 and 1.26 nats",
    (2, "nonlinear", "test_accuracy"): "99.3, 99.5 and 99.5 %, where 99.36 is the limit",
    (3, "linear", "test_accuracy"): "98.2, 97.5 and 97.2 %",
    (4, "linear", "test_accuracy"): "96.7, 97.8 and 95.9 %",
    (4, "linear", "dispatch_entropy"): ".75, .50 and .85 nats",
}
"""What quick runs under algorithm 1 measure at seeds 0, 21 and 22, where that turns the verdict."""

PAPER_TRIALS = 40
"""Four times the paper's ten, which leave the share of trials that fail uncertain."""


def _table(
    name: str, sees: str, seconds: tuple[float, float], quick: tuple[int, int], full: tuple[int, int], **more: object
) -> Measurement:
    """Table 3 for some models; quick and full are (samples, trials)."""
    budgets = [{"settings": SETTINGS, "samples": n, "trials": trials, **more} for n, trials in (quick, full)]
    return Measurement(
        name=f"chen2022/{name}",
        function=f"{FIGURES}:table3",
        quick=budgets[0],
        full=budgets[1],
        seconds=seconds,
        paper={"trials": PAPER_TRIALS},
        split=("settings", "setting"),
        device=True,
        picture=PICTURE if sees else "",  # single experts would leave the panel of entropies empty: see table 7
        sees=sees,
    )


_MIXTURES = {
    ("nonlinear", "paper"): _table(
        name="table3-nonlinear",
        sees="Cubic experts under algorithm 1: nearly every trial above 99 %, with an entropy near 0.",
        seconds=(13, 74),
        quick=(4000, 6),
        full=(16000, 10),
        models=("moe-cubic",),
    ),
    ("linear", "paper"): _table(
        name="table3-linear",
        sees="Linear experts under algorithm 1 lie above the stars of the paper, and their entropies stay high.",
        seconds=(18, 44),
        quick=(16000, 5),
        full=(16000, 10),
        models=("moe-linear",),
    ),
    ("nonlinear", "authors"): _table(
        name="table3-nonlinear-authors",
        sees="Cubic experts with the authors' objective: medians at the stars of the paper, some trials far out.",
        seconds=(26, 124),
        quick=(8000, 4),
        full=(16000, 10),
        models=("moe-cubic",),
        objective="authors",
    ),
    ("linear", "authors"): _table(
        name="table3-linear-authors",
        sees="Linear experts with the authors' objective: accuracies as low and entropies as high as the paper's "
        "stars.",
        seconds=(11, 96),
        quick=(4000, 6),
        full=(16000, 10),
        models=("moe-linear",),
        objective="authors",
    ),
}


def _place(setting: int) -> tuple[str, str]:
    """(part of the id, where): tables 1 and 3 share settings 1 and 2."""
    return (
        ("table1", f"tables 1 and 3, setting {setting}") if setting < 3 else ("table3", f"table 3, setting {setting}")
    )


def _reason(setting: int, kind: str, measure: str, authors: bool) -> str:
    if authors:
        return _UNSTEADY if kind == "nonlinear" else ""
    seen = _BY_SEED.get((setting, kind, measure))
    scatter = f"; trainings share one data set and scatter with it: {seen} at seeds 0, 21 and 22" if seen else ""
    return (_BETTER if kind == "nonlinear" else _NOT_LITERAL) + scatter


def _in_kind(kind: str, measure: str, theirs: xr.DataArray) -> Range:
    """Returns the range that is nearer to a mixture's number than to those of other models, of theirs(model)."""
    middle = nearer(float(theirs.sel(model="moe-cubic")), float(theirs.sel(model="moe-linear")))
    if measure == "dispatch_entropy":
        return up_to(middle) if kind == "nonlinear" else (middle, math.log(4) + ROUNDING)
    if kind == "nonlinear":
        return share_from(middle)
    return nearer(float(theirs.sel(model="moe-linear")), float(theirs.sel(model="single-linear"))), middle


def _mixture(setting: int, kind: str, measure: str, objective: str) -> Claim:
    table = published("table 3").sel(setting=setting)
    theirs = table.sel(model=f"moe-{_KINDS[kind]}")
    value, spread = float(theirs[measure]), float(theirs[f"{measure}_std"])
    entropy, authors = measure == "dispatch_entropy", objective == "authors"
    away = (2 if authors else 1) * max(spread, 0.1 if entropy else 0.005)
    of = "median" if kind == "nonlinear" else "mean"
    rule = Rule(agrees=near(value, away), in_kind=_in_kind(kind, measure, table[measure]), of=of)
    what = f"a dispatch entropy of {value:.3f} nats" if entropy else f"{100 * value:.2f} % of the test samples"
    how = "with the authors' objective" if authors else "under algorithm 1"
    words = {("nonlinear", False): "reach", ("nonlinear", True): "come down to", ("linear", True): "keep"}
    verb = words.get((kind, entropy), "reach only")
    key, where = _place(setting)
    name = f"setting{setting}-{kind}" + ("-entropy" if entropy else "") + ("-authors" if authors else "")
    return Claim(
        id=f"chen2022/{key}/{name}",
        where=where,
        statement=f"{how[0].upper()}{how[1:]} eight {kind} experts {verb} {what}",
        published=Published(value=value, spread=spread),
        measurement=_MIXTURES[kind, objective],
        read=selected(measure, setting=setting, model=f"moe-{_KINDS[kind]}"),
        rule=rule,
        reason=_reason(setting, kind, measure, authors),
        unit="nats" if entropy else "",
    )


_SINGLE = {
    "nonlinear": _table(
        name="table3-single-nonlinear",
        sees="",
        seconds=(5, 66),
        quick=(2000, 1),
        full=(16000, 2),
        models=("single-cubic",),
    ),
    "linear": _table(
        name="table3-single-linear",
        sees="",
        seconds=(6, 27),
        quick=(4000, 10),
        full=(16000, 10),
        models=("single-linear",),
    ),
}


def fails_as(value: float, of: str) -> Rule:
    """Returns the rule of a single expert's accuracy."""
    return Rule(agrees=near(value, 0.03), in_kind=(nearer(value, _GUESSING), BOUND), of=of)


def _single(setting: int, kind: str) -> Claim:
    model = f"single-{_KINDS[kind]}"
    value = float(published("table 3")["test_accuracy"].sel(setting=setting, model=model))
    key, where = _place(setting)
    return Claim(
        id=f"chen2022/{key}/setting{setting}-single-{kind}",
        where=where,
        statement=f"One {_KINDS[kind]} expert of 128 filters fails, at {100 * value:.2f} %, as any single model does",
        published=Published(value=value, relation="87.5 % at most"),
        measurement=_SINGLE[kind],
        read=selected("test_accuracy", setting=setting, model=model),
        rule=fails_as(value, of="median"),
        reason=_SINGLE_REASONS[kind],
    )


_SINGLE_REASONS = {
    "linear": "in setting 2 nine trainings of ten end at 65 to 71 %, single ones at 46 to 63 %; one is published",
    "nonlinear": "a cubic expert overfits, and needs the paper's 16,000 samples: in setting 1 it has .57 from the "
    "quick budget's 2,000, .76 from 8,000 and .78 from 16,000, in setting 2 .53, .53 and .69; with 512 filters it has "
    ".53 in setting 1 from 4,000, and .71 from 16,000. Single trainings scatter: in setting 4 they have .662, .640 and "
    ".647 at seeds 0, 21 and 22, which agrees from .656",
}

_FILTERS = Measurement(
    name="chen2022/table3-filters",
    function=f"{FIGURES}:table3",
    quick={"settings": (1,), "samples": 4000, "trials": 1, "models": ("single-cubic", "single-cubic-512")},
    full={"settings": SETTINGS, "samples": 16000, "trials": 1, "models": ("single-cubic", "single-cubic-512")},
    seconds=(9, 140),
    paper={"trials": 10},
    split=("settings", "setting"),
    device=True,
)


def accuracy(data: xr.Dataset, model: str) -> xr.DataArray:
    return data["test_accuracy"].sel(model=model)


def _behind(measured: xr.DataArray) -> xr.DataArray:
    """How much more a single cubic expert of 512 filters has right than the published linear mixture."""
    return measured.sel(model="single-cubic-512") - published("table 3")["test_accuracy"].sel(model="moe-linear")


_BEHIND = float(_behind(published("table 3")["test_accuracy"]).max())
_OF_512 = float(published("table 3")["test_accuracy"].sel(setting=1, model="single-cubic-512"))

_LARGE = {
    "nonlinear": Measurement(
        name="chen2022/table3-512-nonlinear",
        function=f"{FIGURES}:table3",
        quick={"settings": SETTINGS[1:], "samples": 4000, "trials": 1, "models": ("single-cubic-512",)},
        full={"settings": SETTINGS[1:], "samples": 16000, "trials": 1, "models": ("single-cubic-512",)},
        seconds=(21, 84),
        paper={"trials": 10},
        split=("settings", "setting"),
        device=True,
    ),
    "linear": _table(
        name="table3-512-linear",
        sees="",
        seconds=(7, 35),
        quick=(4000, 10),
        full=(16000, 10),
        models=("single-linear-512",),
    ),
}
_LARGE_REASONS = {
    "nonlinear": "the quick budget has 4,000 samples where the paper has 16,000, and single trainings scatter: at six "
    "seeds they reach 61.5 to 64.9 % in setting 3, which agrees from 64.78 (one of six) and in kind below, and 62.5 to "
    "66.0 % in setting 4, which agrees up to 64.65 (two of six) and in kind above",
    "linear": "in setting 2 most trainings end at 65 to 71 %, single ones at 36 to 63 %; one is published",
}


def _large(setting: int, kind: str) -> Claim:
    """A single expert of 512 filters; the nonlinear one of setting 1 shares its training with the claims below."""
    model = f"single-{_KINDS[kind]}-512"
    value = float(published("table 3")["test_accuracy"].sel(setting=setting, model=model))
    return Claim(
        id=f"chen2022/table3/setting{setting}-single-{kind}-512",
        where=f"table 3, setting {setting}, 512 filters",
        statement=f"One {_KINDS[kind]} expert of 512 filters fails in setting {setting}, at {100 * value:.2f} %",
        published=Published(value=value, relation="87.5 % at most"),
        measurement=_LARGE[kind],
        read=selected("test_accuracy", setting=setting, model=model),
        rule=fails_as(value, of="median"),
        reason=_LARGE_REASONS[kind],
    )


_LARGER = (
    Claim(
        id="chen2022/table3/larger-single-no-help",
        where="table 3, 512 filters",
        statement="A single cubic expert of 512 filters has fewer right than the published linear mixture, in every "
        "setting",
        published=Published(value=_BEHIND, relation="even larger single models cannot beat linear MoEs"),
        measurement=_FILTERS,
        read=lambda data: _behind(data["test_accuracy"]),
        rule=Rule(agrees=near(_BEHIND, 0.03), in_kind=(_GUESSING - 1, 0), of="highest"),  # no worse than guessing
        reason=_SINGLE_REASONS["nonlinear"],
    ),
    Claim(
        id="chen2022/table1/setting1-single-nonlinear-512",
        where="table 1 and table 3, 512 filters",
        statement=f"One cubic expert of 512 filters fails in setting 1, at {100 * _OF_512:.2f} %, as any single model "
        "does",
        published=Published(value=_OF_512, relation="87.5 % at most"),
        measurement=_FILTERS,
        read=selected("test_accuracy", setting=1, model="single-cubic-512"),
        rule=fails_as(_OF_512, of="median"),
        reason=_SINGLE_REASONS["nonlinear"],
    ),
    Claim(
        id="chen2022/table3/single-nonlinear-overfits",
        where="appendix A.2, below table 3",
        statement="A single cubic expert overfits as its filters grow from 128 to 512: it loses accuracy",
        published=Published(relation="the loss is positive in all settings (1.3 to 20.2 points)"),
        measurement=_FILTERS,
        read=lambda data: accuracy(data, "single-cubic") - accuracy(data, "single-cubic-512"),
        rule=Rule(agrees=(0.013, 0.202)),
    ),
)

CLAIMS: tuple[Claim, ...] = (
    *(
        _mixture(setting=setting, kind=kind, measure=measure, objective=objective)
        for objective in ("paper", "authors")
        for setting in SETTINGS
        for kind in _KINDS
        for measure in ("test_accuracy", "dispatch_entropy")
    ),
    *(_single(setting, kind) for setting in SETTINGS for kind in _KINDS),
    *(_large(setting, "nonlinear") for setting in SETTINGS[1:]),
    *(_large(setting, "linear") for setting in SETTINGS),
    *_LARGER,
)
