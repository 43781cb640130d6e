"""The knobs of the routing-choices Lab, and the runs that their values describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.patch_routing import PatternTask, RoutedMoE, Run, Samples
from moe_lab.patch_routing.data import Split
from moe_lab.patch_routing.routing_rows import ROWS, STEP_SIZE
from moe_lab.trials import placement
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, arguments, fewer, given, offer, placed

STUDY = "chosen"
"""The model whose routing the sliders describe."""
BESIDE = ("expert choice", "token choice", "soft MoE", "hash")
"""The rows of comparison, with as many places for each expert."""
MODELS = (STUDY, *BESIDE)
SHARED = ("experts", "capacity_factor", "neurons", "learning_rate")
"""What the rows of comparison have in common with the chosen model."""
TEST_SAMPLES = 200
RECORDS = 60
"""Approximate number of records of a run: 4 seconds at 15 records per second."""
ROUTING_WORDS = {"expert-choice": "experts", "token-choice": "patches", "soft": "nobody (soft)", "hash": "a hash"}
GATE_WORDS = {
    "softmax": "softmax after",
    "softmax-before": "softmax before",
    "sigmoid": "sigmoid",
    "sigmoid-normalised": "sigmoid / sum",
}


def _scored(values: Mapping[str, Any]) -> bool:
    return values["routing"] in ("expert-choice", "token-choice")


def _by_patches(values: Mapping[str, Any]) -> bool:
    return bool(values["routing"] == "token-choice")


def _asking(values: Mapping[str, Any]) -> bool:
    return values["routing"] in ("token-choice", "hash")


# Short words, so that three sliders stand side by side.
KNOBS = (
    offer(RoutedMoE, "routing", main=True, meaning="who chooses", words=ROUTING_WORDS,
          effect="Experts take patches, patches ask experts, all patches are mixed, or a hash decides."),
    offer(RoutedMoE, "experts_per_patch", main=True, meaning="experts asked per patch", enabled_when=_asking,
          effect="Each patch asks more experts for as many places, and most of the asking is in vain.",
          applies="only where patches or a hash choose"),
    offer(RoutedMoE, "capacity_factor", main=True, meaning="places per patch",
          effect="More places: fewer patches are lost, at more compute."),
    offer(RoutedMoE, "gates", main=True, meaning="gates", default="softmax-before", words=GATE_WORDS,
          enabled_when=_scored,
          effect="How scores become weights. A softmax after the choice of one is always 1 and cannot learn.",
          applies="only where experts or patches choose"),
    offer(RoutedMoE, "order", main=True, meaning="who gets a place first", enabled_when=_by_patches,
          words={"arrival": "first come (arrival)", "priority": "highest score (priority)"},
          effect="Either the patches that come first in a sample, or those with the highest scores.",
          applies="only where patches choose"),
    offer(RoutedMoE, "experts", main=True, slider=None, choices=(2, 4, 8),  # that divide 40 neurons
          effect="As many places are spread over more experts, each with fewer of the neurons."),
    offer(PatternTask, "patches", main=True, meaning="patches per sample", slider=(8, 32, 1), far=64,
          effect="o hides among more patches; there are places for more, too."),
    offer(PatternTask, "noise", main=True, symbol="", meaning="noise added to every patch",
          effect="More noise hides the patterns from experts and routers."),
    offer(RoutedMoE, "router_noise", symbol="σ", meaning="noise on scores", enabled_when=_scored,
          effect="More noise gives weak experts patches while the model trains.",
          applies="only where experts or patches choose"),
    offer(Run, "samples", meaning="training samples", effect="More samples help all rows of the table."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=120, low=1, slider=(20, 600, 20),
            effect="A longer run, in which slow ways to route can catch up."),
    offer(RoutedMoE, "learning_rate", symbol="η", meaning="learning rate", default=STEP_SIZE, slider=(5.0, 80.0, 5.0),
          effect="Faster and less steady steps."),
    offer(Run, "trials", meaning="trials", default=4, far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def task_of(values: Mapping[str, Any]) -> PatternTask:
    """Returns the task that the values describe."""
    return given(PatternTask, values)


def models(values: Mapping[str, Any]) -> dict[str, RoutedMoE]:
    """Returns the chosen model and its rows of comparison, by name."""
    chosen = given(RoutedMoE, values)
    shared = {name: getattr(chosen, name) for name in SHARED}
    return {STUDY: chosen, **{name: ROWS[name].replace(**shared) for name in BESIDE}}


def runs(values: Mapping[str, Any]) -> dict[str, Run]:
    """Returns the runs that the values describe, by name, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task = task_of(values)
    return {name: Run(model=model, task=task, **settings(values)) for name, model in models(values).items()}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `train` besides model and task, the same for all models."""
    _, epochs, epoch = _epochs(values)
    return {
        **{name: values[name] for name in ("samples", "trials", "seed")},
        "epochs": epochs,
        "test_samples": TEST_SAMPLES,
        "record_every": max(1, round(epochs * epoch / fewer(RECORDS, values))),
        **placed(values),
    }


def total_steps(values: Mapping[str, Any]) -> int:
    """Returns the most steps that a run can take: whole passes over the data, at least `steps`."""
    return _epochs(values)[0]


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step of the largest model touches."""
    return max(run.numbers for run in runs(values).values())


def _epochs(values: Mapping[str, Any]) -> tuple[int, int, int]:
    """Returns (total steps, passes over the data, steps per pass)."""
    epoch = -(-max(values["samples"], 1) // RoutedMoE().batch_size)
    epochs = max(1, -(-values["steps"] // epoch))
    return epochs * epoch, epochs, epoch


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab."""
    made = "\n".join(f"    {name!r}: {model.code()}," for name, model in models(values).items())
    return "\n".join(
        (
            "from moe_lab.patch_routing import PatternTask, RoutedMoE, train",
            "from moe_lab.training import final",
            "",
            f"models = {{\n{made}\n}}",
            f"settings = dict({arguments(settings(values))})",
            f"task = {task_of(values).code()}",
            "last = {name: final(train(model, task, **settings)) for name, model in models.items()}",
            "for name, snapshot in last.items():",
            '    print(name, snapshot["test_accuracy"], "o kept", snapshot["signal_kept"], "lost", snapshot["lost"])',
        )
    )


class SampleCache:
    """The latest samples of one Lab, on which all its models train; N does not change the test samples."""

    def __init__(self) -> None:
        self._kept: dict[Split, tuple[Any, Samples]] = {}

    def get(self, run: Run) -> tuple[Samples, Samples]:
        """Returns the training and test samples of a run."""
        return self._part(run, "train", run.samples), self._part(run, "test", run.test_samples)

    def _part(self, run: Run, split: Split, count: int) -> Samples:
        key = (run.task, run.trials, run.seed, count, run.device)
        if split not in self._kept or self._kept[split][0] != key:
            where: dict[str, Any] = {"split": split, "device": placement(run)[0]}
            self._kept[split] = key, run.task.sample(count, trials=run.trial_numbers, seed=run.seed, **where)
        return self._kept[split][1]
