"""The numbers that the specialisation Lab's stories name are those of their own runs."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot, final
from moe_lab.specialization import ClusterRun, train_run
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.record import Record, side_by_side
from moe_lab_widgets.labs.specialization import KNOBS, collapsed, runs
from moe_lab_widgets.labs.specialization_stories import STORIES
from tests.helpers.effort import one_in

DEFAULTS: dict[str, Any] = {knob.name: knob.default for knob in KNOBS}
# For every story: its words for the medians of (accuracy, entropy) under study, and of the same beside it.
SAID = {
    "Twice the clusters (K = 8, M = 16)": (None, "0.01", "95.4 %", "1.30"),
    "Drowned in noise (σ_p = 4)": ("88.5 %", "0.56", "82.2 %", "1.18"),
    "Late collapse (σ_p = 2, γ up to 3, 800 steps)": (None, None, None, None),
    "A router without noise (r = 0)": ("100 %", "0.00", None, None),
}


def _runs(name: str) -> tuple[ClusterRun, ClusterRun]:
    return tuple(runs({**DEFAULTS, **next(story.values for story in STORIES if story.name == name)}).values())


@functools.cache
def _end(run: ClusterRun) -> Snapshot:
    """The last record. Those on the way do not change it, and several stories compare with the same run."""
    return final(train_run(run))


def _bare(name: str) -> list[ClusterRun]:
    """The two runs of a story without records on the way."""
    return [run.replace(measure="last", record_every=10**6) for run in _runs(name)]


def _frames(name: str) -> list[Record]:
    runs = _runs(name)
    begun = {run.model.activation: functools.partial(train_run, run) for run in runs}
    return list(side_by_side(begun, {}, runs[0].last_step))


def test_every_story_is_checked() -> None:
    assert list(SAID) == [story.name for story in STORIES]


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(6, [name for name, said in SAID.items() if any(said)]))
def test_the_medians_that_a_story_names_are_those_of_its_run(name: str) -> None:
    """Float32 runs part ways on other machines, hence the tolerances."""
    sentence = next(story.what_to_see for story in STORIES if story.name == name)
    assert all(run.trials == 6 for run in _bare(name))
    measures = [(run, measure) for run in _bare(name) for measure in ("accuracy", "entropy")]
    for said, (run, measure) in zip(SAID[name], measures, strict=True):
        if said is not None:
            assert said in sentence
            accuracy = measure == "accuracy"
            middle = float(np.median(_end(run)["test_accuracy" if accuracy else "dispatch_entropy"]))
            told = float(said.split()[0]) / (100 if accuracy else 1)
            assert middle == pytest.approx(told, abs=0.015 if accuracy else 0.15), (said, middle)


@pytest.mark.slow
def test_trials_that_have_divided_the_clusters_lose_them_again_in_the_late_collapse() -> None:
    frames = _frames("Late collapse (σ_p = 2, γ up to 3, 800 steps)")
    at = {frame.step: frame for frame in frames}
    assert np.median(at[150].of()["test_accuracy"]) > 0.99 and np.median(at[150].of()["dispatch_entropy"]) < 0.05
    assert np.median(at[300].of()["test_accuracy"]) > 0.99, "at step 300 it is still so"
    assert collapsed(MarkRecord(frames[-1]), frames[-1].names[0]).sum() >= 3
    assert not collapsed(MarkRecord(frames[-1]), frames[-1].names[1]).any()
    own = np.array([frame.of()["test_accuracy"][0] for frame in frames if frame.step >= 300])
    assert max(before - after for before, after in pairwise(own)) > 0.1, "trial 1 falls all at once"


@pytest.mark.slow
def test_with_as_many_experts_as_clusters_half_of_the_trials_find_a_cluster_each() -> None:
    run = next(iter(runs({**DEFAULTS, "experts": 4}).values()))
    entropy = _end(run)["dispatch_entropy"]
    assert 1 <= (entropy < 0.05).sum() <= 5, "some do and some do not"
