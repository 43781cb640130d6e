"""Tasks of images, drawn for each trial, and what they are made of: embedded digits, and CIFAR from files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.datasets import ColourImages, cifar
from moe_lab.datasets import digits as embedded_digits

Split = Literal["train", "test"]
_TEST_EVERY = 4  # without an official split, every fourth image of a digit is a test image


@lru_cache(maxsize=1)
def digit_images() -> tuple[UInt8[Tensor, "1797 8 8"], np.ndarray, np.ndarray]:
    """Returns digits in whole numbers of 1 / `LEVELS`, (1797,) which digits they are, and which are test images."""
    loaded = embedded_digits.load()
    is_test = np.zeros(len(loaded.labels), dtype=bool)
    for digit in range(10):
        is_test[np.flatnonzero(loaded.labels == digit)[::_TEST_EVERY]] = True
    levels = torch.from_numpy((loaded.images * embedded_digits.LEVELS).round().astype(np.uint8))
    return levels.reshape(-1, loaded.side, loaded.side), loaded.labels, is_test


def images_of(is_test: Bool[np.ndarray, " N"], split: Split) -> Int[np.ndarray, " n"]:
    """Returns the numbers of the images that belong to a split."""
    return np.flatnonzero(is_test if split == "test" else ~is_test)


@lru_cache(maxsize=2)
def cifar_images(name: str, root: Path | None, download: bool) -> ColourImages:
    """Returns CIFAR-10 or CIFAR-100, as `cifar.load` reads it."""
    return cifar.load(root, name=name, download=download)


@dataclass(frozen=True)
class Images:
    """Images of many trials; a task adds one more field, what else it tells of each image.

    Attributes:
      images: (trials, N, channels, height, width).
      labels: (trials, N) the class, from 0.
    """

    images: Float[Tensor, "trials N C H W"]
    labels: Int[Tensor, "trials N"]

    def __len__(self) -> int:
        return int(self.labels.shape[1])


class ImageTask(Config):
    """Draws the images of each trial from its own stream."""

    paper: ClassVar[str]
    drawn: ClassVar[type[Images]]

    @property
    @abstractmethod
    def classes(self) -> int:
        """The number of classes."""

    @property
    @abstractmethod
    def image(self) -> tuple[int, int, int]:
        """Channels, height and width."""

    def sample(
        self,
        samples: int,
        *,
        trials: Sequence[int],
        seed: int,
        split: Split = "train",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Any:
        """Generates N images per trial with balanced classes; those of one trial do not depend on the other trials.

        Returns:
          The task's `Samples`.

        Raises:
          ValueError: samples is less than 1, or no trials.
          FileNotFoundError: image files that are not there.
        """
        require(samples >= 1, "samples (N) must be at least 1", N=samples)
        require(len(trials) >= 1, "trials must name at least one trial", trials=list(trials))
        parts = [
            (images.to(device, dtype), labels.to(device), others.to(device))
            for images, labels, others in self._sampled(samples, trials, seed, split)
        ]
        return self.drawn(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def provenance(self) -> Mapping[str, Any]:
        """Attrs that say from which files the images come."""
        return {}

    def _sampled(
        self, samples: int, trials: Sequence[int], seed: int, split: Split
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yields images, labels, and what else `drawn` tells of each image, of some trials after others."""
        for trial in trials:
            images, labels, others = map(torch.as_tensor, self._sample_trial(samples, trial, seed, split))
            yield images[None], labels[None], others[None]

    def _sample_trial(self, samples: int, trial: int, seed: int, split: Split) -> tuple[Any, Any, Any]:
        """The same of one trial, for a task whose trials are drawn one by one."""
        raise NotImplementedError


class CifarTask(ImageTask):
    """A task of CIFAR-10's images, from a folder of files.

    Raises:
      ConfigError: a value is out of bounds, or neither root nor download=True is given.
    """

    root: Path | None = knob(None, meaning="folder or archive of CIFAR-10's binary version")
    download: bool = knob(False, meaning="fetch CIFAR-10 when no folder is given")

    @model_validator(mode="after")
    def _files_are_named(self) -> Self:
        rule = f"{type(self).__name__} needs root= (a folder of CIFAR-10's binary files) or download=True"
        require(self.root is not None or self.download, rule, root=self.root, download=self.download)
        return self

    @property
    def image(self) -> tuple[int, int, int]:
        return (3, 32, 32)

    @property
    def cifar(self) -> ColourImages:
        """All images of CIFAR-10."""
        return cifar_images("cifar-10", self.root, self.download)

    def provenance(self) -> Mapping[str, Any]:
        said = {True: "the official archive", False: "an archive of another SHA-256", None: "files, not hash-checked"}
        return {"images": said[self.cifar.official]}
