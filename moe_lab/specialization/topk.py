"""A mixture of the kind that language models use: k experts per sample, shared experts, and a choice of load balancing.

    F(x) = sum over the k experts with the largest h_m + r_m + b_m of pi_m f_m(x)  +  sum of all shared f_s(x),
    pi = softmax(h),  h = Theta^T sum_p x^(p)

With one expert per sample, no shared expert, no bias and equal steps it is `SwitchMoE` (chen2022, algorithm 1). It adds
k experts per sample (Shazeer et al., 2017), many small experts and shared ones (DeepSeekMoE: Dai et al., 2024, eq. 9 to
11, whose gates are not divided by their sum either), ordinary gradient steps, and balancing (`moe_lab.routers`).

Module `mixture` takes the steps of both.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from moe_lab.core.config import Config, knob, require
from moe_lab.specialization.activations import ACTIVATIONS, ActivationName
from moe_lab.specialization.model import Objective, check_signs

Balancing = Literal["none", "switch", "importance", "z-loss", "bias"]
BALANCINGS: tuple[Balancing, ...] = ("none", "switch", "importance", "z-loss", "bias")


class TopKMoE(Config):
    """A mixture with top-k routing, shared experts and load balancing, trained by full-batch gradient steps.

    With `equal_steps` every expert takes a step of the same length (chen2022, eq. 3.4), so that one with few samples
    learns as fast as one with many; otherwise the step is the learning rate times the gradient, as usual in practice.
    A `lead` makes the router begin with a preference for expert 1 on all samples, from which collapse develops.

    `balancing` is "none"; one of three losses: "switch" (Fedus et al., 2021), "importance" (Shazeer et al., 2017) and
    "z-loss" (Zoph et al., 2022), of weight `strength`; or "bias" (Wang et al., 2024), whose updates are of that size.

    Departs from Wang et al.: the bias is added to the scores h + r, by which this model selects, not to their softmax,
    and it is updated from all training samples at each step.

    Raises:
      ConfigError: a value is out of bounds, k exceeds M, or J is odd where filters have two signs.
    """

    experts: int = knob(8, symbol="M", meaning="routed experts", ge=1, le=1024, slider=(2, 16, 1))
    experts_per_sample: int = knob(1, symbol="k", meaning="routed experts of a sample", ge=1, le=1024, slider=(1, 4, 1))
    shared: int = knob(0, symbol="K_s", meaning="shared experts, which get every sample", ge=0, le=64, slider=(0, 2, 1))
    filters: int = knob(8, symbol="J", meaning="filters of an expert", ge=1, le=65536, slider=(1, 32, 1))
    activation: ActivationName = knob("cubic", symbol="sigma", meaning="activation", choices=tuple(ACTIVATIONS))
    equal_steps: bool = knob(True, meaning="whether all experts take steps of the same length")
    learning_rate: float = knob(
        0.01, symbol="eta", meaning="experts' learning rate", gt=0, le=1e6, slider=(0.005, 0.05, 0.005)
    )
    router_learning_rate: float = knob(
        10.0, symbol="eta_r", meaning="router's learning rate", ge=0, le=1e9, slider=(0.0, 20.0, 0.5)
    )
    initial_scale: float = knob(0.01, symbol="sigma_0", meaning="spread of the first filters", gt=0, le=1e6)
    initial_router: float = knob(
        0.0, symbol="sigma_r", meaning="spread of the first router", ge=0, le=1e6, slider=(0.0, 2.0, 0.1)
    )
    lead: float = knob(
        0.0,
        symbol="h_0",
        meaning="first score of expert 1 on a mean sample",
        ge=0,
        le=1e6,
        slider=(0.0, 4.0, 0.25),
    )
    router_noise: float = knob(
        1.0, symbol="r", meaning="largest noise on a router's score", ge=0, le=1e6, slider=(0.0, 2.0, 0.1)
    )
    balancing: Balancing = knob("none", meaning="how the load is balanced", choices=BALANCINGS)
    strength: float = knob(0.01, symbol="lambda", meaning="strength of the balancing", ge=0, le=1e6)

    name: ClassVar[str] = "top-k"
    objective: ClassVar[Objective] = "paper"
    biases: ClassVar[bool] = False
    steps: ClassVar[int] = 300
    why_it_stops: ClassVar[str] = "as for the switch mixture, which some trials leave again with more steps"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check_signs(self.filters, self.two_signs, self.activation)
        rule = "experts_per_sample (k) must be at most experts (M)"
        require(self.experts_per_sample <= self.experts, rule, k=self.experts_per_sample, M=self.experts)
        return self

    @property
    def two_signs(self) -> bool:
        """Whether a_j = -1 for half of an expert's filters."""
        return not ACTIVATIONS[self.activation].odd

    @property
    def slots(self) -> int:
        """S, the number of experts that compute a sample's output."""
        return self.experts_per_sample + self.shared
