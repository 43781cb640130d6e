"""A tiny Mixtral, built offline, that learns rules of arithmetic: something to prune before a model of your own.

A question is three tokens, a rule and two numbers, and its answer is a number: "a + 2b, 3, 5" is answered by 2, as all
is modulo 11. A rule has 121 questions, which are both what a model is taught and what it is asked: what is tested is
what pruning forgets, not what training generalises to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from moe_lab.core.config import require
from moe_lab.core.trials import stream
from moe_lab_hub.families import transformers

RULES: Mapping[str, tuple[int, int]] = {
    "a + b": (1, 1),
    "a - b": (1, -1),
    "a + 2b": (1, 2),
    "2a + b": (2, 1),
    "a + 3b": (1, 3),
}
"""The rules: what a and b are multiplied with before they are added, modulo 11."""
NUMBERS, EXPERTS = 11, 8
CRITERIA = ("router-norm-change", "router-magnitude", "importance-score", "random")
_BATCH = 64


def tiny_mixtral(width: int = 48, hidden: int = 32, seed: int = 0) -> Any:
    """Returns a Mixtral with random weights: two layers, eight experts each, of which a token gets two.

    Args:
      width: dimensions of a token.
      hidden: neurons of an expert.
    """
    library = transformers()
    config = library.MixtralConfig(
        vocab_size=NUMBERS + len(RULES),
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        max_position_embeddings=8,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return library.MixtralForCausalLM(config).eval()


def questions(*rules: str) -> tuple[Int[Tensor, "N 3"], Int[Tensor, " N"]]:
    """Returns every question of some rules, as tokens, and the answers.

    Raises:
      ValueError: there is no such rule.
    """
    unknown = [rule for rule in rules if rule not in RULES]
    require(bool(rules) and not unknown, f"rules must be among {', '.join(RULES)}", rules=unknown)
    a, b = (axis.flatten() for axis in torch.meshgrid(torch.arange(NUMBERS), torch.arange(NUMBERS), indexing="ij"))
    asked, answers = [], []
    for rule in rules:
        first, second = RULES[rule]
        asked.append(torch.stack([torch.full_like(a, NUMBERS + list(RULES).index(rule)), a, b], 1))
        answers.append((first * a + second * b) % NUMBERS)
    return torch.cat(asked), torch.cat(answers)


def taught(model: nn.Module, *rules: str, steps: int, learning_rate: float = 3e-3, seed: int = 0) -> Any:
    """Returns a copy of a model after some steps of Adam on batches of 64 questions of some rules; all weights move."""
    *_, (_, last) = teaching(model, *rules, steps=steps, every=max(steps, 1), learning_rate=learning_rate, seed=seed)
    return last


def teaching(
    model: nn.Module,
    *rules: str,
    steps: int,
    every: int,
    learning_rate: float = 3e-3,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Iterator[tuple[int, nn.Module]]:
    """Teaches a copy of a model as `taught` does, and yields the step and the model: 0, every so many, and the last."""
    model = copy.deepcopy(model).to(device).train()
    asked, answers = (part.to(device) for part in questions(*rules))

    def loss(step: int) -> Tensor:
        drawn = torch.as_tensor(stream(seed, step, "hub/example").integers(len(asked), size=_BATCH))
        logits = model(input_ids=asked[drawn], use_cache=False).logits[:, -1]
        return nn.functional.cross_entropy(logits, answers[drawn])

    for step in chain((0,), descending(model.parameters(), loss, steps, learning_rate)):
        if step % every == 0 or step == steps:
            yield step, model.eval()
            model.train()
    model.eval()


def descending(
    parameters: Iterable[nn.Parameter], loss: Callable[[int], Tensor], steps: int, learning_rate: float
) -> Iterator[int]:
    """Moves parameters by steps of Adam down a loss, which is a function of the step; yields how many were taken."""
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    for step in range(steps):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
        yield step + 1


def accuracy(model: nn.Module, rule: str) -> float:
    """Returns the share of a rule's questions that a model answers correctly."""
    asked, answers = (part.to(next(model.parameters()).device) for part in questions(rule))
    with torch.no_grad():
        return float((model(input_ids=asked, use_cache=False).logits[:, -1].argmax(-1) == answers).double().mean())
