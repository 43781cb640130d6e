"""What the deep pruning Lab's stories say of seed 0, against the runs that they describe. Takes two minutes."""

from __future__ import annotations

import functools

import pytest
import xarray as xr

from moe_lab.vision.deep import PruningTable, fine_tune, pretrained
from moe_lab_widgets.labs import deep_prune as settings
from moe_lab_widgets.labs.deep_prune_stories import STORIES
from tests.helpers.effort import only_thorough

pytestmark = only_thorough("takes minutes")
ROUNDED = 0.02  # as the stories say: one of 500 digits, and rounding that differs between machines


@functools.cache
def accuracy(classes: int = 10) -> xr.DataArray:
    """Accuracy (criterion, mode, pruned) with nothing, half and six of eight pruned, with the Lab's own values."""
    plan = settings.plan_of({knob.name: knob.default for knob in settings.KNOBS} | {"seed": 0, "classes": classes})
    before, run = pretrained(plan.before), plan.tuning
    table = PruningTable(before, fine_tune(before, run), run.test, run.validation, pruned=(0, 4, 6), seed=run.seed)
    return table.complete()["accuracy"]


def left(pruned: int, mode: str = "silent", criterion: str = "router-norm-change") -> float:
    return float(accuracy().sel(pruned=pruned, mode=mode, criterion=criterion))


def says(name: str, words: str) -> None:
    assert words in next(story.what_to_see for story in STORIES if story.name == name)


def test_half_of_the_experts_cost_two_points_and_more_rerouted() -> None:
    says("Half of the experts go", "cost 2 points here, 1 to 9 over ten seeds")
    assert left(0) - left(4) == pytest.approx(0.02, abs=ROUNDED)
    says("The same half, rerouted", "Accuracy falls further than silently")
    assert left(4, "rerouted") < left(4)


def test_six_of_eight_against_chance() -> None:
    says("Against chance", "by 1 to 5 points")
    assert 0.01 - ROUNDED <= left(6) - left(6, criterion="random") <= 0.05 + ROUNDED
    says("Random choice, rerouted", "10 to 19 points are lost by norm change, and more at random")
    assert 0.10 - ROUNDED <= left(0) - left(6, "rerouted") <= 0.19 + ROUNDED
    assert left(6, "rerouted", "random") < left(6, "rerouted")


def test_the_norm_is_ahead_and_two_digits_cannot_tell() -> None:
    says("Not the upper bound", "the router's norm is ahead of its change")
    assert left(4, criterion="router-magnitude") > left(4)
    says("Two digits cannot tell", "every criterion is still at 99 %")
    assert float(accuracy(2).sel(pruned=6, mode="silent").min()) > 0.99 - ROUNDED
