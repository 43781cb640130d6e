"""RoutingChoicesLab: who gets which patches, which patches are lost, and what that costs, live at equal compute.

One routing is in the sliders' hands; beside it run four others with as many places for each expert. The task is the
synthetic patches of pmoe2023: one patch of each sample decides its class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.core.snapshots import Snapshot
from moe_lab.drawing import theme
from moe_lab.patch_routing import PatchRun, PatternTask, RoutedMoE, train_batch
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.data import ROLES, SIGNAL
from moe_lab.patch_routing.routing_rows import ROWS, STEP_SIZE
from moe_lab_widgets.drawing.on_axes import bars, box_of, cells, ends, heads, percents, pixels, reads, table, write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.words import median, middle, percent
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.routing_choices_stories import STORIES

STUDY = "chosen"
"""The model whose routing the sliders describe."""
BESIDE = ("expert choice", "token choice", "soft MoE", "hash")
"""The rows of comparison, with as many places for each expert."""
MODELS = (STUDY, *BESIDE)
SHARED = ("experts", "capacity_factor", "neurons", "learning_rate")
"""What the rows of comparison have in common with the chosen model."""
TEST_SAMPLES = 200
SHOWN = 0
"""The trial whose examples and loads are drawn."""
ROUTING_WORDS = {"expert-choice": "experts", "token-choice": "patches", "soft": "nobody (soft)", "hash": "a hash"}
GATE_WORDS = {
    "softmax": "softmax after",
    "softmax-before": "softmax before",
    "sigmoid": "sigmoid",
    "sigmoid-normalised": "sigmoid / sum",
}

# ---- knobs, and the five runs that their values describe ----


def _scored(values: Mapping[str, Any]) -> bool:
    return values["routing"] in ("expert-choice", "token-choice")


def _by_patches(values: Mapping[str, Any]) -> bool:
    return bool(values["routing"] == "token-choice")


def _asking(values: Mapping[str, Any]) -> bool:
    return values["routing"] in ("token-choice", "hash")


KNOBS = (
    offer(RoutedMoE, "routing", main=True, meaning="who chooses", words=ROUTING_WORDS,
          effect="Experts take patches, patches ask experts, all patches are mixed, or a hash decides."),
    offer(RoutedMoE, "experts_per_patch", main=True, meaning="experts asked per patch", enabled_when=_asking,
          effect="Each patch asks more experts for as many places, and most of the asking is in vain.",
          applies="only where patches or a hash choose"),
    offer(RoutedMoE, "capacity_factor", main=True, meaning="places per patch",
          effect="More places: fewer patches are lost, at more compute."),
    offer(RoutedMoE, "gates", main=True, meaning="gates", default="softmax-before", words=GATE_WORDS,
          enabled_when=_scored,
          effect="How scores become weights. A softmax after the choice of one is always 1 and cannot learn.",
          applies="only where experts or patches choose"),
    offer(RoutedMoE, "order", main=True, meaning="who gets a place first", enabled_when=_by_patches,
          words={"arrival": "first come (arrival)", "priority": "highest score (priority)"},
          effect="Either the patches that come first in a sample, or those with the highest scores.",
          applies="only where patches choose"),
    offer(RoutedMoE, "experts", main=True, slider=None, choices=(2, 4, 8),  # that divide 40 neurons
          effect="As many places are spread over more experts, each with fewer of the neurons."),
    offer(PatternTask, "patches", main=True, meaning="patches per sample", slider=(8, 32, 1), far=64,
          effect="o hides among more patches; there are places for more, too."),
    offer(PatternTask, "noise", main=True, symbol="", meaning="noise added to every patch",
          effect="More noise hides the patterns from experts and routers."),
    offer(RoutedMoE, "router_noise", symbol="σ", meaning="noise on scores", enabled_when=_scored,
          effect="More noise gives weak experts patches while the model trains.",
          applies="only where experts or patches choose"),
    offer(PatchRun, "samples", meaning="training samples", effect="More samples help all rows of the table."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=120, low=1, slider=(20, 600, 20),
            effect="A longer run, in which slow ways to route can catch up."),
    offer(RoutedMoE, "learning_rate", symbol="η", meaning="learning rate", default=STEP_SIZE, slider=(5.0, 80.0, 5.0),
          effect="Faster and less steady steps."),
    offer(PatchRun, "trials", meaning="trials", default=4, far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, PatchRun]:
    """Returns the run of the chosen routing, and those of the rows of comparison, on the same task."""
    chosen = config_from(RoutedMoE, values)
    shared = {name: getattr(chosen, name) for name in SHARED}
    models = {STUDY: chosen, **{name: ROWS[name].replace(**shared) for name in BESIDE}}
    task, epochs = config_from(PatternTask, values), steps(values) // steps_of_an_epoch(values)
    return {
        name: config_from(PatchRun, values, model=model, task=task, epochs=epochs, test_samples=TEST_SAMPLES)
        for name, model in models.items()
    }


def steps_of_an_epoch(values: Mapping[str, Any]) -> int:
    return int(-(-max(values["samples"], 1) // RoutedMoE().batch_size))


def steps(values: Mapping[str, Any]) -> int:
    """Returns the most steps that a run can take: whole passes over the data, at least as many as the slider says."""
    epoch = steps_of_an_epoch(values)
    return int(epoch * max(1, -(-values["steps"] // epoch)))


def begin(run: PatchRun, cache: dict[str, Any]) -> Iterator[Snapshot]:
    """Begins a run on the samples of the other runs, which are kept until other samples are needed."""
    key = (run.task, run.trials, run.seed, run.samples, run.test_samples, run.device)
    if cache.get("key") != key:
        cache.update(key=key, samples=samples_of([run]))
    return train_batch([run], cache["samples"])


# ---- panel 1: where the patches go ----

CROSS = "a patch without a place at this expert"
LEVELS = 5
"""Shades of a box, where every patch goes everywhere with a weight."""
HIGH = 142.0
"""Pixels of the Axes of a class. Their vertical axis counts pixels, the horizontal one patches."""
NOTES = {
    "expert-choice": "full box: the expert takes the patch",
    "token-choice": "full box: the patch has a place; ×: it asked, but no place was left",
    "soft": "every patch goes to every expert; the darker, the larger its weight",
    "hash": "full box: it has a place; ×: the hash sent it, but no place was left",
}


def _note(values: Mapping[str, Any]) -> str:
    which = f"one test sample of each class, trial {SHOWN + 1}; framed: what decides the class"
    return f"{which}\n{NOTES[values['routing']]}"


def _across(ax: Axes) -> float:
    """Returns the pixels from one patch to the next."""
    left, right = ax.get_xlim()
    return box_of(ax)[2] / (right - left)


def rows_of(ax: Axes, experts: int) -> tuple[NDArray[np.float64], float]:
    """Returns the tops (expert + 1,) of the rows of boxes, the last one of what is lost, and their height."""
    tile = min(_across(ax), 26.0)  # of a patch, above the boxes
    down = min((HIGH - tile) / (experts + 1), 18.0)
    tops = tile + down * np.arange(experts + 1, dtype=np.float64)
    tops[-1] += 4
    return tops, down


def furnish_places(axes: list[Axes], values: Mapping[str, Any]) -> None:
    patches, experts = values["patches"], values["experts"]
    for side, ax in enumerate(axes):
        ax.set(xlim=(-0.5, max(patches, box_of(ax)[2] / 40) - 0.5), ylim=(HIGH, 0), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        title = f"class {theme.CLASS_SIGNS[side]}: one patch is {theme.CLASS_NAMES[side]}"
        write(ax, -0.5, 0, [title], theme.CLASSES[side], ha="left", bold=True, right=-30, down=-14)
        tops, down = rows_of(ax, experts)
        heads(ax, [-0.5] * experts, tops[:-1] + down / 2, 12 if down >= 15 else 8.5, right=-14)
        write(ax, -0.5, tops[-1] + down / 2, ["lost"], theme.MUTED, ha="right", size=theme.SMALL_SIZE, right=-6)


def draw_places(axes: list[Axes], now: Record) -> None:
    kept, asked, gates = (np.nan_to_num(now[f"example_{name}"][SHOWN]) for name in ("kept", "asked", "gates"))
    levels = kept.astype(bool) * (LEVELS - 1)
    if now.values["routing"] == "soft":
        levels = np.rint((LEVELS - 1) * gates / max(float(gates.max()), 1e-12)).astype(int)
    for side, ax in enumerate(axes):
        _draw_tiles(ax, side, now)
        _draw_boxes(ax, side, levels[side], kept[side].any(0))
        tops, down = rows_of(ax, now.values["experts"])
        expert, patch = np.nonzero((asked[side] > 0) & (kept[side] == 0))
        cross: dict[str, Any] = {"color": theme.MUTED, "markersize": 4.5, "markeredgewidth": 1.2, "clip_on": False}
        ax.plot(patch, tops[expert] + down / 2, "x", label=CROSS, zorder=3, **cross)  # above the boxes, which it is in


def _draw_boxes(ax: Axes, side: int, levels: NDArray[np.int64], anywhere: NDArray[np.bool_]) -> None:
    """Draws a box for each expert and patch, and below them a black one for each patch that is lost."""
    experts, patches = levels.shape
    tops, down = rows_of(ax, experts)
    rows, columns = (each.ravel() for each in np.indices((experts + 1, patches)))
    lost = [theme.PAPER if there else theme.INK for there in anywhere]
    colours = [shade(row, int(level)) for row, line in enumerate(levels) for level in line] + lost
    words = [*(f"expert {expert + 1}" for expert in range(experts)), "lost"]
    names = [f"class {theme.CLASS_SIGNS[side]}, patch {j + 1}, {row}" for row in words for j in range(patches)]
    bars(ax, columns, [down - 2] * len(rows), 1 - 2 / _across(ax), colours, begin=tops[rows] + 1, names=names)


def _draw_tiles(ax: Axes, side: int, now: Record) -> None:
    """Draws the patches, and a frame around the column of the one that decides."""
    roles, sides = (now[f"example_{name}"][SHOWN][side] for name in ("roles", "sides"))
    tiles, frame = Sheet(zorder=2.2), Sheet(zorder=2.6)
    tiles.set_label("the patches of an example")
    frame.set_label("the patch that decides the class")
    tops, down = rows_of(ax, now.values["experts"])
    across, places = _across(ax), pixels(ax, np.arange(len(roles)), 0)
    wide = min(tops[0] - 3, across - 2)
    for (x, y), role, imitates in zip(places, roles.tolist(), sides.tolist(), strict=True):
        tiles.image(x - wide / 2, y, x + wide / 2, y + wide, face, role, max(imitates, 0))
        if role == SIGNAL:
            edge = across / 2
            frame.frame(x - edge, y - 2, x + edge, y + tops[-1] + down + 1, theme.CLASSES[side])
    ax.add_artist(tiles)
    ax.add_artist(frame)


@lru_cache(maxsize=64)
def face(role: int, side: int, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints a patch as it looks."""
    return theme.tile(ROLES[role], side, min(wide, high))


@lru_cache(maxsize=64)
def shade(expert: int, level: int) -> str:
    """Returns an expert's colour in steps from nearly paper to full."""
    colour = theme.rgba(theme.expert(expert).colour if level else theme.BACKGROUND)
    mixed = theme.faded(colour, 1 - level / (LEVELS - 1) if level else 0.6)[:3]
    return "#" + "".join(f"{part:02X}" for part in mixed.tolist())


# ---- panel 2: the load of the experts ----


def furnish_load(ax: Axes, values: Mapping[str, Any]) -> None:
    patches, experts = values["patches"], values["experts"]
    ax.set(xlim=(-0.5, experts - 0.5), ylim=(0, patches), xticks=[], yticks=[0, patches // 2, patches])
    ax.tick_params(length=0)
    ax.axhline(config_from(RoutedMoE, values).places(patches), color=theme.INK, linewidth=1.2, dashes=(4, 2))
    heads(ax, range(experts), [0] * experts, 13 if experts <= 4 else 11, down=16)


def draw_load(ax: Axes, now: Record) -> None:
    taken, refused = (np.nan_to_num(now[name][SHOWN]) for name in ("places_taken", "turned_away"))
    experts = np.arange(len(taken))
    above = np.minimum(taken + refused, now.values["patches"])
    words = [f"expert {expert + 1}: patches" for expert in experts]
    bars(
        ax, experts, above - taken, 0.7, theme.REFERENCE, begin=taken, hollow=True,
        names=[f"{word} turned away" for word in words],
    )  # fmt: skip
    colours = [theme.expert(expert).colour for expert in range(len(taken))]
    bars(ax, experts, taken, 0.7, colours, names=[f"{word} with a place" for word in words])
    if len(experts) <= 4:
        counts = [f"{count:.1f}" for count in taken + refused]
        write(ax, experts, above, counts, theme.MUTED, size=theme.SMALL_SIZE, down=-9)


# ---- panel 3: what comes out ----

DASHES: dict[str, Any] = {
    "expert choice": (4, 1.5),
    "token choice": (1, 1.2),
    "soft MoE": (6, 1.5, 1, 1.5),
    "hash": (2.5, 2.5),
    STUDY: (None, None),
}
"""Of every model, from back to front."""
MEASURES = {"test_accuracy": "accuracy", "signal_kept": "o kept", "lost": "lost"}
WIDE = 70
"""Pixels of a column of the table."""


def _median(values: Mapping[str, Any]) -> str:
    of = f"median of {values['trials']:,} trials" if values["trials"] > 1 else "one trial"
    return f"test accuracy, {of};\nall of them have as many places"


def furnish_outcome(axes: list[Axes], values: Mapping[str, Any]) -> None:
    curves, numbers = axes
    most = steps(values)
    curves.set(xlim=(0, most), ylim=(0.4, 1.01))
    curves.set_xlabel("SGD step", labelpad=-11, size=theme.SMALL_SIZE)
    curves.set_xticks([0, most])
    curves.set_yticks([0.5, 0.75, 1])
    percents(curves.yaxis)
    curves.axhline(0.5, color=theme.RULE, linewidth=0.8)
    reads(curves, y="accuracy")

    heads_of_columns = list(MEASURES.values())
    table(numbers, MODELS, heads_of_columns)
    numbers.set_xlim(-0.5, box_of(numbers)[2] / WIDE - 0.5)  # wider than the Axes, below the names of the curves
    numbers.tick_params(labelcolor=theme.INK)
    numbers.get_yticklabels()[0].set_fontweight("bold")
    write(numbers, range(3), [-0.5] * 3, heads_of_columns, theme.MUTED, size=theme.SMALL_SIZE, down=-11)


def draw_outcome(axes: list[Axes], now: Record) -> None:
    curves, numbers = axes
    labels = []
    for name, dashes in DASHES.items():
        chosen = name == STUDY
        reached, values = now.curve("test_accuracy", name)
        accuracy = median(values)
        colour = theme.INK if chosen else theme.REFERENCE
        weight: dict[str, Any] = {"linewidth": 2.8, "zorder": 3} if chosen else {"linewidth": 1.8, "zorder": 2.4}
        curves.plot(reached, accuracy, color=colour, dashes=dashes, label=f"{name}, median", **weight)
        if len(accuracy) and np.isfinite(accuracy[-1]):
            labels.append((float(accuracy[-1]), name, colour))
    ends(curves, labels, apart=0.115, size=theme.SMALL_SIZE)
    shares = np.array([[middle(now.last(measure, name)) for measure in MEASURES] for name in MODELS])
    cells(numbers, [percent(share) for share in shares.ravel()], shares, size=theme.SMALL_SIZE)


# ---- words ----


def caption(now: Record) -> str:
    kept, lost, dropped = (percent(middle(now[name])) for name in ("signal_kept", "lost", "dropped"))
    places, routing = config_from(RoutedMoE, now.values).places(now.values["patches"]), now.values["routing"]
    each = f"{places} place{'s' * (places > 1)} an expert"
    found = f"With {each}, o is kept in {kept} of the samples and {lost} of the patches are lost"
    if routing in ("token-choice", "hash"):
        found = f"With {each}, o is kept in {kept}, {lost} of patches are lost, and {dropped} of choices find no place"
    if routing == "soft":
        share = percent(middle(now["signal_share"]))
        found = f"With {each}, nothing is lost, and o is {share} of what experts receive"
    if now.step == 0:
        return f"{found}."
    accuracy = percent(middle(now["test_accuracy"]))
    beside = ", ".join(
        f"{name} {percent(middle(now.last('test_accuracy', name)))}" for name in BESIDE if now.of(name) is not None
    )
    return f"{found}. The accuracy is {accuracy}{f' ({beside})' if beside else ''}."


PANELS = (
    Panel(
        "Where the patches go", draw_places, furnish_places, _note,
        width=490, margins=(56, 14, 104, 28), rows=2, gap=32,
    ),
    Panel(
        "Load of the experts", draw_load, furnish_load,
        f"patches of a sample, trial {SHOWN + 1}\nhollow: turned away; dashed: C",
        width=232, margins=(46, 20, 96, 76),
    ),
    Panel(
        "What comes out", draw_outcome, furnish_outcome, _median,
        width=378, margins=(100, 118, 90, 24), rows=(160, 125), gap=49,
    ),
)  # fmt: skip

RoutingChoicesLab = lab(
    "Routing choices",
    name="RoutingChoicesLab",
    about="One routing in the sliders' hands, and four others with as many places for each expert.",
    knobs=KNOBS,
    runs=runs,
    begin=begin,
    steps=steps,
    records=60,
    measures={"test_accuracy": "", "signal_kept": "o kept", "lost": "lost"},
    panels=PANELS,
    caption=caption,
    stories=STORIES,
    diverged="The loss of {name} became infinite in {trials}: try a smaller step size.",
)
