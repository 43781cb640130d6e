"""The glossary has every knob with a symbol, each meaning apart, and nothing that is typed twice."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import moe_lab
from moe_lab.core.config import Config, knob
from moe_lab.course import glossary
from moe_lab.patch_routing import JointMoE, PatternTask
from moe_lab.registry import NOTEBOOKS, ROOMS

PACKAGE = Path(moe_lab.__file__).parent
MODULES = [
    ".".join(path.with_suffix("").relative_to(PACKAGE.parent).parts)
    for room in ROOMS
    for path in sorted((PACKAGE / room).rglob("[!_]*.py"))
]


def declared() -> list[type[Config]]:
    """Every public Config of the rooms, found by inheritance."""
    for module in MODULES:
        importlib.import_module(module)
    found, waiting = [], [Config]
    while waiting:
        waiting += (children := waiting.pop().__subclasses__())
        public = [kind for kind in children if not kind.__name__.startswith("_") and not kind.is_template()]
        found += [kind for kind in public if kind.__module__ in MODULES]
    return found


def entry(place: str, room: str = "patch_routing") -> glossary.Entry:
    (found,) = (one for one in glossary.entries() if place in one.places and one.room == room)
    return found


def meanings(symbol: str) -> set[str]:
    return {one.meaning for one in glossary.entries() if one.symbol == symbol}


def test_every_knob_with_a_symbol_is_there_once():
    asked = {
        (kind.__module__.split(".")[1], f"{kind.__name__}.{name}", about.symbol, about.meaning)
        for kind in declared()
        for name, about in kind.knobs().items()
        if about.symbol
    }
    knobs = [one for one in glossary.entries() if one.bounds]
    told = [(one.room, place, one.symbol, one.meaning) for one in knobs for place in one.places]
    assert len(asked) > 80
    assert sorted(told) == sorted(asked)


def test_a_symbol_with_several_meanings_shows_all():
    assert {"patches in a sample", "tokens in a sample", "training samples"} <= meanings("n")
    assert {"independent trials", "fine-tuning steps"} <= meanings("T")
    shown = glossary.table()
    assert set(shown[shown["symbol"] == "T"]["meaning"]) >= meanings("T")
    names = glossary.code_names()
    assert len(names) == len(glossary.entries()) == len(names.drop_duplicates())


def test_the_table_has_each_meaning_once_in_the_order_of_the_notebooks():
    shown = glossary.table()
    assert not shown.duplicated(["symbol", "meaning"]).any() and not shown["meaning"].str.startswith("Computes").any()
    assert set(zip(shown["symbol"], shown["meaning"], strict=True)) == {
        (one.written, one.meaning) for one in glossary.entries()
    }
    numbers = shown["first in"].str[:2]
    assert numbers.is_monotonic_increasing
    assert shown[numbers == "00"]["symbol"].tolist() == ["k", "l", "n", "N", "seed"]


def test_a_symbol_that_a_notebook_explains_early_is_in_its_text():
    for (_, symbol), number in glossary.EARLIER.items():
        (notebook,) = (each for each in NOTEBOOKS if each.number == number)
        text = (PACKAGE.parent / "notebooks" / f"{notebook.stem}.py").read_text(encoding="utf-8")
        assert re.search(rf"\$[^$]*\b{symbol}\b|<kbd>{symbol}</kbd>", text), f"{symbol} in {notebook.stem}"


def test_the_page_of_a_notebook_has_both_tables_at_the_left():
    page = glossary.as_html()
    assert page.count("<table") == 2 and "<details><summary>Names in code</summary><table" in page
    assert (
        "<td>" not in page
        and "<th>" not in page
        and all(place in page for one in glossary.entries() for place in one.places)
    )


def test_configs_that_share_a_knob_share_a_row():
    wanted = ("CNN.neurons", "JointMoE.neurons", "RoutedMoE.neurons", "SeparateMoE.neurons", "StepwiseMoE.neurons")
    assert entry("CNN.neurons").places == wanted


def test_a_new_declaration_reaches_the_table(monkeypatch):
    class Changed(PatternTask):
        patches: int = knob(16, symbol="n", meaning="tiles in a picture", ge=2, le=9, unit="tiles")

    Changed.__module__ = "moe_lab.patch_routing.data"
    monkeypatch.setattr("moe_lab.patch_routing.data.PatternTask", Changed)
    made = glossary.entries.__wrapped__()
    (found,) = (one for one in made if "Changed.patches" in one.places)
    assert (found.symbol, found.meaning, found.bounds) == ("n", "tiles in a picture", "2 to 9 tiles")


@pytest.mark.parametrize(
    ("place", "room", "bounds"),
    [
        ("PatternTask.patches", "patch_routing", "2 to 1024"),
        ("CNN.neurons", "patch_routing", "1 to 65,536"),
        ("PatternTask.delta_d", "patch_routing", "more than -1, less than 1"),
        ("PatternTask.distractors", "patch_routing", "at least 0"),
        ("DigitTask.digits", "patch_routing", "such as 6, 7"),
        ("MixtureTask.activation", "recovery", "one of identity, relu, leaky-relu, sigmoid, tanh"),
    ],
)
def test_values_are_told_as_they_are_declared(place, room, bounds):
    assert entry(place, room).bounds == bounds


def test_what_is_measured_is_told_by_what_measures_it():
    terms = [one for one in glossary.entries() if not one.bounds]
    assert sorted(one.symbol for one in terms) == sorted(symbol for symbol, _ in glossary.TERMS)
    told = {one.symbol: one for one in terms}
    assert told["l*"].meaning == "one more than the largest number of same-side distractors in a sample (section 4.2)"
    assert told["l*"].places == ("data.PatternTask.l_star",)
    assert told["coverage"].meaning.startswith("share of the class's test samples")
    assert all(len(one.meaning) > 20 for one in terms)


@pytest.mark.parametrize(
    ("symbol", "written"),
    [("eta_r", "η_r"), ("l*-1", "l*-1"), ("seed", "seed"), ("delta_d", "δ_d"), ("Delta", "Δ"), ("rho", "ρ")],
)
def test_greek_letters_are_written(symbol, written):
    (found, *_) = (one for one in glossary.entries() if one.symbol == symbol)
    assert found.written == written


def test_private_configs_are_left_out():
    assert JointMoE in glossary.configs("patch_routing")
    assert not [kind for kind in glossary.configs("patch_routing") if kind.__name__.startswith("_")]
