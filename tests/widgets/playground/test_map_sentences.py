"""The sentences of the playground's map page against the Lab's, on maps drawn at random. Needs node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.labs.phase_transition import caption, grid_of
from moe_lab_widgets.labs.phase_transition_record import samples_needed
from moe_lab_widgets.playground.bundle import Modules
from moe_lab_widgets.playground.declared import PHASES, module
from tests.widgets.playground.in_node import answered

MAPS = 300
SCRIPT = """
import { readFileSync } from "node:fs";
import { PhaseMap, phaseCaption } from "./phase_map.js";
const number = (found) => (found === null ? NaN : found);
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(({ values, running, trainings }) => {
  const map = new PhaseMap(values);
  for (const [kept, samples, trial, accuracy, coverage] of trainings) {
    map.add({ kept, samples, trial, accuracy: number(accuracy), coverage: number(coverage) });
  }
  return { caption: phaseCaption(map, running ?? undefined), needed: map.needed().map(String) };
})));
"""


def drawn(random: np.random.Generator) -> tuple[dict[str, Any], PhaseRecord]:
    """Values of the Lab, and a record of a map with them: full, empty, or on its way, with numbers that look likely."""
    values = {
        "source": str(random.choice(["synthetic", "digits"])),
        "training": str(random.choice(["separate", "joint"])),
        "patches": int(random.choice([4, 7, 16])),
        "distractors": int(random.integers(0, 7)),
        "trials": int(random.choice([1, 5, 10, 20])),
    }
    kept, samples = grid_of(values)
    shape = (len(kept), len(samples), values["trials"])
    first = min(5, values["trials"])
    done = np.zeros(shape, dtype=bool)
    columns, rest = random.integers(0, len(samples) + 1, size=2)
    done[:, : len(samples) if random.random() < 0.6 else columns, :first] = True
    if done.any(axis=(0, 2)).all():
        done[:, : len(samples) if random.random() < 0.5 else rest] = True
    chance = np.sort(random.random((len(kept), len(samples), 1)) ** random.choice([0.2, 1.0, 4.0]), axis=1)
    right = random.random(shape) < chance
    accuracy = np.where(right, random.choice([0.9525, 0.96, 1.0], size=shape), random.choice([0.5, 0.9475], size=shape))
    coverage = (random.choice([0.3, 0.8, 0.995]) * random.integers(170, 200, size=shape) / 200).astype(np.float32)
    lost = random.random(shape) < random.choice([0.0, 0.1])
    hole = ~done | lost
    accuracy, coverage = np.where(hole, np.nan, accuracy.astype(np.float32)), np.where(hole, np.nan, coverage)
    origin = {"l_star": values["distractors"] + 1} if values["source"] == "synthetic" else {}
    looking = done.sum(-1).min() < first and done.any()
    running = tuple((one, samples[columns % len(samples)]) for one in kept) if looking else ()
    return values, PhaseRecord(kept, samples, done, accuracy, coverage, running, origin)


def said(one: PhaseRecord) -> dict[str, Any]:
    needed = [{"nan": "NaN", "inf": "Infinity"}.get(f"{count:.0f}", f"{count:.0f}") for count in samples_needed(one)[0]]
    return {"caption": caption(Record({ONLY: (one,)}, {}, (ONLY,))), "needed": needed}


def trainings(one: PhaseRecord) -> list[list[Any]]:
    """A record's trainings as the engine's messages give them."""
    found: list[list[Any]] = []
    for row, column, trial in np.argwhere(one.done).tolist():
        accuracy, coverage = (float(part[row, column, trial]) for part in (one.test_accuracy, one.coverage))
        known = [None, None] if np.isnan(accuracy) else [accuracy, coverage]
        found.append([one.patches_per_expert[row], one.samples[column], trial, *known])
    return found


def test_a_map_of_the_page_says_what_the_lab_says_of_it(tmp_path: Path) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    random = np.random.default_rng(seed)
    maps = [drawn(random) for _ in range(MAPS)]
    asked = [
        {"values": values, "running": one.running[0][1] if one.running else None, "trainings": trainings(one)}
        for values, one in maps
    ]
    modules = Modules({"declared": module((PHASES,))})
    answer = answered(SCRIPT, asked, "phase_map", modules=modules, folder=tmp_path)
    for (values, one), found in zip(maps, answer, strict=True):
        assert found == said(one), f"seed {seed}: {values}"
    captions = " ".join(one["caption"] for one in answer)
    for part in ("Nothing has run", "A first look", "cells are done", "No l", "needs more", "right expert", ", but "):
        assert part in captions, f"seed {seed}: no map drawn says {part!r}"
