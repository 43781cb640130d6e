"""A GRU cell as a hierarchical mixture of experts of depth two (gated2019, section 2, eq. 5).

    h' = (1 - z) h + z ((1 - r) g(U x) + r g(U x + W h)),   z, r in {0, 1} for every unit            (eq. 5)

The outer gate z chooses between the expert "keep" (the old state) and an inner mixture, whose gate r chooses between
the experts "forget" (from the input alone) and "recall" (from input and state). A GRU instead computes

    h' = (1 - z) h + z n,   n = g(U x + b_i + r * (W h + b_h))      convention "torch", r after the product
    h' = (1 - z) h + z n,   n = g(U x + b_i + W (r * h) + b_h)      convention "paper", r before the product

With binary gates eq. 5 is exact in torch's convention, with b_h as part of the "recall" expert. In the paper's own it
is not: unit i of W (r * h) depends on the reset gates of all other units, so that eq. 5, which gates unit i by r_i
alone, holds only if W is diagonal or all r are equal. torch's update gate is the complement of the paper's:
h' = (1 - z) n + z h, z_torch = 1 - z; this module uses the paper's z.

Departs from the paper: z of eq. 4 is 1 - z of eq. 3; here z_i = sigma(+ its score), as in section 2's GRU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.trials import stream

CONVENTIONS = ("torch", "paper")


@dataclass(frozen=True)
class Affine:
    """A score or pre-activation, the sum of U x + b_i and W h + b_h.

    Attributes:
      inputs: (m, d) U.
      input_bias: (m,) b_i.
      states: (m, m) W.
      state_bias: (m,) b_h.
    """

    inputs: Float[Tensor, "m d"]
    input_bias: Float[Tensor, " m"]
    states: Float[Tensor, "m m"]
    state_bias: Float[Tensor, " m"]

    def of_input(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B m"]:
        return x @ self.inputs.mT + self.input_bias

    def of_state(self, h: Float[Tensor, "B m"]) -> Float[Tensor, "B m"]:
        return h @ self.states.mT + self.state_bias

    def __call__(self, x: Float[Tensor, "B d"], h: Float[Tensor, "B m"]) -> Float[Tensor, "B m"]:
        return self.of_input(x) + self.of_state(h)


class Mixture(NamedTuple):
    """A cell's update as a hierarchical mixture, (B, m) each.

    Attributes:
      update, reset: the gates z and r, from 0 to 1.
      keep, forget, recall: the experts' predictions h, g(U x + b_i) and g(U x + b_i + W h + b_h).
    """

    update: Tensor
    reset: Tensor
    keep: Tensor
    forget: Tensor
    recall: Tensor

    @property
    def weights(self) -> Float[Tensor, "B m 3"]:
        """The experts' weights 1 - z, z (1 - r) and z r, which sum to 1."""
        z, r = self.update, self.reset
        return torch.stack((1 - z, z * (1 - r), z * r), dim=2)

    @property
    def state(self) -> Float[Tensor, "B m"]:
        """The new state of eq. 5."""
        return (self.weights * torch.stack((self.keep, self.forget, self.recall), dim=2)).sum(2)


@dataclass(frozen=True)
class GRU:
    """A GRU cell whose gates can be made arbitrarily sharp.

    Attributes:
      update, reset, candidate: pre-activations of z, r and n.
      g: nonlinearity of the candidate.
      convention: "torch" for r * (W h + b_h), "paper" for W (r * h) + b_h.
      sharpness: beta in sigma(beta * score); 1 for a GRU, infinity for binary gates, which are 1 for scores >= 0.

    Raises:
      ValueError: the shapes do not match, the convention is unknown, or the sharpness is not positive.
    """

    update: Affine
    reset: Affine
    candidate: Affine
    g: Callable[[Tensor], Tensor] = torch.tanh
    convention: str = "torch"
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        rule = "convention must be 'torch' or 'paper'"
        require(self.convention in CONVENTIONS, rule, convention=self.convention)
        require(self.sharpness > 0, "sharpness (beta) must be greater than 0", beta=self.sharpness)
        shapes = {name: tuple(getattr(self, name).inputs.shape) for name in ("update", "reset", "candidate")}
        require(
            len(set(shapes.values())) == 1, "both gates and the candidate must have the same shape (m, d)", **shapes
        )

    @classmethod
    def from_torch(cls, cell: torch.nn.GRUCell, sharpness: float = 1.0) -> GRU:
        """Converts a torch cell, whose update gate is the complement."""
        rows: dict[str, list[Tensor]] = {}
        for index, name in enumerate(("reset", "update", "candidate")):  # torch's order: r, z, n
            parts = [cell.weight_ih, cell.bias_ih, cell.weight_hh, cell.bias_hh]
            m = cell.hidden_size
            sign = -1.0 if name == "update" else 1.0
            rows[name] = [
                torch.zeros_like(cell.weight_hh[:m, 0]) if part is None else sign * part.detach().chunk(3)[index]
                for part in parts
            ]
        update, reset, candidate = (Affine(*rows[name]) for name in ("update", "reset", "candidate"))
        return cls(update, reset, candidate, sharpness=sharpness)

    @classmethod
    def random(cls, units: int, inputs: int, *, seed: int = 0, scale: float = 1.0, convention: str = "torch") -> GRU:
        """Samples a cell with independent normal weights of standard deviation scale / sqrt(fan-in), in float64."""
        require(units >= 1 and inputs >= 1, "units (m) and inputs (d) must be at least 1", m=units, d=inputs)
        parts = []
        for name in ("update", "reset", "candidate"):
            normal = stream(seed, 0, f"gru/{name}").standard_normal
            sampled = normal((units, inputs)) / math.sqrt(inputs), normal(units), normal((units, units)), normal(units)
            input_weights, input_bias, states, state_bias = (scale * torch.as_tensor(values) for values in sampled)
            parts.append(Affine(input_weights, input_bias, states / math.sqrt(units), state_bias))
        update, reset, candidate = parts
        return cls(update, reset, candidate, convention=convention)

    def replace(self, **changes: object) -> GRU:
        """Returns a copy with some attributes changed."""
        return GRU(**{field.name: getattr(self, field.name) for field in fields(self)} | changes)  # type: ignore[arg-type]

    def gate(self, score: Tensor) -> Tensor:
        """Computes sigma(beta * score), or 1{score >= 0} for infinite beta."""
        if math.isinf(self.sharpness):
            return (score >= 0).to(score.dtype)
        return torch.sigmoid(self.sharpness * score)

    def step(self, x: Float[Tensor, "B d"], h: Float[Tensor, "B m"]) -> Float[Tensor, "B m"]:
        """Computes the cell's next state, in its convention."""
        z, r = self.gate(self.update(x, h)), self.gate(self.reset(x, h))
        reset_after = self.convention == "torch"
        recalled = r * self.candidate.of_state(h) if reset_after else self.candidate.of_state(r * h)
        return (1 - z) * h + z * self.g(self.candidate.of_input(x) + recalled)

    def mixture(self, x: Float[Tensor, "B d"], h: Float[Tensor, "B m"]) -> Mixture:
        """Computes the mixture of three experts with the same gates, eq. 5.

        Its state equals the cell's for binary gates in torch's convention; in the paper's only if, in addition, W is
        diagonal or all r are equal. In the paper's convention b_h is outside the reset and so belongs to both experts.
        """
        outside = self.candidate.of_input(x)
        if self.convention == "paper":
            outside = outside + self.candidate.state_bias
            inside = self.candidate.of_state(h) - self.candidate.state_bias
        else:
            inside = self.candidate.of_state(h)
        z, r = self.gate(self.update(x, h)), self.gate(self.reset(x, h))
        return Mixture(z, r, h, self.g(outside), self.g(outside + inside))

    def gap(self, x: Float[Tensor, "B d"], h: Float[Tensor, "B m"]) -> Float[Tensor, "B m"]:
        """Computes |cell - mixture| for every unit; with soft gates, g(u + r v) is not (1 - r) g(u) + r g(u + v)."""
        return (self.step(x, h) - self.mixture(x, h).state).abs()


def gap_by_sharpness(
    cell: GRU, sharpness: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 100.0, math.inf), samples: int = 4096, seed: int = 0
) -> Float[np.ndarray, "S B"]:
    """Computes the largest gap among a cell's units at each sharpness, for x ~ N(0, I) and h uniform in (-1, 1).

    Args:
      cell: in any convention.
      sharpness: values of beta, see `GRU`.
      samples: B, with the same x and h for every sharpness.
    """
    require(samples >= 1, "samples must be at least 1", samples=samples)
    m, d = cell.candidate.inputs.shape
    x = torch.as_tensor(stream(seed, 0, "gru/x").standard_normal((samples, d)))
    h = torch.as_tensor(stream(seed, 0, "gru/h").uniform(-1, 1, (samples, m)))
    gaps = [cell.replace(sharpness=float(beta)).gap(x, h).amax(1) for beta in sharpness]
    return torch.stack(gaps).numpy()
