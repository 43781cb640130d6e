"""All that a page has of a Lab, as one JSON document: recordings for every choice, knobs, stories and words."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from moe_lab.core.errors import InputError
from moe_lab.core.graphs import without_collection
from moe_lab.registry import PAGES
from moe_lab_widgets.engine.board import SEED_TIP
from moe_lab_widgets.engine.declaration import MOST_NAMED
from moe_lab_widgets.live.cache import cached
from moe_lab_widgets.live.declare import Fills, LivePage
from moe_lab_widgets.live.pictures import goals_in_page, recorded_map
from moe_lab_widgets.live.recording import recorded, recorded_training
from moe_lab_widgets.live.template import Fitted, Packer, in_json, template
from moe_lab_widgets.live.tidying import of_choices
from moe_lab_widgets.playground.declared import complete, defaults_of, kind_of, knob_of, opening, rules_of
from moe_lab_widgets.playground.texts import BOTH

PACKAGE = "moe_lab_widgets"


@cache
def document(kind: Any) -> str:
    """Returns the JSON document of a Lab. That of a Lab of the library is kept on the disk.

    Raises:
      ValueError: the Lab has no page.
      NotRecordedError: something cannot be repeated by a page.
    """
    page = page_of(kind)

    def made() -> str:
        variants = page.variants
        return document_of(page, variants, recordings_of(kind, page, variants), about_of(kind, page))

    own = not kind.__module__.startswith(f"{PACKAGE}.")
    return made() if own else cached(kind.__name__, made)


@without_collection()
def document_of(
    page: LivePage, whens: Sequence[Mapping[str, Any]], recordings: Sequence[Any], about: Mapping[str, Any]
) -> str:
    """Returns recordings of some variants, and what there is about a Lab, as the JSON document that a page reads."""
    packer = Packer()
    variants = [
        {"when": when, **{name: packer.packed(part) for name, part in one.items()}}
        for when, one in zip(whens, recordings, strict=True)
    ]
    derived = {
        name: {"powers": list(one.powers.items()), "most": one.most, "less": one.less}
        for name, one in page.derived.items()
    }
    return in_json({"lab": about, "derived": derived, "variants": variants, **packer.lists})


def of_runs() -> list[str]:
    """Returns the Labs whose page trains their runs; the others fill a map."""
    return [name for name in PAGES if page_of(kind_of(name)).fills is None]


def page_of(kind: Any) -> LivePage:
    """Returns how a Lab is recorded.

    Raises:
      ValueError: it is not.
    """
    page: LivePage | None = kind.declaration.page
    if page is None:
        raise InputError(
            f"a Lab must be made of marks, and say how it is recorded, to have a page: got {kind.__name__}"
        )
    return page


def recordings_of(kind: Any, page: LivePage, whens: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Records a Lab for some of its variants, those together in which the same knobs may move.

    Returns:
      for each variant {"recorded": a run, or a training of a map; "picture": that of a map}.
    """
    together: dict[str, list[int]] = {}
    for number, when in enumerate(whens):
        together.setdefault(repr((page.still(when), page.moving(when))), []).append(number)
    made: dict[int, Any] = {}
    for numbers in together.values():
        recordings = _recorded_together(kind, page, [whens[number] for number in numbers])
        made.update(zip(numbers, recordings, strict=True))
        gc.collect()  # captured steps and their learners hold one another
    return [made[number] for number in range(len(whens))]


@without_collection()  # it would go through all that was recorded, again and again, and find nothing
def _recorded_together(kind: Any, page: LivePage, whens: Sequence[Mapping[str, Any]]) -> list[Any]:
    still = page.still(whens[0])
    fixed = {**defaults_of(kind), **page.fixed, **still}
    choices = [{name: one for name, one in when.items() if not isinstance(one, tuple)} for when in whens]
    no_sizes = (page.length, *page.looks)
    knobs = [Fitted(name, values, name not in no_sizes) for name, values in page.moving(whens[0]).items()]
    if page.fills is not None:
        return [_of_map(kind, page.fills, knobs, fixed, choice) for choice in choices]
    views = {knob.name: knob.choices for knob in kind.knobs if chooses_picture(knob, page)}

    def at(values: Mapping[str, Any]) -> Any:
        own = dict(values)
        for name, size in page.derived.items():
            own |= size.knob_for(own.pop(name), own)
        return recorded(kind, own, views, choices)

    return [{"recorded": one} for one in of_choices(template(at, knobs, fixed))]


def chooses_picture(knob: Any, page: LivePage) -> bool:
    """Returns whether a picture is recorded for each choice of a knob."""
    return knob.view_only and knob.name not in page.looks and knob.name not in page.fixed


def _of_map(
    kind: Any, fills: Fills, knobs: Sequence[Fitted], fixed: Mapping[str, Any], choice: Mapping[str, Any]
) -> Any:
    """Records a training of a map, and the map's picture."""
    start = {**fills.own, **fixed, **choice}
    (training,) = of_choices(template(lambda values: recorded_training(fills, values), knobs, start))
    of_knobs = tuple((name, value) for name, value in choice.items() if name not in (*fills.own, fills.maps[0]))
    return {"recorded": training, "picture": _picture(kind, of_knobs)}


@cache
def _picture(kind: Any, choice: tuple[tuple[str, Any], ...]) -> Any:
    """Records a map's picture, which is the same for all values of numbers."""
    page = page_of(kind)
    assert page.fills is not None
    sizes = [Fitted(name, values) for name, values in page.fills.numbers.items()]
    fixed = {**defaults_of(kind), **page.fixed, **dict(choice)}
    (picture,) = of_choices(template(lambda values: recorded_map(kind, values), sizes, fixed))
    return picture


def about_of(kind: Any, page: LivePage) -> dict[str, Any]:
    """Returns what a page shows of a Lab besides its pictures."""
    declaration = kind.declaration
    knobs = [knob for knob in kind.knobs if knob.name not in page.fixed]
    offered: dict[str, list[Any]] = {}
    for when in page.variants:
        for name, choice in when.items():
            if not isinstance(choice, tuple) and choice not in offered.setdefault(name, []):
                offered[name].append(choice)
    told = [
        {**knob_of(knob, kind.knobs), "view": chooses_picture(knob, page), "looks": knob.name in page.looks}
        for knob in knobs
    ]
    for one in told:
        if offered.get(one["name"]):
            one["choices"] = offered[one["name"]]
    stories = [
        {"name": story.name, "values": values, "see": story.what_to_see}
        for story in kind.stories
        if page.has(values := opening(kind, story.values))
    ]
    sources = next((knob.choices for knob in kind.knobs if knob.name == "source"), ())
    asked, runs = declaration.question, {} if declaration.runs is None else declaration.runs(defaults_of(kind))
    return {
        "name": kind.__name__,
        "title": kind.title,
        "knobs": told,
        "fixed": dict(page.fixed),
        "defaults": {source: complete(kind, {"source": source}) for source in sources} or {"": defaults_of(kind)},
        "question": None if asked is None else asked.plain(),
        "words": dict(BOTH),
        "rules": rules_of(kind, page.restricted),
        "goals": [_goal(kind, goal) for goal in goals_in_page(kind)],
        "stories": stories,
        "panels": [_panel(panel) for panel in declaration.panels],
        "records": declaration.records,
        "length": page.length,
        "unit": "" if page.fills is None else "trainings",
        "most_named": MOST_NAMED,
        "missing": list(page.missing),
        "tip_seed": SEED_TIP,
        "diverged": {name: declaration.diverged(name, "{trials}") if callable(declaration.diverged)
                     else declaration.diverged.replace("{name}", name) for name in runs},
    }  # fmt: skip


def _goal(kind: Any, goal: Any) -> dict[str, Any]:
    """Returns what a page is told of a goal."""
    why = goal.why
    return {
        "name": goal.asks,
        "values": opening(kind, goal.start),
        "keeps": list(goal.keeps),
        "asks": why.asks,
        "answers": [{"words": one, "said": why.answers[one], "right": one == why.right} for one in why.offered],
        "seen": goal.seen,
    }


def _panel(panel: Any) -> dict[str, Any]:
    names = ("title", "width", "margins", "above", "columns", "gap")
    return {**{name: getattr(panel, name) for name in names}, "rows": list(panel.heights)}
