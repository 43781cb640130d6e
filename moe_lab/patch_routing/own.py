"""Models of your own. torch computes the gradient, so that no training step has to be written.

There are two ways. A subclass of `JointMoE` that overrides `route` changes the router alone. A subclass of `OwnModel`
changes everything: which weights there are, and what they compute. Both train, sweep and are drawn like the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.numbers import check_finite
from moe_lab.patch_routing.model import CNN, JointMoE, PatchModel, SeparateMoE


class Sizes(NamedTuple):
    """The sizes of a task, to which a model's weights must fit."""

    patches: int  # n
    dimension: int  # d, numbers in a patch
    outputs: int  # 1 for two classes, else one for each class


class Routed(NamedTuple):
    """The outputs and the routing that `OwnModel.forward` returns.

    Attributes:
      outputs: f, (T, c, B), which determines the loss and the accuracy.
      mask: (T, k, B, n) whether each of k experts receives each patch; None for a model without experts.
      gates: (T, k, B, n), 0 where the mask is False; None for 1 wherever a patch is received.
    """

    outputs: Float[Tensor, "T c B"]
    mask: Bool[Tensor, "T k B n"] | None = None
    gates: Float[Tensor, "T k B n"] | None = None


class OwnModel(PatchModel):
    """The base of a model of your own: define `initial` and `forward`, and declare its parameters with `knob`.

    It is trained by SGD on the logistic loss (eq. 2; cross-entropy for more classes), each trial on its own. Snapshots
    have the measures of routing if `forward` gives a mask, and `alignment` if there are weights "routers" of (k, d).

    Attributes:
      frozen: names of weights that are not trained.
      capturable: whether a GPU may record a step once and replay it, see `PatchModel`.
    """

    name: ClassVar[str] = "own"
    template: ClassVar[bool] = True
    frozen: ClassVar[tuple[str, ...]] = ()

    def initial(self, trial: int, seed: int, sizes: Sizes) -> Mapping[str, np.ndarray]:
        """Returns a trial's initial weights by name; draw them from a `moe_lab.core.trials.stream`."""
        raise NotImplementedError

    def forward(self, weights: Mapping[str, Tensor], patches: Float[Tensor, "T B n d"]) -> Routed:
        """Computes the outputs of all trials; the first axis of each weight is the trial, and trials must not mix."""
        raise NotImplementedError


def has_own_route(model: PatchModel) -> bool:
    """Whether the model is a JointMoE with another router."""
    return isinstance(model, JointMoE) and type(model).route is not JointMoE.route


def check_own(model: PatchModel) -> None:
    """Raises a ValueError if a user's class lacks a method that is needed, or defines one that is not used."""
    kind = type(model)
    if isinstance(model, OwnModel):
        missing = [name for name in ("initial", "forward") if getattr(kind, name) is getattr(OwnModel, name)]
        require(not missing, "a model of your own must define initial and forward", model=kind.__name__, lacks=missing)
        return
    unused = [name for name in ("initial", "forward") if hasattr(kind, name)]
    unused += ["route"] * (isinstance(model, SeparateMoE | CNN) and hasattr(kind, "route"))
    rule = "only a subclass of OwnModel may define initial and forward, and only one of JointMoE route"
    require(not unused, rule, model=kind.__name__, defines=unused)


def check_gates(mask: Tensor, gates: Tensor) -> None:
    """Checks that no patch passes a gate to an expert that does not receive it.

    Outputs are computed with the gates and measured with the mask: where the two disagree, coverage and pictures would
    show another model than the one that is trained.

    Raises:
      ValueError: a gate is not finite, or not 0 where the mask is False.
    """
    check_finite("gates", gates)
    outside = (gates != 0) & ~mask
    gate = float(gates[outside][0]) if bool(outside.any()) else 0.0
    require(gate == 0, "gates must be 0 where the mask is False", gate=gate)
