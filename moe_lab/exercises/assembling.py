"""The model that a learner's own steps make: `assemble`, of notebook 12."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from moe_lab.exercises import build
from moe_lab.exercises.verdict import Verdict
from moe_lab.patch_routing import stepwise as steps
from moe_lab.patch_routing.stepwise import BY_EXPERTS, Steps, StepwiseMoE

_CHECKS: Mapping[str, Callable[[object], Verdict]] = {
    "router_scores": build.check_router_scores,
    "chosen": build.check_chosen,
    "softmax_gates": build.check_softmax_gates,
    "expert_outputs": build.check_expert_outputs,
    "mixture": build.check_mixture,
    "logistic_loss": build.check_logistic_loss,
}


@dataclass(frozen=True)
class Assembled(Steps):
    """The steps of a mixture: the learner's own where they are right, the course's where they are not yet.

    Attributes:
      logistic_loss: likewise.
      stands_in: why the course's step stands in, by name.
    """

    logistic_loss: Callable[[Tensor, Tensor], Tensor] = build.logistic
    stands_in: Mapping[str, str] | None = None

    def layer(self, **values: Any) -> StepwiseMoE:
        """Makes the model that the library trains; see `StepwiseMoE` for the values."""
        return steps.stepwise(Steps(**{one.name: getattr(self, one.name) for one in fields(Steps)}), **values)

    @property
    def lines(self) -> list[str]:
        """Who wrote which step, a line for each."""
        reasons = self.stands_in or {}
        return [f"{name}: {f'the course’s ({reasons[name]})' if name in reasons else 'yours'}" for name in _CHECKS]

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in self.lines)}</ul>"


def assemble(
    router_scores: object,
    chosen: object,
    softmax_gates: object,
    expert_outputs: object,
    mixture: object,
    logistic_loss: object,
) -> Assembled:
    """Combines the learner's steps; the course's replace those that are not right yet.

    A step must be right, and be computed by torch, so that autograd sees through it.
    """
    given = dict(
        zip(_CHECKS, (router_scores, chosen, softmax_gates, expert_outputs, mixture, logistic_loss), strict=True)
    )
    reasons = {name: reason for name, function in given.items() if (reason := _unfit(name, function))}
    own: dict[str, Any] = {name: function for name, function in given.items() if name not in reasons}
    return Assembled(**own, stands_in=reasons)


def _unfit(name: str, function: Any) -> str:
    """Why a step cannot be trained; empty if it can."""
    state = _CHECKS[name](function).state
    if state != "right":
        return "yours is not answered yet" if state == "open" else "yours is not right yet"
    free = [
        part.requires_grad_() for part in build.drawn(19, (2, 3, 4), (2, 3, 4), (3, 4), (3, 2, 4), (3, 2), (5,), (5,))
    ]
    scores, values, routers, hidden, outputs, f, y = (part.float() for part in free)
    arguments: Mapping[str, tuple[Any, ...]] = {
        "router_scores": (values, routers),
        "chosen": (scores, 2, BY_EXPERTS),
        "softmax_gates": (scores, steps.chosen(scores, 2, BY_EXPERTS), BY_EXPERTS),
        "expert_outputs": (values, hidden, outputs),
        "mixture": (scores, values, 2),
        "logistic_loss": (f, y.sign()),
    }
    try:
        answer = function(*arguments[name])
    except Exception as error:  # a learner's own, such as .numpy() of what has a gradient
        return f"yours stops where autograd follows it: {str(error).splitlines()[0]}"
    if not isinstance(answer, Tensor):
        return f"yours returns a {type(answer).__name__}: compute with torch, so that autograd sees it"
    if name == "chosen":
        return "" if answer.dtype == torch.bool else "yours returns numbers: return True and False, by .bool()"
    return "" if answer.requires_grad else "autograd does not see through yours: use torch's functions, no .detach()"
