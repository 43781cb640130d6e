"""The criteria of the hub against plain loops over the weights and tokens of tiny models."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from moe_lab.core import saliency
from moe_lab_hub import experts_of, prune_experts
from moe_lab_hub.prune import source_of
from moe_lab_hub.scores import chance_of, scores_of
from tests.hub.cases import CASES, EXPERTS, ROUTERS, inputs, tiny


def norm(numbers: Any) -> float:
    return math.sqrt(sum(float(number) ** 2 for number in numbers))


def router_norms(model: Any, block: str) -> list[float]:
    """The norm of each row, in a plain loop."""
    (rows,) = (model.state_dict()[f"{block}.{name}"] for name in ROUTERS if f"{block}.{name}" in model.state_dict())
    return [norm(row) for row in rows.tolist()]


def neuron_norms(model: Any, block: str, folder: Any) -> list[float]:
    """The mean norm of each expert's neurons: rows of its first matrices, however the files on disk lay these out."""
    if not folder.exists():
        model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    names = (block, block.replace(".mlp", ".block_sparse_moe"), block.replace("model.", "backbone.", 1))
    (disk,) = {one for one in names if any(name.startswith(f"{one}.") for name in tensors)}
    found = []
    for expert in range(EXPERTS):
        rows: list[list[float]] = []
        for name, tensor in tensors.items():
            if not name.startswith(f"{disk}."):
                continue
            if name.endswith(tuple(f"{expert}.{own}.weight" for own in ("w1", "w3", "gate_proj", "up_proj", "wi"))):
                rows += tensor.tolist()
            elif name.endswith(("mlp.w1", "mlp.v1")):
                rows += tensor.tolist()[expert * 12 : expert * 12 + 12]
            elif name.endswith("input_linear.weight"):
                rows += tensor[expert].tolist()
            elif name.endswith("experts.gate_up_proj"):  # gpt-oss and Llama 4: columns
                rows += (tensor[expert] if tensor.shape[2] == 16 else tensor[expert].T).tolist()
        ungated = model.config.model_type in ("switch_transformers", "nemotron_h")
        assert len(rows) == (12 if ungated else 24) and len(rows[0]) == 16
        found.append(sum(norm(row) for row in rows) / len(rows))
    return found


@pytest.mark.parametrize("name", CASES)
def test_criteria_of_weights_by_plain_loops(name, tmp_path):
    after, before = tiny(name), tiny(name, seed=1)
    pruned = prune_experts(after, before, "neuron-magnitude-change", share=0.25)
    pair = source_of(before), source_of(after)
    nothing = chance_of(pair[1].layers, seed=0)
    for block in pruned.kept:
        old, new = router_norms(before, block), router_norms(after, block)
        mean_old, mean_new = neuron_norms(before, block, tmp_path / "b"), neuron_norms(after, block, tmp_path / "a")
        wanted = {
            "router-magnitude": new,
            "router-norm-change": [b - a for a, b in zip(old, new, strict=True)],
            "neuron-magnitude": mean_new,
            "neuron-magnitude-change": [b - a for a, b in zip(mean_old, mean_new, strict=True)],
        }
        for criterion, scores in wanted.items():
            found = dict(scores_of(criterion, *pair, nothing, pair[1].layers))[block].scores
            assert found.dtype == torch.float64 and found.tolist() == pytest.approx(scores, abs=1e-9)
        scores = wanted["neuron-magnitude-change"]
        assert pruned.scores[block].tolist() == pytest.approx(scores, abs=1e-9)
        ranked = sorted(range(EXPERTS), key=lambda expert: -scores[expert])
        grouped = getattr(after.config.get_text_config(), "n_group", 1) == 2
        groups = (range(4), range(4, 8)) if grouped else (range(8),)
        left = [one for group in groups for one in [e for e in ranked if e in group][: len(group) * 3 // 4]]
        assert pruned.kept[block] == tuple(sorted(left))


def test_random_scores_differ_from_layer_to_layer_and_follow_the_seed():
    model = tiny("mixtral")
    first, again, other = (prune_experts(model, criterion="random", seed=seed) for seed in (0, 0, 1))
    blocks = list(first.scores)
    assert all(torch.equal(first.scores[block], again.scores[block]) for block in blocks)
    assert not torch.equal(first.scores[blocks[0]], other.scores[blocks[0]])
    assert not torch.equal(first.scores[blocks[0]], first.scores[blocks[1]])


def test_a_change_below_the_precision_of_the_model_is_seen():
    """Norms are taken in float64: in bfloat16 one entry of 16 may move without moving the rounded norm."""
    after = tiny("mixtral").to(torch.bfloat16)
    before = tiny("mixtral").to(torch.bfloat16)
    for layer in after.model.layers:
        row = layer.mlp.gate.weight.data[5]
        place = int(row.abs().argmin())
        row[place] = row[place] * 1.0078125
    with pytest.warns(UserWarning, match=r"^rounding to bfloat16 hides which experts should stay"):
        pruned = prune_experts(after, before)
    for scores in pruned.scores.values():
        assert scores[5] > 0 and torch.equal(scores.nonzero(), torch.tensor([[5]]))


# --- criteria of tokens -----------------------------------------------------------------------------------------------


def token_loop(name: str, model: Any, block: str, batches: list[dict[str, torch.Tensor]]) -> dict[str, list[float]]:
    """Asks a block about one token at a time, and each of its experts by itself: gates and answers, in plain loops."""
    seen: list[torch.Tensor] = []
    module = model.get_submodule(block)
    handle = module.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().reshape(-1, 16)))
    for batch in batches:
        with torch.no_grad():
            model(**batch)
    handle.remove()
    first, gates, outputs = ([[] for _ in range(EXPERTS)] for _ in range(3))
    tokens = torch.cat(seen)
    for token in tokens:
        chosen = _chosen(name, module, token)
        best = max(chosen, key=lambda expert: chosen[expert])
        first[best].append(1)
        gates[best].append(chosen[best])
        for expert, gate in chosen.items():
            outputs[expert].append(norm(_answer(name, module.experts, expert, token, gate)))
    return {
        "importance-score": [
            len(one) / len(tokens) * (sum(gate) / len(gate) if gate else 0)
            for one, gate in zip(first, gates, strict=True)
        ],
        "token-count": [len(one) / len(tokens) for one in outputs],
        "reap": [sum(one) / len(one) if one else 0.0 for one in outputs],
    }


@torch.no_grad()
def _chosen(name: str, module: Any, token: torch.Tensor) -> dict[int, float]:
    """The experts of a token and its gates."""
    router = module.gate.weight if name == "mixtral" else module.router.weight
    scores = {expert: float(row @ token) for expert, row in enumerate(router)}
    best = sorted(scores, key=lambda expert: -scores[expert])
    if name == "llama4_text":
        return {best[0]: 1 / (1 + math.exp(-scores[best[0]]))}
    total = sum(math.exp(scores[expert]) for expert in best[:2])
    return {expert: math.exp(scores[expert]) / total for expert in best[:2]}


@torch.no_grad()
def _answer(name: str, experts: Any, expert: int, token: torch.Tensor, gate: float) -> list[float]:
    """What an expert adds to a token."""
    if name == "llama4_text":
        first, up = ((token * gate) @ experts.gate_up_proj[expert]).chunk(2)
        return (torch.nn.functional.silu(first) * up @ experts.down_proj[expert]).tolist()
    first, up = (experts.gate_up_proj[expert] @ token).chunk(2)
    return (gate * (experts.down_proj[expert] @ (torch.nn.functional.silu(first) * up))).tolist()


@pytest.mark.parametrize("name", ["mixtral", "llama4_text", "granitemoe"])
def test_criteria_of_tokens_by_plain_loops(name):
    model = tiny(name)
    batches = [inputs(name, seed) for seed in (3, 4)]
    for criterion in saliency.NEED_TOKENS:
        pruned = prune_experts(model, criterion=criterion, batches=iter(batches))
        for block, scores in pruned.scores.items():
            wanted = token_loop(name, model, block, batches)[criterion]
            assert scores.tolist() == pytest.approx(wanted, abs=1e-5)
    assert not model.training and not any(module._forward_hooks for module in model.modules())


def test_switch_counts_what_overflows_its_experts():
    """Of the ten tokens of a text an expert takes three; those that overflow are not received."""
    model, given = tiny("switch_transformers"), inputs("switch_transformers")
    chosen: dict[str, list[torch.Tensor]] = {}
    for block in ("encoder.block.1.layer.1.mlp", "decoder.block.1.layer.2.mlp"):
        experts = model.get_submodule(block).experts
        experts.register_forward_pre_hook(lambda _, given, block=block: chosen.setdefault(block, []).append(given[1]))
    with torch.no_grad():
        model(**given)
    received = {}
    prune_experts(model, criterion=lambda b, a, statistics: _keep(received, statistics), batches=[given])
    for number, block in enumerate(sorted(chosen)):
        wanted = [sum(float(row[0][expert]) for row in chosen[block][0]) / 30 for expert in range(EXPERTS)]
        assert received[number].tolist() == pytest.approx(wanted) and 0 < sum(wanted) < 1


def _keep(received: dict[int, torch.Tensor], statistics: saliency.Statistics) -> torch.Tensor:
    received[len(received)] = statistics.received[0]
    return statistics.received


def test_padding_is_not_counted():
    model, given = tiny("mixtral"), inputs("mixtral")
    padded = {name: torch.nn.functional.pad(tensor, (0, 4)) for name, tensor in given.items()}
    padded["attention_mask"] = torch.nn.functional.pad(torch.ones_like(given["input_ids"]), (0, 4))
    plain, other = (prune_experts(model, criterion="reap", batches=[batch]) for batch in (given, padded))
    for block, scores in plain.scores.items():
        assert other.scores[block].tolist() == pytest.approx(scores.tolist(), abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_every_family_measures_its_tokens(name):
    model = tiny(name).train()
    seen: list[saliency.Statistics] = []
    prune_experts(model, criterion=lambda b, a, counts: seen.append(counts) or counts.output, batches=[inputs(name)])
    for counts in seen:
        scores = (counts.top1 * counts.confidence)[0], counts.output[0]
        assert all(0 <= float(one.min()) < float(one.max()) for one in scores)
        assert float(counts.top1.sum()) <= 1 + 1e-9 and float(counts.received.sum()) <= 2 + 1e-9
    assert model.training and len(seen) == len(experts_of(model).layers)
