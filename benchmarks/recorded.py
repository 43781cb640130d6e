"""Recorded Labs in node: a step beside torch in the same form and precision, the first picture, and a page's size."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import moe_lab_widgets
from benchmarks.measure import Result
from moe_lab.core.graphs import as_on_accelerator
from moe_lab_widgets.live import documents, page
from moe_lab_widgets.playground.declared import defaults_of

FIRST = 5
"""Steps that are taken before any is timed."""
ASK = """
import fs from "node:fs";
import { Run } from "./run.js";
import { instantiate } from "./template.js";
const { document, values, steps, warm } = JSON.parse(fs.readFileSync(0));
const milliseconds = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };
const begun = performance.now();
const run = new Run(instantiate(document, values), values, { seed: 0, steps: values.steps, every: 1e9 });
run.picture(Object.keys(run.recorded.pictures)[0]);
const first = performance.now() - begun;
for (let step = 0; step < warm; step++) run.advance();
const before = milliseconds();
for (let step = 0; step < steps; step++) run.advance();
console.log(JSON.stringify({ first, step: (milliseconds() - before) / steps }));
"""


def run(tiny: bool = False) -> list[Result]:
    """With `tiny`, a few steps, and of one Lab."""
    labs = documents.of_runs()[1:2] if tiny else documents.of_runs()
    node = shutil.which("node")
    results: list[Result] = []
    for lab in labs:
        name = lab.removesuffix("Lab").lower()
        kind = getattr(moe_lab_widgets, lab)
        ratio, first = (None, None) if node is None else compared(node, kind, 3 if tiny else 40)
        note = "needs node" if node is None else "CPU time in node over that of torch on one thread, both in float64"
        results.append(Result(f"recorded_step_{name}", ratio, "times", note=note))
        results.append(
            Result(f"recorded_first_{name}", first, "ms", note="samples, start, measures and marks, in node")
        )
        if not tiny:
            size = len(gzip.compress(page.page(lab).encode())) / 1000
            results.append(Result(f"recorded_size_{name}", size, "KB", 170.0, note="of the page, compressed"))
    return results


def compared(node: str, kind: Any, steps: int) -> tuple[float, float]:
    """Returns how many times as long as in torch a step takes in node, and milliseconds to the first picture there."""
    values = defaults_of(kind)
    steps = min([steps, *(end - FIRST for end in ends_of(kind, values))])
    document = json.loads(documents.document(kind))
    with tempfile.TemporaryDirectory() as folder:
        page.modules().written(Path(folder), "run", "template")
        (Path(folder) / "ask.js").write_text(ASK)
        asked = json.dumps({"document": document, "values": values, "steps": steps, "warm": FIRST})
        done = subprocess.run([node, "ask.js"], input=asked, capture_output=True, text=True, cwd=folder, check=True)
    found = json.loads(done.stdout)
    return found["step"] / torch_step(kind, values, steps), found["first"]


def ends_of(kind: Any, values: dict[str, Any]) -> list[int]:
    """Returns the steps after which the runs in stages end."""
    runs = kind.declaration.runs(values).values()
    stages = [kind.declaration.training(run).learners[0].stages for run in runs]
    return [sum(map(math.ceil, some)) for some in stages if some]


def torch_step(kind: Any, values: dict[str, Any], steps: int) -> float:
    """Returns CPU milliseconds of a step of all runs in torch, in the form for accelerators, on one thread."""
    torch.set_num_threads(1)
    runs = kind.declaration.runs(values).values()
    with as_on_accelerator():
        learners = [
            kind.declaration.training(run.replace(precision="float64", device="cpu")).learners[0] for run in runs
        ]
        for learner in learners:
            learner.advance(FIRST)
        begun = time.process_time()
        for learner in learners:
            learner.advance(steps)
    return 1000 * (time.process_time() - begun) / steps
