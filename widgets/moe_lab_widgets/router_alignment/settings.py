"""The knobs of the router-alignment Lab, and the runs that their values describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moe_lab.config import Config
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, Run, Samples
from moe_lab.patch_routing.data import Split
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.stepwise import StepwiseMoE
from moe_lab.trials import placement
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, arguments, fewer, given, offer, placed
from moe_lab_widgets.engine.mnist import DATA_WORDS, HOW, MNIST, files_of

DIGITS, SYNTHETIC = "digits", "synthetic"
OWN_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    DIGITS: {"patches_per_expert": 4, "samples": 100, "steps": 100, "noise": 0.0},
    SYNTHETIC: {"patches_per_expert": 6, "samples": 200, "steps": 200, "noise": 0.3},
    MNIST: {"patches_per_expert": 6, "samples": 300, "steps": 300, "noise": 0.0},
}
"""Defaults that depend on the source of the patches."""
TEST_SAMPLES = 200
RECORDS = 100
"""Approximate number of records of a run: 5 seconds at 20 records per second."""


def _own(config: type[Config], name: str, **changes: Any) -> LabKnob:
    """A knob whose default depends on the source of the patches."""
    return offer(
        config,
        name,
        default=OWN_DEFAULTS[DIGITS][name],
        follows=lambda values: OWN_DEFAULTS[values["source"]][name],
        **changes,
    )


def _synthetic(values: Mapping[str, Any]) -> bool:
    return bool(values["source"] == SYNTHETIC)


# Short words, so that three sliders stand side by side.
KNOBS = (
    LabKnob(name="source", main=True, meaning="Data", default=DIGITS, choices=(DIGITS, SYNTHETIC), words=DATA_WORDS,
            reason=HOW,
            effect="Digits show what routers look for; of synthetic patches you set every property."),
    _own(JointMoE, "patches_per_expert", main=True, meaning="patches kept per expert",
         effect="More patches let o through more surely, but more of the others too. With one, no router learns."),
    offer(JointMoE, "experts", default=4, main=True,
          effect="With more experts each class more surely finds a router. The m neurons are divided among them."),
    offer(PatternTask, "patches", main=True, meaning="patches per sample",
          effect="o hides among more patches that do not matter. The CNN, which looks at all of them, suffers most."),
    _own(Run, "samples", main=True, effect="More samples help both models. The mixture needs fewer of them."),
    _own(PatternTask, "noise", main=True, symbol="", meaning="noise added to every patch",
         effect="More noise hides the patterns, until both models learn the training samples by heart."),
    offer(PatternTask, "distractors", main=True, symbol="", meaning="distractors per sample (l* − 1)",
          enabled_when=_synthetic,
          effect="More patches imitate a class, so that more must be kept until o is surely among them.",
          applies="only to synthetic patches"),
    offer(PatternTask, "delta_d", main=True, symbol="δ_d", meaning="overlap of o₁ and o₂", enabled_when=_synthetic,
          effect="The closer to 1, the more alike both classes look. Below 0 they point apart.",
          applies="only to synthetic patches"),
    offer(PatternTask, "gap", meaning="how much distractors resemble o", enabled_when=_synthetic,
          effect="The larger, the more strongly distractors pull routers to the class that they imitate.",
          applies="only to synthetic patches"),
    offer(PatternTask, "delta_r", symbol="δ_r", meaning="overlap of others with o", enabled_when=_synthetic,
          effect="The larger, the more of o may be in a patch that does not matter.",
          applies="only to synthetic patches"),
    offer(JointMoE, "neurons", meaning="neurons in all",
          effect="Both models can represent more, and each step takes longer."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=OWN_DEFAULTS[DIGITS]["steps"],
            follows=lambda values: OWN_DEFAULTS[values["source"]]["steps"], low=1, slider=(20, 1000, 20),
            effect="More steps give the slower of the two models time to catch up."),
    offer(Run, "trials", meaning="trials", default=8, far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def task_of(values: Mapping[str, Any]) -> PatternTask | DigitTask:
    """Returns the task that the values describe."""
    if values["source"] == MNIST:
        return make_task("mnist", patches=values["patches"], **files_of(values))
    if values["source"] == DIGITS:
        return given(DigitTask, {**values, "source": "digits"})
    return given(PatternTask, values)


Mixture = JointMoE | StepwiseMoE
"""What can stand in the pMoE's place: routers of k experts, each of which receives l patches."""


def models(values: Mapping[str, Any], own: Mixture | None = None) -> tuple[Mixture, CNN]:
    """Returns the pMoE, or one's own mixture of its size, and the CNN with as many neurons."""
    joint = given(JointMoE, values)
    return joint if own is None else own.replace(**_sizes(joint)), given(CNN, values)


def _sizes(mixture: Mixture) -> dict[str, int]:
    return {name: getattr(mixture, name) for name in ("experts", "patches_per_expert", "neurons")}


def runs(values: Mapping[str, Any], own: Mixture | None = None) -> list[Run]:
    """Returns the two runs that the values describe, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    task = task_of(values)
    return [Run(model=model, task=task, **settings(values)) for model in models(values, own)]


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `train` besides model and task, the same for both models."""
    _, epochs, epoch = _epochs(values)
    return {
        "samples": values["samples"],
        "trials": values["trials"],
        "seed": values["seed"],
        "epochs": epochs,
        "test_samples": TEST_SAMPLES,
        "record_every": max(1, round(epochs * epoch / fewer(RECORDS, values))),
        **placed(values),
    }


def total_steps(values: Mapping[str, Any]) -> int:
    """Returns the most steps that a run can take: whole passes over the data, at least `steps`."""
    return _epochs(values)[0]


def work(values: Mapping[str, Any], own: Mixture | None = None) -> float:
    """Returns the numbers that a step of the larger run touches."""
    return max(run.numbers for run in runs(values, own))


def _epochs(values: Mapping[str, Any]) -> tuple[int, int, int]:
    """Returns (total steps, passes over the data, steps per pass)."""
    epoch = -(-max(values["samples"], 1) // CNN().batch_size)
    epochs = max(1, -(-values["steps"] // epoch))
    return epochs * epoch, epochs, epoch


def code(values: Mapping[str, Any], own: Mixture | None = None) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab; one's own mixture is `layer`."""
    model, cnn = models(values)
    task = task_of(values)
    trained = model.code() if own is None else f"layer.replace({arguments(_sizes(model))})"
    needed = ["CNN", *([] if own else ["JointMoE"]), type(task).__name__, "train"]
    return "\n".join(
        (
            *(["# layer is your own mixture, as it was given to the Lab"] if own else []),
            f"from moe_lab.patch_routing import {', '.join(needed)}",
            "from moe_lab.plots import curves",
            "from moe_lab.training import collect",
            "",
            f"task = {task.code()}",
            f"settings = dict({arguments(settings(values))})",
            "runs = {",
            f'    "pMoE": collect(train({trained}, task, **settings)),',
            f'    "CNN": collect(train({cnn.code()}, task, **settings)),',
            "}",
            "pmoe, cnn = (run.isel(step=-1) for run in runs.values())",
            'print("pMoE", pmoe["test_accuracy"].values, "coverage", pmoe["coverage"].values)',
            'print("CNN ", cnn["test_accuracy"].values)',
            'curves(runs, "test_accuracy")',
        )
    )


class SampleCache:
    """The latest samples of one Lab.

    Both models train on them; l, k and m do not change them, and N does not change the test samples.
    """

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
