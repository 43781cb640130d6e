"""The knobs of the specialisation Lab, and the two runs that their values describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.specialization import ClusterTask, Run, SwitchMoE
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab_widgets.engine.knobs import LabKnob, arguments, fewer, given, longest, offer, on_gpu, placed

TEST_SAMPLES = 1000
RECORDS = 80
"""Approximate number of records of a run: 5 seconds at 15 records per second."""
FIRST_FILTERS = 8e-4
"""sigma_0: first filters so small that one can watch the clusters being divided (from .01 it is done in 10 steps)."""
SLOWEST_RECORD = 0.05
"""Seconds. Expensive steps are grouped into smaller records, so that a slider is answered soon."""


def _routed(values: Mapping[str, Any]) -> bool:
    """Whether the router has a choice of experts."""
    return bool(values["experts"] > 1)


# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    offer(SwitchMoE, "experts", main=True),
    offer(ClusterTask, "clusters", meaning="clusters", main=True),
    offer(
        ClusterTask,
        "noise",
        main=True,
        symbol="σ_p",
        meaning="random noise",
        enabled_when=lambda values: values["patches"] > 3,
    ),
    offer(SwitchMoE, "activation", symbol="σ", main=True),
    offer(
        SwitchMoE, "router_learning_rate", symbol="η_r", meaning="rate of the router", enabled_when=_routed, main=True
    ),
    offer(SwitchMoE, "router_noise", meaning="noise of the router", enabled_when=_routed),
    offer(Run, "samples", meaning="training samples", default=2000, slider=(200, 6000, 200), far=16_000),
    offer(SwitchMoE, "load_balancing", symbol="λ", meaning="load balancing", enabled_when=_routed, main=True),
    LabKnob(name="gamma", symbol="γ", meaning="most feature noise", default=2.0, low=0.5, slider=(0.5, 4.0, 0.25)),
    offer(SwitchMoE, "filters", meaning="filters of each", default=8, slider=(1, 16, 1)),
    offer(SwitchMoE, "learning_rate", symbol="η", meaning="rate of the experts"),
    LabKnob(name="steps", symbol="S", meaning="training steps", default=400, low=1, slider=(50, 1000, 50)),
    offer(ClusterTask, "patches", meaning="patches of a sample", slider=(3, 8, 1)),
    offer(ClusterTask, "dimension", slider=(8, 100, 2)),
    offer(Run, "trials", meaning="trials", default=6, slider=(1, 10, 1), far=1000),
)


def task_of(values: Mapping[str, Any]) -> ClusterTask:
    """Returns the task that the values describe; gamma is sampled from [.5, `values["gamma"]`]."""
    return given(ClusterTask, values).replace(feature_noise=(0.5, values["gamma"]))


def reference_of(activation: str) -> str:
    """Returns the activation that runs beside the one under study: linear, or cubic beside linear."""
    return "cubic" if activation == "linear" else "linear"


def models(values: Mapping[str, Any]) -> tuple[SwitchMoE, SwitchMoE]:
    """Returns the mixture under study, and the one that differs in its activation alone."""
    study = given(SwitchMoE, values).replace(initial_scale=FIRST_FILTERS)
    return study, study.replace(activation=reference_of(study.activation))


def runs(values: Mapping[str, Any]) -> tuple[Run, Run]:
    """Returns the two runs that the values describe, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task, (study, reference) = task_of(values), models(values)
    shared = settings(values)
    return Run(model=study, task=task, **shared), Run(model=reference, task=task, **shared)


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `train` besides model and task, the same for both models."""
    return {
        **{name: values[name] for name in ("samples", "trials", "seed", "steps")},
        "test_samples": TEST_SAMPLES,
        "record_every": record_every(values),
        **placed(values),
    }


def record_every(values: Mapping[str, Any]) -> int:
    """Returns the steps per record: `RECORDS` in all, but none that takes long. Depends on the values alone."""
    few = round(values["steps"] / fewer(RECORDS, values))
    quick = int(longest(SLOWEST_RECORD, values) / seconds_of_step(values))
    return max(1, few if on_gpu(values) else min(few, quick))


def seconds_of_step(values: Mapping[str, Any]) -> float:
    """Returns about how long one step of both models takes on one CPU thread."""
    degree = ACTIVATIONS[values["activation"]].degree
    rows = values["patches"] - (3 if degree is not None else 0)  # that need a matrix product of their own
    sample = 4e-7 + 2.5e-8 * rows * values["filters"]  # seconds for both models, measured on one CPU thread
    return float(values["trials"] * values["samples"] * sample)


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step of the larger run touches."""
    return max(run.numbers for run in runs(values))


def lowest_accuracy(values: Mapping[str, Any]) -> float:
    """Returns where the accuracy axis begins: at 90 % where experts can specialise, else at 50 %."""
    hopeless = values["experts"] < values["clusters"] or values["router_learning_rate"] < 2 or values["samples"] < 1000
    return 0.5 if hopeless or values["noise"] > 2 or values["gamma"] > 2 else 0.9


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    lines = [
        "from moe_lab.specialization import ClusterTask, SwitchMoE, train",
        "from moe_lab.plots import curves",
        "from moe_lab.training import collect",
        "",
        f"task = {task_of(values).code()}",
        f"settings = dict({arguments(settings(values))})",
    ]
    both = models(values)
    names = [model.activation for model in both]
    lines += [f"{model.activation} = collect(train({model.code()}, task, **settings))" for model in both]
    lines += [f"runs = dict({', '.join(f'{name}={name}' for name in names)})"]
    lines += [f"{', '.join(names)} = (run.isel(step=-1) for run in runs.values())"]
    lines += [
        f'print("{name:6}", {name}["test_accuracy"].values, "entropy", {name}["dispatch_entropy"].values)'
        for name in names
    ]
    lines += ['curves(runs, "test_accuracy")']
    return "\n".join(lines)
