"""The pull of the bench is minus the gradient that torch finds, and its goals are refused and reached."""

from __future__ import annotations

import pytest
import torch

from moe_lab_widgets import PullBench
from moe_lab_widgets.by_hand.pull import GOALS, pull_of
from moe_lab_widgets.drawing.mark_record import MarkRecord


def test_the_pull_is_minus_the_gradient_of_the_logistic_loss() -> None:
    for router, says in (([0.7, -1.2], [2.0, 0.0]), ([0.0, 3.0], [-1.0, 4.0]), ([0.0, 0.0], [2.0, 0.0])):
        w = torch.tensor(router, dtype=torch.float64, requires_grad=True)
        s = torch.tensor(says, dtype=torch.float64)
        torch.nn.functional.softplus(-(w.softmax(0) @ s)).backward()
        assert w.grad is not None
        torch.testing.assert_close(pull_of(w.detach(), s)["pull"], -w.grad)


@pytest.mark.parametrize("number", range(len(GOALS)))
def test_a_goal_is_refused_at_its_start_reached_by_its_solution_and_its_reason_is_so(number: int) -> None:
    goal = GOALS[number]
    lab = PullBench(goal=number + 1)
    lab.wait()
    start = MarkRecord(lab.record)
    assert not bool(goal.reached(start)) and "is pulled towards patch" in lab.caption(lab.record)
    lab.set(**goal.solved_by)
    lab.wait()
    end = MarkRecord(lab.record)
    assert bool(goal.reached(end)) and bool(goal.why.measured(start, end))
    lab.close()
