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

from moe_lab.core.grid import Table
from moe_lab.drawing.words import Words, written
from moe_lab.patch_routing.phase import SUCCESS, phase_tables
from moe_lab.recovery.gridlock.stuck import stuck_rate
from moe_lab_widgets import PhaseTransitionLab, StuckRateLab
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.labs import phase_transition as of
from moe_lab_widgets.labs import stuck_rate as stuck_of
from moe_lab_widgets.live import documents, page
from moe_lab_widgets.playground.declared import complete, defaults_of
from tests.helpers.effort import one_in
from tests.helpers.maps import map_of
from tests.helpers.marks import same, same_goals
from tests.widgets.playground.in_node import answered

pytestmark = pytest.mark.slow
MAPS = 200
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


def heard(kind: Any, told: list[Any], folder: Path) -> list[Any]:
    """What a session answers."""
    asked = {"document": documents.document(kind), "told": told}
    return answered(ASK, asked, "map_session", modules=page.modules(), folder=folder)  # type: ignore[no-any-return]


# ---- trainings ----

SETTINGS = [
    {"source": "synthetic", "training": "separate", "patches": 16, "distractors": 2, "gap": 1.0, "delta_d": 0.3},
    {"source": "digits", "training": "separate", "patches": 6, "noise": 0.5},
    {"source": "synthetic", "training": "joint", "patches": 8, "distractors": 1, "gap": 0.8},
    {"source": "digits", "training": "joint", "experts": 2, "patches": 5, "noise": 0.0},
]


def trained(kind: Any, values: dict[str, Any], columns: tuple[int, ...], folder: Path) -> list[Any]:
    """What a page trains of all rows and trials of these columns, in all maps."""
    (begun,) = heard(kind, [{"type": "begin", "id": 1, "values": values}], folder)
    fills = begun["fills"]
    jobs = [
        {"map": number, "trial": trial, "column": column}
        for number in range(max(1, len(fills["maps"][1]))) for column in columns for trial in range(values["trials"])
    ]  # fmt: skip
    answers = heard(kind, [{"type": "train", "id": 1, "values": values, "fills": fills, **job} for job in jobs], folder)
    assert [one["type"] for one in answers].count("idle") == len(jobs), answers[-1]
    return [one for one in answers if one["type"] == "trained"]


@pytest.mark.parametrize("own", SETTINGS)
def test_trainings_are_the_librarys(own: dict[str, Any], tmp_path: Path) -> None:
    """All l on two values of N, two trials each: accuracy and coverage of every training."""
    seed = secrets.randbelow(2**53)
    values = {**defaults_of(PhaseTransitionLab), **own, "seed": seed, "trials": 2}
    per_expert, samples = of.grid_of(values)
    found = trained(PhaseTransitionLab, values, (0, 3), tmp_path)
    settings = {"test_samples": of.TEST_SAMPLES[values["source"]], "precision": "float64", "device": "cpu"}
    counts = (samples[0], samples[3])
    *_, full = phase_tables(of.task_of(values), of.model_of(values), per_expert, counts, 2, seed, **settings)
    assert len(found) == full["done"].size
    for one in found:
        place = one["row"] - 1, (0, 3).index(one["column"]), one["trial"]
        for name, expected in (("success", full["success"]), ("coverage", full["coverage"])):
            said = f"{name} of {one} with {values}"
            np.testing.assert_allclose(one["results"][name], expected[place], rtol=0, atol=1e-12, err_msg=said)


STARTS = [
    {"dimension": 6},
    {"dimension": 12, "noise": 0.3, "regressors": "random", "iterations": 40},
    {"dimension": 5, "step": "gradient EM", "iterations": 60},
]


@pytest.mark.parametrize("own", one_in(3, STARTS))
def test_starts_are_the_librarys(own: dict[str, Any], tmp_path: Path) -> None:
    """All k on two values of n, two starts each, by both methods.

    Where moments of few samples decide, power iterations need not converge, and rounding decides where they are when
    they end: of the spectral starts nine in ten are compared, and all where k is small and n large.
    """
    values = {**defaults_of(StuckRateLab), **own, "seed": secrets.randbelow(2**53), "trials": 2}
    found = trained(StuckRateLab, values, (1, 3), tmp_path)
    given = {**stuck_of.given_of(values), "samples": (stuck_of.SAMPLES[1], stuck_of.SAMPLES[3]), "device": "cpu"}
    full = stuck_rate(**given).transpose("algorithm", "k", "samples", "trial")
    assert len(found) == full["stuck"].size
    apart = []
    for one in found:
        place = one["map"], one["row"] - 1, (1, 3).index(one["column"]), one["trial"]
        fit, expected = float(one["results"]["regressor_fit"]), float(full["regressor_fit"].values[place])
        apart.append(not np.isclose(fit, expected, rtol=0, atol=1e-6, equal_nan=True))
        if one["map"] == 0 or (one["row"] <= 2 and one["column"] == 3):
            assert not apart[-1], f"{one}, not {expected}, with {values}"
        if not apart[-1]:
            stuck = float(full["stuck"].values[place])
            np.testing.assert_array_equal(float(one["results"]["stuck"]), stuck, err_msg=f"{one} with {values}")
    assert sum(apart) <= len(apart) / 10, f"{sum(apart)} of {len(apart)} with {values}"


# ---- pictures ----


def phase_map(random: np.random.Generator) -> tuple[dict[str, Any], Table]:
    """Values of the Lab, and a record of a map with them: full, empty, or on its way, with numbers that look likely."""
    values = complete(
        PhaseTransitionLab,
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
    column = samples[columns % len(samples)]
    running = [{"patches_per_expert": one, "samples": column} for one in per_expert] if looking else []
    success = np.where(done, np.nan_to_num(accuracy) >= SUCCESS, np.nan)
    measures = {"success": success, "test_accuracy": accuracy, "coverage": coverage}
    return values, map_of({"patches_per_expert": per_expert, "samples": samples}, running=running, **measures)


def stuck_map(random: np.random.Generator) -> tuple[dict[str, Any], Table]:
    """The same of the Lab of stuck starts."""
    own = {"dimension": int(random.choice([4, 5, 12])), "trials": int(random.choice([5, 10]))}
    values = complete(StuckRateLab, {**own, "step": str(random.choice(["EM", "gradient EM"]))})
    experts = stuck_of.experts_of(values)
    shape = (2, len(experts), len(stuck_of.SAMPLES))
    cells = np.ones(shape, bool) if random.random() < 0.4 else random.random(shape) < random.choice([0.0, 0.5, 0.9])
    done = np.repeat(cells[..., None], values["trials"], axis=-1)
    fit = np.where(random.random(done.shape) < random.choice([0.3, 0.97]), 0.99, 0.4)
    fit = np.where(~done | (random.random(done.shape) < random.choice([0.0, 0.1])), np.nan, fit)
    stuck = np.where(np.isfinite(fit), (fit < 0.9) & (random.random(done.shape) < 0.7), np.nan).astype(float)
    point = {"algorithm": "joint-em", "k": experts[0], "samples": stuck_of.SAMPLES[2]}
    running = [point] if random.random() < 0.5 and not cells.all() else []
    axes = {"algorithm": ("joint-em", "spectral+em"), "k": experts, "samples": stuck_of.SAMPLES}
    return values, map_of(axes, cells, running, regressor_fit=fit, stuck=stuck)


def listed(values: Any) -> list[float | None]:
    return [None if np.isnan(one) else float(one) for one in np.ravel(np.asarray(values, dtype=float))]


OF_PHASES = ("Nothing has run", "A first look", "cells are done", "No l", "needs more", "right expert", ", but ")
OF_STARTS = ("Nothing has run", "cells are done, now", "for no k", "up to k =", "On the whole map", " and ")


@pytest.mark.parametrize(
    ("kind", "drawn", "share", "parts"),
    [
        (PhaseTransitionLab, phase_map, of.share, OF_PHASES),
        (StuckRateLab, stuck_map, stuck_of.found, OF_STARTS),
    ],
)
def test_a_map_is_drawn_and_told_as_in_python(
    kind: Any, drawn: Any, share: Any, parts: tuple[str, ...], tmp_path: Path
) -> None:
    seed = secrets.randbelow(2**32)
    random = np.random.default_rng(seed)
    told, maps, names = [], [], kind.declaration.page.fills.results
    for number in range(MAPS):
        values, one = drawn(random)
        before = Record({ONLY: (drawn(random)[1],)}, values, (ONLY,))
        now = MarkRecord(Record({ONLY: (one,)}, values, (ONLY,), before=before))
        maps.append((values, now))
        measures = {name: one[name] for name in ("done", "active", *names)}
        measures |= {"before": now.pale(share, "samples").numpy()}
        told.append({"type": "begin", "id": number, "values": values})
        sent = {name: listed(array) for name, array in measures.items()}
        told.append(
            {"type": "draw", "id": number, "measures": sent, "step": int(one["done"].sum()), "total": one["done"].size}
        )
    answers, said = heard(kind, told, tmp_path), []
    for (values, now), begun, shown in zip(maps, answers[::2], answers[1::2], strict=True):
        about, picture = f"seed {seed}: {values}", shown["pictures"][""]
        for place, panel in enumerate(kind.declaration.panels):
            same(begun["furniture"][""][place]["axes"], list(panel.marks.furniture(MarkValues(values))), about)
            note = panel.marks.note
            wanted = Words(note) if isinstance(note, str) else note(MarkValues(values))
            same(begun["furniture"][""][place]["note"], wanted, about)
            same(picture["panels"][place], list(panel.marks.draw(now)), f"{panel.title}, {about}")
        same(picture["sentence"], kind.declaration.caption.words(now), about)
        same(picture["trouble"], kind.declaration.trouble.words(now), about)
        same_goals(kind, picture, now, about)
        asked = kind.declaration.question
        same(picture["right"], asked.right(now), about)
        same(picture["seen"], asked.seen(now), about)
        same(picture["ends"], asked.sketch.ends(now), about)
        said.append(written(kind.declaration.caption.words(now)))
    for part in parts:
        assert part in " ".join(said), f"seed {seed}: no map drawn says {part!r}"


@pytest.mark.parametrize("kind", [PhaseTransitionLab, StuckRateLab])
def test_json_has_a_map_for_every_choice(kind: Any) -> None:
    document = json.loads(documents.document(kind))
    assert [set(one) for one in document["variants"]] == [{"when", "recorded", "picture"}] * len(document["variants"])
