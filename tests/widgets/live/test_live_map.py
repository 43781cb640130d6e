"""A page's map is the library's: what its trainings come to, and the marks, notes and sentences of any map. Needs node.

Seeds are drawn anew in every run, and named where a test fails.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab.drawing.words import Words, written
from moe_lab.patch_routing.phase_live import PhaseRecord, phase_records
from moe_lab_widgets import PhaseTransitionLab
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.labs import phase_transition as of
from moe_lab_widgets.live import documents, page
from moe_lab_widgets.playground.declared import complete, defaults_of
from tests.helpers.marks import same, same_goals
from tests.widgets.playground.in_node import answered

pytestmark = pytest.mark.slow
MAPS = 300
LAB = PhaseTransitionLab
ASK = """
import fs from "node:fs";
import { MapSession } from "./map_session.js";
const { document, told } = JSON.parse(fs.readFileSync(0));
const heard = [];
const session = new MapSession((message) => heard.push(message));
await session.receive({ type: "load", text: document });
for (const message of told) {
  for (const [name, values] of Object.entries(message.measures ?? {})) {
    message.measures[name] = values.map((one) => one === null ? NaN : one);
  }
  await session.receive(message);
}
const plain = (one) => Array.isArray(one) ? one.map(plain)
  : one && typeof one === "object" ? ("data" in one ? { sizes: one.sizes, data: [...one.data].map(plain) }
    : Object.fromEntries(Object.entries(one).map(([name, own]) => [name, plain(own)])))
  : typeof one === "number" && !Number.isFinite(one) ? String(one) : one;
console.log(JSON.stringify(plain(heard)));
"""


def heard(told: list[Any], folder: Path) -> list[Any]:
    """What a session answers."""
    asked = {"document": documents.document(LAB), "told": told}
    return answered(ASK, asked, "map_session", modules=page.modules(), folder=folder)  # type: ignore[no-any-return]


# ---- trainings ----

SETTINGS = [
    {"source": "synthetic", "training": "separate", "patches": 16, "distractors": 2, "gap": 1.0, "delta_d": 0.3},
    {"source": "digits", "training": "separate", "patches": 6, "noise": 0.5},
    {"source": "synthetic", "training": "joint", "patches": 8, "distractors": 1, "gap": 0.8},
    {"source": "digits", "training": "joint", "experts": 2, "patches": 5, "noise": 0.0},
]


@pytest.mark.parametrize("own", SETTINGS)
def test_trainings_are_the_librarys(own: dict[str, Any], tmp_path: Path) -> None:
    """All l on two values of N, two trials each: accuracy and coverage of every training."""
    seed = secrets.randbelow(2**53)
    values = {**defaults_of(LAB), **own, "seed": seed, "trials": 2}
    (begun,) = heard([{"type": "begin", "id": 1, "values": values}], tmp_path)
    fills, (per_expert, samples) = begun["fills"], of.grid_of(values)
    assert fills["columns"] == list(samples) and fills["rows"] == len(per_expert) and begun["trials"] == 2
    jobs = [{"trial": trial, "column": column} for column in (0, 3) for trial in (0, 1)]
    found = heard([{"type": "train", "id": 1, "values": values, "fills": fills, **job} for job in jobs], tmp_path)
    assert [one["type"] for one in found].count("idle") == len(jobs), found[-1]
    settings = {"test_samples": of.TEST_SAMPLES[values["source"]], "precision": "float64", "device": "cpu"}
    counts = (samples[0], samples[3])
    *_, full = phase_records(of.task_of(values), of.model_of(values), per_expert, counts, 2, seed, **settings)
    trained = [one for one in found if one["type"] == "trained"]
    assert len(trained) == full.done.size
    for one in trained:
        place = one["row"] - 1, (0, 3).index(one["column"]), one["trial"]
        for name, expected in (("test_accuracy", full.test_accuracy), ("coverage", full.coverage)):
            said = f"{name} of {one} with {values}"
            np.testing.assert_allclose(one["results"][name], expected[place], rtol=0, atol=1e-12, err_msg=said)


# ---- pictures ----


def drawn(random: np.random.Generator) -> tuple[dict[str, Any], PhaseRecord]:
    """Values of the Lab, and a record of a map with them: full, empty, or on its way, with numbers that look likely."""
    values = complete(
        LAB,
        {
            "source": str(random.choice(["synthetic", "digits"])),
            "training": str(random.choice(["separate", "joint"])),
            "patches": int(random.choice([4, 7, 16])),
            "distractors": int(random.integers(0, 7)),
            "trials": int(random.choice([1, 5, 10, 20])),
        },
    )
    per_expert, samples = of.grid_of(values)
    shape = (len(per_expert), len(samples), values["trials"])
    first = min(5, values["trials"])
    done = np.zeros(shape, dtype=bool)
    columns, rest = random.integers(0, len(samples) + 1, size=2)
    done[:, : len(samples) if random.random() < 0.6 else columns, :first] = True
    if done.any(axis=(0, 2)).all():
        done[:, : len(samples) if random.random() < 0.5 else rest] = True
    chance = np.sort(random.random((len(per_expert), len(samples), 1)) ** random.choice([0.2, 1.0, 4.0]), axis=1)
    right = random.random(shape) < chance
    accuracy = np.where(right, random.choice([0.9525, 0.96, 1.0], size=shape), random.choice([0.5, 0.9475], size=shape))
    coverage = (random.choice([0.3, 0.8, 0.995]) * random.integers(170, 200, size=shape) / 200).astype(np.float32)
    lost = random.random(shape) < random.choice([0.0, 0.1])
    hole = ~done | lost
    accuracy, coverage = np.where(hole, np.nan, accuracy.astype(np.float32)), np.where(hole, np.nan, coverage)
    looking = done.sum(-1).min() < first and done.any()
    running = tuple((one, samples[columns % len(samples)]) for one in per_expert) if looking else ()
    return values, PhaseRecord(per_expert, samples, done, accuracy, coverage, running)


def listed(values: Any) -> list[float | None]:
    return [None if np.isnan(one) else float(one) for one in np.ravel(np.asarray(values, dtype=float))]


def test_a_map_is_drawn_and_told_as_in_python(tmp_path: Path) -> None:
    seed = secrets.randbelow(2**32)
    random = np.random.default_rng(seed)
    told, maps = [], []
    for number in range(MAPS):
        values, one = drawn(random)
        before = Record({ONLY: (drawn(random)[1],)}, values, (ONLY,))
        now = MarkRecord(Record({ONLY: (one,)}, values, (ONLY,), before=before))
        pale = now.pale(of.share, "samples")
        maps.append((values, now))
        measures = {"done": one.done, "test_accuracy": one.test_accuracy, "coverage": one.coverage}
        measures |= {"active": one.active, "before": pale.numpy()}
        told.append({"type": "begin", "id": number, "values": values})
        sent = {name: listed(array) for name, array in measures.items()}
        told.append(
            {"type": "draw", "id": number, "measures": sent, "step": int(one.done.sum()), "total": one.done.size}
        )
    answers, said = heard(told, tmp_path), []
    for (values, now), begun, shown in zip(maps, answers[::2], answers[1::2], strict=True):
        about, picture = f"seed {seed}: {values}", shown["pictures"][""]
        for place, panel in enumerate(LAB.declaration.panels):
            same(begun["furniture"][""][place]["axes"], list(panel.marks.furniture(MarkValues(values))), about)
            note = panel.marks.note
            wanted = Words(note) if isinstance(note, str) else note(MarkValues(values))
            same(begun["furniture"][""][place]["note"], wanted, about)
            same(picture["panels"][place], list(panel.marks.draw(now)), f"{panel.title}, {about}")
        same(picture["sentence"], LAB.declaration.caption.words(now), about)
        same(picture["trouble"], LAB.declaration.trouble.words(now), about)
        same_goals(LAB, picture, now, about)
        asked = LAB.declaration.question
        same(picture["right"], asked.right(now), about)
        same(picture["seen"], asked.seen(now), about)
        same(picture["ends"], asked.sketch.ends(now), about)
        said.append(written(LAB.declaration.caption.words(now)))
    for part in ("Nothing has run", "A first look", "cells are done", "No l", "needs more", "right expert", ", but "):
        assert part in " ".join(said), f"seed {seed}: no map drawn says {part!r}"


def test_json_has_a_map_for_every_choice() -> None:
    document = json.loads(documents.document(LAB))
    assert [set(one) for one in document["variants"]] == [{"when", "recorded", "picture"}] * len(document["variants"])
