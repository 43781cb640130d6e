"""prune_experts, family by family: a pruned model computes what the whole one does when it may not use the others."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from moe_lab.core.saliency import UndefinedCriterionError
from moe_lab.core.words import series
from moe_lab_hub import Pruned, experts_of, prune_experts
from moe_lab_hub.check import self_check
from moe_lab_hub.families import FAMILIES
from moe_lab_hub.survey import layers_of_model
from tests.hub.cases import CASES, EXPERTS, ROUTERS, auto, inputs, logits, tiny

EACH = pytest.mark.parametrize("name", CASES)
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}
MODES = ("rerouted", "silent")
ADDED = ("e_score_correction_bias", "expert_bias")  # to the scores, after the softmax or sigmoid


@contextmanager
def masked(model: nn.Module, kept: Mapping[str, Sequence[int]]) -> Iterator[nn.Module]:
    """A copy of a model whose routers give -infinity to experts that are not kept, and add as much."""
    model = copy.deepcopy(model)
    away: dict[int, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        block = next((block for block in kept if name.startswith(f"{block}.")), None)
        if block is None:
            continue
        pruned = torch.ones(EXPERTS, dtype=torch.bool)
        pruned[list(kept[block])] = False
        if name.removeprefix(f"{block}.") in ROUTERS:
            away[tensor.data_ptr()] = pruned
        elif name.endswith(ADDED):
            tensor.data[..., pruned] = -torch.inf
    assert len(away) == len(kept)
    plain = torch.nn.functional.linear

    def linear(given: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        answer = plain(given, weight, bias)
        return answer.masked_fill(away[weight.data_ptr()], -torch.inf) if weight.data_ptr() in away else answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "linear", linear)
        yield model


def zeroed(model: nn.Module, kept: Mapping[str, Sequence[int]]) -> nn.Module:
    """A copy of a model whose other experts have only zeros."""
    model = copy.deepcopy(model)
    for name, tensor in model.named_parameters():
        block = next((block for block in kept if name.startswith(f"{block}.experts.")), None)
        for expert in set(range(EXPERTS)) - set(kept[block]) if block else ():
            if "expert_" in name:
                tensor.data.mul_(f"expert_{expert}." not in name)
            else:
                tensor.data.unflatten(0, (EXPERTS, -1))[expert] = 0
    return model


def test_every_family_is_tested_and_named_in_its_page(root):
    assert {kind for family in FAMILIES for kind in family.model_types} == set(CASES)
    page = (root / "docs" / "howto" / "prune.md").read_text(encoding="utf-8")
    assert series(family.name for family in FAMILIES) in " ".join(page.split())


@EACH
def test_rerouted_equals_masked_is_saved_and_trains_on(name, tmp_path):
    model, before, given = tiny(name), tiny(name, seed=1), inputs(name)
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    config = model.config.to_dict()
    pruned = prune_experts(model, before=before, criterion="router-norm-change", share=0.5)

    assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())
    assert model.config.to_dict() == config and pruned.model.training == model.training
    assert pruned.kept.keys() == experts_of(model).layers.keys()
    assert all(len(kept) == EXPERTS / 2 and list(kept) == sorted(kept) for kept in pruned.kept.values())
    assert set(experts_of(pruned.model).layers.values()) == {EXPERTS // 2}

    _check_costs(pruned, model)
    mine = logits(pruned.model, given)
    assert (mine - logits(model, given)).abs().max() > 1e-3
    with masked(model, pruned.kept) as oracle:
        torch.testing.assert_close(mine, logits(oracle, given), **TOLERANCE)

    pruned.model.save_pretrained(tmp_path)
    read = auto(name).from_pretrained(tmp_path)
    assert torch.equal(logits(read.eval(), given), mine)
    texts = [one.generate(given["input_ids"], max_new_tokens=3, do_sample=False) for one in (pruned.model, read)]
    assert torch.equal(*texts) and texts[0].shape[1] > 1

    losses = _losses(pruned.model, given)
    assert losses[-1] < losses[0]
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())


def _check_costs(pruned: Pruned, model: nn.Module) -> None:
    """Compares the parameters, and the bytes of what is saved, with those of both models."""
    for way, one in (("whole", model), (pruned.mode, pruned.model)):
        state = {id(tensor): tensor.nbytes for tensor in one.state_dict(keep_vars=True).values()}
        assert pruned.costs.parameters.sel(way=way) == sum(parameter.numel() for parameter in one.parameters())
        assert pruned.costs.bytes.sel(way=way) == sum(state.values())
    assert pruned.costs.attrs["mode"] == pruned.mode


def _losses(model: nn.Module, given: dict[str, Tensor], steps: int = 5) -> list[float]:
    """The loss before each step of Adam, and after the last."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for step in range(steps + 1):
        loss = model(**given, labels=given["input_ids"]).loss
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses


@EACH
def test_silent_equals_zeroed_and_is_not_saved(name, tmp_path):
    model, given = tiny(name), inputs(name)
    pruned = prune_experts(model, criterion="neuron-magnitude", share=0.5, mode="silent")
    _check_costs(pruned, model)
    torch.testing.assert_close(logits(pruned.model, given), logits(zeroed(model, pruned.kept), given), **TOLERANCE)
    losses = _losses(pruned.model, given)
    assert losses[-1] < losses[0]
    with pytest.raises(RuntimeError, match=r"^a silently pruned model cannot be saved by save_pretrained, because .*"):
        pruned.model.save_pretrained(tmp_path)
    assert not any(tmp_path.iterdir())


def test_pruned_layers_alone(tmp_path):
    """Counts that differ from layer to layer, in both modes; an ordinary checkpoint cannot say it."""
    model, given = tiny("mixtral"), inputs("mixtral")
    one = ["model.layers.1.mlp"]
    rerouted, silent = (
        prune_experts(model, None, "router-magnitude", 0.75, mode, one) for mode in ("rerouted", "silent")
    )
    assert list(rerouted.kept) == one and len(rerouted.kept[one[0]]) == 2
    with masked(model, rerouted.kept) as oracle:
        torch.testing.assert_close(logits(rerouted.model, given), logits(oracle, given), **TOLERANCE)
    torch.testing.assert_close(logits(silent.model, given), logits(zeroed(model, silent.kept), given), **TOLERANCE)
    with pytest.raises(RuntimeError, match=r"^a model that is pruned in some layers alone cannot be saved"):
        rerouted.model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match=r"^a silently pruned model cannot be saved"):
        silent.model.save_pretrained(tmp_path)
    assert not any(tmp_path.iterdir())


def test_the_state_of_a_silent_model_holds_everything(tmp_path):
    """As its refusal to be saved says: nothing is lost in a file of the state_dict."""
    model, given = tiny("gpt_oss"), inputs("gpt_oss")
    silent = prune_experts(model, criterion="random", mode="silent").model
    save_file(silent.state_dict(), tmp_path / "silent.safetensors")
    other = prune_experts(model, criterion="random", mode="silent").model
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(load_file(tmp_path / "silent.safetensors"))
    assert torch.equal(logits(other, given), logits(silent, given))


@pytest.mark.parametrize("implementation", ["eager", "grouped_mm", "batched_mm"])
def test_every_implementation_of_the_experts_is_pruned_alike(implementation):
    model, given = tiny("qwen3_moe"), inputs("qwen3_moe")
    wanted = [
        logits(prune_experts(model, criterion="random", mode=mode).model, given) for mode in ("rerouted", "silent")
    ]
    model.set_experts_implementation(implementation)
    for mode, answer in zip(MODES, wanted, strict=True):
        pruned = prune_experts(model, criterion="random", mode=mode).model
        assert pruned.config._experts_implementation == implementation
        torch.testing.assert_close(logits(pruned, given), answer, **TOLERANCE)


def test_a_model_keeps_its_type_ties_and_frozen_parameters():
    model = tiny("olmoe", tie_word_embeddings=True).to(torch.bfloat16).train()
    model.model.layers[0].self_attn.requires_grad_(False)
    pruned = prune_experts(model, criterion="router-magnitude").model
    assert {parameter.dtype for parameter in pruned.parameters()} == {torch.bfloat16} and pruned.training
    assert pruned.lm_head.weight is pruned.model.embed_tokens.weight
    frozen = [{name for name, one in each.named_parameters() if not one.requires_grad} for each in (model, pruned)]
    assert frozen[0] == frozen[1] != set()
    ours, theirs = (one.data_ptr() for one in (pruned.model.norm.weight, model.model.norm.weight))
    assert ours != theirs


# --- the self-check ---------------------------------------------------------------------------------------------------


@EACH
def test_every_expert_that_receives_tokens_has_an_effect(name):
    for kind in (torch.float32, torch.bfloat16):
        model = tiny(name, kind=kind)
        family, layers = layers_of_model(model)
        assert all(len(self_check(model, family, layer)) >= EXPERTS - 2 for layer in layers)


def test_a_model_that_computes_wrongly_is_refused(monkeypatch):
    """As NLLB-MoE does, which sends everything to experts 0 and 1."""
    model = tiny("mixtral")
    kind = type(model.model.layers[0].mlp.experts)
    right = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, hidden, index, gates: right(self, hidden, index % 2, gates))
    with pytest.raises(RuntimeError, match=r"wrongly: got (no|an) effect of expert [012] of model.layers.0.mlp"):
        prune_experts(model, criterion="router-magnitude")


def test_why_nllb_is_refused():
    """Its reason is still true: experts 2 to 7 have no effect."""
    config = transformers.NllbMoeConfig(
        vocab_size=48, d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=12, decoder_ffn_dim=12,
        encoder_attention_heads=2, decoder_attention_heads=2, num_experts=EXPERTS, encoder_sparse_step=2,
        decoder_sparse_step=2, expert_capacity=64,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    given = inputs("switch_transformers")
    whole = logits(model, given)
    for name, parameter in model.named_parameters():
        if any(f"expert_{expert}." in name for expert in range(2, EXPERTS)):
            parameter.data.zero_()
    assert torch.equal(logits(model, given), whole)
    survey = experts_of(model)
    assert not survey.supported and "experts 0 and 1 alone" in survey.reason
    with pytest.raises(ValueError, match="experts 0 and 1 alone"):
        prune_experts(model, criterion="router-magnitude")


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "share", "sentence"),
    [
        ("mixtral", 0.9, r"^as many experts must be kept as a token is sent to \(top-k = 2\): got kept=1, experts=8"),
        ("mixtral", 1, r"^share must be at least 0 and less than 1: got share=1$"),
        ("mixtral", -0.1, r"must be at least 0 and less than 1: got share=-0.1$"),
        ("deepseek_v3", 0.75, r"^DeepSeek-V3 must keep at least 2 experts in each of its 2 groups: got kept=1"),
        ("deepseek_v2", 0.75, r"^the 1 groups that a token chooses must keep as many experts as it is sent to"),
    ],
)
def test_too_few_experts_are_refused(name, share, sentence):
    with pytest.raises(ValueError, match=sentence):
        prune_experts(tiny(name), criterion="router-magnitude", share=share)


@pytest.mark.parametrize(
    ("name", "changes"), [("hunyuan_v1_moe", {"moe_topk": [2, 3]}), ("nemotron_h", {"moe_latent_size": 8})]
)
def test_a_config_that_is_published_otherwise(name, changes):
    """With a top-k for each layer, as Hunyuan-A13B, or experts behind a projection, as the larger Nemotrons."""
    model, given = tiny(name, **changes), inputs(name)
    pruned = prune_experts(model, criterion="random", share=0.5)
    _check_costs(pruned, model)
    with masked(model, pruned.kept) as oracle:
        torch.testing.assert_close(logits(pruned.model, given), logits(oracle, given), **TOLERANCE)


def test_of_a_top_k_for_each_layer_the_largest_counts():
    model = tiny("hunyuan_v1_moe", moe_topk=[2, 3])
    assert experts_of(model).top == 3
    with pytest.raises(ValueError, match=r"\(top-k = 3\): got kept=2, experts=8"):
        prune_experts(model, criterion="random", share=0.75)


def test_groups_keep_equally_many():
    model = tiny("deepseek_v3")
    scored = [10.0, 9, 8, 7, 1, 2, 3, 4]
    pruned = prune_experts(model, criterion=lambda before, after, statistics: torch.tensor([scored]))
    assert pruned.kept == {"model.layers.1.mlp": (0, 1, 6, 7)}
    plain = prune_experts(tiny("mixtral"), criterion=lambda before, after, statistics: torch.tensor([scored]))
    assert plain.kept["model.layers.0.mlp"] == (0, 1, 2, 3)


@pytest.mark.parametrize("criterion", ["router-norm-change", "router-difference-norm"])
def test_routers_that_have_not_moved_are_refused(criterion):
    model, before = tiny("mixtral"), tiny("mixtral", seed=1)
    before.model.layers[1].mlp.gate.weight.data.copy_(model.model.layers[1].mlp.gate.weight)
    with pytest.raises(UndefinedCriterionError, match=r"^the change of the routers .*LoRA .* in model.layers.1.mlp$"):
        prune_experts(model, before, criterion)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda: tiny("olmoe"), "before must be the same model before fine-tuning: .* got before='OLMoE'"),
        (
            lambda: tiny("mixtral", num_hidden_layers=1),
            "before must be .* after=2, where='num_hidden_layers'$",
        ),
        (lambda: tiny("mixtral", num_local_experts=4), r"before must be .* got before=\(4, 16\), after=\(8, 16\)"),
        (lambda: tiny("mixtral", hidden_size=32), r"before must be .* got before=\(8, 32\), after=\(8, 16\)"),
        (lambda: None, "router-norm-change compares with the model before fine-tuning: give before=: got before=None"),
        (lambda: nn.Linear(2, 2), "a model must be one of transformers' own .*: got model='Linear'"),
    ],
)
def test_a_pair_that_does_not_match_is_refused(change, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        prune_experts(tiny("mixtral"), before=change())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"criterion": "importance"},
            "^a criterion must be one of .*reap: got criterion='importance'",
        ),
        ({"criterion": "reap"}, "^reap needs tokens: give batches=: got batches=None"),
        ({"criterion": "importance-score", "batches": []}, "^batches must hold at least one batch"),
        ({"criterion": "random", "mode": "quiet"}, "^mode must be 'rerouted' or 'silent': got mode='quiet'"),
        ({"criterion": "random", "layers": ["model.layers.7.mlp"]}, "^layers must be among model.layers.0.mlp, "),
        ({"criterion": "random", "layers": []}, "^layers must be names of at least one layer"),
        ({"criterion": lambda *_: torch.zeros(1, 3)}, r"^a criterion must give \(1, 8\) scores: got scores=\(1, 3\)"),
        (
            {"criterion": lambda *_: torch.full((1, 8), torch.nan)},
            "must give finite scores: got layer='model",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        prune_experts(tiny("mixtral"), **arguments)


def test_an_unknown_model_and_a_changed_one_are_refused():
    config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    llama = transformers.AutoModelForCausalLM.from_config(config)
    survey = experts_of(llama)
    assert not survey.supported and survey.reason.endswith("got model_type='llama'") and survey.layers == {}
    changed = tiny("mixtral")
    changed.model.layers[0].mlp.experts.register_parameter("scale", nn.Parameter(torch.ones(EXPERTS)))
    with pytest.raises(ValueError, match=r"known in Mixtral: got 'model.layers.0.mlp.experts.scale'$"):
        prune_experts(changed, criterion="random")
    added = tiny("mixtral")
    added.model.layers[0].experts = nn.Linear(2, EXPERTS)
    with pytest.raises(ValueError, match=r"Mixtral is known to have: got tensor='model.layers.0.experts.weight'$"):
        prune_experts(added, criterion="random")
