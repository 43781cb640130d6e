"""A control that a text names as `<kbd>label</kbd>` is on a Lab of that notebook, and the text says where it hides."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterator

import ipywidgets as w
import pytest

import moe_lab_widgets
from moe_lab.exercises.routing import TABLE
from moe_lab.registry import LABS, NOTEBOOKS
from moe_lab_widgets import RoutingTable
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.engine.controls import Controls
from moe_lab_widgets.engine.device import offered
from moe_lab_widgets.frames.module import module_source
from moe_lab_widgets.frames.screen import Screen
from tests.notebooks.test_guide import SECTIONS, TEXT
from tests.notebooks.test_notebooks import ROOT, cells

MORE = "<kbd>More settings</kbd>"


def shown(widget: w.Widget) -> Iterator[str]:
    """The labels of a widget and of all in it, without what is not displayed."""
    if getattr(widget.layout, "display", None) == "none":
        return
    if getattr(widget, "description", ""):
        yield widget.description
    for child in getattr(widget, "children", ()):
        yield from shown(child)


@functools.cache
def labels(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The labels of a Lab's controls, and those among them that stand under More settings; nothing trains."""
    kind = getattr(moe_lab_widgets, name)
    knobs = offered(kind.__new__(kind))
    values = {"seed": 0, **{knob.name: knob.default for knob in knobs}}
    picture = Picture(())
    screen = Screen(picture)
    controls = Controls(w.VBox(), kind.title, knobs, values, kind.declaration.goals, kind.stories, screen.box)
    found = set(shown(controls.box))
    controls.show_playing(False)
    found |= set(shown(controls.box))
    controls.more.value = True
    every = frozenset(shown(controls.box))
    controls.close()
    screen.close()
    picture.close()
    return frozenset(found) | every, every - found


@functools.cache
def of_the_table() -> frozenset[str]:
    """The labels of notebook 01's table."""
    table = RoutingTable(TABLE.T)
    found = frozenset(shown(table.box))
    table.close()
    return found


def of_the_player() -> set[str]:
    """The button of a recorded run, from the page's module."""
    return set(re.findall(r'PLAY = "(.+?)"', module_source()))


def lost(text: str, known: set[str], hidden: set[str]) -> list[str]:
    """The labels that no control bears, and those of hidden controls whose paragraph does not say where they are."""
    wrong = []
    for paragraph in re.split(r"\n\s*\n", text):
        for label in re.findall(r"<kbd>(.+?)</kbd>", paragraph, flags=re.S):
            plain = re.sub(r"\\([*_])", r"\1", html.unescape(" ".join(label.split())))
            if plain not in known or (plain in hidden and MORE not in paragraph):
                wrong.append(plain)
    return wrong


def controls_of(number: str) -> tuple[set[str], set[str]]:
    """The labels that a notebook's text may name: of its Labs, its table and its moving pictures."""
    (notebook,) = (one for one in NOTEBOOKS if one.number == number)
    code = "\n".join(cells(ROOT / "notebooks" / f"{notebook.stem}.py", "code"))
    known, hidden = set(), set()
    for name in {lab.name for lab in LABS}.intersection(re.findall(r"\b(\w+Lab)\(", code)):
        known |= labels(name)[0]
        hidden |= labels(name)[1]
    if "RoutingTable(" in code:
        known |= of_the_table()
    if known or re.search(r"\bplay\(", code):
        known |= of_the_player()
    return known, hidden


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_controls_that_a_notebook_or_its_section_of_the_guide_names_are_there(notebook):
    known, hidden = controls_of(notebook.number)
    text = "\n\n".join(cells(ROOT / "notebooks" / f"{notebook.stem}.py", "markdown"))
    assert lost(text, known, hidden) == []
    assert lost(SECTIONS[notebook.number], known, hidden) == []


def test_controls_that_the_rest_of_the_guide_names_are_on_some_lab():
    every = [controls_of(notebook.number) for notebook in NOTEBOOKS]
    rest = TEXT.partition(f"## {NOTEBOOKS[0].number} · ")[0]
    assert lost(rest, set().union(*(known for known, _ in every)), set()) == []


def test_the_labels_are_those_of_the_knobs_and_of_every_button():
    for lab in LABS:
        known, hidden = labels(lab.name)
        knobs = getattr(moe_lab_widgets, lab.name).knobs
        assert {knob.label for knob in knobs} <= known
        if main := {knob.label for knob in knobs if knob.main}:
            assert hidden == {knob.label for knob in knobs} - main | {"computes on"}
        assert {"Play", "Pause", "Step", "Reset", "Pin", "seed", "speed", "Copy as code"} <= known - hidden
    assert of_the_player() == {"▶ Play"}


def test_a_lost_or_hidden_control_would_be_found():
    text = f"<kbd>a</kbd> and <kbd>gone</kbd>\n\n<kbd>b\\*</kbd>\n\n<kbd>b*</kbd> (under {MORE})"
    assert lost(text, {"a", "b*", "More settings"}, {"b*"}) == ["gone", "b*"]
