"""What this room refuses: at once, before the first Snapshot, with the rule and the value, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.config import Config, ConfigError
from moe_lab.patch_routing import PatternTask
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock import JointEM, Run, Spectral, train

NAN = float("nan")
BAD: list[tuple[type[Config], dict[str, Any], str]] = [
    (MixtureTask, {"experts": 1}, r"experts \(k\) must be at least 2: got k=1"),
    (MixtureTask, {"experts": 65}, r"experts \(k\) must be at most 64: got k=65"),
    (MixtureTask, {"experts": 2.5}, r"experts \(k\) must be a whole number: got k=2.5"),
    (MixtureTask, {"experts": 11}, r"dimension \(d\) must be at least experts \(k\), so that .*: got d=10, k=11"),
    (
        MixtureTask,
        {"experts": 10, "gating": "orthogonal"},
        r"dimension \(d\) must be greater than experts \(k\), so that gates .*: got d=10, k=10",
    ),
    (MixtureTask, {"dimension": 1}, r"dimension \(d\) must be at least 2: got d=1"),
    (MixtureTask, {"noise": 0}, r"noise \(sigma\) must be greater than 0: got sigma=0"),
    (MixtureTask, {"noise": -0.1}, r"noise \(sigma\) must be greater than 0: got sigma=-0.1"),
    (MixtureTask, {"noise": NAN}, r"noise \(sigma\) must be a finite number: got sigma=nan"),
    (MixtureTask, {"activation": "swish"}, r"activation \(g\) must be one of 'identity', .*: got g='swish'"),
    (MixtureTask, {"gating": "none"}, r"gating must be one of 'orthogonal' or 'random': got gating='none'"),
    (MixtureTask, {"regressors": "same"}, r"regressors must be one of 'random' or 'orthonormal': got .*'same'"),
    (MixtureTask, {"gate_norm": -1}, r"gate_norm \(R\) must be at least 0: got R=-1"),
    (MixtureTask, {"first_share": 1}, r"first_share \(p\) must be less than 1: got p=1"),
    (MixtureTask, {"first_share": 0.0}, r"first_share \(p\) must be greater than 0: got p=0.0"),
    (MixtureTask, {"k": 3}, r"MixtureTask has no parameter 'k': it takes experts, dimension, "),
    (Spectral, {"decomposition": "svd"}, r"decomposition must be one of 'power' or 'orth-als': got .*'svd'"),
    (Spectral, {"robust": "very"}, r"robust must be True or False: got robust='very'"),
    (Spectral, {"restarts": 0}, r"restarts must be at least 1: got restarts=0"),
    (Spectral, {"power_iterations": 0}, r"power_iterations must be at least 1: got power_iterations=0"),
    (
        Spectral,
        {"gate_step": "none"},
        r"gate_step must be one of 'newton', 'gradient', 'moments' or 'centred-moments': got gate_step='none'",
    ),
    (Spectral, {"gate_rate": 0}, r"gate_rate must be greater than 0: got gate_rate=0"),
    (Spectral, {"gate_iterations": -1}, r"gate_iterations must be at least 0: got gate_iterations=-1"),
    (Spectral, {"joint_iterations": -1}, r"joint_iterations must be at least 0: got joint_iterations=-1"),
    (Spectral, {"third": "y^3"}, r"third must be one of 'P3\(y\)' or 'y': got third='y\^3'"),
    (JointEM, {"iterations": 0}, r"iterations must be at least 1: got iterations=0"),
    (JointEM, {"radius": 0}, r"radius \(R\) must be greater than 0: got R=0"),
    (JointEM, {"robust": True}, r"JointEM has no parameter 'robust': it takes iterations, "),
]


@pytest.mark.parametrize("kind, values, sentence", BAD, ids=[f"{row[0].__name__} {row[1]}" for row in BAD])
def test_a_bad_value_is_told_in_one_sentence(kind, values, sentence):
    with pytest.raises(ConfigError, match=f"^{sentence}") as raised:
        kind(**values)
    assert "\n" not in str(raised.value)


RUNS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (Spectral(), {"samples": 19}, ConfigError, r"^samples \(n\) must be at least dimension .*: got n=19, d=10, k=2$"),
    (JointEM(), {"samples": 0}, ConfigError, r"^samples \(n\) must be at least 1: got n=0$"),
    (JointEM(), {"trials": 0}, ConfigError, r"^trials must be at least 1: got trials=0$"),
    (JointEM(), {"first_trial": -1}, ConfigError, r"^first_trial must be at least 0: got first_trial=-1$"),
    (Spectral(), {"seed": -1}, ConfigError, r"^seed must be at least 0: got seed=-1$"),
    (Spectral(), {"record_every": 0}, ConfigError, r"^record_every must be at least 1: got record_every=0$"),
    (Spectral(), {"device": "gpu"}, ValueError, r"^device must be 'auto', .*: got device='gpu'$"),
    (Spectral(), {"device": "cuda:77"}, RuntimeError, "^device 'cuda:77' is not present on this machine"),
    (Spectral(), {"precision": "float16"}, ConfigError, "^precision must be one of 'float32' or 'floa"),
    (Spectral(), {"epochs": 1}, ConfigError, "^Run has no parameter 'epochs': it takes model, task, "),
]


@pytest.mark.parametrize("model, values, error, sentence", RUNS, ids=[str(row[1]) for row in RUNS])
def test_a_bad_call_raises_before_the_first_snapshot(model, values, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        train(model, MixtureTask(), **values)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "model, task, sentence",
    [
        ("em", MixtureTask(), "^model must be Spectral or JointEM: got model='em'$"),
        (Spectral(), PatternTask(), r"^task must be MixtureTask: got task=PatternTask\("),
        (Spectral(), None, "^task must be MixtureTask: got task=None$"),
    ],
)
def test_models_and_tasks_of_this_room_only(model, task, sentence):
    """Through Run, which `train` makes: under pytest, `train`'s own types are checked before its body."""
    with pytest.raises(ConfigError, match=sentence):
        Run(model=model, task=task)


def test_bad_draws():
    with pytest.raises(ValueError, match=r"^samples \(n\) must be at least 1: got n=0$"):
        MixtureTask().sample(0, trials=[0], seed=0)
    with pytest.raises(ValueError, match=r"^trials must name at least one trial: got trials=\[\]$"):
        MixtureTask().sample(5, trials=[], seed=0)
    with pytest.raises(ValueError, match=r"^seed and trial must be at least 0: got seed=0, trial=-1$"):
        MixtureTask().sample(5, trials=[-1], seed=0)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has an MPS device")
def test_mps_must_be_there():
    with pytest.raises(RuntimeError, match=r"^device 'mps' is not present on this machine"):
        train(Spectral(), MixtureTask(), device="mps")


words = st.text(st.characters(exclude_characters=";"), max_size=3)  # "; " stands between sentences
anything = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), words, st.lists(st.floats())
)


@pytest.mark.parametrize("kind", [MixtureTask, Spectral, JointEM, Run])
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_anything_is_a_config_or_a_clear_sentence(kind, data):
    names = [name for name in kind.model_fields if name not in ("model", "task")]
    values = data.draw(st.dictionaries(st.sampled_from(names), anything, min_size=1, max_size=3))
    parts = {"model": Spectral(), "task": MixtureTask()} if kind is Run else {}
    try:
        made = kind(**parts, **values)
    except ConfigError as error:
        for sentence in str(error).split("; "):
            assert ": got " in sentence and "\n" not in sentence, sentence
            assert "Input" not in sentence and "valid (" not in sentence, sentence  # no word of pydantic's
            assert any(name in sentence for name in kind.model_fields), sentence
    else:
        assert made == made.replace()
