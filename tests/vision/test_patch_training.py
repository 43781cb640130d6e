"""Training of WRN-pMoE: its tasks, its Snapshots, and trials that do not depend on each other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import collect, final
from moe_lab.vision import WRN, PatchWRN, QuadrantTask, VehiclesTask
from moe_lab.vision.patches import train
from moe_lab.vision.patches.data import cells_in
from tests.vision.cifar_files import cifar10, records

TINY: dict[str, Any] = {"samples": 24, "test_samples": 10, "epochs": 2, "examples": 3, "record_every": 2}
SMALL = PatchWRN(trunk="plain", batch_size=8, experts=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cifar10(tmp_path_factory.mktemp("cifar"), count=40)


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_the_digit_of_the_class_is_in_its_box_and_others_elsewhere() -> None:
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    known = {(image / 16).tobytes(): int(digit) for image, digit in zip(pixels, digits, strict=True)}
    task = QuadrantTask(noise=0, digits=(2, 7))
    seen: dict[str, set[bytes]] = {}
    for split in ("train", "test"):
        samples = task.sample(60, trials=[0], seed=1, split=split, dtype=torch.float64)  # type: ignore[arg-type]
        for image, label, box in zip(samples.images[0, :, 0], samples.labels[0], samples.boxes[0], strict=True):
            top, left, height, width = box.tolist()
            assert (height, width) == (8, 8)
            tiles = {(r, c): image[r : r + 8, c : c + 8].flatten().numpy() for r in (0, 8) for c in (0, 8)}
            found = {place: known[tile.tobytes()] for place, tile in tiles.items()}
            assert found.pop((top, left)) == (2, 7)[int(label)] and not {2, 7} & set(found.values())
            seen.setdefault(split, set()).update(tile.tobytes() for tile in tiles.values())
    assert not seen["train"] & seen["test"]


def test_cells_have_their_center_in_the_box() -> None:
    inside = cells_in(torch.tensor([[0, 8, 8, 8], [3, 3, 9, 4]]), side=16, cells=4)
    assert inside[0].nonzero().flatten().tolist() == [2, 3, 6, 7]
    assert inside[1].nonzero().flatten().tolist() == [5, 9]  # centers at 2, 6, 10, 14


def test_fewer_samples_are_the_first_of_more_and_trials_are_independent() -> None:
    task = QuadrantTask()
    many, few = task.sample(40, trials=[3, 4], seed=2), task.sample(12, trials=[4], seed=2)
    for name in ("images", "labels", "boxes"):
        assert torch.equal(getattr(many, name)[1, :12], getattr(few, name)[0])
    assert not torch.equal(many.images[0], many.images[1])


def test_vehicles_are_halved_into_a_quadrant_among_animals(folder: Path) -> None:
    samples = VehiclesTask(root=folder).sample(16, trials=[0], seed=0)
    raw = np.concatenate([np.frombuffer(records(40, start), np.uint8).reshape(-1, 3073) for start in range(5)])
    means = raw[:, 1:].reshape(-1, 3, 16, 2, 16, 2).mean((3, 5)) / 255
    for image, label, box in zip(samples.images[0], samples.labels[0], samples.boxes[0], strict=True):
        for top in (0, 16):
            for left in (0, 16):
                tile = image[:, top : top + 16, left : left + 16].numpy()
                (match,) = np.flatnonzero(np.abs(means - tile).max((1, 2, 3)) < 1e-5)
                if [top, left] == box[:2].tolist():
                    assert raw[match, 0] == (0, 1, 8, 9)[int(label)]
                else:
                    assert raw[match, 0] in (2, 3, 4, 5, 6, 7)


def test_variants_of_vehicles(folder: Path, tmp_path: Path) -> None:
    many = {"trials": [0], "seed": 0}
    classes = VehiclesTask(root=folder, variant="classes").sample(20, **many)
    assert classes.labels.max() == 9 and (classes.boxes[0, 0] == torch.tensor([0, 0, 32, 32])).all()
    background = tmp_path / "train.bin"
    background.write_bytes(records(40, 77, label_bytes=2))
    flowers = np.frombuffer(background.read_bytes(), np.uint8).reshape(-1, 3074)
    flowers = flowers[np.isin(flowers[:, 0], (2, 17)), 2:].reshape(-1, 3, 32, 32) / 255
    task = VehiclesTask(root=folder, variant="noise", background_root=tmp_path)
    noisy = task.sample(20, **many)
    for image, (top, left, height, width) in zip(noisy.images[0].numpy(), noisy.boxes[0].tolist(), strict=True):
        outside = np.ones((32, 32), bool)
        outside[top : top + height, left : left + width] = False
        assert (np.abs(flowers - image)[:, :, outside].max((1, 2)) < 1e-6).any()
    tied = VehiclesTask(root=folder, variant="spurious", spurious=1.0)
    images = tied.sample(80, **many).images[0], VehiclesTask(root=folder).sample(80, **many).images[0]
    assert not torch.equal(*images)
    with pytest.raises(ConfigError, match="needs root="):
        VehiclesTask()
    with pytest.raises(FileNotFoundError, match=r"must hold data_batch_1\.bin"):
        next(train(WRN(), VehiclesTask(root=tmp_path)))


# --- training -------------------------------------------------------------------------------------------------------


def test_a_step_is_plain_sgd_on_the_batch() -> None:
    """The second Snapshot's loss from a loop written out here."""
    task, settings = QuadrantTask(), {**TINY, "trials": 1, "precision": "float64", "record_every": 3, "epochs": 1}
    *_, last = train(SMALL, task, **settings)
    data = task.sample(24, trials=[0], seed=0, dtype=torch.float64)
    from moe_lab.core.trials import stream

    network = SMALL.build(task.image, 4, random=stream(0, 0, "weights"), dtype=torch.float64).train()
    rows = torch.as_tensor(stream(0, 0, "order").permutation(24))
    losses = []
    for batch in rows.split(8):
        loss = torch.nn.functional.cross_entropy(network(data.images[0, batch]), data.labels[0, batch])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(network.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
        losses.append(loss.item())
    np.testing.assert_allclose(last["train_loss"], np.mean(losses), rtol=1e-10)
    test = task.sample(10, trials=[0], seed=0, split="test", dtype=torch.float64)
    right = network.eval()(test.images[0]).argmax(1) == test.labels[0]
    np.testing.assert_allclose(last["test_accuracy"], right.double().mean().item())


def test_kept_share_counts_the_cells_of_the_masks() -> None:
    last = final(train(SMALL, QuadrantTask(), **{**TINY, "trials": 2, "examples": 10}))
    kept, gates = last["example_kept"], last["example_gates"]
    assert kept.shape == (2, 10, 2, 16) and (kept.sum(-1) == 4).all() and ((gates > 0) == (kept > 0)).all()
    boxes = torch.as_tensor(last["example_boxes"]).long()
    inside = cells_in(boxes, 16, 4).numpy()[:, :, None]
    np.testing.assert_allclose(last["kept_in_object"], (kept * inside).sum((1, 2, 3)) / kept.sum((1, 2, 3)))
    np.testing.assert_allclose(
        last["gate_in_object"], (gates * inside).sum((1, 2, 3)) / gates.sum((1, 2, 3)), rtol=1e-5
    )
    np.testing.assert_allclose(last["chance"], 0.25)
    assert "kept_in_object" not in final(train(WRN(trunk="plain"), QuadrantTask(), **TINY, trials=1)).values


def test_learned_gates_find_the_object_and_solve_the_task() -> None:
    """Accuracy about .8 within a hundred steps, and more kept patches in the object than by chance."""
    model = PatchWRN(trunk="plain", batch_size=64)
    settings: dict[str, Any] = {"samples": 800, "epochs": 8, "trials": 1, "record_every": 10**6}
    data = collect(train(model, QuadrantTask(), **settings))
    assert float(data["test_accuracy"][-1, 0]) > 0.7
    assert float(data["kept_in_object"][-1, 0]) > 0.28 > 0.25 == float(data["chance"][0])
    assert "PatchWRN(trunk='plain', batch_size=64)" in data.attrs["call"] and data.attrs["paper"].startswith("pmoe2023")


def test_origin_says_that_files_were_not_checked(folder: Path) -> None:
    snapshot = next(train(WRN(), VehiclesTask(root=folder), **TINY, trials=1))
    assert snapshot.origin["images"] == "files, not hash-checked" and str(folder) in snapshot.origin["call"]


def test_controls_see_the_same_samples_and_may_be_measured_more_rarely() -> None:
    settings: dict[str, Any] = {**TINY, "trials": 2, "record_every": 1}
    models = (SMALL, SMALL.replace(gates="none"), WRN(trunk="plain", batch_size=8))
    often = [list(train(model, QuadrantTask(), **settings)) for model in models]
    seldom = list(train(models[1], QuadrantTask(), measure_every=3, **settings))
    assert all("test_accuracy" in snapshot.values for snapshot in often[1])
    assert [snapshot.step for snapshot in seldom if "test_accuracy" in snapshot.values] == [0, 3, 6]
    for one, other in zip(seldom, often[1], strict=True):
        np.testing.assert_array_equal(one["train_loss"], other["train_loss"])
    assert all(np.array_equal(a[0]["example_images"], b[0]["example_images"]) for a, b in pairwise(often))


def test_what_is_told_of_training_is_of_the_steps_since_the_last_snapshot() -> None:
    each, pairs = (
        list(train(SMALL, QuadrantTask(), trials=2, seed=4, **{**TINY, "record_every": every}, precision="float64"))
        for every in (1, 2)
    )
    for name in ("train_loss", "train_accuracy"):
        single = np.array([one[name] for one in each[1:]])
        assert np.isnan(each[0][name]).all() and single.std(0).all()
        np.testing.assert_allclose([one[name] for one in pairs[1:]], (single[::2] + single[1::2]) / 2)
