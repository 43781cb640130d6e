"""Mixtures of convolutional networks on turned images: dispatch, training, the leak, and who goes where."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import final
from moe_lab.core.trials import stream
from moe_lab.vision import CifarRotateTask, Mixture, ResNet18, SmallCNN, TurnTask
from moe_lab.vision.rotation import live, train
from moe_lab.vision.rotation.data import blurred, turned
from moe_lab.vision.rotation.network import MixtureNetwork, balance_loss
from moe_lab.vision.rotation.training import normalized
from tests.vision.cifar_files import cifar10

TINY: dict[str, Any] = {"samples": 60, "test_samples": 20, "epochs": 2, "examples": 5, "record_every": 3}

# --- images ---------------------------------------------------------------------------------------------------------


def test_a_quarter_turn_moves_pixels_and_half_of_it_interpolates() -> None:
    image = torch.arange(16.0, dtype=torch.float64).view(1, 1, 4, 4)
    quarter = turned(image, np.array([90.0]))[0, 0]
    np.testing.assert_allclose(quarter, np.rot90(image[0, 0]), atol=1e-12)  # counterclockwise
    both = turned(torch.cat([image, image]), np.array([0.0, 180.0]))
    np.testing.assert_allclose(both[0, 0], image[0, 0], atol=1e-12)
    np.testing.assert_allclose(both[1, 0], image[0, 0].flip(0, 1), atol=1e-12)
    nearest = turned(torch.rand(1, 1, 8, 8, dtype=torch.float64), np.array([30.0]), "nearest")
    assert len(nearest.unique()) > 20


def test_blur_is_a_gaussian_of_each_image() -> None:
    x = torch.rand(2, 2, 6, 5, dtype=torch.float64)
    sigmas = np.array([0.8, 2.0])
    found = blurred(x, sigmas, (3, 3))
    for image, sigma, got in zip(x.numpy(), sigmas, found.numpy(), strict=True):
        kernel = np.exp(-0.5 * (np.array([-1, 0, 1]) / sigma) ** 2)
        kernel = np.outer(kernel, kernel) / kernel.sum() ** 2
        padded = np.pad(image, ((0, 0), (1, 1), (1, 1)), mode="reflect")
        for c, r, k in np.ndindex(got.shape):
            np.testing.assert_allclose(got[c, r, k], (padded[c, r : r + 3, k : k + 3] * kernel).sum(), atol=1e-12)


def test_kinds_are_what_they_say() -> None:
    common: dict[str, Any] = {"trials": [0], "seed": 0, "dtype": torch.float64}
    leaky = TurnTask(kind="leaky").sample(40, **common)
    pixels = leaky.images * 16  # digits that are not turned have whole grey values
    whole = (pixels - pixels.round()).abs().amax((2, 3, 4))[0] < 1e-9
    assert torch.equal(whole, leaky.labels[0] == 0)
    reversed_ = TurnTask().sample(40, **common)
    assert torch.equal(reversed_.images[0].mean((1, 2, 3)) > 0.5, reversed_.clusters[0] == 1)
    straight = TurnTask(angle=1e-9).sample(40, **common)  # the same digits, not turned
    upright = torch.where(straight.clusters[0, :, None, None, None] == 1, 1 - straight.images[0], straight.images[0])
    left = (reversed_.labels[0] == 1) != (reversed_.clusters[0] == 1)
    wanted = turned(upright, np.where(left, 25.0, -25.0))
    found = torch.where(reversed_.clusters[0, :, None, None, None] == 1, 1 - reversed_.images[0], reversed_.images[0])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    few = TurnTask().sample(9, trials=[0], seed=0, dtype=torch.float64)
    torch.testing.assert_close(few.images[0], reversed_.images[0, :9], rtol=0, atol=1e-12)


def test_cifar_is_turned_from_a_folder(tmp_path: Path) -> None:
    folder = cifar10(tmp_path, count=12)
    task = CifarRotateTask(root=folder, blur="none")
    samples = task.sample(30, trials=[0, 1], seed=0)
    assert samples.images.shape == (2, 30, 3, 32, 32) and samples.labels[0].tolist() == [0, 1] * 15
    assert torch.equal(samples.clusters[0, ::2], samples.clusters[0, 1::2])  # an image, then its turned copy
    assert not torch.equal(samples.clusters[0], samples.clusters[1])
    blurry = CifarRotateTask(root=folder).sample(30, trials=[0], seed=0)
    assert blurry.images.std() < 0.8 * samples.images[0].std()
    tasks = (CifarRotateTask(root=folder), task)  # test images are not blurred in either
    first, second = (each.sample(8, trials=[0], seed=0, split="test").images for each in tasks)
    assert torch.equal(first, second)
    last = final(train(SmallCNN(), task, samples=12, test_samples=6, trials=1, epochs=1))
    assert last["test_accuracy"].shape == (1,) and last.origin["images"] == "files, not hash-checked"
    with pytest.raises(ConfigError, match="needs root="):
        CifarRotateTask()


# --- networks -------------------------------------------------------------------------------------------------------


def test_parameters_are_those_of_the_papers_networks() -> None:
    assert ResNet18().parameters == 11_169_858
    assert SmallCNN().count((1, 8, 8)).parameters == 2 * 10 + 4 * 19 + 2 * 17 == 130
    routers = 4 * (64 + 1)
    count = Mixture(experts=4).count((1, 8, 8))
    assert count.parameters == 4 * 130 + routers and count.macs == SmallCNN().count((1, 8, 8)).macs + 4 * 64
    built = Mixture(experts=4).build((1, 8, 8))
    assert sum(part.numel() for part in built.parameters()) == count.parameters


def mixture(experts: int) -> MixtureNetwork:
    network = Mixture(experts=experts).build((1, 8, 8), random=np.random.default_rng(1), dtype=torch.float64)
    assert isinstance(network, MixtureNetwork) and network.router is not None
    torch.nn.init.normal_(network.router.weight, std=0.3, generator=torch.Generator().manual_seed(0))
    return network


def images(count: int) -> torch.Tensor:
    return torch.rand(count, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) - 0.5


def test_dispatch_equals_all_experts_masked() -> None:
    network, x = mixture(3), images(40)
    noise = torch.rand(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    sent = network.dispatched(x, noise)
    scores = x.flatten(1) @ network.router.weight.T + network.router.bias
    chosen = (scores + noise).argmax(1)
    everything = torch.stack([expert(x) for expert in network.experts], 1)
    mask = torch.nn.functional.one_hot(chosen, 3)
    wanted = (mask * scores.softmax(1))[..., None] * everything
    torch.testing.assert_close(sent.logits, wanted.sum(1), rtol=0, atol=1e-12)
    assert len(sent.expert.unique()) == 3
    grads = [torch.autograd.grad(y.square().sum(), list(network.parameters())) for y in (sent.logits, wanted.sum(1))]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_a_mixture_of_one_is_its_expert() -> None:
    network, x = mixture(1), images(10)
    torch.testing.assert_close(network(x), network.experts[0](x), rtol=0, atol=1e-14)
    settings = {**TINY, "trials": 2, "precision": "float64"}
    one = final(train(Mixture(experts=1), TurnTask(), **settings))
    single = final(train(SmallCNN(), TurnTask(), **settings))
    np.testing.assert_allclose(one["train_loss"], single["train_loss"], rtol=1e-10)
    np.testing.assert_array_equal(one["example_predicted"], single["example_predicted"])


def test_balance_by_hand() -> None:
    even, one = torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 0, 0])
    scores = torch.tensor([[3.0, 0.0]] * 4, dtype=torch.float64)
    gate = 1 / (1 + np.exp(-3))
    np.testing.assert_allclose(balance_loss(scores, one), 2 * gate)
    np.testing.assert_allclose(balance_loss(scores, even), 1)


def test_normalised_gradients_have_length_one_for_each_expert() -> None:
    network = Mixture(experts=3, routing="oracle").build((1, 8, 8), dtype=torch.float64)
    network.dispatched(images(20), expert=torch.arange(20) % 2).logits.square().sum().backward()
    parts = [list(expert.parameters()) for expert in network.experts]
    found = [normalized([one.grad for one in part]) for part in parts]
    for own in found[:2]:
        assert sum(one.square().sum() for one in own).item() == pytest.approx(1)  # type: ignore[union-attr]
    assert found[2] == [None] * len(parts[2])  # it was sent nothing
    scale = parts[0][0].grad.flatten()[0] / found[0][0].flatten()[0]  # type: ignore[union-attr]
    for weight, one in zip(parts[0], found[0], strict=True):
        torch.testing.assert_close(weight.grad, one * scale, rtol=1e-9, atol=1e-12)  # type: ignore[operator]
    assert normalized([torch.zeros(2)])[0].tolist() == [0, 0]  # type: ignore[union-attr]


# --- training -------------------------------------------------------------------------------------------------------


def test_steps_of_adam_and_the_router_are_those_of_a_plain_loop() -> None:
    """Two steps of a mixture written out, with the loss from logits that every expert computes."""
    model, task = Mixture(balance=0.2, router_learning_rate=0.5), TurnTask()
    settings: dict[str, Any] = {**TINY, "samples": 100, "epochs": 1, "trials": 1, "precision": "float64"}
    last = final(train(model, task, **settings))
    data = task.sample(100, trials=[0], seed=0, dtype=torch.float64)
    network = model.build(task.image, random=stream(0, 0, "weights"), dtype=torch.float64)
    adam = torch.optim.Adam(network.experts.parameters(), lr=0.01)
    sgd = torch.optim.SGD(network.router.parameters(), lr=0.5, momentum=0.9)
    uniform, losses = stream(0, 0, "router noise"), []
    for rows in torch.as_tensor(stream(0, 0, "order").permutation(100)).split(50):
        x, noise = data.images[0, rows], torch.as_tensor(uniform.random((50, 2)))
        scores = network.router(x.flatten(1))
        mask = torch.nn.functional.one_hot((scores + noise).argmax(1), 2).double()
        answers = torch.stack([expert(x) for expert in network.experts], 1)
        logits = ((mask * scores.softmax(1))[..., None] * answers).sum(1)
        loss = torch.nn.functional.cross_entropy(logits, data.labels[0, rows])
        network.zero_grad()
        (loss + 0.2 * 2 * (mask.mean(0) * scores.softmax(1).mean(0)).sum()).backward()
        adam.step()
        sgd.step()
        losses.append(loss.item())
    np.testing.assert_allclose(last["train_loss"], np.mean(losses), rtol=1e-10)
    test = task.sample(20, trials=[0], seed=0, split="test", dtype=torch.float64)
    expert = network.router(test.images[0].flatten(1)).argmax(1)
    np.testing.assert_array_equal(last["example_expert"][0], expert[:5])


@pytest.mark.parametrize(("kind", "low", "high"), [("leaky", 0.99, 1.0), ("jittered", 0.9, 0.985)])
def test_the_leak(kind: str, low: float, high: float) -> None:
    """130 parameters solve the leaky task and not the one without its leak."""
    settings: dict[str, Any] = {"samples": 2000, "epochs": 25, "trials": 1, "test_samples": 1200, "seed": 1}
    last = final(train(SmallCNN(), TurnTask(kind=kind), record_every=10**6, **settings))
    assert low <= last["test_accuracy"][0] <= high


# --- live -----------------------------------------------------------------------------------------------------------


def test_sorted_images_are_those_of_the_snapshots() -> None:
    settings = {**TINY, "trials": 2, "examples": 12, "record_every": 1, "epochs": 4}
    frames = list(live.sort(TurnTask(), trial=1, **settings))
    run = list(train(Mixture(), TurnTask(), **settings))
    assert [frame.step for frame in frames] == [snapshot.step for snapshot in run]
    for frame, snapshot in zip(frames, run, strict=True):
        np.testing.assert_array_equal(frame.expert, snapshot["example_expert"][1])
        np.testing.assert_array_equal(frame.right, snapshot["example_predicted"][1] == frame.labels)
    for before, frame in pairwise(frames):
        np.testing.assert_array_equal(frame.moved, frame.expert != before.expert)
    task = json.loads(run[0].origin["config"])[0]["task"]
    assert (task["kind"], task["turn_kind"]) == ("TurnTask", "reversed")
    assert frames[0].images.shape == (12, 1, 12, 12) and not frames[0].moved.any()
    test = TurnTask().sample(20, trials=[1], seed=0, split="test")
    np.testing.assert_array_equal(frames[0].clusters, test.clusters[0, :12])


def test_mixtures_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"balance \(lambda\) needs a learned router"):
        Mixture(routing="oracle", balance=0.1)
    with pytest.raises(ConfigError, match=r"filters \(J\) must be from 1 to 4096"):
        SmallCNN(filters=(0, 2))
