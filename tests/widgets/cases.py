"""The Labs as their tests drive them: small settings, moves, refusals, and how their numbers compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import xarray as xr

import moe_lab_widgets
from moe_lab.recovery.gridlock.training import MEASURES
from moe_lab.registry import LABS
from moe_lab_hub import repair
from moe_lab_widgets import Lab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.declaration import Declaration
from moe_lab_widgets.labs import balance, landscape, patch_map, pruning_seen
from moe_lab_widgets.labs import gridlock_record as gridlock
from moe_lab_widgets.labs import phase_transition as phase
from moe_lab_widgets.labs import pruning_record as pruning
from moe_lab_widgets.labs import routing_choices as choices
from moe_lab_widgets.labs import stuck_rate as stuck
from moe_lab_widgets.labs.gridlock_stories import PRINTED
from moe_lab_widgets.labs.router_alignment_runs import DIGITS, SYNTHETIC
from tests.helpers.effort import one_in

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Move:
    """A value of a knob, the words that it puts into code and call, and the runs of a pair that it changes (or all)."""

    value: Any
    words: str
    reaches: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One Lab.

    Attributes:
      name: its class.
      small: values with which a run takes a fraction of a second.
      shorter: (mapping or module, key, value) of constants that are replaced meanwhile.
      moves: a move of every knob that is not view-only, made one after the other from `moved_from`.
      views: another value of every view-only knob.
      greyed: the knobs without effect at some values.
      follows: a knob and its value, and the values that other knobs then take.
      refused: values (set from `refused_from`) that a run refuses, and the sentence.
      unheld: values that no widget can take, and the sentence.
      ends: the ends of sliders at which no run can begin (0 low, 1 high).
      room: values beside which the ends of a slider are tried.
      codes: settings whose copied code is compared with the Lab.
      compared: pairs (the numbers of the code, those of the Lab).
      check_data: asserts that saved data hold the Lab's numbers.
      diverges: sentences when trials 1 and 3 diverged.
      lose: has two trials of a record diverge, where a record has no Snapshots.
      drag: a knob and three values.
      pins: how many curves a pin keeps.
    """

    name: str
    small: Values
    shorter: tuple[tuple[Any, Any, Any], ...] = ()
    moves: Mapping[str, Move]
    moved_from: Values
    views: Values
    greyed: tuple[tuple[Values, frozenset[str]], ...] = ()
    follows: tuple[tuple[str, Any, Values], ...] = ()
    refused: tuple[tuple[Values, str], ...]
    refused_from: Values
    unheld: tuple[tuple[Values, str], ...]
    ends: frozenset[tuple[str, int]] = frozenset()
    room: Mapping[str, Values]
    codes: tuple[Values, ...] = ({},)
    compared: Callable[[dict[str, Any], Lab], Iterable[tuple[Any, Any]]]
    check_data: Callable[[xr.Dataset, Lab], None]
    diverges: tuple[str, ...]
    lose: Callable[[Any], None] | None = None
    drag: tuple[str, tuple[Any, Any, Any]]
    pins: int = 2

    @property
    def kind(self) -> type[Lab]:
        kind: type[Lab] = getattr(moe_lab_widgets, self.name)
        return kind

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of every knob, of the seed and of the device."""
        return {**{knob.name: knob.default for knob in self.kind.knobs}, "seed": 0, "device": "auto"}

    @contextmanager
    def short_runs(self) -> Iterator[None]:
        """Replaces the constants that make runs long."""
        with pytest.MonkeyPatch.context() as patch:
            for owner, key, value in self.shorter:
                if isinstance(owner, Mapping):
                    patch.setitem(owner, key, value)  # type: ignore[arg-type]
                else:
                    patch.setattr(owner, key, value)
            yield


def _last(names: Mapping[str, str]) -> Callable[[dict[str, Any], Lab], Iterator[tuple[Any, Any]]]:
    """Compares the last Snapshots of runs with variables of the code."""

    def compared(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
        for run, variable in names.items():
            part = lab.record.parts[run]
            yield from ((variables[variable][measure], part[measure]) for measure in part.values)

    return compared


# ---- router alignment ----


def _router_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["model"].values) == ["joint", "cnn"]
    kept = data["test_accuracy"].sel(model="cnn").dropna("step").isel(step=-1)
    np.testing.assert_allclose(kept, lab.record.of("cnn")["test_accuracy"])
    assert data.attrs["call_joint"] == lab.record.of().origin["call"]


ROUTER_MOVES = {
    "steps": Move(40, "epochs=20"), "patches_per_expert": Move(2, "patches_per_expert=2", ("joint",)),
    "experts": Move(5, "experts=5", ("joint",)), "patches": Move(20, "patches=20"), "samples": Move(60, "samples=60"),
    "noise": Move(0.8, "noise=0.8"), "neurons": Move(80, "neurons=80"), "trials": Move(3, "trials=3"),
    "seed": Move(3, "seed=3"), "distractors": Move(2, "distractors=2"), "gap": Move(0.5, "gap=0.5"),
    "delta_d": Move(0.3, "delta_d=0.3"), "delta_r": Move(0.7, "delta_r=0.7"), "source": Move(DIGITS, "DigitTask("),
}  # fmt: skip
ROUTER = Case(
    name="RouterAlignmentLab",
    small={"trials": 2, "steps": 20, "samples": 40},
    moved_from={"source": SYNTHETIC},
    moves=ROUTER_MOVES,
    views={},
    greyed=(
        ({"source": DIGITS}, frozenset({"distractors", "gap", "delta_d", "delta_r"})),
        ({"source": SYNTHETIC}, frozenset()),
    ),
    follows=(("source", SYNTHETIC, {"patches_per_expert": 6, "samples": 200, "steps": 200, "noise": 0.3}),),
    refused_from={},
    refused=(
        (
            {"patches_per_expert": 10, "patches": 8},
            "patches_per_expert (l) must be at most patches (n): got l=10, n=8",
        ),
        (
            {"experts": 3},
            "neurons (m) must be divisible by experts (k), so that all experts have the same size: got m=40, k=3",
        ),
        ({"source": SYNTHETIC, "patches_per_expert": 4, "gap": 1.2, "delta_r": 0.3}, "gap must be at most 2 delta_r"),
        ({"source": SYNTHETIC, "patches_per_expert": 4, "delta_d": 0.9}, "gap must be at most 0.402 at this delta_d"),
        (
            {"samples": 41},
            "samples (N) must be a positive multiple of classes (2), so that classes are balanced: got N=41",
        ),
        ({"samples": 10}, "batch_size (B) must be at most samples (N): got B=20, N=10"),
    ),
    unheld=(
        ({"expert": 3}, "RouterAlignmentLab has no parameter 'expert'"),
        (
            {"source": "mnist"},
            "source must be one of 'digits', 'synthetic', because 'mnist' must be named first: "
            "mnist='a folder of its IDX files', or mnist='download': got source='mnist'",
        ),
        ({"noise": "loud"}, "noise must be a finite number: got noise='loud'"),
        ({"noise": float("nan")}, "noise must be a finite number: got noise=nan"),
        ({"samples": 100.5}, "samples (N) must be a whole number: got samples=100.5"),
    ),
    room={},
    codes=({}, {"source": SYNTHETIC, "gap": 0.6, "experts": 2, "seed": 4}),
    compared=_last({"joint": "joint", "cnn": "cnn"}),
    check_data=_router_data,
    diverges=("The mixture's loss became infinite in trials 1, 3", "The CNN's loss became infinite in trials 1, 3"),
    drag=("noise", (0.1, 0.5, 0.9)),
)

# ---- phase transition ----


def _phase_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    last = lab.records[-1].of().dataset()
    yield from ((variables["result"][name], last[name]) for name in ("success", "test_accuracy", "coverage"))


def _phase_data(data: xr.Dataset, lab: Lab) -> None:
    np.testing.assert_array_equal(data["test_accuracy"], lab.records[-1]["test_accuracy"])
    assert data.attrs["seed"] == 0 and "PatternTask" in data.attrs["config"]


def _lose_trainings(record: Any) -> None:
    values = record.of().values
    best = values["success"].mean(-1).argmax()
    trials = values["success"][best].argsort()[-2:]
    for name, value in values.items():
        value[best, trials] = 0 if name == "success" else np.nan


PHASE_MOVES = {
    "patches": Move(4, "patches=4"), "gap": Move(0.4, "gap=0.4"), "delta_d": Move(-0.4, "delta_d=-0.4"),
    "delta_r": Move(0.8, "delta_r=0.8"), "noise": Move(0.5, "noise=0.5"), "seed": Move(4, "seed=4"),
    "distractors": Move(1, "distractors=1"), "experts": Move(2, "experts=2"), "trials": Move(10, "trials=10"),
    "training": Move(phase.SEPARATE, "SeparateMoE("), "source": Move(phase.DIGITS, "DigitTask("),
}  # fmt: skip
PHASE = Case(
    name="PhaseTransitionLab",
    small={"trials": 5, "patches": 5},
    shorter=tuple((phase.SAMPLES, key, (20, 60)) for key in phase.SAMPLES),
    moved_from={"training": phase.JOINT},
    moves=PHASE_MOVES,
    views={},
    greyed=(
        ({}, frozenset({"experts"})),
        ({"training": phase.JOINT}, frozenset()),
        ({"source": phase.DIGITS}, frozenset({"experts", "distractors", "gap", "delta_d", "delta_r"})),
    ),
    follows=(("source", phase.DIGITS, {"noise": 0.0}),),
    refused_from={},
    refused=(
        ({"delta_r": 0.5}, "gap must be at most 2 delta_r"),
        ({"delta_d": 0.5}, "gap must be at most 0.9 at this delta_d"),
        ({"patches": 4, "distractors": 4}, "distractors must be at most patches (n) - 1"),
        ({"training": phase.JOINT, "delta_r": 0.1}, "gap must be at most 2 delta_r"),
    ),
    unheld=(
        ({"patch": 3}, "PhaseTransitionLab has no parameter 'patch'"),
        ({"training": "none"}, "training must be one of 'separate', 'joint': got training='none'"),
    ),
    ends=frozenset({("distractors", 1), ("delta_d", 1), ("delta_r", 0)}),
    room={},
    codes=({}, {"training": phase.JOINT, "source": phase.DIGITS, "trials": 6, "seed": 2}),
    compared=_phase_numbers,
    check_data=_phase_data,
    diverges=("In 2 trainings the loss became infinite; they count as failures.",),
    lose=_lose_trainings,
    drag=("noise", (0.1, 0.4, 0.6)),
    pins=3,
)

# ---- specialisation ----


def _specialization_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    study, reference = lab.record.names
    assert reference == ("cubic" if study == "linear" else "linear")
    yield from _last({study: study, reference: reference})(variables, lab)


def _specialization_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["model"].values) == ["cubic", "linear"]
    assert len(data["step"]) == len(lab.records) - 1, "the first record has no reference"
    np.testing.assert_allclose(data["dispatch"].sel(model="linear").isel(step=-1), lab.record.of("linear")["dispatch"])
    assert data.attrs["call_linear"] == lab.record.of("linear").origin["call"]
    assert data.attrs["call_cubic"] == lab.record.of("cubic").origin["call"]


SPECIALIZATION_MOVES = {
    "experts": Move(3, "experts=3"), "clusters": Move(5, "clusters=5"), "noise": Move(2.25, "noise=2.25"),
    "activation": Move("tanh", "activation='tanh'", ("tanh",)),
    "router_learning_rate": Move(4.5, "router_learning_rate=4.5"), "router_noise": Move(0.4, "router_noise=0.4"),
    "samples": Move(600, "samples=600"), "load_balancing": Move(0.02, "load_balancing=0.02"),
    "gamma": Move(3.25, "feature_noise=(0.5, 3.25)"), "filters": Move(5, "filters=5"),
    "learning_rate": Move(0.03, "learning_rate=0.03"), "steps": Move(60, "steps=60"), "patches": Move(6, "patches=6"),
    "dimension": Move(30, "dimension=30"), "trials": Move(4, "trials=4"), "seed": Move(3, "seed=3"),
}  # fmt: skip
SPECIALIZATION = Case(
    name="SpecializationLab",
    small={"trials": 2, "steps": 20, "samples": 200},
    moved_from={},
    moves=SPECIALIZATION_MOVES,
    views={},
    greyed=(
        ({}, frozenset()),
        ({"experts": 1}, frozenset({"router_learning_rate", "router_noise", "load_balancing"})),
        ({"patches": 3}, frozenset({"noise"})),
    ),
    refused_from={},
    refused=(
        (
            {"clusters": 8, "dimension": 14},
            "dimension (d) must be at least 2 clusters (K), so that all signals can be",
        ),
        (
            {"activation": "relu", "filters": 7},
            "filters (J) must be even, because half of the relu filters have a_j = -1: got J=7",
        ),
        ({"experts": 0}, "experts (M) must be at least 1: got M=0"),
        ({"gamma": 0.25}, "feature_noise (gamma) must be a range (low, high)"),
    ),
    unheld=(
        ({"expert": 3}, "SpecializationLab has no parameter 'expert'"),
        ({"activation": "swish"}, "activation (σ) must be one of 'cubic', 'linear', 'relu', 'celu', 'gelu', 'tanh'"),
        ({"noise": float("nan")}, "noise (σ_p) must be a finite number: got noise=nan"),
        ({"experts": 2.5}, "experts (M) must be a whole number: got experts=2.5"),
    ),
    room={},
    codes=(
        {},
        {"gamma": 3.0, "noise": 2.0, "experts": 2, "seed": 4},
        {"activation": "linear"},
        {"activation": "gelu"},
    ),
    compared=_specialization_numbers,
    check_data=_specialization_data,
    diverges=("The loss of the cubic experts became infinite in trials 1, 3: try smaller steps.", "linear experts"),
    drag=("noise", (0.5, 2.0, 3.5)),
    pins=4,
)

# ---- pruning ----


def _pruning_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    now = MarkRecord(lab.record.seen_with(lab.values))
    found = pruning_seen.outcome(now)
    assert bool(found.steps > 0) == lab.values["fine_tune"]
    yield variables["accuracy"].numpy(), found.tuned.numpy()
    yield variables["kept"][0].numpy(), pruning_seen.kept(now)[0].numpy()


def _pruning_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["criterion"].values) == list(pruning.OFFERED)
    np.testing.assert_allclose(data["rho"], [0, 0.25, 0.5, 0.75])
    np.testing.assert_array_equal(data["step"], sorted({record.step for record in lab.records}))
    own, place = data.sel(criterion="random"), list(pruning.OFFERED).index("random")
    np.testing.assert_allclose(own["pruned_accuracy"], lab.record["pruned_accuracy"][:, place])
    np.testing.assert_array_equal(own["kept"].sum("expert"), [[8, 6, 4, 2]] * len(own["trial"]))
    assert data["tuning_steps"].values.tolist() == [10, 20] and np.isfinite(own["tuned_accuracy"]).all()
    assert data.attrs["code"] == lab.code(lab.values)
    np.testing.assert_allclose(data["norm_change"].isel(step=-1), lab.record["norm_change"])


PRUNING_MOVES = {
    "steps": Move(50, "steps=50"), "router_learning_rate": Move(0.03, "router_learning_rate=0.03"),
    "top": Move(3, "top=3"), "experts": Move(10, "experts=10"), "others_norm": Move(5.0, "others_norm=5.0"),
    "important": Move(1, "important=1"), "others_neurons": Move(0.1, "others_neurons=0.1"),
    "tokens": Move(60, "tokens=60"), "patterns": Move(140, "patterns=140"), "trials": Move(3, "trials=3"),
    "seed": Move(4, "seed=4"), "loss": Move("hinge", "loss='hinge'"),
    "routing": Move("token-choice", "routing='token-choice'"), "start": Move("random", "start=RandomStart()"),
}  # fmt: skip
PRUNING = Case(
    name="PruningLab",
    small={
        **{"trials": 2, "steps": 30, "experts": 8, "patterns": 100, "tokens": 40},
        **{"tuning_steps": 20, "router_learning_rate": 0.1},
    },
    moved_from={},
    moves=PRUNING_MOVES,
    views={"rho": 0.5, "criterion": "importance-score", "fine_tune": True, "tuning_steps": 10, "shown": 2},
    greyed=(
        ({}, frozenset()),
        ({"start": "random"}, frozenset({"important", "others_norm", "others_neurons"})),
    ),
    follows=(
        ("routing", "token-choice", {"top": 2, "steps": 200, "others_neurons": 0.02}),
        ("start", "random", {"router_learning_rate": 0.01, "steps": 300}),
    ),
    refused_from={},
    refused=(
        ({"experts": 7}, "experts (k) must be even, because half of them vote -: got k=7"),
        (
            {"routing": "token-choice", "top": 9},
            "top (l) must be at most experts (k) where tokens choose: got l=9, k=8",
        ),
        ({"tokens": 10, "top": 12}, "top (l) must be at most tokens (n) where experts choose: got l=12, n=10"),
        ({"important": 4}, "important experts must leave at least one other in each half of the experts (k)"),
        ({"start": "pre-trained", "experts": 6}, "experts (k) must be at least two per pre-training task"),
        ({"rho": 1.0}, "rho, the share of experts pruned, must be at least 0 and less than 1: got rho=1.0"),
        ({"tuning_steps": 15}, "tuning_steps (T') must be a positive multiple of 10: got T=15"),
    ),
    unheld=(
        ({"expert": 3}, "PruningLab has no parameter 'expert'"),
        ({"criterion": "size"}, "criterion must be one of 'router-norm-change', 'random'"),
        ({"start": "warm"}, "start must be one of 'planted', 'random', 'pre-trained': got start='warm'"),
        ({"rho": float("nan")}, "rho (ρ) must be a finite number: got rho=nan"),
        ({"top": 2.5}, "top (l) must be a whole number: got top=2.5"),
    ),
    ends=frozenset({("important", 1), ("experts", 0)}),
    room={},
    codes=(
        {},
        {"criterion": "router-magnitude", "rho": 0.5, "fine_tune": True, "seed": 4},
        {"criterion": "reversed-norm-change", "start": "random", "rho": 0.25, "fine_tune": True},
        {"routing": "token-choice", "top": 2, "fine_tune": True, "rho": 0.6},
        {"loss": "hinge", "fine_tune": True, "criterion": "random", "rho": 0.4},
        {"start": "pre-trained", "rho": 0.7},
    ),
    compared=_pruning_numbers,
    check_data=_pruning_data,
    diverges=("The loss became infinite in trials 1, 3",),
    drag=("router_learning_rate", (0.02, 0.03, 0.04)),
    pins=1,
)

# ---- gridlock ----

POWER, AFTER = 4, 5
"""Iterations of the power method for each regressor, and of EM for everything after it, in these tests."""


def _gridlock_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["model"].values) == ["spectral", "joint", "best"]
    spectral = data["error"].sel(model="spectral").dropna("step", how="all")
    every = lab.values["experts"] * POWER + gridlock.GATE_ITERATIONS + AFTER
    assert spectral["step"].values.tolist() == list(range(0, every + 1, gridlock.POWER_EVERY))
    np.testing.assert_allclose(spectral.isel(step=-1), lab.record.of("spectral")["error"])
    np.testing.assert_allclose(data["error"].sel(model="joint", step=24), lab.record.of("joint")["error"])
    assert data.attrs["call_joint"] == lab.record.of("joint").origin["call"]
    best = data["error"].sel(model="best").dropna("step", how="all")
    np.testing.assert_allclose(best.isel(step=-1), lab.record.last("error", gridlock.BEST))


def _gridlock_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    for name, part in lab.record.parts.items():
        yield from ((variables[name][measure], part[measure]) for measure in MEASURES)


GRIDLOCK_MOVES = {
    "samples": Move(700, "samples=700"), "noise": Move(0.3, "noise=0.3"), "dimension": Move(7, "dimension=7"),
    "experts": Move(4, "experts=4"), "first_share": Move(0.3, "first_share=0.3"),
    "gating": Move("orthogonal", "gating='orthogonal'"), "iterations": Move(28, "JointEM(iterations=28)", ("joint",)),
    "trials": Move(1, "trials=1"), "seed": Move(3, "seed=3"), "third": Move("y", "third='y'", ("spectral",)),
    "activation": Move("leaky-relu", "activation='leaky-relu'"),
    "regressors": Move("random", "MixtureTask(experts=4, dimension=7, noise=0.3, activation='leaky-relu'"),
}  # fmt: skip
GRIDLOCK = Case(
    name="GridlockLab",
    small={"experts": 3, "dimension": 6, "samples": 600, "trials": 2, "iterations": 24},
    shorter=(
        (gridlock, "POWER_ITERATIONS", POWER),
        (gridlock, "EVERYTHING_ITERATIONS", AFTER),
    ),
    moved_from={},
    moves=GRIDLOCK_MOVES,
    views={"shown": 2},
    refused_from={"samples": 1500},
    refused=(
        ({"dimension": 4, "experts": 6}, "dimension (d) must be at least experts (k)"),
        (
            {"dimension": 6, "experts": 6, "gating": "orthogonal"},
            "dimension (d) must be greater than experts (k), so that gates can be orthogonal to all regressors: got",
        ),
        ({"samples": 10}, "samples (n) must be at least dimension (d) times experts (k)"),
        ({"third": PRINTED, "activation": "tanh"}, "only where the paper prints it"),
    ),
    unheld=(
        ({"expert": 3}, "GridlockLab has no parameter 'expert'"),
        ({"activation": "swish"}, "activation (g) must be one of 'identity', 'relu', 'leaky-relu', 'sigmoid', 'tanh'"),
        ({"first_share": 2}, "first_share (p) must be one of 'none', 0.1, 0.3, 0.5: got first_share=2"),
        ({"noise": float("nan")}, "noise (σ) must be a finite number: got noise=nan"),
        ({"experts": 2.5}, "experts (k) must be a whole number: got experts=2.5"),
    ),
    room={"experts": {"dimension": 16, "samples": 4000}},
    codes=({"activation": "relu", "first_share": 0.3, "third": PRINTED, "seed": 4},),
    compared=_gridlock_numbers,
    check_data=_gridlock_data,
    diverges=(
        "Joint EM ran into infinite numbers in trials 1, 3.",
        "The spectral method has no result in trials 1, 3: T₂ has fewer than k positive eigenvalues",
    ),
    drag=("noise", (0.3, 0.5, 0.7)),
    pins=5,
)

# ---- stuck rate ----


def _stuck_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    last = lab.records[-1].of().dataset()
    yield from ((variables["result"][name].round(6), last[name].round(6)) for name in last.data_vars)


def _stuck_data(data: xr.Dataset, lab: Lab) -> None:
    np.testing.assert_array_equal(data["regressor_fit"], lab.records[-1]["regressor_fit"])
    assert data.attrs["seed"] == 0 and data.attrs["call"].startswith("stuck_rate(")


def _lose_starts(record: Any) -> None:
    table = record.of()
    k, samples = table.grid["k"][0], table.grid["samples"][-1]
    best = table.points.index({"algorithm": "spectral+em", "k": k, "samples": samples})
    for value in table.values.values():
        value[best, [0, 2]] = np.nan


STUCK_MOVES = {
    "dimension": Move(5, "d=5"), "noise": Move(0.3, "noise=0.3"), "seed": Move(4, "seed=4"),
    "regressors": Move("random", "regressors='random'"), "step": Move(stuck.GRADIENT, "'joint-em-gradient'"),
    "iterations": Move(40, "joint_iterations=40"), "trials": Move(5, "trials=5"),
}  # fmt: skip
STUCK = Case(
    name="StuckRateLab",
    small={"trials": 3, "dimension": 4, "iterations": 20},
    shorter=((stuck, "EXPERTS", (2, 3)), (stuck, "SAMPLES", (200,)), (stuck, "AFTER_SPECTRAL", 20)),
    moved_from={},
    moves=STUCK_MOVES,
    views={},
    greyed=(({}, frozenset()),),
    refused_from={},
    refused=(
        ({"iterations": 10}, "iterations must be at least window"),
        ({"noise": 0.0}, "noise (sigma) must be greater than 0"),
    ),
    unheld=(
        ({"step": "Newton"}, "step must be one of 'EM', 'gradient EM': got step='Newton'"),
        ({"experts": 3}, "StuckRateLab has no parameter 'experts'"),
    ),
    room={},
    codes=({}, {"step": stuck.GRADIENT, "regressors": "random", "seed": 2}),
    compared=_stuck_numbers,
    check_data=_stuck_data,
    diverges=("2 starts ended without a result",),
    lose=_lose_starts,
    drag=("noise", (0.2, 0.4, 0.6)),
    pins=4,
)

# ---- landscape ----


def _landscape_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    for method, run in variables["runs"].items():
        steps, errors = lab.record.curve("regressor_error", method)
        yield run["step"].values, steps
        yield run["regressor_error"].values, errors
    yield from _last({"L4": "L4", "l2": "l2"})(variables, lab)


def _landscape_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["model"].values) == ["L4", "l2"]
    for method in ("L4", "l2"):
        last = data["regressor_error"].sel(model=method, step=100)
        np.testing.assert_allclose(last, lab.record.of(method)["regressor_error"])
        assert data.attrs[f"call_{method}"] == lab.record.of(method).origin["call"]


LANDSCAPE_MOVES = {
    "mu": Move(0.05, "mu=0.05", ("L4",)), "penalty": Move(2.0, "penalty=2.0", ("L4",)),
    "ridge": Move(0.5, "ridge=0.5", ("L4",)), "rate": Move(0.03, "rate=0.03", ("L4",)),
    "l2_rate": Move(0.2, "rate=0.2", ("l2",)), "batch": Move(128, "batch=128"), "steps": Move(200, "steps=200"),
    "noise": Move(0.3, "noise=0.3"), "dimension": Move(6, "dimension=6"), "experts": Move(3, "experts=3"),
    "trials": Move(3, "trials=3"), "seed": Move(3, "seed=3"),
    "gating": Move("random", ""),  # the default of the library, which no code names
}  # fmt: skip
LANDSCAPE = Case(
    name="LandscapeLab",
    small={"dimension": 5, "batch": 64, "steps": 100, "trials": 2},
    shorter=(
        (landscape.LandscapeLab, "declaration", dataclasses.replace(landscape.LandscapeLab.declaration, records=20)),
    ),
    moved_from={},
    moves=LANDSCAPE_MOVES,
    views={"shown": 2},
    refused_from={},
    refused=(({"dimension": 4, "experts": 4, "penalty": 4.0}, "dimension (d) must be greater than experts (k)"),),
    unheld=(
        ({"expert": 3}, "LandscapeLab has no parameter 'expert'"),
        ({"gating": "free"}, "gating (w) must be one of"),
        ({"noise": float("nan")}, "noise (σ) must be a finite number: got noise=nan"),
        ({"experts": 2.5}, "experts (k) must be a whole number: got experts=2.5"),
    ),
    room={"experts": {"penalty": 4.0}, "mu": {"penalty": 4.0}},
    codes=({"gating": "random", "ridge": 0.5, "l2_rate": 0.2, "seed": 4},),
    compared=_landscape_numbers,
    check_data=_landscape_data,
    diverges=("L₄ became infinite in trials 1, 3: try a smaller learning rate.",),
    drag=("noise", (0.1, 0.2, 0.3)),
)

# ---- patch map ----


def _patch_map_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["model"].values) == list(patch_map.MODELS)
    last = data.isel(step=-1)
    np.testing.assert_allclose(last["kept_in_object"].sel(model="pMoE"), lab.record["kept_in_object"])
    np.testing.assert_allclose(last["test_accuracy"].sel(model="conv"), lab.record.last("test_accuracy", "conv"))
    assert data.attrs["call_conv"] == lab.record.parts["conv"].origin["call"]


PATCH_MAP_MOVES = {
    "patches_per_expert": Move(3, "patches_per_expert=3", ("pMoE",)),
    "experts": Move(2, "experts=2", ("pMoE", "no gate")), "samples": Move(100, "samples=100"),
    "noise": Move(0.4, "noise=0.4"), "softmax": Move("kept", "softmax='kept'", ("pMoE",)),
    "gates": Move("random", "gates='random'", ("pMoE",)), "steps": Move(7, "epochs=4"),
    "trials": Move(1, "trials=1"), "learning_rate": Move(0.2, "learning_rate=0.2"), "seed": Move(3, "seed=3"),
}  # fmt: skip
PATCH_MAP = Case(
    name="PatchMapLab",
    small={"trials": 2, "steps": 4, "samples": 48},
    shorter=((patch_map, "TEST_SAMPLES", 24),),
    moved_from={},
    moves=PATCH_MAP_MOVES,
    views={"image": 2},
    greyed=(
        ({}, frozenset()),
        ({"gates": "none"}, frozenset({"patches_per_expert", "softmax"})),
        ({"gates": "soft"}, frozenset({"patches_per_expert", "softmax"})),
        ({"gates": "random"}, frozenset({"softmax"})),
    ),
    refused_from={},
    refused=(
        ({"patches_per_expert": 17}, "patches_per_expert (l) must be at most patches (n): got l=17, n=16"),
        ({"samples": 1}, "samples (N) must be at least 2: got N=1"),
    ),
    unheld=(
        ({"expert": 3}, "PatchMapLab has no parameter 'expert'"),
        ({"gates": "hard"}, "gates must be one of 'learned', 'none', 'random', 'soft': got gates='hard'"),
        ({"noise": float("nan")}, "noise (σ) must be a finite number: got noise=nan"),
        ({"experts": 3}, "experts (k) must be one of 1, 2, 4, 8: got experts=3"),
        ({"samples": 100.5}, "samples (N) must be a whole number: got samples=100.5"),
    ),
    room={},
    codes=({}, {"gates": "soft", "experts": 2, "seed": 4}, {"gates": "random", "patches_per_expert": 3}),
    compared=_last({"pMoE": "pMoE", "no gate": "no_gate", "conv": "conv"}),
    check_data=_patch_map_data,
    diverges=(
        "The loss of the mixture became infinite in trials 1, 3",
        "The loss of the CNN became infinite in trials 1, 3",
    ),
    drag=("noise", (0.2, 0.3, 0.5)),
    pins=4,
)

# ---- model pruning ----


def _model_data(data: xr.Dataset, lab: Lab) -> None:
    np.testing.assert_allclose(data["accuracy"].isel(step=-1), lab.record["accuracy"])
    assert data.attrs["call"] == lab.record.of().origin["call"]


def _model_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    last = variables["data"].isel(step=-1)
    yield from ((last[measure], lab.record[measure]) for measure in lab.record.of().values)


MODEL_MOVES = {
    "kept": Move(5, "kept=5"), "criterion": Move("random", "criterion='random'"), "way": Move("silent", "way='silent'"),
    "steps": Move(10, "steps=10"), "task": Move("a + b", "task='a + b'"), "trials": Move(2, "trials=2"),
    "seed": Move(4, "seed=4"),
}  # fmt: skip
MODEL_PRUNING = Case(
    name="ModelPruningLab",
    small={"steps": 8},
    shorter=((repair, "LESSONS", 10), (repair, "TUNING", 10)),
    moved_from={},
    moves=MODEL_MOVES,
    views={},
    greyed=(({}, frozenset()),),
    refused_from={},
    refused=(({"kept": 8}, "kept must be from 2, which a token needs, to 7: got kept=8"),),
    unheld=(
        ({"experts": 4}, "ModelPruningLab has no parameter 'experts'"),
        ({"way": "loud"}, "way must be one of 'rerouted', 'silent': got way='loud'"),
    ),
    room={},
    codes=({}, {"way": "silent", "criterion": "importance-score", "seed": 2}),
    compared=_model_numbers,
    check_data=_model_data,
    diverges=("The loss became infinite in trials 1, 3: try a smaller learning rate.",),
    drag=("kept", (3, 4, 5)),
)

# ---- balance ----


def _balance_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    for name, part in lab.record.parts.items():
        yield from ((variables["last"][name][measure], part[measure]) for measure in part.values)


def _balance_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["model"].values) == list(balance.NAMES)
    last = data.isel(step=-1)
    for name, part in lab.record.parts.items():
        np.testing.assert_allclose(last["expert_load"].sel(model=name), part["expert_load"])
        assert data.attrs[f"call_{name}"] == part.origin["call"]


BALANCED = ("switch", "importance", "z-loss", "bias")
BALANCE_MOVES = {
    "strength": Move(0.03, "strength=0.03", BALANCED), "lead": Move(1.5, "lead=1.5"), "experts": Move(5, "experts=5"),
    "experts_per_sample": Move(2, "experts_per_sample=2"), "router_noise": Move(0.4, "router_noise=0.4"),
    "activation": Move("relu", "activation='relu'"), "expert_steps": Move("gradient", "equal_steps=False"),
    "shared": Move(1, "shared=1"), "router_learning_rate": Move(4.5, "router_learning_rate=4.5"),
    "clusters": Move(5, "clusters=5"), "imbalance": Move(2.0, "imbalance=2.0"), "filters": Move(4, "filters=4"),
    "steps": Move(20, "steps=20"), "samples": Move(300, "samples=300"), "trials": Move(3, "trials=3"),
    "seed": Move(3, "seed=3"),
}  # fmt: skip
BALANCE = Case(
    name="BalanceLab",
    small={"trials": 2, "steps": 5, "samples": 100},
    shorter=((balance, "TEST_SAMPLES", 100),),
    moved_from={},
    moves=BALANCE_MOVES,
    views={"balancing": "bias"},
    refused_from={},
    refused=(
        ({"experts": 3, "experts_per_sample": 4}, "experts_per_sample (k) must be at most experts (M): got k=4, M=3"),
        (
            {"activation": "relu", "filters": 7},
            "filters (J) must be even, because half of the relu filters have a_j = -1: got J=7",
        ),
        ({"imbalance": 0.5}, "imbalance (rho) must be at least 1: got rho=0.5"),
    ),
    unheld=(
        ({"expert": 3}, "BalanceLab has no parameter 'expert'"),
        ({"strength": 0.02}, "strength (λ) must be one of 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0: got strength=0.02"),
        ({"lead": float("nan")}, "lead (h₀) must be a finite number: got lead=nan"),
        ({"experts": 2.5}, "experts (M) must be a whole number: got experts=2.5"),
    ),
    room={"experts": {"experts_per_sample": 1}},
    codes=({}, {"activation": "cubic", "expert_steps": "gradient", "experts_per_sample": 2, "shared": 1, "seed": 4}),
    compared=_balance_numbers,
    check_data=_balance_data,
    diverges=("The loss without balancing became infinite in trials 1, 3", "The loss with bias became infinite"),
    drag=("lead", (0.5, 1.0, 2.0)),
)

# ---- routing choices ----


def _choices_numbers(variables: dict[str, Any], lab: Lab) -> Iterator[tuple[Any, Any]]:
    """The code names a run after its model, as far as that is a name in Python."""
    assert list(lab.record.parts) == list(choices.MODELS)
    for name, part in zip(variables["runs"], lab.record.parts.values(), strict=True):
        yield from ((variables[name][measure], part[measure]) for measure in part.values)


def _choices_data(data: xr.Dataset, lab: Lab) -> None:
    assert list(data["model"].values) == list(choices.MODELS)
    last = lab.record.of(choices.STUDY)
    np.testing.assert_allclose(data["lost"].sel(model=choices.STUDY).dropna("step").isel(step=-1), last["lost"])
    assert data.attrs["call_hash"] == lab.record.parts["hash"].origin["call"]


CHOICES_MOVES = {
    "routing": Move("token-choice", "RoutedMoE(", ("chosen",)),
    "experts_per_patch": Move(2, "experts_per_patch=2", ("chosen",)),
    "gates": Move("sigmoid", "gates='sigmoid'", ("chosen",)),
    "order": Move("priority", "order='priority'", ("chosen",)),
    "router_noise": Move(0.5, "router_noise=0.5", ("chosen",)),
    "capacity_factor": Move(1.5, "capacity_factor=1.5"), "experts": Move(4, "experts=4"),
    "patches": Move(12, "patches=12"), "noise": Move(0.5, "noise=0.5"), "samples": Move(60, "samples=60"),
    "steps": Move(9, "epochs=3"), "trials": Move(3, "trials=3"), "learning_rate": Move(10.0, "learning_rate=10.0"),
    "seed": Move(3, "seed=3"),
}  # fmt: skip
ROUTING_CHOICES = Case(
    name="RoutingChoicesLab",
    small={"trials": 2, "steps": 4, "samples": 40},
    shorter=((choices, "TEST_SAMPLES", 40),),
    moved_from={"routing": "hash"},
    moves=CHOICES_MOVES,
    views={},
    greyed=(
        ({}, frozenset()),
        ({"routing": "expert-choice"}, frozenset({"experts_per_patch", "order"})),
        ({"routing": "soft"}, frozenset({"experts_per_patch", "gates", "order", "router_noise"})),
    ),
    refused_from={},
    refused=(
        ({"samples": 10}, "batch_size (B) must be at most samples (N): got B=20, N=10"),
        ({"samples": 41}, "samples (N) must be a positive multiple of classes (2), so that classes are balanced"),
        ({"patches": 4}, "distractors must be at most patches (n) - 1"),
        ({"experts": 2, "experts_per_patch": 4}, "experts_per_patch (t) must be at most experts (k): got t=4, k=2"),
    ),
    unheld=(
        ({"expert": 3}, "RoutingChoicesLab has no parameter 'expert'"),
        ({"routing": "lottery"}, "routing must be one of 'expert-choice', 'token-choice', 'soft', 'hash'"),
        ({"experts": 3}, "experts (k) must be one of 2, 4, 8: got experts=3"),
        ({"noise": float("nan")}, "noise must be a finite number: got noise=nan"),
    ),
    room={},
    codes=({}, {"routing": "soft", "experts": 2, "seed": 4}, {"gates": "sigmoid", "router_noise": 0.4}),
    compared=_choices_numbers,
    check_data=_choices_data,
    diverges=("The loss of chosen became infinite in trials 1, 3", "The loss of hash became infinite in trials 1, 3"),
    drag=("noise", (0.1, 0.5, 0.9)),
    pins=5,
)

CASES = {
    case.name: case
    for case in (
        *(ROUTER, PHASE, SPECIALIZATION, PRUNING, GRIDLOCK, STUCK, LANDSCAPE, PATCH_MAP),
        *(MODEL_PRUNING, BALANCE, ROUTING_CHOICES),
    )
}
assert set(CASES) == {lab.name for lab in LABS}


def one_case_in(share: int, first: int = 0) -> pytest.MarkDecorator:
    """Runs a test of the `case` fixture for every third Lab, say, from the one with the number `first`."""
    return _of_cases(one_in(share, CASES, first))


def cases_of(holds: Callable[[Declaration], bool]) -> pytest.MarkDecorator:
    """Runs a test of the `case` fixture for the Labs of whose declaration something holds."""
    return _of_cases([name for name, case in CASES.items() if holds(case.kind.declaration)])


def _of_cases(names: Sequence[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names, indirect=True, scope="module")
