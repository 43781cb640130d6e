"""The knobs of the balance Lab, and the five runs that their values describe: one for each way to balance the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.specialization import ClusterTask, Run, TopKMoE
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.topk import BALANCINGS
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, arguments, fewer, given, longest, offer, on_gpu, placed

NONE: str = BALANCINGS[0]
NAMES = {"none": "none", "switch": "Switch loss", "importance": "importance", "z-loss": "z-loss", "bias": "bias"}
"""What each way to balance is called in the picture."""
TEST_SAMPLES = 1000
RECORDS = 40
"""Approximate number of records of a run."""
SLOWEST_RECORD = 0.08
"""Seconds. Expensive steps are grouped into smaller records, so that a slider is answered soon."""
EQUAL, GRADIENT = STEPS = ("equal", "gradient")
"""Steps of one length for all experts (chen2022, eq. 3.4), or the learning rate times the gradient."""
TRAINED: Mapping[str, Mapping[str, Any]] = {
    EQUAL: {"equal_steps": True, "learning_rate": 0.01, "initial_scale": 0.01},
    GRADIENT: {"equal_steps": False, "learning_rate": 1.0, "initial_scale": 0.1},
}
STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    LabKnob(name="balancing", main=True, meaning="compared with no balancing", default="importance",
            choices=BALANCINGS[1:], words=NAMES, view_only=True,
            effect="Shows another way to balance the load; all of them have been trained."),
    offer(TopKMoE, "strength", main=True, symbol="λ", meaning="strength of balancing", default=0.1, slider=None,
          choices=STRENGTHS,
          effect="Loads become more even, until balancing outweighs the task."),
    offer(TopKMoE, "lead", main=True, symbol="h₀", meaning="lead of expert 1", default=4.0,
          effect="The router prefers expert 1 more strongly at first, and collapses more easily."),
    offer(TopKMoE, "experts", main=True, meaning="experts",
          effect="More experts to keep busy; by themselves they are no cure for collapse."),
    offer(TopKMoE, "experts_per_sample", main=True, meaning="experts per sample", slider=(1, 4, 1),
          effect="Whatever one expert gets, others get too: less collapse, more compute."),
    offer(TopKMoE, "router_noise", main=True, meaning="noise on the router's scores",
          effect="More noise gives weaker experts samples in training."),
    offer(Run, "samples", main=True, meaning="training samples", default=1000, slider=(100, 2000, 100),
          effect="More samples teach the signals rather than the noise, and make steps slower."),
    offer(TopKMoE, "activation", symbol="σ", meaning="experts' activation", default="linear",
          effect="Cubic experts divide the clusters among themselves; linear ones share them."),
    LabKnob(name="expert_steps", meaning="experts' steps", default=EQUAL, choices=STEPS,
            words={EQUAL: "of equal length", GRADIENT: "as long as the gradient"},
            effect="With steps as long as the gradient, an expert with many samples learns faster than the others."),
    offer(TopKMoE, "shared", symbol="K_s", meaning="shared experts",
          effect="Experts that get every sample without a router: the others collapse less."),
    offer(TopKMoE, "router_learning_rate", symbol="η_r", meaning="router's learning rate",
          effect="A faster router follows the experts sooner. At 0 it never learns."),
    offer(ClusterTask, "clusters", meaning="clusters",
          effect="More kinds of samples, each with a signal of its own, for the experts to divide."),
    offer(ClusterTask, "imbalance", symbol="ρ", meaning="size ratio of clusters",
          effect="Clusters differ more in size, so that an even load is no longer the right one."),
    offer(TopKMoE, "filters", meaning="filters per expert", slider=(2, 16, 2),
          effect="Each expert can represent more, and each step takes longer."),
    LabKnob(name="steps", symbol="S", meaning="training steps", default=300, low=1, slider=(20, 600, 20),
            effect="A longer run: more time for a router to collapse or to recover."),
    offer(Run, "trials", meaning="trials", default=4, slider=(1, 10, 1), far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def task_of(values: Mapping[str, Any]) -> ClusterTask:
    """Returns the task that the values describe."""
    return given(ClusterTask, values)


def models(values: Mapping[str, Any]) -> dict[str, TopKMoE]:
    """Returns the mixture with each way to balance the load, by name; they differ in nothing else."""
    shared = {name: value for name, value in values.items() if name in TopKMoE.knobs() and name != "balancing"}
    strength = shared.pop("strength")
    plain = TopKMoE(**shared, **TRAINED[values["expert_steps"]])
    models = {NONE: plain}
    return models | {str(name): plain.replace(balancing=name, strength=strength) for name in BALANCINGS[1:]}


def runs(values: Mapping[str, Any]) -> dict[str, Run]:
    """Returns the runs that the values describe, by the name of the balancing, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task, shared = task_of(values), settings(values)
    return {name: Run(model=model, task=task, **shared) for name, model in models(values).items()}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `train` besides model and task, the same for all models."""
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
    """Returns about how long one step of the five models takes on one CPU thread."""
    degree = ACTIVATIONS[values["activation"]].degree
    rows = {1: 0, 3: 1}.get(degree or 0, 4) if values["activation"] != "relu" else 1  # patches with a matrix product
    slots = values["experts_per_sample"] + values["shared"]
    sample = 1e-6 + 5e-8 * values["experts"] + 1.5e-7 * rows * values["filters"] * slots
    return float(values["trials"] * values["samples"] * sample)


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step of the largest run touches."""
    return max(run.numbers for run in runs(values).values())


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    made = ",\n".join(f"    {name!r}: {model.code()}" for name, model in models(values).items())
    return "\n".join(
        (
            "from moe_lab.specialization import ClusterTask, TopKMoE, train",
            "from moe_lab.training import final",
            "",
            f"task = {task_of(values).code()}",
            f"settings = dict({arguments(settings(values))})",
            f"models = {{\n{made},\n}}",
            "last = {name: final(train(model, task, **settings)) for name, model in models.items()}",
            "for name, snapshot in last.items():",
            '    print(f"{name:10}", snapshot["test_accuracy"], "entropy of the load", snapshot["load_entropy"])',
        )
    )
