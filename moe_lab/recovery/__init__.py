"""Recovery (gridlock2019, gated2019): finding a mixture's true regressors and gates, apart from each other."""

from moe_lab.recovery.activations import Activation
from moe_lab.recovery.data import Inputs, MixtureTask, Parameters, Samples
from moe_lab.recovery.run import JointEM, Run, Spectral
from moe_lab.recovery.training import train, train_run
from moe_lab.recovery.transforms import transforms

__all__ = [
    "Activation",
    "Inputs",
    "JointEM",
    "MixtureTask",
    "Parameters",
    "Run",
    "Samples",
    "Spectral",
    "train",
    "train_run",
    "transforms",
]
