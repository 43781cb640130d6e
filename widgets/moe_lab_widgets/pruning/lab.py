"""PruningLab: experts whose routers did not grow in training can go; other criteria take the wrong ones, live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moe_lab.errors import InputError
from moe_lab.training import Snapshot, collect
from moe_lab_widgets.drawing.words import middle
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.pruning import settings as of
from moe_lab_widgets.pruning.panels.blocks import short
from moe_lab_widgets.pruning.picture import PruningPicture
from moe_lab_widgets.pruning.record import Frame, LiveRun, Outcome, View, outcome, view_of
from moe_lab_widgets.pruning.stories import STORIES

if TYPE_CHECKING:
    import xarray


class PruningLab(Lab):
    """The layer of pruning2024 trained from a checkpoint, pruned by a criterion, and fine-tuned again (algorithm 1).

    Rho, the criterion, fine-tuning and the trial on show are view-only: they start no training.
    """

    title = "Expert pruning"
    knobs = of.KNOBS
    stories = STORIES

    def check(self, values: Mapping[str, Any]) -> None:
        of.run_of(values)

    def start(self, values: dict[str, Any]) -> Iterator[Frame]:
        run = of.run_of(values)
        of.check_view(values)
        return self._records(LiveRun(run, lambda: view_of(self.values), of.record_every(run, values)))

    def _records(self, run: LiveRun) -> Iterator[Frame]:
        for record in run.frames():
            self._live_run = run
            yield record

    def check_view(self, values: Mapping[str, Any]) -> None:
        of.check_view(values)

    def more(self, record: Frame) -> Iterator[Frame] | None:
        return self._live_run.further(record)

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> PruningPicture:
        return PruningPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def parts(self, record: Frame) -> dict[str, Snapshot]:
        return {} if record.shot is None else {"run": record.shot}

    def data(self, records: Sequence[Frame]) -> xarray.Dataset:
        """Returns the training, and the accuracies after pruning by every criterion and known fine-tuning."""
        shots = {id(record.shot): record.shot for record in records if record.shot is not None}
        if not shots:
            raise InputError("there is nothing to save yet: the branches are still being pre-trained")
        dataset, last = collect(shots.values()), records[-1]
        if last.pruned is None:
            return dataset
        plain = last.pruned.plain
        after = last.pruned.after(view_of(self.values), last.results)
        names, nothing = list(plain), np.full(next(iter(plain.values())).shape, np.nan)
        axes = ("criterion", "rho", "trial")
        tuned = np.stack([after[name][1] if name in after else nothing for name in names])
        kept = np.stack([stay.cpu().numpy() for stay in last.pruned.kept.values()])
        made: dict[str, Any] = {
            "pruned_accuracy": (axes, np.stack(list(plain.values())), _about("test accuracy after pruning")),
            "tuned_accuracy": (axes, tuned, _about("test accuracy after fine-tuning what is left")),
            "kept": ((*axes, "expert"), kept, _about("whether the expert stays")),
        }
        shares = np.arange(last.pruned.half) / last.pruned.half
        dataset = dataset.assign(made).assign_coords(criterion=names, rho=shares)
        steps = min((steps for steps, _ in after.values()), default=0)
        return dataset.assign_attrs(code=self.code(self.values), tuning_steps=steps)

    # ---- words ----

    def trouble(self, record: Frame) -> str:
        text = super().trouble(record)
        if record.pruned is not None:
            text = f"{text} {record.pruned.undefined.get(self.picture.view.criterion, '')}".strip()
        return text[:1].upper() + text[1:]

    def progress(self, record: Frame) -> str:
        if record.shot is None:
            return "pre-training the branches"
        if record.results and self.picture.view.fine_tune:
            return f"trained {record.total} steps, pruned, fine-tuning"
        return f"step {record.step} of {record.total}"

    def caption(self, record: Frame) -> str:
        view = self.picture.view
        trial = record.trial(view.shown)
        if record.shot is None:
            return "Branches are pre-trained, each on a task of its own, and then put side by side."
        if record.pruned is None:
            return self._training(record, trial)
        found = outcome(record, view)
        name = of.NAMES[view.criterion]
        if found is None:
            reason = of.undefined(view.criterion)
            return f"Step {record.step} of {record.total}: {reason}, so {name} cannot order the experts."
        return f"{self._pruning(record, found, name)}{self._failure(record, view, trial, name)}"

    @staticmethod
    def _training(record: Frame, trial: int) -> str:
        grown = int((record.changes(trial) >= record.threshold).sum())
        accuracy = "–" if record.accuracy is None else short(middle(record.accuracy))
        if record.step == 0:
            return f"Step 0: the checkpoint, whose routers have not moved; accuracy {accuracy}."
        routers = f"{grown} of {record.run.model.experts} routers have" if grown != 1 else "1 router has"
        grown_by = f"in trial {trial + 1} {routers} grown by 1.5 log l = {record.threshold:.2f}"
        return f"Step {record.step} of {record.total}: {grown_by}; accuracy {accuracy}."

    @staticmethod
    def _pruning(record: Frame, found: Outcome, name: str) -> str:
        """Returns what was pruned, and with what effect."""
        experts = record.run.model.experts

        def median(values: np.ndarray) -> str:
            return short(middle(values))

        def worst(values: np.ndarray) -> str:
            return short(float(np.nanmin(values))) if np.isfinite(values).any() else "–"

        if found.left == experts and not found.steps:
            return f"Nothing is pruned: all {experts} experts, accuracy {median(found.whole)}."
        text = f"{experts - found.left} of {experts} experts pruned by {name}: accuracy {median(found.plain)}"
        if found.steps:
            text += f", after {found.steps} steps of fine-tuning {median(found.tuned)}, worst {worst(found.tuned)}"
        elif name != "random":
            text += f" (random: {median(found.chance)}, worst {worst(found.chance)})"
        else:
            text += f", worst {worst(found.plain)}"
        whole = middle(found.whole)
        if whole < 0.985 or middle(found.plain) > whole + 0.005:
            text += f"; before pruning {short(whole)}, worst {worst(found.whole)}"
        memory, work = short(found.memory), short(found.operations)
        costs = f"memory and FLOPs fall to {memory}" if memory == work else f"memory falls to {memory}, FLOPs to {work}"
        return f"{text}; {costs}." if found.left < experts else f"{text}."

    @staticmethod
    def _failure(record: Frame, view: View, trial: int, name: str) -> str:
        """Returns why pruning failed in the trial on show, where it is known."""
        text, half, gone = "", record.run.model.experts // 2, []
        for side, experts in record.lost(view, trial):
            numbers = " and ".join(str(expert + 1) for expert in experts)
            who = f"expert {numbers}, which alone carries" if len(experts) == 1 else f"experts {numbers}, which carry"
            gone.append(f"{who} {('o₁', 'o₂')[side]}")
        if gone:
            text = f" In trial {trial + 1} {name} removed {', and '.join(gone)}."
        carriers = record.carriers(trial)
        for side, mine in enumerate((carriers[:half], carriers[half:])):
            if not mine.any():
                vote, pattern = (("+", "o₁"), ("−", "o₂"))[side]
                text += f" In trial {trial + 1} no expert that votes {vote} carries {pattern}, against the assumption."
        return text


def _about(meaning: str) -> dict[str, str]:
    return {"units": "", "long_name": meaning}
