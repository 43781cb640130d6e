"""Experts that are trained apart, and p with the gate of step 0."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.pruning import FineTuned, PlantedStart, RandomStart, TokenMoE, TokenRun, TokenTask, fine_tune, theory

SMALL = TokenTask(patterns=60, tokens=20)


def tuned_with(model: TokenMoE, task: TokenTask = SMALL, **settings) -> FineTuned:
    given = {"trials": 2, "steps": 30, "batch": 20, "test_samples": 100, "precision": "float64"} | settings
    return fine_tune(TokenRun(model=model, task=task, **given))


@pytest.mark.parametrize(
    ("criterion", "share"), [("router-norm-change", 0.75), ("random", 0.25), ("router-magnitude", 0.75)]
)
def test_experts_that_choose_are_trained_apart(criterion: str, share: float) -> None:
    """Each expert's weights after fine-tuning are the same whether the others were pruned or not."""
    tuned = tuned_with(TokenMoE(experts=8, top=3), start=PlantedStart(favourites=4))
    kept = tuned.kept(criterion, share)
    gap = theory.decoupling(tuned, kept, 25)
    assert gap.shape == (2,) and float(gap.max()) < 1e-13
    later = tuned.tuned(kept, 25)
    moved = (later.neurons - tuned.pruned(kept).neurons).abs().flatten(1).amax(1)
    assert float(moved.min()) > 1e-3  # it did train


@pytest.mark.parametrize(
    "model",
    [TokenMoE(experts=8, top=3, routing="token-choice"), TokenMoE(experts=8, top=3, loss="hinge")],
    ids=["token-choice", "hinge"],
)
def test_experts_that_share_something_are_not(model: TokenMoE) -> None:
    tuned = tuned_with(model, start=PlantedStart(favourites=4, others_neurons=0.02), steps=60)
    kept = tuned.kept("random", 0.5)
    assert float(theory.decoupling(tuned, kept, 40).min()) > 1e-3


def test_nothing_pruned_is_no_difference() -> None:
    tuned = tuned_with(TokenMoE(experts=8, top=3, routing="token-choice"), start=RandomStart())
    kept = torch.ones(2, 8, dtype=torch.bool)
    assert float(theory.decoupling(tuned, kept, 10).max()) == 0


def test_one_fine_tuning_serves_every_pruning() -> None:
    """So says `FineTuned.accuracy`, which fine-tunes the whole layer once: the same as fine-tuning each pruned one."""
    tuned = tuned_with(TokenMoE(experts=8, top=3), start=PlantedStart(favourites=4, others_norm=2.0), steps=10)
    for criterion in ("random", "router-magnitude"):
        kept = tuned.kept(criterion, 0.5)
        apart = tuned.evaluate(tuned.tuned(kept, 15)).accuracy()
        np.testing.assert_array_equal(tuned.accuracy(kept, 15).numpy(), apart.numpy())


def test_p_as_printed_cannot_grow() -> None:
    """With the gate of step 0 an expert that learned everything keeps its old p."""
    model = TokenMoE(router_learning_rate=0.01)
    tuned = tuned_with(model, TokenTask(), start=RandomStart(), steps=300, batch=100, first_trial=1, trials=1)
    facts, printed = theory.evidence(tuned), theory.printed_proficiency(tuned)
    learned = facts.after["proficiency"] == 1
    assert learned.sum() >= 4 and printed.shape == (20,)
    assert (printed <= facts.before["proficiency"] + 1e-12).all()
    assert printed[learned].min() == 0
    np.testing.assert_allclose(printed[learned], facts.before["proficiency"][learned])
