"""What the Configs of convolutional networks share: how they are built, and what they cost."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import nn

from moe_lab.core.config import Config
from moe_lab.vision.layers import Count, Start, count, made


class Built(Config):
    """A network of images of (channels, height, width), CIFAR-10's if nothing else is said."""

    start: ClassVar[Start] = "torch"
    usual_classes: ClassVar[int] = 10

    def network(self, image: tuple[int, int, int], classes: int) -> nn.Module:
        """Builds the network without drawing its weights."""
        raise NotImplementedError

    def check(self, image: tuple[int, int, int]) -> None:
        """Raises a ValueError unless the model fits images of (channels, height, width)."""

    def finish(self, network: nn.Module, random: np.random.Generator) -> None:
        """Changes a network whose weights have been drawn."""

    def build(
        self,
        image: tuple[int, int, int] = (3, 32, 32),
        classes: int | None = None,
        *,
        random: np.random.Generator | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> nn.Module:
        """Builds the network for images of (channels, height, width); weights are drawn as in its authors' framework.

        Args:
          classes: the paper's number when None.
          random: the stream to draw from; None for one with seed 0.

        Raises:
          ValueError: the model does not fit the images.
        """
        self.check(image)
        random = np.random.default_rng(0) if random is None else random
        number = self._classes(classes)
        network = made(lambda: self.network(image, number), random, self.start, torch.device(device), dtype)
        self.finish(network, random)
        return network

    def count(self, image: tuple[int, int, int] = (3, 32, 32), classes: int | None = None) -> Count:
        """Counts parameters and multiplications for images of (channels, height, width)."""
        self.check(image)
        return count(lambda: self.network(image, self._classes(classes)), image)

    def parameters_for(self, image: tuple[int, int, int], classes: int | None = None) -> int:
        """Counts the parameters alone, which takes milliseconds."""
        self.check(image)
        with torch.device("meta"):
            return sum(part.numel() for part in self.network(image, self._classes(classes)).parameters())

    @property
    def parameters(self) -> int:
        """Trained parameters of the model for CIFAR-10's images; `count` takes others."""
        return self.parameters_for((3, 32, 32))

    def _classes(self, classes: int | None) -> int:
        return self.usual_classes if classes is None else classes
