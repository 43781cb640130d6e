"""Links: the line of code makes the same Lab, and the address holds every value."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlparse

import pytest

import moe_lab_widgets
from moe_lab.registry import LABS
from moe_lab_widgets.engine import linking
from moe_lab_widgets.engine.callbacks import OwnMoves
from moe_lab_widgets.engine.knobs import KnobBoard
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
        link = lab.link("https://example.org/course/")
        assert link.code == "from moe_lab_widgets import TinyLab\nTinyLab(gap=3.5, epochs=20, seed=4)"
        parts = urlparse(link.address)
        assert parts.path == "/course/labs.html"
        wanted = {"lab": "TinyLab", **{name: str(value) for name, value in lab.values.items() if name != "device"}}
        assert dict(parse_qsl(parts.fragment)) == wanted
        assert link.address.replace("&", "&amp;") in link._repr_html_() and repr(link).endswith(link.address)
        assert lab.link().address.startswith((f"{linking.own_site()}/labs.html#lab=TinyLab&",))
    finally:
        lab.close()
    names = {"Project-URL": ["Other, https://x.org", "Source, https://github.com/moe-lab/moe_lab"]}
    monkeypatch.setattr(linking, "metadata", lambda name: type("Found", (), {"get_all": staticmethod(names.get)}))
    assert linking.own_site() == "https://moe-lab.github.io/moe_lab"
