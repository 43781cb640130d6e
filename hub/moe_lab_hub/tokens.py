"""Measures on batches of the user's tokens what the experts of each layer receive and answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from moe_lab.core.config import require
from moe_lab.core.saliency import Statistics
from moe_lab_hub.families import Family
from moe_lab_hub.scores import chance_of
from moe_lab_hub.silent import Pairs, pairs_of
from moe_lab_hub.survey import Layer, layers_of_model

_TOKENS = {"input_ids", "inputs_embeds", "decoder_input_ids", "decoder_inputs_embeds"}
_NAMES = ("received", "top1", "gates", "output")


class _Counts:
    """Sums over the tokens of one layer so far."""

    def __init__(self, experts: int) -> None:
        self.tokens = 0
        self.sums = {name: torch.zeros(experts, dtype=torch.float64) for name in _NAMES}

    def add(self, pairs: Pairs, norms: Tensor, counted: Tensor | None) -> None:
        """Adds the pairs of one call, but for tokens that are not counted, and the norms of their answers."""
        experts = len(self.sums["received"])
        if counted is not None:
            stays = counted[pairs.token]
            pairs = Pairs(pairs.token[stays], pairs.expert[stays], pairs.gate[stays], int(counted.sum()))
            norms = norms[stays]
        self.tokens += pairs.tokens
        ones = torch.ones_like(pairs.gate)
        first = _first(pairs).to(pairs.gate.dtype)
        values = (ones, first, first * pairs.gate, norms)
        for name, value in zip(_NAMES, values, strict=True):
            self.sums[name] += pairs.counted(value, experts)

    def statistics(self, before: Statistics) -> Statistics:
        """The statistics of the layer; `before` gives its random numbers."""
        received, top1, gates, output = (self.sums[name][None] for name in _NAMES)
        return replace(
            before,
            received=received / self.tokens,
            top1=top1 / self.tokens,
            confidence=gates / top1.clamp(min=1),
            output=output / received.clamp(min=1),
        )


def measured(
    model: nn.Module,
    family: Family,
    layers: Sequence[Layer],
    batches: Iterable[Mapping[str, Any]],
    chance: Mapping[str, Statistics],
) -> dict[str, Statistics]:
    """Runs a model on batches, without gradients or dropout, and counts what each expert receives and answers.

    Padding, where a batch of a decoder has an attention_mask, is not counted.

    Args:
      batches: keyword inputs of the model.
      chance: statistics by layer, whose random numbers are kept.

    Raises:
      ValueError: there is no batch, one is not a mapping, or no token counts.
    """
    counts = {layer.name: _Counts(layer.experts) for layer in layers}
    mask: list[Tensor | None] = [None]
    training, runs = model.training, 0
    device = next(model.parameters()).device
    model.eval()
    try:
        with torch.no_grad(), _listening(model, family, layers, counts, mask):
            for batch in batches:
                require(isinstance(batch, Mapping), "a batch must be the model's keyword inputs", batch=type(batch))
                inputs = {
                    name: value.to(device) if isinstance(value, Tensor) else value for name, value in batch.items()
                }
                for name in _TOKENS & inputs.keys():
                    shape = tuple(getattr(inputs[name], "shape", (1,)))
                    require(0 not in shape, f"a batch must hold at least one token in {name}", shape=shape)
                padded = inputs.get("attention_mask")
                mask[0] = padded.bool().flatten() if padded is not None and family.call != "one-hot" else None
                model(**inputs)
                runs += 1
    finally:
        model.train(training)
    require(runs > 0, "batches must hold at least one batch (an iterator can be read once)", batches=runs)
    for name, found in counts.items():
        rule = f"at least one token must reach {name} (those whose attention_mask is 0 do not count)"
        require(found.tokens > 0, rule, tokens=found.tokens)
    return {name: found.statistics(chance[name]) for name, found in counts.items()}


def measured_on_disk(
    model: nn.Module, family: Family, layers: Sequence[Layer], batches: Iterable[Mapping[str, Any]], seed: int
) -> dict[str, Statistics]:
    """Measures a model that was read from a checkpoint, as `measured` does.

    Args:
      layers: those of the checkpoint, whose names may differ from those in memory.
      seed: of the random numbers.

    Returns:
      statistics by the names on disk.
    """
    _, inside = layers_of_model(model)
    found = measured(model, family, inside, batches, chance_of(inside, seed))
    return {layer.name: found[own.name] for layer, own in zip(layers, inside, strict=True)}


def _first(pairs: Pairs) -> Tensor:
    """Marks the pair with each token's largest gate, (P,); of equal gates the one that the router gives first."""
    size, numbers = int(pairs.token.max()) + 1 if len(pairs.token) else 0, torch.arange(len(pairs.token))
    numbers = numbers.to(pairs.token.device)
    largest = pairs.gate.new_zeros(size).scatter_reduce(0, pairs.token, pairs.gate, "amax")
    ranked = torch.where(pairs.gate == largest[pairs.token], numbers, len(numbers))
    winner = torch.full_like(numbers[:1], len(numbers)).expand(size).scatter_reduce(0, pairs.token, ranked, "amin")
    return numbers == winner[pairs.token]


@contextmanager
def _listening(
    model: nn.Module,
    family: Family,
    layers: Sequence[Layer],
    counts: Mapping[str, _Counts],
    mask: list[Tensor | None],
) -> Iterator[None]:
    """Adds the inputs and outputs of the experts' modules to the counts, within the context."""
    handles = []
    try:
        for layer in layers:
            block = model.get_submodule(layer.name)
            listener = _Listener(family, layer.experts, counts[layer.name], mask)
            if family.call == "dense":
                handles.append(block.get_submodule("router").register_forward_hook(listener.routed))
            handles.append(block.get_submodule("experts").register_forward_hook(listener.answered, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Listener:
    """Listens to the experts' module of one layer."""

    def __init__(self, family: Family, experts: int, counts: _Counts, mask: list[Tensor | None]) -> None:
        self.family, self.experts, self.counts, self.mask = family, experts, counts, mask
        self.scores: Tensor | None = None

    def routed(self, module: nn.Module, given: Any, answer: tuple[Tensor, ...]) -> None:
        """Keeps the scores of a router whose experts are given every token."""
        self.scores = answer[0]

    def answered(self, module: Any, given: tuple[Any, ...], named: Mapping[str, Any], answer: Tensor) -> None:
        """Counts one call; where an answer is a sum over experts, each expert is asked again for its own."""
        arguments = [*given, *named.values()]
        pairs = pairs_of(self.family.call, [self.scores] if self.family.call == "dense" else arguments, self.experts)
        if self.family.call == "dense":
            own = answer.view(self.experts, pairs.tokens, -1)[pairs.expert, pairs.token]
        elif self.family.call == "one-hot":
            own = answer.reshape(pairs.tokens, -1)[pairs.token]
        else:
            hidden = arguments[0].reshape(pairs.tokens, -1)[pairs.token]
            own = module.forward(hidden, pairs.expert[:, None], pairs.gate[:, None]).reshape(len(hidden), -1)
        norms = torch.linalg.vector_norm(own.double(), dim=1)
        mask = self.mask[0]
        self.counts.add(pairs, norms, mask if mask is not None and len(mask) == pairs.tokens else None)
