"""Recovery of a mixture's true regressors and gates: shared parts of gridlock2019 and gated2019."""

from __future__ import annotations

from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import Inputs, MixtureSamples, MixtureTask, Parameters
from moe_lab.recovery.transforms import transforms

__all__ = ["Activation", "Inputs", "MixtureSamples", "MixtureTask", "Parameters", "transforms"]
