"""The deep pruning Lab: its pre-training, what its sliders look up, what its picture shows, and its words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab.core.training import Snapshot
from moe_lab.drawing import theme
from moe_lab.vision import deep
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.labs import deep_prune as settings
from moe_lab_widgets.labs.deep_prune_experts import LONGEST, longest_change, painted, signed
from moe_lab_widgets.labs.deep_prune_record import measure
from tests.widgets.cases import DEEP
from tests.widgets.labs import Make, done, drawn_as, fixtures, move, shown, words_of

make, ended = fixtures(DEEP)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path))
    yield tmp_path / "vision"


def test_pre_training_is_shown_once_and_goes_on_while_sliders_move(make: Make, empty_cache: Path) -> None:
    lab = shown(make(playing=False, pre_training_steps=30))
    for _ in range(3):
        lab.step()
        shown(lab)
    assert [(one.of().stage, one.of().step) for one in lab.records[1:]] == [
        ("pre-training", step) for step in (0, 10, 20)
    ]
    assert "The model learns ten digits and is right in " in lab.caption(lab.record)
    assert lab.progress(lab.record) == "pre-training, step 20 of 30"
    (tested,) = drawn_as(lab, 1, "accuracy in training")
    assert tested.get_xdata().tolist() == [0.0] and "loss" in " ".join(words_of(lab, 1))
    move(lab, "classes", 4)
    shown(lab)
    lab.step()
    assert [(one.of().stage, one.of().step) for one in shown(lab).records[1:]] == [("pre-training", 30)]
    lab.play()
    done(lab)
    assert [path.suffix for path in empty_cache.iterdir()] == [".safetensors"]
    code = lab.code(lab.values).partition("after =")[0]
    variables: dict[str, Any] = {}
    exec(code, variables)
    assert len(list(empty_cache.iterdir())) == 1, "the code finds the model of the Lab"
    lab.reset()
    assert {one.of().stage for one in done(lab).records} == {"fine-tuning", "pruning"}


def test_without_a_page_pre_training_is_shorter_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    monkeypatch.setattr(settings, "QUICK", 6)
    with DEEP.short_runs():
        lab = DEEP.kind(steps=10, batch=25)
    assert lab.finished and lab.values["pre_training_steps"] == 6 and "replace(steps=6" in lab.code(lab.values)
    tuning = next(one for one in lab.records if one.of().tiles is not None)
    assert "The pre-trained model (6 steps)" in lab.caption(tuning)
    lab.close()


@pytest.mark.parametrize("criterion", deep.PAPER_CRITERIA)
def test_the_sliders_look_up_what_the_table_holds(ended: Any, criterion: str) -> None:
    last = ended.record.of()
    for mode in deep.MODES:
        for pruned in (0, 3, 6):
            kept = last.kept(criterion, pruned)
            assert (kept.sum(1) == 8 - pruned).all()
            score = last.table["score"].sel(criterion=criterion).values
            for layer, stays in zip(score, kept, strict=True):
                assert layer[stays].min() >= layer[~stays].max(initial=-np.inf)
            cell = {"criterion": criterion, "mode": mode, "pruned": pruned}
            assert last.left(criterion, mode, pruned) == float(last.table["accuracy"].sel(cell))


def test_a_look_furnishes_nothing_again_and_the_picture_says_it(make: Make) -> None:
    lab = done(make())
    versions = [laid.version for laid in lab.picture.laid]
    done(lab, pruned=6, criterion="random", mode="rerouted")
    assert [laid.version for laid in lab.picture.laid] == versions
    assert "6 pruned: " in " ".join(words_of(lab, 1)) and "−0.00" not in " ".join(words_of(lab, 0))
    now = lab.record.seen_with(lab.values)
    (accuracy, _), (memory, stays), (work, _), _ = settings.shares_of(now)
    assert accuracy == now.of().left("random", "rerouted", 6) and work > 0.9 > 0.5 > memory
    assert lab.caption(lab.record).startswith(
        "6 of 8 experts a layer are pruned and rerouted at random: the accuracy is "
    )
    assert f"Of a block's memory {stays} stay" in lab.caption(lab.record) and stays in " ".join(words_of(lab, 2))
    done(lab, mode="silent")
    assert settings.shares_of(lab.record.seen_with(lab.values))[2][0] < 0.7, "silent experts compute nothing"
    done(lab, pruned=0)
    assert lab.caption(lab.record).startswith("Nothing is pruned: with 8 experts in each layer")


def test_bars_are_the_routers_growth_and_three_criteria_are_named(ended: Any) -> None:
    record = ended.record.of()
    plan, changes = record.run, record.changes
    before = deep.pretrained(plan.before)
    tuned = deep.fine_tune(before, plan.tuning)
    for row, block in zip(changes, (1, 3), strict=True):
        norms = [model.mixtures()[block].Router.dense.kernel.detach().double().norm(dim=0) for model in (before, tuned)]
        np.testing.assert_allclose(row, norms[1] - norms[0], atol=1e-9)
    most = longest_change(ended.values)
    drawn = [sheet for sheet in ended.picture.laid[0].content if isinstance(sheet, Sheet) and len(sheet.edges) == 8]
    heights = np.array([[top - bottom for _, top, _, bottom, *_ in sheet.edges] for sheet in (drawn[0], drawn[4])])
    np.testing.assert_allclose(-heights, np.abs(np.clip(changes / most, -1, 1)) * LONGEST, atol=1e-6)
    names = [name for name in settings.NAMES.values() if name in " ".join(words_of(ended, 1))]
    assert len(names) == 3 and {"norm change", "random"} < set(names)


def test_patches_are_painted_as_they_are() -> None:
    patches = np.arange(32, dtype=np.uint8).reshape(2, 4, 4) * 8
    pixels = painted(patches.tobytes(), 50, 33, 1.0)
    assert pixels.shape == (33, 50, 4) and (pixels[17:, :, 3] == 0).all() and (pixels[:, 34:, 3] == 0).all()
    assert (pixels[:16, 16, 3] == 0).all(), "a gap"
    paper, ink = (theme.rgba(colour).astype(float) for colour in (theme.BACKGROUND, theme.INK))
    for patch, left in zip(patches, (0, 17), strict=True):
        wanted = paper + patch[..., None] / 255 * (ink - paper)
        np.testing.assert_array_equal(pixels[2:16:4, left + 2 : left + 16 : 4], np.rint(wanted).astype(np.uint8))
    assert painted(patches.tobytes(), 75, 50, 1.5)[24:, :24].shape == (26, 24, 4)
    assert [signed(value) for value in (0.126, -0.126, 0.001, -0.001)] == ["+0.13", "−0.13", "0.00", "0.00"]


def test_time_is_measured_once_in_a_process_and_memory_and_operations_are_known_at_once() -> None:
    layer = settings.LAYER.replace(hidden_size=20, mlp_dim=24)
    known = list(measure(layer, 1))
    assert np.isnan(known[0].milliseconds).all() and np.isfinite(known[0].memory).all()
    assert np.isfinite(known[-1].milliseconds).all() and (known[-1].milliseconds > 0).all()
    assert (np.diff(known[0].operations[0]) < 0).all() and known[0].operations[1].min() > 0.9
    np.testing.assert_allclose(known[0].memory[0], known[0].memory[1], atol=0.01)
    assert list(measure(layer, 1)) == [known[-1]]


@pytest.mark.usefixtures("ended")  # which has kept a pre-trained model: only what follows it is to diverge
def test_a_training_that_diverged_is_not_pruned(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = deep.Training.snapshots

    def lost(training: Any) -> Iterator[Snapshot]:
        return (replace(shot, diverged=np.array([True])) for shot in snapshots(training))

    monkeypatch.setattr(deep.Training, "snapshots", lost)
    lab = done(make())
    assert lab.record.of().table is None and "try a smaller learning rate" in lab.controls.message.value
    assert "nan" not in lab.caption(lab.record)
