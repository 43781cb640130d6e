"""LandscapeLab: the loss L4 beside the squared error, descended from the same start on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from moe_lab.drawing.marks import Level, Mark, Points, Scales, Writing, middle, picked
from moe_lab.drawing.plane_marks import PlaneAxes, Relief, Trail
from moe_lab.drawing.words import Words, either, say
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.landscape import L2Loss, L4Loss, LossRun
from moe_lab.recovery.landscape.run import PAPER_TASK
from moe_lab.recovery.landscape.stuck import STUCK_ERROR, STUCK_GAIN, stuck_at
from moe_lab.recovery.landscape.training import Descents
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
from moe_lab_widgets.labs.landscape_goals import GOALS, QUESTION
from moe_lab_widgets.labs.landscape_stories import STORIES
from moe_lab_widgets.live.declare import LivePage

NAMES = {"L4": "L₄", "l2": "ℓ₂"}
STYLES = {"L4": "model", "l2": "other"}
LOWEST, HIGHEST = 1e-5, 1.0
"""Of the error, 1 - |cos|, which cannot exceed 1."""
TICKS = {1e-5: "10⁻⁵", 1e-4: "10⁻⁴", 1e-3: "10⁻³", 1e-2: "10⁻²", 1e-1: "10⁻¹", 1.0: "1"}
COUNTS = {"x": 0.0, "left": 26.0, "wide": 90.0}
"""Where the table of counts stands."""

# ---- knobs, and the two descents that their values describe ----

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    offer(L4Loss, "mu", main=True, symbol="μ", meaning="4th-moment reward", slider=(0.0, 0.2, 0.01),
          effect="Draws each row more strongly to a single regressor; λ must stay well above it."),
    offer(L4Loss, "penalty", main=True, symbol="λ", meaning="2nd-moment penalty", slider=(0.0, 8.0, 0.5),
          effect="Keeps rows from vanishing: holds each row's second moment more strongly at 1."),
    offer(L4Loss, "ridge", main=True, symbol="δ", meaning="pull towards 0", slider=(0.0, 4.0, 0.05),
          effect="Pulls all numbers of A more strongly towards 0."),
    offer(L4Loss, "rate", main=True, symbol="η", meaning="learning rate of L₄", slider=(0.001, 0.1, 0.001),
          effect="Faster and less steady steps on L₄."),
    offer(MixtureTask, "experts", main=True, meaning="experts", slider=(2, 4, 1),
          effect="More regressors to find, each in fewer samples."),
    offer(MixtureTask, "noise", main=True, symbol="σ", meaning="noise on y", default=PAPER_TASK.noise,
          slider=(0.05, 1.0, 0.05),
          effect="More noise blurs the answers, and fourth powers most."),
    offer(L2Loss, "rate", name="l2_rate", symbol="η₂", meaning="learning rate of ℓ₂",
          effect="Faster and less steady steps on the squared error ℓ₂."),
    offer(LossRun, "batch", symbol="B", meaning="samples per batch", slider=(64, 2048, 64),
          effect="Steadier gradients, and slower steps."),
    offer(L4Loss, "steps", symbol="S", meaning="training steps", slider=(100, 3000, 100),
          effect="Gives both losses more time to come to rest."),
    offer(MixtureTask, "dimension", meaning="numbers per input", slider=(4, 20, 1),
          effect="More directions in which a start can be wrong."),
    offer(MixtureTask, "gating", symbol="w", meaning="gates", default=PAPER_TASK.gating,
          words={"orthogonal": "orthogonal to regressors"},
          effect="The theory asks for gates at right angles to all regressors; random ones are not."),
    offer(LossRun, "trials", symbol="T", meaning="trials", default=5, slider=(1, 8, 1), far=1000, effect=MORE_TRIALS),
    LabKnob(name="shown", meaning="trial on show", default=1, low=1, slider=(1, 8, 1), at_most="trials",
            view_only=True, effect=ANOTHER_TRIAL,
            applies="only with more than one trial"),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, LossRun]:
    """Returns the descents of both losses on the same batches; the paper's regressors are orthonormal."""
    task = config_from(MixtureTask, values, regressors=PAPER_TASK.regressors)
    losses = {"L4": config_from(L4Loss, values), "l2": L2Loss(rate=values["l2_rate"], steps=values["steps"])}
    return {name: config_from(LossRun, values, model=loss, task=task, planes=True) for name, loss in losses.items()}


def of_run(run: LossRun) -> Descents:
    """Returns the training of a run, which is of one stage."""
    return Descents(run, 0, None)


def seconds(values: Mapping[str, Any]) -> float:
    """Returns about how long one step of both losses takes on one CPU thread (measured, within a half)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["batch"]
    return float(6e-4 + rows * (d * 3.0e-8 + k * 1.2e-7))


# ---- panel 1: both losses from above, with the paths of the descents ----


def map_axes(values: MarkValues) -> Iterator[list[Mark]]:
    two = values["experts"] == 2
    second = "another" if two else "the start", "the exchange" if two else "the start"
    for name, other in zip(NAMES.values(), second, strict=True):
        yield [
            PlaneAxes(
                f"towards {'one' if two else 'the nearest'} true solution →",
                f"towards {other} →",
                f"{name}: the loss on a plane through the minima; darker is larger",
            )
        ]


def map_note(values: MarkValues) -> Words:
    two = values["experts"] == 2
    rest = "✗ a false valley: gate and a₁ − a₂ exchanged" if two else "a path may end at a solution off the plane"
    return say(
        "darker: larger loss; a map is a plane, and a path may pass over or under it\n"
        f"★ a true solution   ○ the start   ● now   {rest}"
    )


def maps(now: MarkRecord) -> Iterator[list[Mark]]:
    at, trials = trial_on_show(now.values), now.values.number("trials")
    for name, words in NAMES.items():
        style = STYLES[name]
        title = say(f"{words}{', squared error' if name == 'l2' else ''}")
        title += say(", trial {:.0f} of {:.0f}", at + 1, trials, when=trials > 1)
        yield [
            Relief(picked(now.last("plane_values", name), at)),
            *path_marks(now, name),
            Writing(-1, 1, title, style, align="left", bold=True, down=-12),
            Writing(0, -1, state_of(now, name), style, size=9.5, down=36),
        ]


def path_marks(now: MarkRecord, name: str) -> list[Mark]:
    """Returns the path of a descent over the plane, what is known of the plane, and where the descent is.

    Places beyond the map are drawn at its edge; a triangle there points to where the descent is.
    """
    words, trial_shown = NAMES[name], trial_on_show(now.values)
    places = picked(now.curve("plane_place", name)[1], trial_shown, 1)[:, :2]
    across, up = places.clamp(-1, 1).T
    last = picked(now.last("plane_place", name), trial_shown)[:2]
    x, y = last.clamp(-1, 1)[:, None]
    marks: list[Mark] = [Trail(across, up, f"{words}: the path so far")]
    for measure, style, shape, what in (
        ("plane_true", "gold", "target", "a true solution"),
        ("plane_false", "failure", "cross", "gate and a₁ − a₂ exchanged"),
    ):
        there = picked(now.last(measure, name), trial_shown).T
        marks.append(Points(there[0], there[1], style, shape, f"{words}: {what}"))
    marks.append(Points(across[:1], up[:1], "ink", "ring", f"{words}: the start"))
    for shape, here in signs(last).items():
        marks.append(
            Points(x, torch.where(here, y, torch.nan), "ink", shape, f"{words}: now; a triangle points outside")
        )
    return marks


def signs(place: Tensor) -> dict[str, Tensor]:
    """Returns whether a place (2,) is marked by a disc, or by a triangle that points to it from the map's edge."""
    x, y = place
    far = place.abs()
    outside, across = far.amax() > 1, far[0] >= far[1]
    return {
        "disc": ~outside,
        "left": outside & across & (x <= 0),
        "right": outside & across & (x > 0),
        "up": outside & ~across & (y > 0),
        "down": outside & ~across & (y <= 0),
    }


def state_of(now: MarkRecord, name: str) -> Words:
    """Returns the error of the trial on show, and how far it is from the plane."""
    error = picked(now.last("regressor_error", name), trial_on_show(now.values))
    apart = picked(now.last("plane_place", name), trial_on_show(now.values))[2]
    begun = now.last("plane_values", name).isfinite().any()
    return say("error {:.2g}; {:.2f} off the plane", error, apart, when=begun, instead=say("waits for its samples"))


# ---- panel 2: the regressors' error over the steps ----


def error_axes(values: MarkValues) -> Iterator[list[Mark]]:
    steps = values.number("steps")
    yield [
        Scales(
            (0, steps), (LOWEST, HIGHEST), (0, steps / 2, steps), tuple(TICKS), "step",
            y_reads="error", log="y", y_words=tuple(TICKS.values()),
        ),
        Level(STUCK_ERROR, "failure"),
        Writing(0, STUCK_ERROR, say(f"{STUCK_ERROR:g}"), "failure", align="right", size=9.5, right=-7),
        *count_heads([(NAMES[name], STYLES[name]) for name in NAMES], low=LOWEST, **COUNTS),
    ]  # fmt: skip


def error(now: MarkRecord) -> Iterator[list[Mark]]:
    methods = errors_of(now)
    yield [
        *error_marks(methods, (LOWEST, HIGHEST), trial_on_show(now.values), **COUNTS),
        median_ends(methods, [f"{one.name}\n{{:.2g}}" for one in methods]),
    ]


@once
def errors_of(now: MarkRecord) -> list[Errors]:
    methods = []
    for name in now.names:
        steps, errors = now.curve("regressor_error", name)
        last = now.last("regressor_error", name)
        stuck, falling = stuck_at(errors, steps.isfinite().sum())
        known = now.ended & ~now.first
        methods.append(
            Errors(NAMES[name], STYLES[name], steps, errors, last, last <= STUCK_ERROR, stuck, falling, known)
        )
    return methods


def error_note(values: MarkValues) -> Words:
    return (
        say("1 − |cos|; ")
        + lines_in_words(values)
        + say(
            f"\n✗ stuck at the end: over {STUCK_ERROR:g}, and less than\n"
            f"{100 * STUCK_GAIN:.0f} % better in the last tenth of steps"
        )
    )


# ---- words ----


def caption(now: MarkRecord) -> Words:
    trials = now.values.number("trials")
    ours, theirs = ((one.found.sum(), middle(one.last)) for one in errors_of(now))
    later = (
        say("L₄ has found the regressors in {:.0f} of {:.0f} trial", ours[0], trials)
        + say("s", when=trials > 1)
        + say(" (median error {:.2g}), ℓ₂ in {:.0f} ({:.2g}).", ours[1], *theirs)
        + fates_in_words(errors_of(now))
        + spread_note(now)
    )
    first = say("Both losses begin at the same random regressors; ℓ₂ moves gates, too.")
    return either(now.first, first, later)


def trouble(now: MarkRecord) -> Words:
    """Says where L4 has no minimum, or none but A = 0."""
    lengths, number = now.last("plane_lengths", "L4"), now.values.number
    unbounded, vanished = lengths.isnan().any(1).sum(), (lengths == 0).any(1).sum()
    begun = now.last("plane_values", "L4").isfinite().any()
    trials = number("trials")
    many = say(
        "δ must be less than 4 λ p for every expert's share p, or L₄ is least where that expert's row is 0: "
        "got δ={:.3g}, λ={:.3g} (in {:.0f} of {:.0f} trials). Lower δ or raise λ.",
        *(number("ridge"), number("penalty"), vanished, trials),
        when=vanished > 0,
    )
    none = say(
        "λ p must be greater than μ for every expert's share p, or L₄ is unbounded below: "
        "got λ={:.3g}, μ={:.3g} (in {:.0f} of {:.0f} trials). Raise λ or lower μ.",
        *(number("penalty"), number("mu"), unbounded, trials),
        when=begun & (unbounded > 0),
        instead=many,
    )
    return none


LIVE = LivePage(
    numbers={
        "mu": (0.01, 0.02, 0.05), "penalty": (1.0, 1.5, 3.0), "ridge": (1.0, 0.5, 0.25), "rate": (0.02, 0.03, 0.01),
        "noise": (0.05, 0.1, 0.3), "l2_rate": (0.1, 0.2, 0.15), "batch": (17, 18, 21), "steps": (1200, 900, 300),
        "dimension": (11, 12, 14), "trials": (6, 7, 9), "shown": (1, 2, 3),
    },
    choices={"experts": ((2, 2), (3, 3), (4, 4)), "gating": ("orthogonal", "random")},
    looks=("shown",),
)  # fmt: skip
"""How the Lab is recorded for a page."""

LandscapeLab = lab(
    "Landscapes",
    name="LandscapeLab",
    about="The loss L4 of gated2019 and the squared error l2, from the same parameters and on the same batches.",
    knobs=KNOBS,
    runs=runs,
    page=LIVE,
    training=of_run,
    seconds=seconds,
    slowest=0.045,
    measures={"regressor_error": "error"},
    panels=(
        mark_panel(
            "Two losses, from the same start",
            maps,
            map_axes,
            map_note,
            width=684,
            margins=(36, 28, 98, 60),
            columns=2,
            gap=40,
            pin=lambda axes, pinned, now: None,
        ),
        mark_panel("Error through time", error, error_axes, error_note, width=416, margins=(60, 90, 100, 102)),
    ),
    caption=sentence(caption),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    trouble=sentence(trouble),
    diverged=lambda name, trials: f"{NAMES[name]} became infinite in {trials}: try a smaller learning rate.",
)
