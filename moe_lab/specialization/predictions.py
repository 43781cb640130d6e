"""A mixture trained to the end, and its predictions for any samples: which expert it chooses, and its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.config import require
from moe_lab.specialization import model as models
from moe_lab.specialization.data import Samples, Split
from moe_lab.specialization.experts import experts_for, make_inputs
from moe_lab.specialization.learners import SwitchLearner, evaluation_noise, routed, router_noise, samples_of
from moe_lab.specialization.run import Run
from moe_lab.trials import choose_device, stream, threads_for


class Predictions(NamedTuple):
    """A mixture's predictions for samples.

    Attributes:
      expert: (T, N) the expert that each sample is sent to, from 0.
      output: (T, N) F(x), whose sign is the predicted label.
    """

    expert: Int[Tensor, "T N"]
    output: Float[Tensor, "T N"]


@dataclass(frozen=True)
class Trained:
    """A mixture after its last step.

    Attributes:
      run: what was trained.
      state: (T, M, J, d) filters and (T, M, d) routers.
      measures: all of `measures.MEASURES` at the end, on the run's test samples, (T, ...).
    """

    run: Run
    model: models.SwitchMoE
    state: models.State
    measures: dict[str, np.ndarray]

    @property
    def trials(self) -> list[int]:
        return self.run.trial_numbers

    def samples(self, split: Split) -> Samples:
        """The samples that it was trained or tested on."""
        return samples_of(self.run, self.trials, split)

    def predict(self, samples: Samples, noise: Float[Tensor, "T M N"] | None = None) -> Predictions:
        """Sends samples to experts, with noise on the router's scores if any is given, and computes F(x).

        Args:
          samples: of as many trials as the run has.
          noise: r, as `first_noise` and `last_noise` draw it.

        Raises:
          ValueError: the samples are of another number of trials.
        """
        rule = "samples must be drawn for the trials of the run"
        require(len(samples.labels) == len(self.trials), rule, trials=len(self.trials), drawn=len(samples.labels))
        model = self.model
        inputs = make_inputs(samples, model.activation, biases=model.biases)
        signs = torch.as_tensor(models.signs(model), device=inputs.totals.device, dtype=inputs.totals.dtype)
        _, sent, output = routed(model, self.state, experts_for(inputs, model.activation, signs), noise)
        return Predictions(sent.expert, output)

    def first_noise(self) -> Float[Tensor, "T M N"]:
        """r of the first training step, on the training samples."""
        streams = [stream(self.run.seed, trial, "router noise") for trial in self.trials]
        return router_noise(self.model, streams, self.run.samples, self.state.routers)

    def last_noise(self, split: Split) -> Float[Tensor, "T M N"] | None:
        """The noise on the scores in the measures of `train_run`: none, but with the authors' objective."""
        count = self.run.samples if split == "train" else self.run.test_samples
        return evaluation_noise(self.run, self.model, self.trials, split, count, self.state.routers)


def trained(run: Run) -> Trained:
    """Trains a mixture to the end and keeps its weights: the same numbers as `train_run` measures.

    Raises:
      ValueError: the run's model is no mixture; a wrong device or precision.
    """
    require(isinstance(run.model, models.SwitchMoE), "only a mixture sends samples to experts", model=run.model.name)
    assert isinstance(run.model, models.SwitchMoE)
    device = choose_device(run.device)
    trials = run.trial_numbers
    with threads_for(0, device):
        learner = SwitchLearner(
            run, run.model, trials, samples_of(run, trials, "train"), samples_of(run, trials, "test")
        )
        learner.advance(run.last_step)
        accuracy, loss = learner.training_error()
        measured = learner.evaluate() | {"train_accuracy": accuracy, "train_loss": loss}
    values = {name: value.detach().cpu().numpy().astype(float) for name, value in measured.items()}
    for value in values.values():
        value[~np.isfinite(values["train_loss"])] = np.nan
    return Trained(run, run.model, learner.state, values)
