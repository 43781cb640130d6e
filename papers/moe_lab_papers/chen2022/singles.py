"""The claims of chen2022's tables 1, 3, 7 and 8 about single experts, which fail.

They have no published deviation: three points are allowed, two or three deviations between our trainings of linear
ones. They agree in kind where they fail, as theorem 4.1 says, and are nearer to their number than to guessing.

Tables 7 and 8 have six activations in settings 1 to 3. Of these the linear and the cubic expert are table 3's, to the
last digit, and are judged there.
"""

from __future__ import annotations

import xarray as xr

from moe_lab.specialization.published import published
from moe_lab_papers.chen2022.mixtures import KINDS, SETTINGS, of_table_3, place_of
from moe_lab_papers.chen2022.sources import FIGURES, PICTURE
from moe_lab_papers.claim import Claim, Measurement, Published, Rule, near, nearer, selected

BOUND = 0.875
_GUESSING = 0.5

_CUBIC = of_table_3(
    name="table3-single-nonlinear",
    sees="",
    seconds=(100, 435),
    quick=(4000, 3),
    full=(16000, 3),
    models=("single-cubic", "single-cubic-512"),
)
_SINGLE = {
    "nonlinear": _CUBIC,
    "linear": of_table_3(
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
    model = f"single-{KINDS[kind]}"
    value = float(published("table 3")["test_accuracy"].sel(setting=setting, model=model))
    key, where = place_of(setting)
    return Claim(
        id=f"chen2022/{key}/setting{setting}-single-{kind}",
        where=where,
        statement=f"One {KINDS[kind]} expert of 128 filters fails, at {100 * value:.2f} %, as any single model does",
        published=Published(value=value, relation="87.5 % at most"),
        measurement=_SINGLE[kind],
        read=selected("test_accuracy", setting=setting, model=model),
        rule=fails_as(value, of="median"),
        reason=_SINGLE_REASONS[kind],
    )


_SINGLE_REASONS = {
    "linear": "in setting 2 nine trainings of ten end at 65 to 71 %, single ones at 46 to 63 %; one is published",
    "nonlinear": "a cubic expert overfits, and needs the paper's 16,000 samples: in setting 1 it has .69 from the "
    "quick budget's 4,000, .76 from 8,000 and .78 from 16,000, in setting 2 .52, .53 and .69; with 512 filters it has "
    ".54 in setting 1 from 4,000, and .71 from 16,000",
}


def accuracy(data: xr.Dataset, model: str) -> xr.DataArray:
    return data["test_accuracy"].sel(model=model)


def _behind(measured: xr.DataArray) -> xr.DataArray:
    """How much more a single cubic expert of 512 filters has right than the published linear mixture."""
    return measured.sel(model="single-cubic-512") - published("table 3")["test_accuracy"].sel(model="moe-linear")


_BEHIND = float(_behind(published("table 3")["test_accuracy"]).max())
_BEHIND_GUESSING = float((_GUESSING - published("table 3")["test_accuracy"].sel(model="moe-linear")).max())
_OF_512 = float(published("table 3")["test_accuracy"].sel(setting=1, model="single-cubic-512"))

_LARGE = {
    "nonlinear": _CUBIC,
    "linear": of_table_3(
        name="table3-512-linear",
        sees="",
        seconds=(7, 35),
        quick=(4000, 10),
        full=(16000, 10),
        models=("single-linear-512",),
    ),
}
_LARGE_REASONS = {
    "nonlinear": "the quick budget has 4,000 samples where the paper has 16,000: medians of three trainings are 62.8 "
    "to 64.6 % in setting 3, which agrees from 64.78, and 64.2 to 64.5 % in setting 4, which agrees up to 64.65",
    "linear": "in setting 2 most trainings end at 65 to 71 %, single ones at 36 to 63 %; one is published",
}


def _large(setting: int, kind: str) -> Claim:
    """A single expert of 512 filters; the nonlinear one of setting 1 shares its training with the claims below."""
    model = f"single-{KINDS[kind]}-512"
    value = float(published("table 3")["test_accuracy"].sel(setting=setting, model=model))
    return Claim(
        id=f"chen2022/table3/setting{setting}-single-{kind}-512",
        where=f"table 3, setting {setting}, 512 filters",
        statement=f"One {KINDS[kind]} expert of 512 filters fails in setting {setting}, at {100 * value:.2f} %",
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
        measurement=_CUBIC,
        read=lambda data: _behind(data["test_accuracy"]),
        rule=Rule(agrees=near(_BEHIND, 0.03), in_kind=(nearer(_BEHIND, _BEHIND_GUESSING), 0), of="highest"),
        reason=_SINGLE_REASONS["nonlinear"],
    ),
    Claim(
        id="chen2022/table1/setting1-single-nonlinear-512",
        where="table 1 and table 3, 512 filters",
        statement=f"One cubic expert of 512 filters fails in setting 1, at {100 * _OF_512:.2f} %, as any single model "
        "does",
        published=Published(value=_OF_512, relation="87.5 % at most"),
        measurement=_CUBIC,
        read=selected("test_accuracy", setting=1, model="single-cubic-512"),
        rule=fails_as(_OF_512, of="median"),
        reason=_SINGLE_REASONS["nonlinear"],
    ),
    Claim(
        id="chen2022/table3/single-nonlinear-overfits",
        where="appendix A.2, below table 3",
        statement="A single cubic expert overfits as its filters grow from 128 to 512: it loses accuracy",
        published=Published(relation="the loss is positive in all settings (1.3 to 20.2 points)"),
        measurement=_CUBIC,
        read=lambda data: accuracy(data, "single-cubic") - accuracy(data, "single-cubic-512"),
        rule=Rule(in_kind=(0.013, 0.202)),
        reason="the paper's losses differ by setting, from 1.3 to 20.2 points; from the quick budget's 4,000 samples "
        "only setting 1 shows one, of 15 points, and in setting 4 the larger expert does better",
    ),
)


TABLE_7_RANGE = (1.0, 2.0)
"""Of alpha and gamma in table 7, as its caption says; setting 3 of table 3 has (.5, 2)."""


ACTIVATIONS = ("relu", "celu", "gelu", "tanh")
"""Those of tables 7 and 8 that table 3 does not have; the best published one is among them in every setting."""


def _activations(
    table: str, settings: tuple[int, ...], seconds: tuple[float, float], **ranges: tuple[float, float]
) -> Measurement:
    same = {"settings": settings, "activations": ACTIVATIONS, **ranges}
    return Measurement(
        name=f"chen2022/{table}",
        function=f"{FIGURES}:single_experts",
        quick={**same, "samples": 2000, "trials": 3},
        full={**same, "samples": 16000, "trials": 3},
        seconds=seconds,
        paper={"trials": 10},
        split=("settings", "setting"),
        device=True,
        picture=PICTURE,
        sees="With no activation does a single expert reach 87.5 %.",
    )


_TABLE_7 = _activations(
    table="table7", settings=(3,), seconds=(42, 330), feature=TABLE_7_RANGE, feature_noise=TABLE_7_RANGE
)
_TABLE_8 = _activations(table="table8", settings=(1, 2), seconds=(85, 660))


_FEW_SAMPLES = "from fewer samples than the paper's 16,000 a nonlinear expert does worse"


def _of_activations(setting: int) -> tuple[str, Measurement, xr.DataArray]:
    """(table, measurement, published accuracy over model)."""
    table = "table 7" if setting == 3 else "table 8"
    return table, _TABLE_7 if setting == 3 else _TABLE_8, published(table)["test_accuracy"].sel(setting=setting)


def _all_fail(setting: int) -> Claim:
    table, measurement, theirs = _of_activations(setting)
    best = float(theirs.max())
    relation = "at most 87.5 %, theorem 4.1" if setting == 3 else "all fail, though alpha and gamma differ"
    return Claim(
        id=f"chen2022/{table.replace(' ', '')}/setting{setting}-all-activations-fail",
        where=f"{table}, setting {setting}",
        statement=f"A single expert fails with each activation; the best published one has {100 * best:.2f} %",
        published=Published(value=best, relation=relation),
        measurement=measurement,
        read=lambda data: data["test_accuracy"].sel(setting=setting).max("activation"),
        rule=fails_as(best, of="highest"),
        reason=_FEW_SAMPLES,
    )


def _activation(setting: int, activation: str) -> Claim:
    table, measurement, theirs = _of_activations(setting)
    value = float(theirs.sel(model=f"single-{activation}"))
    return Claim(
        id=f"chen2022/{table.replace(' ', '')}/setting{setting}-{activation}",
        where=f"{table}, setting {setting}",
        statement=f"One {activation} expert of 128 filters fails, at {100 * value:.2f} %, as any single model does",
        published=Published(value=value, relation="87.5 % at most"),
        measurement=measurement,
        read=selected("test_accuracy", setting=setting, activation=activation),
        rule=fails_as(value, of="median"),
        reason=_FEW_SAMPLES,
    )


CLAIMS: tuple[Claim, ...] = (
    *(_single(setting, kind) for setting in SETTINGS for kind in KINDS),
    *(_large(setting, "nonlinear") for setting in SETTINGS[1:]),
    *(_large(setting, "linear") for setting in SETTINGS),
    *_LARGER,
    *(_all_fail(setting) for setting in (3, 1, 2)),
    *(_activation(setting, activation) for setting in (3, 1, 2) for activation in ACTIVATIONS),
)
