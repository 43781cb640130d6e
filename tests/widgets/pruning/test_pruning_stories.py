"""The numbers that the pruning Lab's stories name are those of their own runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.labs import pruning_seen as seen
from moe_lab_widgets.labs.pruning_record import OFFERED
from moe_lab_widgets.labs.pruning_seen import Outcome
from moe_lab_widgets.labs.pruning_stories import STORIES
from tests.helpers.effort import one_in
from tests.widgets.pruning.test_pruning_record import ended

BY_NAME: dict[str, Story] = {story.name: story for story in STORIES}
# For every story: its words for the medians of the accuracy before pruning, after it, and after fine-tuning; None where
# it does not name them.
SAID: dict[str, tuple[str | None, str | None, str | None]] = {
    "Fine-tuning rescues under the true hinge": ("100 %", "58 %", "100 %"),
    "Pruned one too many": (None, None, None),
    "A random start, and the assumption fails": (None, None, None),
    "Pre-trained branches": (None, "100 %", None),
}
_RUNS: dict[str, tuple[MarkRecord, Outcome]] = {}
THRESHOLD = 1.5 * np.log(5)


def _told(name: str) -> tuple[MarkRecord, Outcome]:
    """The last record of a story, and what comes out of it."""
    if name not in _RUNS:
        _RUNS[name] = _of(**BY_NAME[name].values)
    return _RUNS[name]


def _of(**values: Any) -> tuple[MarkRecord, Outcome]:
    """The last record of a run, and what comes out of it."""
    now = MarkRecord(ended(**values))
    return now, seen.outcome(now)


def _plain(now: MarkRecord, criterion: str) -> np.ndarray:
    """Accuracies (trial, rho) after pruning."""
    return np.asarray(now.last("pruned_accuracy")[:, list(OFFERED).index(criterion)])


def _seen(now: MarkRecord, **view: Any) -> MarkRecord:
    return MarkRecord(now.record.seen_with(view))


def _number(said: str) -> float:
    return float(said.split()[0]) / 100


def test_every_story_is_checked() -> None:
    assert list(SAID) == list(BY_NAME)


@pytest.mark.parametrize("name", one_in(3, [name for name, said in SAID.items() if any(said)]))
def test_the_medians_that_a_story_names_are_those_of_its_run(name: str) -> None:
    """Float32 runs part ways on other machines, hence the tolerances."""
    record, found = _told(name)
    assert record.record.trials == 8
    for said, values in zip(SAID[name], (found.whole, found.plain, found.tuned), strict=True):
        if said is not None:
            assert said in BY_NAME[name].what_to_see
            assert np.median(values) == pytest.approx(_number(said), abs=0.005 if said == "100 %" else 0.06)


def test_the_quiet_experts_are_the_sixteen_whose_routers_stay() -> None:
    record, found = _of(rho=0.8, seed=0)
    change = np.asarray(record.last("norm_change"))
    assert ((change > THRESHOLD).sum(1) == 4).all() and round(THRESHOLD, 2) == 2.41
    assert np.sort(change[0])[-4:] == pytest.approx([3.8] * 4, abs=0.1)
    assert np.abs(np.sort(change, axis=1)[:, :16]).max() < 0.1
    assert float(found.memory) == pytest.approx(0.2) == float(found.operations)
    assert np.median(found.chance) == pytest.approx(0.54, abs=0.06)


def test_one_too_many_takes_the_last_carriers_and_fine_tuning_cannot_bring_them_back() -> None:
    now, found = _told("Pruned one too many")
    trial = _plain(now, "neuron-magnitude")[1]
    assert trial[3] > 0.99 and trial[4] == pytest.approx(0.48, abs=0.05)
    lost = seen.lost(now)[1]
    assert lost[:10].any() and lost[10:].any()
    assert not seen.lost(_seen(now, rho=0.3))[1].any()
    assert found.tuned[1] < 0.6


def test_tokens_choose_one_expert_of_each_class_and_routers_stay() -> None:
    record, found = _of(routing="token-choice", rho=0.8, seed=0)
    largest = np.sort(np.asarray(record.last("norm_change")), axis=1)
    assert np.median(largest[:, -2:]) == pytest.approx(4, abs=0.5) and largest[:, -3].max() < 1
    assert [float(found.memory), float(found.operations)] == pytest.approx([0.24, 0.44], abs=0.02)
    assert (seen.carriers(record).sum(1) == 2).all()


def test_the_random_start_leaves_a_class_without_a_carrier() -> None:
    record, found = _told("A random start, and the assumption fails")
    without = (~seen.carriers(record)[:, :10].any(1)).nonzero()[:, 0].tolist()
    assert without == [0, 7]
    grown = (np.asarray(record.last("norm_change")) > THRESHOLD).sum(1)
    assert grown.min() == 1 and grown.max() == 6
    assert found.whole[7] == pytest.approx(0.56, abs=0.05)
    by_change = _plain(record, "router-norm-change")
    assert by_change[:7, 0].min() > 0.95 and by_change[7, 0] < 0.95
    assert by_change[1:7].min() > 0.99, "100 % at every rho"


def test_pretrained_specialists_routers_grow_and_are_the_longest() -> None:
    record, _ = _told("Pre-trained branches")
    for name in ("router-norm-change", "router-magnitude"):
        assert np.median(_plain(record, name), axis=0).min() > 0.99


def test_with_one_token_the_neurons_still_tell() -> None:
    record, found = _of(top=1, seed=0)
    assert seen.is_undefined(record) and found.plain.isnan().all()
    assert not record.last("norm_change").any()
    assert np.median(_plain(record, "neuron-magnitude-change")[:, 8]) > 0.99
