"""DeepPruneLab: a small V-MoE learns digits, then others, and loses experts: silently, or with tokens rerouted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.core import saliency
from moe_lab.core.config import require
from moe_lab.drawing import theme
from moe_lab.vision.deep import MEASURED, MODES, PAPER_CRITERIA, PRE_TRAINING, TINY, DigitRun, DigitTask
from moe_lab_widgets.drawing.on_axes import bars, ends, percents, reads, write
from moe_lab_widgets.drawing.panel import Panel, Seen
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.engine.controls import FASTEST
from moe_lab_widgets.engine.declared import lab
from moe_lab_widgets.engine.knobs import LabKnob, config_from, offer
from moe_lab_widgets.engine.now import Now
from moe_lab_widgets.engine.threads import headless
from moe_lab_widgets.labs.deep_prune_experts import EXPERTS, draw_experts, furnish_experts
from moe_lab_widgets.labs.deep_prune_record import Frame, Plan, dataset, frames, measure, pre_training
from moe_lab_widgets.labs.deep_prune_stories import SILENT, STORIES

FINE_TUNING = {"steps": 150, "batch": 50}
"""Half of the library's steps and batch: a few seconds, after which criteria still differ."""
TEST_IMAGES = 500
PRE_TRAINING_BATCH = PRE_TRAINING.batch
QUICK = 100
"""Steps of pre-training where the Lab has to run inside a cell."""
LAYER, REPEATS = MEASURED, 3
"""The block whose costs are shown, large enough to save time on any machine, and measurements of its time: the fastest
counts, because what else runs can only add to it."""
NAMES = {name: short for name, short in saliency.NAMES.items() if name in PAPER_CRITERIA}
"""Short names of the criteria, for the ends of lines."""
MOST = EXPERTS - DigitRun().model.num_selected_experts
"""Experts of each layer that can go: two are selected for every token."""

# ---- knobs, and the trainings that their values describe ----

KNOBS = (
    LabKnob(name="pruned", main=True, meaning="experts pruned per layer", default=4, low=0, high=MOST,
            slider=(0, MOST, 1), view_only=True,
            effect="Memory falls with every expert, and sooner or later accuracy. Nothing is trained again."),
    LabKnob(name="criterion", main=True, meaning="prune by", default="router-norm-change", choices=PAPER_CRITERIA,
            words=NAMES, view_only=True,
            effect="The experts with the smallest scores are pruned. Nothing is trained again."),
    LabKnob(name="mode", main=True, meaning="way to prune", default=SILENT, choices=MODES, view_only=True,
            effect="Silent: a token gets nothing from a pruned expert; rerouted: it goes to one that stayed."),
    offer(DigitTask, "classes", main=True, effect="A harder task, in which the criteria differ more."),
    offer(DigitRun, "steps", main=True, meaning="fine-tuning steps", default=FINE_TUNING["steps"],
          slider=(50, 500, 50),
          effect="Routers move further before experts are pruned."),
    offer(DigitRun, "learning_rate", effect="Faster and less steady steps."),
    offer(DigitRun, "batch", meaning="images per step", default=FINE_TUNING["batch"],
          effect="Steadier gradients, and slower steps."),
    LabKnob(name="pre_training_steps", meaning="pre-training steps", default=PRE_TRAINING.steps, low=1,
            slider=(100, PRE_TRAINING.steps, 100),
            effect="Fine-tuning begins with a better model."),
)  # fmt: skip


def plan_of(values: Mapping[str, Any]) -> Plan:
    """Returns the plan that the values describe, checked.

    Raises:
      ConfigError: a value breaks a rule.
      ValueError: there is nothing to train, or a batch does not fill whole groups of tokens.
    """
    task = config_from(DigitTask, values, upside_down=True)
    tuning = config_from(DigitRun, values, task=task, test_images=TEST_IMAGES, device="cpu")
    rule = "steps must be at least 1: routers that have not moved give no order of experts"
    require(tuning.steps >= 1, rule, steps=tuning.steps)
    per = tuning.model.images_per_batch
    rule = f"batch (B) must be a multiple of {per}, the images whose tokens fill whole groups"
    require(tuning.batch % per == 0, rule, B=tuning.batch)
    steps = values["pre_training_steps"]
    require(steps >= 1, "pre_training_steps must be at least 1", pre_training_steps=steps)
    return Plan(PRE_TRAINING.replace(steps=steps, batch=PRE_TRAINING_BATCH), tuning)


def check_view(values: Mapping[str, Any]) -> None:
    rule = f"pruned, the experts pruned of each layer, must be from 0 to {MOST}"
    require(0 <= values["pruned"] <= MOST, rule, pruned=values["pruned"])


def train(kept: dict[str, Any], **values: Any) -> Iterator[Frame]:
    """Yields the records of a run. A pre-training that an earlier run has begun goes on."""
    plan = plan_of(values)
    check_view(values)
    if kept.get("before") != plan.before:
        kept.update(before=plan.before, pre_training=pre_training(plan))
    return frames(plan, kept["pre_training"], measure(LAYER, REPEATS))


def code(values: Mapping[str, Any]) -> str:
    """Returns Python that runs as it is pasted: both trainings, the pruned model, and the accuracies on show."""
    plan = plan_of(values)
    start, tuning = plan.start_code(), plan.tuning
    names = {"DigitRun", "PruningTable", "accuracy", "fine_tune", "pretrained", "prune"}
    names |= {"PRE_TRAINING"} if "PRE_TRAINING" in start else set()
    names |= {"DigitTask"} if "DigitTask" in tuning.code() else set()
    criterion, mode, seed = values["criterion"], values["mode"], tuning.seed
    own = f"images=run.validation.images, seed={seed}" if seed else "images=run.validation.images"
    return "\n".join((
        f"from moe_lab.vision.deep import {', '.join(sorted(names, key=lambda name: (name.islower(), name)))}",
        "",
        f"before = {start}",
        f"run = {tuning.code()}",
        "after = fine_tune(before, run)",
        f'found = prune(before, after, "{criterion}", {values["pruned"]}, mode="{mode}", {own})',
        'print("before pruning", accuracy(after, run.test), "after", accuracy(found.model, run.test))',
        f"table = PruningTable(before, after, run.test, run.validation{f', seed={seed}' if seed else ''}).complete()",
        f'print(table["accuracy"].sel(mode="{mode}").to_pandas())',
    ))  # fmt: skip


def left_of(now: Now) -> float:
    """Returns the accuracy on show: after pruning, or of the whole model in training; NaN if unknown."""
    return now.of().left(now.values["criterion"], now.values["mode"], now.values["pruned"])  # type: ignore[no-any-return]


# ---- panel 2: accuracy in training, and against the experts pruned ----

MARKERS = dict(zip(NAMES, ("o", "X", "^", "s", "D", "v"), strict=True))


def lowest_accuracy(values: Mapping[str, Any]) -> float:
    """Returns where the axis of accuracy begins: lower where training is short."""
    if values["pre_training_steps"] < 500 or values["steps"] < 100:
        return 0.0
    return 0.4 if values["steps"] < 250 else 0.6


def furnish_accuracy(axes: list[Axes], values: Seen) -> None:
    training, pruning = axes
    training.set(xlim=(0, 1), ylim=(0, 1.03))
    training.set_xticks([])
    training.set_yticks([0, 1], ["0", "100 %"])
    reads(training, y="accuracy")
    low = values.of(lowest_accuracy)
    pruning.set(
        xlim=(-0.25, MOST + 0.25), ylim=(low, low + 1.03 * (1 - low)), xlabel="experts pruned of each layer's 8"
    )
    pruning.set_xticks(range(MOST + 1))
    pruning.set_yticks(np.linspace(low, 1, 5))
    percents(pruning.yaxis)
    pruning.hlines(np.linspace(low, 1, 5)[1:], -0.25, MOST + 0.25, color=theme.RULE, linewidth=0.6, zorder=0.5)
    reads(pruning, x="pruned", y="accuracy")


def draw_accuracy(axes: list[Axes], now: Now) -> None:
    record: Frame = now.of()
    _draw_training(axes[0], record)
    ax, curves = axes[1], record.curves(now.values["mode"])
    if not curves:
        _above(ax, "after pruning: nothing is pruned yet")
        return
    chosen, mode, gone = (now.values[name] for name in ("criterion", "mode", "pruned"))
    _above(ax, f"after pruning, {mode}; bar: ± a standard error", down=-34)
    low, high = ax.get_ylim()
    for name, values in curves.items():
        style: dict[str, Any] = {"color": theme.RULE, "linewidth": 1.5, "marker": MARKERS[name], "markersize": 4.5}
        if name == chosen:
            style = {"color": theme.INK, "linewidth": 2.8, "marker": "o", "markersize": 7, "zorder": 5}
        elif name in _named_beside(curves, chosen):
            style["color"] = theme.REFERENCE
        known = np.flatnonzero(np.isfinite(values))
        ax.plot(known, np.maximum(values[known], low), clip_on=False, label=NAMES[name], **{"zorder": 2.5, **style})
    _name_ends(ax, curves, chosen)
    share = left_of(now)
    ax.plot([gone, gone], [low, high], color=theme.INK, linewidth=1, zorder=2.2, label="experts pruned")
    if np.isfinite(share):
        error = float(np.sqrt(share * (1 - share) / TEST_IMAGES))
        spread = np.maximum([share - error, share + error], low)
        style = {"color": theme.INK, "linewidth": 5, "alpha": 0.4, "zorder": 3, "solid_capstyle": "butt"}
        ax.plot([gone, gone], spread, label="± a standard error", **style)
    place = min(max(gone, 1.8), MOST - 0.6)
    words = f"{gone} pruned: {percent(share, 1)}"
    write(ax, place, high, [words], bold=True, size=theme.SMALL_SIZE, down=-10)


def _named_beside(curves: Mapping[str, NDArray[np.float64]], chosen: str) -> list[str]:
    """Returns the criteria that are named beside the chosen one: chance, and the best of the others."""
    others = {name: np.nansum(values) for name, values in curves.items() if name not in (chosen, "random")}
    return [name for name in ("random", max(others, key=others.__getitem__)) if name != chosen]


def _name_ends(ax: Axes, curves: Mapping[str, NDArray[np.float64]], chosen: str) -> None:
    """Names the chosen criterion, chance and the best other at the ends of their curves."""
    labels = []
    for name in (chosen, *_named_beside(curves, chosen)):
        known = curves[name][np.isfinite(curves[name])]
        if len(known):
            labels.append((float(known[-1]), NAMES[name], theme.INK if name == chosen else theme.MUTED))
    ends(ax, labels, apart=0.085, size=theme.SMALL_SIZE)


def _draw_training(ax: Axes, record: Frame) -> None:
    """Draws what is trained, how far, and how well."""
    loss = np.nan if record.shot is None else float(record.shot["train_loss"][0])
    before = record.stage == "pre-training"
    words = f"step {record.step} of {record.total}" + (f", loss {loss:.2f}" if np.isfinite(loss) else "")
    _above(ax, "pre-training on ten digits" if before else "fine-tuning on upside-down digits", down=-37)
    _above(ax, words)
    x, y = record.tested[:, 0] / max(record.total, 1), record.tested[:, 1]
    style: dict[str, Any] = {"color": theme.INK, "linewidth": 2, "marker": "o", "markersize": 3.5, "clip_on": False}
    ax.plot(x, y, label="accuracy in training", **style)
    if len(x):
        write(ax, x[-1], y[-1], [percent(record.accuracy, 1)], bold=True, ha="left", size=theme.SMALL_SIZE, right=10)


def _above(ax: Axes, words: str, down: float = -20) -> None:
    """Writes small print above Axes."""
    write(
        ax,
        ax.get_xlim()[0],
        ax.get_ylim()[1],
        [words],
        theme.MUTED,
        ha="left",
        size=theme.SMALL_SIZE,
        right=-42,
        down=down,
    )


def pin_accuracy(axes: list[Axes], pinned: Now, now: Now) -> None:
    curves = pinned.of().curves(pinned.values["mode"])
    if curves:
        values = np.maximum(curves[pinned.values["criterion"]], axes[1].get_ylim()[0])
        axes[1].plot(
            values, "o-", color=theme.INK, linewidth=1.1, markersize=3, zorder=1.5, clip_on=False, label="pinned"
        )


# ---- panel 3: what is left ----

SHARES = ("accuracy", "memory", "FLOPs", "time, measured here")
BLOCK = (
    f"Memory, FLOPs and time\nare those of one block,\nD = {LAYER.hidden_size}, F = {LAYER.mlp_dim}: the\nmodel of the "
    f"digits has\nD = {TINY.hidden_size}, F = {TINY.mlp_dim}, too\nsmall to save time."
)


def furnish_left(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(0, 1), ylim=(6, -0.5))
    ax.set_axis_off()
    style: dict[str, Any] = {"color": theme.MUTED, "va": "center"}
    for place, words in enumerate(SHARES):
        ax.text(0, place - 0.12, words, size=theme.TEXT_SIZE, **style)
    ax.text(0, 5.1, BLOCK, size=theme.SMALL_SIZE, linespacing=1.4, **style)


def shares_of(now: Now) -> tuple[tuple[float, str], ...]:
    """Returns accuracy, memory, operations and time on show, with their words; NaN where unknown."""
    record: Frame = now.of()
    accuracy, memory, work, time, share = left_of(now), np.nan, np.nan, np.nan, np.nan
    if record.costs is not None:
        place = MODES.index(now.values["mode"]), now.values["pruned"] if record.table is not None else 0
        memory, work, time = (
            values[place] for values in (record.costs.memory, record.costs.operations, record.costs.milliseconds)
        )
        share = time / record.costs.milliseconds[0, 0]
    words = f"{time:.1f} ms, {percent(share)}" if np.isfinite(share) else "–"
    return (accuracy, percent(accuracy, 1)), (memory, percent(memory)), (work, percent(work)), (share, words)


def draw_left(ax: Axes, now: Now) -> None:
    shares, words = zip(*shares_of(now), strict=True)
    places = np.arange(len(SHARES))
    names = [f"{name}: {word}" for name, word in zip(SHARES, words, strict=True)]
    write(ax, [0] * len(SHARES), places + 0.16, words, bold=True, ha="left", size=13)
    bars(ax, places + 0.45, [1.0] * len(SHARES), 0.18, theme.BACKGROUND, across=True, names=names)
    bars(ax, places + 0.45, np.clip(shares, 0, 1), 0.18, across=True, names=names)
    if now.of().table is not None:
        left = f"{EXPERTS - now.values['pruned']} of {EXPERTS} experts, {now.values['mode']}"
        write(ax, 0, 3.8, [left], ha="left", size=theme.SMALL_SIZE)


# ---- words ----


def progress(now: Now) -> str:
    record: Frame = now.of()
    if record.table is not None:
        done = int(np.isfinite(record.table["accuracy"]).sum())
        return f"pruned, {done} of {record.table['accuracy'].size} accuracies"
    return f"{record.stage}, step {record.step} of {record.total}"


def caption(now: Now) -> str:
    record: Frame = now.of()
    if record.shot is None:
        return "The model is pre-trained on digits once; it is then fine-tuned on upside-down ones."
    if record.stage == "pre-training":
        right = f"The model learns ten digits and is right in {percent(record.accuracy)} of them."
        return f"{right} This happens only the first time: the model is kept on this computer."
    if record.table is None:
        grown = int((record.changes > 0).sum())
        return (
            f"The pre-trained model ({record.run.before.steps} steps) learns upside-down digits and is right in "
            f"{percent(record.accuracy)} of them. {grown} of {record.changes.size} routers have grown."
        )
    return _pruned(now, record)


def _pruned(now: Now, record: Frame) -> str:
    gone, mode, name = now.values["pruned"], now.values["mode"], NAMES[now.values["criterion"]]
    curves = record.curves(mode)
    curve, left = curves[now.values["criterion"]], left_of(now)
    if not gone:
        return f"Nothing is pruned: with {EXPERTS} experts in each layer the accuracy is {percent(record.accuracy, 1)}."
    if not np.isfinite(left):
        return f"{int(np.isfinite(curve).sum())} of {len(curve)} accuracies by {name} are computed."
    how = "at random" if name == "random" else f"by {name}"
    way = "silently" if mode == SILENT else "and rerouted"
    chance = curves["random"][gone]
    beside = "" if name == "random" or not np.isfinite(chance) else f"at random: {percent(chance, 1)}, "
    text = f"{gone} of {EXPERTS} experts a layer are pruned {way} {how}: the accuracy is {percent(left, 1)} "
    text += f"({beside}unpruned: {percent(record.accuracy, 1)})."
    _, (_, memory), (_, work), (share, _) = shares_of(now)
    time = f" and {percent(share)} of its time" if np.isfinite(share) else ""
    return f"{text} Of a block's memory {memory} stay, of its FLOPs {work}{time}."


DeepPruneLab = lab(
    "Pruning a vision model",
    train,
    name="DeepPruneLab",
    about="""A V-MoE pre-trained on digits, fine-tuned on upside-down ones, and pruned (pruning2024, section 5.2).

    The first run of all pre-trains the model for most of a minute, and keeps it in the user's cache. How many experts
    go, by which criterion and in which way are view-only: they start no training. Where the Lab has to run inside a
    cell (MOE_LAB_HEADLESS) pre-training is shorter unless `pre_training_steps` is given.
    """,
    knobs=KNOBS,
    stories=STORIES,
    panels=(
        Panel(
            "Experts, and the patches they receive",
            draw_experts,
            furnish_experts,
            width=556,
            margins=(62, 6, 68, 12),
            rows=2,
            gap=14,
        ),
        Panel(
            "Accuracy",
            draw_accuracy,
            furnish_accuracy,
            width=350,
            margins=(64, 122, 84, 52),
            rows=(50, 196),
            gap=66,
            pin=pin_accuracy,
        ),
        Panel("What is left", draw_left, furnish_left, width=194, margins=(20, 16, 46, 8)),
    ),
    caption=caption,
    progress=progress,
    initial=lambda: {"pre_training_steps": QUICK} if headless() else {},
    check=plan_of,
    check_view=check_view,
    code=code,
    data=lambda now: dataset(now.shots[now.names[0]], code(now.values)),
    diverged="The loss became infinite: try a smaller learning rate.",
    budget=60.0,
    speed=FASTEST,
    cpu_because="a pruned block's time is that of a CPU, and one small model does not fill a GPU",
)
