"""The knobs of the stuck-rate Lab, and the map that their values describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock.run import JointEM, Run
from moe_lab.recovery.gridlock.stuck import plan_of
from moe_lab.recovery.gridlock.stuck_live import StuckRecord, stuck_records
from moe_lab_widgets.engine.knobs import LabKnob, offer, placed

EXPERTS = (2, 3, 4, 5, 6)
"""The values of k; those above d are left out."""
SAMPLES = (250, 500, 1000, 2000)
"""The values of n: where random starts begin to fail, and the spectral one to work."""
AFTER_SPECTRAL = 40
"""Iterations of EM of everything after the spectral start, which has converged by then."""
EM, GRADIENT = "EM", "gradient EM"
METHODS = {EM: "joint-em", GRADIENT: "joint-em-gradient"}
"""What moves everything from random starts, as `stuck_rate` names it."""
SPECTRAL = "spectral+em"

# Short words, so that three sliders stand side by side, and ranges that keep a map live.
KNOBS = (
    offer(MixtureTask, "dimension", meaning="numbers in an input", default=8, slider=(4, 12, 1), far=32, main=True),
    offer(MixtureTask, "noise", symbol="σ", meaning="noise on y", main=True),
    offer(MixtureTask, "regressors", symbol="a", meaning="regressors", default="orthonormal", main=True),
    LabKnob(name="step", main=True, meaning="random starts move by", default=EM, choices=(EM, GRADIENT)),
    LabKnob(name="iterations", symbol="I", meaning="joint EM's iterations", default=100, low=20, slider=(20, 200, 20)),
    LabKnob(name="trials", symbol="T", meaning="starts a cell", default=10, low=1, slider=(5, 20, 5), far=1000),
)


@dataclass(frozen=True)
class Setting:
    """What does not change in the picture during a run.

    Attributes:
      experts, samples: the values of k and of n.
      trials: starts of a cell.
      moved: what random starts move by, in words.
    """

    experts: tuple[int, ...]
    samples: tuple[int, ...]
    trials: int
    moved: str


def grid_of(values: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the values of k, which cannot exceed d, and of n."""
    return tuple(k for k in EXPERTS if k <= values["dimension"]), SAMPLES


def setting_of(values: Mapping[str, Any]) -> Setting:
    """Returns what the picture needs to know."""
    return Setting(*grid_of(values), values["trials"], values["step"])


def arguments_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `stuck_rate`."""
    experts, samples = grid_of(values)
    return {
        "k": experts,
        "d": values["dimension"],
        "samples": samples,
        "trials": values["trials"],
        "seed": values["seed"],
        "methods": (METHODS[values["step"]], SPECTRAL),
        "joint_iterations": values["iterations"],
        "spectral_iterations": AFTER_SPECTRAL,
        "noise": values["noise"],
        "regressors": values["regressors"],
        **placed(values),
    }


def check(values: Mapping[str, Any]) -> None:
    """Raises a ConfigError if the values do not fit together."""
    plan = plan_of(**arguments_of(values))
    plan.figure.attrs_of(plan.axes, plan.arguments)


def records_of(values: Mapping[str, Any]) -> Iterator[StuckRecord]:
    """Yields the map that the values describe, while it fills.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    return stuck_records(**arguments_of(values))


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that an iteration of the largest cell touches."""
    experts, samples = grid_of(values)
    task = MixtureTask(experts=max(experts), dimension=values["dimension"])
    return Run(model=JointEM(), task=task, samples=max(samples), trials=values["trials"]).numbers


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    return "\n".join(
        (
            "from moe_lab.recovery.gridlock.figures import stuck_rate, verdict",
            "from moe_lab.recovery.gridlock.plots import picture",
            "",
            "result = stuck_rate(",
            *(f"    {name}={value!r}," for name, value in arguments_of(values).items()),
            ")",
            'print((verdict(result) == "stuck").mean("trial").to_series().unstack("samples"))',
            "picture(result)",
        )
    )
