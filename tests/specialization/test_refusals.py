"""What this room refuses: at once, before the first Snapshot, with the rule and the value, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.config import Config, ConfigError
from moe_lab.patch_routing import PatternTask
from moe_lab.specialization import ClusterTask, Run, SingleExpert, SwitchMoE, train
from moe_lab.specialization.experts import make_inputs

NAN = float("nan")
RANGE = r"must be a range \(low, high\) with 0 < low <= high.*"

BAD: list[tuple[type[Config], dict[str, Any], str]] = [
    (ClusterTask, {"clusters": 1}, r"clusters \(K\) must be at least 2: got K=1"),
    (ClusterTask, {"clusters": 2.5}, r"clusters \(K\) must be a whole number: got K=2.5"),
    (ClusterTask, {"clusters": "four"}, r"clusters \(K\) must be a whole number: got K='four'"),
    (ClusterTask, {"clusters": 26}, r"dimension \(d\) must be at least 2 clusters \(K\), .*: got d=50, K=26"),
    (ClusterTask, {"dimension": 7}, r"dimension \(d\) must be at least 2 clusters \(K\), .*: got d=7, K=4"),
    (ClusterTask, {"dimension": 3}, r"dimension \(d\) must be at least 4: got d=3"),
    (ClusterTask, {"patches": 2}, r"patches \(P\) must be at least 3: got P=2"),
    (ClusterTask, {"noise": -0.5}, r"noise \(sigma_p\) must be at least 0: got sigma_p=-0.5"),
    (ClusterTask, {"noise": NAN}, r"noise \(sigma_p\) must be a finite number: got sigma_p=nan"),
    (ClusterTask, {"noise": float("inf")}, r"noise \(sigma_p\) must be a finite number: got sigma_p=inf"),
    (ClusterTask, {"feature": (2, 1)}, rf"feature \(alpha\) {RANGE}: got alpha=\(2.0, 1.0\)"),
    (ClusterTask, {"center": (0, 1)}, rf"center \(beta\) {RANGE}: got beta=\(0.0, 1.0\)"),
    (ClusterTask, {"feature_noise": (-1, 1)}, rf"feature_noise \(gamma\) {RANGE}: got gamma=\(-1.0, 1.0\)"),
    (ClusterTask, {"feature_noise": (1, 1e7)}, rf"feature_noise \(gamma\) {RANGE}: got gamma=\(1.0, 10000000.0\)"),
    (ClusterTask, {"center": (1, NAN)}, r"center \(beta\) must be a finite number: got beta=nan"),
    (ClusterTask, {"feature": (1,)}, r"feature \(alpha\) must hold 2 values: got alpha=\(1,\)"),
    (ClusterTask, {"feature": (1, 2, 3)}, r"feature \(alpha\) must hold 2 values: got alpha=\(1, 2, 3\)"),
    (ClusterTask, {"feature": 1.5}, r"feature \(alpha\) must be a sequence of values: got alpha=1.5"),
    (ClusterTask, {"feature": (1, "x")}, r"feature \(alpha\) must hold numbers only: got alpha='x'"),
    (ClusterTask, {"scale": 0}, r"scale must be greater than 0: got scale=0"),
    (ClusterTask, {"one_data_set": "maybe"}, r"one_data_set must be True or False: got one_data_set='maybe'"),
    (ClusterTask, {"alpha": (1, 2)}, r"ClusterTask has no parameter 'alpha': it takes clusters, patches, "),
    (SwitchMoE, {"experts": 0}, r"experts \(M\) must be at least 1: got M=0"),
    (SwitchMoE, {"experts": 1.5}, r"experts \(M\) must be a whole number: got M=1.5"),
    (SwitchMoE, {"filters": 0}, r"filters \(J\) must be at least 1: got J=0"),
    (SwitchMoE, {"filters": 5, "activation": "relu"}, r"filters \(J\) must be even, because half .* relu .*: got J=5"),
    (SwitchMoE, {"filters": 5, "activation": "celu"}, r"filters \(J\) must be even, because half .* celu .*: got J=5"),
    (SwitchMoE, {"filters": 1, "activation": "gelu"}, r"filters \(J\) must be even, because half .* gelu .*: got J=1"),
    (SwitchMoE, {"filters": 7, "objective": "authors"}, r"filters \(J\) must be even, because half .*: got J=7"),
    (SwitchMoE, {"activation": "sigmoid"}, r"activation \(sigma\) must be one of 'cubic', .*: got sigma='sigmoid'"),
    (SwitchMoE, {"objective": "theirs"}, r"objective must be one of 'paper' or 'authors': got objective='theirs'"),
    (SwitchMoE, {"learning_rate": 0}, r"learning_rate \(eta\) must be greater than 0: got eta=0"),
    (SwitchMoE, {"learning_rate": "fast"}, r"learning_rate \(eta\) must be a number: got eta='fast'"),
    (SwitchMoE, {"router_learning_rate": -1}, r"router_learning_rate \(eta_r\) must be at least 0: got eta_r=-1"),
    (SwitchMoE, {"initial_scale": 0}, r"initial_scale \(sigma_0\) must be greater than 0: got sigma_0=0"),
    (SwitchMoE, {"initial_scale": NAN}, r"initial_scale \(sigma_0\) must be a finite number: got sigma_0=nan"),
    (SwitchMoE, {"router_noise": -0.1}, r"router_noise \(r\) must be at least 0: got r=-0.1"),
    (SwitchMoE, {"load_balancing": -1}, r"load_balancing \(lambda\) must be at least 0: got lambda=-1"),
    (SwitchMoE, {"biases": True}, r"SwitchMoE has no parameter 'biases': it takes experts, filters, "),
    (SingleExpert, {"filters": 5}, r"filters \(J\) must be even, because half .*: got J=5"),
    (SingleExpert, {"filters": 1}, r"filters \(J\) must be at least 2: got J=1"),
    (SingleExpert, {"weight_decay": -1}, r"weight_decay must be at least 0: got weight_decay=-1"),
    (SingleExpert, {"learning_rate": 0}, r"learning_rate \(eta\) must be greater than 0: got eta=0"),
    (SingleExpert, {"experts": 2}, r"SingleExpert has no parameter 'experts': it takes filters, "),
]


@pytest.mark.parametrize("kind, values, sentence", BAD, ids=[f"{kind.__name__} {values}" for kind, values, _ in BAD])
def test_a_bad_value_gives_one_sentence(kind, values, sentence):
    with pytest.raises(ConfigError, match=f"^{sentence}") as raised:
        kind(**values)
    assert "\n" not in str(raised.value) and "; " not in str(raised.value)


def test_odd_filters_are_fine_where_one_sign_is_enough():
    for activation in ("cubic", "linear", "tanh"):
        assert not SwitchMoE(activation=activation, filters=5).two_signs


NO_BASIS = r"signal_basis needs cubic filters, or filters without biases and with .*: got activation="
RUNS: list[tuple[Any, Any, dict[str, Any], type[Exception], str]] = [
    (SwitchMoE(), ClusterTask(), {"samples": 0}, ConfigError, r"^samples \(n\) must be at least 1: got n=0$"),
    (SwitchMoE(), ClusterTask(), {"samples": 10.5}, ConfigError, r"^samples \(n\) must be a whole number: got n=10.5$"),
    (SwitchMoE(), ClusterTask(), {"test_samples": 0}, ConfigError, r"^test_samples \(n_test\) must be at least 1"),
    (SwitchMoE(), ClusterTask(), {"trials": 0}, ConfigError, r"^trials \(T\) must be at least 1: got T=0$"),
    (SwitchMoE(), ClusterTask(), {"first_trial": -1}, ConfigError, r"^first_trial must be at least 0: got "),
    (SwitchMoE(), ClusterTask(), {"seed": -1}, ConfigError, r"^seed must be at least 0: got seed=-1$"),
    (SwitchMoE(), ClusterTask(), {"steps": 0}, ConfigError, r"^steps must be at least 1: got steps=0$"),
    (SwitchMoE(), ClusterTask(), {"record_every": 0}, ConfigError, r"^record_every must be at least 1: got "),
    (SwitchMoE(), ClusterTask(), {"measure": "never"}, ConfigError, r"^measure must be one of 'every' or 'last': got "),
    (
        SwitchMoE(activation="tanh"),
        ClusterTask(),
        {"signal_basis": True},
        ConfigError,
        f"^{NO_BASIS}'tanh', biases=Fal",
    ),
    (
        SwitchMoE(activation="gelu"),
        ClusterTask(),
        {"signal_basis": True},
        ConfigError,
        f"^{NO_BASIS}'gelu', biases=Fal",
    ),
    (
        SwitchMoE.authors(activation="relu"),
        ClusterTask(),
        {"signal_basis": True},
        ConfigError,
        f"^{NO_BASIS}'relu', biases=True$",
    ),
    (
        SingleExpert(activation="relu"),
        ClusterTask(),
        {"signal_basis": True},
        ConfigError,
        f"^{NO_BASIS}'relu', biases=True$",
    ),
    (SwitchMoE(), ClusterTask(), {"device": "gpu"}, ValueError, r"^device must be 'auto', .*: got device='gpu'$"),
    (SwitchMoE(), ClusterTask(), {"device": 0}, ConfigError, r"^device must be text: got device=0$"),
    (
        SwitchMoE(),
        ClusterTask(),
        {"device": "cuda:77"},
        RuntimeError,
        "^device 'cuda:77' is not present on this machine",
    ),
    (SwitchMoE(), ClusterTask(), {"precision": "float16"}, ConfigError, "^precision must be one of 'float32' or 'floa"),
    (SwitchMoE(), ClusterTask(), {"epochs": 1}, ConfigError, "^Run has no parameter 'epochs': it takes model, task, "),
]


@pytest.mark.parametrize("model, task, given, error, sentence", RUNS, ids=[str(row[2]) for row in RUNS])
def test_a_bad_call_raises_before_the_first_snapshot(model, task, given, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        train(model, task, **given)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "model, task, sentence",
    [
        ("moe", ClusterTask(), "^model must be SwitchMoE or SingleExpert: got model='moe'$"),
        (SwitchMoE(), PatternTask(), r"^task must be ClusterTask: got task=PatternTask\("),
        (SwitchMoE(), None, "^task must be ClusterTask: got task=None$"),
    ],
)
def test_models_and_tasks_of_this_room_only(model, task, sentence):
    """Through Run, which `train` makes: under pytest, `train`'s own types are checked before its body."""
    with pytest.raises(ConfigError, match=sentence):
        Run(model=model, task=task)


@pytest.mark.parametrize("number", [0, 5, -1])
def test_there_are_four_settings(number):
    with pytest.raises(ValueError, match=rf"^setting must be 1, 2, 3 or 4: got setting={number!r}$"):
        ClusterTask.setting(number)


def test_bad_draws():
    with pytest.raises(ValueError, match=r"^samples \(N\) must be at least 1: got N=0$"):
        ClusterTask().sample(0, trials=[0], seed=0)
    with pytest.raises(ValueError, match=r"^seed and trial must be at least 0: got seed=0, trial=-1$"):
        ClusterTask().sample(5, trials=[-1], seed=0)


def test_no_signal_basis_where_there_is_none():
    samples = ClusterTask().sample(5, trials=[0], seed=0)
    for activation, biases in (("tanh", False), ("relu", True)):
        sentence = rf"^signal_basis needs .*: got activation='{activation}', biases={biases}$"
        with pytest.raises(ValueError, match=sentence):
            make_inputs(samples, activation, biases=biases, signal_basis=True)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has an MPS device")
def test_mps_must_be_there():
    with pytest.raises(RuntimeError, match=r"^device 'mps' is not present on this machine"):
        train(SwitchMoE(), ClusterTask(), device="mps")


words = st.text(st.characters(exclude_characters=";"), max_size=3)  # "; " stands between sentences
anything = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), words, st.lists(st.floats())
)


@pytest.mark.parametrize("kind", [ClusterTask, SwitchMoE, SingleExpert, Run])
@given(data=st.data())
@settings(max_examples=75, deadline=None)
def test_anything_is_a_config_or_a_clear_sentence(kind, data):
    names = [name for name in kind.model_fields if name not in ("model", "task")]
    values = data.draw(st.dictionaries(st.sampled_from(names), anything, min_size=1, max_size=3))
    given_parts = {"model": SwitchMoE(), "task": ClusterTask()} if kind is Run else {}
    try:
        made = kind(**given_parts, **values)
    except ConfigError as error:
        for sentence in str(error).split("; "):
            assert ": got " in sentence and "\n" not in sentence, sentence
            assert "Input" not in sentence and "valid (" not in sentence, sentence  # no word of pydantic's
            assert any(name in sentence for name in kind.model_fields), sentence
    else:
        assert made == made.replace()
