"""A mixture of experts in exchangeable steps, each a function of one trial in plain torch, and the model made of them.

    router_scores -> chosen -> softmax_gates          which patches each expert receives, and with which gates
    expert_outputs -> mixture                         what experts make of patches, and their sum f

Shapes: B samples, n patches of d numbers, k experts of h neurons each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import knob, require
from moe_lab.patch_routing import initialization
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.own import OwnModel, Routed, Sizes

BY_EXPERTS, BY_PATCHES = -1, 1
"""The axis of scores (B, k, n) along which is chosen: each expert's patches, or each patch's experts."""


def router_scores(patches: Float[Tensor, "B n d"], routers: Float[Tensor, "k d"]) -> Float[Tensor, "B k n"]:
    """Computes the score <w_s, x^(j)> of every router and patch."""
    return torch.einsum("kd,bnd->bkn", routers, patches)


def chosen(scores: Float[Tensor, "B k n"], count: int, dim: int) -> Bool[Tensor, "B k n"]:
    """Marks the `count` largest scores along an axis."""
    places = scores.topk(count, dim=dim).indices
    return torch.zeros_like(scores, dtype=torch.bool).scatter(dim, places, True)


def softmax_gates(scores: Float[Tensor, "B k n"], mask: Bool[Tensor, "B k n"], dim: int) -> Float[Tensor, "B k n"]:
    """Computes the softmax of the marked scores along an axis (eq. 4 for -1), 0 elsewhere."""
    return scores.masked_fill(~mask, -torch.inf).softmax(dim).masked_fill(~mask, 0)


def expert_outputs(
    patches: Float[Tensor, "B n d"], hidden: Float[Tensor, "k h d"], outputs: Float[Tensor, "k h"]
) -> Float[Tensor, "B k n"]:
    """Computes what every expert says of every patch: sum_r a_r ReLU(<w_r, x^(j)>)."""
    active = torch.einsum("khd,bnd->bkhn", hidden, patches).relu()
    return torch.einsum("kh,bkhn->bkn", outputs, active)


def mixture(gates: Float[Tensor, "B k n"], values: Float[Tensor, "B k n"], per_expert: int) -> Float[Tensor, " B"]:
    """Computes f, the sum of gate times value over experts and patches, divided by l (eq. 1)."""
    return (gates * values).sum((1, 2)) / per_expert


@dataclass(frozen=True)
class Steps:
    """The functions that a `StepwiseMoE` is made of, of the signatures that those of this module have."""

    router_scores: Callable[[Tensor, Tensor], Tensor] = router_scores
    chosen: Callable[[Tensor, int, int], Tensor] = chosen
    softmax_gates: Callable[[Tensor, Tensor, int], Tensor] = softmax_gates
    expert_outputs: Callable[[Tensor, Tensor, Tensor], Tensor] = expert_outputs
    mixture: Callable[[Tensor, Tensor, int], Tensor] = mixture


class StepwiseMoE(OwnModel):
    """A mixture made of `Steps`, for two classes; with its own steps it computes what JointMoE does.

    A subclass sets `steps`. Where patches choose, each picks l k / n experts, so that experts receive l patches on
    average.
    """

    experts: int = knob(8, symbol="k", meaning="experts", ge=1, le=1024, slider=(1, 8, 1))
    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, le=1024, slider=(1, 16, 1))
    chooser: Literal["experts", "patches"] = knob("experts", meaning="who chooses: experts their patches, or patches")

    name: ClassVar[str] = "own mixture"
    frozen: ClassVar[tuple[str, ...]] = ("outputs",)
    steps: ClassVar[Steps] = Steps()

    @model_validator(mode="after")
    def _neurons_divide(self) -> Self:
        models.check_division(self.neurons, self.experts)
        return self

    def initial(self, trial: int, seed: int, sizes: Sizes) -> Mapping[str, np.ndarray]:
        """Returns the weights that JointMoE starts with: routers (k, d), hidden (k, h, d) and outputs (k, h)."""
        require(sizes.outputs == 1, "a stepwise mixture is for two classes (c)", c=sizes.outputs)
        self._picks(sizes.patches)
        k, width, d = self.experts, self.neurons // self.experts, sizes.dimension
        return {
            "routers": initialization.initial_routers([trial], seed, k, sizes.patches, d)[0].numpy(),
            "hidden": initialization.initial_experts([trial], seed, self.neurons, d).view(k, width, d).numpy(),
            "outputs": initialization.initial_outputs([trial], seed, self.neurons, 1).view(k, width).numpy(),
        }

    def forward(self, weights: Mapping[str, Tensor], patches: Float[Tensor, "T B n d"]) -> Routed:
        trials = [
            self._one({name: value[trial] for name, value in weights.items()}, patches[trial])
            for trial in range(len(patches))
        ]
        outputs, masks, gates = (torch.stack(parts) for parts in zip(*trials, strict=True))
        return Routed(outputs[:, None], masks.transpose(1, 2), gates.transpose(1, 2))

    def _one(self, weights: Mapping[str, Tensor], patches: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f (B,), mask and gates (B, k, n) of one trial."""
        by_experts = self.chooser == "experts"
        dim, count = (
            (BY_EXPERTS, self.patches_per_expert) if by_experts else (BY_PATCHES, self._picks(patches.shape[1]))
        )
        scores = self.steps.router_scores(patches, weights["routers"])
        mask = self.steps.chosen(scores, count, dim)
        gates = self.steps.softmax_gates(scores, mask, dim)
        values = self.steps.expert_outputs(patches, weights["hidden"], weights["outputs"])
        return self.steps.mixture(gates, values, self.patches_per_expert), mask, gates

    def _picks(self, patches: int) -> int:
        """How many experts a patch picks."""
        if self.chooser == "experts":
            return self.experts
        picks, rest = divmod(self.patches_per_expert * self.experts, patches)
        rule = "l k must be a multiple of patches (n) where patches choose, each of which picks l k / n experts"
        require(rest == 0, rule, l=self.patches_per_expert, k=self.experts, n=patches)
        return picks


def stepwise(steps: Steps, **values: Any) -> StepwiseMoE:
    """Makes a mixture from your own steps, which trains, sweeps and is drawn like any model.

    Args:
      steps: its functions.
      values: parameters of `StepwiseMoE`.
    """
    kind = type("StepwiseMoE", (StepwiseMoE,), {"steps": steps, "__doc__": StepwiseMoE.__doc__, "__module__": __name__})
    return kind(**values)
