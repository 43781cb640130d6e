"""LandscapeLab: the loss L4 beside the squared error, descended from the same start on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.core.snapshots import Snapshot
from moe_lab.drawing import theme
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.landscape import L2Loss, L4Loss, LossRun, descend_run
from moe_lab.recovery.landscape.planes import flat, lengths, plane
from moe_lab.recovery.landscape.run import PAPER_TASK
from moe_lab.recovery.landscape.stuck import STUCK_ERROR, STUCK_GAIN, stuck_at
from moe_lab_widgets.drawing.error_curves import Errors, draw_errors, fates_in_words, furnish_errors, lines_in_words
from moe_lab_widgets.drawing.on_axes import box_of, ends, line, name_cells, note, paint, write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.trials import spread_words
from moe_lab_widgets.drawing.words import middle, two_digits
from moe_lab_widgets.engine.knobs import ANOTHER_TRIAL, MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.landscape_goals import GOALS, QUESTION
from moe_lab_widgets.labs.landscape_stories import STORIES

NAMES = {"L4": "L₄", "l2": "ℓ₂"}
STYLES = {"L₄": theme.MODEL, "ℓ₂": theme.OTHER}
LEVELS, DARKEST = 16, 0.62
"""Shades of a map; the darkest one, as a part of the ramp, so that a path in ink can be seen everywhere."""
GOLD = "#E0B000"
"""Of a true solution's star, which its shape tells, too."""
LOWEST, HIGHEST = 1e-5, 1.0
"""Of the error, 1 - |cos|, which cannot exceed 1."""
TICKS = {1e-5: "10⁻⁵", 1e-4: "10⁻⁴", 1e-3: "10⁻³", 1e-2: "10⁻²", 1e-1: "10⁻¹", 1.0: "1"}

# ---- knobs, and the two descents that their values describe ----

# Short words, so that three sliders stand side by side, and ranges in which a run stays live.
KNOBS = (
    offer(L4Loss, "mu", main=True, symbol="μ", meaning="reward of 4th moments", slider=(0.0, 0.2, 0.01),
          effect="Draws each row more strongly to a single regressor; λ must stay well above it."),
    offer(L4Loss, "penalty", main=True, symbol="λ", meaning="penalty of 2nd moments", slider=(0.0, 8.0, 0.5),
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
    return {name: config_from(LossRun, values, model=loss, task=task) for name, loss in losses.items()}


def begin(run: LossRun, cache: dict[str, Any]) -> Iterator[Snapshot]:
    """Begins a descent.

    Raises:
      ValueError: L4 has no least value.
    """
    if isinstance(run.model, L4Loss):
        rows_of_minimiser(run)
    return descend_run(run)


def rows_of_minimiser(run: LossRun) -> NDArray[np.float64]:
    """Returns (trial, expert) the lengths of the rows where L4 is least; 0 where delta is too large."""
    assert isinstance(run.model, L4Loss)
    return lengths(run.task.parameters(run.trial_numbers, run.seed), run.model.weights)


def seconds(values: Mapping[str, Any]) -> float:
    """Returns about how long one step of both losses takes on one CPU thread (measured, within a half)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["batch"]
    return float(6e-4 + rows * (d * 3.0e-8 + k * 1.2e-7))


def shown(now: Record) -> int:
    """Returns the trial on show, counted from 0."""
    return int(min(now.values["shown"], now.trials)) - 1


# ---- panel 1: both losses from above, with the paths of the descents ----


def furnish_maps(axes: list[Axes], values: Mapping[str, Any]) -> None:
    two = values["experts"] == 2
    second = "another" if two else "the start", "the exchange" if two else "the start"
    for ax, other, name in zip(axes, second, STYLES, strict=True):
        name_cells(ax, [f"{name}: the loss on a plane through the minima; darker is larger"])
        ax.set(xlim=(-1, 1), ylim=(-1, 1), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        small: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE}
        ax.set_xlabel(f"towards {'one' if two else 'the nearest'} true solution →", **small)
        ax.set_ylabel(f"towards {other} →", **small)
    note(axes[0], -10, -32, "★ a true solution   ○ the start   ● now")
    if two:
        note(axes[1], 0, -32, "✗ a false valley: gate and a₁ − a₂ exchanged", theme.FAILURE)
    else:
        note(axes[1], 0, -32, "a path may end at a solution off the plane")


def draw_maps(axes: list[Axes], now: Record) -> None:
    trial = shown(now)
    for ax, (name, run) in zip(axes, runs(now.values).items(), strict=True):
        style = STYLES[NAMES[name]]
        what = f"{NAMES[name]}{', squared error' if name == 'l2' else ''}"
        which = f", trial {trial + 1} of {now.trials}" if now.trials > 1 else ""
        write(ax, -1, 1, [what + which], style.colour, ha="left", bold=True, down=-12)
        state = draw_path(ax, now, name, run, trial) if now.of(name) is not None else "waits for its samples"
        write(ax, 0, -1, [state], style.colour, size=theme.SMALL_SIZE, down=36)


def draw_path(ax: Axes, now: Record, name: str, run: LossRun, trial: int) -> str:
    """Draws a loss on the plane of its minima (see `planes`) and a descent on it; returns where that is, in words."""
    flatland, words = plane(run, trial), NAMES[name]
    paint(ax, 0, 1, box_of(ax)[2:], _map, [(run, trial)])
    seen = flatland.coordinates(path(now, name, trial))
    places = seen[:, :2] / flatland.half
    inside = np.clip(places, -1, 1)
    x, y = inside.T
    line(ax, x, y, color=theme.PAPER, linewidth=4.6, zorder=3, solid_capstyle="round")
    line(ax, x, y, color=theme.INK, linewidth=2.2, zorder=4, solid_capstyle="round", label=f"{words}: the path so far")
    true, false = (where / flatland.half for where in (flatland.true, flatland.false))
    _mark(ax, true, "*", 17, GOLD, theme.INK, f"{words}: a true solution")
    _mark(ax, false, "X", 11, theme.FAILURE, theme.PAPER, f"{words}: gate and a₁ − a₂ exchanged")
    _mark(ax, inside[:1], "o", 8, theme.PAPER, theme.INK, f"{words}: the start")
    _mark(ax, inside[-1:], pointer(places), 9, theme.INK, theme.PAPER, f"{words}: now; a triangle points outside")
    apart = f"{seen[-1, 2]:.2f}" if len(seen) else "–"
    return f"error {two_digits(now.last('regressor_error', name)[trial])}; {apart} off the plane"


def _mark(ax: Axes, at: NDArray[np.float64], marker: str, size: float, colour: str, edge: str, label: str) -> None:
    style: dict[str, Any] = {"markersize": size, "color": colour, "markeredgecolor": edge}
    line(ax, at[:, 0], at[:, 1], marker=marker, linestyle="none", clip_on=False, zorder=5, label=label, **style)


def path(now: Record, name: str, trial: int) -> NDArray[np.float64]:
    """Returns (record, m) the parameters that a descent moves; records that diverged are left out."""
    shots = now.shots[name]
    points = flat(name, *(np.stack([shot[part][trial] for shot in shots]) for part in ("rows", "gates")))
    return points[np.isfinite(points).all(1)]


def pointer(places: NDArray[np.float64]) -> str:
    """Returns the mark of the last place: a disc, or a triangle that points to a place outside the map."""
    if not len(places) or np.abs(places[-1]).max() <= 1:
        return "o"
    x, y = places[-1]
    return ("<", ">")[int(x > 0)] if abs(x) >= abs(y) else ("v", "^")[int(y > 0)]


@lru_cache(maxsize=8)
def _map(shown: tuple[LossRun, int], wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    return shades(plane(*shown).values, wide)


def shades(values: NDArray[np.float64], pixels: int) -> NDArray[np.uint8]:
    """Returns a loss as (pixels, pixels, 4) bands of the ramp, darker where it is larger, the second direction upwards.

    Levels are even in the root of what the loss has beyond its least value, so that flat valleys show.
    """
    root = np.sqrt(np.clip(values - values.min(), 0, None))
    root = root / (root.max() or 1.0)
    at = np.linspace(0, len(root) - 1, pixels)
    low = np.minimum(at.astype(int), len(root) - 2)
    part = (at - low)[:, None]
    tall = root[low] * (1 - part) + root[low + 1] * part
    fine = (tall[:, low].T * (1 - part) + tall[:, low + 1].T * part).T
    band = np.minimum((fine * LEVELS).astype(int), LEVELS - 1)
    image = theme.ramp(np.linspace(0, DARKEST, LEVELS))[band]
    edges = np.zeros(band.shape, dtype=bool)
    edges[1:] |= band[1:] != band[:-1]
    edges[:, 1:] |= band[:, 1:] != band[:, :-1]
    image[edges, :3] = (0.75 * image[edges, :3].astype(float) + 0.25 * theme.rgba(theme.MUTED)[:3]).astype(np.uint8)
    return np.ascontiguousarray(image[::-1])


# ---- panel 2: the regressors' error over the steps ----


def furnish_error(ax: Axes, values: Mapping[str, Any]) -> None:
    steps = values["steps"]
    ax.set(xlim=(0, steps), ylim=(LOWEST, HIGHEST), xticks=[0, steps / 2, steps], xlabel="step")
    furnish_errors(ax, TICKS, STYLES, left=26, wide=90)
    ax.axhline(STUCK_ERROR, color=theme.FAILURE, linewidth=1, zorder=1)
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    ax.text(-0.026, STUCK_ERROR, f"{STUCK_ERROR:g}", color=theme.FAILURE, size=theme.SMALL_SIZE, **place)


def draw_error(ax: Axes, now: Record) -> None:
    last = draw_errors(ax, errors_of(now), STYLES, firm=shown(now))
    ends(ax, [(error, f"{name}\n{two_digits(error)}", STYLES[name].colour) for name, error in last.items()])


def errors_of(now: Record) -> list[Errors]:
    return [
        Errors(NAMES[name], *now.curve("regressor_error", name), found(now, name), *verdicts(now, name))
        for name in now.names
    ]


def found(now: Record, name: str) -> NDArray[np.bool_]:
    """Returns (trial,) whether the error is at most `STUCK_ERROR`."""
    return np.asarray(now.last("regressor_error", name) <= STUCK_ERROR)


def verdicts(now: Record, name: str) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
    """Returns (trial,) stuck and (trial,) still falling by `stuck_at`; None before the descent has ended."""
    shot, errors = now.of(name), now.curve("regressor_error", name)[1]
    return stuck_at(errors) if shot is not None and shot.finished.all() and len(errors) > 1 else (None, None)


def error_note(values: Mapping[str, Any]) -> str:
    return (
        f"1 − |cos|; {lines_in_words(values['trials'])}\n"
        f"✗ stuck at the end: over {STUCK_ERROR:g}, and less than\n"
        f"{100 * STUCK_GAIN:.0f} % better in the last tenth of steps"
    )


# ---- words ----


def caption(now: Record) -> str:
    if now.of("l2") is None:
        return "Both losses begin at the same random regressors; ℓ₂ moves gates, too."
    trials = f"{now.trials} trial{'s' * (now.trials > 1)}"
    count = [int(found(now, name).sum()) for name in now.names]
    ours, theirs = (two_digits(middle(now.last("regressor_error", name))) for name in now.names)
    text = f"L₄ has found the regressors in {count[0]} of {trials} (median error {ours}), ℓ₂ in {count[1]} ({theirs})."
    return text + fates_in_words(errors_of(now)) + spread_words(now.trials)


def trouble(now: Record) -> str:
    run = runs(now.values)["L4"]
    vanished = int((rows_of_minimiser(run) == 0).any(1).sum())
    if not vanished:
        return ""
    assert isinstance(run.model, L4Loss)
    return (
        "δ must be less than 4 λ p for every expert's share p, or L₄ is least where that expert's row is 0: "
        f"got δ={run.model.ridge:g}, λ={run.model.penalty:g} (in {vanished} of {now.trials} trials). "
        "Lower δ or raise λ."
    )


LandscapeLab = lab(
    "Landscapes",
    name="LandscapeLab",
    about="The loss L4 of gated2019 and the squared error l2, from the same parameters and on the same batches.",
    knobs=KNOBS,
    runs=runs,
    begin=begin,
    seconds=seconds,
    slowest=0.045,
    measures={"regressor_error": "error"},
    panels=(
        Panel(
            "Two losses, from the same start",
            draw_maps,
            furnish_maps,
            "darker: larger loss; a map is a plane, and a path may pass over or under it",
            width=684,
            margins=(36, 28, 98, 60),
            columns=2,
            gap=40,
            pin=lambda axes, pinned, now: None,
        ),
        Panel("Error through time", draw_error, furnish_error, error_note, width=416, margins=(60, 90, 100, 102)),
    ),
    caption=caption,
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    trouble=trouble,
    diverged=lambda name, trials: f"{NAMES[name]} became infinite in {trials}: try a smaller learning rate.",
)
