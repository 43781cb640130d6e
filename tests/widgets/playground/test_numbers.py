"""A page's random streams are NumPy's, and a trial that diverges is lost alone. Needs node.

Seeds are drawn anew in every run, and named where a test fails.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab.core.trials import stream
from moe_lab_widgets.live import documents, page
from moe_lab_widgets.playground.declared import defaults_of
from tests.widgets.playground.in_node import answered

READ = 'import { readFileSync } from "node:fs";\nconst asked = JSON.parse(readFileSync(0, "utf8"));\n'
REPLACE = "(_, one) => ArrayBuffer.isView(one) ? Array.from(one) : Number.isNaN(one) ? null : one"


@pytest.fixture
def seed() -> int:
    """Up to 53 bits, as the page's seeds."""
    return secrets.randbelow(2**53)


def ask(folder: Path, script: str, asked: Any, *needed: str) -> Any:
    """Runs a script on what is asked; arrays come back as lists, NaN as None."""
    imports = "".join(f'import * as {name} from "./{name}.js";\n' for name in needed)
    text = f"{imports}{READ}{script}\nconsole.log(JSON.stringify(answer, {REPLACE}));\n"
    return answered(text, asked, *needed, modules=page.modules(), folder=folder)


STREAMS = """
const answer = asked.map(({ seed, trial, purpose, count, lengths }) => {
  const begun = () => new streams.Stream(seed, trial, purpose);
  const order = begun();
  const many = (draw) => { const from = begun(); return Array.from({ length: count }, () => from[draw]()); };
  return {
    normals: many("normal"), uniforms: many("uniform"), gumbels: many("gumbel"),
    orders: lengths.map((length) => order.permutation(length)),
  };
});"""


def test_streams_are_numpys(tmp_path: Path, seed: int) -> None:
    count, lengths = 20_000, [100, 37, 2, 1, 100, 1000]
    asked = [
        {"seed": one, "trial": trial, "purpose": purpose, "count": count, "lengths": lengths}
        for one, trial, purpose in ((0, 0, "experts"), (seed, 7, "train/noise"), (seed % 2**32, 999, "order/100"))
    ]
    for one, found in zip(asked, ask(tmp_path, STREAMS, asked, "streams"), strict=True):
        key = one["seed"], one["trial"], one["purpose"]
        assert found["uniforms"] == stream(*key).random(count).tolist(), key
        orders = stream(*key)
        assert found["orders"] == [orders.permutation(length).tolist() for length in lengths], key
        np.testing.assert_allclose(found["normals"], stream(*key).standard_normal(count), rtol=0, atol=1e-14)
        np.testing.assert_allclose(found["gumbels"], stream(*key).gumbel(size=count), rtol=0, atol=1e-14)


LOST = """
import { instantiate } from "./template.js";
const { Run } = run;
const { document, values } = asked;
const fill = Run.prototype.fill;
Run.prototype.fill = function (draw, sources) {
  fill.call(this, draw, sources);
  const into = this.engine.view(draw.place.buffer);
  if (draw.purpose === "outputs") into.fill(Infinity, into.length / 3, (2 * into.length) / 3);
};
const one = new Run(instantiate(JSON.parse(document), values), values, { seed: 0, steps: 20, every: 5 });
while (!one.ended) one.advance();
const answer = { diverged: one.diverged, loss: one.engine.read(one.recorded.measured.joint.test_accuracy) };"""


def test_a_trial_whose_loss_becomes_infinite_is_lost_alone(tmp_path: Path) -> None:
    from moe_lab_widgets import RouterAlignmentLab

    values = defaults_of(RouterAlignmentLab) | {"trials": 3, "samples": 40}
    found = ask(
        tmp_path, LOST, {"document": documents.document(RouterAlignmentLab), "values": values}, "run", "template"
    )
    assert found["diverged"] == {"joint": [0, 1, 0], "cnn": [0, 1, 0]}
    assert [one is None for one in found["loss"]] == [False, True, False]
