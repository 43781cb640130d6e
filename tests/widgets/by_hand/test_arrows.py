"""The terms of the bench are the library's loss; its goals are reached by the minimiser that the library computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.recovery.data import Parameters
from moe_lab.recovery.landscape.losses import Weights, l4_population, minimiser
from moe_lab_widgets import ArrowBench
from moe_lab_widgets.by_hand.arrows import GOALS, least, rows_at, terms
from moe_lab_widgets.drawing.mark_record import MarkRecord

REGRESSORS = torch.eye(3, dtype=torch.float64)[None, :2]
WEIGHTS = Weights(mu=0.05, penalty=1.5, ridge=0.7)


def test_the_terms_add_up_to_the_loss_of_the_library() -> None:
    angles = torch.tensor([[20.0, 75.0], [0.0, 90.0], [130.0, -40.0]], dtype=torch.float64)
    rows = rows_at(angles, torch.tensor([[1.2, 0.7], [1, 1], [0.3, 2.0]], dtype=torch.float64))
    outside = torch.cat((rows, torch.zeros(3, 2, 1, dtype=torch.float64)), -1)
    loss, _ = l4_population(outside, REGRESSORS.expand(3, -1, -1), torch.full((3, 2), 0.5).double(), WEIGHTS)
    torch.testing.assert_close(terms(rows, *WEIGHTS).sum(-1), loss)


@pytest.mark.parametrize("ridge", [0.1, 0.7, 2.0])
def test_the_least_loss_is_that_of_the_minimiser(ridge: float) -> None:
    weights = WEIGHTS._replace(ridge=ridge)
    truth = Parameters(REGRESSORS, torch.tensor([[[0, 0, 1.0], [0, 0, 0]]]).double())
    rows = minimiser(truth, weights)[0]
    lowest, length = least(*weights)
    assert length == pytest.approx(np.linalg.norm(rows[0]), abs=0.005)
    assert lowest == pytest.approx(float(terms(torch.as_tensor(rows[:, :2]), *weights).sum()), abs=1e-4)


@pytest.mark.parametrize("number", range(len(GOALS)))
def test_a_goal_is_refused_at_its_start_reached_by_its_solution_and_its_reason_is_so(number: int) -> None:
    goal = GOALS[number]
    lab = ArrowBench(goal=number + 1)
    lab.wait()
    start = MarkRecord(lab.record)
    assert not bool(goal.reached(start)) and "adds most" in lab.caption(lab.record)
    lab.set(**goal.solved_by)
    lab.wait()
    end = MarkRecord(lab.record)
    assert bool(goal.reached(end)) and bool(goal.why.measured(start, end))
    assert lab.caption(lab.record).startswith("This is the least loss")
    lab.close()
