"""Models of patch routing as a page trains them: every measure is the library's, at 1e-12, whatever the routing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab.patch_routing import CNN, JointMoE, PatchRun, PatternTask, RoutedMoE, SeparateMoE
from moe_lab.patch_routing.training import of_run
from moe_lab_widgets.live import documents, page
from moe_lab_widgets.live.declare import Fills, LivePage
from moe_lab_widgets.live.recording import recorded_training
from moe_lab_widgets.live.tidying import of_choices
from tests.widgets.playground.in_node import answered

ASK = """
import fs from "node:fs";
import { Run } from "./run.js";
import { instantiate } from "./template.js";
const recorded = instantiate(JSON.parse(fs.readFileSync(0)), {});
const run = new Run(recorded, {}, { seed: 5, passes: 4, every: 3 });
const measured = () => Object.fromEntries(Object.entries(recorded.measured.training).map(
  ([name, place]) => [name, [...run.engine.read(place)].map((value) => (Number.isFinite(value) ? value : null))]));
const told = [{ step: run.step, ...measured() }];
while (!run.ended) if (run.advance()) told.push({ step: run.step, ...measured() });
console.log(JSON.stringify(told));
"""
ROUTED = {"experts": 4, "neurons": 16, "capacity_factor": 1.5, "learning_rate": 20.0}
MODELS: Mapping[str, Any] = {
    "joint": JointMoE(experts=4, neurons=16, patches_per_expert=3),
    "cnn": CNN(neurons=12),
    "expert choice": RoutedMoE(routing="expert-choice", gates="softmax-before", router_noise=0.5, **ROUTED),
    "token choice": RoutedMoE(routing="token-choice", gates="sigmoid-normalised", experts_per_patch=2, **ROUTED),
    "by priority": RoutedMoE(routing="token-choice", gates="softmax-before", order="priority", **ROUTED),
    "soft": RoutedMoE(routing="soft", **ROUTED),
    "hash": RoutedMoE(routing="hash", experts_per_patch=2, **ROUTED),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains_in_a_page_as_in_the_library(name: str, tmp_path: Path) -> None:
    assert_same(PatchRun(model=MODELS[name], trials=3, **SETTING), tmp_path)


def test_separate_training_of_one_trial_is_the_librarys(tmp_path: Path) -> None:
    """Its routers are trained trial by trial; a map trains one at a time."""
    assert_same(PatchRun(model=SeparateMoE(neurons=12, patches_per_expert=3), trials=1, **SETTING), tmp_path)


SETTING: dict[str, Any] = {
    "task": PatternTask(patches=7, distractors=2), "samples": 60, "test_samples": 40, "epochs": 4, "seed": 5,
    "record_every": 3, "precision": "float64", "device": "cpu",
}  # fmt: skip


def assert_same(run: PatchRun, folder: Path) -> None:
    fills = Fills(lambda _: run, of_run, {}, {}, rows="", columns=lambda values: (), numbers={}, first=0, passes=0)
    (recording,) = of_choices(recorded_training(fills, {}, whole=True))
    document = json.loads(documents.document_of(LivePage({}), [{}], [{"recorded": recording}], {}))
    found = answered(ASK, document, "run", "template", modules=page.modules(), folder=folder)
    mine = list(of_run(run).snapshots())
    assert [one["step"] for one in found] == [one.step for one in mine]
    for page_s, shot in zip(found, mine, strict=True):
        for measure, value in shot.values.items():
            if not shot.measures[measure].constant:
                told = np.array([np.nan if one is None else one for one in page_s[measure]])
                np.testing.assert_allclose(told, np.ravel(value), rtol=0, atol=1e-12, err_msg=f"{measure}, {shot.step}")
