"""Images in which the class lies in one place: digits in quadrants, and the paper's data sets made of CIFAR-10."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import field_validator, model_validator
from torch import Tensor
from torch.nn.functional import embedding

from moe_lab.core.config import knob, require
from moe_lab.core.trials import Draw, drawn, drawn_together, one_of, stream, tensor_of
from moe_lab.datasets import ColourImages, cifar
from moe_lab.datasets.digits import LEVELS
from moe_lab.vision.images import CifarTask, Images, ImageTask, Split, cifar_images, digit_images, images_of

Variant = Literal["vehicles", "noise", "spurious", "classes"]
VARIANTS: tuple[Variant, ...] = ("vehicles", "noise", "spurious", "classes")
VEHICLES = (0, 1, 8, 9)
"""Airplane, automobile, ship and truck of CIFAR-10."""
ANIMALS = (2, 3, 4, 5, 6, 7)
PLANTS = (2, 17)
"""The classes of classes of CIFAR-100 that are plants: flowers, and trees."""


@dataclass(frozen=True)
class PatchImageSamples(Images):
    """Images of many trials.

    Attributes:
      boxes: (trials, N, 4) top, left, height and width of the object that decides the class, in pixels.
    """

    boxes: Int[Tensor, "trials N 4"]


def cells_in(boxes: Int[Tensor, "*N 4"], side: int, cells: int) -> Bool[Tensor, "*N n"]:
    """Returns which of cells x cells patches of an image have their center in the box, row by row.

    Args:
      side: of the image, in pixels.
    """
    centers = (torch.arange(cells, device=boxes.device) + 0.5) * (side / cells)
    top, left, height, width = (part[..., None] for part in boxes.unbind(-1))
    rows = (centers >= top) & (centers < top + height)
    columns = (centers >= left) & (centers < left + width)
    return (rows[..., :, None] & columns[..., None, :]).flatten(-2)


class QuadrantTask(ImageTask):
    """Four 8x8 digits in the quadrants of an image, one of which decides the class: CIFAR-VEHICLES, embedded.

    One digit among `digits` is put into a random quadrant, three others into the rest. It takes the part of the
    vehicles among animals of pmoe2023, appendix A. Every fourth image of each digit is held out for testing.
    """

    paper: ClassVar[str] = "pmoe2023, section 5.2"
    drawn: ClassVar[type[PatchImageSamples]] = PatchImageSamples

    digits: tuple[int, ...] = knob((0, 1, 2, 3), meaning="digits that are the classes; the others are distractors")
    noise: float = knob(
        0.3, symbol="noise", meaning="Gaussian noise of a pixel (ink is 1)", ge=0, le=10, slider=(0.0, 1.0, 0.05)
    )

    @field_validator("digits")
    @classmethod
    def _digits_differ(cls, digits: tuple[int, ...]) -> tuple[int, ...]:
        proper = 2 <= len(set(digits)) == len(digits) <= 9 and all(0 <= digit <= 9 for digit in digits)
        require(proper, "digits must be two to nine different digits from 0 to 9", digits=digits)
        return digits

    @property
    def classes(self) -> int:
        return len(self.digits)

    @property
    def image(self) -> tuple[int, int, int]:
        return (1, 16, 16)

    def draws(self, samples: int, split: Split) -> dict[str, Draw]:
        """Returns the raw numbers of a trial."""
        noise = {"noise": Draw(f"{split}/noise", (samples, *self.image), "normal")} if self.noise else {}
        return {
            "images": Draw(f"{split}/images", (samples, 4)),
            "places": Draw(f"{split}/places", (samples,), "whole", things=4),
            **noise,
        }

    def _sampled(
        self, samples: int, trials: Sequence[int], seed: int, split: Split
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for some in drawn_together(trials):
            yield self.made(drawn(self.draws(samples, split), some, seed), split)

    def made(self, raw: Mapping[str, Tensor], split: Split) -> tuple[Tensor, Tensor, Tensor]:
        """Makes images (trial, N, 1, 16, 16), labels and boxes as raw numbers determine."""
        levels, digits, is_test = digit_images()
        pool = images_of(is_test, split)
        groups = [pool[digits[pool] == digit] for digit in self.digits]
        others = pool[~np.isin(digits[pool], self.digits)]
        trials, samples = raw["places"].shape
        labels = (torch.arange(samples) % self.classes).expand(trials, -1)
        chosen, places = _chosen(groups, others, labels, raw["images"]), raw["places"].long()
        tiles = embedding(chosen, levels.flatten(1).to(torch.float64) / LEVELS)
        images = _in_quadrants(tiles.unflatten(-1, (1, *levels.shape[1:])), places)
        if self.noise:
            images = images + tensor_of(self, "noise") * raw["noise"]
        return images, labels, _quadrants(places, levels.shape[1])


class VehiclesTask(CifarTask):
    """The data sets of pmoe2023 built from CIFAR-10 (appendix A, after Karp et al., 2021), from a folder of files.

    Variants:
      "vehicles": CIFAR-VEHICLES. A vehicle of 16x16 pixels in one quadrant, animals in the others; four classes.
      "spurious": the same, but in a share of the training images all animals are of one class that goes with the
        vehicle's. Test images have random animals. Departs from the paper, which has hair colours in CelebA, a data
        set without a stable address.
      "noise": an image of 16x16 pixels, of any of ten classes, at a random place on a background. Backgrounds are the
        flowers and trees of CIFAR-100, in place of the paper's plants of ImageNet; without a folder of it, random
        numbers.
      "classes": the images of CIFAR-10 as they are, ten classes. The object is the whole image.

    Args:
      root: a folder of CIFAR-10's binary version, or its archive (see `moe_lab.datasets.cifar`).
      background_root: the same of CIFAR-100, for the variant "noise".
      download: whether to download CIFAR-10 into the cache (170 MB, hash-checked) if no root is given.

    Raises:
      ConfigError: a value is out of bounds, or neither root nor download=True is given.
    """

    paper: ClassVar[str] = "pmoe2023, appendix A"
    drawn: ClassVar[type[PatchImageSamples]] = PatchImageSamples

    variant: Variant = knob("vehicles", meaning="which data set", choices=VARIANTS)
    spurious: float = knob(0.95, meaning="share of training images with the animal of their class", ge=0, le=1)
    noise: float = knob(0.0, symbol="noise", meaning="Gaussian noise of a pixel (white is 1)", ge=0, le=10)
    background_root: Path | None = knob(None, meaning="folder or archive of CIFAR-100, for backgrounds")

    @model_validator(mode="after")
    def _only_noise_has_backgrounds(self) -> Self:
        rule = "only the variant 'noise' has backgrounds"
        require(
            self.background_root is None or self.variant == "noise",
            rule,
            variant=self.variant,
            background_root=str(self.background_root),
        )
        return self

    @property
    def classes(self) -> int:
        return 4 if self.variant in ("vehicles", "spurious") else 10

    def _sample_trial(self, samples: int, trial: int, seed: int, split: Split) -> tuple[Any, Any, Any]:
        data = self.cifar
        pool = images_of(data.is_test, split)
        labels = np.arange(samples) % self.classes
        random = stream(seed, trial, f"{split}/images")
        places = stream(seed, trial, f"{split}/places")
        if self.variant in ("vehicles", "spurious"):
            groups, others = _pools(data, pool, VEHICLES, split), _pool(data, pool, ANIMALS, split)
            chosen = _chosen_of(groups, others, labels, random)
            if self.variant == "spurious" and split == "train":
                self._tie(data, pool, labels, chosen, stream(seed, trial, "train/spurious"))
            quadrants = places.integers(4, size=samples)
            placed = torch.from_numpy(quadrants)
            images = _in_quadrants(torch.from_numpy(_halved(data.images[chosen])), placed).numpy()
            boxes = _quadrants(placed, 16).numpy()
        else:
            groups = _pools(data, pool, tuple(range(10)), split)
            chosen = _chosen_of(groups, pool, labels, random)[:, 0]
            if self.variant == "classes":
                images = data.images[chosen].astype(np.float32) / 255
                boxes = np.broadcast_to([0, 0, 32, 32], (samples, 4)).copy()
            else:
                corners = places.integers(17, size=(samples, 2))
                images = self._backgrounds(samples, trial, seed, split)
                _paste(images, _halved(data.images[chosen]), corners)
                boxes = np.concatenate([corners, np.full((samples, 2), 16)], 1)
        if self.noise:
            images += self.noise * stream(seed, trial, f"{split}/noise").standard_normal(images.shape, np.float32)
        return images, labels, boxes

    def _tie(self, data: ColourImages, pool: np.ndarray, labels: np.ndarray, chosen: np.ndarray, random: Any) -> None:
        """Replaces the animals of a share of the images by those of one class, which goes with the vehicle's."""
        groups = _pools(data, pool, ANIMALS[: len(VEHICLES)], "train")
        uniform = random.random((len(labels), chosen.shape[1]))
        for label, group in enumerate(groups):
            rows = np.flatnonzero((labels == label) & (uniform[:, 0] < self.spurious))
            chosen[rows, 1:] = group[(uniform[rows, 1:] * len(group)).astype(np.int64)]

    def _backgrounds(self, samples: int, trial: int, seed: int, split: Split) -> np.ndarray:
        random = stream(seed, trial, f"{split}/backgrounds")
        if self.background_root is None:
            return random.random((samples, 3, 32, 32), np.float32)
        data = cifar_images("cifar-100", self.background_root, False)
        pool = images_of(data.is_test, split)
        pool = pool[:0] if data.coarse is None else pool[np.isin(data.coarse[pool], PLANTS)]
        require(len(pool) > 0, f"background_root must hold {split} images of flowers or trees", images=len(pool))
        return data.images[pool[(random.random(samples) * len(pool)).astype(np.int64)]].astype(np.float32) / 255


# --- images ---------------------------------------------------------------------------------------------------------


def _chosen(
    groups: Sequence[np.ndarray], others: np.ndarray, labels: Int[Tensor, "*N"], uniform: Float[Tensor, "*N 4"]
) -> Int[Tensor, "*N 4"]:
    """Chooses images by uniform numbers: the object of each label's group, then three others."""

    def image_of(among: np.ndarray, numbers: Tensor) -> Tensor:
        return torch.from_numpy(among)[one_of(numbers, len(among))]

    own = torch.stack([image_of(group, uniform[..., 0]) for group in groups], -1).gather(-1, labels[..., None])
    return torch.cat([own, image_of(others, uniform[..., 1:])], -1)


def _chosen_of(groups: Sequence[np.ndarray], others: np.ndarray, labels: np.ndarray, random: Any) -> np.ndarray:
    """The same by numbers drawn from a stream."""
    uniform = torch.from_numpy(random.random((len(labels), 4)))
    return _chosen(groups, others, torch.from_numpy(labels), uniform).numpy()


def _in_quadrants(tiles: Float[Tensor, "*N 4 C s s"], places: Int[Tensor, "*N"]) -> Float[Tensor, "*N C h w"]:
    """Puts tiles into the quadrants of images, the first at `places`, the others in order."""
    *count, _, channels, side, _ = tiles.shape
    quadrant, place = torch.arange(4), places[..., None]
    order = torch.where(quadrant == place, 0, torch.where(quadrant < place, quadrant + 1, quadrant))
    placed = tiles.gather(-4, order[..., None, None, None].expand_as(tiles)).unflatten(-4, (2, 2))
    return placed.movedim(-3, -5).movedim(-2, -3).reshape(*count, channels, 2 * side, 2 * side)


def _quadrants(places: Int[Tensor, "*N"], side: int) -> Int[Tensor, "*N 4"]:
    """The boxes of quadrants."""
    width = torch.full_like(places, side)
    return torch.stack([places // 2 * side, places % 2 * side, width, width], -1)


def _halved(images: np.ndarray) -> np.ndarray:
    """Images of half the side, from 0 to 1: means of 2x2 pixels."""
    *rest, height, width = images.shape
    return images.reshape(*rest, height // 2, 2, width // 2, 2).mean((-3, -1), dtype=np.float32) / 255


def _paste(images: np.ndarray, tiles: np.ndarray, corners: np.ndarray) -> None:
    for image, tile, (top, left) in zip(images, tiles, corners, strict=True):
        image[:, top : top + 16, left : left + 16] = tile


def _pool(data: ColourImages, pool: np.ndarray, classes: Sequence[int], split: str) -> np.ndarray:
    found = pool[np.isin(data.labels[pool], classes)]
    names = ", ".join(cifar.CLASSES[label] for label in classes)
    require(len(found) > 0, f"the {split} images must include {names}", images=len(pool), of_those=len(found))
    return found


def _pools(data: ColourImages, pool: np.ndarray, classes: Sequence[int], split: str) -> list[np.ndarray]:
    return [_pool(data, pool, (label,), split) for label in classes]
