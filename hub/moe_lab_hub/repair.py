"""Prunes the example's fine-tuned models and fine-tunes what is left, as a stream of Snapshots.

A trial is a model of its own: trial i of a seed is the same alone or among others.

Shapes: T trials, L layers, E experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from moe_lab.core.config import require
from moe_lab.core.devices import AUTO, DeviceName, choose
from moe_lab.core.figure import call_with
from moe_lab.core.origins import origin
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.trials import each_within, threads_for
from moe_lab_hub import example
from moe_lab_hub.example import CRITERIA, EXPERTS
from moe_lab_hub.prune import Pruned, prune_experts

KNOWN, NEW = ("a + b", "a - b", "a + 2b", "2a + b"), "a + 3b"
"""The rules that the base model is taught, and the one that it has never seen."""
LESSONS, TUNING, RATE = 300, 60, 1e-3
"""Steps of the base model, and those of fine-tuning with their step size, which is that of repairs, too."""
NUMBERS_OF_A_STEP = 64 * 3 * 39_000
"""That a step of a repair touches, trial by trial: tokens of a batch, and parameters that each one meets."""
WAYS, DRAWS = ("rerouted", "silent"), 4
"""The ways of pruning, and random choices of as many experts."""
APART = 1000
"""From the seed of one trial to that of the next."""

MEASURES = {
    "accuracy": Measure(meaning="share of right answers to the rule of fine-tuning"),
    "others": Measure(meaning="share of right answers to the other rules, their mean"),
    "whole": Measure(meaning="`accuracy` before pruning", constant=True),
    "others_whole": Measure(meaning="`others` before pruning", constant=True),
    "by_criterion": Measure(("criterion",), meaning="accuracy right after pruning by each criterion", constant=True),
    "by_chance": Measure(("draw",), meaning="accuracy right after pruning at random", constant=True),
    "scores": Measure(("layer", "expert"), meaning="the criterion's score of each expert", constant=True),
    "stays": Measure(("layer", "expert"), meaning="1 where an expert stays", constant=True),
    "bytes": Measure(meaning="memory of the pruned model, as a share of the whole one's", constant=True),
    "operations": Measure(meaning="operations of a token, as a share of the whole model's", constant=True),
}
OF_CRITERION = ("scores", "stays", "bytes", "operations")
"""Measures that depend on the criterion."""


def prune_and_repair(
    task: str = NEW,
    kept: int = 4,
    criterion: str = CRITERIA[0],
    way: str = WAYS[0],
    steps: int = 40,
    trials: int = 1,
    seed: int = 0,
    record_every: int = 2,
    device: DeviceName = AUTO,
) -> Iterator[Snapshot]:
    """Prunes a tiny Mixtral that was fine-tuned to a rule of arithmetic, and fine-tunes what is left to it again.

    >>> from moe_lab_hub.repair import prune_and_repair
    >>> for snapshot in prune_and_repair(kept=4, steps=40):
    ...     right = snapshot["accuracy"]  # (trial,)

    Args:
      task: the rule of fine-tuning: one that the base model knew, or the new one (`example.RULES`).
      kept: how many of the eight experts of each layer stay.
      criterion: one of `example.CRITERIA`.
      way: "rerouted" or "silent", see `prune_experts`.
      steps: of fine-tuning after pruning.
      trials: models, each with random weights and lessons of its own.
      record_every: steps from one Snapshot to the next.
      device: of the repair; lessons and pruning are computed on the CPU.

    Yields:
      Snapshots: step 0, right after pruning, every `record_every` steps, and the end.

    Raises:
      ValueError: a wrong value, at once and not at the first Snapshot.
      RuntimeError: transformers is missing, or the device.
    """
    given: dict[str, Any] = dict(locals())
    there = choose(device, NUMBERS_OF_A_STEP)
    check(task, kept, criterion, way)
    for name, least in (("steps", 0), ("trials", 1), ("seed", 0), ("record_every", 1)):
        require(given[name] >= least, f"{name} must be at least {least}", **{name: given[name]})
    call = call_with(prune_and_repair, (), given)
    about = origin(call=call, config=[given], seed=seed, device=there, paper="pruning2024, section 5")
    return each_within(
        _repaired(
            task,
            kept,
            criterion,
            way,
            steps,
            [seed + APART * trial for trial in range(trials)],
            record_every,
            there,
            about,
        ),
        lambda: threads_for(0, there),
    )


def check(task: str, kept: int, criterion: str, way: str) -> None:
    """Raises a ValueError where an argument of `prune_and_repair` is wrong."""
    require(task in example.RULES, f"task must be one of {', '.join(example.RULES)}", task=task)
    require(2 <= kept < EXPERTS, f"kept must be from 2, which a token needs, to {EXPERTS - 1}", kept=kept)
    require(criterion in CRITERIA, f"criterion must be one of {', '.join(CRITERIA)}", criterion=criterion)
    require(way in WAYS, f"way must be one of {', '.join(WAYS)}", way=way)


def _repaired(
    task: str,
    kept: int,
    criterion: str,
    way: str,
    steps: int,
    seeds: Sequence[int],
    every: int,
    device: torch.device,
    about: dict[str, Any],
) -> Iterator[Snapshot]:
    own = CRITERIA.index(criterion)
    choices = [choices_of(task, kept, way, seed, LESSONS) for seed in seeds]
    constants = {name: np.stack([one.constants[name] for one in choices]) for name in choices[0].constants}
    for name in OF_CRITERION:
        constants[name] = constants[name][:, own]
    lessons = [
        example.teaching(
            one.pruned[own].model, task, steps=steps, every=every, learning_rate=RATE, seed=seed + 1, device=device
        )
        for one, seed in zip(choices, seeds, strict=True)
    ]
    for states in zip(*lessons, strict=True):
        found, taken = np.array([asked(model, task) for _, model in states]), states[0][0]
        values = {"accuracy": found[:, 0], "others": found[:, 1], **constants}
        ended = np.full(len(seeds), taken == steps)
        yield Snapshot(
            step=taken,
            values=values,
            measures={name: MEASURES[name] for name in values},
            steps=np.full(len(seeds), taken),
            finished=ended,
            diverged=np.zeros_like(ended),
            coords={"criterion": list(CRITERIA)},
            origin=about,
        )


def asked(model: nn.Module, task: str) -> tuple[float, float]:
    """Returns the share of right answers to a rule, and the mean of those to the others of KNOWN."""
    others = [one for one in KNOWN if one != task]
    right = {one: example.accuracy(model, one) for one in (task, *others)}
    return right[task], float(np.mean([right[one] for one in others]))


class Choices(NamedTuple):
    """A model that was pruned by each of CRITERIA.

    Attributes:
      pruned: by each criterion.
      constants: measures that the repair does not change, OF_CRITERION for each of them, (criterion, ...).
    """

    pruned: tuple[Pruned, ...]
    constants: Mapping[str, Any]


@lru_cache(maxsize=64)
def choices_of(task: str, kept: int, way: str, seed: int, lessons: int) -> Choices:
    """Prunes the fine-tuned model of a seed by each criterion, and at random; they are kept, as models are small.

    Args:
      lessons: steps of the base model.
    """
    base, tuned = models_of(task, seed, lessons)
    batches, share = [{"input_ids": example.questions(task)[0]}], 1 - kept / EXPERTS
    pruned = [prune_experts(tuned, base, one, share, way, batches=batches, seed=seed) for one in CRITERIA]
    chance = [prune_experts(tuned, None, "random", share, way, seed=seed + draw).model for draw in range(1, DRAWS)]
    costs = [one.costs.sel(way=way) / one.costs.sel(way="whole") for one in pruned]
    whole, others = asked(tuned, task)
    right = [example.accuracy(one.model, task) for one in pruned]
    return Choices(
        tuple(pruned),
        {
            "whole": whole,
            "others_whole": others,
            "by_criterion": right,
            "by_chance": [right[CRITERIA.index("random")], *(example.accuracy(model, task) for model in chance)],
            "scores": [[scores.tolist() for scores in one.scores.values()] for one in pruned],
            "stays": [[[float(expert in left) for expert in range(EXPERTS)] for left in one.kept.values()]
                      for one in pruned],
            "bytes": [float(one["bytes"]) for one in costs],
            "operations": [float(one["operations"]) for one in costs],
        },
    )  # fmt: skip


@lru_cache(maxsize=64)
def models_of(task: str, seed: int, lessons: int) -> tuple[nn.Module, nn.Module]:
    """Returns the base model of a seed, and the one that was fine-tuned to a rule."""
    base = base_of(seed, lessons)
    return base, example.taught(base, task, steps=TUNING, learning_rate=RATE, seed=seed + 1)


@lru_cache(maxsize=64)
def base_of(seed: int, lessons: int) -> nn.Module:
    """Returns the base model of a seed, which was taught the known rules: two seconds."""
    base: nn.Module = example.taught(example.tiny_mixtral(seed=seed), *KNOWN, steps=lessons, seed=seed)
    return base
