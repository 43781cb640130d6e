"""StuckRateLab: how often EM gets stuck, over experts and samples, as two maps that fill while they are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from moe_lab.core.grid import Table
from moe_lab.drawing import theme
from moe_lab.drawing.map_marks import Lying, Shares, ShareTable, enough_from, rows_beside
from moe_lab.drawing.marks import Mark, Scales, first_true
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock.recipes import run_of
from moe_lab.recovery.gridlock.run import JointEM, MixtureRun
from moe_lab.recovery.gridlock.stuck import plan_of, stuck_tables
from moe_lab.recovery.gridlock.verdicts import JudgedRun, judging
from moe_lab_widgets.drawing import maps
from moe_lab_widgets.drawing.map_record import ended
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.drawing.on_axes import write
from moe_lab_widgets.engine.controls import FASTEST
from moe_lab_widgets.engine.knobs import LabKnob, device_setting, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.stuck_rate_goals import GOALS, QUESTION
from moe_lab_widgets.labs.stuck_rate_record import (
    EXPERTS,
    SAMPLES,
    found,
    most_experts,
    rows_of,
    stuck,
    stuck_by_experts,
)
from moe_lab_widgets.labs.stuck_rate_stories import EM, GRADIENT, STORIES
from moe_lab_widgets.live.declare import Derived, Fills, LivePage

AFTER_SPECTRAL = 40
"""Iterations of EM of everything after the spectral start, which has converged by then."""
METHODS, SPECTRAL = {EM: "joint-em", GRADIENT: "joint-em-gradient"}, "spectral+em"
"""What moves everything from random starts, and the other start, as `stuck_rate` names them."""
STARTS = ("random", "spectral")
"""The two starts in words."""

KNOBS = (
    offer(MixtureTask, "dimension", main=True, meaning="numbers per input", default=8, slider=(4, 12, 1), far=32,
          effect="More to learn from as many samples."),
    offer(MixtureTask, "noise", main=True, symbol="σ", meaning="noise on y",
          effect="More noise blurs the answers."),
    offer(MixtureTask, "regressors", main=True, symbol="a", meaning="regressors", default="orthonormal",
          effect="Orthonormal regressors are at right angles, random ones at any."),
    LabKnob(name="step", main=True, meaning="random starts go on with", default=EM, choices=(EM, GRADIENT),
            effect="EM moves the gates by Newton's steps, gradient EM by one gradient step."),
    LabKnob(name="iterations", symbol="I", meaning="iterations of joint EM", default=100, low=20, slider=(20, 200, 20),
            effect="More time for all starts."),
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


def furnish_map(values: MarkValues, key: float = math.nan) -> list[list[Mark]]:
    columns = [f"{n:,}" for n in SAMPLES]
    return [[ShareTable(rows_of(values), columns, "k = {}, n = {}", "n · samples", "k · experts", key, EXPERTS[0])]]


def furnish_second_map(values: MarkValues) -> list[list[Mark]]:
    return furnish_map(values, key=16)


def drawn(method: int) -> Callable[[MarkRecord], list[list[Mark]]]:
    """Returns the function that draws the map of one method."""

    def draw(now: MarkRecord) -> list[list[Mark]]:
        share, trials = found(now)[method], now.values.number("trials")
        active, before = now.last("active")[method] > 0, now.pale(found, "samples")[method]
        border = "from here on at least 90 % find all regressors"
        return [[Shares(share, ended(now)[method], trials, active, before, enough_from(share), border, "starts")]]

    return draw


def _counted(words: str) -> Callable[[MarkValues], Words]:
    return lambda values: say(words.replace("{moved}", f"{values['step']} of everything"), values.number("trials"))


# ---- panel 3: how many are stuck ----


def furnish_stuck(values: MarkValues) -> list[list[Mark]]:
    rows = rows_beside(rows_of(values), len(EXPERTS), EXPERTS[0])
    return [[Scales((0, 1), x_ticks=(0, 0.5, 1), x_name="share of starts, all n", percent="x", **rows)]]


def draw_stuck(now: MarkRecord) -> list[list[Mark]]:
    names = [f"k = {{}}, stuck from the {start} start" for start in STARTS]
    return [[Lying(stuck_by_experts(now).T, EXPERTS[0], ("failure", "ink"), names)]]


def pin_stuck(ax: Axes, pinned: Record, now: Record) -> None:
    rows = np.array(pinned["k"][: len(now["k"])])  # those that are still on the map
    style: dict[str, Any] = {"color": theme.REFERENCE, "markersize": 5, "clip_on": False, "zorder": 4}
    both = stuck_by_experts(MarkRecord(pinned)).numpy()
    for shares, up in zip(both, maps.away(len(both)), strict=True):
        ax.plot(shares[: len(rows)], rows + up, "s", label="pinned: stuck", **style)
    write(ax, 0, ax.get_ylim()[0], ["grey squares: pinned"], theme.MUTED, ha="left", size=theme.SMALL_SIZE, down=56)


# ---- words ----


def progress(now: Record) -> str:
    return f"{now['done'].all(-1).sum()} of {now['done'][..., 0].size} cells"


def trouble(now: MarkRecord) -> Words:
    lost = ((now.last("done") > 0) & now.last("regressor_fit").isnan()).sum()
    why = "T2 lacks directions, or numbers became infinite"
    one = Words(f"1 start ended without a result: {why}. It counts as not found.")
    several = say(f"{{:.0f}} starts ended without a result: {why}. They count as not found.", lost)
    return either(lost > 0, either(lost < 2, one, several), NOTHING)


def caption(now: MarkRecord) -> Words:
    done, begun = (now.last("done") > 0).all(-1), ended(now) > 0
    cells, count = torch.ones_like(done).sum(), begun.sum((1, 2))
    share = stuck(now).nan_to_num().sum((1, 2)) / count.clamp(min=1)
    random, spectral = count > 0
    told = (
        say("{:.0%} of the random starts", share[0], when=random)
        + say(" and ", when=random & spectral)
        + say("{:.0%} of the spectral starts", share[1], when=spectral)
        + Words(" are stuck.")
    )
    empty = say(
        "Nothing has run yet. The maps have {:.0f} cells of {:.0f} starts each.", cells, now.values.number("trials")
    )
    so_far = say("{:.0f} of {:.0f} cells are done", done.sum(), cells) + _running(now) + Words(". So far ") + told
    whole = _found(now) + Words(" On the whole map ") + told
    return either(done.sum() == cells, whole, either(begun.any(), so_far, empty))


def _running(now: MarkRecord) -> Words:
    """Returns which cell is computed now, where it is one alone."""
    active = now.last("active") > 0
    k = first_true(active.any(2).any(0)) + EXPERTS[0] - 1
    n = (now.last("samples") * active.any(1).any(0)).sum()
    where = [say(f", now the {start} start at k = {{:.0f}}, n = {{:.0f}}", k, n) for start in STARTS]
    return either(active.sum() == 1, either(active[0].any(), *where), NOTHING)


def _found(now: MarkRecord) -> Words:
    """Returns a sentence on how many experts are found with the largest n."""
    most = most_experts(now)
    up_to = [say("up to k = {:.0f}", one, when=one.isfinite(), instead=Words("for no k")) for one in most]
    text = say("With n = {:.0f} at least 90 % of the starts find all regressors ", now.last("samples")[-1])
    same = up_to[0] + Words(", from random and from spectral starts.")
    apart = up_to[0] + Words(" from random starts, and ") + up_to[1] + Words(" from the spectral start.")
    return text + either(most[0].nan_to_num() == most[1].nan_to_num(), same, apart)


def train(**values: Any) -> Iterator[Table]:
    return stuck_tables(**given_of(values))


# ---- the same starts in a page ----


def run_of_cell(values: Mapping[str, Any]) -> JudgedRun:
    """Returns the run of one start, of k = "experts" and n = "samples", by the method of its map."""
    plan = plan_of(**given_of(values))
    method = {STARTS[0]: METHODS[values["step"]], STARTS[1]: SPECTRAL}[values["start"]]
    point = {"k": values["experts"], "samples": values["samples"], "algorithm": method}
    run = run_of(point, trials=1, seed=values["seed"], **plan.figure.how())
    return JudgedRun(**dict(run), **plan.test)


LIVE = LivePage(
    numbers={
        "dimension": (8, 9, 11), "experts": (4, 5, 3), "samples": (300, 400, 520), "noise": (0.3, 0.5, 0.2),
        "iterations": (60, 80, 140),
    },
    derived={"rows": Derived({"dimension": 1}, len(EXPERTS), less=1)},
    choices=[
        {"start": STARTS[0], "step": step, "regressors": regressors}
        for step in (EM, GRADIENT) for regressors in ("orthonormal", "random")
    ] + [
        {"start": STARTS[1], "experts": experts, "regressors": regressors}
        for experts in ((2, 5), (6, 6)) for regressors in ("orthonormal", "random")
    ],
    fills=Fills(
        run_of_cell,
        judging,
        {"regressor_fit": lambda now: now.last("regressor_fit")[0], "stuck": lambda now: now.last("stuck")[0]},
        own={"experts": 4, "samples": 300},
        lowest=EXPERTS[0],
        maps=("start", STARTS),
        rows="rows",
        columns=lambda values: SAMPLES,
        numbers={"rows": (5, 3, 6), "trials": (20, 12, 9)},
        first=2,
    ),
)  # fmt: skip
"""How the starts and the maps are recorded for a page: the spectral method has more restarts from k = 6 on."""

StuckRateLab = lab(
    "Stuck starts",
    train,
    name="StuckRateLab",
    about="""The k x n maps of starts that find all regressors: with EM from random starts, and from the spectral one.

    A start is stuck where it has not found them and its error has stopped to fall (`stuck_rate`). All starts of a cell
    move as one batch.
    """,
    knobs=KNOBS,
    page=LIVE,
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    panels=(
        mark_panel(
            "From random starts",
            drawn(0),
            furnish_map,
            _counted("{moved}: % of {:.0f} starts that find all regressors"),
            width=440,
            margins=(66, 44, 84, 68),
        ),
        mark_panel(
            "From the spectral start",
            drawn(1),
            furnish_second_map,
            _counted("then EM of everything: % of {:.0f} starts that find all regressors"),
            width=456,
            margins=(48, 78, 84, 68),
        ),
        mark_panel(
            "Stuck starts",
            draw_stuck,
            furnish_stuck,
            "upper bar: random start\nlower bar: spectral start",
            width=204,
            margins=(40, 24, 84, 68),
            pin=pin_stuck,
        ),
    ),
    caption=sentence(caption),
    check=check,
    work=work,
    code=code,
    data=lambda now: now.of().dataset(),
    progress=progress,
    trouble=sentence(trouble),
    budget=90.0,
    speed=FASTEST,
)
