"""What the landscape Lab's stories say is what their runs end with."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot
from moe_lab.recovery.landscape.run import LossRun
from moe_lab.recovery.landscape.training import descend_run
from moe_lab_widgets import LandscapeLab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.record import side_by_side
from moe_lab_widgets.labs import landscape as of
from moe_lab_widgets.labs.landscape_stories import STORIES
from tests.helpers.effort import one_in
from tests.widgets.labs import bare

DEFAULTS = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}
SAID: dict[str, tuple[Any, ...]] = {
    # for L4 and l2: (found, stuck, still falling), and the medians that the sentence names
    "ℓ₂ gets stuck": ((5, 0, 0), (0, 5, 0), "0.00022", "0.55"),
    "Small batches (B = 64)": ((5, 0, 0), (3, 1, 1), "0.0020", None),
    "Small batches, small steps (figure 4)": ((0, 1, 4), (5, 0, 0), "0.14", None),
    "Gates that are not orthogonal": ((5, 0, 0), (3, 2, 0), "0.00038", None),
}


def test_every_story_is_checked_and_names_its_seed() -> None:
    assert list(SAID) == [story.name for story in STORIES]
    assert all("seed" in story.values for story in STORIES)


@cache
def _snapshots(run: LossRun) -> list[Snapshot]:
    """Stories that differ in L4 alone have one descent of l2."""
    return list(descend_run(run))


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(6, SAID))
def test_the_numbers_that_a_story_names_are_those_of_its_run(name: str) -> None:
    story = next(story for story in STORIES if story.name == name)
    *counts, first, second = SAID[name]
    values = {**DEFAULTS, **story.values}
    configs = bare(LandscapeLab).configs(values)
    begun = {method: partial(lambda run: iter(_snapshots(run)), run) for method, run in configs.items()}
    *_, last = side_by_side(begun, values, values["steps"])
    assert last.trials == 5
    for method, count, said in zip(last.names, counts, (first, second), strict=True):
        (judged,) = (one for one in of.errors_of(MarkRecord(last)) if one.name == of.NAMES[method])
        assert judged.known
        assert tuple(int(which.sum()) for which in (judged.found, judged.stuck, judged.falling)) == count, method
        if said is not None:
            assert said in story.what_to_see
            error = float(np.median(last.last("regressor_error", method)))
            assert error == pytest.approx(float(said), rel=0.06, abs=0.005 if error > 0.05 else 5e-6)
