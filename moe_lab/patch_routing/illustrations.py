"""Figures 1 to 3 of pmoe2023, which illustrate the model and its data, from a model that is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.origins import origin
from moe_lab.core.trials import threads_for
from moe_lab.patch_routing import initialization
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.joint import joint_forward
from moe_lab.patch_routing.learners import JointLearner
from moe_lab.patch_routing.model import JointMoE, experts_of
from moe_lab.patch_routing.recipes import RECIPES
from moe_lab.patch_routing.run import PatchRun
from moe_lab.patch_routing.training import PatchTraining

_MEANINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "image": (("class", "patch", "row", "column"), "grey values of a test sample's patches, from 0 to 1"),
    "signal": (("class",), "number of the patch that decides the label"),
    "score": (("class", "expert", "patch"), "routing value of a patch, <w_s, x>"),
    "gate": (("class", "expert", "patch"), "gate of a patch, 0 where the expert does not keep it"),
    "hidden": (("class", "neuron", "patch"), "what a neuron makes of a patch, ReLU(<w_r, x>)"),
    "output_weight": (("neuron",), "weight of a neuron in the output, a_r"),
    "expert_of": (("neuron",), "number of the expert that has the neuron"),
    "output": (("class",), "f, positive for the first class"),
}


@reproducible()
@checked
def illustrations(
    source: str = "digits",
    samples: int = 300,
    steps: int = 1500,
    trial: int = 0,
    seed: int = 0,
    *,
    root: Path | str | None = None,
    task: DigitTask | None = None,
    model: JointMoE | None = None,
) -> xr.Dataset:
    """Figures 1 to 3: a sample of each class, what experts keep of it, and how that becomes the output.

    The paper draws n = 16 digits (figure 3), l = 4 patches an expert (figure 1), and k = 3 experts with m = 6 neurons
    (figure 2). Here one model has all of these, and has been trained. It computes in float64 on the CPU.

    Args:
      source: "digits" (embedded 8x8 digits, 6 against 7) or "mnist" (1 against 0, with root=).
      samples: N.
      steps: SGD steps of the training, which goes on at zero training error.
      trial: whose data and weights.
      root: a folder of MNIST IDX files.
      task: any other digits, of two classes; the source is then the task's.
      model: another JointMoE, with its router of eq. 4.

    Returns:
      For the first test sample of each class: image(class, patch, row, column), signal(class), score and gate(class,
      expert, patch), hidden(class, neuron, patch), output_weight and expert_of(neuron), output(class); each says in
      `attrs["long_name"]` what it is. The output is the sum of a_r / l times gate times hidden (eq. 1).

    Raises:
      ValueError: a source that has no digits, more than two classes, or no steps.
      FileNotFoundError: image files are missing.
    """
    made = task if task is not None else make_task(source, root=root)
    require(isinstance(made, DigitTask), "the figures are of digits", source=source)
    digits = cast(DigitTask, made)
    require(digits.classes == 2, "the figures have two classes (c)", c=digits.classes)
    require(steps >= 1, "steps must be at least 1", steps=steps)
    run = _run(digits, model, samples, trial, seed)
    experts = experts_of(run.model, digits.classes)
    learner = _trained(run, steps)
    patches = learner.patches(learner.test, 0, 2)
    forward = joint_forward(learner.weights, patches, learner.rules)
    routers = learner.weights[0, run.model.neurons :]
    raw = digits.replace(pixels="raw").sample(2, trials=[trial], seed=seed, split="test").patches()[0].numpy()
    side, n = int(np.sqrt(raw.shape[-1])), digits.patches
    found = {
        "image": raw.reshape(2, n, side, side) / max(1.0, raw.max()),
        "signal": learner.test.signal[0, :2].numpy(),
        "score": torch.einsum("kd,bnd->bkn", routers, patches[0]).numpy(),
        "gate": forward.gates[0].transpose(0, 1).numpy(),
        "hidden": forward.hidden[0].reshape(-1, 2, n).transpose(0, 1).numpy(),
        "output_weight": initialization.initial_outputs([trial], seed, run.model.neurons, 1)[0, :, 0].numpy(),
        "expert_of": 1 + np.arange(run.model.neurons) // (run.model.neurons // experts),
        "output": forward.outputs[0, 0].numpy(),
    }
    variables = {name: (dims, found[name], {"long_name": meaning}) for name, (dims, meaning) in _MEANINGS.items()}
    place: dict[str, Any] = {"figure": "figures 1 to 3", "paper": "pmoe2023, figures 1 to 3"}
    about = origin(call="", config=run.record(), seed=seed, device="cpu", **place)
    names = {"class": ["o1", "o2"], "expert": np.arange(1, experts + 1)}
    return xr.Dataset(variables, names, about)


def _run(task: DigitTask, model: JointMoE | None, samples: int, trial: int, seed: int) -> PatchRun:
    recipe = RECIPES[task.source]
    how: dict[str, Any] = {"batch_size": recipe.batch_size, "learning_rate": recipe.learning_rate}
    chosen = JointMoE(experts=3, neurons=6, patches_per_expert=4, **how) if model is None else model
    usual = type(chosen).route is JointMoE.route and chosen.recipe == "paper"
    require(usual, "model must have the router of eq. 4 and train as the paper says", model=type(chosen).__name__)
    data: dict[str, Any] = {"samples": samples, "test_samples": 2, "trials": 1, "first_trial": trial, "seed": seed}
    return PatchRun(model=chosen, task=task, measure="last", device="cpu", precision="float64", **data)


def _trained(run: PatchRun, steps: int) -> JointLearner:
    training = PatchTraining([run], samples_of([run]))
    with threads_for(0, torch.device("cpu")):
        training.learner.advance(steps)
    assert isinstance(training.learner, JointLearner)
    return training.learner
