"""What the pruning Lab runs: a layer is trained, pruned by every criterion, and fine-tuned, record by record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moe_lab.core.errors import InputError
from moe_lab.core.snapshots import Snapshot, collect
from moe_lab.core.training import samples_of
from moe_lab.pruning import BranchStart, FineTuned, PlantedStart, RandomStart, TokenMoE, TokenRun, TokenTask, Weights
from moe_lab.pruning.criteria import CRITERIA, Criterion, Scores, Statistics, router_norm_change
from moe_lab.pruning.live import FineTuning, Pruned, PruningChoice, Results
from moe_lab.pruning.measures import MEASURES, evaluate
from moe_lab.pruning.training import TokenTraining
from moe_lab_widgets.engine.knobs import config_from, device_setting, on_gpu, record_count, time_limit
from moe_lab_widgets.engine.record import ONLY, Record

if TYPE_CHECKING:
    import xarray

RECORDS, SLOWEST_RECORD = 55, 0.05
"""About how many records a training makes (4 seconds at 15 a second), and the seconds that one may take."""
EVALUATIONS = 11
"""How often the accuracy is measured during a training."""
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


def record_every(values: Mapping[str, Any]) -> int:
    """Returns the steps per record: `RECORDS` in all, but none that takes long."""
    few = round(values["steps"] / record_count(RECORDS, values))
    if on_gpu(values):
        return max(1, few)
    return max(1, min(few, int(time_limit(SLOWEST_RECORD, values) / seconds_of_step(run_of(values)))))


def seconds_of_step(run: TokenRun) -> float:
    """Returns about how long a step takes on one CPU thread (measured)."""
    model, task = run.model, run.task
    if model.routing == TOKENS_CHOOSE:
        numbers = 2 * task.patterns * run.batch + model.experts * task.patterns
    else:
        numbers = model.experts * run.batch * model.width(task.tokens, task.patterns)
    return 5e-4 + 1.1e-8 * run.trials * numbers


def threshold(values: Mapping[str, Any]) -> float:
    """Returns 1.5 log l, which the change of an important router's norm exceeds (lemma 4.1)."""
    return 1.5 * float(np.log(values["top"]))


def longest_change(values: Mapping[str, Any]) -> float:
    """Returns where the axis of Delta ends: the same for all runs but very long ones."""
    return 5.5 if values["steps"] * values["router_learning_rate"] <= 10 else 8.0


# ---- criteria ----


def reversed_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Scores experts by the paper's criterion reversed: prunes those whose routers grew the most."""
    return -router_norm_change(before, after, statistics)


REVERSED = "reversed-norm-change"
OFFERED: dict[str, Criterion] = {**CRITERIA, REVERSED: reversed_norm_change}


def choice_of(values: Mapping[str, Any]) -> PruningChoice:
    """Returns how the values of the knobs prune the layer."""
    return PruningChoice(**{one.name: values[one.name] for one in dataclasses.fields(PruningChoice)})


# ---- records ----

Accuracies = NDArray[np.float64]
Tuned = dict[str, tuple[int, Accuracies]]
"""By criterion the steps of fine-tuning, and the accuracies (rho, trial) after them."""


@dataclass(frozen=True, kw_only=True)
class PruningSnapshot(Snapshot):
    """A Snapshot of the training, and later the results of pruning the trained layer.

    The Snapshot holds the norms of the routers (trial, expert) and, at the end of training, all measures; nothing while
    branches are pre-trained.

    Attributes:
      run: what is trained.
      accuracy: (trial,) of the unpruned layer when it was last measured.
      pruned: the trained layer, whole and pruned, once training has ended.
      results: of fine-tuning it, as far as they were known at this record.
      live: the run that this record comes from.
    """

    run: TokenRun
    accuracy: NDArray[np.float64] | None = None
    pruned: Pruned | None = None
    results: Results = field(default_factory=dict)
    live: LiveRun

    def changes(self, trial: int) -> NDArray[np.float64]:
        """Returns (expert,) Delta."""
        return np.asarray(self["norm_change"][trial]) if self.values else np.zeros(self.run.model.experts)

    def carriers(self, trial: int) -> NDArray[np.bool_]:
        """Returns (expert,) which experts keep most occurrences of their class's pattern after training."""
        if self.pruned is None:
            return np.zeros(self.run.model.experts, dtype=bool)
        return np.asarray(np.nan_to_num(self["proficiency"][trial]) >= CARRIES)

    def kept(self, choice: PruningChoice, trial: int) -> NDArray[np.bool_] | None:
        """Returns (expert,) which experts stay; None while nothing is pruned, or when the criterion is undefined."""
        if self.pruned is None or choice.criterion not in self.pruned.kept:
            return None
        chosen = self.pruned.kept[choice.criterion][choice.count(self.pruned.half), trial]
        return np.asarray(chosen.cpu().numpy())

    def lost(self, choice: PruningChoice, trial: int) -> list[tuple[int, NDArray[np.int64]]]:
        """Returns the classes whose every carrier is pruned, 0 for + and 1 for -, with the carriers' numbers from 0."""
        kept, carriers = self.kept(choice, trial), self.carriers(trial)
        if kept is None:
            return []
        half, found = len(kept) // 2, []
        for side, mine in enumerate((slice(0, half), slice(half, None))):
            if carriers[mine].any() and not (carriers & kept)[mine].any():
                found.append((side, np.flatnonzero(carriers[mine]) + side * half))
        return found


@dataclass(frozen=True)
class Outcome:
    """What is left at one rho, by one criterion.

    Attributes:
      left: experts that stay.
      whole: (trial,) accuracy of the unpruned layer.
      plain: (trial,) accuracy after pruning.
      steps: of fine-tuning what is left; 0 when none is on show.
      tuned: (trial,) accuracy after them; `plain` when there are none.
      chance: (trial,) accuracy when experts are pruned at random, fine-tuned as the others where that is known.
      memory, operations: shares of the unpruned layer's.
    """

    left: int
    whole: NDArray[np.float64]
    plain: NDArray[np.float64]
    steps: int
    tuned: NDArray[np.float64]
    chance: NDArray[np.float64]
    memory: float
    operations: float


def outcome(record: PruningSnapshot, choice: PruningChoice) -> Outcome | None:
    """Returns what is left; None while nothing is pruned, or when the criterion is undefined."""
    pruned, name = record.pruned, choice.criterion
    if pruned is None or name not in pruned.kept:
        return None
    gone, steps = choice.count(pruned.half), 0
    plain, chance = pruned.plain[name][gone], pruned.plain["random"][gone]
    tuned = plain
    if choice.fine_tune:
        after = pruned.after(choice, record.results)
        if name in after and np.isfinite(after[name][1][gone]).any():
            steps, tuned = after[name][0], after[name][1][gone]
        if "random" in after:
            chance = after["random"][1][gone]
    return Outcome(
        left=2 * (pruned.half - gone),
        whole=pruned.plain[name][0],
        plain=plain,
        steps=steps,
        tuned=tuned,
        chance=chance,
        memory=pruned.parameters(gone),
        operations=pruned.operations(name, gone),
    )


def looked_at(now: Record) -> tuple[PruningSnapshot, PruningChoice, int]:
    """Returns the record, how the layer is pruned, and the index of the trial on show."""
    record: PruningSnapshot = now.of()
    return record, choice_of(now.values), min(now.values["shown"], record.trials) - 1


def curves_of(record: PruningSnapshot, choice: PruningChoice) -> tuple[Tuned, dict[str, Accuracies]]:
    """Returns by criterion what is known of fine-tuning, and the accuracies (rho, trial) that are on show."""
    if record.pruned is None:
        return {}, {}
    tuned = record.pruned.after(choice, record.results) if choice.fine_tune else {}
    return tuned, {name: tuned.get(name, (0, plain))[1] for name, plain in record.pruned.plain.items()}


def best_other(middles: Mapping[str, NDArray[np.float64]], chosen: str) -> str:
    """Returns the criterion, beside the chosen one and chance, whose accuracy is the highest on average over rho."""
    others = [name for name in middles if name not in (chosen, "random")]
    return max(others, key=lambda name: float(np.nan_to_num(middles[name]).mean()))


# ---- the run, phase by phase ----


class LiveRun:
    """A training, and the pruning and fine-tuning of the trained layer.

    Args:
      every: steps of the training per record.
      choice: returns how the layer is pruned now; called again every `CHUNK` steps of fine-tuning.
    """

    def __init__(self, run: TokenRun, every: int, choice: Callable[[], PruningChoice]) -> None:
        self.run, self.every, self.choice = run, every, choice
        self.tuning: FineTuning | None = None

    def records(self) -> Iterator[PruningSnapshot]:
        """Yields the records of all phases; the last one has all results for the present choice."""
        if isinstance(self.run.start, BranchStart):
            yield self._before_training()  # pre-training takes a moment
        training = TokenTraining(self.run.replace(measure="last", record_every=self.every))
        for record in self._training(training):
            yield record
        pruned = Pruned(FineTuned.of(training, self.run), OFFERED)
        self.tuning = FineTuning(pruned, CHUNK)
        first = dataclasses.replace(record, pruned=pruned)
        yield first
        yield from self._tuned(first, self.tuning)

    def further(self, record: PruningSnapshot) -> Iterator[PruningSnapshot] | None:
        """Returns the records of the fine-tuning that the present choice still needs, after the last; None for none."""
        if self.tuning is None or not self.tuning.lacks(self.choice()):
            return None
        return self._tuned(record, self.tuning)

    def _tuned(self, record: PruningSnapshot, tuning: FineTuning) -> Iterator[PruningSnapshot]:
        for results in tuning.work(self.choice):
            yield dataclasses.replace(record, results=results)

    def _before_training(self) -> PruningSnapshot:
        trials = self.run.trials
        trained, ended = np.zeros(trials, dtype=np.int64), np.zeros(trials, dtype=bool)
        return PruningSnapshot(0, {}, {}, trained, ended, ended.copy(), run=self.run, live=self)

    def _training(self, training: TokenTraining) -> Iterator[PruningSnapshot]:
        """Trains, and measures the accuracy `EVALUATIONS` times: at every record it would take longer than a step."""
        run = self.run
        before = np.linalg.norm(training.before.own_routers.cpu().numpy(), axis=2)
        test = samples_of(run, run.trial_numbers, "test")
        between, due, accuracy = run.steps / (EVALUATIONS - 1), 0.0, np.full(run.trials, np.nan)
        for shot in training.snapshots():
            values = dict(shot.values)
            if values:  # the last one has them all
                accuracy = values["test_accuracy"]
            else:
                weights = training.after
                norms = np.linalg.norm(weights.own_routers.cpu().numpy(), axis=2).astype(float)
                norms[shot.diverged] = np.nan
                values = {"router_norm": norms, "norm_change": norms - before}
                if shot.step >= due:
                    due += between
                    accuracy = evaluate(weights, test, run.model, run.task).accuracy().cpu().numpy().astype(float)
                    values["test_accuracy"] = accuracy = np.where(shot.diverged, np.nan, accuracy)
            measured = {"values": values, "measures": {name: MEASURES[name] for name in values}}
            yield PruningSnapshot(**{**vars(shot), **measured}, run=run, accuracy=accuracy, live=self)


def train(present: Callable[[], Mapping[str, Any]], **values: Any) -> Iterator[PruningSnapshot]:
    """Yields the records of the run that the values describe.

    Args:
      present: returns the values of all knobs as they are now.
    """
    return LiveRun(run_of(values), record_every(values), lambda: choice_of(present())).records()


def more(now: Record) -> Iterator[PruningSnapshot] | None:
    """Returns the records that the view-only knobs still need; None for none."""
    record: PruningSnapshot = now.of()
    return record.live.further(record)


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
    shots = {shot.step: shot for shot in now.shots[ONLY] if shot.values}
    if not shots:
        raise InputError("there is nothing to save yet: the branches are still being pre-trained")
    dataset, record, choice = collect(shots.values()), now.of(), choice_of(now.values)
    if record.pruned is None:
        return dataset
    plain, after = record.pruned.plain, record.pruned.after(choice, record.results)
    names, nothing = list(plain), np.full(next(iter(plain.values())).shape, np.nan)
    axes = ("criterion", "rho", "trial")
    tuned = np.stack([after[name][1] if name in after else nothing for name in names])
    kept = np.stack([stay.cpu().numpy() for stay in record.pruned.kept.values()])
    made: dict[str, Any] = {
        "pruned_accuracy": (axes, np.stack(list(plain.values())), _about("test accuracy after pruning")),
        "tuned_accuracy": (axes, tuned, _about("test accuracy after fine-tuning what is left")),
        "kept": ((*axes, "expert"), kept, _about("whether the expert stays")),
    }
    shares = np.arange(record.pruned.half) / record.pruned.half
    dataset = dataset.assign(made).assign_coords(criterion=names, rho=shares)
    steps = min((steps for steps, _ in after.values()), default=0)
    return dataset.assign_attrs(code=code(now.values), tuning_steps=steps)


def _about(meaning: str) -> dict[str, str]:
    return {"units": "", "long_name": meaning}
