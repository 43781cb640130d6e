"""`Learner` and `Training` on a run whose numbers are known: counting, stops, divergence, groups, shapes of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core import memory
from moe_lab.core.config import Config, RunConfig
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.interrupts import Interrupted, interrupted_when
from moe_lab.core.memory import Need
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.training import Learner, Training, groups_of, samples_of
from tests.second_device import second_device

MEASURES = {
    "train_loss": Measure(),
    "total": Measure(("place",), "", "a sum of all inputs"),
    "measured_whole": Measure(),
}


class Adder(Config):
    """The model of a run that adds up its inputs."""


class Numbers(Config):
    """Trial i gets the inputs i, i + 1, i + 2, ... one after another."""

    paper: ClassVar[str] = "none"

    def sample(self, samples: int, **how: Any) -> tuple[int, dict[str, Any]]:
        return samples, how


class Run(RunConfig):
    """A run of `Counter`."""

    model: Adder = Adder()
    task: Numbers = Numbers()
    steps: int = 10
    samples: int = 7
    test_samples: int = 3
    measure: Literal["every", "last"] = "every"

    @property
    def last_step(self) -> int:
        return self.steps

    @property
    def memory(self) -> Need:
        return Need(per_trial=100)


@dataclass(frozen=True)
class Fate:
    """When trials stop by themselves, from when their loss is infinite, and at which step the weights break unseen."""

    stops: dict[int, int]
    lost: dict[int, int]
    breaks: dict[int, int]


CALM = Fate({}, {}, {})


class Counter(Learner):
    """Adds its inputs up; the loss is the number of the step. Every third step has a second input of another shape."""

    def __init__(self, trials: Sequence[int], fate: Fate = CALM, device: str = "cpu") -> None:
        super().__init__(trials, torch.zeros((), dtype=torch.float64, device=device))
        self.total = torch.zeros(len(trials), 2, dtype=torch.float64, device=device)
        self.taken = torch.zeros(len(trials), dtype=torch.float64, device=device)
        self.given, self.fate, self.device = 0, fate, device

        def at(steps: dict[int, int]) -> Tensor:
            return torch.tensor([steps.get(trial, torch.inf) for trial in trials], dtype=torch.float64).to(device)

        self.stops, self.lost, self.breaks = at(fate.stops), at(fate.lost), at(fate.breaks)

    @property
    def changed(self) -> tuple[Tensor, ...]:
        return self.total, self.taken

    def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
        for _ in range(steps):
            numbers = torch.tensor(self.trials, dtype=torch.float64)[:, None] + self.given
            self.given += 1
            ones = torch.ones(1, 2, dtype=torch.float64)
            yield tuple(part.to(self.device) for part in ([numbers] if self.given % 3 else [numbers, ones]))

    def step(self, *inputs: Tensor) -> None:
        moves = self.active & (self.taken != self.stops)
        self.total += torch.where(moves[:, None], sum(inputs), 0)
        self.total.masked_fill_((self.taken == self.breaks)[:, None], torch.nan)
        self.loss.copy_(torch.where(self.taken >= self.lost, torch.inf, torch.where(moves, self.taken, self.loss)))
        self.taken += 1
        self.active.copy_(moves)

    def measure(self, whole: bool) -> dict[str, Tensor]:
        return {
            "train_loss": self.loss,
            "total": self.total,
            "measured_whole": self.loss.new_full((len(self.loss),), whole),
        }


def snapshots(run: Run, fate: Fate = CALM, size: int = 2, needed: Sequence[str] = ("train_loss",)) -> list[Snapshot]:
    class Counting(Training[Counter]):
        must_be_finite = needed

    groups = groups_of(run, size)
    return list(
        Counting(run, MEASURES, (Counter(trials, fate, run.device) for trials in groups), stops="as told").snapshots()
    )


def run_of(**changes: Any) -> Run:
    return Run(**{"trials": 3, "record_every": 4, "precision": "float64", "device": "cpu", **changes})


def test_steps_are_counted_recorded_and_measured() -> None:
    found = snapshots(run_of(first_trial=5))
    assert [one.step for one in found] == [0, 4, 8, 10]
    for one in found:
        assert one.steps.tolist() == [one.step] * 3 and one.finished.tolist() == [one.step == 10] * 3
        inputs = [sum(trial + step for step in range(one.step)) + one.step // 3 for trial in (5, 6, 7)]
        assert one["total"].tolist() == [[value, value] for value in inputs]
        assert one["measured_whole"].tolist() == [one.step in (0, 10)] * 3
        assert one.origin["stops"] == "as told" and one.origin["device"] == "cpu"
    assert [one["train_loss"][0] for one in found] == [0, 3, 7, 9]


def test_only_the_last_snapshot_is_measured_where_that_is_asked_for() -> None:
    found = snapshots(run_of(measure="last"))
    assert [bool(one.values) for one in found] == [False, False, False, True]
    np.testing.assert_array_equal(found[-1]["total"], snapshots(run_of())[-1]["total"])


class Rarely(Run):
    """Evaluated at every second Snapshot."""

    measure_every: int = 2


class Told(Counter):
    """Tells at every Snapshot how many steps there were since the last, and always what its trials are."""

    def __init__(self, trials: Sequence[int]) -> None:
        super().__init__(trials)
        self.constants["trial"] = torch.tensor(trials)
        self.before = self.steps.clone()

    def online(self) -> dict[str, Tensor]:
        since, self.before = self.steps - self.before, self.steps.clone()
        return {"since": since}


@pytest.mark.parametrize(
    ("run", "evaluated"), [(run_of(), 1), (Rarely(trials=3, record_every=4, precision="float64", device="cpu"), 2)]
)
def test_what_steps_have_found_is_in_every_snapshot_and_evaluations_in_some(run: Run, evaluated: int) -> None:
    measures = {**MEASURES, "since": Measure(), "trial": Measure(constant=True)}
    made = Training(run, measures, (Told(trials) for trials in groups_of(run, 2)))
    found = list(made.snapshots())
    assert [one["since"].tolist() for one in found] == [[steps] * 3 for steps in (0, 4, 4, 2)]
    assert all(one["trial"].tolist() == [0, 1, 2] for one in found)
    expected = [place % evaluated == 0 or place == 3 for place in range(4)]
    assert ["total" in one.values for one in found] == expected


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("there", [False, True])
def test_groups_and_the_form_for_accelerators_do_not_show(size: int, there: bool) -> None:
    fate = Fate(stops={1: 5}, lost={2: 6}, breaks={})
    wanted = snapshots(run_of(), fate)
    if there:
        with as_on_accelerator():
            found = snapshots(run_of(), fate)
    else:
        found = snapshots(run_of(), fate, size)
    for one, other in zip(found, wanted, strict=True):
        for name in MEASURES:
            np.testing.assert_array_equal(one[name], other[name])
        assert one.steps.tolist() == other.steps.tolist() and one.diverged.tolist() == other.diverged.tolist()


def test_a_trial_that_stops_stays_as_it_is_and_is_counted_no_more() -> None:
    found = snapshots(run_of(), Fate(stops={1: 5}, lost={}, breaks={}))
    whole = snapshots(run_of())
    assert [one.steps.tolist() for one in found] == [[0, 0, 0], [4, 4, 4], [8, 5, 8], [10, 5, 10]]
    assert [one.finished.tolist()[1] for one in found] == [False, False, True, True]
    assert found[-1]["total"][1].tolist() == [sum(1 + step for step in range(5)) + 1] * 2
    np.testing.assert_array_equal(found[-1]["total"][[0, 2]], whole[-1]["total"][[0, 2]])


def test_a_run_ends_when_all_its_trials_have_stopped() -> None:
    found = snapshots(run_of(), Fate(stops={0: 2, 1: 3, 2: 1}, lost={}, breaks={}))
    assert [one.step for one in found] == [0, 3] and found[-1].steps.tolist() == [2, 3, 1]
    assert found[-1].finished.all() and not found[-1].diverged.any() and found[-1]["measured_whole"].all()


def test_a_lost_trial_is_nan_and_the_others_go_on() -> None:
    found, whole = snapshots(run_of(), Fate(stops={}, lost={2: 7}, breaks={})), snapshots(run_of())
    assert [one.diverged.tolist() for one in found] == [*[[False] * 3] * 2, *[[False, False, True]] * 2]
    assert found[2].steps.tolist() == [8, 8, 8] and found[3].steps.tolist() == [10, 10, 8]
    assert np.isnan(found[2]["total"][2]).all()
    np.testing.assert_array_equal(found[-1]["total"][:2], whole[-1]["total"][:2])


def test_a_lost_trial_is_seen_where_nothing_is_measured() -> None:
    found = snapshots(run_of(measure="last"), Fate(stops={}, lost={0: 3, 1: 2, 2: 3}, breaks={}))
    assert [one.step for one in found] == [0, 4], "a run of lost trials need not go on"
    assert found[-1].diverged.all() and found[-1].finished.all() and np.isnan(found[-1]["total"]).all()


def test_a_measure_that_must_be_finite_ends_a_trial() -> None:
    """The weights broke in a step whose loss, computed before, was sound."""
    broken = Fate(stops={}, lost={}, breaks={0: 3})
    found = snapshots(run_of(), broken, needed=("total",))
    assert found[1].diverged.tolist() == found[1].finished.tolist() == [True, False, False]
    assert found[-1].steps.tolist() == [4, 10, 10]
    assert not snapshots(run_of(), broken)[-1].diverged.any(), "the loss is sound"


def test_a_captured_step_repeats_all_that_it_changes() -> None:
    fate = Fate(stops={1: 5}, lost={2: 6}, breaks={})
    wanted = snapshots(run_of(), fate)
    with second_device() as device:
        found = snapshots(run_of(device=device.name), fate)
        captures = device.captures
    assert captures == 1, "for inputs of the first shapes; the others run without a graph"
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one["total"], other["total"])
        assert one.steps.tolist() == other.steps.tolist() and one.finished.tolist() == other.finished.tolist()


def test_trials_are_made_and_trained_on_one_thread() -> None:
    """The consumer keeps its own number."""
    seen: list[int] = []

    class Noting(Counter):
        def __init__(self, trials: Sequence[int]) -> None:
            seen.append(torch.get_num_threads())
            super().__init__(trials)

        def step(self, *inputs: Tensor) -> None:
            seen.append(torch.get_num_threads())
            super().step(*inputs)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in Training(run_of(trials=1), MEASURES, (Noting([0]) for _ in range(1))).snapshots():
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1] * 11


def test_inputs_are_asked_for_as_many_steps_as_are_due() -> None:
    asked: list[int] = []

    class Asked(Counter):
        def inputs(self, steps: int) -> Iterator[tuple[Tensor, ...]]:
            asked.append(steps)
            return super().inputs(steps)

    run = run_of(trials=1)
    assert [one.step for one in Training(run, MEASURES, [Asked([0])]).snapshots()] == [0, 4, 8, 10]
    assert asked == [4, 4, 2]


def test_a_run_that_nobody_wants_ends_between_two_steps() -> None:
    learner, left = Counter([0]), iter([False, False, True])
    with interrupted_when(lambda: next(left)), pytest.raises(Interrupted):
        learner.advance(9)
    assert learner.steps.tolist() == [2]


def test_the_loss_is_the_measure_of_a_learner_that_has_no_other() -> None:
    assert list(Learner.measure(Counter([0]), True)) == ["train_loss"]


def test_groups_hold_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(trials=5, first_trial=2)
    assert [list(group) for group in groups_of(run, 2)] == [[2, 3], [4, 5], [6]]
    assert [len(group) for group in groups_of(run, 0)] == [1] * 5, "at least one"
    with as_on_accelerator():
        assert [len(group) for group in groups_of(run, 1)] == [5]
        monkeypatch.setattr(memory, "free_bytes", lambda device: 300 / memory.SHARE)
        assert [len(group) for group in groups_of(run, 1)] == [3, 2]


def test_samples_are_drawn_as_many_as_the_split_has_on_the_runs_device() -> None:
    for split, count in (("train", 7), ("test", 3)):
        samples, how = samples_of(run_of(seed=9), [4, 5], split)
        wanted = {"trials": [4, 5], "seed": 9, "split": split, "device": torch.device("cpu"), "dtype": torch.float64}
        assert (samples, how) == (count, wanted)
