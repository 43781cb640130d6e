"""A tiny language model whose important experts are known: something to judge criteria on before a model of your own.

Texts are walks through an alphabet: of two topics, each with letters of its own, a letter is mostly followed by its
successor of that topic. All experts learn the first topic. Fine-tuning to the second moves nothing but the routers and
the weights of some experts, those that are planted, so that what is learned of it is in them alone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from moe_lab.core.trials import stream
from moe_lab_hub.families import transformers
from moe_lab_hub.survey import layers_of_model
from moe_lab_hub.texts import Text

LETTERS, TOPICS = 16, ("first", "second")
SIZE = 1 + len(TOPICS) * LETTERS
"""The size of the vocabulary; token 0 is nobody's."""
_FAITHFUL, _BATCH = 0.8, 32


def walks(topics: Sequence[str], count: int, purpose: str, length: int = 24, seed: int = 0) -> list[Text]:
    """Returns texts, each of a topic drawn at random; other purposes are other texts."""
    generator = stream(seed, 0, f"hub/planted/{purpose}")
    successors = [stream(seed, number, "hub/planted/letters").permutation(LETTERS) for number in range(len(TOPICS))]
    texts = []
    for _ in range(count):
        topic = TOPICS.index(topics[int(generator.integers(len(topics)))])
        letters = [int(generator.integers(LETTERS))]
        while len(letters) < length:
            follows = generator.random() < _FAITHFUL
            letters.append(int(successors[topic][letters[-1]] if follows else generator.integers(LETTERS)))
        texts.append(Text(tuple(1 + topic * LETTERS + letter for letter in letters), TOPICS[topic]))
    return texts


def trained(
    model: nn.Module, topics: Sequence[str], steps: int, planted: Sequence[int] | None = None, seed: int = 0
) -> Any:
    """Returns a copy of a model after some steps of Adam on texts of some topics.

    Args:
      planted: the experts of each layer that move, and nothing else; all of the model where None.
    """
    model = copy.deepcopy(model).train()
    _, layers = layers_of_model(model)
    masks: dict[str, Tensor | None] = {}
    for name, parameter in model.named_parameters():
        roles = [layer.roles[name] for layer in layers if name in layer.roles]
        if planted is None:
            masks[name] = None
        elif roles and roles[0].kind != "shared" and parameter.shape[roles[0].axis] == layers[0].experts:
            shape = [1] * parameter.ndim
            shape[roles[0].axis] = layers[0].experts
            masks[name] = torch.zeros(layers[0].experts).index_fill(0, torch.tensor(planted), 1).view(shape)
    own = {name: parameter for name, parameter in model.named_parameters() if name in masks}
    optimizer = torch.optim.Adam(own.values(), lr=3e-3 if planted is None else 1e-2)
    for step in range(steps):
        some = walks(topics, _BATCH, f"training {','.join(topics)} {step}", seed=seed)
        ids = torch.tensor([text.tokens for text in some])
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in own.items():
            mask = masks[name]
            if mask is not None and parameter.grad is not None:
                parameter.grad *= mask
        optimizer.step()
    return model.eval()


def planted_pair(model: nn.Module, experts: Sequence[int], steps: int = 150, seed: int = 0) -> tuple[Any, Any]:
    """Returns a model that has learned the first topic, and that model fine-tuned to the second in some experts."""
    before = trained(model, TOPICS[:1], steps, seed=seed)
    return before, trained(before, TOPICS[1:], steps, experts, seed=seed)


def tiny_olmoe(seed: int = 0) -> Any:
    """Returns an OLMoE with random weights: two layers, sixteen experts each, of which a token gets two."""
    library = transformers()
    config = library.OlmoeConfig(
        vocab_size=SIZE,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        num_experts=16,
        num_experts_per_tok=2,
        max_position_embeddings=32,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return library.OlmoeForCausalLM(config).eval()


def write(folder: Path, model: nn.Module, experts: Sequence[int], steps: int = 100, seed: int = 0) -> None:
    """Writes models before and after, and texts of the second topic, as `moe-lab compare` reads them."""
    for name, one in zip(("before", "after"), planted_pair(model, experts, steps, seed), strict=True):
        one.save_pretrained(folder / name)
    for name in ("text", "calibration"):
        lines = [
            json.dumps({"tokens": text.tokens, "topic": text.topic}) for text in walks(TOPICS[1:], 30, name, seed=seed)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
