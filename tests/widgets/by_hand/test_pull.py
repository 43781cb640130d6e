"""The pull of the bench is minus the gradient that torch finds."""

from __future__ import annotations

import pytest
import torch

from moe_lab_widgets import PullBench
from moe_lab_widgets.by_hand.pull import GOALS, pull_of
from moe_lab_widgets.engine.goal import Goal


def test_the_pull_is_minus_the_gradient_of_the_logistic_loss() -> None:
    for router, says in (([0.7, -1.2], [2.0, 0.0]), ([0.0, 3.0], [-1.0, 4.0]), ([0.0, 0.0], [2.0, 0.0])):
        w = torch.tensor(router, dtype=torch.float64, requires_grad=True)
        s = torch.tensor(says, dtype=torch.float64)
        torch.nn.functional.softplus(-(w.softmax(0) @ s)).backward()
        assert w.grad is not None
        torch.testing.assert_close(pull_of(w.detach(), s)["pull"], -w.grad)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.asks)
def test_a_caption_says_where_the_router_is_pulled(goal: Goal) -> None:
    lab = PullBench(**goal.start)
    lab.wait()
    assert "is pulled towards patch" in lab.caption(lab.record)
    lab.close()
