"""What the gridlock Lab offers: its knobs, and the two runs that their values mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from moe_lab.config import Knob, require
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.gridlock import JointEM, Run, Spectral
from moe_lab.recovery.gridlock.grid_points import WINDOW
from moe_lab.recovery.printed import printed
from moe_lab_widgets.engine.lab import given, pick

# ---- what makes the run live: a whole one takes 4 to 5 seconds of one CPU core, and one record .06 ----

LIVE: Mapping[str, Any] = {"experts": 8, "dimension": 16, "samples": 6000, "trials": 3, "iterations": 160}
"""The start: where joint EM gets stuck (at k = 6 and less it rarely does), with as few trials as a median takes."""
POWER_ITERATIONS = 10
"""For each regressor: power iterations converge quadratically, so that 30 find the same to three digits."""
GATE_ITERATIONS, EVERYTHING_ITERATIONS = 5, 40
"""EM after the power iterations: of the gates alone, then of everything."""
BEST_ITERATIONS = 12
"""EM from the true parameters, to see what no method can beat on these samples."""
POWER_RECORDS, JOINT_RECORDS = 40, 80
"""About how many records the power iterations and joint EM have: 5 seconds in all at 15 records a second."""
SLOWEST_PIECE = 0.045
"""Seconds: where EM is dear, fewer iterations of joint EM make a record, so that a slider is answered soon."""

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
_WORDS = {
    "experts": "experts",
    "dimension": "numbers in an input",
    "samples": "samples",
    "noise": "noise on y",
    "activation": "activation",
    "gating": "gates",
    "regressors": "regressors",
    "iterations": "joint EM's iterations",
    "trials": "trials",
}
_SYMBOLS = {"noise": "σ", "gating": "w", "regressors": "a", "iterations": "I", "trials": "T"}
_RANGES = {
    "experts": (2, 8, 1),
    "dimension": (4, 20, 1),
    "samples": (500, 8000, 500),
    "iterations": (20, 300, 20),
    "trials": (1, 4, 1),
}
NO_MIXTURE = "none"
P3, PRINTED = "P3(y)", "P3(y) as printed"
"""P3 with coefficients that solve the paper's equations, and with those that it prints (`moe_lab.recovery.printed`)."""
HAVE_PRINTED = tuple(g for g in ACTIVATIONS if printed(g, 0.1))
"""Activations whose P3 the paper prints."""


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


_OFFERED = {
    **_offer(*pick(MixtureTask, "experts", "dimension", "noise", "activation", "gating")),
    **_offer(*pick(MixtureTask, "regressors", regressors="orthonormal")),
    **_offer(*pick(Run, "samples", "trials"), *pick(JointEM, "iterations")),
    "third": Knob("third", "T₃", "is the moment of", P3, None, None, "", None, (P3, PRINTED, "y")),
    "first_share": Knob(
        "first_share", "p", "share of mixture 1", NO_MIXTURE, 0, 1, "", None, (NO_MIXTURE, 0.1, 0.3, 0.5)
    ),
    "shown": Knob("shown", "", "trial on show", 1, 1, None, "", (1, 4, 1), None),
}
_ORDER = (
    *("experts", "dimension", "samples", "noise", "activation", "first_share"),
    *("gating", "regressors", "third", "iterations", "trials", "shown"),
)
KNOBS = tuple(_OFFERED[name] for name in _ORDER)
assert set(ACTIVATIONS) == set(_OFFERED["activation"].choices or ())


def task_of(values: Mapping[str, Any]) -> MixtureTask:
    """The task that the values mean."""
    share = values["first_share"]
    return given(MixtureTask, {**values, "first_share": None if share == NO_MIXTURE else share})


def models(values: Mapping[str, Any]) -> tuple[Spectral, JointEM]:
    """The two methods."""
    third = values["third"]
    spectral = Spectral(
        third=P3 if third == PRINTED else third,
        printed=third == PRINTED,
        power_iterations=POWER_ITERATIONS,
        gate_iterations=GATE_ITERATIONS,
        joint_iterations=EVERYTHING_ITERATIONS,
    )
    return spectral, JointEM(iterations=values["iterations"])


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What `train` needs besides method and task; the same for both methods, which so see the same samples.

    The device is the CPU: it has finished a run this small before a GPU has started.
    """
    return {**{name: values[name] for name in ("samples", "trials", "seed")}, "device": "cpu"}


def runs(values: Mapping[str, Any]) -> tuple[Run, Run]:
    """The two runs that the values mean, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    rule = f"T3 is the moment of P3(y) as printed only where the paper prints it: g must be {' or '.join(HAVE_PRINTED)}"
    require(values["third"] != PRINTED or values["activation"] in HAVE_PRINTED, rule, g=values["activation"])
    task, (spectral, joint) = task_of(values), models(values)
    given_settings = settings(values)
    return (
        Run(model=spectral, task=task, **given_settings),
        Run(model=joint, task=task, **given_settings, record_every=record_every(values)),
    )


def seconds_of_step(values: Mapping[str, Any]) -> float:
    """About how long one EM iteration of all trials takes on one CPU thread (measured, within a third)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["samples"]
    return rows * (k * (k + 1) / 2 * d * (d + 1) / 2 * 1.7e-10 + k * 3e-8)


def record_every(values: Mapping[str, Any]) -> int:
    """Iterations of joint EM from one record to the next. Depends on nothing but values."""
    few = min(round(values["iterations"] / JOINT_RECORDS), int(SLOWEST_PIECE / seconds_of_step(values)))
    return max(every for every in range(1, max(few, 1) + 1) if WINDOW % every == 0)  # "stuck" compares over WINDOW


def power_stride(values: Mapping[str, Any]) -> int:
    """Power iterations from one record to the next."""
    return max(1, round(values["experts"] * POWER_ITERATIONS / POWER_RECORDS))


def error_limits(values: Mapping[str, Any]) -> tuple[float, float]:
    """Where the error's axis ends: under what these samples allow, and over a random start.

    Random unit regressors and gates are sqrt(2 k) and sqrt(2 (k - 1)) from the true ones; what maximum likelihood
    leaves is mostly the gates', about 2 sqrt(k (k - 1) d / n) for linear experts and more for others.
    """
    k, d, n = values["experts"], values["dimension"], values["samples"]
    rest = 2 * np.sqrt(k * (k - 1) * d / n)
    low = 10 ** (np.floor(2 * np.log10(rest / 2)) / 2)
    return float(low), float(1.5 * (np.sqrt(2 * k) + np.sqrt(2 * (k - 1))))


def code(values: Mapping[str, Any]) -> str:
    """Python that runs as it is pasted and gives the numbers of the Lab."""
    given_settings = ", ".join(f"{name}={value!r}" for name, value in settings(values).items())
    spectral, joint = models(values)
    return "\n".join(
        (
            "from moe_lab.recovery import MixtureTask",
            "from moe_lab.recovery.gridlock import JointEM, Spectral, train",
            "from moe_lab.training import final",
            "",
            f"task = {task_of(values).code()}",
            f"settings = dict({given_settings})",
            f"spectral = final(train({spectral.code()}, task, **settings))",
            f"joint = final(train({joint.code()}, task, **settings))",
            'for name, run in (("spectral + EM", spectral), ("joint EM", joint)):',
            '    print(name, "error", run["error"], "regressor fit", run["regressor_fit"])',
        )
    )
