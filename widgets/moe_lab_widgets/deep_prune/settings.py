"""The knobs of the deep pruning Lab, the training that their values describe, and its code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moe_lab.config import require
from moe_lab.vision.deep import MEASURED, MODES, PAPER_CRITERIA, PRE_TRAINING, DigitRun, DigitTask
from moe_lab_widgets.drawing.words import CRITERION_NAMES
from moe_lab_widgets.engine.knobs import LabKnob, given, offer

SILENT, REROUTED = MODES
FINE_TUNING = {"steps": 150, "batch": 50}
"""Half of the library's steps and batch: a few seconds, after which criteria still differ."""
TEST_IMAGES = 500
PRE_TRAINING_BATCH = PRE_TRAINING.batch
QUICK = 100
"""Steps of pre-training where the Lab has to run inside a cell."""
LAYER = MEASURED
"""The block whose memory, operations and time are shown: one that is large enough to save time on any machine."""
REPEATS = 3
"""Measurements of its time, of which the fastest counts: what else runs can only add to it."""
NAMES = {name: short for name, short in CRITERION_NAMES.items() if name in PAPER_CRITERIA}
"""Short names of the criteria, for the ends of lines."""
EXPERTS = DigitRun().model.num_experts
MOST = EXPERTS - DigitRun().model.num_selected_experts
"""Experts of each layer that can go: two are selected for every token."""

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    LabKnob(name="pruned", main=True, meaning="experts pruned per layer", default=4, low=0, high=MOST,
            slider=(0, MOST, 1), view_only=True,
            effect="Memory falls with every expert, and sooner or later accuracy. Nothing is trained anew."),
    LabKnob(name="criterion", main=True, meaning="prune by", default="router-norm-change", choices=PAPER_CRITERIA,
            words=NAMES, view_only=True,
            effect="The experts with the smallest score go. Nothing is trained anew."),
    LabKnob(name="mode", main=True, meaning="way to prune", default=SILENT, choices=MODES, view_only=True,
            effect="Silent: a token gets nothing from a pruned expert; rerouted: it goes to one that stayed."),
    offer(DigitTask, "classes", main=True, effect="A harder task, in which the criteria differ more."),
    offer(DigitRun, "steps", main=True, meaning="fine-tuning steps", default=FINE_TUNING["steps"],
          slider=(50, 500, 50),
          effect="Routers move further before experts are pruned."),
    offer(DigitRun, "learning_rate", effect="Faster and less steady steps."),
    offer(DigitRun, "batch", meaning="images per step", default=FINE_TUNING["batch"],
          effect="Steadier gradients, and slower steps."),
    LabKnob(name="pre_training_steps", meaning="pre-training steps", default=PRE_TRAINING.steps, low=1,
            slider=(100, PRE_TRAINING.steps, 100),
            effect="Fine-tuning begins with a better model."),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What a run of the Lab trains: a pre-training, which is the same for all seeds, and a fine-tuning after it."""

    before: DigitRun
    tuning: DigitRun

    def code(self) -> str:
        """The Python expression for the fine-tuned model."""
        return f"fine_tune({self.start_code()}, {self.tuning.code()})"

    def start_code(self) -> str:
        """The Python expression for the pre-trained model."""
        changed = {
            name: getattr(self.before, name)
            for name in ("steps", "batch")
            if getattr(self.before, name) != getattr(PRE_TRAINING, name)
        }
        words = ", ".join(f"{name}={value}" for name, value in changed.items())
        return f"pretrained(PRE_TRAINING.replace({words}))" if words else "pretrained()"


def plan_of(values: Mapping[str, Any]) -> Plan:
    """Returns what the values describe, checked.

    Raises:
      ConfigError: a value breaks a rule.
      ValueError: there is nothing to train, or a batch does not fill whole groups of tokens.
    """
    task = given(DigitTask, values).replace(upside_down=True)
    tuning = given(DigitRun, values).replace(task=task, test_images=TEST_IMAGES, device="cpu")
    rule = "steps must be at least 1: routers that have not moved give no order of experts"
    require(tuning.steps >= 1, rule, steps=tuning.steps)
    per = tuning.model.images_per_batch
    rule = f"batch (B) must be a multiple of {per}, the images whose tokens fill whole groups"
    require(tuning.batch % per == 0, rule, B=tuning.batch)
    steps = values["pre_training_steps"]
    require(steps >= 1, "pre_training_steps must be at least 1", pre_training_steps=steps)
    return Plan(PRE_TRAINING.replace(steps=steps, batch=PRE_TRAINING_BATCH), tuning)


def check_view(values: Mapping[str, Any]) -> None:
    """Checks the view-only knobs.

    Raises:
      ValueError: fewer than the two experts that each token selects would stay, or more than there are.
    """
    rule = f"pruned, the experts pruned of each layer, must be from 0 to {MOST}"
    require(0 <= values["pruned"] <= MOST, rule, pruned=values["pruned"])


def lowest_accuracy(plan: Plan) -> float:
    """Returns where the axis of accuracy begins: lower where training is short."""
    if plan.before.steps < 500 or plan.tuning.steps < 100:
        return 0.0
    return 0.4 if plan.tuning.steps < 250 else 0.6


def longest_change(plan: Plan) -> float:
    """Returns where the axes of Delta end."""
    return 0.2 if plan.tuning.learning_rate <= 0.05 else 0.4


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted: both trainings, the pruned model, and the accuracies on show."""
    plan = plan_of(values)
    start, tuning = plan.start_code(), plan.tuning
    names = {"DigitRun", "PruningTable", "accuracy", "fine_tune", "pretrained", "prune"}
    names |= {"PRE_TRAINING"} if "PRE_TRAINING" in start else set()
    names |= {"DigitTask"} if "DigitTask" in tuning.code() else set()
    criterion, mode, seed = values["criterion"], values["mode"], tuning.seed
    own = f"images=run.validation.images, seed={seed}" if seed else "images=run.validation.images"
    return "\n".join((
        f"from moe_lab.vision.deep import {', '.join(sorted(names, key=lambda name: (name.islower(), name)))}",
        "",
        f"before = {start}",
        f"run = {tuning.code()}",
        "after = fine_tune(before, run)",
        f'found = prune(before, after, "{criterion}", {values["pruned"]}, mode="{mode}", {own})',
        'print("before pruning", accuracy(after, run.test), "after", accuracy(found.model, run.test))',
        f"table = PruningTable(before, after, run.test, run.validation{f', seed={seed}' if seed else ''}).complete()",
        f'print(table["accuracy"].sel(mode="{mode}").to_pandas())',
    ))  # fmt: skip
