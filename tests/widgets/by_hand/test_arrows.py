"""The terms of the bench are the library's loss, and no two rows cost less than the least one."""

from __future__ import annotations

import pytest
import torch

from moe_lab.recovery.landscape.losses import Weights, l4_population
from moe_lab_widgets import ArrowBench
from moe_lab_widgets.by_hand.arrows import GOALS, least, rows_at, terms
from moe_lab_widgets.engine.goal import Goal

REGRESSORS = torch.eye(3, dtype=torch.float64)[None, :2]
WEIGHTS = Weights(mu=0.05, penalty=1.5, ridge=0.7)


def test_the_terms_add_up_to_the_loss_of_the_library() -> None:
    angles = torch.tensor([[20.0, 75.0], [0.0, 90.0], [130.0, -40.0]], dtype=torch.float64)
    rows = rows_at(angles, torch.tensor([[1.2, 0.7], [1, 1], [0.3, 2.0]], dtype=torch.float64))
    outside = torch.cat((rows, torch.zeros(3, 2, 1, dtype=torch.float64)), -1)
    loss, _ = l4_population(outside, REGRESSORS.expand(3, -1, -1), torch.full((3, 2), 0.5).double(), WEIGHTS)
    torch.testing.assert_close(terms(rows, WEIGHTS).sum(-1), loss)


@pytest.mark.parametrize("ridge", [0.1, 0.7, 2.0, 3.5])
def test_no_two_rows_cost_less_than_the_least_loss(ridge: float) -> None:
    weights = WEIGHTS._replace(ridge=ridge)
    angles, lengths = torch.arange(0.0, 180, 15), torch.linspace(0, 2, 41)
    grid = torch.cartesian_prod(angles, lengths, angles, lengths).double()
    found = terms(rows_at(grid[:, ::2], grid[:, 1::2]), weights).sum(-1)
    lowest, length = least(weights)
    assert lowest - 1e-9 <= float(found.min()) <= lowest + 0.01
    assert grid[found.argmin(), 1::2].tolist() == pytest.approx([length] * 2, abs=0.05)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.asks)
def test_a_caption_says_what_costs_most_and_where_nothing_costs_less(goal: Goal) -> None:
    lab = ArrowBench(**goal.start)
    lab.wait()
    assert "adds most" in lab.caption(lab.record)
    lab.set(**goal.solved_by)
    lab.wait()
    assert lab.caption(lab.record).startswith("This is the least loss")
    lab.close()
