"""PruningLab: experts whose routers did not grow in training can go; other criteria take the wrong ones, live.

The layer of pruning2024 is trained from a checkpoint, pruned by a criterion, and fine-tuned again (algorithm 1). Rho,
the criterion, fine-tuning and the trial on show are view-only: they start no training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.pruning.live import PruningChoice
from moe_lab_widgets.drawing.on_axes import bars, ends, note, percents, write
from moe_lab_widgets.drawing.panel import Panel, PanelValues
from moe_lab_widgets.drawing.words import median, middle, short, trial_of, worst
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs import pruning_record as of
from moe_lab_widgets.labs.pruning_goals import GOALS, QUESTION
from moe_lab_widgets.labs.pruning_knobs import KNOBS, MEANINGS, NAMES, check, check_view
from moe_lab_widgets.labs.pruning_record import Outcome, PruningSnapshot, curves_of, looked_at, outcome, threshold
from moe_lab_widgets.labs.pruning_stories import STORIES

# ---- panel 1: which routers moved ----

NOTABLE, CROWDED = 0.3, 24
"""A change from which its number is written; and the experts from which on there is no room for numbers."""
CAP = 0.02
"""The height of the thick end of each bar, so that a router that did not grow still shows."""
CHIPS, CARRIED, LOST = -0.15, -0.26, -0.35
SCORES, SCORES_TOP = -0.9, -0.53
"""Heights in the panel, where 0 is no change and 1 the longest: rows below the changes, and the bars of the scores."""


def columns(experts: int) -> NDArray[np.float64]:
    """Returns (expert,) where the experts stand: those that vote + on the left, after a gap those that vote -."""
    numbers = np.arange(float(experts))
    return np.where(numbers < experts // 2, numbers, numbers + 0.034 * experts)


def furnish_routers(ax: Axes, values: PanelValues) -> None:
    most, bound, experts = values.of(of.longest_change), values.of(threshold), values["experts"]
    x = columns(experts)
    ax.set(xlim=(-0.5, x[-1] + 0.5), ylim=(SCORES, 1))
    ax.set_xticks([])
    ax.set_yticks(np.arange(most) / most, [f"{tick:g}" for tick in np.arange(most)])
    ax.spines[:].set_visible(False)
    note(ax, -40, 88, "Δ", theme.INK)
    for height in (0, SCORES):
        ax.axhline(height, color=theme.REFERENCE, linewidth=0.8, clip_on=False)
    ax.axhline(bound / most, color=theme.INK, linewidth=1.4, dashes=(5, 2))
    middle = (x[experts // 2 - 1] + x[experts // 2]) / 2
    ax.vlines([middle] * 2, [LOST, SCORES], [1.13, SCORES_TOP], color=theme.RULE, linewidth=1, clip_on=False)
    style: dict[str, Any] = {"ha": "center", "va": "center", "size": theme.TEXT_SIZE, "weight": "bold"}
    for side, place in enumerate(((-0.5 + middle) / 2, (middle + x[-1] + 0.5) / 2)):
        ax.text(place, 1.09, f"experts that vote {theme.CLASS_SIGNS[side]}", color=theme.CLASSES[side], **style)


def draw_routers(ax: Axes, now: Record) -> None:
    record, choice, trial = looked_at(now)
    changes, most, kept = record.changes(trial), of.longest_change(now.values), record.kept(choice, trial)
    experts, half = len(changes), len(changes) // 2
    x, classes = columns(experts), np.repeat(theme.CLASSES, half)
    stays = np.ones(experts, dtype=bool) if kept is None else kept
    colours, wide = np.where(stays, classes, theme.REFERENCE), np.where(stays, 0.75, 0.4)
    heights, full = np.clip(np.nan_to_num(changes), -0.4, most) / most, np.ones(experts)
    drawn: list[tuple[Any, ...]] = [  # length, width, begin, colours
        (heights, wide, 0 * full, colours),
        (CAP * full, wide, heights - CAP / 2, colours),
        (np.where(stays & (kept is not None), 0.1, np.nan), 0.85 * full, CHIPS - 0.05 * full, colours),
        (scores_of(record, choice, trial), wide, SCORES * full, np.where(stays, theme.INK, theme.REFERENCE)),
        ((1 - SCORES) * full, full, SCORES * full, np.full(experts, "none")),  # a pointer finds the whole column
    ]
    lengths, widths, begin, fills = (np.concatenate(part) for part in zip(*drawn, strict=True))
    names = [f"expert {number + 1}, votes {theme.CLASS_SIGNS[number // half]}" for number in range(experts)]
    bars(ax, np.tile(x, len(drawn)), lengths, widths, fills, begin=begin, names=names * len(drawn))
    numbers = [str(number + 1) for number in range(experts)]
    chips = classes if kept is None else np.where(kept, "white", theme.REFERENCE)
    write(ax, x, CHIPS, numbers, chips, size=theme.SMALL_SIZE, bold=stays)
    told = np.flatnonzero(changes >= NOTABLE) if experts < CROWDED else np.zeros(0, dtype=int)
    words = [f"{'▲' if changes[expert] > most else ''}{changes[expert]:.1f}" for expert in told]
    write(ax, x[told], heights[told], words, colours[told], size=theme.SMALL_SIZE, bold=True, down=-10)
    carriers = np.flatnonzero(record.carriers(trial))
    patterns = [theme.CLASS_NAMES[expert // half] for expert in carriers]
    write(ax, x[carriers], CARRIED, patterns, classes[carriers], bold=True)
    gone = [expert for _, some in record.lost(choice, trial) for expert in some]
    write(ax, x[gone], LOST, ["✖"] * len(gone), theme.FAILURE)
    which = trial_of(trial, record.trials)
    which += "" if kept is None else "; thin: pruned"
    write(ax, x[-1] + 0.5, 1, [which], theme.MUTED, ha="right", size=theme.SMALL_SIZE, down=-62)
    _describe_scores(ax, record, choice)


def scores_of(record: PruningSnapshot, choice: PruningChoice, trial: int) -> NDArray[np.float64]:
    """Returns (expert,) the lengths of the scores' bars, from the smallest of all or 0 on; NaN where there are none."""
    if record.pruned is None or choice.criterion not in record.pruned.scores:
        return np.full(record.run.model.experts, np.nan)
    scores = record.pruned.scores[choice.criterion][trial]
    low, high = min(float(scores.min()), 0.0), float(scores.max())
    return np.asarray((scores - low) / max(high - low, 1e-12) * (SCORES_TOP - SCORES) + CAP / 2)


def _describe_scores(ax: Axes, record: PruningSnapshot, choice: PruningChoice) -> None:
    def say(words: str, colour: str, down: float = -14) -> None:
        write(ax, -0.5, SCORES_TOP, [words], colour, ha="left", size=theme.SMALL_SIZE, down=down)

    if record.pruned is None:
        say("The scores by which experts are pruned follow when training has ended.", theme.MUTED)
        return
    say(f"{NAMES[choice.criterion]} = {MEANINGS[choice.criterion]} (the largest stay)", theme.INK)
    if choice.criterion not in record.pruned.scores:
        say(f"It is undefined, because {undefined(choice.criterion)}.", theme.FAILURE, down=12)


# ---- panel 2: accuracy after pruning ----

LOW, HIGH = 0.4, 1.02
LINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("●", {"linewidth": 2.8, "marker": "o", "markersize": 7, "zorder": 5}),
    ("✖", {"linewidth": 1.5, "marker": "X", "markersize": 5.5, "dashes": (4, 1, 1, 1), "zorder": 4.2}),
    ("■", {"linewidth": 1.5, "marker": "s", "markersize": 4.5, "dashes": (4, 1.5), "zorder": 4.1}),
)
"""Of the chosen criterion, of chance, and of the best other one: the mark before its name, and its looks."""


def furnish_accuracy(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(-0.02, 0.97), ylim=(LOW, HIGH), xlabel="ρ, share of experts pruned")
    ax.set_xticks([0, 0.2, 0.4, 0.6, 0.8], ["0", "0.2", "0.4", "0.6", "0.8"])
    ax.set_yticks([0.5, 0.75, 1])
    ax.set_ylabel("accuracy").set_visible(False)
    percents(ax.yaxis)
    ax.axhline(0.5, color=theme.RULE, linewidth=0.8, zorder=0.5)
    ax.text(0, 0.41, "50 %: guessing", color=theme.MUTED, size=theme.SMALL_SIZE)


def draw_accuracy(ax: Axes, now: Record) -> None:
    record, choice, _ = looked_at(now)
    if record.pruned is None:
        if record.accuracy is not None:
            ax.plot([0], [middle(record.accuracy)], color=theme.INK, clip_on=False, label="not pruned", **LINES[0][1])
        _say(ax, "in training: nothing is pruned yet")
        return
    tuned, shown = curves_of(record, choice)
    shares = np.arange(record.pruned.half) / record.pruned.half
    every = median(np.concatenate(list(shown.values()))).reshape(-1, len(shares))  # at once: a quarter of the time
    middles = dict(zip(shown, every, strict=True))
    firm = (choice.criterion, "random", of.best_other(middles, choice.criterion))
    for name in (name for name in middles if name not in firm):
        pale = Line2D(shares, middles[name], color=theme.RULE, linewidth=1.2, zorder=2.5, label=NAMES[name])
        ax.add_artist(pale)  # for a third of the time of ax.plot
    labels = {}
    for name, (mark, looks) in zip(firm, LINES, strict=True):
        if name in middles and name not in labels:
            ax.plot(shares, middles[name], color=theme.INK, clip_on=False, label=NAMES[name], **looks)
            labels[name] = float(middles[name][-1]), f"{mark} {NAMES[name]}", theme.INK
    ends(ax, list(labels.values())[::-1], apart=0.06)  # of equal ones the chosen one is named above
    if choice.criterion in tuned:
        before, words = median(record.pruned.plain[choice.criterion]), f"{NAMES[choice.criterion]}, without fine-tuning"
        ax.plot(shares, before, "o:", color=theme.INK, linewidth=1.6, markersize=4, zorder=4, label=words)
    _draw_rho(ax, choice, shown, len(shares))
    _say(ax, _tuning(record, choice, tuned[choice.criterion][0] if choice.criterion in tuned else 0))


def _draw_rho(ax: Axes, choice: PruningChoice, shown: Mapping[str, NDArray[np.float64]], half: int) -> None:
    """Draws a line at rho, and beside it the ranges of the trials by the chosen criterion and by chance."""
    gone = choice.count(half)
    share = gone / half
    lines, looks = [[(share, LOW), (share, HIGH)]], [(theme.INK, 1.0, 1.0)]
    for name, (away, colour) in {"random": (0.018, theme.REFERENCE), choice.criterion: (-0.018, theme.INK)}.items():
        values = shown[name][gone] if name in shown else np.array([np.nan])
        if np.isfinite(values).any():
            low, high = np.maximum([np.nanmin(values), np.nanmax(values)], LOW)
            lines.append([(share + away, low), (share + away, high)])
            looks.append((colour, 5.0, 0.45))
    colours, widths, alphas = zip(*looks, strict=True)
    style: dict[str, Any] = {"linewidths": widths, "colors": list(zip(colours, alphas, strict=True)), "zorder": 3}
    label = "ρ, with the range of the trials by the chosen criterion and at random"
    ax.add_collection(LineCollection(lines, label=label, **style), autolim=False)
    words = f"ρ = {choice.rho:g}: {gone} of {half} in each half"
    write(ax, np.clip(share, 0.34, 0.75), HIGH, [words], size=theme.SMALL_SIZE, bold=True, down=-11)


def _tuning(record: PruningSnapshot, choice: PruningChoice, steps: int) -> str:
    if not choice.fine_tune:
        return "no fine-tuning after pruning"
    if steps == 0:
        return "fine-tuning what is left ..."
    whose = "chosen line" if record.run.model.coupled else "all lines"
    return f"{whose} fine-tuned {steps} steps; dotted: without"


def _say(ax: Axes, words: str) -> None:
    write(ax, -0.02, HIGH, [words], theme.MUTED, ha="left", size=theme.SMALL_SIZE, right=-36, down=-27)


def pin_accuracy(ax: Axes, pinned: Record, now: Record) -> None:
    """Draws the chosen curve of a pinned record, thin."""
    record, choice, _ = looked_at(pinned)
    values = curves_of(record, choice)[1].get(choice.criterion)
    if values is not None:
        style: dict[str, Any] = {"color": theme.INK, "linewidth": 1.1, "markersize": 3, "zorder": 2.6}
        shares, label = np.arange(len(values)) / len(values), f"{NAMES[choice.criterion]}, pinned"
        ax.plot(shares, median(values), "o-", clip_on=False, label=label, **style)
        write(ax, 0.97, LOW, ["thin: pinned"], theme.MUTED, ha="right", size=theme.SMALL_SIZE, down=-12)


# ---- panel 3: what is left ----

BLOCKS, WIDE = 20, 0.85
"""Each stands for 5 %; and the width of one, where that of its place is 1."""
GROUPS = np.array([0.0, 9.2, 18.4])
TITLES = ("accuracy", "memory", "FLOPs per input")


def furnish_left(ax: Axes, values: Mapping[str, Any]) -> None:
    ax.set(xlim=(0, BLOCKS / 2), ylim=(26, 0))
    ax.set_axis_off()
    for top, title in zip(GROUPS, TITLES, strict=True):
        ax.text(0, top + 0.4, title, color=theme.MUTED, size=theme.TEXT_SIZE, va="center")


def draw_left(ax: Axes, now: Record) -> None:
    shares, notes = left_of(now)
    row, column = np.divmod(np.arange(BLOCKS), BLOCKS // 2)
    y, x = (GROUPS[:, None] + 4.4 + row).ravel(), np.tile(column, len(GROUPS))
    filled = np.clip(np.nan_to_num(shares)[:, None] * BLOCKS - np.arange(BLOCKS), 0, 1).ravel()
    names = [f"{title}: a block is 5 %" for title in TITLES for _ in range(BLOCKS)]
    bars(ax, y, np.full(len(y), WIDE), WIDE, theme.BACKGROUND, begin=x, across=True, names=names)
    bars(ax, y, np.where(filled > 0.1, WIDE * filled, np.nan), WIDE, begin=x, across=True, names=names)
    write(ax, 0, GROUPS + 2.3, [short(share) for share in shares], ha="left", bold=True, size=19)
    write(ax, 0, GROUPS + 6.6, notes, theme.MUTED, ha="left", size=theme.SMALL_SIZE)


def left_of(now: Record) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Returns the shares of the three groups, NaN where unknown, and a note on each."""
    record, choice, _ = looked_at(now)
    experts, found = record.run.model.experts, outcome(record, choice)
    if found is not None:
        left = f"{found.left} of {experts} experts"
        routers = "routers stay" if record.run.model.routing == of.TOKENS_CHOOSE else "routers go too"
        shares = np.array([middle(found.tuned), found.memory, found.operations])
        return shares, (f"worst trial {worst(found.tuned)}", left, routers)
    if record.pruned is not None:
        return np.full(3, np.nan), ("no order of experts", "nothing is pruned", "")
    accuracy = np.nan if record.accuracy is None else middle(record.accuracy)
    return np.array([accuracy, 1.0, 1.0]), ("not pruned", f"all {experts} experts", "in training")


# ---- words ----


def undefined(criterion: str) -> str:
    """Returns in a few words why a criterion gives all experts the same score."""
    return "experts receive equally many tokens" if criterion == "token-count" else "no router has moved"


def progress(now: Record) -> str:
    record, choice, _ = looked_at(now)
    if not record.values:
        return "pre-training the branches"
    if record.results and choice.fine_tune:
        return f"trained {now.total} steps, pruned, fine-tuning"
    return f"step {now.step} of {now.total}"


def trouble(now: Record) -> str:
    record, choice, _ = looked_at(now)
    words = "" if record.pruned is None else record.pruned.undefined.get(choice.criterion, "")
    return words[:1].upper() + words[1:]


def caption(now: Record) -> str:
    record, choice, trial = looked_at(now)
    if not record.values:
        return "Branches are pre-trained, each on a task of its own, and then put side by side."
    if record.pruned is None:
        return _training(now, record, trial)
    found = outcome(record, choice)
    name = NAMES[choice.criterion]
    if found is None:
        reason = undefined(choice.criterion)
        return f"{reason[:1].upper()}{reason[1:]}, so {name} cannot order the experts."
    return _pruning(record, found, name) + (_failure(record, choice, trial, name) or _costs(found))


def _training(now: Record, record: PruningSnapshot, trial: int) -> str:
    accuracy = "–" if record.accuracy is None else short(middle(record.accuracy))
    if now.step == 0:
        return f"This is the checkpoint, whose routers have not moved. Its accuracy is {accuracy}."
    return f"{_growth(now, record, trial)} The accuracy is {accuracy}."


def _growth(now: Record, record: PruningSnapshot, trial: int) -> str:
    if now.values["top"] == 1:
        return "No router moves when l = 1."
    grown, most = int((record.changes(trial) >= threshold(now.values)).sum()), record.run.model.experts
    routers = {0: "no router has", 1: "1 router has"}.get(grown, f"{grown} of {most} routers have")
    return f"Trial {trial + 1}: {routers} grown past 1.5 log l = {threshold(now.values):.2f}{'' if grown else ' yet'}."


def _pruning(record: PruningSnapshot, found: Outcome, name: str) -> str:
    """Returns what was pruned, and with what effect."""
    experts = record.run.model.experts
    if found.left == experts and not found.steps:
        return f"Nothing is pruned: all {experts} experts are left, and the accuracy is {short(middle(found.whole))}."
    how = "at random" if name == NAMES["random"] else f"by {name}"
    text = f"{experts - found.left} of {experts} experts are pruned {how}. The accuracy is "
    text += short(middle(found.plain))
    if found.steps:
        tuned = short(middle(found.tuned))
        text += f", after {found.steps} steps of fine-tuning {tuned} (worst trial {worst(found.tuned)})."
    elif name != NAMES["random"]:
        text += f" (at random {short(middle(found.chance))}, worst trial {worst(found.chance)})."
    else:
        text += f" (worst trial {worst(found.plain)})."
    whole = middle(found.whole)
    if whole < 0.985 or middle(found.plain) > whole + 0.005:
        text += f" Before pruning it was {short(whole)} (worst trial {worst(found.whole)})."
    return text


def _costs(found: Outcome) -> str:
    if found.memory == 1:
        return ""
    memory, work = short(found.memory), short(found.operations)
    return f" Memory and FLOPs fall to {memory}." if memory == work else f" Memory falls to {memory}, FLOPs to {work}."


def _failure(record: PruningSnapshot, choice: PruningChoice, trial: int, name: str) -> str:
    """Returns why pruning failed in the trial on show, where it is known."""
    text, half, gone = "", record.run.model.experts // 2, []
    for side, experts in record.lost(choice, trial):
        *others, last = (str(expert + 1) for expert in experts)
        numbers = f"{', '.join(others)} and {last}" if others else last
        who = f"expert {numbers}, which alone carries" if len(experts) == 1 else f"experts {numbers}, which carry"
        gone.append(f"{who} {theme.CLASS_NAMES[side]}")
    if gone:
        text = f" In trial {trial + 1} {name} removed {', and '.join(gone)}."
    carriers = record.carriers(trial)
    for side, mine in enumerate((carriers[:half], carriers[half:])):
        if not mine.any():
            vote, pattern = theme.CLASS_SIGNS[side], theme.CLASS_NAMES[side]
            text += f" In trial {trial + 1} no expert that votes {vote} carries {pattern}, against the assumption."
    return text


# ---- the Lab ----


def _axis(values: Mapping[str, Any]) -> str:
    return f"Δ = ‖router after‖ − ‖before‖; dashed: 1.5 log l = {threshold(values):.2f}; o₁, o₂: pattern carried"


def _trials(values: Mapping[str, Any]) -> str:
    several = f"median of {values['trials']} trials; bars: their range" if values["trials"] > 1 else "the one trial"
    return f"{several}; pale: others"


PruningLab = lab(
    "Expert pruning",
    of.train,
    name="PruningLab",
    knobs=KNOBS,
    panels=(
        Panel("Which routers moved", draw_routers, furnish_routers, _axis, width=546, margins=(52, 8, 86, 28)),
        Panel(
            "Accuracy after pruning",
            draw_accuracy,
            furnish_accuracy,
            _trials,
            width=392,
            margins=(52, 152, 94, 48),
            pin=pin_accuracy,
        ),
        Panel("What is left", draw_left, furnish_left, width=162, margins=(20, 12, 60, 50)),
    ),
    caption=caption,
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    check=check,
    check_view=check_view,
    more=of.more,
    compares=False,  # a record holds the trained layer
    work=lambda values: of.run_of(values).numbers_per_step,
    progress=progress,
    trouble=trouble,
    code=of.code,
    data=of.data,
)
