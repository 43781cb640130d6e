"""What pulls the routers of joint training, step by step: the gradient of eq. 26 divided among the patches.

For one sample with y = +1 or -1, v = 1 / (1 + exp(y f)) and V_{j,s} = sum_{r in s} (a_{r,s} / l) ReLU(<w_{r,s}, x^(j)>)

    -dL/dw_s = sum_{j in J_s} c_{j,s} x^(j),    c_{j,s} = y v G_{j,s} (V_{j,s} - sum_i G_{i,s} V_{i,s}),

so that each patch pulls along itself, or pushes where c < 0. In every sample the c of an expert sum to 0: what one
patch gains, the others lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import reproducible
from moe_lab.core.origins import origin
from moe_lab.core.routing import one_hot
from moe_lab.core.trials import device_labels, on_one_thread
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.data import DISTRACTOR, SIGNAL, PatchSamples, PatternTask
from moe_lab.patch_routing.joint import JointRules, joint_forward
from moe_lab.patch_routing.learners import JointLearner
from moe_lab.patch_routing.loss import Loss, loss_of
from moe_lab.patch_routing.model import JointMoE
from moe_lab.patch_routing.run import PatchRun, Task
from moe_lab.patch_routing.training import PatchTraining

__all__ = ["PATTERNS", "pulls_of", "router_pulls"]

PATTERNS = ("o1", "o2", "distractors of o1", "distractors of o2", "other patches")
OTHER = len(PATTERNS) - 1


def pulls_of(
    weights: Float[Tensor, "T m_and_k d"],
    patches: Float[Tensor, "T B n d"],
    labels: Int[Tensor, "T B"],
    patterns: Int[Tensor, "T B n"],
    rules: JointRules,
) -> tuple[Float[Tensor, "T k p d"], Float[Tensor, "T k p"], Loss]:
    """Divides -dL/dw_s, for the mean loss of B samples, among the patterns of the patches (eq. 26).

    Args:
      weights: m rows of hidden weights, then k routers.
      patterns: a number in `PATTERNS` for each patch.

    Returns:
      The pull of each pattern on each router, whose sum over the patterns is -dL/dw_s; how many patches of each pattern
      an expert keeps of a sample, on average; and the loss.
    """
    forward = joint_forward(weights, patches, rules)
    loss = loss_of(forward.outputs, labels)
    against_mean = forward.patch_outputs - forward.expert_outputs[..., None]
    slope = (loss.slope[:, :, None, :, None] * forward.gates[:, None] * against_mean).sum(1)  # dL/d<w_s, x^(j)>
    belongs = one_hot(patterns, len(PATTERNS)).to(patches.dtype)
    pulls = -torch.einsum("tkbn,tbnp,tbnd->tkpd", slope, belongs, patches) / patches.shape[1]
    received = torch.einsum("tkbn,tbnp->tkp", forward.mask.to(patches.dtype), belongs) / patches.shape[1]
    return pulls, received, loss


@reproducible()
@checked
def router_pulls(
    model: JointMoE | None = None,
    task: Task | None = None,
    samples: int = 200,
    steps: int = 40,
    record_every: int = 1,
    trial: int = 0,
    seed: int = 0,
) -> xr.Dataset:
    """Measures how hard each kind of patch pulls at each router during joint training (eq. 26).

    Pulls are means over all training samples at the weights that the trial has at that step: what the next SGD step
    does, but for which samples it draws. It computes in float64 on the CPU, and goes on at zero training error.

    Args:
      model: JointMoE with its router of eq. 4; by default of 4 experts.
      task: of two classes; `PatternTask()` by default.
      samples: N.
      steps: SGD steps of the run.
      record_every: steps from one record to the next.
      trial: whose data and weights.

    Returns:
      pull(step, expert, pattern, along), the inner product of a pattern's pull with the unit vectors o1 and o2, and
      pull_size(step, expert, pattern), its length in all d dimensions; router(step, expert, along) and
      router_size(step, expert), the same of w_s; patches(step, expert, pattern), how many an expert keeps of a sample;
      train_loss and train_accuracy(step). One SGD step adds `attrs["learning_rate"]` times the pulls to the routers.

    Raises:
      ValueError: more than two classes, a model with a router of its own, or no steps.
    """
    chosen = model if model is not None else JointMoE(experts=4)
    usual = type(chosen).route is JointMoE.route
    require(usual, "model must have the router of eq. 4", model=type(chosen).__name__)
    require(1 <= record_every <= steps, "record_every must be from 1 to steps", record_every=record_every, steps=steps)
    data = task if task is not None else PatternTask()
    require(data.classes == 2, "o1 and o2 are the patterns of two classes (c)", c=data.classes)
    run = PatchRun(
        model=chosen,
        task=data,
        samples=samples,
        trials=1,
        first_trial=trial,
        seed=seed,
        test_samples=2,
        measure="last",
        device="cpu",
        precision="float64",
    )
    rows = list(on_one_thread(_rows(run, steps, record_every), torch.device("cpu")))
    return _labelled(rows, run, record_every)


def _rows(run: PatchRun, steps: int, record_every: int) -> Iterator[list[Tensor]]:
    """The variables of `router_pulls` at each recorded step, in the order of `_MEANINGS`."""
    training = PatchTraining([run], samples_of([run]))
    learner, samples = training.learner, run.samples
    assert isinstance(learner, JointLearner)
    units = torch.nn.functional.normalize(learner.setting.signals[0], dim=-1)
    patches, patterns = learner.patches(learner.train, 0, samples), _patterns(learner.train, samples)
    for step in range(0, steps + 1, record_every):
        routers = learner.weights[0, run.model.neurons :]
        pulls, received, loss = pulls_of(learner.weights, patches, learner.train.labels, patterns, learner.rules)
        along = [pulls[0] @ units.T, pulls[0].norm(dim=-1), routers @ units.T, routers.norm(dim=-1)]
        yield [*along, received[0], loss.value.mean(), loss.right.to(patches.dtype).mean()]
        learner.advance(min(record_every, steps - step))


def _patterns(data: PatchSamples, samples: int) -> Int[Tensor, "T N n"]:
    """The number in `PATTERNS` of every patch; a distractor that imitates no class is among the others."""
    roles, sides = data.roles[:, :samples], data.sides[:, :samples]
    kinds = torch.where(roles == SIGNAL, sides, torch.where(roles == DISTRACTOR, 2 + sides, OTHER))
    return torch.where(sides < 0, OTHER, kinds)


_MEANINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "pull": (
        ("step", "expert", "pattern", "along"),
        "part of -dL/dw_s due to the patches of a pattern, along o1 and o2",
    ),
    "pull_size": (("step", "expert", "pattern"), "length of that part in all d dimensions"),
    "router": (("step", "expert", "along"), "inner product of w_s and the unit vectors o1 and o2"),
    "router_size": (("step", "expert"), "length of w_s"),
    "patches": (("step", "expert", "pattern"), "patches of the pattern that the expert keeps of a sample, on average"),
    "train_loss": (("step",), "mean loss over the training samples"),
    "train_accuracy": (("step",), "share of training samples with the right label"),
}


def _labelled(rows: Sequence[Sequence[Tensor]], run: PatchRun, record_every: int) -> xr.Dataset:
    columns = [np.stack([one.cpu().double().numpy() for one in column]) for column in zip(*rows, strict=True)]
    variables = {
        name: (dims, values, {"long_name": meaning})
        for (name, (dims, meaning)), values in zip(_MEANINGS.items(), columns, strict=True)
    }
    coords = {
        "step": record_every * np.arange(len(rows)),
        "expert": np.arange(1, columns[3].shape[1] + 1),
        "pattern": list(PATTERNS),
        "along": ["o1", "o2"],
    }
    rate = run.model.learning_rate or run.task.learning_rate
    place: dict[str, Any] = {"figure": "equation 26", "paper": "pmoe2023, equation 26", "learning_rate": rate}
    about = origin(call="", config=run.record(), seed=run.seed, device=device_labels([run]), **place)
    return xr.Dataset(variables, coords, about)
