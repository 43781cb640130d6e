"""What the playground's pages are told is what the Labs do: values, rules, stories, words and colours."""

from __future__ import annotations

import json
import random
import string
from functools import cache
from typing import Any

import pytest

from moe_lab.drawing import theme
from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.live import documents
from moe_lab_widgets.playground import declared

SETTINGS = 300
DRAWN = random.randrange(10**6)
"""The seed of the settings drawn in this run of the tests."""

lab = pytest.mark.parametrize("lab", ["PhaseTransitionLab", "RouterAlignmentLab"])
"""Those whose pages offer all that their knobs do."""


@cache
def told(name: str) -> dict[str, Any]:
    """Returns what a page is told of a Lab."""
    kind = declared.kind_of(name)
    return documents.about_of(kind, documents.page_of(kind))


def broken(rules: list[dict[str, Any]], values: dict[str, Any]) -> list[str]:
    """The sentences of the rules that values break, as a page reads them."""
    found = []
    for rule in rules:
        applies = all(values[one["knob"]] in one["is"] if "is" in one else values[one["knob"]] not in one["not"]
                      for one in rule["when"])  # fmt: skip
        (by,) = rule["by"]
        value, at = values[rule["knob"]], declared.key(values[by])
        if rule["most"] is not None:
            fits = value <= rule["most"].get(at, value)
        else:
            fits = value in rule["among"].get(at, [value])
        if applies and not fits:
            found.append(rule["words"].replace("{most}", (rule["said"] or {}).get(at, "")))
    return found


def drawn(kind: Any, source: random.Random) -> dict[str, Any]:
    """Values that the sliders offer: some at their defaults, so that a fair share of settings fits."""
    start = source.choice(list(told(kind.__name__)["defaults"].values()))
    move = source.choice((0.2, 0.5, 1.0))
    moved = {knob.name: source.choice(declared.offered(knob)) for knob in kind.knobs if source.random() < move}
    return {**start, **moved}


@lab
def test_rules_hold_exactly_where_the_labs_check_does(lab: str) -> None:
    kind, rules, source = declared.kind_of(lab), told(lab)["rules"], random.Random(DRAWN)
    fitting = 0
    for _ in range(SETTINGS):
        values = drawn(kind, source)
        refused, found = declared.refusal(kind, values), broken(rules, values)
        assert bool(refused) == bool(found), (DRAWN, values, refused, found)
        fitting += not refused
        if len(found) == 1:
            assert refused.startswith(f"{found[0]}: got "), (DRAWN, values)
    assert SETTINGS / 10 < fitting < 0.95 * SETTINGS, "the settings do not try the rules"


@lab
def test_defaults_follow_the_source_and_stories_are_whole(lab: str) -> None:
    kind, made = declared.kind_of(lab), told(lab)
    names = {*(knob.name for knob in kind.knobs), "seed"}
    assert list(made["defaults"]) == [choice for knob in kind.knobs if knob.name == "source" for choice in knob.choices]
    for source, values in made["defaults"].items():
        assert values.keys() == names and values["source"] == source and not declared.refusal(kind, values)
        for knob in kind.knobs:
            assert knob.follows is None or values[knob.name] == knob.follows(values)
    stories: list[Story] = list(kind.stories)
    assert [story["name"] for story in made["stories"]] == [story.name for story in stories]
    for story, own in zip(made["stories"], stories, strict=True):
        assert story["values"].keys() == names and story["see"] == own.what_to_see
        assert own.values.items() <= story["values"].items() and not broken(made["rules"], story["values"])


@lab
def test_knobs_are_as_the_lab_shows_them(lab: str) -> None:
    made = {knob["name"]: knob for knob in told(lab)["knobs"]}
    for knob in declared.kind_of(lab).knobs:
        shown = made[knob.name]
        assert shown["label"] == knob.label and shown["main"] == knob.main and shown["title"] == knob.title
        assert "mnist" not in shown["tip"], "a page cannot do what the sentence says"
        assert ("Greyed out" in shown["tip_off"]) == (knob.enabled_when is not None) == (shown["when"] is not None)
        if knob.choices:
            assert list(shown["choices"]) == list(knob.choices) and set(shown["names"]) == set(knob.choices)
        else:
            assert (shown["low"], shown["high"], shown["step"]) == knob.slider
            assert all(round(value, shown["digits"]) == value for value in declared.offered(knob))


@lab
def test_a_knob_applies_where_the_lab_says(lab: str) -> None:
    made, source = told(lab), random.Random(DRAWN)
    for _ in range(50):
        values = drawn(declared.kind_of(lab), source)
        for knob, shown in zip(declared.kind_of(lab).knobs, made["knobs"], strict=True):
            when = shown["when"]
            applies = when is None or values[when["knob"]] in when["is"]
            assert applies == (knob.enabled_when is None or knob.enabled_when(values)), (DRAWN, knob.name)


@lab
def test_words_are_templates_with_named_fields(lab: str) -> None:
    words = told(lab)["words"]
    assert words["LACKS_MNIST"] and words["FAILED"]
    for name, template in words.items():
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
        assert name.isupper() and all(field.isidentifier() for field in fields), name


def test_colours_are_the_themes() -> None:
    colours = declared.colours()
    assert colours["paper"] == theme.PAPER and len(colours["ramp"]) == 256
    assert colours["ramp"][0].upper() == theme.PAPER and colours["ramp"][-1] == "#062b2e"
    assert [one["shape"] for one in colours["experts"]] == ["circle", "square", "up", "diamond", "down", "5", "6", "8"]


def test_the_module_holds_it_all_as_json() -> None:
    made = declared.module(links=[{"words": "w", "address": "a"}])
    head, _, rest = made.partition("export const DECLARED = ")
    whole = json.loads(rest.rstrip().removesuffix(";"))
    assert not head and whole["links"][0]["address"] == "a" and whole["theme"]["paper"] == theme.PAPER
