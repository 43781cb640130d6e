"""What a pruned model costs: parameters, bytes, and active parameters and floating-point operations for each token."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import xarray as xr

from moe_lab_hub.scores import Source
from moe_lab_hub.survey import Layer, top_of

WAYS = ("whole", "rerouted", "silent")
_LOOKUPS = ("embed_tokens.weight", "shared.weight", "wte.weight")  # a token's row is read, and multiplied only if tied


def costs_of(
    source: Source,
    kept: Mapping[str, Sequence[int]],
    received: Mapping[str, Sequence[float]],
    elements: Mapping[str, int],
    buffers: Collection[str] = (),
) -> xr.Dataset:
    """Computes the costs of a model, whole and pruned in both ways.

    Operations are two for each active parameter, one multiplication and one addition: those of the attention's scores,
    which depend on the length of the text, and look-ups of tokens are left out. Rerouted tokens are sent to as many
    experts as before, silent ones to fewer: K kept / E if the router is even, or as measured in the whole model.

    Args:
      kept: the experts that stay, by layer.
      received: the share of tokens that each expert receives, by layer; of layers that are left out, K / E.
      elements: bytes of one number of each tensor, by name; a name that is left out is tied to another and not counted.
      buffers: names of tensors that are no parameters.

    Returns:
      parameters, bytes, active_parameters and operations of a token, over `way`: "whole", "rerouted", "silent".
    """
    sizes = {name: math.prod(source.tensors.shape(name)) for name in elements}
    of_layers = {name: layer for layer in source.layers for name in layer.roles}
    tied = bool(getattr(source.config, "tie_word_embeddings", False))
    lookup = 0 if tied else sum(size for name, size in sizes.items() if name.endswith(_LOOKUPS))
    rows = {"parameters": [0.0] * 3, "bytes": [0.0] * 3, "active_parameters": [0.0] * 3}
    for name, size in sizes.items():
        layer = of_layers.get(name)
        held, active = _shares(source, layer, name, kept, received) if layer else ((1.0,) * 3, (1.0,) * 3)
        for way in range(3):
            rows["bytes"][way] += size * elements[name] * held[way]
            if name not in buffers:
                rows["parameters"][way] += size * held[way]
                rows["active_parameters"][way] += size * active[way]
    rows["operations"] = [2 * (active - lookup) for active in rows["active_parameters"]]
    told = {
        "parameters": ("numbers that the model holds", ""),
        "bytes": ("memory of these", "byte"),
        "active_parameters": ("parameters that a token meets", ""),
        "operations": ("of a token, two for each active parameter but those that are looked up", "FLOP"),
    }
    variables = {
        name: ("way", [round(value) for value in values], {"long_name": told[name][0], "units": told[name][1]})
        for name, values in rows.items()
    }
    return xr.Dataset(variables, coords={"way": list(WAYS)})


def _shares(
    source: Source,
    layer: Layer,
    name: str,
    kept: Mapping[str, Sequence[int]],
    received: Mapping[str, Sequence[float]],
) -> tuple[Sequence[float], Sequence[float]]:
    """Which share of a block's tensor is held, and which a token meets: whole, rerouted and silent."""
    role, experts = layer.roles[name], layer.experts
    stays = kept.get(layer.name, tuple(range(experts)))
    if role.kind == "shared":
        return (1.0,) * 3, (1.0,) * 3
    rest = source.family.split(name)
    own = role.kind == "listed" or (rest is not None and rest[1].startswith(("experts.", "input_", "output_")))
    if not own:  # a token meets the whole router
        left = len(stays) / experts
        return (1.0, left, 1.0), (1.0, left, 1.0)
    top = top_of(source.family, source.config)
    shares = received.get(layer.name, [top / experts] * experts)
    if role.kind == "listed":
        here = float(role.expert in stays)
        return (1.0, here, here), (top / experts, here * top / len(stays), here * shares[role.expert])
    left = len(stays) / experts
    return (1.0, left, left), (top / experts, top / experts, sum(shares[one] for one in stays) / experts)
