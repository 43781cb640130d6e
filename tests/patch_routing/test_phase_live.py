"""The live map: the numbers of `phase_map`, in an order that shows all of it early."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from moe_lab.core.interrupts import interrupted_when
from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.phase import phase_map
from moe_lab.patch_routing.phase_live import PhaseRecord, phase_records

pytestmark = pytest.mark.usefixtures("float64")

TASK = PatternTask(distractors=2, gap=1.2)
MODEL = SeparateMoE(learning_rate=10.0)
SMALL: dict[str, Any] = {"patches_per_expert": (2, 6), "samples": (40, 60), "test_samples": 100, "device": "cpu"}


def records(**changes: Any) -> list[PhaseRecord]:
    return list(phase_records(**{"task": TASK, "model": MODEL, "trials": 4, **SMALL, **changes}))


@pytest.mark.parametrize("model", [MODEL, JointMoE(experts=4, learning_rate=10.0)], ids=["separate", "joint"])
@pytest.mark.parametrize("task", [TASK, DigitTask(), DigitTask(noise=0.3)], ids=["patterns", "digits", "noisy digits"])
def test_the_full_map_is_that_of_phase_map(task: Any, model: Any) -> None:
    live = records(task=task, model=model, seed=3)[-1].dataset()
    whole = phase_map(task=task, model=model, trials=4, seed=3, **SMALL)
    for name in ("success", "test_accuracy", "coverage"):
        np.testing.assert_array_equal(live[name], whole[name], err_msg=name)
        assert live[name].dims == whole[name].dims
    for axis in ("patches_per_expert", "samples", "trial"):
        np.testing.assert_array_equal(live[axis], whole[axis])
    assert live.attrs["call"] == whole.attrs["call"]


@pytest.mark.parametrize("quick_look", [0, 3, 50])
def test_a_quick_look_changes_the_order_and_nothing_else(quick_look: int) -> None:
    expected, found = records()[-1], records(quick_look=quick_look)[-1]
    np.testing.assert_array_equal(found.test_accuracy, expected.test_accuracy)
    np.testing.assert_array_equal(found.coverage, expected.coverage)


def test_the_map_fills_from_nothing_column_by_column_twice() -> None:
    filled = records(quick_look=3)
    assert not filled[0].done.any() and filled[-1].done.all() and filled[-1].running == ()
    counts = np.array([record.counts for record in filled])
    assert (np.diff(counts, axis=0) >= 0).all(), "what has run stays"
    look = next(i for i, record in enumerate(filled) if (record.counts >= 3).all())
    assert (filled[look].counts == 3).all()
    columns = [record.running for record in filled[:look] if record.running]
    assert dict.fromkeys(columns) == dict.fromkeys([tuple((kept, n) for kept in (2, 6)) for n in (40, 60)])
    rest = dict.fromkeys(record.running for record in filled[look + 1 :] if record.running)
    assert list(rest) == list(dict.fromkeys(columns)), "the rest of a column at once, too"
    for record in filled:
        assert (np.isfinite(record.test_accuracy) == record.done).all()
        assert (np.isfinite(record.share) == (record.counts > 0)).all()


def test_records_do_not_change_afterwards() -> None:
    stream = phase_records(TASK, MODEL, trials=2, **SMALL)
    first = next(stream)
    list(stream)
    assert not first.done.any() and np.isnan(first.coverage).all()


def test_a_reader_can_stop_at_any_time() -> None:
    """At most 25 steps lie between two records; how long they take is the machine's affair."""
    taken = 0

    def asked_before_a_step() -> bool:
        nonlocal taken
        taken += 1
        return False

    stream = phase_records(TASK, MODEL, trials=20, **{**SMALL, "samples": (40, 300)})
    steps = []
    with interrupted_when(asked_before_a_step):
        for _ in islice(stream, 40):
            steps.append(taken)
        stream.close()  # type: ignore[attr-defined]
    assert 0 < max(later - earlier for earlier, later in pairwise(steps)) <= 25 and list(stream) == []


def test_a_diverged_training_is_a_failure_and_not_a_hole() -> None:
    done = np.array([[[True, True, True, True], [True, True, False, False]], [[True] * 4, [False] * 4]])
    accuracy = np.where(done, 0.97, np.nan)
    accuracy[0, 0, :2], accuracy[1, 0] = np.nan, [0.94, 0.95, 0.96, np.nan]
    record = PhaseRecord((1, 2), (40, 60), done, accuracy, np.where(np.isnan(accuracy), np.nan, 0.5))
    np.testing.assert_array_equal(record.share, [[0.5, 1], [0.5, np.nan]])
    np.testing.assert_array_equal(record.counts, [[4, 2], [4, 0]])
    np.testing.assert_array_equal(record.complete, [[True, False], [True, False]])
    success = record.dataset()["success"].values
    np.testing.assert_array_equal(success[0], [[0, 0, 1, 1], [1, 1, np.nan, np.nan]])
    np.testing.assert_array_equal(success[1], [[0, 1, 1, 0], [np.nan] * 4])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"patches_per_expert": (1, 17)}, r"patches_per_expert \(l\) must be at most patches \(n\): got l=17, n=16"),
        ({"patches_per_expert": ()}, r"axis patches_per_expert must have at least one value: got values=\[\]"),
        ({"samples": ()}, r"axis samples must have at least one value: got values=\[\]"),
        ({"samples": (41,)}, r"samples \(N\) must be a positive multiple of classes"),
        ({"quick_look": -1}, "quick_look must be at least 0: got quick_look=-1"),
        ({"trials": 0}, r"trials \(T\) must be at least 1"),
        ({"device": "gpu"}, "device must be 'auto', 'cpu'"),
        ({"model": JointMoE(experts=4, neurons=40), "batch_size": 3}, "batch_size"),
    ],
)
def test_wrong_values_are_refused_before_anything_runs(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        phase_records(**{"task": TASK, "model": MODEL, "trials": 4, **SMALL, **changes})
