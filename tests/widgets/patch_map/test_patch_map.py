"""The patch-map Lab's picture, captions and data show what its records hold."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection

from moe_lab.drawing import theme
from moe_lab.vision.patches import train
from moe_lab.vision.patches.data import QuadrantTask, cells_in
from moe_lab_widgets import PatchMapLab
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.sheet import Sheet, integer
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.engine import record
from moe_lab_widgets.engine.copying import started
from moe_lab_widgets.engine.device import offered
from moe_lab_widgets.labs import patch_map as of
from moe_lab_widgets.labs.patch_map import CELLS, GREYS, LEVELS, VEIL, shades, thumbnail
from moe_lab_widgets.labs.patch_map_stories import STORIES
from tests.widgets.cases import PATCH_MAP
from tests.widgets.labs import Make, bare, done, fixtures, words_of

make, ended = fixtures(PATCH_MAP)
DEFAULTS = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}
SMALL = {**DEFAULTS, **PATCH_MAP.small, "steps": 3}
VEILS = "patches that an expert does not keep"

BARE = bare(PatchMapLab)


def records_of(values: dict[str, Any]) -> list[Any]:
    runs = {name: partial(started, run) for name, run in BARE.configs(values).items()}
    return list(record.side_by_side(runs, values, of.steps_of(values)))


def sheet(lab: Any, label: str) -> Sheet:
    """What the first panel draws under a name."""
    (found,) = (one for one in lab.picture.placed[0].content if one.get_label() == label)
    return found


def medians(lab: Any, panel: int) -> dict[str, Any]:
    """The thick lines of a panel, by the model's name in the picture."""
    lines = [one for one in lab.picture.placed[panel].content if str(one.get_label()).endswith(", median")]
    return {line.get_label().removesuffix(", median"): line.get_data() for line in lines}


def test_the_records_are_those_of_each_model_alone() -> None:
    """The Lab begins one model after the other; each then goes its own way, as if it were alone."""
    study = BARE.configs(SMALL)[of.STUDY]
    settings = {name: getattr(study, name) for name in ("samples", "trials", "seed", "epochs", "record_every")}
    settings["test_samples"] = of.TEST_SAMPLES
    last = records_of(SMALL)[-1]
    assert list(last.shots) == list(of.models(SMALL))
    for name, model in of.models(SMALL).items():
        every = 1 if name == of.STUDY else of.CONTROLS_EVERY
        alone = list(train(model, study.task, measure_every=every, **settings))
        for mine, theirs in zip(last.shots[name], alone, strict=True):
            assert mine.origin["call"] == theirs.origin["call"] and mine.values.keys() == theirs.values.keys()
            np.testing.assert_array_equal(mine["train_loss"], theirs["train_loss"])


@pytest.mark.parametrize("values", [{}, {"experts": 8, "patches_per_expert": 3}, {"gates": "none"}])
def test_lit_patches_are_those_that_the_experts_keep(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    study = lab.record.of()
    kept = study["example_kept"][0].swapaxes(0, 1).astype(bool)  # (expert, example, patch)
    bare, covered = shades(VEIL, theme.PAPER)[0], shades(VEIL, theme.PAPER)[-1]
    np.testing.assert_array_equal(sheet(lab, VEILS).fills, np.where(kept, bare, covered).ravel())
    outlined = np.array(sheet(lab, "patches that an expert keeps").fills).reshape(kept.shape)
    for expert, outlines in enumerate(outlined):
        colour = integer(theme.expert(expert).colour)
        np.testing.assert_array_equal(outlines == colour, kept[expert])
    assert [percent(share) for share in study["expert_kept_in_object"][0]] == words_of(lab, 0)[-len(kept) :]


class OnTwoDevices(PatchMapLab):  # type: ignore[misc, valid-type]
    """The Lab on a machine with a GPU."""

    def __init__(self) -> None:
        """Makes no widgets: only what it offers is looked at."""
        self.own: dict[str, Any] = {}

    def devices(self) -> tuple[str, ...]:
        return "cpu", "cuda"


def test_with_a_gpu_trials_reach_a_hundred() -> None:
    lab = OnTwoDevices()
    sliders = {knob.name: knob.slider for knob in offered(lab)}
    assert sliders["trials"] == (1, 100, 1)
    assert next(knob.slider for knob in PatchMapLab.knobs if knob.name == "trials") == (1, 6, 1)
    assert lab.configs({**DEFAULTS, "trials": 20, "device": "cuda"})[of.STUDY].device == "cuda"
    assert lab.work({**DEFAULTS, "trials": 100}) == lab.work({**DEFAULTS, "trials": 5}), "trials step one by one"


def test_many_trials_are_drawn_as_bands_and_a_density(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, "TEST_SAMPLES", 12)
    values = {**SMALL, "trials": MOST_LINES + 1, "experts": 2, "steps": 1, "samples": 16}
    last = records_of(values)[-1]
    picture = Picture(BARE.declaration.panels)
    picture.begin(values)
    picture.show(last)
    for placed in picture.placed[1:]:
        drawn = [one for one in placed.content if str(one.get_label()).startswith("mixture, ")]
        shapes = [one for one in drawn if isinstance(one, PolyCollection)]
        assert [len(one.get_paths()) for one in shapes] == [2, 1], "bands, and a density"
    assert f"where the {MOST_LINES + 1} trials are now" in BARE.declaration.caption(last)
    picture.close()


def test_soft_gates_light_a_patch_by_its_gate(make: Make) -> None:
    lab = done(make(gates="soft"))
    gates = lab.record["example_gates"][0].swapaxes(0, 1)
    levels = np.rint((LEVELS - 1) * gates / gates.max(-1, keepdims=True)).astype(int)
    veils = np.array(sheet(lab, VEILS).fills).reshape(levels.shape)
    assert all((veils[levels == level] == shades(VEIL, theme.PAPER)[-1 - level]).all() for level in range(LEVELS))
    assert "of the gates' sum falls on the object" in lab.caption(lab.record)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_the_frame_is_around_the_object_and_patches_lie_on_the_image(make: Make, scale: float) -> None:
    """In device pixels: a frame of two hairlines around the 2x2 patches whose centers are in the object."""
    lab = done(make())
    boxes = lab.record["example_boxes"][0]
    inside = cells_in(torch.as_tensor(boxes.astype(int)), 16, CELLS).numpy()
    patches = sheet(lab, VEILS).boxes_at(scale).reshape(4, of.EXAMPLES, CELLS**2, 4)
    drawn = sheet(lab, "the digit that decides the class").boxes_at(scale).reshape(of.EXAMPLES, 4, 8, 4)
    images = sheet(lab, "test images").images_at(scale)
    for expert, example in np.ndindex(4, of.EXAMPLES):
        own = patches[expert, example][inside[example]]
        low, high = own[:, :2].min(0), (own[:, :2] + own[:, 2:]).max(0)
        lines = drawn[example, expert]
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
    record, drawn, said = lab.record, medians(lab, 2), lab.caption(lab.record)
    for model, before in zip(of.MODELS, ("The mixture is right in ", "without gates in ", "a CNN in "), strict=True):
        steps, values = record.curve("test_accuracy", model)
        x, y = drawn[of.SAID[model]]
        np.testing.assert_array_equal(x, steps)
        np.testing.assert_allclose(y, np.median(values, axis=1))
        assert f"{before}{percent(np.median(record.of(model)['test_accuracy']))}" in said
    assert len(record.curve("test_accuracy", "conv")[0]) < len(record.shots["conv"]), "controls are measured rarely"
    share = percent(np.median(record["kept_in_object"]))
    assert words_of(lab, 1) == [share] and said.startswith(
        f"{share} of the kept patches lie in the object; chance is 25 %."
    )
    ahead = (record["test_accuracy"] > record.of("no gate")["test_accuracy"]).sum()
    assert said.endswith(f"Gates raise accuracy in {ahead} of 3 trials.")
    assert lab.caption(lab.records[0]).startswith("Before training: ")


def test_without_gates_nothing_is_said_of_them(make: Make) -> None:
    lab = done(make(gates="none"))
    said = lab.caption(lab.record)
    assert said.startswith("There are no gates, so every expert gets all patches.") and "Gates raise" not in said


@pytest.mark.slow
def test_every_story_names_its_seed_and_one_is_what_its_run_ends_with() -> None:
    assert all(story.values["seed"] == 0 for story in STORIES)
    story = next(story for story in STORIES if story.name == "Few samples (N = 200)")
    values = {**DEFAULTS, **story.values}
    last = records_of(values)[-1]
    said = [float(word) / 100 for word in ("85", "82", "84", "37")]
    accuracies = [np.median(last.last("test_accuracy", name)) for name in of.MODELS]
    found = [*accuracies, np.median(last["kept_in_object"])]
    assert all(f"{100 * number:.0f} %" in story.what_to_see for number in said[:3])
    np.testing.assert_allclose(found, said, atol=0.03)
