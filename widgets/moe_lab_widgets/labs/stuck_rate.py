"""StuckRateLab: how often EM gets stuck, over experts and samples, as two maps that fill while they are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock.run import JointEM, MixtureRun
from moe_lab.recovery.gridlock.stuck import plan_of
from moe_lab.recovery.gridlock.stuck_live import StuckRecord, stuck_records
from moe_lab_widgets.drawing.maps import ENOUGH, number_rows, pale, share_key, share_map, shares
from moe_lab_widgets.drawing.on_axes import bars, percents, write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.engine.controls import FASTEST
from moe_lab_widgets.engine.knobs import LabKnob, device_setting, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.stuck_rate_stories import EM, GRADIENT, STORIES

EXPERTS, SAMPLES = (2, 3, 4, 5, 6), (250, 500, 1000, 2000)
"""The values of k, of which those above d are left out, and of n."""
AFTER_SPECTRAL = 40
"""Iterations of EM of everything after the spectral start, which has converged by then."""
METHODS, SPECTRAL = {EM: "joint-em", GRADIENT: "joint-em-gradient"}, "spectral+em"
"""What moves everything from random starts, and the other start, as `stuck_rate` names them."""
STARTS, AWAY = ("random", "spectral"), (0.17, -0.17)
"""The two starts in words, and how far their bars lie above the middle of a row."""

KNOBS = (
    offer(MixtureTask, "dimension", main=True, meaning="numbers per input", default=8, slider=(4, 12, 1), far=32,
          effect="More to learn from as many samples: both starts fail earlier."),
    offer(MixtureTask, "noise", main=True, symbol="σ", meaning="noise on y",
          effect="More noise blurs the answers, and with them the moments of the spectral start."),
    offer(MixtureTask, "regressors", main=True, symbol="a", meaning="regressors", default="orthonormal",
          effect="Orthonormal regressors suit the spectral start; at random angles whitening stretches its noise."),
    LabKnob(name="step", main=True, meaning="random starts go on with", default=EM, choices=(EM, GRADIENT),
            effect="EM moves the gates by Newton's steps, gradient EM by one gradient step."),
    LabKnob(name="iterations", symbol="I", meaning="iterations of joint EM", default=100, low=20, slider=(20, 200, 20),
            effect="With more iterations fewer starts are still moving at the end."),
    LabKnob(name="trials", symbol="T", meaning="starts per cell", default=10, low=1, slider=(5, 20, 5), far=1000,
            effect="More starts make the shares in all cells steadier and the map slower."),
)  # fmt: skip

# ---- the map that the values describe ----


def given_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `stuck_rate`."""
    return {
        "k": experts_of(values),
        "d": values["dimension"],
        "samples": SAMPLES,
        "trials": values["trials"],
        "seed": values["seed"],
        "methods": (METHODS[values["step"]], SPECTRAL),
        "joint_iterations": values["iterations"],
        "spectral_iterations": AFTER_SPECTRAL,
        "noise": values["noise"],
        "regressors": values["regressors"],
        **device_setting(values),
    }


def experts_of(values: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(k for k in EXPERTS if k <= values["dimension"])


def check(values: Mapping[str, Any]) -> None:
    plan = plan_of(**given_of(values))
    plan.figure.attrs_of(plan.axes)


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that an iteration of the largest cell touches."""
    task = MixtureTask(experts=max(experts_of(values)), dimension=values["dimension"])
    return MixtureRun(model=JointEM(), task=task, samples=max(SAMPLES), trials=values["trials"]).numbers_per_step


def code(values: Mapping[str, Any]) -> str:
    lines = (
        "from moe_lab.recovery.gridlock.figures import stuck_rate, verdict",
        "from moe_lab.recovery.gridlock.plots import picture",
        "",
        "result = stuck_rate(",
        *(f"    {name}={value!r}," for name, value in given_of(values).items()),
        ")",
        'print((verdict(result) == "stuck").mean("trial").to_series().unstack("samples"))',
        "picture(result)",
    )
    return "\n".join(lines)


# ---- panels 1 and 2: a map for each start ----


def furnish_map(ax: Axes, values: Mapping[str, Any]) -> None:
    experts = experts_of(values)
    cells = [f"k = {k}, n = {n}" for k in experts for n in SAMPLES]
    share_map(ax, [str(k) for k in experts], [f"{n:,}" for n in SAMPLES], cells, "n · samples", "k · experts")


def furnish_second_map(ax: Axes, values: Mapping[str, Any]) -> None:
    furnish_map(ax, values)
    share_key(ax)


def drawn(method: int) -> Callable[[Axes, Record], None]:
    """Returns the function that draws the map of one method."""

    def draw(ax: Axes, now: Record) -> None:
        record: StuckRecord = now.of()
        running = {}
        if record.running is not None and record.running[0] == record.methods[method]:
            running[record.experts.index(record.running[1]), record.samples.index(record.running[2])] = "…"
        before = pale(now, lambda one: one.share("found")[method], lambda one: (one.experts, one.samples))
        border = "from here on at least 90 % find all regressors"
        shares(ax, record.share("found")[method], record.done[method].astype(float), running, border, before)

    return draw


def _counted(words: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda values: words.format(moved=f"{values['step']} of everything", trials=values["trials"])


# ---- panel 3: how many are stuck ----


def furnish_stuck(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(0, 1), xlabel="share of starts, all n")
    ax.set_xticks([0, 0.5, 1])
    percents(ax.xaxis)
    number_rows(ax, [str(k) for k in experts_of(values)])


def draw_stuck(ax: Axes, now: Record) -> None:
    rows, both = np.arange(len(now["experts"])), stuck_by_experts(now.of())
    for stuck, away, colour, start in zip(both, AWAY, (theme.FAILURE, theme.INK), STARTS, strict=True):
        names = [f"k = {k}, stuck from the {start} start" for k in now["experts"]]
        bars(ax, rows + away, stuck, 0.27, colour, across=True, names=names)


def pin_stuck(ax: Axes, pinned: Record, now: Record) -> None:
    rows = np.arange(min(len(pinned["experts"]), len(now["experts"])))  # those that are still on the map
    style: dict[str, Any] = {"color": theme.REFERENCE, "markersize": 5, "clip_on": False, "zorder": 4}
    for stuck, away in zip(stuck_by_experts(pinned.of()), AWAY, strict=True):
        ax.plot(stuck[: len(rows)], rows + away, "s", label="pinned: stuck", **style)
    write(ax, 0, -0.5, ["grey squares: pinned"], theme.MUTED, ha="left", size=theme.SMALL_SIZE, down=56)


def stuck_by_experts(record: StuckRecord) -> NDArray[np.float64]:
    """Returns (method, k) the share of the starts that are stuck, all computed n together; NaN where none is."""
    stuck, count = np.nan_to_num(record.share("stuck")).sum(2), record.done.sum(2)
    return np.where(count > 0, stuck / np.maximum(count, 1), np.nan)


# ---- words ----


def progress(now: Record) -> str:
    return f"{now['done'].sum()} of {now['done'].size} cells"


def trouble(now: Record) -> str:
    record: StuckRecord = now.of()
    lost = round(float(sum((record.share("diverged")[record.done] * record.trials).tolist())))
    if not lost:
        return ""
    starts, count = ("starts", "They count") if lost > 1 else ("start", "It counts")
    why = "T2 lacks directions, or numbers became infinite"
    return f"{lost} {starts} ended without a result: {why}. {count} as not found."


def caption(now: Record) -> str:
    record: StuckRecord = now.of()
    if not record.done.any():
        return f"Nothing has run yet. The maps have {record.done.size} cells of {record.trials} starts each."
    share, count = np.nan_to_num(record.share("stuck")).sum((1, 2)), record.done.sum((1, 2))
    stuck = " and ".join(
        f"{100 * part / number:.0f} % of the {start} starts"
        for part, number, start in zip(share, count, STARTS, strict=True)
        if number
    )
    if record.finished:
        return f"{_found(record)} On the whole map {stuck} are stuck."
    where = ""
    if record.running is not None:
        method, k, n = record.running
        where = f", now the {STARTS[record.methods.index(method)]} start at k = {k}, n = {n}"
    return f"{record.done.sum()} of {record.done.size} cells are done{where}. So far {stuck} are stuck."


def _found(record: StuckRecord) -> str:
    """Returns a sentence on how many experts are found with the largest n."""
    random, spectral = (f"up to k = {most}" if most else "for no k" for most in most_experts(record))
    text = f"With n = {record.samples[-1]} at least 90 % of the starts find all regressors"
    if random == spectral:
        return f"{text} {random}, from random and from spectral starts."
    return f"{text} {random} from random starts, and {spectral} from the spectral start."


def most_experts(record: StuckRecord) -> list[int | None]:
    """Returns the most experts up to which 90 % find all regressors with the largest n, for each method."""
    enough = np.cumprod(np.nan_to_num(record.share("found")[:, :, -1]) >= ENOUGH - 1e-9, axis=1).sum(1)
    return [record.experts[many - 1] if many else None for many in enough.tolist()]


def train(**values: Any) -> Iterator[StuckRecord]:
    return stuck_records(**given_of(values))


StuckRateLab = lab(
    "Stuck starts",
    train,
    name="StuckRateLab",
    about="""The k x n maps of starts that find all regressors: with EM from random starts, and from the spectral one.

    A start is stuck where it has not found them and its error has stopped to fall (`stuck_rate`). All starts of a cell
    move as one batch.
    """,
    knobs=KNOBS,
    stories=STORIES,
    panels=(
        Panel(
            "From random starts",
            drawn(0),
            furnish_map,
            _counted("{moved}: % of {trials} starts that find all regressors"),
            width=440,
            margins=(66, 44, 84, 68),
        ),
        Panel(
            "From the spectral start",
            drawn(1),
            furnish_second_map,
            _counted("then EM of everything: % of {trials} starts that find all regressors"),
            width=456,
            margins=(48, 78, 84, 68),
        ),
        Panel(
            "Stuck starts",
            draw_stuck,
            furnish_stuck,
            "upper bar: random start\nlower bar: spectral start",
            width=204,
            margins=(40, 24, 84, 68),
            pin=pin_stuck,
        ),
    ),
    caption=caption,
    check=check,
    work=work,
    code=code,
    data=lambda now: now.of().dataset(),
    progress=progress,
    trouble=trouble,
    budget=90.0,
    speed=FASTEST,
)
