"""PhaseTransitionLab: how many samples training needs for every l, as a map that fills while it is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray
from torch import Tensor

from moe_lab.drawing import theme
from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask, SeparateMoE
from moe_lab.patch_routing.grid_points import make_task
from moe_lab.patch_routing.phase_live import PhaseRecord, phase_records
from moe_lab.patch_routing.run import PatchRun
from moe_lab.patch_routing.training import of_run
from moe_lab_widgets.drawing.maps import number_rows, pale, share_key, share_map, shares
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.on_axes import box_of, percents, reads, spans, write
from moe_lab_widgets.drawing.panel import Panel, PanelValues
from moe_lab_widgets.engine.controls import FASTEST
from moe_lab_widgets.engine.knobs import LabKnob, config_from, device_setting, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.mnist import DATA_WORDS, HOW, MNIST, files_of, with_mnist
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.phase_transition_record import below, best, coverage_at, needs, samples_needed
from moe_lab_widgets.labs.phase_transition_stories import DIGITS, JOINT, NOISE, SEPARATE, STORIES, SYNTHETIC
from moe_lab_widgets.labs.phase_transition_words import WORDS
from moe_lab_widgets.live.declare import OF_PATTERNS, LivePage, Trains

KEPT = (1, 2, 3, 4, 5, 6, 7, 8)
"""The values of l; those above n are left out."""
SAMPLES: Mapping[tuple[str, str], tuple[int, ...]] = {
    (SYNTHETIC, SEPARATE): (40, 60, 100, 140, 200, 300, 400, 560),
    (SYNTHETIC, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
    (DIGITS, SEPARATE): (60, 100, 140, 200, 300, 400, 560, 800),
    (DIGITS, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
    (MNIST, SEPARATE): (60, 100, 140, 200, 300, 400, 500, 600, 700, 800),
    (MNIST, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
}
"""The values of N, by data and training: where the transition is."""
TEST_SAMPLES = {SYNTHETIC: 400, DIGITS: 400, MNIST: 1000}
LEARNING_RATE = {SYNTHETIC: 10.0, DIGITS: 10.0, MNIST: None}
"""Twice the usual rate: the same success in half the steps. On MNIST it is the paper's map, at the usual rate."""
FIRST_TRAININGS = 5
"""Trainings of every grid point that run first."""
FEWEST, MOST, EDGE = 17, 1000, 930
"""Limits of N, the same for every setting, so that pinned curves compare; where "more than the largest N" stands."""
DASHES = (0, (4, 2))
"""Of the line of l*."""

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
            effect="Joint training needs fewer samples, and l matters less to it."),
    LabKnob(name="experts", main=True, symbol="k", meaning="experts", default=4, low=1, choices=(1, 2, 4, 5, 8),
            enabled_when=lambda values: values["training"] == JOINT,
            effect="With more experts each class is more likely to find a router. The neurons are divided among them.",
            applies="only to joint training; separate training has one expert for each class"),
    offer(PatternTask, "patches", main=True, meaning="patches per sample", slider=(4, 32, 1), far=64,
          effect="More patches that do not matter: more samples are needed, but l* stays."),
    offer(PatternTask, "distractors", main=True, symbol="", meaning="distractors per sample (l* − 1)", default=2,
          slider=(0, 6, 1), enabled_when=_synthetic,
          effect="The cliff moves up with it: l* is one more than the distractors.",
          applies="only to synthetic patches"),
    offer(PatternTask, "gap", main=True, meaning="how much distractors resemble o", default=1.2,
          enabled_when=_synthetic,
          effect="The larger, the more strongly distractors pull routers to the class that they imitate.",
          applies="only to synthetic patches"),
    offer(PatternTask, "delta_d", main=True, symbol="δ_d", meaning="overlap of o₁ and o₂", enabled_when=_synthetic,
          effect="The closer to 1, the more alike both classes look, and the more samples are needed.",
          applies="only to synthetic patches"),
    offer(PatternTask, "noise", main=True, symbol="", meaning="noise added to every patch",
          follows=lambda values: NOISE[values["source"]],
          effect="More noise asks for more samples. Much noise moves l* as well."),
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
    kept = tuple(kept for kept in KEPT if kept <= values["patches"])
    return kept, SAMPLES[values["source"], values["training"]]


def train(**values: Any) -> Iterator[PhaseRecord]:
    """Yields the map while it fills."""
    kept, samples = grid_of(values)
    tested = TEST_SAMPLES[values["source"]]
    own: dict[str, Any] = {"quick_look": FIRST_TRAININGS, "test_samples": tested, **device_setting(values)}
    return phase_records(task_of(values), model_of(values), kept, samples, values["trials"], values["seed"], **own)


def work(values: Mapping[str, Any]) -> float:
    """Returns the numbers that a step touches: all l of one N train together."""
    kept, samples = grid_of(values)
    model, task = model_of(values), task_of(values)
    settings = {"task": task, "samples": max(samples), "trials": values["trials"]}
    runs = [PatchRun(model=model.replace(patches_per_expert=count), **settings) for count in kept]
    return sum(run.numbers_per_step for run in runs)


def code(values: Mapping[str, Any]) -> str:
    task, model, (kept, samples) = task_of(values), model_of(values), grid_of(values)
    lines = (
        f"from moe_lab.patch_routing import {', '.join(sorted((type(task).__name__, type(model).__name__)))}",
        "from moe_lab.patch_routing.figures import phase_map",
        "from moe_lab.patch_routing.plots import picture",
        "",
        "result = phase_map(",
        f"    patches_per_expert={kept},",
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


def furnish_map(ax: Axes, values: Mapping[str, Any]) -> None:
    kept, samples = grid_of(values)
    cells = [WORDS["CELL_NAME"].format(kept=one, samples=count) for one in kept for count in samples]
    rows, columns = map(str, kept), map(str, samples)
    share_map(ax, list(rows), list(columns), cells, WORDS["ACROSS"], WORDS["UP"])
    share_key(ax, 62)


def draw_map(ax: Axes, now: Record) -> None:
    record: PhaseRecord = now.of()
    row = {kept: number for number, kept in enumerate(record.patches_per_expert)}
    column = {count: number for number, count in enumerate(record.samples)}
    places = [(row[kept], column[count]) for kept, count in record.running]
    running = {place: f"{record.counts[place]}/{record.trials}" for place in places}
    before = pale(now, lambda one: one.share, lambda one: (one.patches_per_expert, one.samples))
    shares(ax, record.share, record.counts / record.trials, running, WORDS["BORDER"], before)
    if (star := record.origin.get("l_star", np.inf)) <= record.patches_per_expert[-1] + 1:
        (left, right), y, name = ax.get_xlim(), star - 1.5, WORDS["L_STAR"].format(l_star=star)
        both: dict[str, Any] = {"colors": [theme.PAPER, theme.INK], "linewidths": [5, 2], "linestyles": ["-", DASHES]}
        spans(ax, [y, y], left, right + 0.08, zorder=3.5, clip_on=False, label=name, **both)
        write(ax, right, y, [name], ha="left", bold=True, right=12)


def l_star_of(values: Mapping[str, Any]) -> float:
    """Returns l*, infinite where it is unknown."""
    return getattr(task_of(values), "l_star", np.inf)


def furnish_rows(ax: Axes, values: PanelValues) -> None:
    """Furnishes Axes beside the map: its rows, and l* as a dashed line below its own row."""
    rows = grid_of(values)[0]
    number_rows(ax, [str(kept) for kept in rows])
    if (star := values.of(l_star_of)) <= rows[-1] + 1:
        ax.axhline(star - 1.5, color=theme.INK, linewidth=2, linestyle=DASHES, zorder=1, clip_on=False)


def _trained(values: Mapping[str, Any]) -> str:
    """What the numbers of the map are."""
    experts = WORDS["JOINT_EXPERTS" if _joint(values) else "OWN_EXPERTS"].format(experts=values["experts"])
    trials, first = values["trials"], min(FIRST_TRAININGS, values["trials"])
    small = WORDS["SMALL"].format(first=first) if trials > first else ""
    return WORDS["TRAINED"].format(training=values["training"], experts=experts, trials=trials, small=small)


# ---- panel 2: samples needed ----


def furnish_needed(ax: Axes, values: PanelValues) -> None:
    furnish_rows(ax, values)
    ax.set(xscale="log", xlim=(FEWEST, MOST))
    more = WORDS["NEEDED_MORE"].format(most=grid_of(values)[1][-1])
    ax.set_xlabel(f"N needed\n{more}", linespacing=1.1, labelpad=2)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks([20, 60, 200, 600], ["20", "60", "200", "600"])
    ax.grid(axis="x", color=theme.RULE, linewidth=0.5)
    ax.set_axisbelow(True)
    reads(ax, x="N about")


def draw_needed(ax: Axes, now: Record) -> None:
    needed, sure = samples_needed(now.of())
    rows, over, found = np.arange(len(needed)), np.isinf(needed), np.isfinite(needed)
    style: dict[str, Any] = {"color": theme.FAILURE, "zorder": 4, "clip_on": False}
    ax.plot(np.where(over, np.nan, needed), rows, linewidth=2.4, label="samples needed", **style)
    style |= {"linestyle": "none", "markeredgecolor": theme.FAILURE, "markeredgewidth": 1.6, "markersize": 7}
    hollow = {**style, "color": theme.PAPER}
    so_far = found & ~sure
    if (found & sure).any():
        ax.plot(needed[found & sure], rows[found & sure], "o", label="samples needed", **style)
    if so_far.any():
        ax.plot(needed[so_far], rows[so_far], "o", label="samples needed, as far as it has run", **hollow)
    draw_beyond(ax, rows[over], label="more than the largest N", **hollow)


def draw_beyond(ax: Axes, rows: NDArray[np.int64], **style: Any) -> None:
    """Marks rows for which no N of the map is enough."""
    if len(rows):
        ax.plot(np.full(len(rows), EDGE), rows, ">", **{**style, "markersize": 9})


def pin_needed(ax: Axes, pinned: Record, now: Record) -> None:
    needed, rows = samples_needed(pinned.of())[0], np.array(pinned["patches_per_expert"]) - 1
    over = np.isinf(needed)
    style: dict[str, Any] = {"color": theme.REFERENCE, "linewidth": 1.8, "zorder": 2, "label": "pinned: samples needed"}
    ax.plot(np.where(over, np.nan, needed), rows, "s--", markersize=5, **style)
    draw_beyond(ax, rows[over], **style)
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


def furnish_coverage(ax: Axes, values: PanelValues) -> None:
    furnish_rows(ax, values)
    ax.set(xlim=(0, 1), xlabel="coverage  (ink: 10–90 %)")
    ax.set_xticks([0, 0.5, 1])
    percents(ax.xaxis)
    reads(ax, x="coverage")


def draw_coverage(ax: Axes, now: Record) -> None:
    count, levels = coverage_at(now.of())
    low, middle, high = levels.T
    rows, known, wide = np.arange(len(levels)), np.isfinite(middle), high - low > 0.01
    thick = 0.62 * box_of(ax)[3] / len(levels) * 72 / theme.BASE_DPI
    middles = {"colors": [theme.RAMP(0.6)], "linewidths": thick, "label": "median coverage of the worse class"}
    edges = {"colors": theme.INK, "linewidths": 2, "label": "coverage, from 10 to 90 % of the trainings"}
    spans(ax, rows[known], 0, middle[known], zorder=2, **middles)
    spans(ax, rows[wide], low[wide], high[wide], zorder=3, clip_on=False, **edges)
    if count is not None:
        place: dict[str, Any] = {"ha": "left", "size": theme.SMALL_SIZE, "right": -20, "down": -34}
        write(ax, 0, len(levels) - 0.5, [f"of the worse class, N = {count}"], theme.MUTED, **place)


# ---- words ----


def progress(now: Record) -> str:
    return WORDS["PROGRESS"].format(done=now["done"].sum(), total=now["done"].size)


def trouble(now: Record) -> str:
    lost = int((now["done"] & np.isnan(now["test_accuracy"])).sum())
    return WORDS["TROUBLES" if lost > 1 else "TROUBLE"].format(lost=lost) if lost else ""


def caption(now: Record) -> str:
    record: PhaseRecord = now.of()
    total, running = record.complete.size, record.running
    if not record.done.any():
        return WORDS["NOTHING"].format(cells=total, trials=record.trials)
    if record.finished:
        return f"{needs(record)}{below(record)}"
    first = min(FIRST_TRAININGS, record.trials)
    if (record.counts < first).any():
        where = WORDS["WHERE_SAMPLES"].format(samples=running[0][1]) if running else ""
        begun = WORDS["FIRST_LOOK"].format(first=first, where=where)
    else:
        where = WORDS["WHERE_CELL"].format(kept=running[0][0], samples=running[0][1]) if running else ""
        begun = WORDS["CELLS_DONE"].format(done=record.complete.sum(), cells=total, where=where)
    cheapest = best(record)
    found = WORDS["FOUND_NONE"]
    if cheapest is not None:
        found = WORDS["FOUND"].format(samples=cheapest[0], kept=cheapest[1])
    return WORDS["SO_FAR"].format(begun=begun, found=found, below=below(record))


# ---- the same trainings in a page ----


def training_of(values: Mapping[str, Any]) -> PatchRun:
    """Returns the training of one cell of the map in one trial: of l = "patches_per_expert" and N = "samples"."""
    model = model_of(values).replace(patches_per_expert=values["patches_per_expert"])
    tested = TEST_SAMPLES[values["source"]]
    return PatchRun(model=model, task=task_of(values), samples=values["samples"], test_samples=tested, trials=1)


def come_to(now: MarkRecord) -> dict[str, Tensor]:
    return {"accuracy": now.last("test_accuracy")[0], "coverage": now.last("coverage")[0].amin()}


_KINDS: tuple[Mapping[str, Any], ...] = (
    {"source": DIGITS, "noise": (0, 0)},
    {"source": DIGITS},
    {"source": SYNTHETIC, "distractors": (0, 0)},
    {"source": SYNTHETIC, "gap": (0, 0)},
    {"source": SYNTHETIC},
)
LIVE = LivePage(
    numbers={
        "patches": (6, 8, 11), "patches_per_expert": (3, 4, 5), "experts": (4, 5, 8), "samples": (60, 100, 140),
        "noise": (0.3, 0.5, 0.2), "delta_d": (0.1, -0.2, 0.3), "gap": (0.4, 0.3, 0.2), "delta_r": (0.6, 0.7, 0.5),
        "distractors": (2, 3, 4),
    },
    choices=[{"training": training, **kind} for training in (SEPARATE, JOINT) for kind in _KINDS],
    restricted=OF_PATTERNS,
    trains=Trains(training_of, of_run, come_to, {"patches_per_expert": 3, "samples": 60}),
)  # fmt: skip
"""How the trainings are recorded for a page."""

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
    stories=STORIES,
    panels=(
        Panel("How often training succeeds", draw_map, furnish_map, _trained, width=664, margins=(66, 130, 84, 68)),
        Panel(
            "Samples needed",
            draw_needed,
            furnish_needed,
            "N from which ≥ 90 % succeed",
            width=214,
            margins=(52, 22, 84, 68),
            pin=pin_needed,
        ),
        Panel("Why: coverage", draw_coverage, furnish_coverage, width=222, margins=(36, 28, 84, 68)),
    ),
    caption=caption,
    check=task_of,
    work=work,
    code=code,
    data=lambda now: now.of().dataset(),
    progress=progress,
    trouble=trouble,
    budget=90.0,
    speed=FASTEST,
)
