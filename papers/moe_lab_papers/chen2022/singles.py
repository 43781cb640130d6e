"""The claims of chen2022's tables 1, 3, 7 and 8 about single experts, which fail.

They have no published deviation: three points are allowed, two or three deviations between our trainings of linear
ones. They agree in kind where they fail, as theorem 4.1 says, and are nearer to their number than to guessing.

Tables 7 and 8 have six activations in settings 1 to 3. Of these the linear and the cubic expert are table 3's, to the
last digit, and are judged there.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

from moe_lab.specialization import figures
from moe_lab.specialization.published import published
from moe_lab_papers.chen2022.mixtures import KINDS, PICTURE, SETTINGS, of_table_3, place_of
from moe_lab_papers.paper import Judged, Measured, Paper, budgets, says
from moe_lab_papers.ranges import nearer, plus_minus
from moe_lab_papers.readers import at, difference, reader

paper = Paper("chen2022", picture=PICTURE)

BOUND = 0.875
_GUESSING = 0.5
_THEIRS = published("table 3")["test_accuracy"]


def _fails(value: float, of: str = "median", relation: str = "87.5 % at most") -> Judged:
    """The rule of a single expert's accuracy."""
    return says(value, relation).agrees(plus_minus(0.03), (nearer(value, _GUESSING), BOUND), of=of)


cubic = of_table_3(
    paper,
    "table3-single-nonlinear",
    seconds=(100, 435),
    quick=(4000, 3),
    full=(16000, 3),
    models=("single-cubic", "single-cubic-512"),
)
_SINGLE = {
    "nonlinear": cubic,
    "linear": of_table_3(
        paper,
        "table3-single-linear",
        seconds=(6, 27),
        quick=(4000, 10),
        full=(16000, 10),
        models=("single-linear",),
    ),
}
_SINGLE_REASONS = {
    "linear": "in setting 2 nine trainings of ten end at 65 to 71 %, single ones at 46 to 63 %; one is published",
    "nonlinear": "a cubic expert overfits, and needs the paper's 16,000 samples: in setting 1 it has .69 from the "
    "quick budget's 4,000, .76 from 8,000 and .78 from 16,000, in setting 2 .52, .53 and .69; with 512 filters it has "
    ".54 to .57 in setting 1 from 4,000, and .71 from 16,000",
}
for setting in SETTINGS:
    for kind, expert in KINDS.items():
        value = float(_THEIRS.sel(setting=setting, model=f"single-{expert}"))
        key, where = place_of(setting)
        _SINGLE[kind].claim(
            f"{key}/setting{setting}-single-{kind}",
            f"One {expert} expert of 128 filters fails, at {100 * value:.2f} %, as any single model does",
            at("test_accuracy", setting=setting, model=f"single-{expert}"),
            _fails(value),
            _SINGLE_REASONS[kind],
            where=where,
        )

_LARGE = {
    "nonlinear": cubic,
    "linear": of_table_3(
        paper,
        "table3-512-linear",
        seconds=(7, 35),
        quick=(4000, 10),
        full=(16000, 10),
        models=("single-linear-512",),
    ),
}
_LARGE_REASONS = {
    "nonlinear": "the quick budget has 4,000 samples where the paper has 16,000: at six seeds medians of three "
    "are 62.2 to 64.7 % in setting 3, which agrees from 64.78, and 63.1 to 64.5 % in setting 4, which agrees to 64.65",
    "linear": "in setting 2 most trainings end at 65 to 71 %, single ones at 36 to 63 %; one is published",
}
for kind, settings in (("nonlinear", SETTINGS[1:]), ("linear", SETTINGS)):  # the other one is of table 1, below
    for setting in settings:
        model = f"single-{KINDS[kind]}-512"
        value = float(_THEIRS.sel(setting=setting, model=model))
        _LARGE[kind].claim(
            f"table3/setting{setting}-single-{kind}-512",
            f"One {KINDS[kind]} expert of 512 filters fails in setting {setting}, at {100 * value:.2f} %",
            at("test_accuracy", setting=setting, model=model),
            _fails(value),
            _LARGE_REASONS[kind],
            where=f"table 3, setting {setting}, 512 filters",
        )


def _behind(measured: xr.DataArray) -> xr.DataArray:
    """How much more a single cubic expert of 512 filters has right than the published linear mixture."""
    return measured.sel(model="single-cubic-512") - _THEIRS.sel(model="moe-linear")


@reader
def behind(data: xr.Dataset) -> xr.DataArray:
    """Returns the accuracy of a single cubic expert of 512 filters less the published linear mixture's."""
    return _behind(data["test_accuracy"])


_BEHIND = float(_behind(_THEIRS).max())
_BEHIND_GUESSING = float((_GUESSING - _THEIRS.sel(model="moe-linear")).max())
_OF_512 = float(_THEIRS.sel(setting=1, model="single-cubic-512"))
cubic.claim(
    "table3/larger-single-no-help",
    "A single cubic expert of 512 filters has fewer right than the published linear mixture, in every setting",
    behind(),
    says(_BEHIND, "even larger single models cannot beat linear MoEs").agrees(
        plus_minus(0.03), (nearer(_BEHIND, _BEHIND_GUESSING), 0), of="highest"
    ),
    _SINGLE_REASONS["nonlinear"],
    where="table 3, 512 filters",
)
cubic.claim(
    "table1/setting1-single-nonlinear-512",
    f"One cubic expert of 512 filters fails in setting 1, at {100 * _OF_512:.2f} %, as any single model does",
    at("test_accuracy", setting=1, model="single-cubic-512"),
    _fails(_OF_512),
    _SINGLE_REASONS["nonlinear"],
    where="table 1 and table 3, 512 filters",
)
cubic.claim(
    "table3/single-nonlinear-overfits",
    "A single cubic expert overfits as its filters grow from 128 to 512: it loses accuracy",
    difference("test_accuracy", model=("single-cubic", "single-cubic-512")),
    says("the loss is positive in all settings (1.3 to 20.2 points)").in_kind((0.013, 0.202)),
    "the paper's losses differ by setting, from 1.3 to 20.2 points; from the quick budget's 4,000 samples setting 1 "
    "has one of 11 to 16 points, and the others have none to speak of",
    where="appendix A.2, below table 3",
)

TABLE_7_RANGE = (1.0, 2.0)
"""Of alpha and gamma in table 7, as its caption says; setting 3 of table 3 has (.5, 2)."""
ACTIVATIONS = ("relu", "celu", "gelu", "tanh")
"""Those of tables 7 and 8 that table 3 does not have; the best published one is among them in every setting."""


def _activations(name: str, settings: tuple[int, ...], seconds: tuple[float, float], **ranges: Any) -> Measured:
    return paper.measure(
        name,
        figures.single_experts,
        seconds=seconds,
        split=("settings", "setting"),
        sees="With no activation does a single expert reach 87.5 %.",
        reason="from fewer samples than the paper's 16,000 a nonlinear expert does worse",
        settings=settings,
        activations=ACTIVATIONS,
        **ranges,
        samples=budgets(2000, 16000),
        trials=budgets(3, 3, paper=10),
    )


table_7 = _activations("table7", (3,), (42, 330), feature=TABLE_7_RANGE, feature_noise=TABLE_7_RANGE)
table_8 = _activations("table8", (1, 2), (85, 660))
_BY_SETTING = ((3, "table 7", table_7), (1, "table 8", table_8), (2, "table 8", table_8))
for setting, table, measured in _BY_SETTING:
    best = float(published(table)["test_accuracy"].sel(setting=setting).max())
    measured.claim(
        f"{table.replace(' ', '')}/setting{setting}-all-activations-fail",
        f"A single expert fails with each activation; the best published one has {100 * best:.2f} %",
        at("test_accuracy", setting=setting, highest="activation"),
        _fails(
            best,
            of="highest",
            relation="at most 87.5 %, theorem 4.1" if setting == 3 else "all fail, though alpha and gamma differ",
        ),
        where=f"{table}, setting {setting}",
    )
for setting, table, measured in _BY_SETTING:
    for activation in ACTIVATIONS:
        value = float(published(table)["test_accuracy"].sel(setting=setting, model=f"single-{activation}"))
        measured.claim(
            f"{table.replace(' ', '')}/setting{setting}-{activation}",
            f"One {activation} expert of 128 filters fails, at {100 * value:.2f} %, as any single model does",
            at("test_accuracy", setting=setting, activation=activation),
            _fails(value),
            where=f"{table}, setting {setting}",
        )
