"""Samples of a mixture of generalised linear experts whose parameters are known (gridlock2019, eq. 1 and section 4).

    y = g(<a_z, x>) + sigma xi,   z ~ softmax(<w_1, x>, ..., <w_k, x>),   w_k = 0

x is Gaussian, or from a mixture of two Gaussians whose score functions are known exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.graphs import to_device
from moe_lab.core.trials import Draw, drawn
from moe_lab.recovery.activations import ACTIVATIONS, Activation, activation_of

Gating = Literal["orthogonal", "random"]
Regressors = Literal["random", "orthonormal"]
ActivationName = Literal["identity", "relu", "leaky-relu", "sigmoid", "tanh"]


@dataclass(frozen=True)
class Parameters:
    """The parameters to recover, for some trials.

    Attributes:
      regressors: (T, k, d) a_i, unit vectors.
      gates: (T, k, d) w_i; w_k = 0 fixes the gauge.
    """

    regressors: Float[Tensor, "T k d"]
    gates: Float[Tensor, "T k d"]


@dataclass(frozen=True)
class Inputs:
    """Inputs and their density, sum_j shares_j N(means_j, I).

    Attributes:
      x: (T, N, d).
      means: (T, J, d); J=1 and zeros where x ~ N(0, I).
      shares: (T, J), summing to 1.
    """

    x: Float[Tensor, "T N d"]
    means: Float[Tensor, "T J d"]
    shares: Float[Tensor, "T J"]

    @property
    def gaussian(self) -> bool:
        """Whether x ~ N(0, I)."""
        return self.means.shape[1] == 1

    def of(self, trials: Int[Tensor, " t"]) -> Inputs:
        """Returns the inputs of the trials at these positions."""
        return Inputs(self.x[trials], self.means[trials], self.shares[trials])

    def responsibilities(self) -> Float[Tensor, "T N J"]:
        """Computes r_j(x), the posterior probability that x came from component j."""
        squares = self.means.square().sum(2)[:, None]
        return (self.x @ self.means.mT - squares / 2 + self.shares.log()[:, None]).softmax(2)

    def hermite(self, directions: Float[Tensor, "T m d"], order: int) -> Float[Tensor, "T N m"]:
        """Applies S_order(x) to each direction a, times |a|^order: sum_j r_j(x) He_order(<a, x - mu_j>) for unit a.

        S_order is the score function (-1)^order p^(order)(x) / p(x), which for a Gaussian mixture is a sum of Hermite
        tensors around the means.

        Raises:
          ValueError: order is not 1, 2, 3 or 4.
        """
        require(order in (1, 2, 3, 4), "order of a score function must be 1, 2, 3 or 4", order=order)
        unit = torch.eye(order + 1, dtype=torch.float64)[order]
        coefficients = np.polynomial.hermite_e.herme2poly(unit.numpy())
        norms = torch.linalg.vector_norm(directions, dim=2)[:, None]
        total = torch.zeros_like(self.x[:, :, :1] @ directions.mT[:, :1])
        shares = self.responsibilities()
        for component in range(self.means.shape[1]):
            product = (self.x - self.means[:, component, None]) @ directions.mT / norms
            value = torch.zeros_like(product)
            for coefficient in coefficients[::-1]:
                value = value * product + coefficient
            total = total + shares[:, :, component, None] * value
        return total * norms**order


@dataclass(frozen=True)
class MixtureSamples:
    """Samples of some trials.

    Attributes:
      inputs: x and its density.
      y: (T, N).
      experts: (T, N) z, hidden from the algorithms.
      truth: the parameters that generated the samples.
    """

    inputs: Inputs
    y: Float[Tensor, "T N"]
    experts: Int[Tensor, "T N"]
    truth: Parameters

    @property
    def x(self) -> Float[Tensor, "T N d"]:
        return self.inputs.x

    def __len__(self) -> int:
        return int(self.y.shape[1])

    def of(self, trials: Int[Tensor, " t"]) -> MixtureSamples:
        """Returns the samples of the trials at these positions."""
        truth = Parameters(self.truth.regressors[trials], self.truth.gates[trials])
        return MixtureSamples(self.inputs.of(trials), self.y[trials], self.experts[trials], truth)


class MixtureTask(Config):
    """A mixture with known parameters (gridlock2019, section 4). The defaults are those of table 2.

    Raises:
      ConfigError: a value is out of bounds, or d is too small for the vectors that should be independent or orthogonal.
    """

    experts: int = knob(2, symbol="k", meaning="experts", ge=2, le=64, slider=(2, 10, 1))
    dimension: int = knob(10, symbol="d", meaning="numbers in an input", ge=2, le=4096, slider=(4, 32, 1))
    noise: float = knob(
        0.1, symbol="sigma", meaning="standard deviation of the noise on y", gt=0, le=1e3, slider=(0.05, 1.0, 0.05)
    )
    activation: ActivationName = knob("identity", symbol="g", meaning="activation", choices=tuple(ACTIVATIONS))
    gating: Gating = knob(
        "random", meaning="gates orthogonal to all regressors, or random", choices=("orthogonal", "random")
    )
    regressors: Regressors = knob(
        "random", meaning="regressors random on the sphere, or orthonormal", choices=("random", "orthonormal")
    )
    gate_norm: float = knob(1.0, symbol="R", meaning="length of every gate w_i, i < k", ge=0, le=1e3)
    first_share: float | None = knob(
        None, symbol="p", meaning="inputs are p N(mu_1, I) + (1 - p) N(mu_2, I) (none: N(0, I))", gt=0, lt=1
    )

    paper: ClassVar[str] = "gridlock2019, eq. 1"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        rule = "dimension (d) must be at least experts (k), so that the regressors can be linearly independent"
        require(self.dimension >= self.experts, rule, d=self.dimension, k=self.experts)
        rule = "dimension (d) must be greater than experts (k), so that gates can be orthogonal to all regressors"
        require(self.gating == "random" or self.dimension > self.experts, rule, d=self.dimension, k=self.experts)
        return self

    @property
    def g(self) -> Activation:
        return activation_of(self.activation)

    def parameters(self, trials: Sequence[int], seed: int) -> Parameters:
        """Samples the parameters of some trials, in float64."""
        return self._parameters(drawn(self._of_parameters, trials, seed))

    @property
    def _of_parameters(self) -> dict[str, Draw]:
        shape = self.experts, self.dimension
        return {"regressors": Draw("regressors", shape, "normal"), "gates": Draw("gates", shape, "normal")}

    def _parameters(self, raw: Mapping[str, Tensor]) -> Parameters:
        """Makes the parameters that raw numbers (trial, k, d) determine."""
        regressors, gates = raw["regressors"], raw["gates"]
        basis, triangle = torch.linalg.qr(regressors.mT)  # (T, d, k)
        if self.regressors == "orthonormal":
            regressors = (basis * triangle.diagonal(dim1=1, dim2=2).sign()[:, None]).mT
        if self.gating == "orthogonal":
            gates = gates - (gates @ basis) @ basis.mT
        gates = gates * (self.gate_norm / torch.linalg.vector_norm(gates, dim=2, keepdim=True))
        last = torch.arange(self.experts, device=gates.device)[:, None] == self.experts - 1
        return Parameters(regressors / torch.linalg.vector_norm(regressors, dim=2, keepdim=True), gates * ~last)

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: str = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> MixtureSamples:
        """Returns the first N samples of a split for each trial; trial i does not depend on the others.

        Raises:
          ValueError: samples is less than 1, or there is no trial.
        """
        require(samples >= 1, "samples (n) must be at least 1", n=samples)
        require(len(trials) >= 1, "trials must name at least one trial", trials=list(trials))
        made = self.made(drawn(self.draws(samples, split), trials, seed))

        def there(values: Tensor) -> Tensor:
            return to_device(values, device, dtype)

        return MixtureSamples(
            Inputs(*map(there, (made.inputs.x, made.inputs.means, made.inputs.shares))),
            there(made.y),
            to_device(made.experts, device),
            Parameters(there(made.truth.regressors), there(made.truth.gates)),
        )

    def draws(self, samples: int, split: str) -> dict[str, Draw]:
        """Returns the raw numbers of a trial; each part has its own stream."""
        wanted = self._of_parameters | {
            "inputs": Draw(f"{split}/inputs", (samples, self.dimension), "normal"),
            "experts": Draw(f"{split}/experts", (samples, self.experts), "gumbel"),
            "noise": Draw(f"{split}/noise", (samples,), "normal"),
        }
        if self.first_share is not None:
            wanted |= {
                "means": Draw("means", (2, self.dimension), "normal"),
                "components": Draw(f"{split}/components", (samples,)),
            }
        return wanted

    def made(self, raw: Mapping[str, Tensor], truth: Parameters | None = None) -> MixtureSamples:
        """Makes the samples that raw numbers (trial, ...) determine, a pure function of them.

        Args:
          truth: the parameters, where they have been made before.
        """
        truth = self._parameters(raw) if truth is None else truth
        x, p = raw["inputs"], self.first_share
        means, shares = torch.zeros_like(x[:, :1]), torch.ones_like(x[:, :1, 0])
        if p is not None:
            means = raw["means"] / torch.linalg.vector_norm(raw["means"], dim=2, keepdim=True)
            x = x + torch.where((raw["components"] >= p)[..., None], means[:, 1:], means[:, :1])
            shares = torch.cat((p * shares, (1 - p) * shares), dim=1)
        experts = (x @ truth.gates.mT + raw["experts"]).argmax(2)
        own = truth.regressors.gather(1, experts[..., None].expand(-1, -1, self.dimension))
        y = self.g((x * own).sum(2)) + self.noise * raw["noise"]
        return MixtureSamples(Inputs(x, means, shares), y, experts, truth)
