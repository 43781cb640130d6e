"""The model-pruning Lab's picture is its record, and its stories' numbers are what their runs end with."""

from __future__ import annotations

import re

import numpy as np
import pytest

from moe_lab.drawing.marks import Curves, Stacks, Swarm
from moe_lab_hub.repair import prune_and_repair
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.labs import model_pruning as of
from moe_lab_widgets.labs.model_pruning_stories import STORIES
from tests.widgets.cases import MODEL_PRUNING
from tests.widgets.labs import Make, done, fixtures

make, ended = fixtures(MODEL_PRUNING)


def test_the_picture_is_what_was_recorded(make: Make) -> None:
    lab = done(make(trials=2, criterion="importance-score"))
    now, record = MarkRecord(lab.record), lab.record
    (curves,) = of.forgotten(now)
    for mark, measure, before in zip(curves, ("accuracy", "others"), ("whole", "others_whole"), strict=False):
        assert isinstance(mark, Curves)
        np.testing.assert_array_equal(mark.y[0], record[before])
        np.testing.assert_array_equal(mark.y[1:], record.curve(measure)[1])
    for layer, (stacks,) in enumerate(of.experts(now)):
        assert isinstance(stacks, Stacks)
        scores, stays = record["scores"][0, layer], record["stays"][0, layer] > 0
        np.testing.assert_array_equal(stacks.full.numpy() > 0, stays)
        order = np.argsort(scores, kind="stable")
        assert (np.diff((stacks.full + stacks.hollow).numpy()[order]) >= 0).all(), "higher scores, higher bars"
    swarms, ((saved,)) = of.choices(now)
    for place, swarm in enumerate(swarms):
        assert isinstance(swarm, Swarm) and (swarm.style == "model") == (of.CRITERIA[place] == "importance-score")
    np.testing.assert_array_equal(swarms[-1].values, record["by_chance"].ravel())
    assert saved.numbers.flatten().tolist() == [np.median(record["bytes"]), np.median(record["operations"])]


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_number_of_a_story_is_measured(story: Story) -> None:
    """To a tenth: which experts a token goes to is a discrete choice, which rounding can change."""
    first, *_, last = prune_and_repair(**story.values, record_every=100)
    parts = [first["accuracy"], last["accuracy"], first["by_chance"], first["others_whole"], last["others"]]
    parts += [*first["by_criterion"].T]
    found = [np.median(part if part.ndim == 1 else part.mean(1)) for part in parts]
    for said in re.findall(r"(\d+) %", story.what_to_see):
        assert min(abs(float(said) / 100 - one) for one in found) < 0.1, said
