"""DeepPruneLab: a small V-MoE learns digits, then others, and loses experts: silently, or with tokens rerouted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moe_lab.errors import InputError
from moe_lab.training import Snapshot, collect
from moe_lab.vision.deep import MODES
from moe_lab_widgets.deep_prune import settings as of
from moe_lab_widgets.deep_prune.picture import DeepPrunePicture
from moe_lab_widgets.deep_prune.record import Frame, frames, pre_training
from moe_lab_widgets.deep_prune.stories import STORIES
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.engine.controls import SPEEDS
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.output import headless

if TYPE_CHECKING:
    import xarray


class DeepPruneLab(Lab):
    """A V-MoE pre-trained on digits, fine-tuned on upside-down ones, and pruned (pruning2024, section 5.2).

    The first run of all pre-trains the model for most of a minute, and keeps it in the user's cache. How many experts
    go, by which criterion and in which way are view-only: they start no training. Where the Lab has to run inside a
    cell (MOE_LAB_HEADLESS) pre-training is shorter unless `pre_training_steps` is given.
    """

    title = "Pruning a vision model"
    knobs = of.KNOBS
    stories = STORIES
    budget = 60.0
    speed = list(SPEEDS)[-1]
    cpu_because = "a pruned block's time is that of a CPU, and one small model does not fill a GPU"

    def __init__(self, /, **values: Any) -> None:
        self._pre_training: tuple[Any, Iterator[Frame]] = (None, iter(()))
        if headless():
            values = {"pre_training_steps": of.QUICK, **values}
        super().__init__(**values)

    def check(self, values: Mapping[str, Any]) -> None:
        of.plan_of(values)

    def check_view(self, values: Mapping[str, Any]) -> None:
        of.check_view(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        plan = of.plan_of(values)
        of.check_view(values)
        if self._pre_training[0] != plan.before:
            self._pre_training = (plan.before, pre_training(plan))
        return frames(plan, self._pre_training[1])

    def make_picture(self, values: dict[str, Any]) -> DeepPrunePicture:
        return DeepPrunePicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def parts(self, record: Frame) -> dict[str, Snapshot]:
        return {} if record.shot is None else {"run": record.shot}

    def diverged(self, name: str, trials: str) -> str:
        return "The loss became infinite: try a smaller learning rate."

    def data(self, records: Sequence[Frame]) -> xarray.Dataset:
        """Returns the fine-tuning, the accuracies after pruning in every way, and what a block then costs."""
        shots = {id(one.shot): one.shot for one in records if one.shot is not None and one.stage != "pre-training"}
        if not shots:
            raise InputError("there is nothing to save yet: the fine-tuning has not begun")
        dataset, last = collect(shots.values()), records[-1]
        if last.table is None or last.costs is None:
            return dataset
        axes = ("mode", "pruned")
        made: dict[str, Any] = {
            "memory": (axes, last.costs.memory, _about("memory of one block of D = 256, over the whole one's")),
            "operations": (axes, last.costs.operations, _about("its operations, over the whole one's")),
            "milliseconds": (axes, last.costs.milliseconds, _about("its CPU time of an image", "ms")),
        }
        table = last.table.rename(accuracy="pruned_accuracy", received="received_after")
        return dataset.merge(table).assign(made).assign_attrs(dataset.attrs, code=self.code(self.values))

    # ---- words ----

    def progress(self, record: Frame) -> str:
        if record.table is not None:
            done = int(np.isfinite(record.table["accuracy"]).sum())
            return f"pruned, {done} of {record.table['accuracy'].size} accuracies"
        return f"{record.stage}, step {record.step} of {record.total}"

    def caption(self, record: Frame) -> str:
        if record.shot is None:
            return "The model is pre-trained on digits once; it is then fine-tuned on upside-down ones."
        if record.stage == "pre-training":
            text = f"Pre-training on ten digits, step {record.step} of {record.total}: accuracy"
            return f"{text} {percent(record.accuracy)}. Only the first time: the model is kept on this computer."
        if record.table is None:
            return self._tuning(record)
        return self._pruned(record)

    @staticmethod
    def _tuning(record: Frame) -> str:
        grown = int((record.changes > 0).sum())
        after = f"pre-trained {record.run.before.steps} steps"
        text = f"Fine-tuning on upside-down digits, step {record.step} of {record.total} ({after}): accuracy"
        return f"{text} {percent(record.accuracy)}; {grown} of {record.changes.size} routers have grown."

    def _pruned(self, record: Frame) -> str:
        view = self.picture.view
        curve, whole, left = record.curves(view)[view.criterion], record.accuracy, record.left(view)
        if not view.pruned:
            return f"Nothing is pruned: {of.EXPERTS} experts in each layer, accuracy {percent(whole, 1)}."
        if not np.isfinite(left):
            return (
                f"Computing: {int(np.isfinite(curve).sum())} of {len(curve)} accuracies by {of.NAMES[view.criterion]}."
            )
        way = "silently" if view.mode == MODES[0] else "and rerouted"
        name = of.NAMES[view.criterion]
        chance = record.curves(view)["random"][view.pruned]
        beside = "" if name == "random" or not np.isfinite(chance) else f"random {percent(chance, 1)}, "
        how = "at random" if name == "random" else f"by {name}"
        text = f"{view.pruned} of {of.EXPERTS} experts a layer pruned {way} {how}: accuracy "
        text += f"{percent(left, 1)} ({beside}unpruned {percent(whole, 1)})"
        costs = record.costs
        assert costs is not None
        place = view.way, view.pruned
        memory, work = percent(costs.memory[place]), percent(costs.operations[place])
        share = costs.milliseconds[place] / costs.milliseconds[0, 0]
        time = f", of its time {percent(share)}" if np.isfinite(share) else ""
        return f"{text}. Of a block's memory {memory} stay, of its FLOPs {work}{time}."


def _about(meaning: str, unit: str = "") -> dict[str, str]:
    return {"units": unit, "long_name": meaning}
