"""The experts of `JointMoE` behind other routings: the model's parameters. `routed_model` has its functions."""

from __future__ import annotations

from typing import ClassVar, Literal, Self, get_args

from pydantic import model_validator

from moe_lab.core.config import knob, require
from moe_lab.patch_routing.model import PatchModel, check_division
from moe_lab.routers.choices import GATES, Gates, Order, capacity_of

Routing = Literal["expert-choice", "token-choice", "soft", "hash"]
ROUTINGS: tuple[Routing, ...] = get_args(Routing)


class RoutedMoE(PatchModel):
    """The experts of `JointMoE` behind another routing, trained jointly with it, at equal compute for every routing.

    Whoever chooses, every expert has the same number of places, C = ceil(c n / k) (`places`), so that at most k C
    products of a patch and an expert are computed, c for each patch. With expert choice each expert takes C patches;
    with C = l, "softmax" gates and no noise the model is JointMoE. With token choice each patch asks t experts, and
    those without a free place drop it: c is the capacity factor of Switch transformers (t = 1), and c / t that of
    GShard. With "soft" each expert has C slots, and with "hash" a fixed table takes the router's place; gates, order
    and noise then have no effect.
    """

    experts: int = knob(8, symbol="k", meaning="experts", ge=1, le=1024, slider=(1, 8, 1))
    routing: Routing = knob("token-choice", meaning="who chooses", choices=ROUTINGS)
    gates: Gates = knob("softmax", meaning="gates", choices=GATES)
    experts_per_patch: int = knob(1, symbol="t", meaning="experts that a patch asks", ge=1, le=1024, slider=(1, 8, 1))
    capacity_factor: float = knob(
        1.0, symbol="c", meaning="places for each patch", gt=0, le=1e3, slider=(0.25, 3.0, 0.25)
    )
    order: Order = knob("arrival", meaning="who gets a place first", choices=("arrival", "priority"))
    router_noise: float = knob(
        0.0, symbol="sigma", meaning="noise on the scores in training", ge=0, le=1e3, slider=(0.0, 2.0, 0.1)
    )

    name: ClassVar[str] = "routed"

    @model_validator(mode="after")
    def _experts_suffice(self) -> Self:
        check_division(self.neurons, self.experts)
        rule = "experts_per_patch (t) must be at most experts (k)"
        require(self.experts_per_patch <= self.experts, rule, t=self.experts_per_patch, k=self.experts)
        return self

    def places(self, patches: int) -> int:
        """Returns C, the places of an expert for a sample of n patches, at most n."""
        return capacity_of(patches, self.experts, 1, self.capacity_factor)
