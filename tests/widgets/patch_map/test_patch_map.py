"""The patch-map Lab's picture, captions and data show what its records hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import theme
from moe_lab.vision.patches.data import QuadrantTask, cells_in
from moe_lab.vision.patches.live import compare
from moe_lab_widgets import PatchMapLab
from moe_lab_widgets.drawing.sheet import integer
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.engine.device import offered
from moe_lab_widgets.patch_map import settings as of
from moe_lab_widgets.patch_map.panels.maps import CELLS, GREYS, LEVELS, VEIL, shades, thumbnail
from moe_lab_widgets.patch_map.picture import PatchMapPicture
from moe_lab_widgets.patch_map.record import frames
from moe_lab_widgets.patch_map.stories import STORIES
from tests.widgets.cases import PATCH_MAP
from tests.widgets.labs import Make, done, fixtures

make, ended = fixtures(PATCH_MAP)
DEFAULTS = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}
SMALL = {**DEFAULTS, **PATCH_MAP.small, "steps": 3}


def test_the_records_are_what_compare_gives() -> None:
    """The Lab begins one model after the other; each then goes its own way, as if it were alone."""
    together = list(compare(of.task_of(SMALL), of.models(SMALL), **of.settings(SMALL)))
    *_, last = frames(of.runs(SMALL), "learned", of.total_steps(SMALL))
    assert [len(shots) for shots in last.shots.values()] == [len(together)] * 3
    for name, shots in last.shots.items():
        for mine, theirs in zip(shots, (each[name] for each in together), strict=True):
            assert mine.origin["call"] == theirs.origin["call"] and mine.values.keys() == theirs.values.keys()
            np.testing.assert_array_equal(mine["train_loss"], theirs["train_loss"])


def test_the_first_record_does_not_wait_for_the_controls() -> None:
    running = frames(of.runs(SMALL), "learned", of.total_steps(SMALL))
    assert [list(next(running).shots) for _ in range(4)] == [
        ["pMoE"], ["pMoE", "no gate"], ["pMoE", "no gate", "conv"], ["pMoE", "no gate", "conv"],
    ]  # fmt: skip


@pytest.mark.parametrize("values", [{}, {"experts": 8, "patches_per_expert": 3}, {"gates": "none"}])
def test_lit_patches_are_those_that_the_experts_keep(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    study, maps = lab.record.study, lab.picture.maps
    kept = study["example_kept"][0].swapaxes(0, 1).astype(bool)  # (expert, example, patch)
    bare, covered = shades(VEIL, theme.PAPER)[0], shades(VEIL, theme.PAPER)[-1]
    np.testing.assert_array_equal(maps.veils.fills, np.where(kept, bare, covered).ravel())
    outlined = np.array(maps.behind.fills).reshape(kept.shape)
    for expert, outlines in enumerate(outlined):
        colour = integer(theme.expert(expert).colour)
        np.testing.assert_array_equal(outlines == colour, kept[expert])
    assert [percent(share) for share in study["expert_kept_in_object"][0]] == maps.words.words[-len(kept) :]


class OnTwoDevices(PatchMapLab):
    """The Lab on a machine with a GPU."""

    def __init__(self) -> None:
        """Makes no widgets: only what it offers is looked at."""

    def devices(self) -> tuple[str, ...]:
        return "cpu", "cuda"


def test_with_a_gpu_trials_reach_a_hundred() -> None:
    sliders = {knob.name: knob.slider for knob in offered(OnTwoDevices())}
    assert sliders["trials"] == (1, 100, 1)
    assert next(knob.slider for knob in PatchMapLab.knobs if knob.name == "trials") == (1, 6, 1)
    assert of.settings({**DEFAULTS, "trials": 20, "device": "cuda"})["device"] == "cuda"
    assert of.work({**DEFAULTS, "trials": 100}) == of.work({**DEFAULTS, "trials": 5}), "trials step one by one"


def test_many_trials_are_drawn_as_bands_and_a_density(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, "TEST_SAMPLES", 12)
    values = {**SMALL, "trials": MOST_LINES + 1, "experts": 2, "steps": 1, "samples": 16}
    *_, last = frames(of.runs(values), "learned", of.total_steps(values))
    picture = PatchMapPicture()
    picture.begin(values)
    picture.show(last)
    for panel in (picture.share, picture.accuracy):
        drawn = panel.trials[of.STUDY]
        assert (len(drawn.bands.get_paths()), len(drawn.spread.get_paths())) == (2, 1)
    assert f"where the {MOST_LINES + 1} trials are now" in PatchMapLab.caption(OnTwoDevices(), last)
    picture.close()


def test_soft_gates_light_a_patch_by_its_gate(make: Make) -> None:
    lab = done(make(gates="soft"))
    gates = lab.record.study["example_gates"][0].swapaxes(0, 1)
    levels = np.rint((LEVELS - 1) * gates / gates.max(-1, keepdims=True)).astype(int)
    veils = np.array(lab.picture.maps.veils.fills).reshape(levels.shape)
    assert all((veils[levels == level] == shades(VEIL, theme.PAPER)[-1 - level]).all() for level in range(LEVELS))
    assert "of the gates' sum falls in the object" in lab.caption(lab.record)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_the_frame_is_around_the_object_and_patches_lie_on_the_image(make: Make, scale: float) -> None:
    """In device pixels: a frame of two hairlines around the 2x2 patches whose centers are in the object."""
    lab = done(make())
    maps, boxes = lab.picture.maps, lab.record.study["example_boxes"][0]
    inside = cells_in(torch.as_tensor(boxes.astype(int)), 16, CELLS).numpy()
    patches = maps.veils.boxes_at(scale).reshape(4, of.EXAMPLES, CELLS**2, 4)
    drawn = maps.frames.boxes_at(scale).reshape(4, of.EXAMPLES, 8, 4)
    images = maps.images.images_at(scale)
    for expert, example in np.ndindex(4, of.EXAMPLES):
        own = patches[expert, example][inside[example]]
        low, high = own[:, :2].min(0), (own[:, :2] + own[:, 2:]).max(0)
        lines = drawn[expert, example]
        assert (np.abs(lines[:, :2].min(0) - low) <= 2).all()
        assert (np.abs((lines[:, :2] + lines[:, 2:]).max(0) - high) <= 2).all()
        left, top, pixels = images[4 * example + expert]
        corner = patches[expert, example, 0]
        assert (left, top) == tuple(corner[:2]) and pixels.shape[0] == CELLS * corner[3]


def test_a_thumbnail_is_the_image_with_gaps_between_patches() -> None:
    image = QuadrantTask(noise=0).sample(1, trials=[0], seed=0).images[0, 0, 0].numpy()
    shaded = np.rint((GREYS - 1) * image).astype(np.uint8)
    painted = thumbnail(shaded.tobytes(), 64, 64, 1.0)
    gaps = painted[..., 3] == 0
    assert gaps[15:17].all() and gaps[:, 31:33].all() and not gaps[2:14, 2:14].any()
    ink = 1 - painted[2::4, 2::4, 0] / 255.0  # in the middle of each pixel
    assert np.corrcoef(ink.ravel(), image.ravel())[0, 1] > 0.99


def test_the_curves_and_the_caption_are_the_record(make: Make) -> None:
    lab = done(make(trials=3))
    record, picture = lab.record, lab.picture
    for model in of.MODELS:
        steps, values = record.measured(model, "test_accuracy")
        x, y = picture.accuracy.thick[model].get_data()
        np.testing.assert_allclose(np.asarray(x) * record.total, steps)
        np.testing.assert_allclose(y, np.median(values, axis=1))
        assert f"{model} {percent(np.median(record.parts[model]['test_accuracy']))}" in lab.caption(record)
    assert len(record.measured("conv", "test_accuracy")[0]) < len(record.shots["conv"]), "controls are measured rarely"
    share = np.median(record.study["kept_in_object"])
    assert picture.share.names.words == [percent(share)] and f"{percent(share)} of kept patches" in lab.caption(record)
    ahead = (record.study["test_accuracy"] > record.parts["no gate"]["test_accuracy"]).sum()
    assert lab.caption(record).endswith(f"ahead of no gate in {ahead} of 3 trials.")


@pytest.mark.slow
def test_every_story_names_its_seed_and_one_is_what_its_run_ends_with() -> None:
    assert all(story.values["seed"] == 0 for story in STORIES)
    story = next(story for story in STORIES if story.name == "Few samples (N = 200)")
    values = {**DEFAULTS, **story.values}
    *_, last = frames(of.runs(values), values["gates"], of.total_steps(values))
    said = [float(word) / 100 for word in ("85", "82", "84", "37")]
    accuracies = [np.median(last.latest(name, "test_accuracy")) for name in of.MODELS]
    found = [*accuracies, np.median(last.study["kept_in_object"])]
    assert all(f"{100 * number:.0f} %" in story.what_to_see for number in said[:3])
    np.testing.assert_allclose(found, said, atol=0.03)
