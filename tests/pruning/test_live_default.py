"""The live default's numbers, by which the Lab's stories and the lemmas stand or fall."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from moe_lab.pruning import FineTuned, PlantedStart, TokenMoE, TokenRun, TokenTask, fine_tune
from moe_lab.pruning.initialization import important_experts
from tests.pruning.oracle import separates


@pytest.fixture(scope="module")
def live() -> FineTuned:
    """Every default, on few test samples."""
    return fine_tune(TokenRun(model=TokenMoE(), task=TokenTask(), trials=5, test_samples=300, seed=202, device="cpu"))


def live_important(live: FineTuned) -> Tensor:
    run = live.run
    return torch.as_tensor(important_experts(run.start, 20, run.trial_numbers, run.seed))


def test_the_change_of_norm_keeps_the_accuracy(live):
    found = live.accuracies(["router-norm-change"], (0.3, 0.5, 0.9))
    assert found.min() >= 0.99


def test_token_counts_and_magnitude_mislead(live):
    """So this start is made; means over the trials."""
    importance = live.accuracies(["importance-score"], (0.9,)).mean()
    magnitude = live.accuracies(["router-magnitude"], (0.5,)).mean()
    assert importance <= 0.6 and magnitude <= 0.9


def test_important_experts_separate_by_the_change_of_norm(live):
    """And by magnitude they do not."""
    important, signs = live_important(live), live.after.signs
    assert important.sum(1).tolist() == [4] * 5
    assert separates(live.scores("router-norm-change"), important, signs).all()
    assert not separates(live.scores("router-magnitude"), important, signs).any()


def test_lemma_4_1_and_4_2_in_numbers(live):
    """Important: p = 1, Delta > (3/2) log l. The others: Delta of nothing, and p = 0."""
    important, change = live_important(live), live.scores("router-norm-change")
    assert change[important].min() > 1.5 * math.log(5)
    assert change[~important].abs().max() <= 0.1
    seen, half = live.evaluation, 10
    for sign, gates, group in ((1, seen.plus[:, :half], slice(0, half)), (-1, seen.minus[:, half:], slice(half, None))):
        mine = (seen.labels == sign)[:, None]
        shares = ((gates >= 0.2) & mine).sum(2) / mine.sum(2)
        assert (shares[important[:, group]] == 1).all() and (shares[~important[:, group]] == 0).all()


def test_the_live_default_in_token_choice():
    """Routers stay; here experts must say little of other things, for nobody drops any token."""
    run = TokenRun(
        model=TokenMoE(routing="token-choice", top=2),
        task=TokenTask(),
        start=PlantedStart(others_neurons=0.02),
        steps=200,
        trials=3,
        test_samples=300,
        seed=101,
        device="cpu",
    )
    one = fine_tune(run)
    assert one.accuracies(["router-norm-change"], (0.3, 0.5, 0.8)).min() >= 0.99
    important = torch.as_tensor(important_experts(run.start, 20, run.trial_numbers, 101))
    assert separates(one.scores("router-norm-change"), important, one.after.signs).all()


def test_fine_tuning_rescues_what_can_still_learn():
    """Pruned too early, half of the experts answer some samples only, and more steps teach them the rest.

    Those that token counts keep never receive the task's patterns: no number of steps helps them.
    """
    run = TokenRun(model=TokenMoE(), task=TokenTask(), trials=4, test_samples=200, seed=101, steps=30, device="cpu")
    one = fine_tune(run)
    bare, taught = (
        one.accuracies(["router-norm-change", "importance-score"], (0.5,), steps)[:, 0] for steps in (0, 60)
    )
    assert bare[0].mean() < 0.9 and taught[0].min() > 0.99
    assert taught[1].mean() < 0.6
