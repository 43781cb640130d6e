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
from moe_lab_hub.example import descending
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
    own = model.parameters() if planted is None else _planted_in(model, planted)

    def loss(step: int) -> Tensor:
        some = walks(topics, _BATCH, f"training {','.join(topics)} {step}", seed=seed)
        ids = torch.tensor([text.tokens for text in some])
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        return nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:])

    for _ in descending(own, loss, steps, 3e-3 if planted is None else 1e-2):
        pass
    return model.eval()


def _planted_in(model: nn.Module, experts: Sequence[int]) -> list[nn.Parameter]:
    """Returns the parameters with an entry for each expert, and lets no gradient reach the entries of other experts."""
    _, layers = layers_of_model(model)
    roles = {name: role for layer in layers for name, role in layer.roles.items() if role.kind != "shared"}
    count, found = layers[0].experts, []
    for name, parameter in model.named_parameters():
        if name in roles and parameter.shape[roles[name].axis] == count:
            shape = [count if axis == roles[name].axis else 1 for axis in range(parameter.ndim)]
            mask = torch.zeros(count).index_fill(0, torch.tensor(experts), 1).view(shape)
            parameter.register_hook(lambda gradient, mask=mask: gradient * mask)
            found.append(parameter)
    return found


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
