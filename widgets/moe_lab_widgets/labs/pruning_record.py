"""What the pruning Lab runs: a layer is trained, pruned by every criterion, and fine-tuned, record by record."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from moe_lab.core.errors import InputError
from moe_lab.core.saliency import UNMOVED, routers_unmoved, scores_where_defined, undefined_where
from moe_lab.core.sentences import shown
from moe_lab.core.snapshots import Measure, Snapshot, collect
from moe_lab.pruning import BranchStart, FineTuned, PlantedStart, RandomStart, TokenMoE, TokenRun, TokenTask, Weights
from moe_lab.pruning.criteria import (
    CRITERIA,
    Criterion,
    Scores,
    Statistics,
    of_routers,
    router_norm_change,
    scores_of_one,
)
from moe_lab.pruning.measures import MEASURES
from moe_lab.pruning.pruned import AFTER_PRUNING, PruningTraining, kept_by_count, sizes_of
from moe_lab.pruning.tuning import PruningChoice, Tuning
from moe_lab_widgets.engine.copying import name_of
from moe_lab_widgets.engine.knobs import OWN, LabKnob, config_from, device_setting
from moe_lab_widgets.engine.record import ONLY, Record

if TYPE_CHECKING:
    import xarray

RECORDS = 28
"""About how many records a training makes: each is evaluated, which takes as long as four steps."""
CHUNK = 10
"""Steps of fine-tuning per record."""
CARRIES = 0.5
"""The proficiency from which an expert carries its class's pattern."""
TEST_SAMPLES = 200

# ---- the run that the knobs describe ----

PLANTED, RANDOM, BRANCHES = "planted", "random", "pre-trained"
EXPERTS_CHOOSE, TOKENS_CHOOSE = "expert-choice", "token-choice"
LIVE_BRANCHES = BranchStart(steps=40, batch=50, router_learning_rate=0.05)
"""A fifth of the default's pre-training, which would take 3 s: the specialists are the same."""
BATCHES = {PLANTED: 50, RANDOM: 100, BRANCHES: 50}
RECIPES: dict[str, dict[str, Any]] = {
    PLANTED: {"top": 5, "steps": 110, "router_learning_rate": 0.05, "others_neurons": 0.2},
    RANDOM: {"top": 5, "steps": 300, "router_learning_rate": 0.01, "others_neurons": 0.2},
    BRANCHES: {"top": 5, "steps": 110, "router_learning_rate": 0.05, "others_neurons": 0.2},
}
_TOKENS_CHOOSE: dict[str, dict[str, Any]] = {
    PLANTED: {"top": 2, "steps": 200, "others_neurons": 0.02},
    RANDOM: {"top": 3},
    BRANCHES: {"top": 3},
}


def recipe(start: str, routing: str) -> dict[str, Any]:
    """Returns the defaults of the knobs that depend on the checkpoint and the routing."""
    return RECIPES[start] | (_TOKENS_CHOOSE[start] if routing == TOKENS_CHOOSE else {})


def run_of(values: Mapping[str, Any]) -> TokenRun:
    """Returns the run that the values describe, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    begin = values["start"]
    start = (
        config_from(PlantedStart, values) if begin == PLANTED else RandomStart() if begin == RANDOM else LIVE_BRANCHES
    )
    return TokenRun(
        model=config_from(TokenMoE, values),
        task=config_from(TokenTask, values),
        start=start,
        batch=BATCHES[begin],
        test_samples=TEST_SAMPLES,
        **{name: values[name] for name in ("steps", "trials", "seed")},
        **device_setting(values),
    )


def seconds(values: Mapping[str, Any]) -> float:
    """Returns about how long a step of the run takes on one CPU thread (measured)."""
    run = run_of(values)
    model, task = run.model, run.task
    if model.routing == TOKENS_CHOOSE:
        numbers = 2 * task.patterns * run.batch + model.experts * task.patterns
    else:
        numbers = model.experts * run.batch * model.width(task.tokens, task.patterns)
    return 5e-4 + 1.1e-8 * run.trials * numbers


# ---- criteria ----


@undefined_where(routers_unmoved, UNMOVED)
def reversed_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Scores experts by the paper's criterion reversed: prunes those whose routers grew the most."""
    return -scores_where_defined(router_norm_change, before, after, statistics)[0]


REVERSED = "reversed-norm-change"
OFFERED: dict[str, Criterion] = {**CRITERIA, REVERSED: reversed_norm_change}


def own_score(
    knobs: Sequence[LabKnob], score: Any, values: dict[str, Any]
) -> tuple[tuple[LabKnob, ...], dict[str, Any]]:
    """Takes the Lab's argument `score`, and begins with it unless the values name another criterion.

    Args:
      score: a criterion of one's own (`moe_lab.pruning.criteria.of_routers`).
      values: what the user gave.

    Returns:
      The knobs, whose criteria have one more, and the values.

    Raises:
      ValueError: it is no function, or returns no scores for two small layers.
    """
    rule = "score must be a function of two arguments, the routers before and after training"
    before, after = np.eye(4, 6), np.arange(24.0).reshape(4, 6)
    try:
        inspect.signature(score).bind(before, after)
    except TypeError:
        raise InputError(f"{rule}: got {shown(score)}") from None
    scores_of_one(score, before, after)
    offered = (*OFFERED, OWN)
    knobs = tuple(dataclasses.replace(knob, choices=offered) if knob.name == "criterion" else knob for knob in knobs)
    return knobs, {"criterion": OWN, **values}


def choice_of(values: Mapping[str, Any]) -> PruningChoice:
    """Returns how the values of the knobs prune the layer."""
    return PruningChoice(**{one.name: values[one.name] for one in dataclasses.fields(PruningChoice)})


# ---- records ----

TUNED = Measure(("tuning", "criterion", "rho"), "", "test accuracy after fine-tuning what is left")


class OfferedTraining(PruningTraining):
    """A run in training, pruned by all criteria that the Lab offers by itself."""

    def __init__(self, run: TokenRun) -> None:
        super().__init__(run, OFFERED)


@dataclass(frozen=True, kw_only=True)
class PruningSnapshot(Snapshot):
    """A Snapshot of the training, the last of which has what comes of pruning; later ones, fine-tuning as well.

    Attributes:
      live: the run that this record comes from.
    """

    live: LiveRun


class LiveRun:
    """A training, and the fine-tuning of the layers that are left when it is pruned."""

    def __init__(self, run: TokenRun, criteria: Mapping[str, Criterion] = OFFERED) -> None:
        self.run, self.criteria = run, criteria
        self.training: PruningTraining | None = None
        self.tuning: Tuning | None = None

    def records(self) -> Iterator[PruningSnapshot]:
        """Yields the records of the training."""
        if isinstance(self.run.start, BranchStart):
            yield self._before_training()  # pre-training takes a moment
        self.training = PruningTraining(self.run, self.criteria)
        for shot in self.training.snapshots():
            yield self._with(shot, np.full_like(shot["pruned_accuracy"][:, None], np.nan))

    def further(self, last: PruningSnapshot, choice: PruningChoice) -> Iterator[PruningSnapshot] | None:
        """Returns the record after the next steps of the fine-tuning that a choice still needs; None for none."""
        if self.training is None or not last.finished.all():
            return None
        if self.tuning is None:
            tuned = FineTuned.of(self.training, self.run)
            self.tuning = Tuning(tuned, last.values, tuple(self.criteria), CHUNK)
        return self._tuned(last, self.tuning, choice) if self.tuning.lacks(choice) else None

    def _tuned(self, last: PruningSnapshot, tuning: Tuning, choice: PruningChoice) -> Iterator[PruningSnapshot]:
        yield self._with(last, tuning.advance(choice))

    def _with(self, shot: Snapshot, tuned: NDArray[np.float64]) -> PruningSnapshot:
        """Returns a record with what is known of fine-tuning."""
        parts = {one.name: getattr(shot, one.name) for one in dataclasses.fields(Snapshot)}
        parts |= {"values": {**shot.values, "tuned_accuracy": tuned}}
        parts |= {"measures": {**shot.measures, "tuned_accuracy": TUNED}}
        return PruningSnapshot(**parts, live=self)

    def _before_training(self) -> PruningSnapshot:
        """Returns a record in which nothing is known."""
        trials = self.run.trials
        sizes = sizes_of(self.run.model, self.criteria, trials) | {"tuning": 1}
        measures = MEASURES | AFTER_PRUNING | {"tuned_accuracy": TUNED}
        values = {
            name: np.full([sizes[axis] for axis in ("trial", *one.dims)], np.nan) for name, one in measures.items()
        }
        trained, ended = np.zeros(trials, dtype=np.int64), np.zeros(trials, dtype=bool)
        return PruningSnapshot(0, values, measures, trained, ended, ended.copy(), live=self)


def runs(values: Mapping[str, Any]) -> dict[str, TokenRun]:
    """Returns the one run."""
    return {ONLY: run_of(values)}


def begin(run: TokenRun, cache: dict[str, Any]) -> Iterator[PruningSnapshot]:
    """Begins a run of the Lab, which may have been given a criterion of one's own."""
    score = cache.get("score")
    return LiveRun(run, OFFERED if score is None else {**OFFERED, OWN: of_routers(score)}).records()


def more(now: Record) -> Iterator[PruningSnapshot] | None:
    """Returns the next record that the view-only knobs still need; None for none."""
    last: PruningSnapshot = now.of()
    return last.live.further(last, choice_of(now.values))


# ---- copied code and saved data ----


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted: the training, the pruning, and the accuracies on show."""
    run = run_of(values)
    kinds = [] if run.start == PlantedStart() else [type(run.start).__name__]
    lines = [f"from moe_lab.pruning import {', '.join([*kinds, 'TokenMoE', 'TokenRun', 'TokenTask', 'fine_tune'])}"]
    criterion = repr(values["criterion"])
    if values["criterion"] == REVERSED:
        criterion = "reversed_norm_change"
        lines += [
            "from moe_lab.pruning.criteria import router_norm_change",
            "",
            "",
            "def reversed_norm_change(before, after, statistics):",
            "    return -router_norm_change(before, after, statistics)",
            "",
        ]
    elif values["criterion"] == OWN:
        name = name_of(values["score"], "score")
        criterion = f"of_routers({name})"
        lines += ["from moe_lab.pruning.criteria import of_routers", "", f"# {name} is the function in your notebook"]
    lines += [
        "",
        f"run = {run.constructor_code()}",
        "tuned = fine_tune(run)",
        f"kept = tuned.kept({criterion}, {values['rho']!r})",
        "accuracy = tuned.accuracy(kept)",
        'print("before pruning", tuned.evaluation.accuracy(), "after", accuracy)',
    ]
    if values["fine_tune"]:
        lines += [
            f"accuracy = tuned.accuracy(kept, steps={values['tuning_steps']})",
            'print("and after fine-tuning", accuracy)',
        ]
    return "\n".join(lines)


def data(now: Record) -> xarray.Dataset:
    """Returns the training, and the accuracies after pruning by every criterion and known fine-tuning."""
    shots = {shot.step: shot for shot in now.shots[ONLY] if shot.coords}
    if not shots:
        raise InputError("there is nothing to save yet: the branches are still being pre-trained")
    dataset, last = collect(map(_untuned, shots.values())), now.of()
    if not np.isfinite(last["undefined"]).any():
        return dataset.drop_vars(AFTER_PRUNING, errors="ignore")
    found = last["tuned_accuracy"]
    steps = CHUNK * np.arange(1, found.shape[1] + 1)
    axes = ("trial", "tuning_steps", "criterion", "rho")
    kept = kept_by_count(torch.as_tensor(last["rank"])).numpy()
    dataset = dataset.assign({name: dataset[name].isel(step=-1) for name in AFTER_PRUNING})
    dataset = dataset.assign(
        tuned_accuracy=(axes, found, _about(TUNED.meaning)),
        kept=(("trial", "criterion", "rho", "expert"), kept, _about("whether the expert stays")),
    )
    return dataset.assign_coords(tuning_steps=steps).assign_attrs(code=code(now.values))


def _untuned(shot: Snapshot) -> Snapshot:
    """Returns a Snapshot without the accuracies after fine-tuning, of which each further chunk adds one."""
    measures = {name: measure for name, measure in shot.measures.items() if name != "tuned_accuracy"}
    return dataclasses.replace(shot, measures=measures)


def _about(meaning: str) -> dict[str, str]:
    return {"units": "", "long_name": meaning}
