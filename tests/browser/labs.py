"""What the browser tests know of each Lab: how to make a small one, and what to ask of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import moe_lab_widgets
from moe_lab.core.config import Config
from moe_lab.core.knobs import Knob
from moe_lab.patch_routing import JointMoE, PatternTask, RoutedMoE
from moe_lab.pruning import PlantedStart, TokenMoE, TokenTask
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock import JointEM
from moe_lab.recovery.landscape import L2Loss, L4Loss
from moe_lab.specialization import ClusterTask, SwitchMoE, TopKMoE
from moe_lab.specialization.run import ClusterRun
from moe_lab.vision import PatchWRN, QuadrantTask
from moe_lab.vision.patches import PatchImageRun
from tests.browser.driver import NotebookPage

Move = tuple[str, str] | tuple[str, str, int]
"""A slider and a key (and how often it is pressed), or a drop-down and one of its options."""
KEYS = ("ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End")


@dataclass(frozen=True)
class Wish:
    """Moves that ask for the impossible, the words that explain it, and the moves that lead out."""

    moves: Sequence[Move]
    words: tuple[str, ...]
    out: Sequence[Move]


@dataclass(frozen=True)
class Hold:
    """Moves of a slider beyond what fits the others, where it goes instead, and words of the rule."""

    moves: Sequence[Move]
    slider: str
    value: float
    words: str


@dataclass(frozen=True)
class LabOnPage:
    """A Lab and what is asked of it.

    Attributes:
      name: of its class.
      small: values of a run that ends soon.
      long: values of a run that is still training when a slider moves.
      ended: words of the caption when the small run has ended.
      warned: words of the alert then; empty where it has none.
      story: a story's name, and words of the caption at its end.
      moved: a slider that is moved while a cell runs.
      fuzz: drop-downs with the options that random moves choose from.
      rescue: the story that ends the random moves, and words of its caption.
      holds: what its sliders cannot be moved to, one after the other.
      wishes: what the Lab refuses.
      configs: Configs whose defaults the code leaves out.
      written: how code writes a knob's value, where it is not name=value; empty where the value itself is not written.
      rates: sliders whose answer is timed, and what a quiet machine must reach: milliseconds and frames/s.
    """

    name: str
    small: dict[str, Any]
    long: dict[str, Any]
    ended: tuple[str, ...]
    story: tuple[str, str]
    moved: str
    rescue: tuple[str, str]
    holds: Sequence[Hold]
    configs: Sequence[type[Config]]
    fuzz: Sequence[tuple[str, str, str]] = ()
    wishes: Sequence[Wish] = ()
    written: dict[str, str] = field(default_factory=dict)
    rates: tuple[tuple[str, ...], float, float] = ((), 150, 8)
    warned: str = ""

    @property
    def lab(self) -> Any:
        return getattr(moe_lab_widgets, self.name)

    @property
    def sliders(self) -> list[Knob]:
        """The sliders that start another run."""
        return [knob for knob in self.lab.knobs if knob.slider and not knob.view_only]

    def runs(self, knob: Knob, page: NotebookPage) -> bool:
        """Whether the code of the present run has the slider's value; code does not name the library's defaults."""
        pattern = self.written.get(knob.name, rf"(?<!\w){knob.name}=([-\d.e]+)")
        if not pattern:
            return True
        value, numbers = page.readout(knob.label), [float(found) for found in re.findall(pattern, page.code())]
        defaults = [config.knobs()[knob.name].default for config in self.configs if knob.name in config.knobs()]
        return all(number == value for number in numbers) and (numbers != [] or value in (*defaults, knob.default))


def do(page: NotebookPage, moves: Sequence[Move]) -> None:
    """Makes the moves one after the other."""
    for label, what, *times in moves:
        if what in KEYS:
            page.press(label, what, *times)
        else:
            page.choose(label, what)


LABS = (
    LabOnPage(
        name="RouterAlignmentLab",
        small={"trials": 2, "steps": 40},
        long={"trials": 2, "source": "synthetic"},
        ended=("of 2 trials", "CNN"),
        story=("The paper's synthetic patches", "the CNN in 88 %"),
        moved="l · patches",
        rescue=("A needle in a haystack (n = 64)", "CNN 63 %"),
        holds=(
            Hold([("k ·", "ArrowLeft")], "k ·", 2, "must be divisible by experts (k), so that all experts have the"),
            Hold([("k ·", "End"), ("k ·", "ArrowLeft")], "k ·", 5, "got m=40, k=7"),
            Hold([("m ·", "ArrowRight")], "m ·", 80, "got m=48, k=5"),
            Hold([("n ·", "Home"), ("l ·", "End")], "l ·", 4, "patches_per_expert (l) must be at most patches (n)"),
        ),
        configs=(JointMoE, PatternTask),
        fuzz=(("Data", "synthetic patches", "handwritten digits"),),
        written={"steps": ""},  # code counts epochs
        rates=(("l · patches", "n ·"), 120, 10),
    ),
    LabOnPage(
        name="PhaseTransitionLab",
        small={"trials": 5, "patches": 6, "distractors": 0},
        long={"trials": 5, "distractors": 0},
        ended=("samples are enough at l = 1",),
        story=("noise", ""),
        moved="n ·",
        rescue=("noise", ""),
        holds=(
            Hold([("distractors", "End")], "distractors", 5, "distractors must be at most patches (n) - 1"),
            Hold([("δ_r", "Home")], "δ_r", 0.6, "gap must be at most 2 delta_r"),
            Hold([("δ_d", "End")], "δ_d", 0.1, "at this delta_d"),
        ),
        configs=(PatternTask,),
        fuzz=(("Data", "handwritten digits", "synthetic patches"),),
    ),
    LabOnPage(
        name="SpecializationLab",
        small={"trials": 2, "samples": 400, "steps": 100},
        long={"trials": 2},
        ended=("experts carry the 4 clusters", "Median entropy"),
        story=("A router without noise (r = 0)", "carry the 4 clusters"),
        moved="M ·",
        rescue=("A router without noise (r = 0)", "carry the 4 clusters"),
        holds=(
            Hold([("σ · experts' activation", "relu"), ("J ·", "ArrowLeft")], "J ·", 6, "filters (J) must be even"),
            Hold([("d ·", "Home"), ("K ·", "End")], "K ·", 4, "at least 2 clusters (K)"),
        ),
        configs=(SwitchMoE, ClusterTask, ClusterRun),
        fuzz=(("σ · experts' activation", "gelu", "linear"),),
        written={"gamma": r"feature_noise=\([\d.]+, ([\d.]+)\)"},
        rates=(("M ·", "σ_p", "n ·"), 150, 8),
    ),
    LabOnPage(
        name="PruningLab",
        small={"trials": 2, "steps": 40, "experts": 8, "patterns": 100, "tokens": 40, "tuning_steps": 20},
        long={"trials": 2, "experts": 12, "important": 1},
        ended=("are pruned by norm change",),
        story=("Pruned one too many", "In trial 2 neuron norm removed experts"),
        moved="k ·",
        rescue=("Pre-trained branches", "14 of 20 experts are pruned by norm change"),
        holds=(
            Hold([("important", "End")], "important", 3, "must leave at least one other in each half"),
            Hold(
                [("who chooses", "tokens choose experts"), ("l ·", "End")],
                *("l ·", 8, "at most experts (k) where tokens choose"),
            ),
        ),
        wishes=(
            Wish(
                [("l ·", "Home")],
                ("undefined where no router has moved",),
                [("ρ ·", "ArrowLeft"), ("prune by", "neuron change")],
            ),
        ),
        configs=(TokenMoE, TokenTask, PlantedStart),
        fuzz=(
            ("who chooses", "tokens choose experts", "experts choose tokens"),
            ("prune by", "router norm", "norm change"),
        ),
        rates=(("ρ ·", "n ·", "η_r ·"), 150, 0),
    ),
    LabOnPage(
        name="GridlockLab",
        small={"experts": 3, "dimension": 8, "samples": 2000, "iterations": 40, "trials": 2},
        long={"experts": 4, "dimension": 10, "samples": 3000, "noise": 0.3, "iterations": 100, "trials": 2},
        ended=("spectral + EM has found",),
        written={"iterations": r"JointEM\(iterations=(\d+)\)"},
        story=("Easy: k = 3, EM needs no help", "3 of 3 regressors and joint EM 3. Median errors: 0.32 and 0.32."),
        moved="k ·",
        rescue=("Easy: k = 3, EM needs no help", "Median errors: 0.32"),
        holds=(Hold([("d ·", "Home"), ("k ·", "End")], "k ·", 4, "dimension (d) must be at least experts (k)"),),
        wishes=(
            Wish(
                [("d ·", "Home"), ("k ·", "End"), ("w · gates", "orthogonal to regressors")],
                ("greater than experts (k), so that gates",),
                [("w · gates", "random")],
            ),
            Wish(
                [("d ·", "ArrowRight", 4), ("k ·", "End"), ("n ·", "Home")],
                ("T2 must have k=8 positive eigenvalues",),
                [("k ·", "Home")],
            ),
        ),
        configs=(JointEM, MixtureTask),
        fuzz=(("g · experts' activation", "tanh", "identity"),),
        rates=(("σ ·", "n ·"), 200, 6),
    ),
    LabOnPage(
        name="StuckRateLab",
        small={"trials": 5, "dimension": 4, "iterations": 40},
        long={"trials": 10},
        ended=("90 % of the starts find all regressors", "On the whole map"),
        warned="starts ended without a result",
        story=("Longer inputs (d = 12)", "up to k = 5 from random starts"),
        moved="d ·",
        rescue=("Gradient steps for the gates", "up to k = 5 from random starts"),
        holds=(),
        configs=(MixtureTask,),
        fuzz=(("random starts go on with", "EM", "gradient EM"),),
        written={"dimension": r"\bd=(\d+)", "iterations": r"joint_iterations=(\d+)"},
    ),
    LabOnPage(
        name="LandscapeLab",
        small={"trials": 2, "dimension": 6, "batch": 128, "steps": 200},
        long={"trials": 2, "penalty": 4.0},
        ended=("of 2 trials", "median error"),
        story=("Gates that are not orthogonal", "L₄ has found the regressors in 5 of 5 trials"),
        moved="k ·",
        rescue=("Gates that are not orthogonal", "L₄ has found the regressors in 5 of 5 trials"),
        holds=(Hold([("d ·", "Home"), ("k ·", "End")], "k ·", 3, "dimension (d) must be greater than experts (k)"),),
        wishes=(Wish([("λ ·", "Home")], ("lambda p must be greater than mu",), [("λ ·", "End")]),),
        configs=(L4Loss, L2Loss, MixtureTask),
        fuzz=(("w · gates", "random", "orthogonal to regressors"),),
        written={"rate": r"L4Loss\([^)]*\brate=([\d.e-]+)", "l2_rate": r"L2Loss\([^)]*\brate=([\d.e-]+)"},
        rates=(("σ ·",), 150, 8),
    ),
    LabOnPage(
        name="PatchMapLab",
        small={"trials": 2, "samples": 200, "steps": 20},
        long={"trials": 2},
        ended=("in the object", "without gates"),
        story=("All patches, but weighted (soft gates)", "of the gates' sum falls on the object"),
        moved="l · patches",
        rescue=("Chance instead of gates", "in the object; chance is 25 %"),
        holds=(),
        configs=(PatchWRN, QuadrantTask, PatchImageRun),
        fuzz=(("gates", "random", "learned"),),
        written={"steps": ""},  # code counts epochs
        rates=(("l · patches", "σ ·"), 300, 4),
    ),
    LabOnPage(
        name="ModelPruningLab",
        small={"steps": 10},
        long={"steps": 60},
        ended=("of the answers are right", "random choices"),
        story=("Chance, three times", "After 40 more steps"),
        moved="experts that stay",
        rescue=("Two experts left, silently", "With 2 of 8 experts left"),
        holds=(),
        configs=(),
        fuzz=(("tokens of pruned experts are", "rerouted", "answered by 0 (silent)"),),
    ),
    LabOnPage(
        name="BalanceLab",
        small={"trials": 2, "samples": 400, "steps": 60},
        long={"trials": 2, "activation": "cubic"},
        ended=("Without balancing", "importance"),
        story=("Nothing to cure (cubic experts, h₀ = 0)", "Without balancing"),
        moved="M ·",
        rescue=("Nothing to cure (cubic experts, h₀ = 0)", "Without balancing"),
        holds=(
            Hold([("k ·", "End"), ("M ·", "Home")], "M ·", 4, "experts_per_sample (k) must be at most experts (M)"),
        ),
        configs=(TopKMoE, ClusterTask, ClusterRun),
        fuzz=(("compared with no balancing", "Switch loss", "bias"), ("σ · experts' activation", "relu", "cubic")),
        written={"steps": r"settings = dict\(.*?\bsteps=(\d+)"},
        rates=(("h₀", "M ·", "r ·"), 200, 6),
    ),
    LabOnPage(
        name="RoutingChoicesLab",
        small={"trials": 2, "steps": 20},
        long={"trials": 2, "steps": 400},
        ended=("With 2 places an expert", "soft MoE"),
        story=("One patch an expert, experts choose", "72 % of the patches are lost"),
        moved="c · places",
        rescue=("Nobody chooses (soft MoE)", "o is 16 % of what experts receive"),
        holds=(),
        configs=(RoutedMoE, PatternTask),
        fuzz=(("who chooses", "experts", "patches"),),
        written={"steps": ""},  # code counts epochs
        rates=(("c · places", "t · experts"), 150, 8),
    ),
)  # fmt: skip
