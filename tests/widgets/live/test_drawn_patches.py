"""What a page finds of a patch that its visitor has drawn: by loops over the library's weights, at every record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import moe_lab_widgets
from moe_lab.core.graphs import as_on_accelerator
from moe_lab.datasets import digits
from moe_lab.patch_routing.training import of_run
from moe_lab_widgets.live import page
from moe_lab_widgets.playground.declared import defaults_of
from tests.widgets.live.test_live_runs import document_of
from tests.widgets.playground.in_node import answered

DRAW = """
import fs from "node:fs";
import { Session } from "./session.js";
import { written } from "./written.js";
const { document, values, drawing } = JSON.parse(fs.readFileSync(0));
const told = [];
const session = new Session((message) => told.push(message));
session.receive({ type: "load", text: JSON.stringify(document) });
session.receive({ type: "begin", id: 1, values, every: 4, playing: false });
const drawn = Float64Array.from(drawing, (one) => one ?? NaN);
session.receive({ type: "step" });
const look = (given) => {
  session.receive({ type: "look", values: given });
  while (session.stale.length) session.refresh();
};
look({ ...values, drawing: drawn });
session.receive({ type: "step" });
look(values);
const records = told.filter((one) => one.type === "record").map(({ step, pictures }) => {
  const { kept, said } = pictures[""].drawn;
  return { step, sizes: kept.sizes, kept: [...kept.data], said: written(said) };
});
console.log(JSON.stringify(records));
"""


@pytest.mark.slow
def test_a_drawn_patch_is_scored_kept_and_classified_as_the_librarys_model_does(tmp_path: Path) -> None:
    small = {
        "trials": 2,
        "experts": 4,
        "patches": 7,
        "patches_per_expert": 2,
        "samples": 200,
        "noise": 0.6,
        "steps": 20,
        "seed": 3,
    }
    values = {**defaults_of(moe_lab_widgets.RouterAlignmentLab), **small}
    ink = np.random.default_rng(0).uniform(size=64)
    drawing = np.full((2, 7, 64), np.nan)
    drawing[1, 5] = ink
    given = {
        "document": document_of("RouterAlignmentLab"), "values": values,
        "drawing": [None if np.isnan(one) else one for one in drawing.flat],
    }  # fmt: skip
    told = answered(DRAW, given, "session", "written", modules=page.modules(), folder=tmp_path)
    assert [one["step"] for one in told] == [0, 4, 4, 0, 8, 8, 4, 0]
    undrawn = {one["step"]: one["kept"] for one in told[-3:]}
    assert told[0]["kept"] == undrawn[0] and told[1]["kept"] == undrawn[4]
    assert [one["said"] for one in [*told[:2], *told[-3:]]] == [""] * 5, "nothing is said where nothing is drawn"

    run = moe_lab_widgets.RouterAlignmentLab.declaration.runs(values)["joint"]
    with as_on_accelerator():
        training = of_run(run.replace(precision="float64", device="cpu", record_every=4))
    learner = training.learners[0]
    images = digits.load().images.reshape(-1, 64)
    prepared = (ink - images.mean(0)) / np.linalg.norm(images - images.mean(0), axis=1).mean()
    for record in (told[3], told[2], told[4]):
        with as_on_accelerator():
            training.advance(record["step"] - learner.done)
        patches = learner.patches(learner.test, 0, 2)[0].numpy().copy()
        patches[1, 5] = prepared
        weights, signs = learner.weights[0].numpy(), learner.rules.outputs[0, 0].numpy()  # a / l, (expert, neuron)
        neurons = len(weights) - 4
        each = neurons // 4
        kept = np.zeros((2, 4, 7), dtype=bool)
        f = np.zeros(2)
        for side in (0, 1):
            for expert in range(4):
                scores = patches[side] @ weights[neurons + expert]
                chosen = np.argsort(-scores, kind="stable")[:2]
                kept[side, expert, chosen] = True
                gates = np.exp(scores[chosen] - scores[chosen].max())
                for gate, place in zip(gates / gates.sum(), chosen, strict=True):
                    own = weights[expert * each : (expert + 1) * each] @ patches[side, place]
                    f[side] += gate * signs[expert, expert * each : (expert + 1) * each] @ np.maximum(own, 0)
        assert record["sizes"] == [2, 4, 7]
        np.testing.assert_array_equal(np.reshape(record["kept"], (2, 4, 7)), kept)
        right = (f[1] < 0) == bool(learner.test.labels[0, 1])  # label 1 is class −, y = -1
        names = [str(expert + 1) for expert in range(4) if kept[1, expert, 5]]
        asked = f"expert{'s' * (len(names) > 1)} " + " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
        assert record["said"] == (
            f"Your drawing in class − is kept by {asked if names else 'no expert'}; "
            + ("the mixture finds the class. " if right else "the mixture takes it for the other class. ")
        )
