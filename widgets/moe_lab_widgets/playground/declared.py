"""What pages read of Labs and of the theme: knobs, the rules on values that fit together, and colours (`declared.js`).

Nothing is written twice: knobs are the Labs', colours are the theme's, and the rules come from asking the Labs' own
checks. A rule is `{knob, by, when, words, most, among, said}`. It holds where all of `when` do: `{knob, is: [...]}` or
`{knob, not: [...]}`. KEY is the value of the knob `by[0]`, as JavaScript's String writes it. The value of `knob` may be
at most `most[KEY]`, or must be among `among[KEY]`; without such a KEY every value fits. `words` is the Lab's sentence,
in which `said[KEY]` stands for {most}.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moe_lab import registry
from moe_lab.drawing import theme
from moe_lab_widgets.engine.board import KnobBoard
from moe_lab_widgets.engine.callbacks import OwnMoves
from moe_lab_widgets.engine.knobs import LabKnob, readout_format

SHAPES = {"o": "circle", "s": "square", "^": "up", "D": "diamond", "v": "down", "p": "5", "h": "6", "8": "8"}
"""What a page calls the theme's markers; a number is that of the corners."""
Values = Mapping[str, Any]


def module(links: Sequence[Mapping[str, str]] = ()) -> str:
    """Returns `declared.js`.

    Args:
      links: `words` and `address` of other pages that a page leads to.
    """
    told = {"theme": colours(), "links": [dict(link) for link in links]}
    return f"export const DECLARED = {json.dumps(told, ensure_ascii=False, separators=(',', ':'))};\n"


def kind_of(name: str) -> Any:
    """Returns the class of a Lab of the registry."""
    module = next(lab.module for lab in registry.LABS if lab.name == name)
    return getattr(importlib.import_module(f"moe_lab_widgets.{module}"), name)


# ---- knobs and values ----


def knob_of(knob: LabKnob, knobs: Sequence[LabKnob]) -> dict[str, Any]:
    """Returns the data of a knob that a page shows."""
    free = replace(knob, reason="")  # which says how a notebook gets what no page has
    about = {
        "name": knob.name,
        "symbol": knob.symbol,
        "title": knob.title,
        "meaning": knob.meaning,
        "label": knob.label,
        "main": knob.main,
        "whole": knob.whole,
        "when": _when(knob, knobs),
        "tip": free.tip(),
        "tip_off": free.tip(enabled=False),
    }
    if knob.choices:
        names = {choice: knob.words.get(choice, str(choice)) for choice in knob.choices}
        return {**about, "choices": knob.choices, "names": names}
    assert knob.slider is not None
    low, high, step = knob.slider
    digits = 0 if knob.whole else int(readout_format(step).strip(".f"))
    return {**about, "low": low, "high": high, "step": step, "digits": digits}


def _when(knob: LabKnob, knobs: Sequence[LabKnob]) -> dict[str, Any] | None:
    """Returns of which values of another knob a knob needs one, None where it always applies."""
    if knob.enabled_when is None:
        return None
    defaults = {one.name: one.default for one in knobs}
    for other in knobs:
        every = offered(other)
        applies = [value for value in every if knob.enabled_when({**defaults, other.name: value})]
        if applies and len(applies) < len(every):
            return {"knob": other.name, "is": applies}
    raise ValueError(f"a knob of the playground must depend on the values of one other knob: got {knob.name}")


def offered(knob: LabKnob) -> list[Any]:
    """Returns the values that a knob's widget offers."""
    if knob.choices:
        return list(knob.choices)
    if knob.slider is None:
        return [False, True]
    low, high, step = knob.slider
    values = [round(low + place * step, 9) for place in range(round((high - low) / step) + 1)]
    return [int(value) for value in values] if knob.whole else values


def complete(kind: Any, values: Values) -> dict[str, Any]:
    """Returns the value of every knob, and the seed: those left out take their defaults, or follow the others."""
    return KnobBoard(kind.__name__, kind.knobs, values, OwnMoves()).values


def opening(kind: Any, values: Values) -> dict[str, Any]:
    """Returns the values with which a goal or a story begins: those left out are the defaults, whatever they follow."""
    return complete(kind, {**defaults_of(kind), **values})


def defaults_of(kind: Any) -> dict[str, Any]:
    """Returns the default of every knob, and of the seed."""
    return {**{knob.name: knob.default for knob in kind.knobs}, "seed": 0}


# ---- which values fit together ----


@dataclass(frozen=True)
class Pair:
    """Two knobs whose values must fit: which values of `knob` are allowed depends on that of `by`.

    Attributes:
      when: the conditions under which they must.
    """

    knob: str
    by: str
    when: tuple[Mapping[str, Any], ...] = ()


FREE: Values = {
    "source": "synthetic",
    "patches": 32,
    "patches_per_expert": 1,
    "experts": 1,
    "distractors": 1,
    "gap": 0.0,
    "delta_d": -0.9,
    "delta_r": 0.95,
    "important": 0,
}
"""Values under which every pair is free of the other pairs' rules."""


def refusal(kind: Any, values: Values) -> str:
    """Returns the sentence by which a Lab refuses values, empty where they fit."""
    try:
        for check in (kind.declaration.runs, kind.declaration.check):
            if check is not None:
                check(values)
    except ValueError as error:
        return str(error)
    return ""


def rules_of(kind: Any, restricted: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Returns the rules on pairs of knobs, each given as a `Pair`."""
    return [rule for pair in restricted if (rule := rule_of(kind, Pair(*pair))) is not None]


def rule_of(kind: Any, pair: Pair) -> dict[str, Any] | None:
    """Returns the rule on a pair of knobs, as the Lab's check has it; None where the Lab lacks one of the two."""
    knobs = {knob.name: knob for knob in kind.knobs}
    if pair.knob not in knobs or pair.by not in knobs:
        return None
    base = {**defaults_of(kind), **{name: value for name, value in FREE.items() if _offers(knobs.get(name), value)}}
    base |= {one["knob"]: one["is"][0] for one in pair.when if "is" in one and one["knob"] in knobs}
    every = offered(knobs[pair.knob])
    most: dict[str, Any] = {}
    among: dict[str, list[Any]] = {}
    sentences: dict[str, str] = {}
    for by in offered(knobs[pair.by]):
        refused = {value: refusal(kind, {**base, pair.by: by, pair.knob: value}) for value in every}
        fitting = [value for value in every if not refused[value]]
        if len(fitting) == len(every):
            continue
        sentences[key(by)] = next(words for words in reversed(refused.values()) if words).partition(": got ")[0]
        among[key(by)] = fitting
        if fitting == every[: len(fitting)]:
            most[key(by)] = fitting[-1]
    ordered = len(most) == len(among)
    words, said = _told(sentences)
    about = {"knob": pair.knob, "by": [pair.by], "when": list(pair.when), "words": words, "said": said}
    return {**about, "most": most if ordered else None, "among": None if ordered else among}


def _offers(knob: LabKnob | None, value: Any) -> bool:
    """Returns whether a knob's widget offers a value."""
    return knob is not None and (not knob.slider or knob.slider[0] <= value <= knob.slider[1])


def key(value: Any) -> str:
    """Returns a number or a word as JavaScript's String writes it."""
    if isinstance(value, str):
        return value
    return str(int(value)) if float(value).is_integer() else repr(value)


_NUMBER = re.compile(r"(?<=at most )[\d.]+")


def _told(sentences: Mapping[str, str]) -> tuple[str, dict[str, str] | None]:
    """Returns one sentence for all keys, and for each what stands for {most} in it: a number, or all of it."""
    if len(set(sentences.values())) == 1:
        return next(iter(sentences.values())), None
    same = {_NUMBER.sub("{most}", words) for words in sentences.values()}
    if len(same) > 1:
        return "{most}", dict(sentences)
    return same.pop(), {one: _NUMBER.findall(words)[0] for one, words in sentences.items()}


# ---- colours ----


def colours() -> dict[str, Any]:
    """Returns the theme as a page needs it; `ramp` has 256 colours, from 0 to 1."""
    return {
        "paper": theme.PAPER,
        "ink": theme.INK,
        "reference": theme.REFERENCE,
        "failure": theme.FAILURE,
        "found": theme.FOUND,
        "gold": theme.GOLD,
        "muted": theme.MUTED,
        "rule": theme.RULE,
        "background": theme.BACKGROUND,
        "hatched": theme.HATCHED,
        "classes": theme.CLASSES,
        "pale": theme.CLASSES_PALE,
        "tint": theme.CLASSES_TINT,
        "names": theme.CLASS_NAMES,
        "signs": theme.CLASS_SIGNS,
        "experts": [{"colour": one.colour, "shape": SHAPES[one.marker], "on": one.on} for one in theme.EXPERTS],
        "ramp": [_hex(colour) for colour in theme.ramp([place / 255 for place in range(256)])],
    }


def _hex(colour: Iterable[int]) -> str:
    red, green, blue, _ = map(int, colour)
    return f"#{red:02x}{green:02x}{blue:02x}"
