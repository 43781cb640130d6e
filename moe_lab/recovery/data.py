"""Samples of a mixture of generalised linear experts whose parameters are known (gridlock2019, eq. 1 and section 4).

    y = g(<a_z, x>) + sigma xi,   z ~ softmax(<w_1, x>, ..., <w_k, x>),   w_k = 0

x is Gaussian, or from a mixture of two Gaussians whose score functions are known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.graphs import to_device
from moe_lab.core.trials import stream
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
        sampled = [self._parameters(trial, seed) for trial in trials]
        return Parameters(*(torch.as_tensor(np.stack(part)) for part in zip(*sampled, strict=True)))

    def _parameters(self, trial: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        k, d = self.experts, self.dimension
        regressors = stream(seed, trial, "regressors").standard_normal((k, d))
        gates = stream(seed, trial, "gates").standard_normal((k, d))
        basis, triangle = np.linalg.qr(regressors.T)  # (d, k)
        if self.regressors == "orthonormal":
            regressors = (basis * np.sign(np.diag(triangle))).T
        if self.gating == "orthogonal":
            gates = gates - (gates @ basis) @ basis.T
        regressors /= np.linalg.norm(regressors, axis=1, keepdims=True)
        gates *= self.gate_norm / np.linalg.norm(gates, axis=1, keepdims=True)
        gates[-1] = 0
        return regressors, gates

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
        parameters = self.parameters(trials, seed)
        each = zip(trials, parameters.regressors.numpy(), parameters.gates.numpy(), strict=True)
        sampled = [self._sample(samples, trial, seed, split, *truth) for trial, *truth in each]
        x, y, experts, means = (np.stack(part) for part in zip(*sampled, strict=True))

        def tensor(values: np.ndarray | Tensor) -> Tensor:
            return to_device(np.asarray(values), device, dtype)

        p = self.first_share
        shares = np.tile([1.0] if p is None else [p, 1 - p], (len(trials), 1))
        return MixtureSamples(
            Inputs(tensor(x), tensor(means), tensor(shares)),
            tensor(y),
            to_device(experts, device),
            Parameters(tensor(parameters.regressors), tensor(parameters.gates)),
        )

    def _sample(
        self, samples: int, trial: int, seed: int, split: str, regressors: np.ndarray, gates: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns x, y, z and the components' means of one trial; each part has its own stream."""
        means = np.zeros((1, self.dimension))
        x = stream(seed, trial, f"{split}/inputs").standard_normal((samples, self.dimension))
        if self.first_share is not None:
            means = stream(seed, trial, "means").standard_normal((2, self.dimension))
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            second = stream(seed, trial, f"{split}/components").random(samples) >= self.first_share
            x += means[second.astype(int)]
        scores = x @ gates.T + stream(seed, trial, f"{split}/experts").gumbel(size=(samples, self.experts))
        experts = scores.argmax(1)
        product = torch.as_tensor(np.einsum("nd,nd->n", x, regressors[experts]))
        noise = stream(seed, trial, f"{split}/noise").standard_normal(samples)
        return x, self.g(product).numpy() + self.noise * noise, experts, means
