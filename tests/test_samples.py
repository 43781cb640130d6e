"""Samples of every task: each trial, split and seed has a stream of its own, whatever the number of samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from moe_lab.patch_routing import DigitTask, PatternTask
from moe_lab.pruning import TokenTask
from moe_lab.recovery import MixtureTask
from moe_lab.specialization import ClusterTask

Parts = Callable[[Any], list[Tensor]]


@dataclass(frozen=True)
class Drawn:
    """A task, the tensors (trials, samples, ...) of its samples, and those (trials, ...) that all samples share."""

    task: Any
    parts: Parts
    shared: Parts = lambda samples: []

    def __call__(self, samples: int, trials: tuple[int, ...], seed: int = 3, **more: Any) -> Any:
        return self.task.sample(samples, trials=trials, seed=seed, **{"dtype": torch.float64, **more})


def of_patches(samples: Any) -> list[Tensor]:
    return [samples.patches(), samples.labels, samples.signal, samples.roles, samples.sides]


def of_clusters(samples: Any) -> list[Tensor]:
    names = ("labels", "clusters", "others", "strengths", "noise", "order")
    return [samples.patches(), *(getattr(samples, name) for name in names)]


def of_tokens(samples: Any) -> list[Tensor]:
    return [samples.tokens, samples.labels]


def of_mixtures(samples: Any) -> list[Tensor]:
    return [samples.x, samples.y, samples.experts]


def parameters(samples: Any) -> list[Tensor]:
    return [samples.truth.regressors, samples.truth.gates]


TASKS = {
    "patterns": Drawn(PatternTask(), of_patches),
    "patterns, three classes": Drawn(PatternTask(classes=3), of_patches),
    "digits": Drawn(DigitTask(), of_patches),
    "noisy digits": Drawn(DigitTask(noise=0.5), of_patches),
    "clusters": Drawn(ClusterTask(patches=3), of_clusters, lambda samples: [samples.signals]),
    "clusters with noise": Drawn(ClusterTask(patches=6), of_clusters, lambda samples: [samples.signals]),
    "tokens": Drawn(TokenTask(patterns=20, tokens=7), of_tokens),
    "skewed tokens": Drawn(TokenTask(patterns=20, tokens=7, zipf=1.0), of_tokens),
    "mixtures": Drawn(MixtureTask(experts=3, dimension=5), of_mixtures, parameters),
    "mixtures of two Gaussians": Drawn(
        MixtureTask(experts=3, dimension=5, first_share=0.5),
        of_mixtures,
        lambda samples: [*parameters(samples), samples.inputs.means],
    ),
}
EACH_TASK = pytest.mark.parametrize("drawn", TASKS.values(), ids=TASKS.keys())
EACH_SPLIT = pytest.mark.parametrize("split", ["train", "test"])


@EACH_SPLIT
@EACH_TASK
def test_few_samples_of_a_trial_are_the_first_of_many_among_others(drawn: Drawn, split: str) -> None:
    few, many = drawn(36, (4,), split=split), drawn(90, (9, 0, 4, 7), split=split)
    for short, long in zip(drawn.parts(few), drawn.parts(many), strict=True):
        assert torch.equal(short[0], long[2, :36])
    for alone, among in zip(drawn.shared(few), drawn.shared(many), strict=True):
        assert torch.equal(alone[0], among[2])


@EACH_TASK
def test_trials_splits_and_seeds_differ(drawn: Drawn) -> None:
    draws = [drawn(120, (trial,), split=split) for trial in (0, 1) for split in ("train", "test")]
    draws.append(drawn(120, (0,), seed=4))
    for number, first in enumerate(drawn.parts(draws[0])):
        in_turn = first.ndim == 2 and torch.equal(first[0], torch.arange(120) % (int(first.max()) + 1))
        if first.numel() and not in_turn:  # labels of patches balance in every trial alike
            assert len({drawn.parts(other)[number].numpy().tobytes() for other in draws}) == len(draws), number
    for number, first in enumerate(drawn.shared(draws[0])):
        train, test, other_trial, _, other_seed = (drawn.shared(other)[number] for other in draws)
        assert torch.equal(train, test) and not torch.equal(train, other_trial) and not torch.equal(first, other_seed)


@EACH_TASK
def test_float32_is_float64_rounded(drawn: Drawn) -> None:
    single, double = (drawn.parts(drawn(36, (0, 1), dtype=dtype)) for dtype in (torch.float32, torch.float64))
    floats = 0
    for rounded, exact in zip(single, double, strict=True):
        if exact.dtype == torch.float64:
            assert rounded.dtype == torch.float32
            torch.testing.assert_close(rounded, exact.float(), rtol=3e-7, atol=3e-7)
            floats += 1
        else:
            assert torch.equal(rounded, exact)
    assert floats >= 1
