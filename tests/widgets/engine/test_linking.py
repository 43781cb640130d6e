"""Links: the line of code makes the same Lab, and the address holds every value."""

from __future__ import annotations

import dataclasses
import html
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlparse

import pytest

import moe_lab_widgets
from moe_lab.patch_routing import JointMoE
from moe_lab.registry import LABS, PAGES
from moe_lab_widgets.engine import linking
from moe_lab_widgets.engine.board import KnobBoard
from moe_lab_widgets.engine.callbacks import OwnMoves
from tests.widgets.engine.tiny import TinyLab


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_the_code_needs_only_what_differs_and_makes_every_story_again(lab) -> None:
    kind = getattr(moe_lab_widgets, lab.name)
    for given in ({}, *(story.values for story in kind.stories)):
        board = KnobBoard(lab.name, kind.knobs, given, OwnMoves())
        needed = board.needed(board.values)
        assert KnobBoard(lab.name, kind.knobs, needed, OwnMoves()).values == board.values
        follow = {knob.name for knob in kind.knobs if knob.follows}
        assert all(name in follow or needed[name] != board.defaults[name] for name in needed)


def test_a_link_is_code_and_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = TinyLab(gap=3.5, epochs=20, seed=4, playing=False)
    try:
        own = lab.link()
        assert repr(own) == own.code == "# TinyLab is the Lab in your notebook\nTinyLab(gap=3.5, epochs=20, seed=4)"
        monkeypatch.setattr(TinyLab, "__module__", "moe_lab_widgets.labs.tiny")
        tiny = dataclasses.replace(LABS[0], name="TinyLab", notebook="00", page="")
        monkeypatch.setattr(linking, "LABS", (*LABS, tiny))
        link = lab.link("https://example.org/course/")
        assert link.code == "from moe_lab_widgets import TinyLab\nTinyLab(gap=3.5, epochs=20, seed=4)"
        assert link.address == "https://example.org/course/00_start_here.html"
        assert "the notebook of this Lab</a>" in link._repr_html_() and repr(link).endswith(link.address)
        assert lab.link().address == f"{linking.own_site()}/00_start_here.html"
    finally:
        lab.close()
    names = {"Project-URL": ["Other, https://x.org", "Source, https://github.com/moe-lab/moe_lab"]}
    monkeypatch.setattr(linking, "metadata", lambda name: type("Found", (), {"get_all": staticmethod(names.get)}))
    assert linking.own_site() == "https://moe-lab.github.io/moe_lab"


@pytest.mark.parametrize("name", PAGES)
def test_the_link_of_a_lab_with_a_page_opens_its_own_run(name: str) -> None:
    lab = getattr(moe_lab_widgets, name)(trials=3, seed=4, playing=False)
    try:
        link = lab.link("https://example.org/course/")
        parts = urlparse(link.address)
        assert parts.path == f"/course/{PAGES[name]}" and link.lacks == ""
        wanted = {"lab": name, **{one: str(value) for one, value in lab.values.items() if one != "device"}}
        assert dict(parse_qsl(parts.fragment)) == wanted and wanted["trials"] == "3"
        assert "this run, live in the browser</a>" in link._repr_html_() and repr(link).endswith(link.address)
    finally:
        lab.close()


def test_the_link_of_a_lab_without_a_page_opens_its_notebook() -> None:
    lab = moe_lab_widgets.ModelPruningLab(playing=False)
    try:
        assert lab.link("https://example.org/course").address == "https://example.org/course/09_prune_a_model.html"
    finally:
        lab.close()


def test_a_link_says_what_the_page_lacks(shared_data: Path) -> None:
    cases: list[tuple[dict[str, Any], str, dict[str, str]]] = [
        ({"mnist": shared_data / "mnist-t10k"}, "MNIST's images are not in this page.", {"source": "mnist"}),
        ({"mixture": JointMoE()}, "This page has no mixture of your own.", {"source": "digits", "own": "mixture"}),
    ]
    for given, sentence, said in cases:
        lab = moe_lab_widgets.RouterAlignmentLab(**given, playing=False)
        try:
            link = lab.link()
            fragment = dict(parse_qsl(urlparse(link.address).fragment))
            assert said.items() <= fragment.items() and "mnist-t10k" not in link.address
            assert sentence in link.lacks and repr(link).endswith(link.lacks)
            assert html.escape(sentence) in link._repr_html_()
        finally:
            lab.close()
