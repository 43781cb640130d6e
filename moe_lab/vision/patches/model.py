"""WRN and WRN-pMoE as Configs: their sizes, what they cost, and how they are trained (pmoe2023, section 5.2)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import nn

from moe_lab.core.config import knob, require
from moe_lab.vision.built import Built
from moe_lab.vision.layers import Count, Start, count
from moe_lab.vision.patches.network import ConvNetwork, PatchLayer, PatchNetwork

Gating = Literal["learned", "none", "random", "soft"]
TRUNKS = ("wrn", "plain")
_MAP = 4  # a side of the last map is a fourth of the image's


class _Wide(Built):
    """What WRN and WRN-pMoE share."""

    width: int = knob(1, meaning="widening factor (the paper's is 10)", ge=1, le=64, slider=(1, 4, 1))
    trunk: Literal["wrn", "plain"] = knob(
        "wrn", meaning="two residual groups, or two convolutions, before the last map", choices=TRUNKS
    )
    learning_rate: float = knob(0.1, symbol="eta", meaning="step size", gt=0, le=1e3, slider=(0.02, 0.5, 0.02))
    batch_size: int = knob(128, symbol="B", meaning="images in a step", ge=1, le=10**5, slider=(16, 256, 16))
    # Gated patches are so small that batch norm's averages must first forget their start at 1: with Keras's .01 that
    # takes about 700 steps, in which test accuracy stays at chance while training goes on.
    norm_momentum: float = knob(0.3, meaning="weight of a batch in batch norm's averages (Keras: .01)", gt=0, le=1)

    start: ClassVar[Start] = "keras"

    def finish(self, network: nn.Module, random: np.random.Generator) -> None:
        """Lays weights out as the images are, see `network.py`, and seeds the choice of random patches."""
        for part in network.parameters():
            if part.ndim == 4:
                part.data = part.data.contiguous(memory_format=torch.channels_last)
        layer = getattr(network, "layer", None)
        if isinstance(layer, PatchLayer):
            layer.seeded(int(random.integers(2**31)))

    def check(self, image: tuple[int, int, int]) -> None:
        """Raises a ValueError unless the images divide into patches, as many as an expert keeps."""
        _, height, width = image
        rule = f"images must be squares whose side is a multiple of {_MAP}"
        require(height == width and height % _MAP == 0, rule, height=height, width=width)


class WRN(_Wide):
    """The 10-layer wide residual network (pmoe2023, section 5.2), trained by plain SGD.

    With `trunk="plain"` a small network of convolutions alone: the conv head beside which the others are seen.
    """

    def network(self, image: tuple[int, int, int], classes: int) -> nn.Module:
        return ConvNetwork(self.trunk, image[0], self.width, classes, self.norm_momentum)

    @classmethod
    def paper(cls, data: Literal["cifar", "celeba"] = "cifar") -> Self:
        """Returns the paper's model, the same for both data sets."""
        return cls(width=10, norm_momentum=0.01)


class PatchWRN(_Wide):
    """WRN-pMoE: a wide residual network whose last group is a layer of k experts (pmoe2023, section 5.2).

    The paper says that the last convolution is replaced; the authors' code replaces the whole last group by a
    convolution to D = 64 x width channels and the experts, each D -> D/k, of which each keeps l of the n patches.

    Departs from the paper: `softmax="all"` takes the gates' softmax over all n patches, as the authors' code does; in
    eq. 5 it runs over the kept ones (`softmax="kept"`).

    The other gates are controls. "none": every expert gets all patches, unweighted. "random": l patches chosen at
    random for each image and expert, anew in each step. "soft": all patches, weighted by the softmax.
    """

    gates: Gating = knob("learned", meaning="how experts keep patches", choices=("learned", "none", "random", "soft"))
    experts: int = knob(4, symbol="k", meaning="experts", ge=1, le=64, slider=(1, 8, 1))
    patches_per_expert: int = knob(4, symbol="l", meaning="patches each expert keeps", ge=1, le=4096, slider=(1, 16, 1))
    patch_side: int = knob(1, meaning="side of a patch in cells of the last map (CelebA: 4)", ge=1, le=64)
    softmax: Literal["all", "kept"] = knob(
        "all", meaning="patches over which a gate's softmax runs", choices=("all", "kept")
    )
    sparse: bool = knob(True, meaning="whether patches that are not kept are left out, or multiplied by zero")

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        rule = "experts (k) must divide the 64 x width channels of the last map"
        require(64 * self.width % self.experts == 0, rule, k=self.experts, width=self.width)
        return self

    @classmethod
    def paper(cls, data: Literal["cifar", "celeba"] = "cifar") -> Self:
        """Returns the paper's model: k=4 and l=16 of 64 cells for CIFAR-10; k=8 and l=2 of 16 patches for CelebA.

        Raises:
          ValueError: data is neither.
        """
        require(data in ("cifar", "celeba"), "data must be 'cifar' or 'celeba'", data=data)
        sizes: dict[str, Any] = {"experts": 4, "patches_per_expert": 16}
        if data == "celeba":
            sizes = {"experts": 8, "patches_per_expert": 2, "patch_side": 4}
        return cls(width=10, norm_momentum=0.01, **sizes)

    def patches(self, image: tuple[int, int, int]) -> int:
        """Returns n, the number of patches."""
        return (image[1] // _MAP // self.patch_side) ** 2

    def check(self, image: tuple[int, int, int]) -> None:
        super().check(image)
        cells = image[1] // _MAP
        rule = "patch_side must divide the side of the last map, a fourth of the image's"
        require(cells % self.patch_side == 0, rule, patch_side=self.patch_side, side=image[1])
        rule = "patches_per_expert (l) must be at most patches (n)"
        require(self.patches_per_expert <= self.patches(image), rule, l=self.patches_per_expert, n=self.patches(image))

    def network(self, image: tuple[int, int, int], classes: int) -> nn.Module:
        layer = PatchLayer(
            64 * self.width,
            self.experts,
            self.patches_per_expert,
            side=self.patch_side,
            gates=self.gates,
            over_kept=self.softmax == "kept",
            sparse=self.sparse,
            momentum=self.norm_momentum,
        )
        return PatchNetwork(self.trunk, image[0], self.width, classes, self.norm_momentum, layer)

    def count(self, image: tuple[int, int, int] = (3, 32, 32), classes: int | None = None) -> Count:
        """Counts parameters and multiplications for images of (channels, height, width).

        The paper says that both models have an equal number of parameters. Counted, that holds nearly for its CelebA
        models (7.43 and 7.30 million), and not for CIFAR-10: WRN has 7.44 million, WRN-pMoE 3.96 million.
        """
        dense = self.replace(sparse=False)
        self.check(image)
        return count(lambda: dense.network(image, self._classes(classes)), image, self._skipped(image))

    def _skipped(self, image: tuple[int, int, int]) -> int:
        """Multiplications of an image's forward pass on patches that an expert does not keep."""
        if self.gates in ("none", "soft"):
            return 0
        kernel, cells = (1 if self.patch_side == 1 else 9), (image[1] // _MAP) ** 2
        unkept = cells - cells * self.patches_per_expert // self.patches(image)
        return unkept * kernel * (64 * self.width) ** 2


Model = PatchWRN | WRN
