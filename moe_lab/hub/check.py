"""A self-check of a mixture-of-experts block: each expert that receives tokens must have an effect, and no other."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from moe_lab.hub.families import Family
from moe_lab.hub.silent import Pairs, pairs_of
from moe_lab.hub.survey import Layer

_TOKENS = 16  # for each expert, so that next to all of them receive some


def self_check(model: nn.Module, family: Family, layer: Layer, *, seed: int = 0) -> tuple[int, ...]:
    """Sets each expert of a block to zero in turn, in a copy, and compares what the block answers to random tokens.

    Returns:
      The experts that received tokens, and so were checked.

    Raises:
      RuntimeError: an expert that receives tokens has no effect, or one that receives none has one.
    """
    block = copy.deepcopy(model.get_submodule(layer.name)).eval()
    state = block.state_dict(keep_vars=True)
    roles = {name.removeprefix(f"{layer.name}."): role for name, role in layer.roles.items()}
    router = state[layer.router.removeprefix(f"{layer.name}.")]
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randn(1, _TOKENS * layer.experts, router.shape[1], generator=draw).to(router.device)
    weights = [tensor for name, tensor in state.items() if roles[name].kind in ("sliced", "listed")]
    tokens = tokens.to(weights[0].dtype)
    with torch.no_grad():
        pairs, whole = _answer(block, family, layer.experts, tokens)
        received = pairs.counted(torch.ones_like(pairs.gate), layer.experts)
        for expert in range(layer.experts):
            mine = _own(family, state, roles, layer.experts, expert)
            saved = [tensor.clone() for tensor in mine]
            for tensor in mine:
                tensor.zero_()
            changed = not torch.equal(_answer(block, family, layer.experts, tokens)[1], whole)
            for tensor, value in zip(mine, saved, strict=True):
                tensor.copy_(value)
            if changed != bool(received[expert]):
                effect = "an effect" if changed else "no effect"
                raise RuntimeError(
                    f"an expert must have an effect exactly if its router sends it tokens, else the model computes "
                    f"wrongly: got {effect} of expert {expert} of {layer.name}, which receives {int(received[expert])}"
                )
    return tuple(received.nonzero()[:, 0].tolist())


def _own(family: Family, state: dict[str, Tensor], roles: dict[str, Any], experts: int, expert: int) -> list[Tensor]:
    """Views of an expert's own weights: not of its row of the router, nor of what is added to its score."""
    found = []
    for name, tensor in state.items():
        if roles[name].kind == "listed" and roles[name].expert == expert:
            found.append(tensor.detach())
        elif name in family.fused or (roles[name].kind == "sliced" and name.startswith("experts.")):
            found.append(tensor.detach().unflatten(0, (experts, -1))[expert])
    return found


def _answer(block: nn.Module, family: Family, experts: int, tokens: Tensor) -> tuple[Pairs, Tensor]:
    """What a block answers, and who received which tokens."""
    seen: list[Pairs] = []

    def routed(module: nn.Module, given: Any, answer: tuple[Tensor, ...]) -> None:
        seen.append(pairs_of("dense", [answer[0]], experts))

    def asked(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        seen.append(pairs_of(family.call, [*given, *named.values()], experts))

    if family.call == "dense":
        handle = block.get_submodule("router").register_forward_hook(routed)
    else:
        handle = block.get_submodule("experts").register_forward_pre_hook(asked, with_kwargs=True)
    try:
        answer = block(tokens.clone())
    finally:
        handle.remove()
    return seen[0], answer[0] if isinstance(answer, tuple) else answer
