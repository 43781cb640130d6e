"""What the specialisation Lab offers: its knobs, and the two runs that their values mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from moe_lab.config import Knob
from moe_lab.specialization import ClusterTask, Run, SwitchMoE
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab_widgets.engine.lab import given, pick

TEST_SAMPLES = 1000
RECORDS = 80
"""About how many records a whole run has: 5 seconds at 15 records a second."""
FIRST_FILTERS = 8e-4
"""sigma_0: first filters so small that one can watch the clusters being divided (from .01 it is done in 10 steps)."""
SLOWEST_RECORD = 0.05
"""Seconds: where steps are dear, fewer of them make a record, so that a slider is answered soon."""

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
_WORDS = {
    "clusters": "clusters",
    "patches": "patches of a sample",
    "noise": "random noise",
    "samples": "training samples",
    "filters": "filters of each",
    "learning_rate": "step of an expert",
    "router_learning_rate": "rate of the router",
    "router_noise": "noise of the router",
    "load_balancing": "load balancing",
    "trials": "trials",
}
_SYMBOLS = {"sigma_p": "σ_p", "sigma": "σ", "eta": "η", "eta_r": "η_r", "lambda": "λ"}
_RANGES = {
    "samples": (200, 6000, 200),
    "filters": (1, 16, 1),
    "trials": (1, 10, 1),
    "patches": (3, 8, 1),
    "dimension": (8, 100, 2),
}


def _offer(*knobs: Knob) -> dict[str, Knob]:
    return {
        knob.name: dataclasses.replace(
            knob,
            symbol=_SYMBOLS.get(knob.symbol, knob.symbol),
            meaning=_WORDS.get(knob.name, knob.meaning),
            slider=_RANGES.get(knob.name, knob.slider),
        )
        for knob in knobs
    }


_OFFERED = {
    **_offer(*pick(ClusterTask), *pick(SwitchMoE, filters=8), *pick(Run, samples=2000, trials=6)),
    "steps": Knob("steps", "S", "training steps", 400, 1, None, "", (50, 1000, 50), None),
    "gamma": Knob("gamma", "γ", "feature noise up to", 2.0, 0.5, None, "", (0.5, 4.0, 0.25), None),
}
_ORDER = (
    *("experts", "clusters", "noise", "activation", "router_learning_rate", "router_noise"),
    *("samples", "load_balancing", "gamma", "filters", "learning_rate", "steps", "patches", "dimension", "trials"),
)
KNOBS = tuple(_OFFERED[name] for name in _ORDER)


def task_of(values: Mapping[str, Any]) -> ClusterTask:
    """The task that the values mean; gamma is drawn from [.5, `values["gamma"]`]."""
    return given(ClusterTask, values).replace(feature_noise=(0.5, values["gamma"]))


def reference_of(activation: str) -> str:
    """The activation that runs beside the one under study: linear, or cubic beside linear."""
    return "cubic" if activation == "linear" else "linear"


def models(values: Mapping[str, Any]) -> tuple[SwitchMoE, SwitchMoE]:
    """The mixture under study, and the one that differs in its activation alone."""
    study = given(SwitchMoE, values).replace(initial_scale=FIRST_FILTERS)
    return study, study.replace(activation=reference_of(study.activation))


def runs(values: Mapping[str, Any]) -> tuple[Run, Run]:
    """The two runs that the values mean, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task, (study, reference) = task_of(values), models(values)
    given_settings = settings(values)
    return Run(model=study, task=task, **given_settings), Run(model=reference, task=task, **given_settings)


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What `train` needs besides model and task; the same for both models.

    The device is the CPU: it has finished a run this small before a GPU has started.
    """
    return {
        **{name: values[name] for name in ("samples", "trials", "seed", "steps")},
        "test_samples": TEST_SAMPLES,
        "record_every": record_every(values),
        "device": "cpu",
    }


def record_every(values: Mapping[str, Any]) -> int:
    """Steps from one record to the next: `RECORDS` in all, but none that takes long. Depends on nothing but values."""
    degree = ACTIVATIONS[values["activation"]].degree
    rows = values["patches"] - (3 if degree is not None else 0)  # that need a matrix product of their own
    sample = 4e-7 + 2.5e-8 * rows * values["filters"]  # seconds for both models, measured on one CPU thread
    seconds = values["trials"] * values["samples"] * sample
    return max(1, min(round(values["steps"] / RECORDS), int(SLOWEST_RECORD / seconds)))


def lowest_accuracy(values: Mapping[str, Any]) -> float:
    """Where the accuracy axis begins: at 90 % where experts can specialise, at 50 % where something keeps them."""
    hopeless = values["experts"] < values["clusters"] or values["router_learning_rate"] < 2 or values["samples"] < 1000
    return 0.5 if hopeless or values["noise"] > 2 or values["gamma"] > 2 else 0.9


def code(values: Mapping[str, Any]) -> str:
    """Python that runs as it is pasted and gives the numbers of the Lab."""
    given_settings = ", ".join(f"{name}={value!r}" for name, value in settings(values).items())
    lines = [
        "from moe_lab.specialization import ClusterTask, SwitchMoE, train",
        "from moe_lab.training import final",
        "",
        f"task = {task_of(values).code()}",
        f"settings = dict({given_settings})",
    ]
    both = models(values)
    lines += [f"{model.activation} = final(train({model.code()}, task, **settings))" for model in both]
    lines += [
        f'print("{name:6}", {name}["test_accuracy"], "entropy", {name}["dispatch_entropy"])'
        for name in (model.activation for model in both)
    ]
    return "\n".join(lines)
