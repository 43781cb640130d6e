"""The knobs of the patch-map Lab, and the three runs that their values describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.vision.patches.data import QuadrantTask
from moe_lab.vision.patches.model import WRN, Model, PatchWRN
from moe_lab.vision.patches.run import Run
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, arguments, fewer, given, offer, placed

STUDY, NO_GATE, CONV = MODELS = ("pMoE", "no gate", "conv")
"""WRN-pMoE, the same network whose experts get all patches, and the network without experts."""
TEST_SAMPLES, EXAMPLES = 200, 8
BATCH = 50
"""Divides every N on the slider: a smaller last batch would spoil batch norm's averages just before the end."""
RECORDS = 30
"""Approximate number of records of a run: six to ten seconds at 3 to 5 records per second."""
CONTROLS_EVERY = 2
"""Records from one measurement of the controls to the next."""
KEEPING = ("learned", "random")
"""Gates that keep l patches; the others keep all."""


def _keeps(values: Mapping[str, Any]) -> bool:
    return values["gates"] in KEEPING


def _learned(values: Mapping[str, Any]) -> bool:
    return bool(values["gates"] == "learned")


# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    offer(PatchWRN, "patches_per_expert", main=True, meaning="patches kept per expert", default=2, enabled_when=_keeps,
          effect="Each expert sees more of the image. With all 16 there is nothing left to choose.",
          applies="only to gates that keep some patches (learned or random)"),
    offer(PatchWRN, "experts", main=True, slider=None, choices=(1, 2, 4, 8),  # that divide 64 channels
          effect="More experts, each with a smaller part of the 64 channels."),
    offer(Run, "samples", main=True, default=600, effect="More samples help all three networks."),
    offer(QuadrantTask, "noise", main=True, symbol="σ", meaning="noise on every pixel", default=0.1,
          effect="More noise: gates no longer find the object, and accuracy falls."),
    offer(PatchWRN, "gates", main=True, meaning="gates",
          words={"none": "without (all patches)", "soft": "soft (all, weighted)"},
          effect="Experts get the patches that a gate has learned to choose, random ones, or all."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=60, low=1, slider=(20, 200, 10),
            effect="A longer run, in which all networks learn more."),
    offer(Run, "trials", meaning="trials", slider=(1, 6, 1), far=100, effect=MORE_TRIALS),
    offer(PatchWRN, "learning_rate", symbol="η", meaning="learning rate", effect="Faster and less steady steps."),
    offer(PatchWRN, "softmax", meaning="softmax over", words={"all": "all patches", "kept": "kept patches"},
          enabled_when=_learned,
          effect="Over kept patches alone (eq. 5), a gate that keeps one patch has no slope and never learns.",
          applies="only to learned gates"),
)  # fmt: skip


def task_of(values: Mapping[str, Any]) -> QuadrantTask:
    """Returns the task that the values describe."""
    return given(QuadrantTask, values)


def models(values: Mapping[str, Any]) -> dict[str, Model]:
    """Returns the model under study and its controls, by name."""
    shared = {"trunk": "plain", "batch_size": BATCH, "learning_rate": values["learning_rate"]}
    study = PatchWRN(
        experts=values["experts"],
        patches_per_expert=values["patches_per_expert"],
        gates=values["gates"],
        softmax=values["softmax"],
        **shared,
    )
    return {STUDY: study, NO_GATE: PatchWRN(experts=values["experts"], gates="none", **shared), CONV: WRN(**shared)}


def runs(values: Mapping[str, Any]) -> dict[str, Run]:
    """Returns the runs that `compare` makes of the values, by name, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task, shared = task_of(values), settings(values)
    every = {"measure_every": shared.pop("controls_every")}
    return {
        name: Run(model=model, task=task, **shared, **({} if name == STUDY else every))
        for name, model in models(values).items()
    }


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `compare` besides models and task."""
    total, epochs = _epochs(values)
    return {
        **{name: values[name] for name in ("samples", "trials", "seed")},
        "epochs": epochs,
        "test_samples": TEST_SAMPLES,
        "examples": EXAMPLES,
        "record_every": max(1, round(total / fewer(RECORDS, values))),
        "controls_every": CONTROLS_EVERY,
        **placed(values),
    }


def total_steps(values: Mapping[str, Any]) -> int:
    """Returns the most steps that a run can take: whole passes over the data, at least `steps`."""
    return _epochs(values)[0]


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step of the largest network touches."""
    return max(run.numbers for run in runs(values).values())


def _epochs(values: Mapping[str, Any]) -> tuple[int, int]:
    """Returns (total steps, passes over the data)."""
    samples = max(values["samples"], 1)
    epoch = -(-samples // min(BATCH, samples))
    epochs = max(1, -(-values["steps"] // epoch))
    return epochs * epoch, epochs


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    made = ", ".join(f"{name!r}: {model.code()}" for name, model in models(values).items())
    return "\n".join(
        (
            "from moe_lab.plots import curves",
            "from moe_lab.training import collect",
            "from moe_lab.vision import WRN, PatchWRN, QuadrantTask",
            "from moe_lab.vision.patches.live import compare",
            "",
            f"models = {{{made}}}",
            f"settings = dict({arguments(settings(values))})",
            f"records = list(compare({task_of(values).code()}, models, **settings))",
            "last = records[-1]",
            "for name, snapshot in last.items():",
            '    print(name, snapshot["test_accuracy"], snapshot.values.get("kept_in_object"))',
            'curves({name: collect(record[name] for record in records) for name in last}, "test_accuracy")',
        )
    )
