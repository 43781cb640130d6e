"""GridlockLab: a mixture's regressors from a tensor, then its gates, live, beside EM on both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab.core.config import require
from moe_lab.drawing import theme
from moe_lab.drawing.marks import Mark, Outline, Scales, middle
from moe_lab.drawing.words import Words, say, written
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.gridlock import JointEM, MixtureRun, Spectral
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
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.marks_on_axes import mark_panel
from moe_lab_widgets.drawing.on_axes import box_of, cells, name_cells, note, reads, write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.styles import INKS
from moe_lab_widgets.drawing.tables import key
from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import two_digits
from moe_lab_widgets.engine.knobs import ANOTHER_TRIAL, MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs import gridlock_record as at
from moe_lab_widgets.labs.gridlock_goals import GOALS, QUESTION
from moe_lab_widgets.labs.gridlock_record import JOINT, SPECTRAL
from moe_lab_widgets.labs.gridlock_stories import PRINTED, STORIES

NO_MIXTURE, P3 = "none", "P3(y)"
HAVE_PRINTED = tuple(g for g in ACTIVATIONS if printed(g, 0.1))
"""Activations whose P3 the paper prints."""
NAMES = {SPECTRAL: "spectral + EM", JOINT: "joint EM"}
STYLES = {SPECTRAL: "model", JOINT: "other"}
ENDS = {"spectral + EM": "spectral\n+ EM ", "joint EM": "joint EM\n"}
"""What stands before the numbers at the ends of the curves."""
SUBSCRIPTS = "₁₂₃₄₅₆₇₈₉"
LEAST_WORDS = 34
"""Pixels of a cell from which its number is written into it."""
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
    joint = JointEM(iterations=values["iterations"])
    return {
        SPECTRAL: config_from(MixtureRun, values, model=spectral, task=task, record_every=1),
        JOINT: config_from(MixtureRun, values, model=joint, task=task, record_every=at.joint_every(values)),
    }


# ---- panel 1: the estimates of each method against the truth ----


def furnish_found(axes: list[Axes], values: Mapping[str, Any]) -> None:
    k = values["experts"]
    true = [f"true regressor a{number}" for number in SUBSCRIPTS[:k]]
    for ax in axes:
        _, _, width, height = box_of(ax)
        cell = min(184 / k, 220 / (k + 1.4))
        ax.set(xlim=(-0.5, width / cell - 0.5), ylim=(height / cell - 0.5, -0.5), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        name_cells(ax, [f"estimate {row + 1}, {column}" for row in range(k) for column in true])
        note(ax, 0, -10, f"true regressors a₁{', ' if k == 2 else ' … '}a{SUBSCRIPTS[k - 1]}")
        last = "" if k == 2 else f" … w{SUBSCRIPTS[k - 2]}"
        style: dict[str, Any] = {"ha": "left", "size": theme.SMALL_SIZE}
        write(ax, -0.5, k + 0.9, [f"gates w₁{last} and the true ones"], theme.MUTED, down=10, **style)
    left, top, _, height = box_of(axes[0])
    axes[0].set_ylabel("estimates", color=theme.MUTED, size=theme.SMALL_SIZE)
    axes[0].yaxis.set_label_coords(-14 / width, 1 - k * cell / height / 2)
    axes[0].add_artist(key(left, top + height + 16, 6, 18, 34, 1.0))
    note(axes[0], 212, 25, "|cos|; dark diagonal: recovered", under=True)
    note(axes[0], 0, 51, f"estimates are matched to the true ones; ✓ from |cos| = {FOUND:g} on, ✗ below", under=True)


def draw_found(axes: list[Axes], now: Record) -> None:
    trial = at.shown(now)
    for ax, name in zip(axes, now.names, strict=True):
        which = f", trial {trial + 1} of {now.trials}" if now.trials > 1 else ""
        words = [NAMES[name] + which, progress_of(now, name, trial)]
        style: dict[str, Any] = {"ha": "left", "bold": True, "size": theme.SMALL_SIZE}
        write(ax, -0.5, -0.5, words, INKS[STYLES[name]], down=[-46, -29], **style)
        draw_cosines(ax, now, name, trial)


def draw_cosines(ax: Axes, now: Record, name: str, trial: int) -> None:
    """Draws the |cos| of estimates (rows, matched) and true regressors (columns), and below a row of gates.

    At the end of a row stands its own |cos|, with a tick from `FOUND` on. At the end of the gates' row stands the worst
    without a tick, which only regressors have.
    """
    cosines, gates = at.cosines(now, name, trial), at.gate_cosines(now, name, trial)
    k = len(cosines)
    cell = box_of(ax)[2] / (ax.get_xlim()[1] - ax.get_xlim()[0])
    matched = range(0, k * k, k + 1)  # outlined, so that a match can be seen where it is pale
    cells(ax, _words(cosines, cell), cosines, framed=matched, size=theme.SMALL_SIZE)
    names = [f"gate w{number} and the true one" for number in SUBSCRIPTS[: k - 1]]
    cells(ax, _words(gates, cell), gates[None], names=names, at=(0, k + 0.4), size=theme.SMALL_SIZE)
    own, good = np.diagonal(cosines), at.found(now, name)[trial]
    sought = np.asarray(cosines.any(1))  # estimates not sought yet are 0
    signs = [("✓" if right else "✗") if known else "" for right, known in zip(good, sought, strict=True)]
    style: dict[str, Any] = {"bold": True, "size": 14, "right": 11}
    write(ax, k - 0.5, np.arange(k), signs, np.where(good, theme.FOUND, theme.FAILURE), **style)
    numbers = [number(cosine) if known else "–" for cosine, known in zip(own, sought, strict=True)]
    numbers.append(f"worst {number(gates.min())}" if gates.any() else "–")
    rows, aside = np.append(np.arange(k), k + 0.4), np.append(np.full(k, 35), 18)
    write(ax, k - 0.5, rows, numbers, theme.MUTED, size=theme.SMALL_SIZE, right=aside)


def progress_of(now: Record, name: str, trial: int) -> str:
    """Returns how far a method is, in a few words."""
    if now.of(name) is None:
        return "waits for its samples"
    count, k = int(at.found(now, name)[trial].sum()), now.values["experts"]
    if name == SPECTRAL and at.seeking(now):
        return f"power {now.of(name).step} of {at.power(now.values)}: {count} of {k} found"
    return f"iteration {at.iteration(now, name)}: {count} of {k} found"


def number(cosine: float) -> str:
    """Returns two digits, never rounded up across `FOUND`."""
    rounded = round(float(cosine), 2)
    return f"{rounded - 0.01 if cosine < FOUND <= rounded else rounded:.2f}"


def _words(cosines: NDArray[np.float64], cell: float) -> list[str]:
    return [number(cosine) if cell >= LEAST_WORDS else "" for cosine in cosines.flat]


# ---- panel 2: the error over EM's iterations ----


def error_axes(values: MarkValues) -> Iterator[list[Mark]]:
    (low, high), longest = error_limits(values.plain), longest_em(values.plain)
    whole = [0, *(10**power for power in range(6) if 10**power <= longest)]
    at = ticks(low, high)
    yield [
        Scales(
            (1, 1 + longest), (low, high), [1 + iteration for iteration in whole], at, "EM iteration",
            x_reads="1 + iteration", y_reads="error", log="xy",
            x_words=[str(iteration) for iteration in whole], y_words=[f"{tick:g}" for tick in at],
        ),
        *count_heads([(NAMES[name], STYLES[name]) for name in NAMES], low=low, **COUNTS),
    ]  # fmt: skip


def error(now: MarkRecord) -> Iterator[list[Mark]]:
    limits, methods = error_limits(now.values.plain), errors_of(now.record)
    best = middle(torch.as_tensor(now.record.last("best")))
    floor = best.clamp(*limits)
    yield [
        *error_marks(methods, limits, torch.tensor(at.shown(now.record)), **COUNTS),
        Outline(torch.tensor([1.0, 1.0 + longest_em(now.values.plain)]), floor.expand(2), "found", name=FLOOR),
        median_ends(methods, [f"{ENDS[one.name]}{{:.2g}}" for one in methods],
                [(best, "EM from\ntruth {:.2g}", "found")]),
    ]  # fmt: skip


def errors_of(now: Record) -> list[Errors]:
    """Returns the errors of both methods over 1 + iterations of EM, whose logarithm begins at 0."""
    methods = []
    for name in now.names:
        steps, errors = at.em_errors(now, name)
        if not len(steps):
            steps, errors = np.full(1, np.nan), np.full((1, now.trials), np.nan)
        stuck, falling = at.verdicts(now, name)
        parts = (1.0 + steps, errors, errors[-1], at.whole(now, name), stuck, falling, np.array(True))
        methods.append(Errors(NAMES[name], STYLES[name], *map(torch.as_tensor, parts)))
    return methods


def longest_em(values: Mapping[str, Any]) -> int:
    """Returns the iterations of EM of the method that has more."""
    return int(max(values["iterations"], at.GATE_ITERATIONS + at.EVERYTHING_ITERATIONS))


def error_limits(values: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the limits of the error's axis: below what these samples allow, and above a random start.

    Random unit regressors and gates are sqrt(2 k) and sqrt(2 (k - 1)) from the true ones; what maximum likelihood
    leaves is mostly the gates', about 2 sqrt(k (k - 1) d / n) for linear experts and more for others.
    """
    k, d, n = values["experts"], values["dimension"], values["samples"]
    rest = 2 * np.sqrt(k * (k - 1) * d / n)
    low = 10 ** (np.floor(2 * np.log10(rest / 2)) / 2)
    return float(low), float(1.5 * (np.sqrt(2 * k) + np.sqrt(2 * (k - 1))))


def ticks(low: float, high: float) -> list[float]:
    """Returns the numbers 1, 2 and 5 times a power of ten between limits."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    return [digit * 10.0**power for power in powers for digit in (1, 2, 5) if low <= digit * 10.0**power <= high]


def error_note(values: MarkValues) -> Words:
    return (
        say("distance from the true parameters\n")
        + lines_in_words(values)
        + say(f"\n✗ stuck: under {100 * GAIN:.0f} % better in {WINDOW} iterations")
    )


# ---- panel 3: how the spectral method finds its start ----


def furnish_stages(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(0, 1), ylim=(0, 1.03), xticks=[])
    ax.set_yticks([0, 0.5, 1, FOUND], ["0", "0.5", "1", f"{FOUND:g}"])
    ax.get_yticklabels()[-1].set_color(theme.FAILURE)
    reads(ax, y="|cos|")
    ax.axvspan(EDGES[1], 1, color=theme.BACKGROUND, alpha=0.5, zorder=0, linewidth=0)
    ax.vlines(EDGES[1:3], 0, 1.03, color=theme.REFERENCE, linewidth=0.8, zorder=1)
    ax.axhline(FOUND, color=theme.FAILURE, linewidth=1, zorder=1)
    note(ax, -30, -18, "— regressors", theme.INK)
    note(ax, 86, -18, "- - gates", theme.FOUND)
    style: dict[str, Any] = {"size": theme.SMALL_SIZE}
    write(ax, _centers(), 0, ["power", "gates", "all"], down=12, **style)
    lengths = [f"{at.POWER_ITERATIONS} each", f"{at.GATE_ITERATIONS} of EM", f"{at.EVERYTHING_ITERATIONS} of EM"]
    write(ax, _centers(), 0, lengths, theme.MUTED, down=29, **style)
    note(ax, -30, 52, "✓ found at the end of each stage", theme.FOUND, under=True)
    write(ax, 0, 0, ["a", "w"], [theme.INK, theme.FOUND], bold=True, right=-10, down=[69, 86])


def draw_stages(ax: Axes, now: Record) -> None:
    trial, power = at.shown(now), at.power(now.values)
    em = [shot for shot in now.shots[SPECTRAL] if shot.step >= power]
    x = np.interp([shot.step for shot in em], (0, *at.stage_ends(now.values)), EDGES)
    lines = [
        np.column_stack((EDGES[1] / at.POWER_ITERATIONS * np.arange(1, len(curve) + 1), curve))
        for curve in at.components(now, trial)
    ]
    best = np.nan_to_num([shot["cosines"][trial].max(0) for shot in em]).T
    gates = np.nan_to_num([shot["gate_cosines"][trial] for shot in em]).T
    lines += [np.column_stack((x, curve)) for curve in best]
    dashes = [np.column_stack((x, curve)) for curve in gates]
    style: dict[str, Any] = {"linewidths": 1.4, "zorder": 3}
    for curves in (
        LineCollection(lines, colors=[(theme.INK, 0.8)], label="a regressor", **style),
        LineCollection(dashes, colors=[theme.FOUND], linestyles="--", label="a gate", **style),
    ):
        ax.add_collection(curves, autolim=False)
    counts, colours = at.found_by_stage(now, trial), np.repeat([theme.INK, theme.FOUND], 3)
    words = [word for row in counts for word in row]
    down = np.repeat([69, 86], 3)
    write(ax, np.tile(_centers(), 2), 0, words, colours, bold=True, size=theme.SMALL_SIZE, down=down)


def _centers() -> NDArray[np.float64]:
    return np.convolve(EDGES, (0.5, 0.5), "valid")


# ---- words ----


def caption(now: Record) -> str:
    trial, k = at.shown(now), now.values["experts"]
    if now.of(JOINT) is None:
        return (
            f"T₃ is whitened to {k} × {k} × {k} numbers, and nothing is found yet; "
            "joint EM begins with random regressors and gates."
        )
    joint = now.of(JOINT).step
    ours, theirs = (int(at.found(now, name)[trial].sum()) for name in now.names)
    where = f"In trial {trial + 1}, " if now.trials > 1 else ""
    if at.seeking(now):
        return (
            f"{where}{ours} of {k} regressors are found (|cos| ≥ {FOUND:g}) after {now.of(SPECTRAL).step} of "
            f"{at.power(now.values)} power iterations. Joint EM has found {theirs} in {joint} iterations."
        )
    errors = [two_digits(float(middle(one.last))) for one in errors_of(now)]
    text = (
        f"{where}{'spectral' if where else 'Spectral'} + EM has found {ours} of {k} regressors and joint EM {theirs}. "
        f"Median errors: {errors[0]} and {errors[1]}."
    )
    return text + written(fates_in_words(errors_of(now))) + spread_words(now.trials)


def progress(now: Record) -> str:
    joint = now.of(JOINT)
    return f"joint EM iteration {0 if joint is None else joint.step} of {now.total}"


def diverged(name: str, trials: str) -> str:
    if name == SPECTRAL:
        why = (
            "T₂ has fewer than k positive eigenvalues (take more samples or fewer experts), or numbers became infinite"
        )
        return f"The spectral method has no result in {trials}: {why}."
    return f"Joint EM ran into infinite numbers in {trials}."


GridlockLab = lab(
    "Gridlock",
    name="GridlockLab",
    about="The spectral method of gridlock2019 and joint EM on the same samples, iteration by iteration.",
    knobs=KNOBS,
    runs=runs,
    begin=at.begin,
    steps=lambda values: values["iterations"],
    measures={"error": "error", "regressor_fit": "regressor fit"},
    panels=(
        Panel(
            "What is found",
            draw_found,
            furnish_found,
            "how well each estimate points along each true regressor: |cos|",
            width=540,
            margins=(46, 5, 122, 76),
            columns=2,
            gap=19,
        ),
        mark_panel("Error over time", error, error_axes, error_note, width=305, margins=(49, 105, 100, 102)),
        Panel(
            "How the start is found",
            draw_stages,
            furnish_stages,
            "|cos| with the true one, trial shown",
            width=255,
            margins=(47, 12, 84, 102),
        ),
    ),
    caption=caption,
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    progress=progress,
    diverged=diverged,
)
