"""Every Config refuses wrong values, read here off the declared knobs, and every `train` refuses bad calls."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from moe_lab import patch_routing, pruning, specialization
from moe_lab.core.arrays import ArrayConfig
from moe_lab.core.config import Config, ConfigError, RunConfig
from moe_lab.core.errors import UserError
from moe_lab.core.sentences import brief, shown
from moe_lab.core.sweep import sweep
from moe_lab.core.words import with_article
from moe_lab.drawing.routing_plots import gate_table
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.own import OwnModel, Routed
from moe_lab.patch_routing.theory import Sizes
from moe_lab.pruning import BranchStart, PlantedStart, RandomStart, TokenMoE, TokenTask
from moe_lab.recovery import MixtureTask, gridlock, landscape
from moe_lab.recovery.gridlock import JointEM, Spectral
from moe_lab.recovery.gridlock.estimator import MixtureOfExpertsRegressor
from moe_lab.recovery.gridlock.verdicts import JudgedRun
from moe_lab.recovery.landscape import L2Loss, L4Loss, LogLoss, LossRun
from moe_lab.specialization import ClusterTask, SingleExpert, SwitchMoE, TopKMoE
from moe_lab.vision import CifarRotateTask, PatchWRN, QuadrantTask, SmallCNN, TurnTask, VehiclesTask, patches, rotation
from moe_lab.vision.built import Built
from moe_lab.vision.images import CifarTask, ImageTask
from moe_lab.vision.run import ImageRun
from moe_lab_papers.pruning2024.vmoe import DigitRun
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig
from tests.helpers.effort import THOROUGH
from tests.helpers.strange import NO_NUMBERS, OF_THE_SAME_NUMBERS

NAN, INF = float("nan"), float("inf")
PARTS: dict[type[Config], dict[str, Any]] = {
    patch_routing.PatchRun: {"model": JointMoE(), "task": PatternTask()},
    specialization.ClusterRun: {"model": SwitchMoE(), "task": ClusterTask()},
    pruning.TokenRun: {"model": TokenMoE(), "task": TokenTask()},
    gridlock.MixtureRun: {"model": Spectral(), "task": MixtureTask()},
    JudgedRun: {"model": Spectral(), "task": MixtureTask()},
    LossRun: {"model": L4Loss(), "task": MixtureTask()},
    patches.PatchImageRun: {"model": PatchWRN(), "task": QuadrantTask()},
    rotation.TurnRun: {"model": SmallCNN(), "task": TurnTask()},
    DigitRun: {},
    specialization.ArrayTask: {"x": [[1.0], [2.0]], "y": [-1, 1]},
    patch_routing.ArrayTask: {"x": [[[1.0]]] * 4, "y": [0, 1, 0, 1]},
    VehiclesTask: {"root": "/nowhere"},
    CifarRotateTask: {"root": "/nowhere"},
}
"""What a Run or a task needs besides its settings."""

BASES = (RunConfig, ImageRun, ImageTask, CifarTask, Built, ArrayConfig)
"""What rooms make their Runs, tasks and models of."""


def _every_config(base: type[Config] = Config) -> Iterator[type[Config]]:
    for kind in base.__subclasses__():
        public = kind not in BASES and not kind.__name__.startswith("_") and not kind.is_template()
        if kind.__module__.startswith("moe_lab.") and public:
            yield kind
        yield from _every_config(kind)


CONFIGS = sorted(set(_every_config()), key=lambda kind: (kind.__module__, kind.__name__))
EACH_CONFIG = pytest.mark.parametrize("kind", CONFIGS, ids=lambda kind: f"{kind.__module__[8:]}.{kind.__name__}")


def _refused(kind: type[Config], /, **values: Any) -> str:
    """The one sentence with which a Config refuses these values."""
    with pytest.raises(ConfigError) as raised:
        kind(**(PARTS.get(kind, {}) | values))
    sentence = str(raised.value)
    assert "\n" not in sentence and "; " not in sentence and len(sentence) <= 300, sentence
    return sentence


# --- what is declared -------------------------------------------------------------------------------------------------


def _types(kind: type[Config], name: str) -> tuple[Any, ...]:
    """The types of a field, without None."""
    annotation = kind.model_fields[name].annotation
    parts = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return tuple(part for part in parts if part is not NoneType)


def _bounds(kind: type[Config]) -> Iterator[tuple[str, str, float]]:
    for name, field in kind.model_fields.items():
        for constraint in field.metadata:
            for key in ("ge", "gt", "le", "lt"):
                if hasattr(constraint, key):
                    yield name, key, getattr(constraint, key)


BOUNDS = [(kind, *bound) for kind in CONFIGS for bound in _bounds(kind)]
RULES = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}


@pytest.mark.parametrize("kind, name, key, bound", BOUNDS, ids=[f"{row[0].__name__} {row[1:]}" for row in BOUNDS])
def test_values_beyond_a_bound_are_refused_and_those_within_are_not(kind, name, key, bound):
    knob, whole = kind.knobs()[name], int in _types(kind, name)
    outward = -1 if key in ("ge", "gt") else 1
    within = bound if key in ("ge", "le") else math.nextafter(bound, -outward * INF)
    beyond = bound
    if key in ("ge", "le"):
        beyond = int(bound) + outward if whole else math.nextafter(bound, outward * INF)
    rule = f"{knob.title} must be {RULES[key]} {bound:g}"
    value = beyond if whole else float(beyond)
    assert _refused(kind, **{name: value}) == f"{rule}: got {knob.symbol or name}={value!r}"
    try:
        made = kind(**(PARTS.get(kind, {}) | {name: int(within) if whole else within}))
    except ConfigError as error:
        assert f"{knob.title} must be {RULES[key]} {bound:g}: " not in str(error), "a rule between knobs may refuse it"
    else:
        assert getattr(made, name) == within


WRONG: dict[Any, list[tuple[Any, str]]] = {
    int: [(2.5, "must be a whole number"), ("many", "must be a whole number")],
    float: [("fast", "must be a number"), (NAN, "must be a finite number"), (-INF, "must be a finite number")],
    bool: [("maybe", "must be True or False")],
    str: [(0, "must be text")],
    Path: [(7, "must be a path")],
}
"""Values of a wrong type, with the rule that they break."""


@EACH_CONFIG
def test_values_of_a_wrong_type_or_no_choice_are_refused(kind):
    for name, knob in kind.knobs().items():
        (declared, *_), symbol = _types(kind, name), knob.symbol or name
        for value, rule in WRONG.get(declared, []):
            assert _refused(kind, **{name: value}) == f"{knob.title} {rule}: got {symbol}={value!r}"
        if get_origin(declared) is Literal:
            choices = get_args(declared)
            assert knob.choices in (None, choices)
            listed = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
            sentence = f"{knob.title} must be one of {listed}: got {symbol}='neither'"
            assert _refused(kind, **{name: "neither"}) == sentence
        elif get_origin(declared) is tuple:
            assert _refused(kind, **{name: 1.5}) == f"{knob.title} must be a sequence of values: got {symbol}=1.5"
            assert "numbers only: got " in _refused(kind, **{name: (1, "x")})
            if Ellipsis not in get_args(declared):
                for value in ((1,), (1, 2, 3)):
                    assert _refused(kind, **{name: value}) == f"{knob.title} must hold 2 values: got {symbol}={value}"


@EACH_CONFIG
def test_unknown_names_and_changes_are_refused(kind):
    start = f"{kind.call_name()} has no parameter 'velocity': it takes "
    names = ", ".join(kind.model_fields)
    assert _refused(kind, velocity=1) == start + (names if kind is not VMoEConfig else brief(names, 300 - len(start)))
    made, (name, *_) = kind(**PARTS.get(kind, {})), kind.knobs()
    with pytest.raises(
        ConfigError, match=rf"^{with_article(kind.__name__)} is immutable; .*replace\({name}=\.\.\.\): got "
    ):
        setattr(made, name, 3)
    assert made == made.replace() and hash(made) == hash(made.replace())


words = st.text(st.characters(exclude_characters=";"), max_size=3)  # "; " stands between sentences
anything = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), words, st.lists(st.floats())
)


@EACH_CONFIG
@given(data=st.data())
@settings(max_examples=75 if THOROUGH else 25, deadline=None)
def test_anything_is_a_config_or_clear_sentences(kind, data):
    names = [name for name in kind.model_fields if name not in ("model", "task")]
    values = data.draw(st.dictionaries(st.sampled_from(names), anything, min_size=1, max_size=3))
    try:
        made = kind(**(PARTS.get(kind, {}) | values))
    except ConfigError as error:
        assert len(str(error)) <= 300
        *sentences, last = str(error).split("; ")
        if re.fullmatch(r"and \d+ more", last) is None:
            sentences.append(last)
        for sentence in sentences:
            assert ": got " in sentence and "\n" not in sentence, sentence
            assert "Input" not in sentence and "valid (" not in sentence, sentence  # no word of pydantic's
            assert any(name in sentence for name in kind.model_fields), sentence
    else:
        assert made == made.replace()


def test_of_many_broken_rules_the_first_are_told_and_the_others_counted():
    wrong = {name: -(10**40) for name in ("neurons", "learning_rate", "batch_size", "experts", "patches_per_expert")}
    broken = [_refused(JointMoE, **{name: value}) for name, value in wrong.items()]
    with pytest.raises(ConfigError) as raised:
        JointMoE(**wrong)
    *told, rest = str(raised.value).split("; ")
    assert 1 < len(told) < len(broken) and told == broken[: len(told)]
    assert rest == f"and {len(broken) - len(told)} more"
    assert len(str(raised.value)) <= 300 < len("; ".join([*broken[: len(told) + 1], rest]))
    with pytest.raises(ConfigError) as raised:
        JointMoE(neurons=-5, experts=-5)
    assert str(raised.value) == "; ".join([_refused(JointMoE, neurons=-5), _refused(JointMoE, experts=-5)])


# --- sliders ----------------------------------------------------------------------------------------------------------


@EACH_CONFIG
def test_every_slider_lies_within_the_bounds_and_meets_the_default(kind):
    for name, knob in kind.knobs().items():
        assert knob.meaning, name
        if knob.slider is None:
            continue
        low, high, step = knob.slider
        assert low < high and step > 0, name
        assert knob.low is None or low >= knob.low, name
        assert knob.high is None or high <= knob.high, name
        grid = [high, *([] if knob.default is None else [knob.default])]
        for value in grid:
            assert low <= value <= high, name
            assert math.isclose((value - low) / step, round((value - low) / step), abs_tol=1e-9), name


# --- values without a meaning -----------------------------------------------------------------------------------------

MEANINGLESS: list[tuple[type[Config], dict[str, Any]]] = [
    (PatternTask, {"patches": 1, "dimension": 3, "gap": 2, "delta_d": 1, "delta_r": 1, "noise": -0.1, "classes": 1}),
    (PatternTask, {"delta_d": -1, "delta_r": -0.1, "gap": -0.1, "distractors": -1, "pattern_sets": 0}),
    (DigitTask, {"patches": 1, "noise": -0.1}),
    (JointMoE, {"experts": 0, "neurons": 0, "patches_per_expert": 0, "batch_size": 0, "learning_rate": 0}),
    (SeparateMoE, {"router_epochs": 0}),
    (Sizes, {"patches": 0, "experts": 0, "delta": 0.9, "error": 0, "classes": 1}),
    (Sizes, {"error": 1}),
    (ClusterTask, {"clusters": 1, "dimension": 3, "patches": 2, "noise": -0.5, "scale": 0}),
    (SwitchMoE, {"experts": 0, "filters": 0, "learning_rate": 0, "router_learning_rate": -1, "initial_scale": 0}),
    (SwitchMoE, {"router_noise": -0.1, "load_balancing": -1}),
    (SingleExpert, {"filters": 1, "learning_rate": 0, "weight_decay": -1}),
    (ClusterTask, {"imbalance": 0.9}),
    (TopKMoE, {"experts": 0, "experts_per_sample": 0, "shared": -1, "filters": 0, "learning_rate": 0, "lead": -1}),
    (
        TopKMoE,
        {"router_learning_rate": -1, "initial_scale": 0, "initial_router": -1, "router_noise": -1, "strength": -1},
    ),
    (TokenTask, {"patterns": 2, "tokens": 1, "zipf": -0.1, "pair": -1}),
    (TokenTask, {"patterns": 65537, "zipf": 4.5}),
    (TokenMoE, {"experts": 0, "neurons": 0, "top": 0, "learning_rate": -1, "router_learning_rate": -1}),
    (PlantedStart, {"important": -1, "margin": 0, "others_norm": 0, "others_neurons": 0, "favourites": 0}),
    (PlantedStart, {"router_scale": 0, "neuron_scale": 0}),
    (RandomStart, {"router_scale": 0, "neuron_scale": 0}),
    (BranchStart, {"tasks": 0, "tokens": 1, "steps": 0, "batch": 0, "router_scale": 0, "neuron_scale": 0}),
    (BranchStart, {"tasks": 65, "router_learning_rate": -1}),
    (MixtureTask, {"experts": 1, "dimension": 1, "noise": 0, "gate_norm": -1, "first_share": 0}),
    (MixtureTask, {"experts": 65, "first_share": 1}),
    (Spectral, {"restarts": 0, "power_iterations": 0, "gate_rate": 0, "gate_iterations": -1, "joint_iterations": -1}),
    (JointEM, {"iterations": 0, "gate_rate": 0, "radius": 0}),
    (L4Loss, {"mu": -1, "penalty": -1, "ridge": -1, "rate": 0, "clip": 0, "steps": 0}),
    (L2Loss, {"rate": 0, "clip": 0, "steps": 0}),
    (LogLoss, {"radius": 0, "rate": 0, "clip": 0, "steps": 0}),
    *((kind, {"trials": 0, "first_trial": -1, "seed": -1, "record_every": 0, "samples": 0}) for kind in PARTS),
    (patch_routing.PatchRun, {"epochs": 0, "test_samples": 1, "samples": 1}),
    (specialization.ClusterRun, {"steps": 0, "test_samples": 0}),
    (pruning.TokenRun, {"steps": 0, "test_samples": 0, "batch": 0}),
    (LossRun, {"batch": 0}),
]
"""Bounds that the mathematics sets, written out here: each of these values lies just beyond a bound of its own."""


@pytest.mark.parametrize("kind, values", MEANINGLESS, ids=[f"{row[0].__name__} {list(row[1])}" for row in MEANINGLESS])
def test_values_without_a_meaning_are_refused(kind, values):
    for name, value in values.items():
        if name in kind.model_fields:  # pruning draws a fresh batch in each step: its Run has no samples
            assert _refused(kind, **{name: value}).startswith(f"{kind.knobs()[name].title} must be "), name


# --- rules between knobs ----------------------------------------------------------------------------------------------

RANGE = r"must be a range \(low, high\) with 0 < low <= high"
TOGETHER: list[tuple[type[Config], dict[str, Any], str]] = [
    (PatternTask, {"distractors": 16}, r"distractors must be at most patches \(n\) - 1, .*: got distractors=16, n=16"),
    (PatternTask, {"gap": 1.3}, r"gap must be at most 2 delta_r, .*: got gap=1.3, delta_r=0.6"),
    (PatternTask, {"gap": 1.0, "classes": 4}, r"gap must be at most 4/3 delta_r, .*: got gap=1.0, delta_r=0.6"),
    (PatternTask, {"gap": 0.8, "delta_d": 0.8}, r"gap must be at most 0.569 at this delta_d, .*: got gap=0.8, delta_d"),
    (
        PatternTask,
        {"classes": 4, "delta_d": -0.4},
        r"delta_d must be greater than -1/\(classes - 1\), .*: got delta_d=",
    ),
    (PatternTask, {"dimension": 5, "classes": 4}, r"dimension \(d\) must be at least classes \(c\) \+ 2, .*: got d=5"),
    (PatternTask, {"spurious": 0.5, "distractors": 15}, r"with spurious .*: got rho=0.5, n=16, distractors=15"),
    (
        PatternTask,
        {"spurious": 0.5, "pattern_sets": 3},
        r"with spurious .* pattern_sets .*: got rho=0.5, p=3, c=2",
    ),
    (
        VMoEConfig,
        {"capacity_factor": 1e-11, "capacity_ceil_or_round": "round"},
        r"capacity_factor must give an expert .*: got capacity_factor=1e-11, S=",
    ),
    (PatternTask, {"pattern_sets": 2}, r"pattern_sets \(p\) must be greater than classes \(c\), .*: got p=2, c=2"),
    (JointMoE, {"experts": 7}, r"neurons \(m\) must be divisible by experts \(k\), .*: got m=40, k=7"),
    (Sizes, {"patches_per_expert": 20}, r"patches_per_expert \(l\) must be at most patches \(n\): got l=20, n=16"),
    (ClusterTask, {"clusters": 26}, r"dimension \(d\) must be at least 2 clusters \(K\), .*: got d=50, K=26"),
    (ClusterTask, {"dimension": 7}, r"dimension \(d\) must be at least 2 clusters \(K\), .*: got d=7, K=4"),
    (ClusterTask, {"feature": (2, 1)}, rf"feature \(alpha\) {RANGE}.*: got alpha=\(2.0, 1.0\)"),
    (ClusterTask, {"center": (0, 1)}, rf"center \(beta\) {RANGE}.*: got beta=\(0.0, 1.0\)"),
    (ClusterTask, {"center": (1, NAN)}, r"center \(beta\) must be a finite number: got beta=nan"),
    (ClusterTask, {"feature_noise": (-1, 1)}, rf"feature_noise \(gamma\) {RANGE}.*: got gamma=\(-1.0, 1.0\)"),
    (ClusterTask, {"feature_noise": (1, 1e7)}, rf"feature_noise \(gamma\) {RANGE}.*: got gamma=\(1.0, 10000000.0\)"),
    *(
        (
            SwitchMoE,
            {"filters": 5, "activation": name},
            rf"filters \(J\) must be even, because half .* {name} .*: got J=5",
        )
        for name in ("relu", "celu", "gelu")
    ),
    (SwitchMoE, {"filters": 7, "objective": "authors"}, r"filters \(J\) must be even, because half .*: got J=7"),
    (TopKMoE, {"filters": 5, "activation": "relu"}, r"filters \(J\) must be even, because half .*: got J=5"),
    (
        TopKMoE,
        {"experts": 3, "experts_per_sample": 4},
        r"experts_per_sample \(k\) must be at most experts \(M\): got k=4, M=3",
    ),
    (SingleExpert, {"filters": 5}, r"filters \(J\) must be even, because half .*: got J=5"),
    (TokenTask, {"patterns": 8, "pair": 4}, r"pair must be less than half of the patterns \(d\), .*: got pair=4, d=8"),
    (TokenTask, {"patterns": 7, "pair": 3}, r"pair must be less than half of the patterns \(d\), .*: got pair=3, d=7"),
    (TokenMoE, {"experts": 7}, r"experts \(k\) must be even, because half of them vote -: got k=7"),
    (
        TokenMoE,
        {"routing": "token-choice", "experts": 4},
        r"top \(l\) must be at most experts \(k\) where tokens choose: got l=5, k=4",
    ),
    (MixtureTask, {"experts": 11}, r"dimension \(d\) must be at least experts \(k\), so that .*: got d=10, k=11"),
    (
        MixtureTask,
        {"experts": 10, "gating": "orthogonal"},
        r"dimension \(d\) must be greater than experts \(k\), so that gates .*: got d=10, k=10",
    ),
]


@pytest.mark.parametrize("kind, values, sentence", TOGETHER, ids=[f"{row[0].__name__} {row[1]}" for row in TOGETHER])
def test_values_that_do_not_fit_together_are_refused(kind, values, sentence):
    assert re.match(sentence, _refused(kind, **values)), _refused(kind, **values)


def test_values_that_just_fit_together_are_accepted():
    assert not any(SwitchMoE(activation=name, filters=5).two_signs for name in ("cubic", "linear", "tanh"))
    PatternTask(distractors=15), PatternTask(gap=1.2), PatternTask(dimension=6, classes=4), PatternTask(pattern_sets=3)
    ClusterTask(clusters=25), ClusterTask(dimension=8), ClusterTask(feature=(1, 1)), ClusterTask(center=(1, 1e6))
    TokenTask(patterns=9, pair=3), TokenMoE(routing="token-choice", experts=4, top=4), Sizes(patches_per_expert=16)
    MixtureTask(experts=10), MixtureTask(experts=9, gating="orthogonal")


# --- calls of train ---------------------------------------------------------------------------------------------------

SMALL = TokenTask(patterns=20, tokens=8)
BALANCED = {"samples": 300, "test_samples": 300}
TOKEN_CHOICE = TokenMoE(routing="token-choice")
NO_BASIS = r"signal_basis needs cubic filters, or filters without biases and with .*: got activation="
TRAIN = {
    patch_routing.PatchRun: patch_routing.train,
    specialization.ClusterRun: specialization.train,
    pruning.TokenRun: pruning.train,
    gridlock.MixtureRun: gridlock.train,
    LossRun: landscape.descend,
}
PATCHES, CLUSTERS, TOKENS = patch_routing.PatchRun, specialization.ClusterRun, pruning.TokenRun
CALLS: list[tuple[type[Config], dict[str, Any], str]] = [
    (
        PATCHES,
        {"model": JointMoE(patches_per_expert=20)},
        r"patches_per_expert \(l\) must be at most .*: got l=20, n=16",
    ),
    (PATCHES, {"model": SeparateMoE(patches_per_expert=17)}, r"patches_per_expert .*: got l=17, n=16"),
    (
        PATCHES,
        {"model": SeparateMoE(neurons=15)},
        r"neurons \(m\) must be divisible by classes \(c\), .*: got m=15, c=2",
    ),
    (
        PATCHES,
        {"model": SeparateMoE(neurons=39), "task": PatternTask(classes=3), **BALANCED},
        r"classes .* even .*: got c=3",
    ),
    (PATCHES, {"samples": 201}, r"samples \(N\) must be a positive multiple of classes \(2\), .*: got N=201"),
    (PATCHES, {"test_samples": 3}, r"test_samples \(N_test\) must be .*: got N_test=3"),
    (PATCHES, {"samples": 10}, r"batch_size \(B\) must be at most samples \(N\): got B=20, N=10"),
    (CLUSTERS, {"model": SwitchMoE(activation="tanh"), "signal_basis": True}, f"{NO_BASIS}'tanh', biases=False"),
    (CLUSTERS, {"model": SwitchMoE(activation="gelu"), "signal_basis": True}, f"{NO_BASIS}'gelu', biases=False"),
    (CLUSTERS, {"model": SwitchMoE.authors(activation="relu"), "signal_basis": True}, f"{NO_BASIS}'relu', biases=True"),
    (CLUSTERS, {"model": SingleExpert(activation="relu"), "signal_basis": True}, f"{NO_BASIS}'relu', biases=True"),
    (TOKENS, {"model": TokenMoE(top=9), "task": SMALL}, r"top .* tokens \(n\) where experts choose: got l=9, n=8"),
    (TOKENS, {"model": TokenMoE(experts=4)}, r"important experts must leave at least one .*: got important=2, k=4"),
    (
        TOKENS,
        {"model": TokenMoE(experts=40), "task": SMALL},
        r"experts .k. .* at most .*: got k=40, important=2, d=20",
    ),
    (TOKENS, {"model": TokenMoE(experts=6), "start": BranchStart(tasks=4)}, r"experts .* two per .*: got k=6, tasks=4"),
    (TOKENS, {"task": SMALL, "start": BranchStart(tasks=10)}, r"the pre-training tasks .* \(d\): got tasks=10, d=20"),
    (TOKENS, {"task": TokenTask(pair=4), "start": BranchStart(tasks=4)}, "pair must be one of .*: got pair=4, tasks=4"),
    (
        TOKENS,
        {"model": TOKEN_CHOICE, "start": BranchStart(tasks=5)},
        r"top .* the 4 experts of .*: got l=5, k=",
    ),
    (
        TOKENS,
        {"start": BranchStart(tokens=4)},
        r"top \(l\) .* the tokens in a pre-training sample .*: got l=5, tokens=4",
    ),
    (gridlock.MixtureRun, {"samples": 19}, r"samples \(n\) must be at least dimension .*: got n=19, d=10, k=2"),
    (LossRun, {"batch": 10, "samples": 5}, r"batch must be at most samples \(n\): got batch=10, n=5"),
    (LossRun, {"task": MixtureTask(first_share=0.5)}, r"L4 needs inputs from N\(0, I\).*: got first_share=0.5"),
]


@pytest.mark.parametrize("kind, values, sentence", CALLS, ids=[f"{row[0].__module__} {list(row[1])}" for row in CALLS])
def test_runs_that_do_not_fit_are_refused_at_the_call(kind, values, sentence):
    """Before the first Snapshot is asked for."""
    model, task, more = (parts := dict(PARTS[kind] | values)).pop("model"), parts.pop("task"), parts
    with pytest.raises(ConfigError, match=f"^{sentence}") as raised:
        TRAIN[kind](model, task, **more)
    assert "\n" not in str(raised.value)


DEVICES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"device": "gpu"}, ValueError, r"^device must be 'auto', .*: got device='gpu'$"),
    ({"device": "cuda:77"}, RuntimeError, "^device 'cuda:77' is not present on this machine"),
    ({"device": "mps"}, RuntimeError, "^device 'mps' is not present on this machine"),
    ({"trials": 0}, ConfigError, r"^trials.* must be at least 1: got "),
    ({"velocity": 1}, ConfigError, r"has no parameter 'velocity': it takes model, task, "),
]


@pytest.mark.parametrize("values, error, sentence", DEVICES, ids=[str(row[0]) for row in DEVICES])
@pytest.mark.parametrize("kind", TRAIN, ids=lambda kind: f"{kind.__module__[8:]}")
def test_devices_that_are_not_there_are_refused_at_the_call(kind, values, error, sentence):
    if values == {"device": "mps"} and torch.backends.mps.is_available():
        pytest.skip("this machine has an MPS device")
    with pytest.raises(error, match=sentence):
        TRAIN[kind](*PARTS[kind].values(), **values)


@pytest.mark.parametrize(
    "kind", [kind for kind in PARTS if issubclass(kind, RunConfig)], ids=lambda kind: f"{kind.__module__[8:]}"
)
def test_parts_of_another_room_are_refused(kind):
    """Through Run, which `train` makes: under pytest, `train`'s own types are checked before its body."""
    other = PARTS[gridlock.MixtureRun if kind is specialization.ClusterRun else specialization.ClusterRun]
    parts = [name for name in kind.model_fields if isinstance(kind.model_fields[name].default, Config)]
    for name in ("model", "task", *parts):
        rule = f"{name} must be {' or '.join(option.__name__ for option in _types(kind, name))}: got {name}="
        for value in ("mixture", None, other.get(name, other["task"])):
            assert _refused(kind, **{name: value}).startswith(f"{rule}{shown(value)}")


def test_files_that_do_not_exist_are_named():
    with pytest.raises(FileNotFoundError, match="root='/nowhere'"):
        patch_routing.train(JointMoE(), DigitTask(source="mnist", root="/nowhere"))


def test_runs_of_a_batch_must_fit_together():
    with pytest.raises(ValueError, match="train_batch needs at least one run"):
        patch_routing.train_batch([])
    runs = [patch_routing.PatchRun(model=CNN(), task=PatternTask(noise=noise)) for noise in (0.1, 0.2)]
    with pytest.raises(ValueError, match=r"runs of one batch may differ in samples, trials, .* only: got first="):
        patch_routing.train_batch(runs)


def test_runs_that_just_fit_are_trained():
    """The neighbours of what pruning refuses."""
    short: dict[str, Any] = {"steps": 2, "batch": 2}
    runs: list[tuple[TokenMoE, TokenTask, dict[str, Any]]] = [
        (TokenMoE(top=8), SMALL, {}),
        (TokenMoE(top=1), TokenTask(patterns=20, tokens=2), {}),
        (TokenMoE(experts=6), SMALL, {"start": PlantedStart(important=2)}),
        (TokenMoE(experts=22), SMALL, {}),
        (TokenMoE(experts=8), SMALL, {"start": BranchStart(tasks=4, **short)}),
        (TokenMoE(experts=18), SMALL, {"start": BranchStart(tasks=9, **short)}),
        (TOKEN_CHOICE.replace(top=4), SMALL, {"start": BranchStart(tasks=5, **short)}),
        (TokenMoE(), SMALL, {"start": BranchStart(tasks=2, tokens=5, **short)}),
        (TokenMoE(experts=2, neurons=1), TokenTask(patterns=3, tokens=8), {"start": RandomStart()}),
        (TokenMoE(learning_rate=0, router_learning_rate=0), SMALL, {"start": RandomStart()}),
    ]
    for model, task, more in runs:
        *_, last = pruning.train(model, task, trials=1, test_samples=8, device="cpu", **short, **more)
        assert last.step == 2 and not last.diverged.any()


# --- samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [ClusterTask(), TokenTask(), MixtureTask()], ids=lambda task: type(task).__name__)
def test_samples_need_a_number_trials_and_a_seed(task):
    for samples in (0, -1):
        with pytest.raises(ValueError, match=rf"^samples \([Nn]\) must be at least 1: got [Nn]={samples}$"):
            task.sample(samples, trials=[0], seed=0)
    with pytest.raises(ValueError, match=r"^trials must name at least one trial: got trials=\[\]$"):
        task.sample(5, trials=[], seed=0)
    with pytest.raises(ValueError, match=r"^seed and trial must be at least 0: got seed=0, trial=-1$"):
        task.sample(5, trials=[-1], seed=0)
    with pytest.raises(ValueError, match=r"^seed and trial must be at least 0: got seed=-2, trial=0$"):
        task.sample(5, trials=[0], seed=-2)


@pytest.mark.parametrize("samples", [0, -2, 7])
@pytest.mark.parametrize("task", [PatternTask(), DigitTask()], ids=lambda task: type(task).__name__)
def test_samples_of_two_classes_must_balance(task, samples):
    with pytest.raises(ValueError, match=rf"samples \(N\) must be a positive multiple of classes \(2\).*N={samples}$"):
        task.sample(samples, trials=[0], seed=0)


@pytest.mark.parametrize("number", [0, 5, -1])
def test_there_are_four_settings(number):
    with pytest.raises(ValueError, match=rf"^setting must be 1, 2, 3 or 4: got setting={number!r}$"):
        ClusterTask.setting(number)


@pytest.mark.parametrize("activation, biases", [("tanh", False), ("relu", True)])
def test_there_is_no_signal_basis_for_these_activations(activation, biases):
    from moe_lab.specialization.layer import Layer

    samples = ClusterTask().sample(5, trials=[0], seed=0)
    with pytest.raises(ValueError, match=rf"^signal_basis needs .*: got activation='{activation}', biases={biases}$"):
        Layer(samples, activation, torch.ones(2), biases, signal_basis=True)


# --- arrays -----------------------------------------------------------------------------------------------------------


class _Given(OwnModel):
    """A linear function, with an array of the user's as a weight that it does not use."""

    @classmethod
    def initial_of(cls, array: Any) -> None:
        class Model(cls):  # type: ignore[misc,valid-type]
            def initial(self, trial, seed, sizes):
                return {"x": array, "w": np.ones((sizes.outputs, sizes.patches, sizes.dimension))}

            def forward(self, weights, patches):
                return Routed((weights["w"][:, :, None] * patches[:, None]).sum((-1, -2)))

        next(patch_routing.train(Model(), PatternTask(), samples=40, trials=2, epochs=1, test_samples=40))


def _swept(array: Any) -> None:
    list(sweep(lambda points, trials, seed: {"x": array}, {"axis": (1, 2)}, trials=2))


PLACES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "patch_routing.ArrayTask": ("x", lambda x: patch_routing.ArrayTask(x=[x] * 4, y=[0, 1, 0, 1])),
    "specialization.ArrayTask": ("x", lambda x: specialization.ArrayTask(x=x, y=[-1, 1])),
    "labels": ("y", lambda x: specialization.ArrayTask(x=[[1.0], [2.0]], y=x)),
    "clusters": ("cluster", lambda x: specialization.ArrayTask(x=[[1.0], [2.0]], y=[-1, 1], cluster=x)),
    "places": ("signal", lambda x: patch_routing.ArrayTask(x=[[[1.0]]] * 4, y=[0, 1, 0, 1], signal=x)),
    "weights": ("the initial x", _Given.initial_of),
    "a sweep": ("x", _swept),
    "a table of gates": ("gates", lambda x: gate_table(Figure().add_subplot(), x)),
}
"""Where users give arrays, and what they call them there."""
NOT_FINITE = ("NaN", "infinite")


@pytest.mark.parametrize("form", NO_NUMBERS)
@pytest.mark.parametrize("place", PLACES)
def test_arrays_that_carry_more_than_numbers_are_refused_everywhere(place, form):
    (name, give), (make, rule) = PLACES[place], NO_NUMBERS[form]
    if place == "a sweep" and form in NOT_FINITE:
        give(make(np.abs(np.array([[0.0, 1.0], [2.0, 3.0]]))))  # measures of trials that diverged
        return
    with pytest.raises(UserError) as raised:
        give(make(np.array([[0.0, 1.0], [2.0, 3.0]])))
    head, _ = rule.split(": got ")
    if form == "a mapping":
        head = "(be an array of|hold) numbers"
    pattern = f"{name} must {head.replace('(fill', '.fill')}: got "
    assert re.search(pattern, str(raised.value)), str(raised.value)
    assert "\n" not in str(raised.value) and len(str(raised.value)) <= 300


@pytest.mark.parametrize("form", OF_THE_SAME_NUMBERS)
def test_every_form_of_an_array_is_the_same_task(form):
    x = np.array([[0.0, 1.0], [2.0, -3.0]])
    given_ = OF_THE_SAME_NUMBERS[form](x)
    assert specialization.ArrayTask(x=given_, y=[-1, 1]) == specialization.ArrayTask(x=x, y=[-1, 1])
    tasks = [patch_routing.ArrayTask(x=[part] * 4, y=[0, 1, 0, 1]) for part in (given_, x)]
    assert tasks[0] == tasks[1]


@pytest.mark.parametrize("form", NO_NUMBERS)
def test_the_estimator_refuses_what_is_no_array_of_numbers(form):
    """With scikit-learn's words where scikit-learn refuses by itself."""
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    wrong, model = NO_NUMBERS[form][0](x), MixtureOfExpertsRegressor(1, method="joint-em", random_state=0)
    with pytest.raises((ValueError, TypeError)):
        model.fit(wrong, x[:, 0])
    with pytest.raises((ValueError, TypeError)):
        model.fit(x, wrong)
    model.fit(x, x[:, 0])
    with pytest.raises((ValueError, TypeError)):
        model.predict(wrong)


@pytest.mark.parametrize("form", [form for form in OF_THE_SAME_NUMBERS if form != "a Series of arrays"])
def test_the_estimator_computes_the_same_of_every_form(form):
    x, model = np.array([[0.0, 1.0], [2.0, -3.0]]), MixtureOfExpertsRegressor(1, method="joint-em", random_state=0)
    wanted = model.fit(x, x[:, 0]).predict(x)
    given_ = OF_THE_SAME_NUMBERS[form](x)
    np.testing.assert_array_equal(model.fit(given_, x[:, 0]).predict(given_), wanted)
