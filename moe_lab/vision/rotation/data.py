"""Is the image turned? Digits in three kinds, and CIFAR-10-Rotate (chen2022, section 6.2 and appendix A.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from moe_lab.core.config import knob, require
from moe_lab.core.trials import stream
from moe_lab.datasets.digits import LEVELS
from moe_lab.vision.images import CifarTask, Images, ImageTask, Split, digit_images, images_of

KINDS = ("reversed", "leaky", "jittered")
_PADDED = 12  # a turned 8x8 square fits into 12x12
_MEAN, _SPREAD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # of CIFAR-10's channels, as the authors have them
_CROP = 24


@dataclass(frozen=True)
class TurnSamples(Images):
    """Images of many trials, with labels 0 and 1 in turn.

    Attributes:
      clusters: (trials, N) what an oracle routes by: whether the image is a negative, or its original class.
    """

    clusters: Int[Tensor, "trials N"]


class _TurnedTask(ImageTask):
    """Turned images, and others."""

    paper: ClassVar[str] = "chen2022, table 2"
    drawn: ClassVar[type[TurnSamples]] = TurnSamples

    @property
    def classes(self) -> int:
        return 2

    @property
    def clusters(self) -> int:
        """K, the number of clusters."""
        raise NotImplementedError


class TurnTask(_TurnedTask):
    """8x8 digits, turned or not: CIFAR-10-Rotate in small, with and without what gives the answer away.

    Kinds:
      "leaky": label 1 is turned by 30 degrees, label 0 is as it was. That is how CIFAR-10-Rotate is made. A network of
        130 parameters solves it without recognising a digit: turning interpolates between pixels and cuts corners.
      "jittered": both labels are turned, by 0 and 30 degrees plus up to 12 either way, in an image large enough to lose
        nothing, cut to a disc, and blurred. What tells them apart is how the digit stands.
      "reversed": digits turned 25 degrees to the left or the right, half of them negatives. Left or right is the label,
        reversed on negatives: two clusters with opposite rules, as in chen2022's definition 3.1.

    The clusters are negatives and positives for "reversed", and the ten digits for the others.
    """

    kind: Literal["reversed", "leaky", "jittered"] = knob("reversed", meaning="which task", choices=KINDS)
    angle: float | None = knob(None, meaning="by how much digits are turned (none: 25 reversed, else 30)", gt=0, le=90)
    jitter: float = knob(12.0, meaning="jittered: most that is added to a turn", ge=0, le=45, unit="degrees")
    noise: float = knob(
        0.0, symbol="noise", meaning="Gaussian noise of a pixel (ink is 1)", ge=0, le=10, slider=(0.0, 1.0, 0.05)
    )

    @property
    def clusters(self) -> int:
        return 2 if self.kind == "reversed" else 10

    @property
    def image(self) -> tuple[int, int, int]:
        return (1, 8, 8) if self.kind == "leaky" else (1, _PADDED, _PADDED)

    def _sample_trial(self, samples: int, trial: int, seed: int, split: Split) -> tuple[Tensor, np.ndarray, np.ndarray]:
        levels, digits, is_test = digit_images()
        pool = images_of(is_test, split)
        uniform = stream(seed, trial, f"{split}/images").random((samples, 3))
        chosen = pool[(uniform[:, 0] * len(pool)).astype(np.int64)]
        labels = np.arange(samples) % 2
        negative = uniform[:, 1] < 0.5
        images = levels[chosen][:, None].to(torch.float64) / LEVELS
        if self.kind == "leaky":
            images = torch.where(_column(labels == 1), turned(images, np.full(samples, self.angle or 30.0)), images)
        else:
            margin = (_PADDED - images.shape[-1]) // 2
            images = turned(functional.pad(images, (margin,) * 4), self._angles(labels, negative, uniform[:, 2]))
        if self.kind == "jittered":
            images = blurred(images * _disc(_PADDED), np.full(samples, 0.6), (3, 3))
        if self.kind == "reversed":
            images = torch.where(_column(negative), 1 - images, images)
        if self.noise:
            noise = stream(seed, trial, f"{split}/noise").standard_normal(tuple(images.shape))
            images = images + self.noise * torch.as_tensor(noise)
        return images, labels, negative.astype(np.int64) if self.kind == "reversed" else digits[chosen]

    def _angles(self, labels: np.ndarray, negative: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        if self.kind == "reversed":
            return (self.angle or 25.0) * np.where((labels == 1) != negative, 1, -1)
        return (self.angle or 30.0) * labels + self.jitter * (2 * uniform - 1)


class CifarRotateTask(CifarTask, _TurnedTask):
    """CIFAR-10-Rotate: every image unturned (0) and turned by 30 degrees (1), from a folder of CIFAR-10's files.

    Images are turned, cropped to 24x24, enlarged to 32x32, blurred, and normalised by channel. The defaults are those
    of the authors' code: training images alone are blurred, where the paper says that noise is added to all; a turned
    pixel takes the value of the nearest one. Both give the answer away; `blur="both"`, `interpolation="bilinear"` and
    some `jitter` of both labels take that away.

    Args:
      root: a folder of CIFAR-10's binary version, or its archive (see `moe_lab.datasets.cifar`).
      download: whether to download it into the cache (170 MB, hash-checked) if no root is given.

    Raises:
      ConfigError: a value is out of bounds, or neither root nor download=True is given.
    """

    angle: float = knob(30.0, meaning="by how much images are turned", gt=0, le=90, unit="degrees")
    jitter: float = knob(0.0, meaning="most that is added to the turn of either label", ge=0, le=45, unit="degrees")
    blur: Literal["train", "both", "none"] = knob(
        "train", meaning="which images are blurred", choices=("train", "both", "none")
    )
    interpolation: Literal["nearest", "bilinear"] = knob(
        "nearest", meaning="how turned pixels take their values", choices=("nearest", "bilinear")
    )

    @property
    def clusters(self) -> int:
        return 10

    def _sample_trial(self, samples: int, trial: int, seed: int, split: Split) -> tuple[Tensor, np.ndarray, np.ndarray]:
        data = self.cifar
        pool = images_of(data.is_test, split)
        require(len(pool) > 0, f"the files must hold {split} images", images=len(data.labels))
        random = stream(seed, trial, f"{split}/images")
        # An image and its turned copy follow each other; a new round of the images begins where they are used up.
        rounds = [random.permutation(pool) for _ in range(-(-samples // (2 * len(pool))))]
        chosen = np.repeat(np.concatenate(rounds), 2)[:samples]
        labels = np.arange(samples) % 2
        uniform = stream(seed, trial, f"{split}/turns").random((samples, 2))
        angles = self.angle * labels + self.jitter * (2 * uniform[:, 0] - 1)
        sigmas = 1.1 + 1.1 * uniform[:, 1]
        parts = []
        for begin in range(0, samples, 1000):  # in parts, for memory
            rows = slice(begin, begin + 1000)
            images = torch.as_tensor(data.images[chosen[rows]]).float() / 255
            images = cropped(turned(images, angles[rows], self.interpolation))
            if self.blur == "both" or (self.blur == "train" and split == "train"):
                images = blurred(images, sigmas[rows], (7, 3))
            parts.append((images - _column(_MEAN, 1)) / _column(_SPREAD, 1))
        return torch.cat(parts), labels, data.labels[chosen]


# --- images ---------------------------------------------------------------------------------------------------------


def turned(images: Float[Tensor, "N C H W"], degrees: np.ndarray, mode: str = "bilinear") -> Float[Tensor, "N C H W"]:
    """Turns each image counterclockwise by its own angle around the center; what comes from outside is 0."""
    angles = torch.as_tensor(np.deg2rad(degrees)).to(images.dtype)
    cosine, sine, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    # grid_sample asks where each new pixel comes from: the inverse turn, in coordinates whose y axis points down.
    rows = torch.stack([cosine, -sine, zero]), torch.stack([sine, cosine, zero])
    grid = functional.affine_grid(torch.stack(rows).permute(2, 0, 1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode=mode, align_corners=False)


def cropped(images: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C H W"]:
    """Cuts the middle 24x24 pixels out and enlarges them to the image's size."""
    edge = (images.shape[-1] - _CROP) // 2
    middle = images[..., edge : edge + _CROP, edge : edge + _CROP]
    return functional.interpolate(middle, size=images.shape[-2:], mode="bilinear", align_corners=False)


def blurred(images: Float[Tensor, "N C H W"], sigmas: np.ndarray, window: tuple[int, int]) -> Float[Tensor, "N C H W"]:
    """Blurs each image by a Gaussian of its own width, in a window of (rows, columns), mirrored at the edges."""
    count, channels = images.shape[:2]
    for axis, size in zip((2, 3), window, strict=True):
        place = torch.arange(size, dtype=images.dtype) - size // 2
        weights = torch.exp(-0.5 * (place / torch.as_tensor(sigmas).to(images.dtype)[:, None]) ** 2)
        weights = (weights / weights.sum(1, keepdim=True)).repeat_interleave(channels, 0)
        edge = (0, 0, size // 2, size // 2) if axis == 2 else (size // 2, size // 2, 0, 0)
        padded = functional.pad(images, edge, mode="reflect").flatten(0, 1)[None]
        kernel = weights[:, None, :, None] if axis == 2 else weights[:, None, None, :]
        images = functional.conv2d(padded, kernel, groups=count * channels)[0].unflatten(0, (count, channels))
    return images


def _disc(side: int) -> Tensor:
    """1 within the largest circle of an image, else 0."""
    place = torch.arange(side, dtype=torch.float64) - (side - 1) / 2
    return (place[:, None] ** 2 + place**2 <= (side / 2) ** 2).double()


def _column(values: Any, axis: int = 0) -> Tensor:
    """Values along one axis of images."""
    shape = [1, 1, 1, 1]
    shape[axis] = -1
    return torch.as_tensor(values).view(shape)
