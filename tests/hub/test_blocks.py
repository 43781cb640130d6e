"""Blocks that only one of two models has, weights that are zero or not finite, and models that are not all there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from moe_lab_hub import experts_of, plan_checkpoint, prune_checkpoint, prune_experts
from moe_lab_hub.families import family_of
from tests.helpers.effort import one_in
from tests.hub.cases import CASES, EXPERTS, auto, inputs, logits, tiny

EXTRA = "mtp.layers.0."
CHANGES = {
    "router-norm-change": "router-magnitude",
    "router-difference-norm": "router-magnitude",
    "neuron-magnitude-change": "neuron-magnitude",
}


def saved(folder: Path, name: str, seed: int, extra: bool) -> None:
    """A tiny model in a folder, with a block more that transformers does not read, as for predicting further tokens."""
    tiny(name, seed).save_pretrained(folder)
    state = load_file(folder / "model.safetensors")
    family = family_of(tiny(name).config.model_type)
    block = list(experts_of(tiny(name)).layers)[-1]
    for tensor in list(state) if extra else []:
        place = family.split(tensor)
        if place and place[0] == block:
            own = tensor.removesuffix(place[1]).rstrip(".").rpartition(".")[2]
            state[f"{EXTRA}{own}.{place[1]}"] = state[tensor].flip(-1).clone()
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", one_in(3, CASES, 0))
def test_a_block_that_only_the_base_has_does_not_count(name, tmp_path):
    """As where transformers saved the fine-tuned model: it leaves out the block that predicts further tokens."""
    saved(tmp_path / "after", name, 0, extra=False)
    saved(tmp_path / "base", name, 1, extra=True)
    plan = plan_checkpoint(tmp_path / "after", tmp_path / "base")
    wanted = prune_experts(tiny(name), tiny(name, 1))
    assert plan.kept == wanted.kept and plan.notes == ()


@pytest.mark.parametrize("name", one_in(3, CASES, 1))
def test_a_block_without_a_partner_is_scored_by_what_needs_none(name, tmp_path):
    saved(tmp_path / "after", name, 0, extra=True)
    saved(tmp_path / "base", name, 1, extra=False)
    criterion = list(CHANGES)[len(name) % len(CHANGES)]
    sentence = rf"^before has no {EXTRA}\S+, which is scored by {CHANGES[criterion]}$"
    with pytest.warns(UserWarning, match=sentence) as told:
        plan = prune_checkpoint(tmp_path / "after", tmp_path / "out", tmp_path / "base", criterion)
    assert len(told) == 1 and plan.notes == (str(told[0].message),)
    (block,) = (key for key in plan.kept if key.startswith(EXTRA))
    alone = plan_checkpoint(tmp_path / "after", criterion=CHANGES[criterion])
    assert torch.equal(plan.scores[block], alone.scores[block]) and plan.kept[block] == alone.kept[block]
    wanted = prune_experts(tiny(name), tiny(name, 1), criterion)
    assert {key: kept for key, kept in plan.kept.items() if key != block} == wanted.kept
    read = auto(name).from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(logits(read, inputs(name)), logits(wanted.model, inputs(name)), rtol=1e-6, atol=1e-6)
    cut, whole = (load_file(tmp_path / home / "model.safetensors") for home in ("out", "after"))
    sizes = [sum(one.numel() for key, one in state.items() if key.startswith(EXTRA)) for state in (cut, whole)]
    assert 0 < sizes[0] < sizes[1]


@pytest.mark.parametrize("mode", ["rerouted", "silent"])
def test_a_block_without_a_partner_in_memory(mode):
    """The first layer of the model before is dense; a function is told by what it is given."""
    before, model = tiny("qwen3_moe", mlp_only_layers=[0]), tiny("qwen3_moe", seed=1)
    with pytest.warns(UserWarning, match=r"^before has no model.layers.0.mlp, which is scored by router-magnitude$"):
        pruned = prune_experts(model, before, mode=mode)
    alone = prune_experts(model, criterion="router-magnitude", mode=mode)
    assert pruned.kept["model.layers.0.mlp"] == alone.kept["model.layers.0.mlp"] and len(pruned.kept) == 2
    same: list[bool] = []

    def function(old: Any, new: Any, known: Any) -> torch.Tensor:
        same.append(torch.equal(old.own_routers, new.own_routers))
        return known.chance

    with pytest.warns(UserWarning, match=r"^before has no model.layers.0.mlp, .* with the model itself in its place$"):
        prune_experts(model, before, function, mode=mode)
    assert same == [True, False]
    only = prune_experts(model, before, layers=["model.layers.1.mlp"], mode=mode)
    assert only.notes == () and not prune_experts(before, model).notes  # the blocks of the model to prune count


def test_two_names_of_one_part_are_refused(tmp_path):
    """transformers reads one of the two, and which one depends on its version."""
    saved(tmp_path / "after", "mixtral", 0, extra=False)
    state = load_file(tmp_path / "after" / "model.safetensors")
    fused = {
        f"model.layers.0.mlp.experts.{name}": one.data
        for name, one in tiny("mixtral", 1).model.layers[0].mlp.experts.named_parameters()
    }
    for more in (fused, {"model.layers.0.mlp.gate.weight": torch.ones(EXPERTS, 16)}):
        save_file({**state, **more}, tmp_path / "after" / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ValueError, match=r"^model.layers.0.mlp must hold each part once, under one name"):
            plan_checkpoint(tmp_path / "after", criterion="random")


# --- zeros and what is not finite -------------------------------------------------------------------------------------


def of_expert(model: nn.Module, block: str, expert: int) -> list[torch.Tensor]:
    """An expert's own weights."""
    found = []
    for name, tensor in model.get_submodule(block).state_dict(keep_vars=True).items():
        if f"expert_{expert}." in name:
            found.append(tensor.data)
        elif name.startswith("experts.") and "expert_" not in name:
            found.append(tensor.data.unflatten(0, (EXPERTS, -1))[expert])
    return found


@pytest.mark.parametrize("name", one_in(3, CASES, 2))
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_an_expert_may_be_zero_in_any_layer(name, kind):
    """As after an earlier pruning: it has no effect on any token, which is no mistake of the model."""
    for block in experts_of(tiny(name)).layers:
        model = tiny(name, kind=kind)
        for weights in of_expert(model, block, 3):
            weights.zero_()
        for mode in ("rerouted", "silent"):
            pruned = prune_experts(model, criterion="router-magnitude", mode=mode)
            assert len(pruned.kept[block]) == EXPERTS / 2


@pytest.mark.parametrize("name", one_in(3, CASES, 0))
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_named_first(name, value, tmp_path):
    """In memory and on disk, in any layer and whatever the criterion reads."""
    criteria = ("random", "router-magnitude", "neuron-magnitude")
    for number, block in enumerate(experts_of(tiny(name)).layers):
        model = tiny(name)
        expert = 5 - number
        of_expert(model, block, expert)[-1].flatten()[0] = value
        folder = tmp_path / str(number)
        model.save_pretrained(folder)
        sentence = rf"^the weights of a model must be finite: got {value} in expert {expert} of {re.escape(block)} \("
        for ask in asked(model, folder, criteria[number % 3]):
            with pytest.raises(ValueError, match=sentence):
                ask()


def asked(model: nn.Module, folder: Path, criterion: str) -> list[Callable[[], Any]]:
    return [lambda: prune_experts(model, criterion=criterion), lambda: plan_checkpoint(folder, criterion=criterion)]


@pytest.mark.parametrize("criterion", ["router-norm-change", "neuron-magnitude-change"])
def test_what_is_not_finite_before_is_named_if_it_is_read(criterion, tmp_path):
    model, before = tiny("mixtral"), tiny("mixtral", seed=1)
    block = before.model.layers[1].mlp
    (block.gate.weight if "router" in criterion else block.experts.gate_up_proj).data[6].fill_(torch.nan)
    before.save_pretrained(tmp_path / "base")
    model.save_pretrained(tmp_path / "after")
    sentence = r"^the weights of before must be finite: got nan in expert 6 of model.layers.1.mlp \("
    other = next(one for one in CHANGES if one.split("-")[0] != criterion.split("-")[0])
    with pytest.raises(ValueError, match=sentence):
        prune_experts(model, before, criterion)
    with pytest.raises(ValueError, match=sentence):
        plan_checkpoint(tmp_path / "after", tmp_path / "base", criterion)
    assert (
        prune_experts(model, before, other).kept == plan_checkpoint(tmp_path / "after", tmp_path / "base", other).kept
    )


def test_an_expert_may_be_switched_off_by_its_bias():
    model = tiny("deepseek_v3")
    model.model.layers[1].mlp.gate.e_score_correction_bias.data[2] = -torch.inf
    assert prune_experts(model, criterion="router-magnitude").kept
    model.model.layers[1].mlp.gate.e_score_correction_bias.data[4] = torch.nan
    with pytest.raises(ValueError, match=r"got nan in expert 4 of model.layers.1.mlp \(.*e_score_correction_bias\)$"):
        prune_experts(model, criterion="router-magnitude")


# --- what is not there ------------------------------------------------------------------------------------------------


def test_a_model_that_is_offloaded_is_refused():
    model = tiny("mixtral")
    model.model.layers[1].to("meta")
    sentence = r"^a model must be in memory as a whole .*: got on_the_meta_device='model.layers.1"
    for pair in ((model, None), (tiny("mixtral"), model)):
        with pytest.raises(ValueError, match=sentence):
            prune_experts(*pair, criterion="random")
    assert not experts_of(model).supported and "as a whole" in experts_of(model).reason


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (
            {"input_ids": torch.ones(1, 0, dtype=torch.long)},
            r"^a batch must hold at least one token in input_ids: got ",
        ),
        ({"input_ids": torch.ones(0, 3, dtype=torch.long)}, r"one token in input_ids: got shape=\(0, 3\)$"),
        ({"inputs_embeds": torch.ones(2, 0, 16)}, r"one token in inputs_embeds: got shape=\(2, 0, 16\)$"),
        (
            {"input_ids": torch.ones(1, 3, dtype=torch.long), "attention_mask": torch.zeros(1, 3)},
            r"^at least one token must reach model.layers.0.mlp \(those whose attention_mask is 0 do not count\)",
        ),
    ],
)
@pytest.mark.parametrize("criterion", ["importance-score", "token-count", "reap"])
def test_no_tokens_are_refused(batch, sentence, criterion):
    with pytest.raises(ValueError, match=sentence):
        prune_experts(tiny("mixtral"), criterion=criterion, batches=[batch])
