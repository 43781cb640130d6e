"""What the playground's pages read of their Labs: `declared.js`, made of the Labs' declarations and of the theme.

Nothing is written twice: knobs, defaults, stories and captions are the Labs', colours are the theme's, and the rules on
values that fit together come from asking the Labs' own checks. A page reads `DECLARED.labs.NAME`:

    name, title, stories, panels, words    as the Lab has them; `words` also holds what only the page says (texts.py)
    knobs       what a slider or a list of choices needs; `when` says when the knob applies, and is null for always
    defaults    every value, by the source of the data
    rules       which values of a knob fit the others
    tip_seed    the tooltip of the seed

A rule is `{knob, by, when, words, most, among, said}`. It holds where all of `when` do: `{knob, is: [...]}` or
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
from functools import cache
from typing import Any

from moe_lab import registry
from moe_lab.drawing import theme
from moe_lab_widgets.drawing.maps import ENOUGH
from moe_lab_widgets.drawing.trials import SPREAD_WORDS
from moe_lab_widgets.engine.board import SEED_TIP, KnobBoard
from moe_lab_widgets.engine.callbacks import OwnMoves
from moe_lab_widgets.engine.knobs import LabKnob, readout_format
from moe_lab_widgets.engine.mnist import MNIST
from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.playground.texts import BOTH, MAP

PHASES = "PhaseTransitionLab"
SHAPES = {"o": "circle", "s": "square", "^": "up", "D": "diamond", "v": "down", "p": "5", "h": "6", "8": "8"}
"""What a page calls the theme's markers; a number is that of the corners."""
Values = Mapping[str, Any]


def module(labs: Sequence[str] = (PHASES,), links: Sequence[Mapping[str, str]] = ()) -> str:
    """Returns `declared.js`.

    Args:
      labs: whose declarations it holds.
      links: `words` and `address` of other pages that a page leads to.
    """
    return f"export const DECLARED = {json.dumps(declared(labs, links), ensure_ascii=False, separators=(',', ':'))};\n"


def declared(labs: Sequence[str] = (PHASES,), links: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Returns what `declared.js` holds."""
    return {"labs": {name: lab_of(name) for name in labs}, "theme": colours(), "links": [dict(link) for link in links]}


def kind_of(name: str) -> Any:
    """Returns the class of a Lab of the registry."""
    module = next(lab.module for lab in registry.LABS if lab.name == name)
    return getattr(importlib.import_module(f"moe_lab_widgets.{module}"), name)


@cache
def lab_of(name: str) -> dict[str, Any]:
    """Returns the data of a Lab that its page reads."""
    kind = kind_of(name)
    home = importlib.import_module(kind.__module__)
    sources = next(knob.choices for knob in kind.knobs if knob.name == "source")
    return {
        "name": name,
        "title": kind.title,
        "knobs": [knob_of(knob, kind.knobs) for knob in kind.knobs],
        "defaults": {source: complete(kind, {"source": source}) for source in sources},
        "rules": rules_of(kind, kind.declaration.page.restricted),
        "stories": [_story(kind, story) for story in kind.stories],
        "panels": [
            {"title": panel.title, "note": panel.note if isinstance(panel.note, str) else ""}
            for panel in kind.declaration.panels
        ],
        "words": {**home.WORDS, "SPREAD": SPREAD_WORDS, **BOTH, **MAP},
        "tip_seed": SEED_TIP,
        **_of_phases(home),
    }


def _story(kind: Any, story: Story) -> dict[str, Any]:
    values = complete(kind, {**_defaults(kind), **story.values})
    return {"name": story.name, "values": values, "see": story.what_to_see}


def _of_phases(home: Any) -> dict[str, Any]:
    """Returns the numbers of the phase-transition Lab's map."""
    from moe_lab.patch_routing.phase import SUCCESS
    from moe_lab.patch_routing.run import PatchRun

    samples: dict[str, dict[str, Sequence[int]]] = {}
    for (source, training), counts in home.SAMPLES.items():
        if source != MNIST:
            samples.setdefault(source, {})[training] = counts
    record = importlib.import_module(f"{home.__name__}_record")
    numbers = {"first": home.FIRST_TRAININGS, "success": SUCCESS, "enough": ENOUGH, "covered": record.COVERED}
    numbers["passes"] = PatchRun.model_fields["epochs"].default
    return {"map": {"kept": home.KEPT, "samples": samples, **numbers}}


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
    assert knob.slider is not None
    low, high, step = knob.slider
    values = [round(low + place * step, 9) for place in range(round((high - low) / step) + 1)]
    return [int(value) for value in values] if knob.whole else values


def complete(kind: Any, values: Values) -> dict[str, Any]:
    """Returns the value of every knob, and the seed: those left out take their defaults, or follow the others."""
    return KnobBoard(kind.__name__, kind.knobs, values, OwnMoves()).values


def _defaults(kind: Any) -> dict[str, Any]:
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
    base = {**_defaults(kind), **{name: value for name, value in FREE.items() if name in knobs}}
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


def key(value: Any) -> str:
    """Returns a number as JavaScript's String writes it."""
    return str(int(value)) if float(value).is_integer() else repr(value)


_NUMBER = re.compile(r"(?<=at most )[\d.]+")


def _told(sentences: Mapping[str, str]) -> tuple[str, dict[str, str] | None]:
    """Returns one sentence for all keys, and for each what stands for {most} in it, where they differ in a number."""
    different = set(sentences.values())
    if len(different) == 1:
        return different.pop(), None
    said = {one: _NUMBER.findall(words)[0] for one, words in sentences.items()}
    (words,) = {_NUMBER.sub("{most}", words) for words in different}
    return words, said


# ---- colours ----


def colours() -> dict[str, Any]:
    """Returns the theme as a page needs it; `ramp` has 256 colours, from 0 to 1."""
    return {
        "paper": theme.PAPER,
        "ink": theme.INK,
        "reference": theme.REFERENCE,
        "failure": theme.FAILURE,
        "muted": theme.MUTED,
        "rule": theme.RULE,
        "background": theme.BACKGROUND,
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
