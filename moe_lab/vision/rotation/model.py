"""SmallCNN, ResNet18 and a Mixture of either as Configs: their sizes, and how they are trained (chen2022, table 2)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import field_validator, model_validator
from torch import nn

from moe_lab.core.config import knob, require
from moe_lab.vision.built import Built
from moe_lab.vision.layers import Count
from moe_lab.vision.rotation.network import MixtureNetwork, resnet18, small_cnn

Optimizer = Literal["adam", "sgd", "normalized"]
Routing = Literal["learned", "oracle", "random"]


class _Single(Built):
    """What single networks share: how they are trained, alone or as experts."""

    usual_classes: ClassVar[int] = 2

    optimizer: Optimizer = knob(
        "adam", meaning="Adam, SGD, or SGD on a gradient of length 1", choices=("adam", "sgd", "normalized")
    )
    learning_rate: float = knob(0.01, symbol="eta", meaning="step size", gt=0, le=1e3, slider=(0.002, 0.1, 0.002))
    momentum: float = knob(0.9, meaning="momentum of SGD", ge=0, lt=1)
    weight_decay: float = knob(0.0, meaning="weight decay, added to the gradient (the paper's is 5e-4)", ge=0, le=10)
    batch_size: int = knob(50, symbol="B", meaning="images in a step", ge=1, le=10**5, slider=(10, 200, 10))


class SmallCNN(_Single):
    """Two convolutions of 3x3 and a dense layer (chen2022, appendix A.3; the paper's have 64 and 128 filters).

    With the default filters and digits it has 130 parameters.
    """

    filters: tuple[int, int] = knob((2, 4), symbol="J", meaning="filters of the two convolutions")

    @field_validator("filters")
    @classmethod
    def _some(cls, filters: tuple[int, int]) -> tuple[int, int]:
        require(all(1 <= each <= 4096 for each in filters), "filters (J) must be from 1 to 4096", J=filters)
        return filters

    def network(self, image: tuple[int, int, int], classes: int) -> nn.Module:
        require(min(image[1:]) >= 4, "images must be at least 4x4 pixels", height=image[1], width=image[2])
        return small_cnn(image[0], self.filters, classes)

    @classmethod
    def paper(cls) -> Self:
        """Returns the paper's single CNN, trained by SGD as its section A.3 says."""
        return cls(filters=(64, 128), **_PAPER)


class ResNet18(_Single):
    """ResNet18 for images of 32x32 (He et al., 2016): 11,169,858 parameters for two classes."""

    width: int = knob(64, meaning="channels of the first stage", ge=1, le=1024)

    def network(self, image: tuple[int, int, int], classes: int) -> nn.Module:
        require(min(image[1:]) >= 8, "images must be at least 8x8 pixels", height=image[1], width=image[2])
        return resnet18(image[0], self.width, classes)

    @classmethod
    def paper(cls) -> Self:
        """Returns the paper's single ResNet18, trained by SGD as its section A.3 says."""
        return cls(**_PAPER)


_PAPER: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.01, "weight_decay": 5e-4, "batch_size": 128}


class Mixture(Built):
    """M experts of which a linear router sends each image to one (chen2022, section 3.2).

    Experts are trained as their Config says, each with its own gradient's length where that is normalised; the router
    by SGD. All routings train the same experts on the same samples: "oracle" sends an image to the expert of its
    cluster (modulo M), "random" anywhere, and both have gates of 1.

    Departs from the paper: `optimizer="adam"` is the default for mixtures and single models alike. The paper trains its
    mixtures by normalised gradient descent and its single models by SGD, so that the two differ in that as well;
    `Mixture.paper` has the former.
    """

    expert: SmallCNN | ResNet18 = SmallCNN()
    experts: int = knob(2, symbol="M", meaning="experts", ge=1, le=64, slider=(1, 8, 1))
    routing: Routing = knob("learned", meaning="who gets what", choices=("learned", "oracle", "random"))
    balance: float = knob(
        0.0, symbol="lambda", meaning="weight of the load-balancing loss", ge=0, le=1e3, slider=(0.0, 1.0, 0.02)
    )
    router_learning_rate: float = knob(
        0.01, symbol="eta_r", meaning="router's learning rate", ge=0, le=1e6, slider=(0.0, 0.1, 0.005)
    )
    router_noise: float = knob(1.0, symbol="r", meaning="largest noise on a router's score", ge=0, le=1e3)

    name: ClassVar[str] = "mixture"
    usual_classes: ClassVar[int] = 2

    @model_validator(mode="after")
    def _used(self) -> Self:
        rule = "balance (lambda) needs a learned router"
        require(self.routing == "learned" or not self.balance, rule, routing=self.routing, balance=self.balance)
        return self

    @property
    def batch_size(self) -> int:
        """Images per step."""
        return self.expert.batch_size

    def network(self, image: tuple[int, int, int], classes: int) -> nn.Module:
        """Builds the network without drawing its weights."""
        each = [self.expert.network(image, classes) for _ in range(self.experts)]
        return MixtureNetwork(each, int(np.prod(image)), self.routing == "learned")

    def finish(self, network: nn.Module, random: np.random.Generator) -> None:
        """Sets the router to 0."""
        if isinstance(network, MixtureNetwork) and network.router is not None:
            nn.init.zeros_(network.router.weight)
            nn.init.zeros_(network.router.bias)

    def count(self, image: tuple[int, int, int] = (3, 32, 32), classes: int | None = None) -> Count:
        """Counts parameters and multiplications; an image costs one expert and, where it is learned, the router."""
        one, pixels = self.expert.count(image, classes), int(np.prod(image))
        routers = self.experts if self.routing == "learned" else 0
        macs, training = one.macs + pixels * routers, one.training_flops + 4 * pixels * routers
        return Count(self.experts * one.parameters + (pixels + 1) * routers, macs, macs, training)

    @classmethod
    def paper(cls, expert: SmallCNN | ResNet18) -> Self:
        """Returns the paper's mixture: four experts by normalised descent, the router by SGD at 1e-4, balance 1e-3."""
        own = expert.replace(**{**_PAPER, "optimizer": "normalized"})
        return cls(expert=own, experts=4, router_learning_rate=1e-4, balance=1e-3)


Model = SmallCNN | ResNet18 | Mixture
