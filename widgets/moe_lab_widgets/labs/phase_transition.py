"""PhaseTransitionLab: how many samples training needs for every l, as a map that fills while it is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from moe_lab.core.grid import Table
from moe_lab.drawing import theme
from moe_lab.drawing.map_marks import Reaches, Shares, ShareTable, Track, enough_from, numbers_of, rows_beside
from moe_lab.drawing.marks import Level, Mark, Scales, Writing
from moe_lab.drawing.words import NOTHING, say
from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.phase import SUCCESS, phase_tables
from moe_lab.patch_routing.run import PatchRun
from moe_lab.patch_routing.training import of_run
from moe_lab_widgets.drawing import maps
from moe_lab_widgets.drawing.map_record import ended
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.drawing.on_axes import write
from moe_lab_widgets.engine.controls import FASTEST
from moe_lab_widgets.engine.goal import Question, Sketch
from moe_lab_widgets.engine.knobs import LabKnob, config_from, device_setting, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.mnist import DATA_WORDS, HOW, MNIST, files_of, with_mnist
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.phase_transition_goals import GOALS
from moe_lab_widgets.labs.phase_transition_record import (
    PER_EXPERT,
    SAMPLES,
    complete,
    coverage_at,
    l_star,
    rows_of,
    samples_needed,
    samples_of,
    share,
)
from moe_lab_widgets.labs.phase_transition_stories import DIGITS, JOINT, NOISE, SEPARATE, STORIES, SYNTHETIC
from moe_lab_widgets.labs.phase_transition_words import (
    ANSWERS,
    FIRST_TRAININGS,
    caption,
    lost,
    right_answer,
    seen,
    trained,
)
from moe_lab_widgets.live.declare import OF_PATTERNS, Derived, Fills, LivePage

TEST_SAMPLES = {SYNTHETIC: 400, DIGITS: 400, MNIST: 1000}
LEARNING_RATE = {SYNTHETIC: 10.0, DIGITS: 10.0, MNIST: None}
"""Twice the usual rate: the same success in half the steps. On MNIST it is the paper's map, at the usual rate."""
FEWEST, MOST, EDGE = 17, 1000, 930
"""Limits of N, the same for every setting, so that pinned curves compare; where "more than the largest N" stands."""

# ---- knobs: ranges keep l* on the map, and a map live ----


def _synthetic(values: Mapping[str, Any]) -> bool:
    return bool(values["source"] == SYNTHETIC)


def _joint(values: Mapping[str, Any]) -> bool:
    return bool(values["training"] == JOINT)


KNOBS = (
    LabKnob(name="source", main=True, meaning="Data", default=SYNTHETIC, choices=(SYNTHETIC, DIGITS), words=DATA_WORDS,
            reason=HOW,
            effect="Of synthetic patches l* is known; of real digits it is blurred."),
    LabKnob(name="training", main=True, meaning="training of the routers", default=SEPARATE, choices=(SEPARATE, JOINT),
            words={SEPARATE: "separate (before the experts)", JOINT: "joint (with the experts)"},
            effect="Routers learn first and each for itself, or together with the experts."),
    LabKnob(name="experts", main=True, symbol="k", meaning="experts", default=4, low=1, choices=(1, 2, 4, 5, 8),
            enabled_when=lambda values: values["training"] == JOINT,
            effect="More experts, among whom the neurons are divided.",
            applies="only to joint training; separate training has one expert for each class"),
    offer(PatternTask, "patches", main=True, meaning="patches per sample", slider=(4, 32, 1), far=64,
          effect="More patches that do not matter."),
    offer(PatternTask, "distractors", main=True, symbol="", meaning="distractors (l* − 1)", default=2,
          slider=(0, 6, 1), enabled_when=_synthetic,
          effect="More patches imitate a class, and score higher than o.",
          applies="only to synthetic patches"),
    offer(PatternTask, "gap", main=True, meaning="distractors like o", default=1.2,
          enabled_when=_synthetic,
          effect="The larger, the more strongly distractors pull routers to the class that they imitate.",
          applies="only to synthetic patches"),
    offer(PatternTask, "delta_d", main=True, symbol="δ_d", meaning="overlap of o₁, o₂", enabled_when=_synthetic,
          effect="The closer to 1, the more alike both classes look.",
          applies="only to synthetic patches"),
    offer(PatternTask, "noise", main=True, symbol="", meaning="noise on each patch",
          follows=lambda values: NOISE[values["source"]],
          effect="More noise hides the patterns."),
    offer(PatternTask, "delta_r", symbol="δ_r", meaning="overlap of others with o", enabled_when=_synthetic,
          effect="The larger, the more of o may be in a patch that does not matter.",
          applies="only to synthetic patches"),
    LabKnob(name="trials", symbol="T", meaning="trainings per cell", default=20, low=1, slider=(5, 40, 5), far=100,
            effect="More trainings make the shares in all cells steadier and the map slower."),
)  # fmt: skip

# ---- the map that the values describe ----


def task_of(values: Mapping[str, Any]) -> PatternTask | DigitTask:
    if values["source"] == DIGITS:
        return config_from(DigitTask, {**values, "source": "digits"})
    if values["source"] == MNIST:
        return make_task("mnist", patches=values["patches"], **files_of(values))
    return config_from(PatternTask, values)


def model_of(values: Mapping[str, Any]) -> SeparateMoE | JointMoE:
    """Returns the model at l = 1. Separate training has one expert per class: k = 2."""
    rate = LEARNING_RATE[values["source"]]
    if _joint(values):
        return JointMoE(experts=values["experts"], patches_per_expert=1, learning_rate=rate)
    return SeparateMoE(patches_per_expert=1, learning_rate=rate)


def grid_of(values: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the values of l, which cannot exceed n, and of N."""
    per_expert = tuple(one for one in PER_EXPERT if one <= values["patches"])
    return per_expert, SAMPLES[values["source"], values["training"]]


def train(**values: Any) -> Iterator[Table]:
    """Yields the map while it fills."""
    per_expert, samples = grid_of(values)
    tested = TEST_SAMPLES[values["source"]]
    own: dict[str, Any] = {"quick_look": FIRST_TRAININGS, "test_samples": tested, **device_setting(values)}
    return phase_tables(task_of(values), model_of(values), per_expert, samples, values["trials"], values["seed"], **own)


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step touches: all l of one N train together."""
    per_expert, samples = grid_of(values)
    model, task = model_of(values), task_of(values)
    settings = {"task": task, "samples": max(samples), "trials": values["trials"]}
    runs = [PatchRun(model=model.replace(patches_per_expert=count), **settings) for count in per_expert]
    return sum(run.numbers_per_step for run in runs)


def code(values: Mapping[str, Any]) -> str:
    task, model, (per_expert, samples) = task_of(values), model_of(values), grid_of(values)
    lines = (
        f"from moe_lab.patch_routing import {', '.join(sorted((type(task).__name__, type(model).__name__)))}",
        "from moe_lab.patch_routing.figures import phase_map",
        "from moe_lab.patch_routing.plots import picture",
        "",
        "result = phase_map(",
        f"    patches_per_expert={per_expert},",
        f"    samples={samples},",
        f"    trials={values['trials']},",
        f"    seed={values['seed']},",
        f"    task={task.code()},",
        f"    model={model.code()},",
        f"    test_samples={TEST_SAMPLES[values['source']]},",
        *(f'    device="{device}",' for device in device_setting(values).values()),
        ")",
        'print(result["success"].mean("trial").to_pandas())',
        "picture(result)",
    )
    return "\n".join(lines)


# ---- panel 1: the map ----


def furnish_map(values: MarkValues) -> list[list[Mark]]:
    columns = [str(count) for count in samples_of(values)]
    across, up = "N · training samples", "l · patches kept per expert"
    table = ShareTable(rows_of(values), columns, "l = {}, N = {}", across, up, key=62)
    return [[table]]


def draw_map(now: MarkRecord) -> list[list[Mark]]:
    cells = share(now)
    border, before = "from here on at least 90 % succeed", now.pale(share, "samples")
    trials, active = now.values.number("trials"), now.last("active") > 0
    shown = Shares(cells, ended(now), trials, active, before, enough_from(cells), border, "trainings")
    return [[shown, *at_l_star(now, named=True)]]


def at_l_star(now: MarkRecord, named: bool = False) -> list[Mark]:
    """Returns the line below the row of l*, if l* is known and on the map; not before anything has run."""
    star = l_star(now.values)
    if star is None:
        return []
    shown = (star <= rows_of(now.values) + 1) & (ended(now).sum() > 0)
    words = say("l* = {:.0f}", star) if named else NOTHING
    return [Level(torch.where(shown, star - 0.5, torch.nan), "bound", words=words)]


# ---- panel 2: samples needed ----


def furnish_needed(values: MarkValues) -> list[list[Mark]]:
    ticks = (20, 60, 200, 600)
    more = f"N needed\n▷ more than {samples_of(values)[-1]}"
    about: dict[str, Any] = {"x_ticks": ticks, "x_name": more, "x_pad": 2, "x_reads": "N about", "log": "x"}
    grid = [Level(float(tick), "rule", upright=True) for tick in ticks]
    return [[Scales((FEWEST, MOST), **about, **rows_beside(rows_of(values), len(PER_EXPERT))), *grid]]


def draw_needed(now: MarkRecord) -> list[list[Mark]]:
    names = "samples needed", "samples needed, as far as it has run", "more than the largest N"
    return [[*at_l_star(now), Track(samples_needed(now), complete(now).all(-1), EDGE, "failure", *names)]]


def pin_needed(ax: Axes, pinned: Record, now: Record) -> None:
    needed = samples_needed(MarkRecord(pinned)).numpy()
    name, sure = "pinned: samples needed", np.ones(len(needed), dtype=bool)
    maps.track(ax, needed, sure, EDGE, theme.REFERENCE, [name] * 3, pinned=True)
    words = f"grey: {pinned_name(pinned.values, now.values)}"
    write(ax, FEWEST, ax.get_ylim()[1], [words], theme.MUTED, ha="left", size=theme.SMALL_SIZE, right=-36, down=-18)


def pinned_name(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Returns what distinguishes a pinned map from the present one: the knob that differs, where it is only one."""
    symbols = {**{knob.name: knob.symbol or knob.name for knob in KNOBS}, "seed": "seed"}
    different = [name for name in symbols if before[name] != now[name]]
    if len(different) != 1:
        return "pinned"
    value = before[different[0]]
    if isinstance(value, str):
        return value
    return f"l* = {value + 1}" if different == ["distractors"] else f"{symbols[different[0]]} = {value:g}"


# ---- panel 3: coverage, which explains the map ----


def furnish_coverage(values: MarkValues) -> list[list[Mark]]:
    about: dict[str, Any] = {"x_ticks": (0, 0.5, 1), "x_name": "coverage  (ink: 10–90 %)", "x_reads": "coverage"}
    return [[Scales((0, 1), **about, percent="x", **rows_beside(rows_of(values), len(PER_EXPERT)))]]


def draw_coverage(now: MarkRecord) -> list[list[Mark]]:
    count, levels = coverage_at(now)
    names = "median coverage of the worse class", "coverage, from 10 to 90 % of the trainings"
    of = say("of the worse class, N = {:.0f}", count, when=count.isfinite())
    looks: dict[str, Any] = {"style": "muted", "align": "left", "size": theme.SMALL_SIZE, "right": -20, "down": -22}
    note = Writing(0.0, numbers_of(levels[0])[-1] + 0.5, of, **looks)
    return [[*at_l_star(now), Reaches(*levels, *names), note]]


# ---- words ----


def progress(now: Record) -> str:
    return f"{now['done'].sum()} of {now['done'].size} trainings"


# ---- the same trainings in a page ----


def training_of(values: Mapping[str, Any]) -> PatchRun:
    """Returns the training of one cell of the map in one trial: of l = "patches_per_expert" and N = "samples"."""
    model = model_of(values).replace(patches_per_expert=values["patches_per_expert"])
    tested = TEST_SAMPLES[values["source"]]
    return PatchRun(model=model, task=task_of(values), samples=values["samples"], test_samples=tested, trials=1)


_KINDS: tuple[Mapping[str, Any], ...] = (
    {"source": SYNTHETIC, "distractors": (0, 0)},
    {"source": SYNTHETIC, "gap": (0, 0)},
    {"source": SYNTHETIC},
    {"source": DIGITS, "noise": (0, 0)},
    {"source": DIGITS},
)
LIVE = LivePage(
    numbers={
        "patches": (6, 8, 11), "patches_per_expert": (3, 4, 5), "experts": (4, 5, 8), "samples": (60, 100, 140),
        "noise": (0.3, 0.5, 0.2), "delta_d": (0.1, -0.2, 0.3), "gap": (0.4, 0.3, 0.2), "delta_r": (0.6, 0.7, 0.5),
        "distractors": (2, 3, 4),
    },
    derived={"rows": Derived({"patches": 1}, PER_EXPERT[-1])},
    choices=[{"training": training, **kind} for training in (SEPARATE, JOINT) for kind in _KINDS],
    restricted=OF_PATTERNS,
    fills=Fills(
        training_of,
        of_run,
        {
            "success": lambda now: (now.last("test_accuracy")[0] >= SUCCESS).to(torch.float64),
            "coverage": lambda now: now.last("coverage")[0].amin(),
        },
        own={"patches_per_expert": 3, "samples": 60},
        rows="rows",
        columns=lambda values: grid_of(values)[1],
        numbers={"rows": (7, 5, 6), "trials": (20, 12, 9)},
        first=FIRST_TRAININGS,
        passes=PatchRun.model_fields["epochs"].default,
    ),
)  # fmt: skip
"""How the trainings and the map are recorded for a page."""

PhaseTransitionLab = lab(
    "Phase transition",
    train,
    name="PhaseTransitionLab",
    about="""The l x N map of successful trainings (pmoe2023, figure 5), beside n, k, delta and noise.

    On digits, n and noise apply; on synthetic patches the whole data model of the paper does. k applies to joint
    training; separate training has one expert a class.

    Args:
      mnist: a folder of MNIST's IDX files, or "download" (fetched once and checked): begins with the map at the paper's
        size, on MNIST's 28x28 images, which takes minutes on a CPU.
    """,
    arguments={"mnist": with_mnist},
    knobs=KNOBS,
    page=LIVE,
    question=Question(
        "Before it runs: at which l will the fewest samples be enough?",
        ANSWERS,
        right_answer,
        seen,
        Sketch(
            1,
            [f"l = {count}" for count in PER_EXPERT],
            ["failure"] * len(PER_EXPERT),
            samples_needed,
            near=1.5,
            rows=PER_EXPERT,
            percent=False,
            log=True,
        ),
    ),
    goals=GOALS,
    stories=STORIES,
    panels=(
        mark_panel("How often training succeeds", draw_map, furnish_map, trained, width=664, margins=(66, 130, 84, 68)),
        mark_panel(
            "Samples needed",
            draw_needed,
            furnish_needed,
            "N from which ≥ 90 % succeed",
            width=214,
            margins=(52, 22, 84, 68),
            pin=pin_needed,
        ),
        mark_panel("Why: coverage", draw_coverage, furnish_coverage, width=222, margins=(36, 28, 84, 68)),
    ),
    caption=sentence(caption),
    check=task_of,
    work=work,
    code=code,
    data=lambda now: now.of().dataset(),
    progress=progress,
    trouble=sentence(lost),
    budget=90.0,
    speed=FASTEST,
)
