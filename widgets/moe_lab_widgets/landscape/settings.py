"""What the landscape Lab offers: its knobs, and the two descents that their values mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from moe_lab.config import Knob
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.landscape.planes import lengths
from moe_lab.recovery.landscape.run import PAPER_TASK, L2Loss, L4Loss, LossRun
from moe_lab_widgets.engine.lab import given, pick

# ---- what makes the run live: a whole one takes 4 to 5 seconds of one CPU core, and one record .05 ----

LIVE: Mapping[str, Any] = {"noise": PAPER_TASK.noise, "gating": PAPER_TASK.gating, "trials": 5}
RECORDS = 80
"""About how many records a run has: 5 to 6 seconds at 15 records a second."""
SLOWEST_PIECE = 0.045
"""Seconds: where a step is dear, fewer of them make a record, so that a slider is answered soon."""
UNITS, INPUTS, CELLS, GRU_SAMPLES = 8, 6, 3, 512
"""The GRU cells of the third panel: m, d, how many, and on how many samples they are compared."""
BETAS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
_WORDS = {
    "experts": "experts",
    "dimension": "numbers in an input",
    "noise": "noise on y",
    "gating": "gates",
    "mu": "reward of a row",
    "penalty": "second moment",
    "ridge": "pull towards 0",
    "rate": "learning rate, L₄",
    "batch": "samples in a batch",
    "steps": "steps",
    "trials": "trials",
}
_SYMBOLS = {
    **{"noise": "σ", "gating": "w", "mu": "μ", "penalty": "λ", "ridge": "δ", "rate": "η", "batch": "B"},
    **{"steps": "S", "trials": "T"},
}
_RANGES = {
    **{"experts": (2, 4, 1), "dimension": (4, 20, 1), "noise": (0.05, 1.0, 0.05)},
    **{"mu": (0.0, 0.2, 0.01), "penalty": (0.0, 8.0, 0.5), "ridge": (0.0, 4.0, 0.05), "rate": (0.001, 0.1, 0.001)},
    **{"batch": (64, 2048, 64), "steps": (100, 3000, 100), "trials": (1, 8, 1)},
}


def _offer(*knobs: Knob) -> dict[str, Knob]:
    return {
        knob.name: dataclasses.replace(
            knob,
            symbol=_SYMBOLS.get(knob.name, knob.symbol),
            meaning=_WORDS.get(knob.name, knob.meaning),
            slider=_RANGES.get(knob.name, knob.slider),
            default=LIVE.get(knob.name, knob.default),
        )
        for knob in knobs
    }


_L2_RATE = dataclasses.replace(L2Loss.knobs()["rate"], name="l2_rate", symbol="η₂", meaning="learning rate, ℓ₂")
_OFFERED = {
    **_offer(*pick(MixtureTask, "experts", "dimension", "noise", "gating")),
    **_offer(*pick(L4Loss, "mu", "penalty", "ridge", "rate", "steps"), *pick(LossRun, "batch", "trials")),
    "l2_rate": _L2_RATE,
    "shown": Knob("shown", "", "trial on show", 1, 1, None, "", (1, 8, 1), None),
    "sharpness": Knob("sharpness", "β", "sharpness of GRU gates", 1.0, None, None, "", None, BETAS),
}
_ORDER = (
    *("mu", "penalty", "ridge", "rate", "l2_rate", "batch", "steps"),
    *("experts", "dimension", "noise", "gating", "trials", "shown", "sharpness"),
)
KNOBS = tuple(_OFFERED[name] for name in _ORDER)
LOOKS = ("shown", "sharpness")
"""Knobs that change the picture and not the run."""


def task_of(values: Mapping[str, Any]) -> MixtureTask:
    """The task that the values mean: gated2019's regressors are orthonormal."""
    return given(MixtureTask, {**values, "regressors": PAPER_TASK.regressors})


def models(values: Mapping[str, Any]) -> tuple[L4Loss, L2Loss]:
    """The two losses."""
    return given(L4Loss, values), L2Loss(rate=values["l2_rate"], steps=values["steps"])


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What `descend` needs besides loss and task; the same for both, which so have the same starts and batches."""
    return {name: values[name] for name in ("batch", "trials", "seed")} | {"record_every": record_every(values)}


def runs(values: Mapping[str, Any]) -> tuple[LossRun, LossRun]:
    """The two descents that the values mean, checked.

    Raises:
      ValueError: a value or a combination breaks a rule; one of them is that L4 has a least value.
    """
    task, (l4, l2) = task_of(values), models(values)
    first, second = (LossRun(model=model, task=task, **settings(values)) for model in (l4, l2))
    lengths(task.parameters(first.trial_numbers, first.seed), l4.weights)
    return first, second


def seconds_of_step(values: Mapping[str, Any]) -> float:
    """About how long one step of both losses takes on one CPU thread (measured, within a half)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["batch"]
    return float(6e-4 + rows * (d * 3.0e-8 + k * 1.2e-7))


def record_every(values: Mapping[str, Any]) -> int:
    """Steps from one record to the next. Depends on nothing but values."""
    few = int(SLOWEST_PIECE / seconds_of_step(values))
    return max(1, min(round(values["steps"] / RECORDS), few))


def code(values: Mapping[str, Any]) -> str:
    """Python that runs as it is pasted and gives the numbers of the Lab."""
    given_settings = ", ".join(f"{name}={value!r}" for name, value in settings(values).items())
    l4, l2 = models(values)
    return "\n".join(
        (
            "import numpy as np",
            "from moe_lab.recovery import MixtureTask",
            "from moe_lab.recovery.landscape.gru import GRU, gap_by_sharpness",
            "from moe_lab.recovery.landscape.stuck import stuck_at",
            "from moe_lab.recovery.landscape.run import L2Loss, L4Loss",
            "from moe_lab.recovery.landscape.training import descend",
            "from moe_lab.training import collect",
            "",
            f"task = {task_of(values).code()}",
            f"settings = dict({given_settings})",
            f"l4 = collect(descend({l4.code()}, task, **settings))",
            f"l2 = collect(descend({l2.code()}, task, **settings))",
            'for name, run in (("L4", l4), ("l2", l2)):',
            '    errors = run["regressor_error"].values',
            '    print(name, "regressor error", errors[-1], "stuck", stuck_at(errors)[0])',
            f"cell = GRU.random({UNITS}, {INPUTS}, seed={values['seed']})",
            f"gap = gap_by_sharpness(cell, ({values['sharpness']!r},), samples={GRU_SAMPLES}, seed={values['seed']})",
            'print("GRU cell against a mixture of depth 2, median gap", np.median(gap))',
        )
    )
