"""The knobs of the gridlock Lab, and the two runs that their values describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from moe_lab.config import require
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.gridlock import JointEM, Run, Spectral
from moe_lab.recovery.gridlock.grid_points import WINDOW
from moe_lab.recovery.printed import printed
from moe_lab_widgets.engine.knobs import (
    ANOTHER_TRIAL,
    MORE_TRIALS,
    LabKnob,
    arguments,
    fewer,
    given,
    longest,
    offer,
    on_gpu,
    placed,
)

# ---- a live run takes 4 to 5 seconds of one CPU core, and one record .06 ----

LIVE: Mapping[str, Any] = {"experts": 8, "dimension": 16, "samples": 6000, "trials": 3, "iterations": 160}
"""Defaults at which joint EM gets stuck (at k = 6 and less it rarely does), with as few trials as a median needs."""
POWER_ITERATIONS = 10
"""Per regressor: power iterations converge quadratically, so that 30 find the same to three digits."""
GATE_ITERATIONS, EVERYTHING_ITERATIONS = 5, 40
"""EM after the power iterations: of the gates alone, then of everything."""
BEST_ITERATIONS = 12
"""EM from the true parameters, which no method can beat on these samples."""
POWER_RECORDS, JOINT_RECORDS = 40, 80
"""Approximate number of records of the power iterations and of joint EM: 5 seconds in all at 15 records per second."""
SLOWEST_PIECE = 0.045
"""Seconds. Expensive iterations of joint EM are grouped into smaller records, so that a slider is answered soon."""

NO_MIXTURE = "none"
P3, PRINTED = "P3(y)", "P3(y) as printed"
"""P3 with coefficients that solve the paper's equations, and with those that it prints (`moe_lab.recovery.printed`)."""
HAVE_PRINTED = tuple(g for g in ACTIVATIONS if printed(g, 0.1))
"""Activations whose P3 the paper prints."""


# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    offer(MixtureTask, "experts", main=True, meaning="experts", default=LIVE["experts"], slider=(2, 8, 1),
          effect="With more experts EM from random starts gets stuck more often."),
    offer(MixtureTask, "dimension", main=True, meaning="numbers per input", default=LIVE["dimension"],
          slider=(4, 20, 1), far=64,
          effect="More to learn from as many samples: the moments become noisier."),
    offer(Run, "samples", main=True, meaning="training samples", default=LIVE["samples"], slider=(500, 8000, 500),
          far=50_000,
          effect="More samples make the moments more exact, and all errors smaller."),
    offer(MixtureTask, "noise", main=True, symbol="σ", meaning="noise on y",
          effect="More noise blurs the answers, and all errors grow."),
    offer(MixtureTask, "activation", main=True, meaning="experts' activation",
          effect="The smaller its third moment, the more samples the spectral start needs."),
    offer(MixtureTask, "regressors", main=True, symbol="a", meaning="regressors", default="orthonormal",
          effect="Orthonormal regressors suit the spectral start; at random angles its noise is stretched."),
    LabKnob(name="first_share", symbol="p", meaning="share of Gaussian 1", default=NO_MIXTURE, low=0, high=1,
            choices=(NO_MIXTURE, 0.1, 0.3, 0.5), words={NO_MIXTURE: "one Gaussian"},
            effect="Inputs come from two Gaussians in place of one."),
    offer(MixtureTask, "gating", symbol="w", meaning="gates", words={"orthogonal": "orthogonal to regressors"},
          effect="The theory asks for gates at right angles to all regressors; random ones are not."),
    LabKnob(name="third", symbol="T₃", meaning="third moment of", default=P3, choices=(P3, PRINTED, "y"),
            effect="P3(y) tells the experts from the gate; in y itself both are mixed."),
    offer(JointEM, "iterations", symbol="I", meaning="iterations of joint EM", default=LIVE["iterations"],
          slider=(20, 300, 20),
          effect="Gives joint EM more time to come to rest."),
    offer(Run, "trials", symbol="T", meaning="trials", default=LIVE["trials"], slider=(1, 4, 1), far=1000,
          effect=MORE_TRIALS),
    LabKnob(name="shown", meaning="trial on show", default=1, low=1, slider=(1, 4, 1), at_most="trials",
            view_only=True, effect=ANOTHER_TRIAL,
            applies="only with more than one trial"),
)  # fmt: skip
assert set(ACTIVATIONS) == {choice for knob in KNOBS if knob.name == "activation" for choice in knob.choices or ()}


def task_of(values: Mapping[str, Any]) -> MixtureTask:
    """Returns the task that the values describe."""
    share = values["first_share"]
    return given(MixtureTask, {**values, "first_share": None if share == NO_MIXTURE else share})


def models(values: Mapping[str, Any]) -> tuple[Spectral, JointEM]:
    """Returns the two methods."""
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
    """Returns the settings of `train` besides method and task, the same for both methods, hence the same samples."""
    return {**{name: values[name] for name in ("samples", "trials", "seed")}, **placed(values)}


def runs(values: Mapping[str, Any]) -> tuple[Run, Run]:
    """Returns the two runs that the values describe, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    rule = f"T3 is the moment of P3(y) as printed only where the paper prints it: g must be {' or '.join(HAVE_PRINTED)}"
    require(values["third"] != PRINTED or values["activation"] in HAVE_PRINTED, rule, g=values["activation"])
    task, (spectral, joint) = task_of(values), models(values)
    shared = settings(values)
    return (
        Run(model=spectral, task=task, **shared),
        Run(model=joint, task=task, **shared, record_every=record_every(values)),
    )


def seconds_of_step(values: Mapping[str, Any]) -> float:
    """Returns about how long one EM iteration of all trials takes on one CPU thread (measured, within a third)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["samples"]
    return rows * (k * (k + 1) / 2 * d * (d + 1) / 2 * 1.7e-10 + k * 3e-8)


def record_every(values: Mapping[str, Any]) -> int:
    """Returns the iterations of joint EM per record. Depends on the values alone."""
    few = round(values["iterations"] / fewer(JOINT_RECORDS, values))
    few = few if on_gpu(values) else min(few, int(longest(SLOWEST_PIECE, values) / seconds_of_step(values)))
    return max(every for every in range(1, max(few, 1) + 1) if WINDOW % every == 0)  # "stuck" compares over WINDOW


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that an iteration of the larger run touches."""
    return max(run.numbers for run in runs(values))


def power_stride(values: Mapping[str, Any]) -> int:
    """Returns the power iterations per record."""
    return max(1, round(values["experts"] * POWER_ITERATIONS / POWER_RECORDS))


def error_limits(values: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the limits of the error's axis: below what these samples allow, and above a random start.

    Random unit regressors and gates are sqrt(2 k) and sqrt(2 (k - 1)) from the true ones; what maximum likelihood
    leaves is mostly the gates', about 2 sqrt(k (k - 1) d / n) for linear experts and more for others.
    """
    k, d, n = values["experts"], values["dimension"], values["samples"]
    rest = 2 * np.sqrt(k * (k - 1) * d / n)
    low = 10 ** (np.floor(2 * np.log10(rest / 2)) / 2)
    return float(low), float(1.5 * (np.sqrt(2 * k) + np.sqrt(2 * (k - 1))))


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    spectral, joint = models(values)
    return "\n".join(
        (
            "from moe_lab.recovery import MixtureTask",
            "from moe_lab.recovery.gridlock import JointEM, Spectral, train",
            "from moe_lab.plots import curves",
            "from moe_lab.training import collect",
            "",
            f"task = {task_of(values).code()}",
            f"settings = dict({arguments(settings(values))})",
            "runs = {",
            f'    "spectral + EM": collect(train({spectral.code()}, task, **settings)),',
            f'    "joint EM": collect(train({joint.code()}, task, **settings)),',
            "}",
            "spectral, joint = (run.isel(step=-1) for run in runs.values())",
            "for name, run in zip(runs, (spectral, joint)):",
            '    print(name, "error", run["error"].values, "regressor fit", run["regressor_fit"].values)',
            'curves(runs, "error")',
        )
    )
