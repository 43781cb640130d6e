"""The three models of pmoe2023, and what fits a task.

Their sums stand in `joint` (routers and experts trained together) and in `fixed` (experts whose patches are known in
advance); the same experts behind other routings in `routed`.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from jaxtyping import Float, Int
from pydantic import model_validator
from torch import Tensor

from moe_lab.core.config import Config, knob, require
from moe_lab.core.routing import expert_choice


class PatchModel(Config):
    """The parameters that all models share.

    Attributes:
      name: what curves and tables call the model.
      per_row: parameters in which runs of one batch may differ.
      capturable: of a router or model of one's own, whether CUDA may record a step once and replay it: it must read no
        number of a tensor and decide nothing by one, because only the recorded operations are repeated.
    """

    neurons: int = knob(40, symbol="m", meaning="neurons of all experts together", ge=1, le=65536, slider=(8, 160, 8))
    learning_rate: float | None = knob(
        None, symbol="eta", meaning="step size (none: the task's measured value)", gt=0, le=1e38
    )
    batch_size: int = knob(20, symbol="B", meaning="samples in a step", ge=1, le=65536, slider=(2, 100, 2))
    recipe: Literal["paper", "authors"] = knob(
        "paper", meaning="start and pooling of the paper or of the authors' code"
    )

    name: ClassVar[str]
    template: ClassVar[bool] = True
    capturable: ClassVar[bool] = False
    per_row: ClassVar[tuple[str, ...]] = ("learning_rate",)


class JointMoE(PatchModel):
    """Routers and experts trained jointly; gates are the softmax over an expert's l patches (pmoe2023, eq. 4).

    A subclass that overrides `route` has a router of its own, and is trained with the gradient that torch finds. A GPU
    replays its steps as a graph if `capturable` (see `PatchModel`).
    """

    experts: int = knob(8, symbol="k", meaning="experts", ge=1, le=1024, slider=(1, 8, 1))
    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, le=1024, slider=(1, 16, 1))

    name: ClassVar[str] = "joint"
    per_row: ClassVar[tuple[str, ...]] = ("learning_rate", "experts", "patches_per_expert")

    def route(
        self, scores: Float[Tensor, "T k B n"], patches_per_expert: Int[Tensor, " T"]
    ) -> tuple[Tensor, Float[Tensor, "T k B n"]]:
        """Routes patches to experts; by default by expert choice.

        Args:
          scores: the routing values <w_s, x^(j)> of expert s for patch j.
          patches_per_expert: l of each trial.

        Returns:
          mask: of the scores' shape, True where an expert receives a patch.
          gates: of the same shape, 0 where the mask is False.
        """
        return expert_choice(scores, patches_per_expert)

    @model_validator(mode="after")
    def _neurons_divide(self) -> Self:
        check_division(self.neurons, self.experts)
        return self


class SeparateMoE(PatchModel):
    """Routers trained first, in closed form, then frozen; gates are 1 (pmoe2023, eq. 3 and 6). One expert per class."""

    patches_per_expert: int = knob(6, symbol="l", meaning="patches each expert keeps", ge=1, le=1024, slider=(1, 16, 1))
    router_epochs: int = knob(100, symbol="E_r", meaning="passes over the data to train the routers", ge=1, le=10**6)
    router_samples: int | None = knob(None, symbol="N_r", meaning="samples that train the routers (none: all)", ge=2)

    name: ClassVar[str] = "separate"
    per_row: ClassVar[tuple[str, ...]] = ("learning_rate", "patches_per_expert")


class CNN(PatchModel):
    """A single expert that receives all patches with gate 1, the paper's baseline (pmoe2023, eq. 5)."""

    name: ClassVar[str] = "cnn"


def experts_of(model: PatchModel, classes: int) -> int:
    """Returns k, the number of experts of a model for a task with c classes."""
    return classes if isinstance(model, SeparateMoE) else getattr(model, "experts", 1)


def check_model(model: PatchModel, patches: int, classes: int) -> None:
    """Raises a ValueError unless the model fits a task with these numbers of patches and classes."""
    per_expert = getattr(model, "patches_per_expert", 1)
    require(per_expert <= patches, "patches_per_expert (l) must be at most patches (n)", l=per_expert, n=patches)
    if isinstance(model, SeparateMoE):
        rule = "neurons (m) must be divisible by classes (c), each of which has one expert"
        require(model.neurons % classes == 0, rule, m=model.neurons, c=classes)
        rule = "classes (c) must be even to train routers in pairs (appendix M)"
        require(classes % 2 == 0, rule, c=classes)
        rule = "the authors' code trains experts separately for two classes (c) only"
        require(model.recipe == "paper" or classes == 2, rule, c=classes)


def check_division(neurons: int, experts: int) -> None:
    rule = "neurons (m) must be divisible by experts (k), so that all experts have the same size"
    require(neurons % experts == 0, rule, m=neurons, k=experts)
