"""The trainings that a contract is tested on: models of every room, at sizes that take a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from moe_lab import patch_routing, pruning, specialization
from moe_lab.core.config import Config
from moe_lab.core.snapshots import Snapshot
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, RoutedMoE, SeparateMoE
from moe_lab.pruning import BranchStart, PlantedStart, RandomStart, TokenMoE, TokenTask
from moe_lab.recovery import MixtureTask, gridlock
from moe_lab.recovery.gridlock import JointEM, Spectral
from moe_lab.recovery.landscape import L2Loss, L4Loss, LogLoss, descend
from moe_lab.specialization import ClusterTask, SingleExpert, SwitchMoE, TopKMoE
from moe_lab.vision import WRN, Mixture, PatchWRN, QuadrantTask, SmallCNN, TurnTask, patches, rotation


@dataclass(frozen=True)
class Case:
    """A training in float64, and the measure that must differ from trial to trial where trials are compared."""

    train: Callable[..., Iterator[Snapshot]]
    model: Config
    task: Config
    settings: dict[str, Any]
    differs: str = ""

    def snapshots(self, **more: Any) -> list[Snapshot]:
        return list(self.train(self.model, self.task, **{"precision": "float64", **self.settings, **more}))


COMMON: dict[str, Any] = {"seed": 4, "device": "cpu"}
PATCHES = {"epochs": 6, "samples": 40, "test_samples": 80, "record_every": 3, **COMMON}
CLUSTERS = {"samples": 600, "test_samples": 290, "steps": 10, "record_every": 5, **COMMON}
TOKENS = {"steps": 12, "batch": 8, "test_samples": 90, "record_every": 5, **COMMON}
MIXTURES = {"samples": 400, "record_every": 3, **COMMON}
DESCENTS = {"batch": 256, "record_every": 10, **COMMON}
IMAGES = {"samples": 25, "test_samples": 20, "epochs": 2, "record_every": 2, **COMMON}

PATTERNS = PatternTask(patches=8, dimension=12, pattern_sets=24, distractors=2)
DIGITS = DigitTask(patches=6)
PATCH_TASKS = {
    "patterns": PATTERNS,
    "four classes": PATTERNS.replace(classes=4),
    "digits": DIGITS,
    "noisy digits": DIGITS.replace(noise=0.4),
}
PATCH_MODELS = {
    "joint": JointMoE(neurons=12, experts=3, patches_per_expert=3, batch_size=10),
    "separate": SeparateMoE(neurons=12, patches_per_expert=3, batch_size=10),
    "cnn": CNN(neurons=12, batch_size=10),
}
ROUTED = RoutedMoE(neurons=12, experts=3, capacity_factor=1.5, batch_size=10)
ROUTED_MODELS = {
    "experts choose": ROUTED.replace(routing="expert-choice", gates="sigmoid", router_noise=0.5),
    "tokens choose": ROUTED.replace(experts_per_patch=2, gates="softmax-before", order="priority", router_noise=1.0),
    "soft": ROUTED.replace(routing="soft"),
    "hash": ROUTED.replace(routing="hash"),
}
CLUSTER_TASK = ClusterTask(clusters=3, dimension=12, patches=5)
SWITCH = SwitchMoE(experts=4, filters=4, learning_rate=0.03)
CLUSTER_MODELS = {
    "paper": SWITCH,
    "paper, general form": SWITCH.replace(activation="gelu"),
    "paper, linear": SWITCH.replace(activation="linear"),
    "paper, balanced": SWITCH.replace(load_balancing=0.05),
    "authors": SwitchMoE.authors(experts=4, filters=4, learning_rate=0.03),
    "single": SingleExpert(filters=4),
    "top-2 and shared": TopKMoE(
        **{"experts": 4, "filters": 4, "learning_rate": 0.03, "experts_per_sample": 2, "shared": 1, "lead": 1.0},
        **{"balancing": "importance", "strength": 0.1},
    ),
}
TOKEN_TASK = TokenTask(patterns=30, tokens=12, zipf=0.5)
TOKEN_MODEL = TokenMoE(experts=8, neurons=4, top=3, learning_rate=0.3, router_learning_rate=0.2)
TOKEN_MODELS = {
    "expert-choice": TOKEN_MODEL,
    "token-choice": TOKEN_MODEL.replace(top=2, routing="token-choice"),
}
STARTS = {
    "planted": PlantedStart(others_norm=5.0),
    "random": RandomStart(router_scale=0.1, neuron_scale=0.1),
    "branches": BranchStart(tasks=2, steps=5, batch=6),
}
SHORT: dict[str, Any] = {"power_iterations": 8, "gate_iterations": 4, "joint_iterations": 4}
MIXTURE_MODELS = {
    "spectral": Spectral(**SHORT),
    "plain moments, gradient": Spectral(**SHORT, robust=False, gate_step="gradient"),
    "orth-als": Spectral(**SHORT, decomposition="orth-als", robust=False, restarts=4),
    "joint": JointEM(iterations=15),
    "joint, gradient": JointEM(iterations=15, gate_step="gradient", radius=1.0),
}
MIXTURE = MixtureTask(dimension=5, noise=0.3)
MIXTURE_TASKS = {
    "identity": MIXTURE,
    "two Gaussians": MIXTURE.replace(first_share=0.4),
    "relu": MixtureTask(dimension=5, activation="relu"),
    "three experts": MixtureTask(dimension=5, experts=3, gating="orthogonal"),
}
LOSS_TASK = MixtureTask(experts=3, dimension=5, regressors="orthonormal", gating="orthogonal")
LOSSES = {
    "L4": L4Loss(steps=30),
    "L4, population": L4Loss(steps=30, population=True),
    "l2": L2Loss(steps=30),
    "L_log": LogLoss(steps=30),
    "L_log after L4": LogLoss(regressors=L4Loss(steps=20), steps=15),
}
NETWORK = SmallCNN(batch_size=10)
NETWORKS = {
    "one network, normalized": NETWORK.replace(optimizer="normalized"),
    "one network, momentum": NETWORK.replace(optimizer="sgd"),
    "one network, Adam": NETWORK.replace(optimizer="adam"),
    "mixture": Mixture(expert=NETWORK.replace(optimizer="normalized")),
    "mixture, momentum": Mixture(expert=NETWORK.replace(optimizer="sgd")),
    "mixture, Adam": Mixture(balance=0.1, expert=NETWORK.replace(optimizer="adam")),
    "mixture at random": Mixture(routing="random", expert=NETWORK),
    "mixture with an oracle": Mixture(routing="oracle", expert=NETWORK),
}

OF_PATCHES = {
    f"{name}, {task}": Case(patch_routing.train, model, PATCH_TASKS[task], PATCHES, "alignment")
    for name, model in PATCH_MODELS.items()
    for task in PATCH_TASKS
}
OF_ROUTINGS = {
    name: Case(patch_routing.train, model, PATTERNS, PATCHES, "gate_matrix") for name, model in ROUTED_MODELS.items()
}
OF_CLUSTERS = {
    name: Case(specialization.train, model, CLUSTER_TASK, CLUSTERS, "expert_feature")
    for name, model in CLUSTER_MODELS.items()
}
OF_TOKENS = {
    f"{name}, {start}": Case(pruning.train, model, TOKEN_TASK, TOKENS | {"start": STARTS[start]}, "router_norm")
    for name, model in TOKEN_MODELS.items()
    for start in STARTS
}
OF_MIXTURES = {
    f"{name}, {task}": Case(gridlock.train, model, MIXTURE_TASKS[task], MIXTURES, "cosines")
    for name, model in MIXTURE_MODELS.items()
    for task in MIXTURE_TASKS
}
OF_LOSSES = {f"loss {name}": Case(descend, model, LOSS_TASK, DESCENTS, "rows") for name, model in LOSSES.items()}
OF_IMAGES = {
    **{name: Case(rotation.train, model, TurnTask(), IMAGES, "train_loss") for name, model in NETWORKS.items()},
    "kept patches": Case(
        patches.train, PatchWRN(trunk="plain", batch_size=10), QuadrantTask(), IMAGES, "kept_in_object"
    ),
    "wide residual network": Case(patches.train, WRN(trunk="plain", batch_size=10), QuadrantTask(), IMAGES),
}
FEW_OF_IMAGES = {
    name: OF_IMAGES[name] for name in ("one network, normalized", "mixture, Adam", "mixture at random", "kept patches")
}
ALL = OF_PATCHES | OF_ROUTINGS | OF_CLUSTERS | OF_TOKENS | OF_MIXTURES | OF_LOSSES | OF_IMAGES


def each(cases: dict[str, Case]) -> pytest.MarkDecorator:
    """A test of every case."""
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())
