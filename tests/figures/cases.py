"""The figures of all rooms at settings that take a fraction of a second, and what draws them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import xarray as xr

from moe_lab import patch_routing, pruning, recovery, specialization, vision
from moe_lab.drawing.pictures import Pictures
from moe_lab.patch_routing import (
    CNN,
    DigitTask,
    JointMoE,
    PatternTask,
    RoutedMoE,
    plots,
    pulls,
    routing_figures,
)
from moe_lab.patch_routing import figures as of_patches
from moe_lab.pruning import BranchStart
from moe_lab.pruning import figures as of_tokens
from moe_lab.pruning import plots as token_plots
from moe_lab.recovery import gating
from moe_lab.recovery.gridlock import figures as of_mixtures
from moe_lab.recovery.gridlock import plots as mixture_plots
from moe_lab.recovery.landscape import figures as of_losses
from moe_lab.recovery.landscape import plots as loss_plots
from moe_lab.specialization import balancing
from moe_lab.specialization import figures as of_clusters
from moe_lab.specialization import plots as cluster_plots
from moe_lab.vision import figures as of_images
from moe_lab.vision import plots as image_plots


@dataclass(frozen=True)
class Case:
    """A table or figure.

    Attributes:
      make: computes it.
      settings: the arguments.
      pictures: of its room; None where nothing draws it on a page.
      several: the argument that says how many trials there are, and the axis on which they lie.
      measured: variables that are times, and so differ from call to call.
      seeded: whether another seed gives other values.
    """

    make: Callable[..., xr.Dataset]
    settings: Mapping[str, Any]
    pictures: Pictures | None = None
    several: tuple[str, str] | None = ("trials", "trial")
    measured: tuple[str, ...] = ()
    seeded: bool = True

    @functools.cached_property
    def data(self) -> xr.Dataset:
        """The Dataset, computed once. Tests that use it must leave it as it was."""
        return self.make(**self.settings)

    @functools.cached_property
    def shown(self) -> xr.Dataset:
        """The Dataset with the same times on every machine, as it is drawn."""
        return self.data.assign({name: 0 * self.data[name] + 1.0 for name in self.measured})

    def again(self, **changes: Any) -> xr.Dataset:
        """The Dataset with other settings."""
        return self.make(**{**self.settings, **changes})


ROOMS = (patch_routing, specialization, pruning, recovery, vision)
NAMES: dict[str, Any] = {
    **{name: value for room in ROOMS for name, value in vars(room).items()},
    "math": math,
}
"""What the call of a figure may name besides the function itself."""

_TWO = {"trials": 2, "seed": 7}
_PATCHES = {**_TWO, "samples": (40, 60), "test_samples": 60, "precision": "float64"}
_SHORT = {**_PATCHES, "source": "patterns", "epochs": 3}
_CLUSTERS = {**_TWO, "samples": 60, "steps": 4}
_ONE_CLUSTER_TRAINING = {"seed": 7, "samples": 60, "steps": 4}
_LAYER = {"experts": 8, "neurons": 4, "patterns": 40, "tokens": 12, "top": 3, "batch": 10, "test_samples": 60}
_TOKENS = {**_TWO, **_LAYER, "steps": 12}
_LARGE_LAYER = {"experts": 8, "neurons": 16, "dimension": 12, "tokens": 10, "kept_tokens": 2, "samples": 3}
_LOSSES = {**_TWO, "dimension": 5, "batch": 64}
_ROUTED = {**_PATCHES, "samples": 40, "epochs": 3}

CASES: dict[str, Case] = {
    # --- pmoe2023
    "sample complexity": Case(of_patches.sample_complexity, _SHORT, plots.PICTURES),
    "phase map": Case(
        of_patches.phase_map, {**_TWO, "patches_per_expert": (2, 4), "samples": (40, 60)}, plots.PICTURES
    ),
    "by experts": Case(of_patches.accuracy_by_experts, {**_SHORT, "experts": (1, 4)}, plots.PICTURES),
    "by patches": Case(of_patches.accuracy_by_patches, {**_SHORT, "patches_per_expert": (1, 4)}, plots.PICTURES),
    "separate routers": Case(
        of_patches.separate_routers, {**_PATCHES, "source": "patterns", "patches_per_expert": (1, 4)}, plots.PICTURES
    ),
    "joint routers": Case(of_patches.joint_routers, {**_SHORT, "source": "digits"}, plots.PICTURES),
    "illustrations": Case(of_patches.illustrations, {"samples": 40, "steps": 60, "seed": 2}, plots.PICTURES, None),
    "pulls": Case(
        pulls.router_pulls,
        {"task": PatternTask(patches=7, dimension=8, pattern_sets=12), "samples": 20, "steps": 2, "seed": 3},
        several=None,
    ),
    "by capacity": Case(routing_figures.by_capacity, {**_ROUTED, "capacity_factor": (1.0, 2.0)}),
    "by experts per patch": Case(routing_figures.by_experts_per_patch, {**_ROUTED, "experts_per_patch": (1, 2)}),
    # --- chen2022
    "table 1": Case(of_clusters.table1, {**_CLUSTERS, "models": "moe-relu"}, cluster_plots.PICTURES),
    "table 3": Case(of_clusters.table3, {**_CLUSTERS, "settings": (3, 1)}, cluster_plots.PICTURES),
    "single experts": Case(
        of_clusters.single_experts,
        {**_CLUSTERS, "settings": (1, 3), "activations": ("linear", "cubic", "tanh")},
        cluster_plots.PICTURES,
    ),
    "load balancing": Case(of_clusters.load_balancing, {**_CLUSTERS, "settings": (1, 2)}, cluster_plots.PICTURES),
    "balancing": Case(
        balancing.balancing,
        {"kinds": ("none", "bias"), "strengths": (0.1, 1.0), "trials": 2, "samples": 40, "steps": 3},
    ),
    "divisions": Case(balancing.divisions, {"parts": (1, 2), "trials": 2, "samples": 40, "steps": 3}),
    "entropy": Case(of_clusters.entropy_through_time, {**_CLUSTERS, "every": 2}, cluster_plots.PICTURES),
    "inner products": Case(of_clusters.inner_products, {**_CLUSTERS, "every": 2}, cluster_plots.PICTURES),
    "dispatch": Case(of_clusters.dispatch_table, _ONE_CLUSTER_TRAINING, cluster_plots.PICTURES, None),
    "t-SNE": Case(
        of_clusters.tsne,
        {**_ONE_CLUSTER_TRAINING, "shown": 40, "perplexity": 5.0, "resolution": 10},
        cluster_plots.PICTURES,
        None,
    ),
    # --- pruning2024
    "criteria": Case(
        of_tokens.criteria, {**_TOKENS, "rho": (0.75, 0.0, 0.5), "fine_tuning_steps": 3}, token_plots.PICTURES
    ),
    "criteria, as they are": Case(
        of_tokens.criteria,
        {**_TOKENS, "start": "random", "routing": "token-choice", "rho": 0.5, "fine_tuning_steps": 0},
        token_plots.PICTURES,
    ),
    "routers of +": Case(of_tokens.figure3, _TOKENS, token_plots.PICTURES),
    "routers of -": Case(of_tokens.figure7, _TOKENS, token_plots.PICTURES),
    "efficiency": Case(
        of_tokens.efficiency,
        {**_LARGE_LAYER, "rho": (0.25, 0.5, 0.75), "repeats": 2, "seed": 7},
        token_plots.PICTURES,
        None,
        ("seconds", "slope", "r_squared"),
        seeded=False,
    ),
    # --- gridlock2019
    "two Gaussians": Case(
        of_mixtures.table1, {**_TWO, "samples": 400, "first_share": (0.1, 0.5)}, mixture_plots.PICTURES
    ),
    "gates and regressors": Case(of_mixtures.table2, {**_TWO, "samples": 400}, mixture_plots.PICTURES),
    "EM by k": Case(
        of_mixtures.figure3,
        {**_TWO, "samples": 400, "d": 5, "iterations": 6, "gate_iterations": 3},
        mixture_plots.PICTURES,
    ),
    "EM by n": Case(
        of_mixtures.figure4, {**_TWO, "samples": (300, 400), "k": 2, "d": 4, "iterations": 6}, mixture_plots.PICTURES
    ),
    "EM by activation": Case(
        of_mixtures.figure5, {**_TWO, "samples": 600, "k": 2, "d": 4, "iterations": 6}, mixture_plots.PICTURES
    ),
    "real data": Case(of_mixtures.figure6, {**_TWO, "iterations": 3}, mixture_plots.PICTURES),
    "gates by moments": Case(of_mixtures.gates_by_moments, {**_TWO, "samples": (400, 600)}, mixture_plots.PICTURES),
    "who is stuck": Case(
        of_mixtures.stuck_rate,
        {**_TWO, "k": (2, 3), "d": 5, "samples": (300,), "spectral_iterations": 8, "joint_iterations": 8, "window": 3},
        mixture_plots.PICTURES,
    ),
    "gating rates": Case(gating.gating_rates, {**_TWO, "samples": (50, 100), "fitted": (2, 3), "iterations": 3}),
    # --- gated2019
    "L4 against l2": Case(of_losses.l4_against_l2, {**_LOSSES, "steps": 20}, loss_plots.PICTURES),
    "gates given regressors": Case(
        of_losses.gates_given_regressors, {**_LOSSES, "steps": 3, "regressor_steps": 10}, loss_plots.PICTURES
    ),
    "random gates": Case(
        of_losses.random_gates, {**_LOSSES, "steps": 3, "regressor_steps": 10, "every": 5}, loss_plots.PICTURES
    ),
    "small batches": Case(
        of_losses.small_batches, {**_TWO, "batches": (32, 64), "steps": 20, "every": 10}, loss_plots.PICTURES
    ),
    "loss surface": Case(
        of_losses.loss_surface,
        {"seed": 7, "dimension": 5, "batch": 64, "resolution": 5, "samples": 50, "steps": 20},
        loss_plots.PICTURES,
        None,
    ),
    "gate sharpness": Case(
        of_losses.gate_sharpness,
        {"sharpness": (1.0, 10.0, math.inf), "cells": 2, "samples": 50, "seed": 7},
        loss_plots.PICTURES,
        ("cells", "cell"),
    ),
    # --- vision
    "quadrants": Case(
        of_images.sample_complexity,
        {**_TWO, "samples": (20, 40), "models": ("learned", "conv"), "steps": 2, "test_samples": 40},
        image_plots.PICTURES,
    ),
    "turned digits": Case(
        of_images.controls,
        {**_TWO, "kind": "reversed", "samples": 60, "epochs": 1, "test_samples": 40},
        image_plots.PICTURES,
    ),
    "compute": Case(of_images.compute, {}, image_plots.PICTURES, None, seeded=False),
}
SPELLED: dict[str, Case] = {
    "models and a task": Case(
        of_patches.sample_complexity,
        {
            **_PATCHES,
            **{"epochs": 3, "task": PatternTask(patches=8, distractors=1), "batch_size": 10, "learning_rate": 3.0},
            "models": {"joint": JointMoE(experts=4, patches_per_expert=3), "cnn": CNN()},
        },
    ),
    "a model, digits and a trial": Case(
        of_patches.illustrations,
        {
            **{"samples": 40, "steps": 60, "seed": 2, "trial": 1, "task": DigitTask(patches=9)},
            "model": JointMoE(experts=2, neurons=4, patches_per_expert=3, batch_size=2, learning_rate=8.0),
        },
    ),
    "routed models": Case(
        routing_figures.by_experts_per_patch,
        {**_ROUTED, "experts_per_patch": (1, 4), "models": {"soft": RoutedMoE(experts=4, routing="soft")}},
    ),
    "more filters": Case(of_clusters.table3, {**_CLUSTERS, "settings": 3, "models": ("single-linear-512",)}),
    "ranges": Case(
        of_clusters.single_experts, {**_CLUSTERS, "settings": 1, "activations": "linear", "feature": (1, 2)}
    ),
    "dispatch of the authors": Case(
        of_clusters.dispatch_table, {**_ONE_CLUSTER_TRAINING, "kind": "linear", "setting": 2, "objective": "authors"}
    ),
    "t-SNE of the authors": Case(
        of_clusters.tsne,
        {**_ONE_CLUSTER_TRAINING, "shown": 40, "perplexity": 5.0, "resolution": 10, "objective": "authors"},
    ),
    "another start": Case(
        of_tokens.criteria,
        {
            **{**_TOKENS, "top": 2, "start": BranchStart(tasks=2, steps=5, batch=5), "routing": "token-choice"},
            **{"criteria": ("random", "router-difference-norm"), "fine_tuning_steps": 2, "first_trial": 4},
            "precision": "float64",
        },
    ),
    "gates of two Gaussians": Case(
        of_mixtures.gates_by_moments, {**_TWO, "samples": 300, "gating": "random", "first_share": 0.2, "noise": 0.2}
    ),
}
"""Settings that a call has to spell out."""
DRAWN = {name: case for name, case in CASES.items() if case.pictures is not None}
WITH_TRIALS = {name: case for name, case in CASES.items() if case.several is not None}


def each(cases: Mapping[str, Case]) -> pytest.MarkDecorator:
    """A test of every case."""
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())
