"""The ink of digits, and what a mixture does with one that a visitor of its page draws."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from moe_lab.datasets import digits
from moe_lab.drawing import theme
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab.patch_routing.loss import loss_of
from moe_lab_widgets.labs.router_alignment_runs import DIGITS
from moe_lab_widgets.labs.router_alignment_words import SHOWN

if TYPE_CHECKING:
    from moe_lab_widgets.live.pictures import RecordedNow


def drawn(now: RecordedNow) -> dict[str, Any]:
    """Evaluates the samples on show with the digits that are drawn in their patches (`LivePage.drawn`)."""
    if now.values["source"] != DIGITS:
        return {}
    learner = now.learner()
    classes = learner.setting.classes
    patches = learner.patches(learner.test, 0, classes)
    ink = now.values.table("drawing", patches.shape[1:])  # (class, patch, pixel)
    mean, norm = _mean_digit()
    found = learner.forward(torch.where(ink.isnan(), patches, (ink - mean) / norm))
    right = loss_of(found.outputs, learner.test.labels[learner.group, :classes]).right[SHOWN]
    kept, there = found.mask[SHOWN].transpose(0, 1), ~ink.isnan().any(-1)
    said = NOTHING
    for side, sign in enumerate(theme.CLASS_SIGNS):
        said += _said(sign, (kept[side] & there[side]).any(-1), there[side].any(), right[side])
    return {"kept": kept, "said": said}


def _said(sign: str, experts: Tensor, there: Tensor, right: Tensor) -> Words:
    """Returns which experts keep what is drawn in a class's sample, and whether the mixture still finds the class."""
    count = experts.sum()
    several = say("kept by experts {:names}", experts, when=count > 1, instead=say("kept by expert {:names}", experts))
    kept = either(count > 0, several, say("kept by no expert"))
    verdict = either(right, say("; the mixture finds the class. "), say("; the mixture takes it for the other class. "))
    return say("", when=~there, instead=say(f"Your drawing in class {sign} is ") + kept + verdict)


def ink_of(source: str, patches: Tensor) -> Tensor:
    """Returns prepared patches (n, pixels) as images of ink (n, side, side): what preparation took is added back."""
    if source == DIGITS:
        mean, norm = _mean_digit()
        grey = patches.nan_to_num() * norm + mean
    else:
        grey = patches / patches.amax(1, keepdim=True)  # the darkest pixel of MNIST's is black
    side = round(grey.shape[1] ** 0.5)
    return grey.clamp(0, 1).unflatten(1, (side, side))


@lru_cache(maxsize=1)
def _mean_digit() -> tuple[Tensor, float]:
    """Returns the mean of the 8x8 digits, which preparation subtracts, and the mean norm of the rest."""
    images = digits.load().images
    images = images.reshape(len(images), -1)
    mean = images.mean(axis=0)
    return torch.from_numpy(mean), float(np.linalg.norm(images - mean, axis=1).mean())
