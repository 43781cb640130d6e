"""The numbers that the pruning Lab's stories name are those of their own runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.labs.pruning import threshold
from moe_lab_widgets.labs.pruning_record import Outcome, PruningSnapshot, choice_of, outcome
from moe_lab_widgets.labs.pruning_stories import STORIES
from tests.helpers.effort import one_in
from tests.widgets.cases import PRUNING
from tests.widgets.pruning.test_pruning_record import frames

DEFAULTS = PRUNING.defaults
BY_NAME: dict[str, Story] = {story.name: story for story in STORIES}
# For every story: its words for the medians of the accuracy before pruning, after it, and after fine-tuning; None where
# it does not name them.
SAID: dict[str, tuple[str | None, str | None, str | None]] = {
    "Fine-tuning rescues under the true hinge": ("100 %", "58 %", "100 %"),
    "Pruned one too many": (None, None, None),
    "A random start, and the assumption fails": (None, None, None),
    "Pre-trained branches": (None, "100 %", None),
}
_RUNS: dict[str, tuple[PruningSnapshot, Outcome | None]] = {}


def _told(name: str) -> tuple[PruningSnapshot, Outcome | None]:
    """The last record of a story, and what comes out of it."""
    if name not in _RUNS:
        _RUNS[name] = _of(**BY_NAME[name].values)
    return _RUNS[name]


def _of(**values: Any) -> tuple[PruningSnapshot, Outcome | None]:
    """The last record of a run, and what comes out of it."""
    records, whole = frames(**values)
    return records[-1], outcome(records[-1], choice_of(whole))


def _number(said: str) -> float:
    return float(said.split()[0]) / 100


def test_every_story_is_checked() -> None:
    assert list(SAID) == list(BY_NAME)


@pytest.mark.parametrize("name", one_in(3, [name for name, said in SAID.items() if any(said)]))
def test_the_medians_that_a_story_names_are_those_of_its_run(name: str) -> None:
    """Float32 runs part ways on other machines, hence the tolerances."""
    record, found = _told(name)
    assert found is not None and record.run.trials == 8
    for said, values in zip(SAID[name], (found.whole, found.plain, found.tuned), strict=True):
        if said is not None:
            assert said in BY_NAME[name].what_to_see
            assert np.median(values) == pytest.approx(_number(said), abs=0.005 if said == "100 %" else 0.06)


def test_the_quiet_experts_are_the_sixteen_whose_routers_stay() -> None:
    record, found = _of(rho=0.8, seed=0)
    assert found is not None
    change = record["norm_change"]
    assert ((change > threshold(DEFAULTS)).sum(1) == 4).all() and round(threshold(DEFAULTS), 2) == 2.41
    assert np.sort(change[0])[-4:] == pytest.approx([3.8] * 4, abs=0.1)
    assert np.abs(np.sort(change, axis=1)[:, :16]).max() < 0.1
    assert found.memory == pytest.approx(0.2) == found.operations
    assert np.median(found.chance) == pytest.approx(0.54, abs=0.06)


def test_one_too_many_takes_the_last_carriers_and_fine_tuning_cannot_bring_them_back() -> None:
    record, _ = _told("Pruned one too many")
    values = {**DEFAULTS, **BY_NAME["Pruned one too many"].values}
    choice, pruned = choice_of(values), record.pruned
    assert pruned is not None
    trial = pruned.plain["neuron-magnitude"][:, 1]
    assert trial[3] > 0.99 and trial[4] == pytest.approx(0.48, abs=0.05)
    assert [side for side, _ in record.lost(choice, 1)] == [0, 1]
    assert record.lost(choice_of({**values, "rho": 0.3}), 1) == []
    assert pruned.after(choice, record.results)["neuron-magnitude"][1][4, 1] < 0.6


def test_tokens_choose_one_expert_of_each_class_and_routers_stay() -> None:
    record, found = _of(routing="token-choice", rho=0.8, seed=0)
    assert found is not None
    largest = np.sort(record["norm_change"], axis=1)
    assert np.median(largest[:, -2:]) == pytest.approx(4, abs=0.5) and largest[:, -3].max() < 1
    assert [found.memory, found.operations] == pytest.approx([0.24, 0.44], abs=0.02)
    assert all(record.carriers(trial).sum() == 2 for trial in range(8))


def test_the_random_start_leaves_a_class_without_a_carrier() -> None:
    record, found = _told("A random start, and the assumption fails")
    assert found is not None and record.pruned is not None
    without = [trial for trial in range(8) if not record.carriers(trial)[:10].any()]
    assert without == [0, 7]
    grown = (record["norm_change"] > threshold(DEFAULTS)).sum(1)
    assert grown.min() == 1 and grown.max() == 6
    assert found.whole[7] == pytest.approx(0.56, abs=0.05)
    assert record.pruned.plain["router-norm-change"][:7, 0].min() > 0.95
    assert record.pruned.plain["router-norm-change"][7, 0] < 0.95
    others = record.pruned.plain["router-norm-change"][:, [1, 2, 3, 4, 5, 6]]
    assert others.min() > 0.99, "100 % at every rho"


def test_pretrained_specialists_routers_grow_and_are_the_longest() -> None:
    record, _ = _told("Pre-trained branches")
    assert record.pruned is not None
    for name in ("router-norm-change", "router-magnitude"):
        assert np.median(record.pruned.plain[name], axis=1).min() > 0.99


def test_with_one_token_the_neurons_still_tell() -> None:
    record, found = _of(top=1, seed=0)
    assert found is None and record.pruned is not None
    assert not record["norm_change"].any()
    assert "router-norm-change" in record.pruned.undefined
    assert np.median(record.pruned.plain["neuron-magnitude-change"][8]) > 0.99
