"""What training refuses: at once, before the first Snapshot, with the rule and the value."""

from __future__ import annotations

from typing import Any

import pytest

from moe_lab.config import ConfigError
from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask, Run, SeparateMoE, train, train_batch

BAD: list[tuple[Any, Any, dict[str, Any], type[Exception], str]] = [
    (
        JointMoE(patches_per_expert=20),
        PatternTask(),
        {},
        ConfigError,
        r"patches_per_expert \(l\) must be at most patches \(n\): got l=20, n=16",
    ),
    (SeparateMoE(patches_per_expert=17), PatternTask(), {}, ConfigError, "got l=17, n=16"),
    (
        SeparateMoE(neurons=15),
        PatternTask(),
        {},
        ConfigError,
        r"neurons \(m\) must be divisible by experts \(k\), .*: got m=15, k=2",
    ),
    (
        SeparateMoE(neurons=39),
        PatternTask(classes=3),
        {"samples": 300, "test_samples": 300},
        ConfigError,
        r"classes \(c\) must be even .*: got c=3",
    ),
    (
        JointMoE(),
        PatternTask(),
        {"samples": 201},
        ConfigError,
        r"samples \(N\) must be a positive multiple of classes \(2\), .*: got N=201",
    ),
    (JointMoE(), PatternTask(), {"test_samples": 3}, ConfigError, r"test_samples \(N_test\) must be .*: got N_test=3"),
    (
        JointMoE(),
        PatternTask(),
        {"samples": 10},
        ConfigError,
        r"batch_size \(B\) must be at most samples \(N\): got B=20, N=10",
    ),
    (JointMoE(), PatternTask(), {"trials": 0}, ConfigError, r"trials \(T\) must be at least 1: got T=0"),
    (JointMoE(), PatternTask(), {"seed": -1}, ConfigError, r"seed must be at least 0: got seed=-1"),
    (JointMoE(), PatternTask(), {"device": "gpu"}, ValueError, r"device must be 'auto', .*: got device='gpu'"),
    (JointMoE(), PatternTask(), {"device": "cuda:77"}, RuntimeError, "device 'cuda:77' is not present on this machine"),
    (
        JointMoE(),
        PatternTask(),
        {"precision": "float16"},
        ConfigError,
        "precision must be one of 'float32' or 'float64'",
    ),
    (JointMoE(), PatternTask(), {"speed": 1}, ConfigError, "Run has no parameter 'speed'"),
    (JointMoE(), DigitTask(source="mnist", root="/nowhere"), {}, FileNotFoundError, "root='/nowhere'"),
]


@pytest.mark.parametrize("model, task, given, error, sentence", BAD, ids=[row[-1][:40] for row in BAD])
def test_a_bad_call_raises_before_the_first_snapshot(model, task, given, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        train(model, task, **given)
    assert "\n" not in str(raised.value)


def test_k_must_divide_m_and_be_positive():
    with pytest.raises(ConfigError, match=r"^experts \(k\) must be at least 1: got k=0$"):
        JointMoE(experts=0)
    with pytest.raises(ConfigError, match=r"^neurons \(m\) must be divisible by experts \(k\), .*: got m=40, k=7$"):
        JointMoE(experts=7)


def test_runs_of_a_batch_must_fit_together():
    with pytest.raises(ValueError, match="train_batch needs at least one run"):
        train_batch([])
    runs = [Run(model=JointMoE(), task=PatternTask(noise=noise)) for noise in (0.1, 0.2)]
    with pytest.raises(ValueError, match=r"runs of one batch may differ in samples, trials, .* only: got first="):
        train_batch(runs)
