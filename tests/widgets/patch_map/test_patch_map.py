"""The patch-map Lab's picture, captions and data show what its records hold."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection

from moe_lab.drawing.image_marks import PatchedImage
from moe_lab.vision.patches import train
from moe_lab.vision.patches.data import QuadrantTask, cells_in
from moe_lab_widgets import PatchMapLab
from moe_lab_widgets.drawing import images
from moe_lab_widgets.drawing.images import GREYS
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.drawing.words import percent
from moe_lab_widgets.engine import record
from moe_lab_widgets.engine.copying import started
from moe_lab_widgets.engine.device import offered
from moe_lab_widgets.labs import patch_map as of
from moe_lab_widgets.labs.patch_map_stories import STORIES
from tests.widgets.cases import PATCH_MAP
from tests.widgets.labs import Make, bare, done, fixtures, move, shown, words_of

make, ended = fixtures(PATCH_MAP)
DEFAULTS = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}
SMALL = {**DEFAULTS, **PATCH_MAP.small, "steps": 3}
CELLS = of.PATCHES

BARE = bare(PatchMapLab)


def records_of(values: dict[str, Any]) -> list[Any]:
    runs = {name: partial(started, run) for name, run in BARE.configs(values).items()}
    return list(record.side_by_side(runs, values, of.steps_of(values)))


def image_of(lab: Any) -> PatchedImage:
    """The image that the first panel draws of the present record."""
    ((mark,),) = of.image(MarkRecord(lab.record))
    assert isinstance(mark, PatchedImage)
    return mark


def heads_on(lab: Any) -> np.ndarray:
    """Where the heads of the experts stand in the first panel: (expert, patch)."""
    experts, stands = lab.record.values["experts"], []
    for expert in range(experts):
        there = np.zeros(CELLS**2, dtype=bool)
        own = f"expert {expert + 1}"
        for line in lab.picture.figure.findobj(lambda one, name=own: one.get_label() == name):
            columns, rows = (np.floor(part / (of.SIDE / CELLS)).astype(int) for part in line.get_data())
            there[rows * CELLS + columns] = True
        stands.append(there)
    return np.array(stands)


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
        alone = list(train(model, study.task, **settings))
        for mine, theirs in zip(last.shots[name], alone, strict=True):
            assert mine.origin["call"] == theirs.origin["call"] and mine.values.keys() == theirs.values.keys()
            np.testing.assert_array_equal(mine["train_loss"], theirs["train_loss"])


@pytest.mark.parametrize("values", [{}, {"experts": 8, "patches_per_expert": 3, "image": 5}, {"gates": "none"}])
def test_heads_stand_in_the_patches_that_the_experts_keep(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    kept = lab.record["example_kept"][0][values.get("image", 1) - 1].astype(bool)  # (expert, patch)
    with_gates = values.get("gates") != "none"
    np.testing.assert_array_equal(heads_on(lab), kept & with_gates)
    np.testing.assert_array_equal(image_of(lab).lit.numpy(), kept.any(0))
    inside = lab.record["expert_kept_in_object"][0]
    shares = [*(100 * inside), *(100 * (1 - inside) / 3)]
    assert words_of(lab, 1)[-len(shares) :] == [f"{share:.0f}" for share in shares]


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


def test_heads_of_soft_gates_stand_where_a_gate_is_above_average(make: Make) -> None:
    lab = done(make(gates="soft"))
    gates = lab.record["example_gates"][0][0]
    np.testing.assert_array_equal(heads_on(lab), gates > 1 / CELLS**2)
    assert image_of(lab).lit.all()
    assert "of the gates' sum falls on the object" in lab.caption(lab.record)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_the_frame_is_around_the_object_and_patches_lie_on_the_image(make: Make, scale: float) -> None:
    """In device pixels: a frame of hairlines around the 2x2 patches whose centers are in the object."""
    lab = done(make())
    for number in (1, 4):
        move(lab, "image", number)
        shown(lab)
        box = lab.record["example_boxes"][0][number - 1]
        inside = cells_in(torch.as_tensor(box.astype(int)), of.SIDE, CELLS).numpy()
        patches = sheet(lab, "the image").boxes_at(scale)
        frame = sheet(lab, "the object that decides the class").boxes_at(scale)
        own = patches[inside]
        low, high = own[:, :2].min(0), (own[:, :2] + own[:, 2:]).max(0)
        assert (np.abs(frame[:, :2].min(0) - low) <= 4).all()
        assert (np.abs((frame[:, :2] + frame[:, 2:]).max(0) - high) <= 4).all()
        ((left, top, pixels),) = sheet(lab, "the image").images_at(scale)
        assert (left, top) == tuple(patches[0, :2]) and abs(pixels.shape[0] - CELLS * patches[0, 3]) <= 2


def test_an_image_is_painted_dark_on_paper_and_pale_where_it_is_covered() -> None:
    image = QuadrantTask(noise=0).sample(1, trials=[0], seed=0).images[0, 0, 0].numpy()
    shades = np.rint((GREYS - 1) * image).astype(np.uint8)
    for lit in (True, False):
        covers = np.full(CELLS**2, lit)
        painted = images._painted(shades.tobytes(), covers.tobytes(), 320, 320, 1.0)
        ink = 1 - painted[10::20, 10::20, 0] / 255.0  # in the middle of each pixel
        assert np.corrcoef(ink.ravel(), image.ravel())[0, 1] > 0.99
        assert (ink.max() > 0.8) == lit


def test_the_curves_and_the_caption_are_the_record(make: Make) -> None:
    lab = done(make(trials=3))
    record, drawn, said = lab.record, medians(lab, 2), lab.caption(lab.record)
    for model, before in zip(of.MODELS, ("The mixture classifies ", "without gates ", "a CNN "), strict=True):
        steps, values = record.curve("test_accuracy", model)
        x, y = drawn[of.SAID[model]]
        np.testing.assert_array_equal(x, steps)
        np.testing.assert_allclose(y, np.median(values, axis=1))
        assert f"{before}{percent(np.median(record.of(model)['test_accuracy']))}" in said
    share = percent(np.median(record["kept_in_object"]))
    assert words_of(lab, 1)[0] == share and said.startswith(
        f"{share} of the kept patches lie in the object; chance is 25 %."
    )
    gain = np.median(record["test_accuracy"]) - np.median(record.of("no gate")["test_accuracy"])
    found = "make no difference of more than 3 points" if abs(gain) <= 0.03 else "help" if gain > 0 else "do harm"
    assert said.endswith(f"The gates {found}.")
    assert lab.caption(lab.records[0]).endswith("That is before training.")


def test_without_gates_nothing_is_said_of_them(make: Make) -> None:
    lab = done(make(gates="none"))
    said = lab.caption(lab.record)
    assert said.startswith("There are no gates, so every expert gets all patches.") and "The gates" not in said


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
