"""GridlockLab: a mixture's regressors from a tensor, then its gates, live, beside EM on both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.drawing import theme
from moe_lab.drawing.marks import Curves, Level, Mark, Note, Outline, Scales, Writing, middle, picked
from moe_lab.drawing.match_marks import Matches, MatchTable
from moe_lab.drawing.words import Number, Words, either, say
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.gridlock import JointEM, MixtureRun, Spectral
from moe_lab.recovery.gridlock.training import begun
from moe_lab.recovery.gridlock.verdicts import FOUND, GAIN, WINDOW
from moe_lab.recovery.printed import printed
from moe_lab_widgets.drawing.error_marks import (
    Errors,
    count_heads,
    error_marks,
    fates_in_words,
    lines_in_words,
    median_ends,
)
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues, once
from moe_lab_widgets.drawing.mark_words import spread_note, trial_on_show
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.engine.knobs import ANOTHER_TRIAL, MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs import gridlock_record as at
from moe_lab_widgets.labs.gridlock_goals import GOALS, QUESTION
from moe_lab_widgets.labs.gridlock_record import BEST, JOINT, METHODS, SPECTRAL
from moe_lab_widgets.labs.gridlock_stories import PRINTED, STORIES
from moe_lab_widgets.live.declare import LivePage

NO_MIXTURE, P3 = "none", "P3(y)"
HAVE_PRINTED = tuple(g for g in ACTIVATIONS if printed(g, 0.1))
"""Activations whose P3 the paper prints."""
NAMES = {SPECTRAL: "spectral + EM", JOINT: "joint EM", BEST: "EM from the truth"}
STYLES = {SPECTRAL: "model", JOINT: "other"}
ENDS = {"spectral + EM": "spectral\n+ EM ", "joint EM": "joint EM\n"}
"""What stands before the numbers at the ends of the curves."""
FLOOR = "EM from the true parameters"
COUNTS = {"x": 1.0, "left": 62.0, "wide": 62.0}
"""Where the table of counts stands."""
EDGES = (0, 0.4, 0.67, 1)
"""Where the three stages of the spectral method begin, as parts of the axis, however long each is."""

# ---- knobs, and the two runs that their values describe ----

# Short words, so that three sliders stand side by side, and ranges in which a run stays live (4 to 5 seconds of one CPU
# core). At the defaults joint EM gets stuck (at k = 6 and less it rarely does), with as few trials as a median needs.
KNOBS = (
    offer(MixtureTask, "experts", main=True, meaning="experts", default=8, slider=(2, 8, 1),
          effect="More regressors and gates to find."),
    offer(MixtureTask, "dimension", main=True, meaning="numbers per input", default=16,
          slider=(4, 20, 1), far=64,
          effect="More to learn from as many samples: the moments become noisier."),
    offer(MixtureRun, "samples", main=True, meaning="training samples", default=6000, slider=(500, 8000, 500),
          far=50_000,
          effect="More samples for the moments and for EM."),
    offer(MixtureTask, "noise", main=True, symbol="σ", meaning="noise on y",
          effect="More noise blurs the answers."),
    offer(MixtureTask, "activation", main=True, meaning="experts' activation",
          effect="What an expert does with its product."),
    offer(MixtureTask, "regressors", main=True, symbol="a", meaning="regressors", default="orthonormal",
          effect="Orthonormal regressors are at right angles, random ones at any."),
    LabKnob(name="first_share", symbol="p", meaning="share of Gaussian 1", default=NO_MIXTURE, low=0, high=1,
            choices=(NO_MIXTURE, 0.1, 0.3, 0.5), words={NO_MIXTURE: "one Gaussian"},
            effect="Inputs come from two Gaussians in place of one."),
    offer(MixtureTask, "gating", symbol="w", meaning="gates", words={"orthogonal": "orthogonal to regressors"},
          effect="The proof asks for gates at right angles to all regressors."),
    LabKnob(name="third", symbol="T₃", meaning="third moment of", default=P3, choices=(P3, PRINTED, "y"),
            effect="The third moment is that of the polynomial P3(y), or of y itself."),
    offer(JointEM, "iterations", symbol="I", meaning="iterations of joint EM", default=160,
          slider=(20, 300, 20),
          effect="Gives joint EM more time to converge."),
    offer(MixtureRun, "trials", symbol="T", meaning="trials", default=3, slider=(1, 4, 1), far=1000,
          effect=MORE_TRIALS),
    LabKnob(name="shown", meaning="trial on show", default=1, low=1, slider=(1, 4, 1), at_most="trials",
            view_only=True, effect=ANOTHER_TRIAL,
            applies="only with more than one trial"),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, MixtureRun]:
    """Returns the runs of both methods on the same samples, checked.

    Raises:
      ConfigError: a value or a combination breaks a rule.
    """
    third, share = values["third"], values["first_share"]
    rule = f"T3 is the moment of P3(y) as printed only where the paper prints it: g must be {' or '.join(HAVE_PRINTED)}"
    require(third != PRINTED or values["activation"] in HAVE_PRINTED, rule, g=values["activation"])
    task = config_from(MixtureTask, {**values, "first_share": None if share == NO_MIXTURE else share})
    spectral = Spectral(
        third=P3 if third == PRINTED else third,
        printed=third == PRINTED,
        power_iterations=at.POWER_ITERATIONS,
        gate_iterations=at.GATE_ITERATIONS,
        joint_iterations=at.EVERYTHING_ITERATIONS,
    )
    models = {
        SPECTRAL: spectral,
        JOINT: JointEM(iterations=values["iterations"]),
        BEST: JointEM(iterations=at.BEST_ITERATIONS, start="truth"),
    }
    return {
        name: config_from(MixtureRun, values, model=model, task=task, record_every=at.every(values, name))
        for name, model in models.items()
    }


# ---- panel 1: the estimates of each method against the truth ----


def furnish_found(values: MarkValues) -> list[list[Mark]]:
    k = values.number("experts")
    under = f"estimates are matched to the true ones; ✓ from |cos| = {FOUND:g} on, ✗ below"
    return [[MatchTable(k, "|cos|; dark diagonal: recovered", under)], [MatchTable(k)]]


def draw_found(now: MarkRecord) -> list[list[Mark]]:
    return [
        [
            Matches(
                at.cosines(now, name), at.gate_cosines(now, name), at.found_in_trial(now, name), FOUND,
                head_of(now, name), STYLES[name], progress_of(now, name),
            )
        ]
        for name in METHODS
    ]  # fmt: skip


def head_of(now: MarkRecord, name: str) -> Words:
    trials = now.values.number("trials")
    which = say(", trial {:.0f} of {:.0f}", trial_on_show(now.values) + 1, trials, when=trials > 1)
    return Words(NAMES[name]) + which


def progress_of(now: MarkRecord, name: str) -> Words:
    """Returns how far a method is, in a few words."""
    where = say("iteration {:.0f}", at.iteration(now, name))
    if name == SPECTRAL:
        power = say("power {:.0f} of {:.0f}", at.step(now, name), at.power(now.values))
        where = either(at.seeking(now), power, where)
    found = where + say(": {:.0f} of {:.0f} found", at.found_in_trial(now, name).sum(), now.values.number("experts"))
    return either(at.step(now, name) >= 0, found, Words("waits for its samples"))


# ---- panel 2: the error over EM's iterations ----


def error_axes(values: MarkValues) -> list[list[Mark]]:
    (low, high), end = error_limits(values), longest_em(values)
    whole = [0, *(10**power for power in range(4))]
    return [
        [
            Scales(
                (1.0, 1 + end), (low, high), [within(1.0 + one, 1.0, 1 + end) for one in whole],
                [within(digit * 10.0**power, low, high) for power in range(-2, 2) for digit in (1, 2, 5)],
                "EM iteration", x_reads="1 + iteration", y_reads="error", log="xy",
                x_words=[str(iteration) for iteration in whole],
            ),
            *count_heads([(NAMES[name], STYLES[name]) for name in METHODS], low=low, **COUNTS),
        ]
    ]  # fmt: skip


def within(number: float, low: Number, high: Number) -> Tensor:
    """Returns a number where it is between limits, NaN elsewhere."""
    value = torch.tensor(number, dtype=torch.float64)
    return torch.where((value >= low) & (value <= high), value, torch.nan)


def error(now: MarkRecord) -> list[list[Mark]]:
    limits, methods = error_limits(now.values), errors_of(now)
    best = middle(now.last("error", BEST))
    floor = best.clamp(*limits).expand(2)
    across = torch.stack((torch.ones((), dtype=torch.float64), 1 + longest_em(now.values)))
    return [
        [
            *error_marks(methods, limits, trial_on_show(now.values), **COUNTS),
            Outline(across, floor, "found", name=FLOOR),
            median_ends(methods, [f"{ENDS[one.name]}{{:.2g}}" for one in methods],
                    [(best, "EM from\ntruth {:.2g}", "found")]),
        ]
    ]  # fmt: skip


@once
def errors_of(now: MarkRecord) -> list[Errors]:
    """Returns the errors of both methods over 1 + iterations of EM, whose logarithm begins at 0."""
    methods = []
    for name in METHODS:
        steps, errors = at.em_errors(now, name)
        last = torch.where(steps.isfinite().any(), now.last("error", name), torch.nan)
        parts = 1 + steps, errors, last, at.whole(now, name), *at.verdicts(now, name), torch.tensor(True)
        methods.append(Errors(NAMES[name], STYLES[name], *parts))
    return methods


def longest_em(values: MarkValues) -> Tensor:
    """Returns the iterations of EM of the method that has more."""
    return values.number("iterations").clamp(min=float(at.GATE_ITERATIONS + at.EVERYTHING_ITERATIONS))


def error_limits(values: MarkValues) -> tuple[Tensor, Tensor]:
    """Returns the limits of the error's axis: below what these samples allow, and above a random start.

    Random unit regressors and gates are sqrt(2 k) and sqrt(2 (k - 1)) from the true ones; what maximum likelihood
    leaves is mostly the gates', about 2 sqrt(k (k - 1) d / n) for linear experts and more for others.
    """
    k, d, n = (values.number(name) for name in ("experts", "dimension", "samples"))
    rest = 2 * (k * (k - 1) * d / n).sqrt()
    halves = -(-2 * (rest / 2).log() / math.log(10)).ceil()
    return (halves / 2 * math.log(10)).exp(), 1.5 * ((2 * k).sqrt() + (2 * (k - 1)).sqrt())


def error_note(values: MarkValues) -> Words:
    return (
        say("distance from the true parameters\n")
        + lines_in_words(values)
        + say(f"\n✗ stuck: under {100 * GAIN:.0f} % better in {WINDOW} iterations")
    )


# ---- panel 3: how the spectral method finds its start ----


def furnish_stages(values: MarkValues) -> list[list[Mark]]:
    centres = [(begin + end) / 2 for begin, end in pairwise(EDGES)]
    lengths = [f"{at.POWER_ITERATIONS} each", f"{at.GATE_ITERATIONS} of EM", f"{at.EVERYTHING_ITERATIONS} of EM"]
    named = [
        Writing(x, 0.0, Words(words), style, size=theme.SMALL_SIZE, down=down)
        for some, style, down in ((("power", "gates", "all"), "ink", 12.0), (lengths, "muted", 29.0))
        for x, words in zip(centres, some, strict=True)
    ]
    marks = [
        Scales((0.0, 1.0), (0.0, 1.03), (), (0.0, 0.5, 1.0), y_reads="|cos|", bare="x"),
        *(Level(edge, "rule", upright=True) for edge in EDGES[1:3]),
        Level(FOUND, "failure"),
        Writing(0.0, FOUND, Words(f"{FOUND:g}"), "failure", align="right", size=theme.SMALL_SIZE, right=-7),
        Note(Words("— regressors"), -30, -18, "ink", under=False),
        Note(Words("- - gates"), 86, -18, "found", under=False),
    ]
    return [[*marks, *named]]


def draw_stages(now: MarkRecord) -> list[list[Mark]]:
    trial, power = trial_on_show(now.values), at.power(now.values)
    steps, components = now.curve("component", SPECTRAL)
    begins = torch.stack([torch.zeros_like(power), power, power + at.GATE_ITERATIONS])
    after = (at.GATE_ITERATIONS, at.EVERYTHING_ITERATIONS)
    lengths = torch.stack([power, *(torch.full_like(power, count) for count in after)])
    edges = torch.tensor(EDGES, dtype=torch.float64)
    stage = (steps[:, None] > begins).sum(1).clamp(min=1) - 1
    x = edges[stage] + (steps - begins[stage]) / lengths[stage] * (edges[stage + 1] - edges[stage])
    k, component = now.last("cosines", SPECTRAL).shape[1], picked(components, trial, 1)
    own = torch.arange(k) == -((1 - steps) / at.POWER_ITERATIONS).ceil()[:, None]
    sought = torch.where(own, component[:, None], torch.nan)
    best = picked(now.curve("cosines", SPECTRAL)[1].amax(3), trial, 1)
    gates = picked(now.curve("gate_cosines", SPECTRAL)[1], trial, 1)
    ended = steps > at.last_step(now.values, SPECTRAL)
    searching = torch.where((stage == 0) & (steps > 0) & component.isfinite(), x, torch.nan)
    moving = torch.where((stage > 0) & ~ended & best.isfinite().all(1), x, torch.nan)
    looks: dict[str, Any] = {"width": 1.6, "firm": False}
    return [
        [
            Curves(searching, sought, "model", "the regressor that is sought", **looks),
            Curves(moving, best, "model", "a regressor", **looks),
            Curves(moving, gates, "found", "a gate", **looks),
        ]
    ]


# ---- words ----


def caption(now: MarkRecord) -> Words:
    k, trials = now.values.number("experts"), now.values.number("trials")
    intro = say(
        "T₃ is whitened to {:.0f} × {:.0f} × {:.0f} numbers, and nothing is found yet; "
        "joint EM begins with random regressors and gates.", k, k, k,
    )  # fmt: skip
    ours, theirs = (at.found_in_trial(now, name).sum() for name in METHODS)
    where = say("In trial {:.0f}, ", trial_on_show(now.values) + 1, when=trials > 1)
    searching = (
        where
        + say("{:.0f} of {:.0f} regressors are found (|cos| ≥ {:.2g}) ", ours, k, FOUND)
        + say("after {:.0f} of {:.0f} power iterations. ", at.step(now, SPECTRAL), at.power(now.values))
        + say("Joint EM has found {:.0f} in {:.0f} iterations.", theirs, at.step(now, JOINT))
    )
    errors = [middle(one.last) for one in errors_of(now)]
    ended = (
        say("In trial {:.0f}, spectral", trial_on_show(now.values) + 1, when=trials > 1, instead=Words("Spectral"))
        + say(" + EM has found {:.0f} of {:.0f} regressors and joint EM {:.0f}. ", ours, k, theirs)
        + say("Median errors: {:.2g} and {:.2g}.", *errors)
        + fates_in_words(errors_of(now))
        + spread_note(now)
    )
    begun = at.step(now, JOINT) > 0
    return either(begun, either(at.seeking(now), searching, ended), intro)


def progress(now: Record) -> str:
    joint = now.of(JOINT)
    return f"joint EM iteration {0 if joint is None else joint.step} of {now.values['iterations']}"


def diverged(name: str, trials: str) -> str:
    if name == SPECTRAL:
        why = (
            "T₂ has fewer than k positive eigenvalues (take more samples or fewer experts), or numbers became infinite"
        )
        return f"The spectral method has no result in {trials}: {why}."
    return f"Joint EM ran into infinite numbers in {trials}."


ON_PAGE: tuple[dict[str, Any], ...] = (
    *({"regressors": regressors, "third": third} for regressors in ("orthonormal", "random") for third in (P3, "y")),
    *({"regressors": "orthonormal", "third": third, "activation": "relu"} for third in (P3, PRINTED)),
    {"regressors": "orthonormal", "third": P3, "first_share": 0.3},
)
"""What the page has of choices: what stories need, and T3 and the regressors of all linear experts."""
LIVE = LivePage(
    numbers={
        "experts": {(2, 5): (4, 5, 3), (6, 8): (7, 8, 6)}, "dimension": (11, 12, 14), "samples": (300, 400, 520),
        "noise": (0.3, 0.5, 0.2), "iterations": (60, 80, 140), "trials": (9, 10, 13), "shown": (2, 3, 4),
    },
    choices=[
        {"experts": experts, "activation": "identity", "first_share": NO_MIXTURE, **own}
        for experts in ((2, 5), (6, 8)) for own in ON_PAGE
    ],
    fixed={"gating": "random"},
    looks=("shown",),
    length="iterations",
    restricted=(("experts", "dimension"),),
    missing=("Leaky-ReLU, sigmoid and tanh experts, other mixtures of inputs and orthogonal gates need Python.",),
)  # fmt: skip
"""How the Lab is recorded for a page: the spectral method has more restarts from k = 6 on."""

GridlockLab = lab(
    "Gridlock",
    name="GridlockLab",
    about="The spectral method of gridlock2019 and joint EM on the same samples, iteration by iteration.",
    knobs=KNOBS,
    page=LIVE,
    runs=runs,
    training=begun,
    steps=at.longest,
    records=160,
    measures={"error": "error", "regressor_fit": "regressor fit"},
    panels=(
        mark_panel(
            "What is found",
            draw_found,
            furnish_found,
            "how well each estimate points along each true regressor: |cos|",
            width=540,
            margins=(46, 5, 122, 76),
            columns=2,
            gap=19,
            above=58,
        ),
        mark_panel("Error over time", error, error_axes, error_note, width=305, margins=(49, 105, 100, 102)),
        mark_panel(
            "How the start is found",
            draw_stages,
            furnish_stages,
            "|cos| with the true one, trial shown",
            width=255,
            margins=(47, 12, 84, 102),
        ),
    ),
    caption=sentence(caption),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    progress=progress,
    diverged=diverged,
)
