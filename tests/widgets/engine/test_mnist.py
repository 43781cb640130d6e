"""MNIST in the Labs of patches: offered where its folder is named, at the paper's size, and refused in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab.core.snapshots import final
from moe_lab.datasets import mnist
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, train
from moe_lab_widgets import PhaseTransitionLab, RouterAlignmentLab
from moe_lab_widgets.engine.declaration import Declared
from moe_lab_widgets.engine.device import offered
from moe_lab_widgets.engine.mnist import with_mnist
from moe_lab_widgets.labs import phase_transition as phase

FAST = "as fast as it trains"


@pytest.fixture
def folder(shared_data: Path) -> Path:
    return shared_data / "mnist-t10k"


@pytest.fixture(autouse=True)
def _nothing_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path))


def test_routers_align_on_mnist_and_its_images_are_shown(folder: Path) -> None:
    lab = RouterAlignmentLab(mnist=folder, trials=1, steps=20, samples=60)
    lab.controls.speed.value = FAST
    try:
        assert lab.values["source"] == "mnist" and lab.controls.knobs["noise"].disabled
        assert lab.controls.knobs["mnist"].disabled and lab.values["mnist"] == str(folder)
        assert lab.wait(60) and lab.finished
        task = DigitTask(source="mnist", root=folder, digits=(1, 0))
        kept = JointMoE(experts=4, patches_per_expert=6)
        for name, model in (("joint", kept), ("cnn", CNN())):
            own = final(train(model, task, samples=60, trials=1, epochs=7, test_samples=200))
            np.testing.assert_array_equal(lab.record.parts[name]["test_accuracy"], own["test_accuracy"])
        assert f"root={str(folder)!r}" in lab.code(lab.values)
        images, drawn = mnist.load(folder).images, lab.record.of("joint")["example_patches"][0, 0, 0]
        shares = images @ drawn / np.linalg.norm(images, axis=1)
        assert shares.max() == pytest.approx(1, abs=1e-5), "a patch is one of the images, at unit norm"
        lab.set(source="digits", noise=0.5, samples=40)
        assert lab.wait(60) and lab.finished and not lab.controls.knobs["noise"].disabled
        lab.controls.menu.value = lab.stories[1].name
        assert lab.values["source"] == "synthetic", "stories keep their own data"
    finally:
        lab.close()


def test_the_map_at_the_papers_size_fills(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = PhaseTransitionLab(mnist=folder, playing=False)
    try:
        assert lab.wait(60) and not lab.record["done"].any() and lab.record["done"].size == 1600
        assert phase.grid_of(lab.values) == (phase.PER_EXPERT, phase.SAMPLES["mnist", "separate"])
        assert phase.task_of(lab.values).dimension == 784
        for training in ("separate", "joint"):
            monkeypatch.setitem(phase.SAMPLES, ("mnist", training), (20, 40))
        monkeypatch.setattr(phase, "PER_EXPERT", (1, 4))
        monkeypatch.setitem(phase.TEST_SAMPLES, "mnist", 100)
        lab.controls.speed.value = FAST
        lab.set(trials=2)
        lab.play()
        assert lab.wait(60) and lab.finished and lab.record["done"].all()
        names: dict[str, Any] = {}
        exec(lab.code(lab.values), names)
        np.testing.assert_array_equal(names["result"]["test_accuracy"], lab.record["test_accuracy"])
    finally:
        lab.close()


def test_with_a_gpu_sliders_go_beyond_the_map_of_the_papers_size(folder: Path) -> None:
    class OnTwoDevices(Declared):
        knobs, begun = with_mnist(phase.KNOBS, folder, {})

        def devices(self) -> tuple[str, ...]:
            return "cpu", "cuda"

    knobs = {knob.name: knob for knob in offered(OnTwoDevices())}
    values = {**{name: knob.default for name, knob in knobs.items()}, **OnTwoDevices.begun, "seed": 0}
    assert knobs["trials"].slider == (5, 100, 5) and knobs["patches"].slider == (4, 64, 1)
    assert (values["source"], values["trials"]) == ("mnist", 20)
    assert phase.work({**values, "trials": 100}) == 5 * phase.work(values) > phase.work({**values, "source": "digits"})


def test_what_is_not_mnist_is_refused_in_one_sentence(tmp_path: Path) -> None:
    cases = (
        (tmp_path / "none", FileNotFoundError, "MNIST's folder must exist: got root="),
        (tmp_path, FileNotFoundError, "MNIST's folder must hold a pair, t10k-images-idx3-ubyte"),
        (3, ValueError, "mnist must be a folder of MNIST's IDX files, or 'download': got mnist=3"),
    )
    for kind in (RouterAlignmentLab, PhaseTransitionLab):
        for place, error, sentence in cases:
            with pytest.raises(error, match=re.escape(sentence)):
                kind(mnist=place)  # type: ignore[arg-type]
    for name in mnist.PAIRS["t10k"]:
        (tmp_path / name).write_bytes(b"not IDX")
    lab = RouterAlignmentLab(mnist=tmp_path)
    try:
        with pytest.raises(ValueError, match="an IDX file of unsigned bytes starts with"):
            lab.wait(30)
        assert "an IDX file of unsigned bytes starts with" in lab.controls.message.value
        lab.set(source="synthetic", steps=20, trials=1)
        assert lab.wait(30) and lab.error is None
    finally:
        lab.close()


def test_a_download_is_asked_for_by_name_and_made_by_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "MIRRORS", ("http://127.0.0.1:9/",))  # nobody listens there
    lab = RouterAlignmentLab(mnist="download", playing=False)
    try:
        assert not mnist.find(), "nothing is fetched before a run on MNIST begins"
        with pytest.raises(RuntimeError, match="could not be downloaded"):
            lab.wait(60)
        assert "could not be downloaded" in lab.controls.message.value
    finally:
        lab.close()
