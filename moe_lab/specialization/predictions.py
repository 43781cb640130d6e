"""A trained mixture and its predictions for any samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.training import samples_of
from moe_lab.core.trials import device_and_dtype, stream, threads_for
from moe_lab.specialization import mixture
from moe_lab.specialization.data import ClusterSamples, Split
from moe_lab.specialization.learners import MixtureLearner, layer_of
from moe_lab.specialization.model import SwitchMoE
from moe_lab.specialization.noise import evaluation_noise, router_noise
from moe_lab.specialization.run import ClusterRun


class Predictions(NamedTuple):
    """A mixture's predictions for samples."""

    expert: Int[Tensor, "T N"]  # to which each sample is dispatched, from 0
    output: Float[Tensor, "T N"]  # F(x), whose sign is the predicted label


@dataclass(frozen=True)
class Trained:
    """A mixture after its last step, with the final values of `measures.MEASURES`, (T, ...)."""

    run: ClusterRun
    model: SwitchMoE
    state: mixture.State
    measures: dict[str, np.ndarray]

    @property
    def trials(self) -> list[int]:
        return self.run.trial_numbers

    def samples(self, split: Split) -> ClusterSamples:
        """Generates its training or test samples."""
        samples: ClusterSamples = samples_of(self.run, self.trials, split)
        return samples

    def predict(self, samples: ClusterSamples, noise: Float[Tensor, "T M N"] | None = None) -> Predictions:
        """Dispatches samples, with noise r on the router's scores if any is given, and computes F(x).

        Raises:
          ValueError: the samples are not of as many trials as the run.
        """
        rule = "samples must be drawn for the trials of the run"
        require(len(samples.labels) == len(self.trials), rule, trials=len(self.trials), drawn=len(samples.labels))
        routing, _, output = mixture.forward(self.state, layer_of(self.run, samples), noise, self.model)
        return Predictions(routing.picked[:, 0], output)

    def first_noise(self) -> Float[Tensor, "T M N"]:
        """Samples r of the first training step."""
        streams = [stream(self.run.seed, trial, "router noise") for trial in self.trials]
        return router_noise(self.model, streams, self.run.samples, self.state.routers)

    def last_noise(self, split: Split) -> Float[Tensor, "T M N"] | None:
        """Samples the noise of evaluations; None except with the authors' objective."""
        return evaluation_noise(self.run, self.model, self.trials, split, self.state.routers)


def trained(run: ClusterRun) -> Trained:
    """Trains a mixture and returns its weights, with the same measures as `train_run`.

    Raises:
      ValueError: the run's model is not a mixture; an invalid device or precision.
    """
    require(isinstance(run.model, SwitchMoE), "only a mixture sends samples to experts", model=run.model.name)
    assert isinstance(run.model, SwitchMoE)
    device, _ = device_and_dtype(run)
    with threads_for(0, device):
        learner = MixtureLearner(run, run.trial_numbers)
        learner.advance(run.last_step)
        measured = learner.measure(whole=True)
    values = {name: value.detach().cpu().numpy().astype(float) for name, value in measured.items()}
    for value in values.values():
        value[~np.isfinite(values["train_loss"])] = np.nan
    return Trained(run, run.model, learner.state, values)
