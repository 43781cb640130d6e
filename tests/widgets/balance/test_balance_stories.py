"""The numbers that the balance Lab's stories name are those of their own runs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot, final
from moe_lab.specialization import train_run
from moe_lab_widgets.labs.balance import KNOBS, runs
from moe_lab_widgets.labs.balance_stories import STORIES
from tests.helpers.effort import one_in

DEFAULTS: dict[str, Any] = {knob.name: knob.default for knob in KNOBS}
# For every story: (balancing, what is measured, its words in the sentence).
SAID: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Too much of a cure (λ = 1)": (("switch", "own", "81.5"), ("switch", "accuracy", "98.4")),
    "Nothing to cure (cubic experts, h₀ = 0)": (
        ("none", "accuracy", "100"), ("none", "worth", "4.3"), ("switch", "accuracy", "99.1"),
    ),
    "A shared expert (K_s = 1)": (("none", "worth", "3.0"), ("none", "accuracy", "94.9")),
    "Twice the experts (M = 16)": (
        ("none", "worth", "1.2"), ("none", "accuracy", "80.8"), ("importance", "accuracy", "99.4"),
        ("bias", "worth", "14.7"),
    ),
}  # fmt: skip
TOLERANCE = {"accuracy": 1.5, "own": 8.0, "worth": 0.7}
"""Float32 runs part ways on other machines."""


@functools.cache
def end(story: str, balancing: str) -> Snapshot:
    values = next(one.values for one in STORIES if one.name == story)
    run = runs({**DEFAULTS, **values})[balancing]
    assert run.trials == 4
    return final(train_run(run.replace(measure="last", record_every=10**6)))


def test_every_story_is_checked_and_says_these_words() -> None:
    assert list(SAID) == [story.name for story in STORIES]
    for story in STORIES:
        assert [words for _, _, words in SAID[story.name] if words not in story.what_to_see] == [], story.name


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(5, list(SAID)))
def test_the_medians_that_a_story_names_are_those_of_its_run(name: str) -> None:
    for balancing, what, words in SAID[name]:
        last = end(name, balancing)
        found = {
            "accuracy": 100 * np.median(last["test_accuracy"]),
            "own": 100 * np.median(last["agreement"]),
            "worth": np.median(np.exp(last["load_entropy"])),
        }[what]
        assert found == pytest.approx(float(words), abs=TOLERANCE[what]), (balancing, what)


@pytest.mark.slow
def test_a_z_loss_of_strength_1_diverges() -> None:
    assert end("Too much of a cure (λ = 1)", "z-loss").diverged.all()
