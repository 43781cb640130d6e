"""The figures of the room: what they return, that they can be made again, and what the pictures draw."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression

from moe_lab.core.snapshots import final
from moe_lab.vision import PatchWRN, QuadrantTask, SmallCNN, figures, patches, plots, rotation
from moe_lab.vision.rotation.data import TurnTask
from moe_lab.vision.rotation.live import sort
from tests.vision.cifar_files import cifar10

SMALL = {"steps": 2, "test_samples": 40}


@functools.cache
def samples() -> xr.Dataset:
    return figures.sample_complexity((20, 40), ("learned", "none", "conv"), trials=2, seed=3, **SMALL)


@functools.cache
def turns() -> xr.Dataset:
    return figures.controls("reversed", trials=2, samples=60, epochs=1, test_samples=40)


compute = functools.cache(figures.compute)
ALL = {"samples": samples, "turns": turns, "compute": compute}


def test_sample_complexity_is_what_train_gives() -> None:
    data = samples()
    model = PatchWRN(trunk="plain")
    run = final(patches.train(model, QuadrantTask(), samples=40, trials=2, seed=3, epochs=2, test_samples=40))
    np.testing.assert_array_equal(data["test_accuracy"].sel(samples=40, model="learned"), run["test_accuracy"])
    np.testing.assert_array_equal(data["kept_in_object"].sel(samples=40, model="learned"), run["kept_in_object"])
    assert data["chance"].dims == ("samples", "trial") and (data["chance"] == 0.25).all()
    assert np.isnan(data["kept_in_object"].sel(model="conv")).all()


def test_sample_complexity_on_cifar(tmp_path: Path) -> None:
    folder = cifar10(tmp_path, count=20)
    data = figures.sample_complexity(12, ("learned", "conv"), 1, root=folder, steps=1, test_samples=8)
    assert data["test_accuracy"].shape == (1, 2, 1) and data.attrs["images"] == "files, not hash-checked"
    assert float(data["chance"][0, 0]) == 0.25  # a quadrant


def test_compute_counts_beside_what_is_published() -> None:
    data = compute()
    first = data.sel(samples=4000)
    assert f"{float(first['training_flops'].sel(model='WRN')):.1e}" == "4.8e+15"
    assert float(first["published_flops"].sel(model="WRN")) == 6e15
    share = data["training_flops"].sel(model="WRN-pMoE") / data["training_flops"].sel(model="WRN")
    skipping = data["training_flops_skipping"].sel(model="WRN-pMoE") / data["training_flops"].sel(model="WRN")
    np.testing.assert_allclose(share, 0.987, atol=5e-4)
    np.testing.assert_allclose(skipping, 0.780, atol=5e-4)
    published = data["published_flops"].sel(model="WRN-pMoE") / data["published_flops"].sel(model="WRN")
    np.testing.assert_allclose(published, [3.5 / 6, 4.4 / 7.5, 6.4 / 11, 8.5 / 15])


def test_controls_have_the_sizes_that_their_names_say() -> None:
    data = turns()
    assert list(data["model"].values) == list(figures.CONTROLS)
    count = {name: int(data["parameters"].sel(model=name)) for name in figures.CONTROLS}
    assert count["linear"] == 145 and count["single"] == 48 and count["wide"] == 130
    assert count["oracle"] == count["random"] == 2 * 48 and count["mixture"] == 2 * 48 + 2 * 145
    assert abs(count["same parameters"] / count["oracle"] - 1) < 0.1
    run = final(rotation.train(SmallCNN(filters=(1, 2)), TurnTask(), samples=60, epochs=1, trials=2, test_samples=40))
    np.testing.assert_array_equal(data["test_accuracy"].sel(model="single"), run["test_accuracy"])
    loads = data["expert_load"].sel(model=["mixture", "balanced", "oracle", "random"]).sum("expert")
    np.testing.assert_allclose(loads, 1)
    assert (data["dispatch_entropy"].sel(model="oracle") == 0).all()
    assert data.attrs["paper"].startswith("chen2022") and data.attrs["seed"] == 0


@pytest.mark.parametrize("kind", ["leaky", "reversed", "jittered"])
def test_a_linear_function_of_the_pixels_solves_all_turned_digits(kind: str) -> None:
    """Against scikit-learn's least squares; no network has more than .98 on the jittered ones."""
    data = figures.controls(kind, ("linear",), trials=1, seed=5)
    accuracy = data["test_accuracy"].item()
    assert accuracy > 0.985 and data.attrs["seed"] == 5
    train, test = (
        TurnTask(kind=kind).sample(count, trials=[0], seed=5, split=split, dtype=torch.float64)
        for count, split in ((2000, "train"), (600, "test"))
    )
    model = LinearRegression().fit(train.images[0].flatten(1), 2 * train.labels[0] - 1)
    right = (model.predict(test.images[0].flatten(1)) > 0) == (test.labels[0].numpy() == 1)
    assert accuracy == pytest.approx(right.mean(), abs=1.5 / 600)


# --- pictures -------------------------------------------------------------------------------------------------------


def drawn(page: Figure) -> dict[str, list[np.ndarray]]:
    """The vertical data of all lines of a page, by gid, after really drawing it."""
    FigureCanvasAgg(page).draw()
    found: dict[str, list[np.ndarray]] = {}
    for axes in page.axes:
        for line in axes.lines:
            found.setdefault(line.get_gid() or "", []).append(np.asarray(line.get_ydata(), dtype=float))
    return found


@pytest.mark.parametrize("name", ALL)
def test_pictures_draw_what_the_datasets_hold(name: str) -> None:
    data = ALL[name]()
    page = plots.picture(data)
    lines, sentence = drawn(page), plots.caption(data)
    if name == "compute":
        for found, model in zip(lines["counted"], ("WRN-pMoE", "WRN"), strict=True):
            np.testing.assert_array_equal(found, data["training_flops"].sel(model=model))
        assert len(lines["paper"]) == 8 and "less than the printed 6e+15" in sentence
    else:
        medians = data["test_accuracy"].median("trial")
        wanted = medians.values.T if name == "samples" else np.stack([medians.values] * 2, 1)
        for found, values in zip(lines["median"], wanted, strict=False):
            np.testing.assert_allclose(found, values)
        best = 100 * float(
            medians.isel(samples=-1).sel(model="none") if name == "samples" else medians.sel(model="wide")
        )
        assert f"{'no gates' if name == 'samples' else 'wide'} {best:.{0 if name == 'samples' else 1}f} %" in sentence
    assert sentence.endswith(".")


def test_an_object_is_framed() -> None:
    image = np.zeros((1, 16, 16))
    image[0, 9, 2] = 1.0
    axes = Figure().add_subplot()
    plots.framed(image, np.array([8, 0, 8, 8]), axes)
    (shown,), (frame,) = axes.get_images(), axes.patches
    assert shown.get_array()[9, 2].tolist() == [0, 0, 0] and shown.get_array()[0, 0].tolist() == [1, 1, 1]
    assert (*frame.get_xy(), frame.get_width(), frame.get_height()) == (-0.5, 7.5, 8, 8)


def test_kept_patches_are_lit_and_the_object_framed() -> None:
    run = patches.train(PatchWRN(trunk="plain"), QuadrantTask(), samples=20, trials=1, epochs=1, test_samples=4)
    snapshot = final(run)
    axes = Figure().add_subplot()
    plots.kept_patches(snapshot, axes, example=2, expert=1)
    (shown,), (frame,) = axes.images, axes.patches
    image = 1 - np.clip(snapshot["example_images"][0, 2, 0], 0, 1)
    lit = np.isclose(shown.get_array()[..., 0], image).reshape(4, 4, 4, 4).all((1, 3)).ravel()
    assert (lit == (snapshot["example_kept"][0, 2, 1] == 1)).all()
    top, left, height, width = snapshot["example_boxes"][0, 2]
    assert (frame.get_x(), frame.get_y(), frame.get_width(), frame.get_height()) == (
        left - 0.5,
        top - 0.5,
        width,
        height,
    )
    with pytest.raises(ValueError, match="must be of a PatchWRN"):
        plots.kept_patches(final(rotation.train(SmallCNN(), TurnTask(), samples=20, trials=1, epochs=1)), axes)


def test_images_lie_in_the_bins_of_their_experts_and_wrong_ones_have_crosses() -> None:
    moments = list(sort(TurnTask(), samples=60, trials=1, epochs=1, test_samples=30, examples=20, record_every=1))
    for moment in (moments[0], moments[-1]):
        axes = Figure().add_subplot()
        plots.sorting(moment, axes)
        images = [image for image in axes.images if image.get_gid() == "image"]
        middles = sorted((image.get_extent()[0] // (6 * 13 + 3)) for image in images)
        assert middles == sorted(moment.expert.tolist())
        assert len([line for line in axes.lines if line.get_gid() == "wrong"]) == (~moment.right).sum()
        assert axes.get_title(loc="left") == f"step {moment.step}: {100 * moment.right.mean():.0f} % right"
