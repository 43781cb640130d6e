"""Whatever a visitor asks a page for, it settles on values that it has recorded and that the library runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab.registry import PAGES
from moe_lab_widgets.live import documents
from moe_lab_widgets.live.page import modules
from moe_lab_widgets.playground.declared import defaults_of, kind_of, offered, refusal
from tests.widgets.playground.in_node import answered

ASK = """
import fs from "node:fs";
globalThis.matchMedia = () => ({ matches: true });
const { fitted, labOf } = await import("./controls.js");
const { document, every } = JSON.parse(fs.readFileSync(0));
const lab = labOf(document);
console.log(JSON.stringify(every.map(([wanted, kept]) => fitted(lab, wanted, kept))));
"""


def wished(offers: Mapping[str, Sequence[Any]], usual: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], str]:
    """Returns values of which three are random and may not go together, and the knob of theirs that was moved last."""
    random = np.random.default_rng(seed)
    moved = [list(offers)[int(place)] for place in random.choice(len(offers), size=3, replace=False)]
    chosen = {name: offers[name][int(random.integers(len(offers[name])))] for name in moved}
    return {**usual, **chosen, "seed": 0}, moved[-1]


@pytest.mark.parametrize("lab", PAGES)
def test_a_page_settles_on_what_it_can_run_and_says_what_it_changed(lab: str, tmp_path: Path) -> None:
    kind = kind_of(lab)
    how, document = documents.page_of(kind), json.loads(documents.document(kind))
    choices = {knob["name"]: knob.get("choices") for knob in document["lab"]["knobs"]}
    offers = {knob.name: choices[knob.name] or offered(knob) for knob in kind.knobs if knob.name in choices}
    every = [wished(offers, defaults_of(kind), seed) for seed in range(300)]
    found = answered(ASK, {"document": document, "every": every}, "controls", modules=modules(), folder=tmp_path)
    for (wanted, kept), settled in zip(every, found, strict=True):
        values = {name: value for name, value in settled["values"].items() if name != "seed"}
        assert how.has(values), (wanted, values)
        assert refusal(kind, {**wanted, **values}) == "", (wanted, values)
        changed = {name for name in offers if values[name] != wanted[name]}
        assert len(changed) <= len(settled["said"]) and bool(changed) == bool(settled["said"]), (wanted, settled)
        assert kept not in changed or refusal(kind, wanted), (kept, settled)
