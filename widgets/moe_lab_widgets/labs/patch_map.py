"""PatchMapLab: which patches of an image each expert of a convolutional network keeps, live, beside two controls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.vision.patches.data import QuadrantTask
from moe_lab.vision.patches.model import WRN, Model, PatchWRN
from moe_lab.vision.patches.run import PatchImageRun
from moe_lab_widgets.drawing.on_axes import box_of, ends, percents, pixels, reads, table, write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.sheet import Sheet, integer
from moe_lab_widgets.drawing.trials import MOST_LINES, spread_words, trials_and_median
from moe_lab_widgets.drawing.words import middle, percent
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.patch_map_goals import GOALS, QUESTION
from moe_lab_widgets.labs.patch_map_stories import STORIES

STUDY, NO_GATE, CONV = MODELS = ("pMoE", "no gate", "conv")
"""WRN-pMoE, the same network whose experts get all patches, and the network without experts."""
SAID = {STUDY: "mixture", NO_GATE: "no gates", CONV: "CNN"}
"""What the picture calls them."""
LINES: dict[str, tuple[theme.Style, float, dict[str, Any]]] = {
    CONV: (theme.Style(theme.REFERENCE, "^", ":"), 2.2, {"dashes": (1, 1.2)}),
    NO_GATE: (theme.OTHER, 2.0, {"dashes": (3, 1.5)}),
    STUDY: (theme.MODEL, 2.6, {}),
}
"""Of every model, from back to front: its style, and the width and the dashes of its median."""
TEST_SAMPLES, EXAMPLES, SHOWN = 200, 8, 0
"""Test images, those that are drawn, and the trial whose images they are."""
BATCH = 50
"""Divides every N on the slider: a smaller last batch would spoil batch norm's averages just before the end."""
RECORDS = 30
"""Approximate number of records of a run: six to ten seconds at 3 to 5 records per second."""
CONTROLS_EVERY = 2
"""Records from one measurement of the controls to the next."""
KEEPING = ("learned", "random")
"""Gates that keep l patches; the others keep all."""
CHANCE = 0.25
"""One of four quadrants is the object, whatever l and k are; and one of four classes is right."""

# ---- knobs, and the three runs that their values describe ----


def _keeps(values: Mapping[str, Any]) -> bool:
    return values["gates"] in KEEPING


def _learned(values: Mapping[str, Any]) -> bool:
    return bool(values["gates"] == "learned")


KNOBS = (
    offer(PatchWRN, "patches_per_expert", main=True, meaning="patches kept per expert", default=2, enabled_when=_keeps,
          effect="Each expert sees more of the image. With all 16 there is nothing left to choose.",
          applies="only to gates that keep some patches (learned or random)"),
    offer(PatchWRN, "experts", main=True, slider=None, choices=(1, 2, 4, 8),  # that divide 64 channels
          effect="More experts, each with a smaller part of the 64 channels."),
    offer(PatchImageRun, "samples", main=True, default=600, effect="More samples help all three networks."),
    offer(QuadrantTask, "noise", main=True, symbol="σ", meaning="noise on every pixel", default=0.1,
          effect="More noise hides the object."),
    offer(PatchWRN, "gates", main=True, meaning="gates",
          words={"none": "without (all patches)", "soft": "soft (all, weighted)"},
          effect="Experts get the patches that a gate has learned to choose, random ones, or all."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=60, low=1, slider=(20, 200, 10),
            effect="A longer run, in which all networks learn more."),
    offer(PatchImageRun, "trials", meaning="trials", slider=(1, 6, 1), far=100, effect=MORE_TRIALS),
    offer(PatchWRN, "learning_rate", symbol="η", meaning="learning rate", effect="Faster and less steady steps."),
    offer(PatchWRN, "softmax", meaning="softmax over", words={"all": "all patches", "kept": "kept patches"},
          enabled_when=_learned,
          effect="A gate is compared with those of all patches, or with those of the kept ones alone (eq. 5).",
          applies="only to learned gates"),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, PatchImageRun]:
    """Returns the runs of the model under study and of its controls, which are measured more rarely."""
    task, epochs = config_from(QuadrantTask, values), epochs_of(values)
    shared: dict[str, Any] = {"epochs": epochs, "test_samples": TEST_SAMPLES, "examples": EXAMPLES}
    return {
        name: config_from(
            PatchImageRun,
            values,
            model=model,
            task=task,
            measure_every=1 if name == STUDY else CONTROLS_EVERY,
            **shared,
        )
        for name, model in models(values).items()
    }


def models(values: Mapping[str, Any]) -> dict[str, Model]:
    """Returns the model under study and its controls, by name."""
    shared: dict[str, Any] = {"trunk": "plain", "batch_size": BATCH, "learning_rate": values["learning_rate"]}
    no_gate = PatchWRN(experts=values["experts"], gates="none", **shared)
    return {STUDY: config_from(PatchWRN, values, **shared), NO_GATE: no_gate, CONV: WRN(**shared)}


def epochs_of(values: Mapping[str, Any]) -> int:
    """Returns the passes over the data, so many that they make at least `steps` steps."""
    samples = max(values["samples"], 1)
    return int(max(1, -(-values["steps"] // -(-samples // min(BATCH, samples)))))


def steps_of(values: Mapping[str, Any]) -> int:
    """Returns the most steps that a run can take."""
    return runs(values)[STUDY].last_step


def measures(run: Any) -> dict[str, str]:
    """Returns what copied code prints of a run."""
    found = {"kept_in_object": "kept in the object"} if isinstance(run.model, PatchWRN) else {}
    return {"test_accuracy": "", **found}


# ---- panel 1: test images, a row for each expert, with the patches that it keeps ----
# An image is sent once: what changes from frame to frame are the colours of boxes over it and behind it. A veil covers
# the patches that an expert does not keep; through the gaps between patches shows the expert's colour around kept ones.

CELLS = 4
"""Patches along a side of an image."""
LARGE, SMALL = 64, 32
"""Sides of an image, for up to four experts and for more, in pixels."""
VEIL, LEVELS = 0.72, 6
"""How much of a patch that is not kept is covered; steps from covered to lit, where gates are soft."""
GREYS = 12
"""Shades of an image: a page is sent each new pixel."""
FRAME = theme.CLASSES[0]
NOTES = {
    "learned": "lit and outlined: patches that the expert keeps",
    "random": "lit and outlined: patches that chance gives to the expert",
    "none": "every expert gets all patches",
    "soft": "every expert gets all patches; the more lit, the larger its gate",
}


def _note(values: Mapping[str, Any]) -> str:
    return (
        f"{EXAMPLES} test images of trial {SHOWN + 1}; {NOTES[values['gates']]}\n"
        "blue frame: the digit that decides the class (0 to 3); the three others do not"
    )


def furnish_maps(ax: Axes, values: Mapping[str, Any]) -> None:
    experts = values["experts"]
    places = np.ndindex(experts, EXAMPLES, CELLS**2)
    table(ax, [""] * experts, [""] * EXAMPLES, widest=70, highest=LARGE + 10)
    ax.names_of_cells = [f"expert {s + 1}, image {i + 1}, patch {j + 1}" for s, i, j in places]  # type: ignore[attr-defined]
    small: dict[str, Any] = {"size": theme.SMALL_SIZE, "color": theme.MUTED, "ha": "center", "va": "center"}
    up = 8 / box_of(ax)[3] * ax.get_ylim()[0]  # of the words above and below the images, in rows
    ax.text(-0.8, -0.5 - up, "is", **small)
    ax.text(-0.8, experts - 0.5 + up, "said", **small)
    if values["gates"] != "soft":
        ax.text(EXAMPLES - 0.12, -0.5 - up, "in object", **small)
    for s in range(experts):
        shape, digit = theme.expert_head(ax, s, 15 if experts <= 4 else 13)
        for mark in (shape, digit):
            mark.set(data=([-0.8], [s]), clip_on=False)


def draw_maps(ax: Axes, now: Record) -> None:
    study, soft = now.of(), now.values["gates"] == "soft"
    lit = lit_patches(now)
    levels = np.rint((LEVELS - 1) * lit).astype(int)
    experts = len(levels)
    side = LARGE if experts <= 4 else SMALL
    corners = pixels(ax, *np.indices((EXAMPLES, experts)).reshape(2, -1)) - side / 2
    corners = corners.reshape(EXAMPLES, experts, 2).swapaxes(0, 1)
    edges = patch_edges(corners, side)
    veil, bare = shades(VEIL, theme.PAPER), shades(1.0, theme.PAPER)[-1]
    colours = np.array([integer(theme.expert(s).colour) for s in range(experts)])
    outlines = np.where(levels == LEVELS - 1, colours[:, None, None], bare)
    sheets = {name: Sheet(zorder=zorder) for name, zorder in zip(SHEETS, (2.0, 2.2, 2.4, 2.6), strict=True)}
    behind, images, veils, frames = sheets.values()
    behind.add(edges, outlines.ravel().tolist())
    veils.add(edges, [veil[LEVELS - 1 - level] for level in levels.ravel().tolist()])
    boxes = side / study["example_images"].shape[-1] * np.nan_to_num(study["example_boxes"][SHOWN])
    for i, shown in enumerate(thumbnails(study["example_images"][SHOWN])):
        down, right, high, wide = boxes[i].tolist()
        for left, top in corners[:, i].tolist():
            images.image(left, top, left + side, top + side, thumbnail, shown)
            if high and wide:  # two hairlines thick
                x, y = left + right, top + down
                frames.frame(x - 1, y - 1, x + wide + 1, y + high + 1, FRAME)
                frames.frame(x, y, x + wide, y + high, FRAME)
    veils.parts = ax.names_of_cells  # type: ignore[attr-defined]
    for name, sheet in sheets.items():
        sheet.set_label(name)
        ax.add_artist(sheet)
    write_classes(ax, study, experts)
    if not soft:
        found = [percent(share) for share in study["expert_kept_in_object"][SHOWN]]
        kept = now.values["gates"] in KEEPING
        write(ax, EXAMPLES - 0.12, np.arange(experts), found, theme.INK if kept else theme.REFERENCE, bold=kept)


SHEETS = (
    "patches that an expert keeps",
    "test images",
    "patches that an expert does not keep",
    "the digit that decides the class",
)
"""What is drawn of images, from back to front, as a pointer calls it."""


def write_classes(ax: Axes, study: Any, experts: int) -> None:
    """Writes the classes of the images above them, and the model's predictions below them."""
    labels, said = study["example_labels"][SHOWN], study["example_predicted"][SHOWN]
    at, right = np.arange(len(labels)), labels == said
    answers = [f"{number(answer)} {'✔' if one else '✗'}" for answer, one in zip(said, right, strict=True)]
    write(ax, at, -0.5, [number(label) for label in labels], FRAME, bold=True, down=-8)
    write(ax, at, experts - 0.5, answers, np.where(right, theme.INK, theme.REFERENCE), bold=right, down=8)


def lit_patches(now: Record) -> NDArray[np.float64]:
    """Returns (expert, example, patch) from 0, covered, to 1, lit."""
    name = "example_gates" if now.values["gates"] == "soft" else "example_kept"
    values = np.nan_to_num(now[name][SHOWN]).swapaxes(0, 1)
    return np.asarray(values / np.maximum(values.max(-1, keepdims=True), 1e-12))


def patch_edges(corners: NDArray[np.float64], side: float) -> list[tuple[float, ...]]:
    """Returns the boxes (see `Sheet`) of all patches of images with upper left corners (expert, example, 2)."""
    row, column = np.indices((CELLS, CELLS)).reshape(2, -1) * side / CELLS
    first = (corners[:, :, None] + np.column_stack((column, row))).reshape(-1, 2)
    edges = np.concatenate((first, first + side / CELLS, np.zeros((len(first), 4))), axis=1)
    return list(map(tuple, edges.tolist()))


def thumbnails(images: NDArray[np.float64]) -> list[bytes]:
    """Returns the first channel of every image in a few shades, as something that a cache can keep."""
    ink = np.clip(np.nan_to_num(images[:, 0]), 0, 1)
    return [one.tobytes() for one in np.rint((GREYS - 1) * ink).astype(np.uint8)]


def number(value: float) -> str:
    """Returns a class in words."""
    return f"{value:.0f}" if np.isfinite(value) else "–"


@lru_cache(maxsize=8)
def shades(most: float, colour: str) -> list[int]:
    """Returns a colour in steps from transparent to `most` of opaque, each as one integer (see `sheet.integer`)."""
    opaque = integer(colour) & 0xFFFFFF
    return [opaque | round(255 * most * level / (LEVELS - 1)) << 24 for level in range(LEVELS)]


@lru_cache(maxsize=128)
def thumbnail(pixels: bytes, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints an image of a few shades, ink dark on paper, with gaps of a hairline around its patches."""
    side = round(len(pixels) ** 0.5)
    ink = np.frombuffer(pixels, dtype=np.uint8).reshape(side, side) / (GREYS - 1)
    rows, columns = np.arange(high) * side // high, np.arange(wide) * side // wide
    shown = ink[rows][:, columns, None]
    colours = theme.rgba(theme.PAPER)[:3] * (1 - shown) + theme.rgba(theme.INK)[:3] * shown
    painted = np.concatenate([colours.round(), np.full_like(shown, 255)], axis=-1).astype(np.uint8)
    line = max(round(scale), 1)
    for edge in np.rint(np.arange(CELLS + 1) * high / CELLS).astype(int):
        painted[max(edge - line, 0) : edge + line, :, 3] = 0
    for edge in np.rint(np.arange(CELLS + 1) * wide / CELLS).astype(int):
        painted[:, max(edge - line, 0) : edge + line, 3] = 0
    return painted


# ---- panels 2 and 3: shares over the steps ----


def furnish_shares(ax: Axes, values: Mapping[str, Any], chance: str) -> None:
    total = steps_of(values)
    ax.set(xlim=(0, total), ylim=(0, 1.02), xlabel="SGD step")
    ax.set_xticks([0, total])
    ax.set_yticks(np.linspace(0, 1, 5))
    percents(ax.yaxis)
    ax.axhline(CHANCE, color=theme.MUTED, linewidth=1, linestyle=(0, (6, 3)), zorder=1)
    style: dict[str, Any] = {"size": theme.SMALL_SIZE, "color": theme.MUTED, "ha": "right", "va": "center"}
    ax.text(total, CHANCE - 0.035, chance, **style)


def draw_shares(ax: Axes, now: Record, names: tuple[str, ...], measure: str) -> dict[str, float]:
    """Draws the trials and the median of some models, and returns where the medians end."""
    last = {}
    for name in (name for name in LINES if name in names):
        style, width, dashes = LINES[name]
        steps, values = now.curve(measure, name)
        last[name] = trials_and_median(ax, steps, values, style, SAID[name], SHOWN, linewidth=width, **dashes)
    return last


def furnish_found(ax: Axes, values: Mapping[str, Any]) -> None:
    furnish_shares(ax, values, "chance 25 %")
    reads(ax, y="share in the object")


def draw_found(ax: Axes, now: Record) -> None:
    share = draw_shares(ax, now, (STUDY,), share_of(now))[STUDY]
    ends(ax, [(share, percent(share), theme.INK)])


def share_of(now: Record) -> str:
    """Returns the measure of what lies in the object: of kept patches, or of gates where all patches are kept."""
    return "gate_in_object" if now.values["gates"] == "soft" else "kept_in_object"


def _what(values: Mapping[str, Any]) -> str:
    what = "share of the gates' sum" if values["gates"] == "soft" else "share of kept patches that lie"
    return f"{what}\nin the blue frame"


def furnish_accuracy(ax: Axes, values: Mapping[str, Any]) -> None:
    furnish_shares(ax, values, "guessing")
    reads(ax, y="accuracy")


def draw_accuracy(ax: Axes, now: Record) -> None:
    last = draw_shares(ax, now, MODELS, "test_accuracy")
    ends(ax, [(last[name], f"{SAID[name]}\n{percent(last[name])}", LINES[name][0].colour) for name in MODELS])


def _thin(values: Mapping[str, Any]) -> str:
    trials = values["trials"]
    if trials == 1:
        return "the one trial"
    if trials > MOST_LINES:
        return f"median, half, 90 % of {trials:,} trials;\nthin: trial {SHOWN + 1}"
    return f"thick: median of {trials} trials;\nfirm thin line: trial {SHOWN + 1}"


# ---- words ----


def caption(now: Record) -> str:
    share, chance = (percent(middle(now[name])) for name in (share_of(now), "chance"))
    gates = now.values["gates"]
    subject = "of the gates' sum falls on" if gates == "soft" else "of the kept patches lie in"
    found = f"{share} {subject} the object; chance is {chance}."
    if gates == "none":
        found = "There are no gates, so every expert gets all patches."
    if now.step == 0:
        return f"Before training: {found[0].lower()}{found[1:]}"
    right = {name: percent(middle(now.last("test_accuracy", name))) for name in MODELS}
    text = f"{found} The mixture is right in {right[STUDY]}, without gates in {right[NO_GATE]}, a CNN in {right[CONV]}."
    if now.ended and gates != "none":
        ahead = (now.last("test_accuracy", STUDY) > now.last("test_accuracy", NO_GATE)).sum()
        trials = f"{now.trials} trial{'s' * (now.trials > 1)}"
        text += f" Gates raise accuracy in {ahead} of {trials}."
    return f"{text}{spread_words(now.trials)}"


def diverged(name: str, trials: str) -> str:
    model = "mixture without gates" if name == NO_GATE else SAID[name]
    return f"The loss of the {model} became infinite in {trials}: try a smaller step size."


PatchMapLab = lab(
    "Patch map",
    name="PatchMapLab",
    about="""WRN-pMoE of pmoe2023, the same network without gates and a network without experts, on digits in quadrants.

    At these sizes gates bring no accuracy; what there is to see is where the kept patches lie.
    """,
    knobs=KNOBS,
    runs=runs,
    records=RECORDS,
    measures=measures,
    panels=(
        Panel("Which patches each expert keeps", draw_maps, furnish_maps, _note, width=652, margins=(38, 54, 93, 55)),
        Panel("Found the object?", draw_found, furnish_found, _what, width=216, margins=(54, 50, 96, 62)),
        Panel("Test accuracy", draw_accuracy, furnish_accuracy, _thin, width=232, margins=(56, 82, 96, 62)),
    ),
    caption=caption,
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    diverged=diverged,
)
