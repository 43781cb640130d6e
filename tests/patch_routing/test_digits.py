"""Digit samples: the right images in the right places, none of them in training and in testing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import final
from moe_lab.datasets import digits as embedded
from moe_lab.datasets import mnist
from moe_lab.patch_routing import DigitTask, JointMoE, train
from moe_lab.patch_routing.data import SIGNAL, PatchSamples


@pytest.fixture(params=["digits", "mnist"])
def task(request: pytest.FixtureRequest) -> DigitTask:
    """Both sources; MNIST's folder comes from `shared_data`, which skips where there is none."""
    return mnist_task(request) if request.param == "mnist" else DigitTask()


def mnist_task(request: pytest.FixtureRequest) -> DigitTask:
    root: Path = request.getfixturevalue("shared_data") / "mnist-t10k"
    return DigitTask(source="mnist", root=root, digits=(1, 0))


def drawn(task: DigitTask, samples: int = 120, trials: tuple[int, ...] = (0, 1), **more: Any) -> PatchSamples:
    return task.sample(samples, trials=trials, seed=3, **{"dtype": torch.float64, **more})


def images_of(task: DigitTask) -> tuple[np.ndarray, np.ndarray]:
    """The prepared images and their digits, worked out here from the loaded files."""
    loaded = embedded.load() if task.source == "digits" else mnist.load(task.root)
    pixels = np.asarray(loaded.images, dtype=np.float64)
    if task.source == "digits":
        pixels = pixels - pixels.mean(axis=0)
    return pixels / np.linalg.norm(pixels, axis=1, keepdims=True), loaded.labels


def test_every_patch_is_an_image_of_the_right_digit(task: DigitTask) -> None:
    pixels, labels = images_of(task)
    for split in ("train", "test"):
        samples = drawn(task, split=split)
        np.testing.assert_allclose(samples.bank[0].numpy(), pixels, atol=1e-9)
        shown = labels[samples.index.numpy()]
        is_signal = (samples.roles == SIGNAL).numpy()
        assert (is_signal.sum(-1) == 1).all()
        assert (shown[is_signal].reshape(2, -1) == np.array(task.digits)[samples.labels.numpy()]).all()
        assert not np.isin(shown[~is_signal], task.digits).any()
        assert set(shown[~is_signal].tolist()) == set(range(10)) - set(task.digits)
        assert (np.take_along_axis(is_signal, samples.signal.numpy()[..., None], -1)).all()
        norms = samples.patches().norm(dim=-1)
        torch.testing.assert_close(norms, torch.ones_like(norms))


def test_no_test_sample_shows_a_training_image(task: DigitTask) -> None:
    train_images, test_images = (
        set(drawn(task, 4000, split=split).index.flatten().tolist()) for split in ("train", "test")
    )
    assert not train_images & test_images
    assert len(test_images) > 100 and len(train_images) > 2 * len(test_images)


def test_labels_balance_and_signals_are_everywhere(task: DigitTask) -> None:
    samples = drawn(task, 1600)
    assert (samples.labels.float().mean(1) == 0.5).all()
    shares = torch.bincount(samples.signal.flatten(), minlength=task.patches) / 3200
    assert (shares - 1 / task.patches).abs().max() < 0.02


def test_more_than_two_digits() -> None:
    task = DigitTask(digits=(3, 1, 4))
    _, labels = images_of(task)
    samples = drawn(task)
    shown = labels[samples.index.gather(-1, samples.signal[..., None])[..., 0].numpy()]
    assert (shown == np.array([3, 1, 4])[samples.labels.numpy()]).all() and task.classes == 3


@pytest.mark.parametrize("noise", [0.2, 1.0])
def test_noise_is_of_the_sample_not_of_the_image(noise: float) -> None:
    clean, noisy = drawn(DigitTask(), 400), drawn(DigitTask(noise=noise), 400)
    difference = (noisy.patches() - clean.patches()).flatten(0, 2)
    assert abs(float(difference.square().sum(-1).mean().sqrt()) - noise) < 0.02 * noise
    same = clean.index[0].flatten() == clean.index[0, 0, 0]  # the same image again
    copies = difference[: len(same)][same]
    assert len(copies) > 1 and (torch.pdist(copies) > 0.5 * noise).all()
    for name in ("labels", "signal", "roles", "sides"):
        assert torch.equal(getattr(clean, name), getattr(noisy, name))


def test_signals_are_the_mean_training_images(task: DigitTask) -> None:
    pixels, labels = images_of(task)
    signals = task.signals([0, 7], seed=3)
    assert signals.shape == (2, 2, pixels.shape[1]) and task.dimension == pixels.shape[1]
    torch.testing.assert_close(signals.norm(dim=-1), torch.ones(2, 2, dtype=torch.float64))
    for place, digit in enumerate(task.digits):
        cosines = pixels[labels == digit] @ signals[0, place].numpy()
        others = pixels[labels != digit] @ signals[0, place].numpy()
        assert cosines.mean() > others.mean() + 0.2


def test_mnist_trains(request: pytest.FixtureRequest) -> None:
    """The paper's own setting, l=6, k=8: 100 samples give about 92 % (figure 4)."""
    task = mnist_task(request)
    run = final(train(JointMoE(), task, samples=100, trials=1, seed=21, measure="last", device="cpu"))
    assert run["test_accuracy"].mean() > 0.85 and not run.diverged.any()


@pytest.mark.parametrize("digits", [(1,), (1, 1), (1, 12), (-1, 2), tuple(range(10))])
def test_digits_must_differ_and_leave_some_over(digits: tuple[int, ...]) -> None:
    with pytest.raises(
        ConfigError, match=r"^digits \(o\) must be two to nine different digits from 0 to 9: got digits="
    ):
        DigitTask(digits=digits)


def test_mnist_needs_a_folder() -> None:
    with pytest.raises(ConfigError, match=r"^source='mnist' needs root= \(a folder of IDX files\) or download=True"):
        DigitTask(source="mnist")


def test_a_missing_or_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    absent = DigitTask(source="mnist", root=tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="MNIST's folder must exist: got root="):
        train(JointMoE(), absent)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(b"not an image")
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"nor a label")
    with pytest.raises(ValueError, match=r"an IDX file of unsigned bytes starts with 00 00 08 and .*t10k-images"):
        train(JointMoE(), DigitTask(source="mnist", root=tmp_path))
