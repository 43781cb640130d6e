"""A self-check of a mixture-of-experts block: no expert may have an effect on tokens that it does not receive."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from moe_lab.core.errors import OperationError
from moe_lab_hub.families import Family, Role
from moe_lab_hub.silent import Pairs, pairs_of
from moe_lab_hub.survey import Layer

_TOKENS = 8  # for each expert, so that next to all of them receive some


def self_check(model: nn.Module, family: Family, layer: Layer) -> tuple[int, ...]:
    """Sets each expert of a block to zero in turn, in a copy, and compares what the block answers to random tokens.

    Each expert is tried on one token that it receives and on one that it does not. On the first it may have no effect,
    as an expert whose weights are zero.

    Returns:
      The experts that had an effect on a token that they received.

    Raises:
      RuntimeError: an expert has an effect on a token that it does not receive.
    """
    block = copy.deepcopy(model.get_submodule(layer.name)).eval()
    if own := getattr(block.get_submodule("experts"), "config", None):  # a copy too: the plain loop over experts
        own._experts_implementation = "eager"
    state = block.state_dict(keep_vars=True)
    roles = {name.removeprefix(f"{layer.name}."): role for name, role in layer.roles.items()}
    router = state[layer.router.removeprefix(f"{layer.name}.")]
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randn(_TOKENS * layer.experts, router.shape[1], generator=draw).to(
        router.device, _type(state, roles)
    )
    effective = []
    with torch.no_grad():
        sent = _sent(_answer(block, family, layer.experts, tokens)[0], layer.experts)
        for expert in range(layer.experts):
            tried = tokens[sorted({int(sent[:, expert].int().argmax()), int(sent[:, expert].int().argmin())})]
            pairs, whole = _answer(block, family, layer.experts, tried)
            with _zero(_own(family, state, roles, layer.experts, expert)):
                without = _answer(block, family, layer.experts, tried)[1]
            received = _sent(pairs, layer.experts)[:, expert]
            changed = ((whole != without) & ~(whole.isnan() & without.isnan())).any(1).to(received.device)
            if bool((changed & ~received).any()):
                raise OperationError(
                    "an expert must have an effect on no token that the router does not send to it, or the model "
                    f"computes wrongly: got an effect of expert {expert} of {layer.name}"
                )
            effective += [expert] if bool((changed & received).any()) else []
    return tuple(effective)


def _type(state: dict[str, Tensor], roles: dict[str, Role]) -> torch.dtype:
    """The type of the experts' weights; routers may be in another."""
    return next(tensor.dtype for name, tensor in state.items() if roles[name].neurons)


def _sent(pairs: Pairs, experts: int) -> Tensor:
    """Whether each token is sent to each expert, (tokens, E)."""
    sent = torch.zeros(pairs.tokens, experts, dtype=torch.bool, device=pairs.token.device)
    sent[pairs.token, pairs.expert] = True
    return sent


@contextmanager
def _zero(tensors: list[Tensor]) -> Iterator[None]:
    """Sets tensors to zero for a while."""
    saved = [tensor.clone() for tensor in tensors]
    for tensor in tensors:
        tensor.zero_()
    yield
    for tensor, value in zip(tensors, saved, strict=True):
        tensor.copy_(value)


def _own(family: Family, state: dict[str, Tensor], roles: dict[str, Role], experts: int, expert: int) -> list[Tensor]:
    """Views of an expert's own weights: not of its row of the router, nor of what is added to its score."""
    found = []
    for name, tensor in state.items():
        if roles[name].kind == "listed" and roles[name].expert == expert:
            found.append(tensor.detach())
        elif name in family.fused or (roles[name].kind == "sliced" and name.startswith("experts.")):
            found.append(tensor.detach().unflatten(0, (experts, -1))[expert])
    return found


class _Listener:
    """Keeps who received which tokens when a block is asked."""

    def __init__(self, family: Family, experts: int) -> None:
        self._call, self._experts = family.call, experts
        self.pairs: Pairs | None = None

    def routed(self, module: nn.Module, given: Any, answer: tuple[Tensor, ...]) -> None:
        """Reads the scores of a router whose experts are given every token."""
        self.pairs = pairs_of("dense", [answer[0]], self._experts)

    def asked(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Reads what the experts' module is given."""
        self.pairs = pairs_of(self._call, [*given, *named.values()], self._experts)


def _answer(block: nn.Module, family: Family, experts: int, tokens: Tensor) -> tuple[Pairs, Tensor]:
    """Computes a block's outputs, and which experts received which tokens."""
    listener = _Listener(family, experts)
    if family.call == "dense":
        handle = block.get_submodule("router").register_forward_hook(listener.routed)
    else:
        handle = block.get_submodule("experts").register_forward_pre_hook(listener.asked, with_kwargs=True)
    try:
        answer = block(tokens[None].clone())
    finally:
        handle.remove()
    assert listener.pairs is not None
    return listener.pairs, (answer[0] if isinstance(answer, tuple) else answer).reshape(tokens.shape)
