"""Layers against Keras's rules, worked out by hand on small arrays."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from moe_lab.vision.layers import Gates, SameConv2d, made, norm


def convolved(x: np.ndarray, kernel: np.ndarray, stride: int, above: int, below: int) -> np.ndarray:
    """A plain loop over an image padded by hand."""
    padded = np.pad(x, ((above, below), (above, below)))
    size, side = len(kernel), (len(padded) - len(kernel)) // stride + 1
    out = np.empty((side, side))
    for row in range(side):
        for column in range(side):
            top, left = row * stride, column * stride
            out[row, column] = (padded[top : top + size, left : left + size] * kernel).sum()
    return out


def test_same_convolutions_pad_as_keras_does() -> None:
    random = np.random.default_rng(0)
    kernel = random.normal(size=(3, 3))
    for side, stride, above, below in ((6, 2, 0, 1), (5, 2, 1, 1), (6, 1, 1, 1), (7, 1, 1, 1)):
        x = random.normal(size=(side, side))
        layer = SameConv2d(1, 1, 3, stride).double()
        with torch.no_grad():
            layer.weight.copy_(torch.as_tensor(kernel)[None, None])
            layer.bias.fill_(0.5)
            found = layer(torch.as_tensor(x)[None, None])[0, 0]
        np.testing.assert_allclose(found, convolved(x, kernel, stride, above, below) + 0.5, atol=1e-12)


def test_stride_two_sees_the_first_pixel_in_its_corner() -> None:
    layer = SameConv2d(1, 1, 3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(9.0).view(1, 1, 3, 3))
        layer.bias.zero_()
        image = torch.zeros(1, 1, 4, 4)
        image[..., 0, 0] = 1
        assert layer(image).flatten().tolist() == [0, 0, 0, 0]  # Keras; torch's padding=1 would give 4
        image[..., 0, 0], image[..., 3, 3] = 0, 1
        assert layer(image).flatten().tolist() == [0, 0, 0, 4]


def test_batch_norm_averages_as_keras_does() -> None:
    layer = norm(1).double()
    x = torch.tensor([1.0, 3.0], dtype=torch.float64).view(2, 1, 1, 1)
    found = layer(x).detach().flatten().numpy()
    np.testing.assert_allclose(found, np.array([-1, 1]) / np.sqrt(1 + 1e-3), atol=1e-12)
    # moving mean: .99 * 0 + .01 * 2; moving variance, of a sample of two: .99 * 1 + .01 * 2
    np.testing.assert_allclose([layer.running_mean.item(), layer.running_var.item()], [0.02, 1.01], atol=1e-12)


def test_weights_start_as_in_keras_and_draw_nothing_from_torch() -> None:
    def build() -> nn.Module:
        return nn.Sequential(SameConv2d(3, 50, 3), Gates(40, 50, 2), norm(50), nn.Linear(50, 10))

    before = torch.random.get_rng_state()
    network = made(build, np.random.default_rng(0), "keras", torch.device("cpu"), torch.float32)
    assert torch.equal(torch.random.get_rng_state(), before)
    limit = np.sqrt(6 / (9 * 3 + 9 * 50))
    weight = network[0].weight.detach().numpy()
    assert 0.99 * limit < np.abs(weight).max() < limit and abs(weight.std() - limit / np.sqrt(3)) < 0.01 * limit
    assert not network[0].bias.any() and not network[3].bias.any()
    assert abs(network[1].weight.std().item() / 1e-4 - 1) < 0.02
    again = made(build, np.random.default_rng(0), "keras", torch.device("cpu"), torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True))
