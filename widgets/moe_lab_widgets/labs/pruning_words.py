"""What the pruning Lab says: its sentence, its notes, and what went wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.core.saliency import ALIKE, UNMOVED
from moe_lab.drawing import theme
from moe_lab.drawing.marks import middle, picked
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.mark_words import median_of, named, short
from moe_lab_widgets.labs import pruning_seen as seen
from moe_lab_widgets.labs.pruning_names import LABELS, MEANINGS
from moe_lab_widgets.labs.pruning_record import BRANCHES
from moe_lab_widgets.labs.pruning_seen import CRITERIA, RANDOM, Outcome

TOKEN_COUNT = CRITERIA.index("token-count")


def name_of(values: MarkValues) -> Words:
    """Returns the name of the criterion on show."""
    return named(seen.chosen(values), LABELS)


def meaning_of(values: MarkValues) -> Words:
    """Returns what the criterion on show measures."""
    return named(seen.chosen(values), MEANINGS)


def undefined(values: MarkValues, begin: tuple[str, str] = ("experts", "no router")) -> Words:
    """Returns in a few words why the criterion on show gives all experts the same score."""
    alike, unmoved = begin
    return either(
        seen.chosen(values) == TOKEN_COUNT,
        say(f"{alike} receive equally many tokens"),
        say(f"{unmoved} has moved"),
    )


def trouble(now: MarkRecord) -> Words:
    """Returns why the criterion on show is undefined, with what to choose instead."""
    where = (picked(now.last("undefined"), seen.chosen(now.values), 1) == 1).sum()
    trials = now.values.number("trials")
    counted = say(" in {:.0f} of {:.0f} trials", where, trials, when=trials > 1, instead=say(" in the one trial"))
    alike = seen.chosen(now.values) == TOKEN_COUNT
    sentence = either(alike, say(_capital(ALIKE)), say(_capital(UNMOVED))) + counted
    return say("", when=where == 0, instead=sentence)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


# ---- the sentence ----


def caption(now: MarkRecord) -> Words:
    found = seen.outcome(now)
    unordered = undefined(now.values, ("Experts", "No router")) + say(", so ")
    unordered += name_of(now.values) + say(" cannot order the experts.")
    pruned = _pruning(now, found) + either(_failed(now), _failure(now), _costs(found))
    after = either(seen.is_undefined(now), unordered, pruned)
    return either(seen.is_pruned(now), after, _training(now))


def _training(now: MarkRecord) -> Words:
    accuracy = median_of(now, "test_accuracy")
    begun = say("This is the checkpoint, whose routers have not moved. Its accuracy is ") + short(accuracy) + say(".")
    later = _growth(now) + say(" The accuracy is ") + short(accuracy) + say(".")
    words = either(now.first, begun, later)
    if now.values["start"] != BRANCHES:
        return words
    pre = say("Branches are pre-trained, each on a task of its own, and then put side by side.")
    return either(accuracy.isnan(), pre, words)


def _growth(now: MarkRecord) -> Words:
    bound, experts = seen.threshold(now.values), now.values.number("experts")
    trial = seen.trial(now)
    grown = (picked(now.last("norm_change"), trial).nan_to_num() >= bound).sum()
    several = say("{:.0f} of {:.0f} routers have", grown, experts)
    routers = say("no router has", when=grown == 0, instead=say("1 router has", when=grown == 1, instead=several))
    words = say("Trial {:.0f}: ", trial + 1) + routers + say(" grown past 1.5 log l = {:.2f}", bound)
    words += say(" yet.", when=grown == 0, instead=say("."))
    return either(now.values.number("top") == 1, say("No router moves when l = 1."), words)


def _pruning(now: MarkRecord, found: Outcome) -> Words:
    """Returns what was pruned, and with what effect."""
    experts, whole, plain = now.values.number("experts"), middle(found.whole), middle(found.plain)
    random = seen.chosen(now.values) == RANDOM
    none = _share("Nothing is pruned: all {:.0f} experts are left, and the accuracy is ", whole, ".", experts)
    how = either(random, say("at random"), say("by ") + name_of(now.values))
    text = say("{:.0f} of {:.0f} experts are pruned ", experts - found.left, experts) + how
    text += _share(". The accuracy is ", plain, "")
    tuned = _share(", after {:.0f} steps of fine-tuning ", middle(found.tuned), "", found.steps)
    tuned += _share(" (worst trial ", least(found.tuned), ").")
    beside = _share(" (at random ", middle(found.chance), "") + _share(", worst trial ", least(found.chance), ").")
    alone = _share(" (worst trial ", least(found.plain), ").")
    text += either(found.steps > 0, tuned, either(random, alone, beside))
    before = _share(" Before pruning it was ", whole, "") + _share(" (worst trial ", least(found.whole), ").")
    text += either((whole < 0.985) | (plain > whole + 0.005), before, NOTHING)
    return either((found.left == experts) & (found.steps == 0), none, text)


def _share(before: str, share: Tensor, after: str, *numbers: Tensor) -> Words:
    """Returns a share between words, the first of which may have numbers in them."""
    return say(before, *numbers) + short(share) + say(after)


def least(values: Tensor) -> Tensor:
    """Returns the lowest value of the trials that have not diverged; NaN where none is left."""
    low = torch.where(values.isfinite(), values, torch.inf).amin()
    return torch.where(low.isfinite(), low, torch.nan)


def _costs(found: Outcome) -> Words:
    memory, work = short(found.memory), short(found.operations)
    apart = say(" Memory falls to ") + memory + say(", FLOPs to ") + work + say(".")
    alike = say(" Memory and FLOPs fall to ") + memory + say(".")
    words = either((found.memory - found.operations).abs() < 5e-3, alike, apart)
    return either(found.memory == 1, NOTHING, words)


def _failed(now: MarkRecord) -> Tensor:
    """Returns whether a class has no carrier in the trial on show, or none that stays."""
    trial = seen.trial(now)
    lost, carriers = (picked(one(now).to(torch.float64), trial) > 0 for one in (seen.lost, seen.carriers))
    return lost.any() | ~seen.by_class(carriers).any(-1).all()


def _failure(now: MarkRecord) -> Words:
    """Returns why pruning failed in the trial on show, where it is known."""
    trial = seen.trial(now)
    gone = seen.by_class(picked(seen.lost(now).to(torch.float64), trial) > 0)  # (2, k/2)
    one, other = (gone[side].any() for side in (0, 1))
    words = say(" In trial {:.0f} ", trial + 1) + name_of(now.values) + say(" removed ") + _removed(gone, 0)
    words += say(", and ", when=one & other) + _removed(gone, 1) + say(".")
    words = either(one | other, words, NOTHING)
    carriers = seen.by_class(picked(seen.carriers(now).to(torch.float64), trial) > 0)
    for side in (0, 1):
        vote, pattern = theme.CLASS_SIGNS[side], theme.CLASS_NAMES[side]
        none = f" In trial {{:.0f}} no expert that votes {vote} carries {pattern}, against the assumption."
        words += say(none, trial + 1, when=~carriers[side].any())
    return words


def _removed(gone: Tensor, side: int) -> Words:
    """Returns the experts of a class that were the last ones to carry its pattern."""
    mine = torch.cat([gone[part] if part == side else torch.zeros_like(gone[part]) for part in (0, 1)])
    count, pattern = mine.sum(), theme.CLASS_NAMES[side]
    several = say(f"experts {{:names}}, which carry {pattern}", mine)
    single = say(f"expert {{:names}}, which alone carries {pattern}", mine)
    return either(count == 0, NOTHING, either(count == 1, single, several))


# ---- notes ----


def axis_note(values: MarkValues) -> Words:
    bound = seen.threshold(values)
    return say("Δ = ‖router after‖ − ‖before‖; dashed: 1.5 log l = {:.2f}; o₁, o₂: pattern carried", bound)


def trials_note(values: MarkValues) -> Words:
    trials = values.number("trials")
    several = say("median of {:,.0f} trials; bars: their range", trials, when=trials > 1, instead=say("the one trial"))
    return several + say("; pale: others")


def trial_note(now: MarkRecord) -> Words:
    """Returns which trial is on show, and how pruned experts look."""
    trials = now.values.number("trials")
    which = say("trial {:.0f} of {:,.0f}", seen.trial(now) + 1, trials, when=trials > 1, instead=say("the one trial"))
    return which + say("; thin: pruned", when=seen.is_ranked(now))


def tuning_note(now: MarkRecord, steps: Tensor) -> Words:
    """Returns how far what is left has been fine-tuned."""
    if not now.values["fine_tune"]:
        return say("no fine-tuning after pruning")
    coupled = now.values["routing"] != "expert-choice" or now.values["loss"] == "hinge"
    whose = "chosen line" if coupled else "all lines"
    tuned = say(f"{whose} fine-tuned {{:.0f}} steps; dotted: without", steps)
    return either(steps == 0, say("fine-tuning what is left ..."), tuned)
