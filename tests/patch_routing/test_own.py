"""Models and routers of one's own: equal to the built-in ones that compute the same; refusals."""

from typing import ClassVar

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.core.config import ConfigError, knob
from moe_lab.core.routing import expert_choice
from moe_lab.core.snapshots import collect
from moe_lab.core.trials import stream
from moe_lab.drawing import theme
from moe_lab.patch_routing import (
    CNN,
    JointMoE,
    OwnModel,
    PatternTask,
    Routed,
    SeparateMoE,
    Sizes,
    figures,
    initialization,
    plots,
    train,
)
from moe_lab.patch_routing import model as models
from tests.second_device import second_device

TASK = PatternTask(patches=6, dimension=8, pattern_sets=16, distractors=2)
SHORT = {"samples": 40, "trials": 3, "epochs": 3, "record_every": 2, "test_samples": 60, "precision": "float64"}


class SameRouter(JointMoE):
    """The built-in router, written again: trained with torch's gradient, not with eq. 21 and 26."""

    def route(self, scores, patches_per_expert):
        return expert_choice(scores, patches_per_expert)


class BranchingRouter(SameRouter):
    """The same, with a look at a number."""

    def route(self, scores, patches_per_expert):
        return super().route(scores if float(scores.detach().abs().max()) < 1e9 else -scores, patches_per_expert)


class OwnCNN(OwnModel):
    """The paper's baseline, written again (eq. 5)."""

    frozen: ClassVar[tuple[str, ...]] = ("outputs",)

    def initial(self, trial: int, seed: int, sizes: Sizes):
        return {
            "hidden": initialization.initial_experts([trial], seed, self.neurons, sizes.dimension)[0].numpy(),
            "outputs": initialization.initial_outputs([trial], seed, self.neurons, sizes.outputs)[0].numpy(),
        }

    def forward(self, weights, patches):
        hidden = torch.einsum("tmd,tbnd->tbnm", weights["hidden"], patches).relu()
        return Routed(torch.einsum("tbnm,tmc->tcb", hidden, weights["outputs"]) / patches.shape[2])


class Soft(OwnModel):
    """A soft mixture: every expert sees every patch, gated by a sigmoid of its router's score."""

    experts: int = knob(4, symbol="k", meaning="experts", ge=1, le=64)
    sharpness: float = knob(1.0, symbol="beta", meaning="of the gates", gt=0, le=100)
    name: ClassVar[str] = "soft mixture"

    def initial(self, trial: int, seed: int, sizes: Sizes):
        random = stream(seed, trial, "soft")
        return {
            "routers": random.standard_normal((self.experts, sizes.dimension)) / 10,
            "experts": random.standard_normal((self.experts, sizes.outputs, sizes.dimension)),
        }

    def forward(self, weights, patches):
        scores = torch.einsum("tkd,tbnd->tkbn", weights["routers"], patches)
        gates = (self.sharpness * scores).sigmoid()
        values = torch.einsum("tkcd,tbnd->tckbn", weights["experts"], patches).relu()
        return Routed((gates[:, None] * values).mean(-1).sum(2), torch.ones_like(gates, dtype=torch.bool), gates)


def equal(mine: xr.Dataset, theirs: xr.Dataset) -> None:
    assert set(mine) == set(theirs)
    for name in theirs:
        np.testing.assert_allclose(mine[name].values, theirs[name].values, rtol=1e-5, atol=1e-8, err_msg=str(name))


@pytest.mark.parametrize(
    "mine, theirs",
    [(SameRouter(patches_per_expert=3), JointMoE(patches_per_expert=3)), (OwnCNN(), CNN())],
    ids=["own router", "own model"],
)
@pytest.mark.parametrize("classes", [2, 4])
def test_what_computes_the_same_is_the_same(mine, theirs, classes):
    task = TASK.replace(classes=classes, patches=8)
    equal(collect(train(mine, task, **SHORT)), collect(train(theirs, task, **SHORT)))


def test_a_subclass_without_changes_takes_the_step_of_its_base():
    class Renamed(SeparateMoE):
        name: ClassVar[str] = "renamed"

    short = {**SHORT, "epochs": 1}
    equal(
        collect(train(Renamed(patches_per_expert=2), TASK, **short)),
        collect(train(SeparateMoE(patches_per_expert=2), TASK, **short)),
    )


def test_trials_change_nothing():
    alone = collect(train(Soft(), TASK, **{**SHORT, "trials": 1, "first_trial": 2}))
    among = collect(train(Soft(), TASK, **SHORT)).isel(trial=[2])
    assert {"coverage", "gate_matrix", "alignment", "expert_load"} <= set(among)
    for name in ("test_accuracy", "train_loss", "alignment", "gate_matrix"):
        last = among[name].isel(step=-1).values
        np.testing.assert_allclose(alone[name].isel(step=-1).values, last, rtol=1e-7, atol=1e-9)


def test_a_figure_sweeps_it_and_draws_it_in_a_colour_and_with_a_name_of_its_own():
    own = {"joint": JointMoE(patches_per_expert=3), "soft": Soft(), "mine": OwnCNN()}
    data = figures.sample_complexity(
        task=TASK, models=own, samples=(40, 60), trials=2, epochs=2, test_samples=40, learning_rate=1.0
    )
    assert np.isfinite(data["test_accuracy"]).all()
    page = plots.picture(data)
    labels = {text.get_text().strip(): text.get_color() for axes in page.axes for text in axes.texts}
    assert {"joint pMoE", "soft", "mine"} <= set(labels)
    assert len({labels["joint pMoE"], labels["soft"], labels["mine"], theme.REFERENCE}) == 4


def test_points_that_differ_in_a_parameter_of_its_own_do_not_share_a_batch():
    data = figures.accuracy_by_experts(
        task=TASK, model=SameRouter(patches_per_expert=3), experts=(2, 4), samples=(40,), trials=1, epochs=1
    )
    assert data["test_accuracy"].shape == (1, 2, 1)


class NoForward(OwnModel):
    def initial(self, trial, seed, sizes):
        return {"a": np.zeros(2)}


class WrongShape(NoForward):
    def forward(self, weights, patches):
        return Routed(patches.sum((2, 3)))


class NoGradient(NoForward):
    def forward(self, weights, patches):
        return Routed(patches.sum((2, 3))[:, None])


class Mixing(NoForward):
    def initial(self, trial, seed, sizes):
        return {"a": np.ones(sizes.dimension) * (1 + trial)}

    def forward(self, weights, patches):
        return Routed((patches @ weights["a"].mean(0)).sum(2)[:, None])


class WrongRoute(JointMoE):
    def route(self, scores, patches_per_expert):
        return scores, scores


class LeakingRoute(JointMoE):
    """A mask with the gates of all patches: what is measured would not be what is computed."""

    def route(self, scores, patches_per_expert):
        mask, _ = super().route(scores, patches_per_expert)
        return mask, scores.softmax(-1)


class LeakingSoft(Soft):
    def forward(self, weights, patches):
        found = super().forward(weights, patches)
        return found._replace(mask=found.gates > 0.5)


class RouteOfCNN(CNN):
    def route(self, scores, patches_per_expert):
        return scores > 0, scores


class CapturedRouter(SameRouter):
    capturable: ClassVar[bool] = True


class CapturedCNN(OwnCNN):
    capturable: ClassVar[bool] = True


@pytest.mark.parametrize(
    "model, is_captured",
    [
        (BranchingRouter(), False),
        (SameRouter(), False),
        (OwnCNN(), False),
        (Soft(), False),
        (CapturedRouter(), True),
        (CapturedCNN(), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_second_device_trains_it_and_captures_its_step_where_its_class_says_so_alone(model, is_captured):
    """A graph would repeat the branch that Python took when it was captured, in silence."""
    here = collect(train(model, TASK, **SHORT, device="cpu"))
    with second_device() as device:
        there = collect(train(model, TASK, **SHORT, device=device.name))
    assert bool(device.captures) == is_captured and set(there) == set(here)
    for name in here:
        np.testing.assert_allclose(there[name], here[name], rtol=1e-10, atol=1e-12, err_msg=str(name))


@pytest.mark.parametrize(
    "model, words",
    [
        (NoForward(), "must define initial and forward: got model='NoForward', lacks=['forward']"),
        (OwnModel(), "lacks=['initial', 'forward']"),
        (WrongShape(), "forward must return outputs of shape (T, c, B), here (2, 1, 2): got outputs=(2, 2)"),
        (NoGradient(), "operations that torch differentiates"),
        (Mixing(), "forward must compute each trial from its own weights"),
        (WrongRoute(), "route must return a mask"),
        (LeakingRoute(), "gates must be 0 where the mask is False: got gate="),
        (LeakingSoft(), "gates must be 0 where the mask is False: got gate="),
        (RouteOfCNN(), "only a subclass of OwnModel may define initial and forward, and only one of JointMoE route"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, models.PatchModel) else "",
)
def test_what_cannot_be_trained_is_refused_in_one_sentence(model, words):
    with pytest.raises((ValueError, ConfigError)) as raised:
        list(train(model, PatternTask(), samples=40, trials=2, epochs=1, test_samples=40))
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_the_record_has_what_a_subclass_declares():
    data = collect(train(Soft(sharpness=2.0), TASK, **{**SHORT, "epochs": 1}))
    assert '"sharpness": 2.0' in data.attrs["config"] and '"kind": "Soft"' in data.attrs["config"]
    assert data.attrs["call"].startswith("train(Soft(sharpness=2.0), ")
