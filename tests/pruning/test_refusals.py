"""What this room refuses: at once, before the first Snapshot, with the rule and the value, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.config import Config, ConfigError
from moe_lab.pruning import BranchStart, PlantedStart, RandomStart, Run, TokenMoE, TokenTask, fine_tune, train
from moe_lab.specialization import ClusterTask

NAN, INF = float("nan"), float("inf")

BAD: list[tuple[type[Config], dict[str, Any], str]] = [
    (TokenTask, {"patterns": 2}, r"patterns \(d\) must be at least 3: got d=2$"),
    (TokenTask, {"patterns": 65537}, r"patterns \(d\) must be at most 65536: got d=65537$"),
    (TokenTask, {"patterns": 20.5}, r"patterns \(d\) must be a whole number: got d=20.5$"),
    (TokenTask, {"patterns": "many"}, r"patterns \(d\) must be a whole number: got d='many'$"),
    (TokenTask, {"tokens": 1}, r"tokens \(n\) must be at least 2: got n=1$"),
    (TokenTask, {"zipf": -0.1}, r"zipf \(z\) must be at least 0: got z=-0.1$"),
    (TokenTask, {"zipf": 4.5}, r"zipf \(z\) must be at most 4: got z=4.5$"),
    (TokenTask, {"zipf": NAN}, r"zipf \(z\) must be a finite number: got z=nan$"),
    (TokenTask, {"pair": -1}, r"pair must be at least 0: got pair=-1$"),
    (TokenTask, {"patterns": 8, "pair": 4}, r"pair must be less than half of the patterns \(d\), .*: got pair=4, d=8$"),
    (TokenTask, {"patterns": 7, "pair": 3}, r"pair must be less than half of the patterns \(d\), .*: got pair=3, d=7$"),
    (TokenTask, {"d": 20}, r"TokenTask has no parameter 'd': it takes patterns, tokens, zipf, pair$"),
    (TokenMoE, {"experts": 7}, r"experts \(k\) must be even, because half of them vote -: got k=7$"),
    (TokenMoE, {"experts": 0}, r"experts \(k\) must be at least 2: got k=0$"),
    (TokenMoE, {"neurons": 0}, r"neurons \(m\) must be at least 1: got m=0$"),
    (TokenMoE, {"neurons": 2.5}, r"neurons \(m\) must be a whole number: got m=2.5$"),
    (
        TokenMoE,
        {"routing": "switch"},
        r"routing must be one of 'expert-choice' or 'token-choice': got routing='switch'$",
    ),
    (TokenMoE, {"top": 0}, r"top \(l\) must be at least 1: got l=0$"),
    (
        TokenMoE,
        {"routing": "token-choice", "experts": 4, "top": 5},
        r"top \(l\) must be at most experts \(k\) where tokens choose: got l=5, k=4$",
    ),
    (TokenMoE, {"learning_rate": -1}, r"learning_rate \(eta_e\) must be at least 0: got eta_e=-1$"),
    (TokenMoE, {"learning_rate": "fast"}, r"learning_rate \(eta_e\) must be a number: got eta_e='fast'$"),
    (
        TokenMoE,
        {"router_learning_rate": INF},
        r"router_learning_rate \(eta_r\) must be a finite number: got eta_r=inf$",
    ),
    (TokenMoE, {"loss": "logistic"}, r"loss must be one of 'linear' or 'hinge': got loss='logistic'$"),
    (PlantedStart, {"important": -1}, r"important must be at least 0: got important=-1$"),
    (PlantedStart, {"margin": 0}, r"margin \(C_p\) must be greater than 0: got C_p=0$"),
    (PlantedStart, {"others_norm": 0}, r"others_norm must be greater than 0: got others_norm=0$"),
    (PlantedStart, {"others_neurons": NAN}, r"others_neurons must be a finite number: got others_neurons=nan$"),
    (PlantedStart, {"favourites": 0}, r"favourites must be at least 1: got favourites=0$"),
    (PlantedStart, {"router_scale": 0}, r"router_scale must be greater than 0: got router_scale=0$"),
    (RandomStart, {"neuron_scale": -1}, r"neuron_scale must be greater than 0: got neuron_scale=-1$"),
    (RandomStart, {"margin": 1}, r"RandomStart has no parameter 'margin': it takes router_scale, neuron_scale$"),
    (BranchStart, {"tasks": 0}, r"tasks must be at least 1: got tasks=0$"),
    (BranchStart, {"tasks": 65}, r"tasks must be at most 64: got tasks=65$"),
    (BranchStart, {"tokens": 1}, r"tokens must be at least 2: got tokens=1$"),
    (BranchStart, {"tokens": "few"}, r"tokens must be a whole number: got tokens='few'$"),
    (BranchStart, {"steps": 0}, r"steps must be at least 1: got steps=0$"),
    (BranchStart, {"batch": 0}, r"batch must be at least 1: got batch=0$"),
]


@pytest.mark.parametrize("kind, values, sentence", BAD, ids=[f"{kind.__name__} {values}" for kind, values, _ in BAD])
def test_a_bad_value_gives_one_sentence(kind, values, sentence):
    with pytest.raises(ConfigError, match=f"^{sentence}") as raised:
        kind(**values)
    assert "\n" not in str(raised.value) and "; " not in str(raised.value)


SMALL = TokenTask(patterns=20, tokens=8)
TOKEN_CHOICE = TokenMoE(routing="token-choice")
RUNS: list[tuple[Any, Any, dict[str, Any], type[Exception], str]] = [
    (TokenMoE(), TokenTask(), {"steps": 0}, ConfigError, r"steps \(T\) must be at least 1: got T=0"),
    (TokenMoE(), TokenTask(), {"steps": 1.5}, ConfigError, r"steps \(T\) must be a whole number: got T=1.5"),
    (TokenMoE(), TokenTask(), {"batch": 0}, ConfigError, r"batch \(B\) must be at least 1: got B=0"),
    (TokenMoE(), TokenTask(), {"trials": 0}, ConfigError, r"trials must be at least 1: got trials=0"),
    (TokenMoE(), TokenTask(), {"first_trial": -1}, ConfigError, "first_trial must be at least 0: got first_trial=-1"),
    (TokenMoE(), TokenTask(), {"seed": -1}, ConfigError, "seed must be at least 0: got seed=-1"),
    (
        TokenMoE(),
        TokenTask(),
        {"test_samples": 0},
        ConfigError,
        r"test_samples \(n_test\) must be at least 1: got n_test=0",
    ),
    (TokenMoE(), TokenTask(), {"record_every": 0}, ConfigError, "record_every must be at least 1: got record_every=0"),
    (
        TokenMoE(),
        TokenTask(),
        {"measure": "never"},
        ConfigError,
        "measure must be one of 'every' or 'last': got measure='nev",
    ),
    (
        TokenMoE(),
        TokenTask(),
        {"epochs": 1},
        ConfigError,
        "Run has no parameter 'epochs': it takes model, task, trials, ",
    ),
    (
        TokenMoE(),
        TokenTask(),
        {"precision": "float16"},
        ConfigError,
        "precision must be one of 'float32' or 'float64': got ",
    ),
    (TokenMoE(), TokenTask(), {"device": 0}, ConfigError, "device must be text: got device=0"),
    (TokenMoE(), TokenTask(), {"device": "gpu"}, ValueError, "device must be 'auto', .*: got device='gpu'"),
    (TokenMoE(), TokenTask(), {"device": "cuda:77"}, RuntimeError, "device 'cuda:77' is not present on this machine"),
    (
        TokenMoE(top=9),
        SMALL,
        {},
        ConfigError,
        r"top \(l\) must be at most tokens \(n\) where experts choose: got l=9, n=8",
    ),
    # planted
    (
        TokenMoE(experts=4),
        TokenTask(),
        {"start": PlantedStart(important=2)},
        ConfigError,
        r"important experts must leave at least one other in each half of the experts \(k\): got important=2, k=4",
    ),
    (
        TokenMoE(experts=40),
        SMALL,
        {},
        ConfigError,
        r"each of the other experts needs an irrelevant pattern of its own among the d - 2: got others=36, d=20",
    ),
    # branches
    (
        TokenMoE(experts=6),
        TokenTask(),
        {"start": BranchStart(tasks=4)},
        ConfigError,
        r"experts \(k\) must be at least two a pre-training task, .*: got k=6, tasks=4",
    ),
    (
        TokenMoE(),
        SMALL,
        {"start": BranchStart(tasks=10)},
        ConfigError,
        r"the pre-training tasks must leave at least one irrelevant pattern .* \(d\): got tasks=10, d=20",
    ),
    (
        TokenMoE(),
        TokenTask(pair=4),
        {"start": BranchStart(tasks=4)},
        ConfigError,
        "pair must be one of the pre-training tasks, counted from 0: got pair=4, tasks=4",
    ),
    (
        TOKEN_CHOICE,
        TokenTask(),
        {"start": BranchStart(tasks=5)},
        ConfigError,
        r"top \(l\) must be at most the experts of the smallest branch where tokens choose: got l=5, branch=4",
    ),
    (
        TokenMoE(),
        TokenTask(),
        {"start": BranchStart(tokens=4)},
        ConfigError,
        r"top \(l\) must be at most the tokens in a pre-training sample where experts choose: got l=5, tokens=4",
    ),
]


@pytest.mark.parametrize("model, task, given, error, sentence", RUNS, ids=[str(row[2]) for row in RUNS])
def test_a_bad_call_raises_before_the_first_snapshot(model, task, given, error, sentence):
    with pytest.raises(error, match=f"^{sentence}") as raised:
        train(model, task, **given)
    assert "\n" not in str(raised.value)


def test_what_is_just_possible_runs():
    """The neighbours of what is refused."""
    runs = [
        (TokenMoE(top=8), SMALL, {}),
        (TokenMoE(top=1), TokenTask(patterns=20, tokens=2), {}),
        (TokenMoE(experts=6), SMALL, {"start": PlantedStart(important=2)}),
        (TokenMoE(experts=22), SMALL, {}),
        (TokenMoE(experts=8), SMALL, {"start": BranchStart(tasks=4, steps=2, batch=2)}),
        (TokenMoE(experts=18), SMALL, {"start": BranchStart(tasks=9, steps=2, batch=2)}),
        (TOKEN_CHOICE.replace(top=4), SMALL, {"start": BranchStart(tasks=5, steps=2, batch=2)}),
        (TokenMoE(), SMALL, {"start": BranchStart(tasks=2, tokens=5, steps=2, batch=2)}),
        (TokenMoE(experts=2, neurons=1), TokenTask(patterns=3, tokens=8), {"start": RandomStart()}),
        (TokenMoE(learning_rate=0, router_learning_rate=0), SMALL, {"start": RandomStart()}),
    ]
    for model, task, more in runs:
        *_, last = train(
            model, task, **{"steps": 2, "batch": 2, "trials": 1, "test_samples": 8, "device": "cpu", **more}
        )
        assert last.step == 2 and not last.diverged.any()


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"model": "moe"}, "^model must be TokenMoE: got model='moe'$"),
        ({"task": ClusterTask()}, r"^task must be TokenTask: got task=ClusterTask\("),
        ({"task": None}, "^task must be TokenTask: got task=None$"),
        ({"start": "planted"}, "^start must be RandomStart or PlantedStart or BranchStart: got start='planted'$"),
    ],
)
def test_models_tasks_and_starts_of_this_room_only(values, sentence):
    """Through Run, which `train` makes: under pytest, `train`'s own types are checked before its body."""
    with pytest.raises(ConfigError, match=sentence):
        Run(**{"model": TokenMoE(), "task": TokenTask(), **values})


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has an MPS device")
def test_mps_must_be_there():
    run = Run(model=TokenMoE(), task=TokenTask(), device="mps")
    for call in (fine_tune, lambda run: train(run.model, run.task, device="mps")):
        with pytest.raises(RuntimeError, match=r"^device 'mps' is not present on this machine"):
            call(run)


def test_nothing_can_be_changed_afterwards():
    with pytest.raises(
        ConfigError, match=r"^a TokenMoE cannot be changed, make another with .replace\(top=\.\.\.\): got top=3"
    ):
        TokenMoE().top = 3


words = st.text(st.characters(exclude_characters=";"), max_size=3)  # "; " stands between sentences
anything = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), words, st.lists(st.floats())
)


@pytest.mark.parametrize("kind", [TokenTask, TokenMoE, PlantedStart, RandomStart, BranchStart, Run])
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_anything_is_a_config_or_a_clear_sentence(kind, data):
    names = [name for name in kind.model_fields if name not in ("model", "task")]
    values = data.draw(st.dictionaries(st.sampled_from(names), anything, min_size=1, max_size=3))
    given_parts = {"model": TokenMoE(), "task": TokenTask()} if kind is Run else {}
    try:
        made = kind(**given_parts, **values)
    except ConfigError as error:
        for sentence in str(error).split("; "):
            assert ": got " in sentence and "\n" not in sentence, sentence
            assert "Input" not in sentence and "valid (" not in sentence, sentence  # no word of pydantic's
            assert any(name in sentence for name in kind.model_fields), sentence
    else:
        assert made == made.replace()
