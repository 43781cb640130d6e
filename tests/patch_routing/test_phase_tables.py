"""The map for a live picture: the numbers of `phase_map`, in an order that shows all of it early."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.grid import Table
from moe_lab.core.interrupts import interrupted_when
from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.phase import phase_map, phase_tables

pytestmark = pytest.mark.usefixtures("float64")

TASK = PatternTask(distractors=2, gap=1.2)
MODEL = SeparateMoE(learning_rate=10.0)
SMALL: dict[str, Any] = {"patches_per_expert": (2, 6), "samples": (40, 60), "test_samples": 100, "device": "cpu"}


def tables(**changes: Any) -> list[Table]:
    return list(phase_tables(**{"task": TASK, "model": MODEL, "trials": 4, **SMALL, **changes}))


@pytest.mark.parametrize("model", [MODEL, JointMoE(experts=4, learning_rate=10.0)], ids=["separate", "joint"])
@pytest.mark.parametrize("task", [TASK, DigitTask(), DigitTask(noise=0.3)], ids=["patterns", "digits", "noisy digits"])
def test_the_full_map_is_that_of_phase_map(task: Any, model: Any) -> None:
    live = tables(task=task, model=model, seed=3)[-1].dataset()
    xr.testing.assert_identical(live, phase_map(task=task, model=model, trials=4, seed=3, **SMALL))


@pytest.mark.parametrize("quick_look", [0, 3, 50])
def test_a_quick_look_changes_the_order_and_nothing_else(quick_look: int) -> None:
    expected, found = tables()[-1], tables(quick_look=quick_look)[-1]
    for name in ("success", "test_accuracy", "coverage"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_the_map_fills_from_nothing_column_by_column_twice() -> None:
    filled = tables(quick_look=3)
    assert not filled[0]["done"].any() and filled[-1].finished and filled[-1].running == []
    counts = np.array([table["done"].sum(-1) for table in filled])
    assert (np.diff(counts, axis=0) >= 0).all(), "what has run stays"
    look = next(place for place, count in enumerate(counts) if (count >= 3).all())
    assert (counts[look] == 3).all() and not filled[look].done.any()
    columns = [columns_of(table) for table in filled[:look] if table.running]
    assert list(dict.fromkeys(columns)) == [(40, 40), (60, 60)], "both l of an N at once"
    rest = [columns_of(table) for table in filled[look + 1 :] if table.running]
    assert dict.fromkeys(rest) == dict.fromkeys(columns), "the rest of a column at once, too"
    for table in filled:
        assert (np.isfinite(table["test_accuracy"]) == table["done"]).all()
        assert table["active"].sum() == len(table.running)


def columns_of(table: Table) -> tuple[int, ...]:
    return tuple(point["samples"] for point in table.running)


def test_tables_do_not_change_afterwards() -> None:
    stream = phase_tables(TASK, MODEL, trials=2, **SMALL)
    first = next(stream)
    list(stream)
    assert not first["done"].any() and np.isnan(first["coverage"]).all()


def test_a_reader_can_stop_at_any_time() -> None:
    """At most 25 steps lie between two records; how long they take is the machine's affair."""
    taken = 0

    def asked_before_a_step() -> bool:
        nonlocal taken
        taken += 1
        return False

    stream = phase_tables(TASK, MODEL, trials=20, **{**SMALL, "samples": (40, 300)})
    steps = []
    with interrupted_when(asked_before_a_step):
        for _ in islice(stream, 40):
            steps.append(taken)
        stream.close()  # type: ignore[attr-defined]
    assert 0 < max(later - earlier for earlier, later in pairwise(steps)) <= 25 and list(stream) == []


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
        phase_tables(**{"task": TASK, "model": MODEL, "trials": 4, **SMALL, **changes})
