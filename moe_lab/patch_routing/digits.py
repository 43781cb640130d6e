"""Handwritten digits as patches: real images in the paper's data model (pmoe2023, section 5.1, figure 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import field_validator, model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.trials import Draw, drawn, drawn_together, from_elsewhere, one_of, tensor_of
from moe_lab.patch_routing.data import (
    BACKGROUND,
    SIGNAL,
    PatchSamples,
    Split,
    check_balance,
    joined,
    shuffled,
)

TEST_EVERY = 4  # without an official split, every fourth image of a digit is a test image

_NUMBERS_KEPT = 2**19  # of noise, in a training or test set of one trial: 4 MB


class DigitTask(Config):
    """Samples of n handwritten digits, one of which determines the label (pmoe2023, section 5.1, figure 3).

    Each patch is a whole image. The digits listed in `digits` are o_1 and o_2 (o_1 ... o_c with more than two); all
    others are class-irrelevant. Every fourth image of each digit is held out for testing (MNIST uses its official split
    if both pairs of files are present), so that no test sample contains a training image.

    The pair (6, 7) of the embedded digits was selected by scanning all 45 pairs: a good example, not an average one.

    Args:
      source: "digits", scikit-learn's 8x8 digits (embedded), or "mnist".
      root: a folder of MNIST IDX files, plain or gzipped.
      download: whether to download MNIST into the cache (hash-checked) if no root is given.

    Raises:
      ConfigError: a value is out of bounds, or source="mnist" is given neither a root nor download=True.
    """

    source: Literal["digits", "mnist"] = knob(
        "digits", meaning="where the images come from", choices=("digits", "mnist")
    )
    digits: tuple[int, ...] = knob((6, 7), symbol="o", meaning="digits that decide the label")
    patches: int = knob(16, symbol="n", meaning="patches in a sample", ge=2, le=1024, slider=(4, 32, 1))
    noise: float = knob(
        0.0, symbol="noise", meaning="Gaussian noise, relative to a patch", ge=0, le=10, slider=(0.0, 2.0, 0.05)
    )
    pixels: Literal["unit", "raw"] = knob(
        "unit", meaning="unit norm (8x8 digits centred), or grey values from 0 to 1", choices=("unit", "raw")
    )
    root: Path | None = knob(None, meaning="folder of MNIST IDX files")
    download: bool = knob(False, meaning="fetch MNIST when no folder is given")

    paper: ClassVar[str] = "pmoe2023, section 5.1"

    @field_validator("digits")
    @classmethod
    def _digits_differ(cls, digits: tuple[int, ...]) -> tuple[int, ...]:
        rule = "digits (o) must be two to nine different digits from 0 to 9"
        proper = 2 <= len(set(digits)) == len(digits) <= 9 and all(0 <= digit <= 9 for digit in digits)
        require(proper, rule, digits=digits)
        return digits

    @model_validator(mode="after")
    def _files_are_named(self) -> Self:
        require(
            self.source == "digits" or self.root is not None or self.download,
            "source='mnist' needs root= (a folder of IDX files) or download=True",
            root=self.root,
            download=self.download,
        )
        return self

    @property
    def classes(self) -> int:
        return len(self.digits)

    @property
    def learning_rate(self) -> float:
        """The step size found to work: 5 for the centred 8x8 digits, 2 for MNIST; the paper's .2 for grey values."""
        return 0.2 if self.pixels == "raw" else 5.0 if self.source == "digits" else 2.0

    @property
    def _images(self) -> _Images:
        return _images(self.source, self.root, self.download, self.pixels)

    @property
    def dimension(self) -> int:
        """d, the number of pixels of an image."""
        return self._images.pixels.shape[1]

    def signals(self, trials: Sequence[int], seed: int) -> Float[Tensor, "trials classes d"]:
        """Returns the mean training image of each class's digit, the same in all trials, unit vectors in float64."""
        images, train = self._images, self._pool("train")
        means = np.stack([images.pixels[train[images.labels[train] == digit]].mean(axis=0) for digit in self.digits])
        unit = torch.as_tensor(means / np.linalg.norm(means, axis=1, keepdims=True))
        return unit.expand(len(trials), -1, -1)

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: Split = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> PatchSamples:
        """Generates N samples per trial; the samples of one trial do not depend on the other trials.

        Raises:
          ValueError: samples is not a positive multiple of the number of classes.
        """
        check_balance(samples, self.classes)
        made = []
        for some in drawn_together(trials):
            one = self.made(drawn(self.draws(samples, split), some, seed), split)
            if self.noise:
                one = self.noisy(one, _noise(tuple(some), seed, self._noise_of(samples, split))).to(device, dtype)
            made.append(one)
        return joined(made, one_bank=not self.noise).to(device, dtype)

    def draws(self, samples: int, split: Split) -> dict[str, Draw]:
        """Returns the raw numbers of a trial, but for its noise."""
        return {name: Draw(f"{split}/{name}", (samples, self.patches)) for name in ("images", "places")}

    def _noise_of(self, samples: int, split: Split) -> Draw:
        return Draw(f"{split}/noise", (samples * self.patches, self.dimension), "normal")

    def noisy(self, samples: PatchSamples, noise: Float[Tensor, "trials rows d"]) -> PatchSamples:
        """Adds noise to samples without any.

        Each patch has its own noise, even where two show the same image, and so its own row of the bank.
        """
        scale = tensor_of(self, "noise").to(noise) / math.sqrt(noise.shape[2])
        bank = noise * scale + torch.nn.functional.embedding(samples.index.flatten(1), samples.bank[0])
        index = torch.arange(noise.shape[1], dtype=torch.int32, device=noise.device).view(samples.index.shape[1:])
        return replace(samples, bank=bank, index=index.expand_as(samples.index))

    def made(self, raw: Mapping[str, Tensor], split: Split) -> PatchSamples:
        """Chooses images and their positions as raw numbers (trial, N, n) determine, without noise."""
        images, pool, uniform = self._images, self._pool(split), raw["images"]
        irrelevant = pool[~np.isin(images.labels[pool], self.digits)]
        available = sorted(set(images.labels[pool].tolist()))
        rule = f"the {split} images must include every digit of the task and at least one other"
        complete = len(irrelevant) > 0 and set(self.digits) <= set(available)
        require(complete, rule, digits=self.digits, available=available)

        def chosen(among: np.ndarray, numbers: Tensor) -> Tensor:
            return torch.from_numpy(among).to(numbers.device)[one_of(numbers, len(among))]

        trials, samples, _ = uniform.shape
        labels = (torch.arange(samples, device=uniform.device) % self.classes).expand(trials, -1)
        of_digits = [chosen(pool[images.labels[pool] == digit], uniform[..., 0]) for digit in self.digits]
        own = torch.stack(of_digits, dim=2).gather(2, labels[..., None])
        index = torch.cat((own, chosen(irrelevant, uniform[..., 1:])), dim=2)
        roles, sides = torch.full_like(index, BACKGROUND), torch.full_like(index, -1)
        roles[..., 0], sides[..., 0] = SIGNAL, labels
        return shuffled(images.bank()[None], index, labels, roles, sides, raw["places"])

    def _pool(self, split: Split) -> np.ndarray:
        """The images that may occur in training or in test samples."""
        is_test = self._images.is_test
        return np.flatnonzero(is_test if split == "test" else ~is_test)


def _noise(trials: tuple[int, ...], seed: int, draw: Draw) -> Float[Tensor, "trials rows d"]:
    """Draws noise, which nobody may change; if little, it is kept for a slider that moves the noise alone."""
    kept = math.prod(draw.shape) <= _NUMBERS_KEPT and not from_elsewhere()
    return _kept_noise(trials, seed, draw) if kept else draw.by_trial(trials, seed)


@lru_cache(maxsize=16)  # of eight trials, training and test samples
def _kept_noise(trials: tuple[int, ...], seed: int, draw: Draw) -> Float[Tensor, "trials rows d"]:
    return draw.by_trial(trials, seed)


@dataclass(frozen=True)
class _Images:
    """Preprocessed images: (images, d) pixels, their digits, and which are test images.

    Attributes:
      levels: (images, d) of the 8x8 digits the grey values before that, in whole numbers of 1 / `digits.LEVELS`.
      raw: whether grey values stay as they are.
    """

    pixels: np.ndarray
    labels: np.ndarray
    is_test: np.ndarray
    levels: UInt8[Tensor, "images d"] | None
    raw: bool

    def bank(self) -> Float[Tensor, "images d"]:
        """Returns the pixels, made anew of grey values where that is recorded: whole numbers are short to write."""
        from moe_lab.datasets import digits

        if self.levels is None or not from_elsewhere():
            return torch.from_numpy(self.pixels)
        return _prepared(self.levels.to(torch.float64) / digits.LEVELS, self.raw, centred=True)


def _prepared(grey: Float[Tensor, "images d"], raw: bool, centred: bool) -> Float[Tensor, "images d"]:
    if raw:
        return grey
    values = grey - grey.mean(0) if centred else grey
    return values / torch.linalg.vector_norm(values, dim=1, keepdim=True).clamp(min=1e-12)


@lru_cache(maxsize=4)
def _images(source: str, root: Path | None, download: bool, pixels: str) -> _Images:
    """Loads and preprocesses the images once. The 8x8 digits are centred; otherwise the separate router fails."""
    from moe_lab.datasets import digits, mnist  # here: patterns need no images, and the room is imported without them

    loaded = digits.load() if source == "digits" else mnist.load(root, download=download)
    is_test = loaded.is_test
    if is_test is None:
        is_test = np.zeros(len(loaded.labels), dtype=bool)
        for digit in range(10):
            is_test[np.flatnonzero(loaded.labels == digit)[::TEST_EVERY]] = True
    embedded, grey = source == "digits", torch.from_numpy(loaded.images.astype(np.float64))
    levels = torch.from_numpy((loaded.images * digits.LEVELS).round().astype(np.uint8)) if embedded else None
    made = _prepared(grey, pixels == "raw", centred=embedded).numpy()
    return _Images(made, loaded.labels, is_test, levels, pixels == "raw")
