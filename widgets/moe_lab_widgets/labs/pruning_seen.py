"""What is seen of a pruned layer: who stays, what they carry, and how often the layer is right, as tensors.

Shapes: T trials, C criteria, R values of rho, k experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from moe_lab.drawing.marks import middle, picked
from moe_lab.pruning import TokenMoE
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues, once
from moe_lab_widgets.engine.knobs import OWN
from moe_lab_widgets.labs.pruning_record import CARRIES, CHUNK, OFFERED, TOKENS_CHOOSE

CRITERIA = (*OFFERED, OWN)
"""In the order of their scores in a record, which has the last one where it was given to the Lab."""
RANDOM = CRITERIA.index("random")
NEURONS = TokenMoE().neurons


def threshold(values: MarkValues) -> Tensor:
    """Returns 1.5 log l, which the change of an important router's norm exceeds (lemma 4.1)."""
    return 1.5 * values.number("top").log()


def trial(now: MarkRecord) -> Tensor:
    """Returns the place of the trial on show."""
    return torch.minimum(now.values.number("shown"), now.values.number("trials")) - 1


def half(values: MarkValues) -> Tensor:
    """Returns how many experts vote alike."""
    return values.number("experts") / 2


def gone(values: MarkValues) -> Tensor:
    """Returns how many experts of each half are pruned: rho of them, rounded down, but never all."""
    return torch.minimum((values.number("rho") * half(values) + 1e-9).floor(), half(values) - 1)


def chosen(values: MarkValues) -> Tensor:
    """Returns the place of the criterion on show."""
    return values.place("criterion", CRITERIA)


@once
def is_pruned(now: MarkRecord) -> Tensor:
    """Returns whether training has ended, so that the layer is pruned."""
    return now.last("undefined").isfinite().any()


@once
def is_undefined(now: MarkRecord) -> Tensor:
    """Returns whether the criterion on show cannot tell the experts of some trial apart."""
    return (picked(now.last("undefined"), chosen(now.values), 1) == 1).any()


@once
def is_ranked(now: MarkRecord) -> Tensor:
    """Returns whether the criterion on show has chosen who stays."""
    return is_pruned(now) & ~is_undefined(now)


@once
def kept(now: MarkRecord) -> Tensor:
    """Returns (T, k) which experts stay: all while nothing is pruned."""
    rank = picked(now.last("rank"), chosen(now.values), 1)
    return (rank < half(now.values) - gone(now.values)) | ~is_ranked(now)


@once
def carriers(now: MarkRecord) -> Tensor:
    """Returns (T, k) which experts keep most occurrences of their class's pattern after training."""
    return (now.last("proficiency").nan_to_num() >= CARRIES) & is_pruned(now)


def by_class(which: Tensor) -> Tensor:
    """Returns (..., 2, k/2) of (..., k)."""
    return which.unflatten(-1, (2, which.shape[-1] // 2))


@once
def lost(now: MarkRecord) -> Tensor:
    """Returns (T, k) the carriers of each pattern whose every carrier is pruned."""
    mine = by_class(carriers(now))
    none_left = ~(mine & by_class(kept(now))).any(-1, keepdim=True)
    return (mine & none_left).flatten(-2)


@once
def fine_tuned(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns the steps of fine-tuning after which the latest results are known, and those results.

    Returns:
      (C, R), 0 where there is none or none is asked for; and (T, C, R) accuracies, NaN there.
    """
    plain = now.last("pruned_accuracy")
    if not now.values["fine_tune"]:
        return torch.zeros_like(plain[0]), torch.full_like(plain, torch.nan)
    found = now.last("tuned_accuracy")  # (T, S, C, R)
    number = torch.arange(1.0, found.shape[1] + 1)[:, None, None]
    known = found.isfinite().any(0) & (CHUNK * number <= now.values.number("tuning_steps"))
    latest = (known * number).amax(0)
    return CHUNK * latest, torch.where(number == latest, found, 0).sum(1).masked_fill(latest == 0, torch.nan)


@once
def on_show(now: MarkRecord) -> Tensor:
    """Returns (T, C, R) accuracies after pruning, and after fine-tuning where it is asked for and known."""
    steps, tuned = fine_tuned(now)
    return torch.where(steps > 0, tuned, now.last("pruned_accuracy"))


def medians(accuracies: Tensor) -> Tensor:
    """Returns (C, R) the medians over the trials of (T, C, R)."""
    return middle(accuracies.movedim(0, -1))


def best_other(curves: Tensor, values: MarkValues) -> Tensor:
    """Returns the place of the criterion, beside the chosen one and chance, with the highest mean of (C, R)."""
    place = torch.arange(curves.shape[0])
    other = (place != chosen(values)) & (place != RANDOM)
    return torch.where(other, curves.nan_to_num().mean(1), -1).argmax()


@dataclass(frozen=True)
class Outcome:
    """What is left at one rho, by one criterion; NaN while nothing is pruned, or where the criterion is undefined.

    Attributes:
      left: experts that stay.
      whole: (T,) accuracy of the unpruned layer.
      plain: (T,) accuracy after pruning.
      steps: of fine-tuning what is left; 0 when none is on show.
      tuned: (T,) accuracy after them; `plain` when there are none.
      chance: (T,) accuracy when experts are pruned at random, fine-tuned as the others where that is known.
      memory, operations: shares of the unpruned layer's.
    """

    left: Tensor
    whole: Tensor
    plain: Tensor
    steps: Tensor
    tuned: Tensor
    chance: Tensor
    memory: Tensor
    operations: Tensor


@once
def outcome(now: MarkRecord) -> Outcome:
    """Returns what is left as the picture shows it."""
    number, count = chosen(now.values), gone(now.values)

    def at(values: Tensor, criterion: Tensor) -> Tensor:
        return picked(picked(values, count, -1), criterion, -1)

    accuracies, (steps, _) = on_show(now), fine_tuned(now)
    plain = at(now.last("pruned_accuracy"), number)
    left = 2 * (half(now.values) - count)
    return Outcome(
        left=left,
        whole=torch.where(plain.isfinite(), now.last("test_accuracy"), torch.nan),
        plain=plain,
        steps=at(steps, number),
        tuned=at(accuracies, number),
        chance=at(accuracies, torch.tensor(RANDOM)),
        memory=_memory(now.values, left),
        operations=_operations(now, left),
    )


def _memory(values: MarkValues, left: Tensor) -> Tensor:
    """Returns the share of the layer's parameters that is left; where tokens choose, all routers stay."""
    experts = values.number("experts")
    if values["routing"] == TOKENS_CHOOSE:
        return (experts + left * NEURONS) / (experts * (1 + NEURONS))
    return left / experts


def _operations(now: MarkRecord, left: Tensor) -> Tensor:
    """Returns the share of the layer's operations that is left (`pruning.layer.operations`), the mean over the trials.

    Where tokens choose it depends on how many tokens the experts that stay receive on validation samples.
    """
    values = now.values
    experts, d, top = (values.number(name) for name in ("experts", "patterns", "top"))
    if values["routing"] != TOKENS_CHOOSE:
        return left / experts
    received = (now.last("received").nan_to_num() * kept(now)).sum(1).mean()  # pairs by tokens
    router, pair = 2 * d * experts, 2 * d * NEURONS + 2 * NEURONS
    return (router + received * pair) / (router + top * pair)
