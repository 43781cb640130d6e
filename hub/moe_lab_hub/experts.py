"""The experts of a layer as criteria read them: those of one model, or of two that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.saliency import Experts
from moe_lab_hub.families import Family
from moe_lab_hub.rounding import Alike, alike
from moe_lab_hub.survey import Layer, Tensors


class LayerExperts:
    """The experts of one layer as criteria read them, in float64, whatever the precision of the model.

    A neuron is what an expert multiplies its input with: a row of its gate's and of its up projection.
    """

    def __init__(self, family: Family, layer: Layer, tensors: Tensors, experts: Sequence[int] | None = None) -> None:
        self._family, self._layer, self._tensors = family, layer, tensors
        self._experts = range(layer.experts) if experts is None else experts

    @cached_property  # isinstance reads what a Protocol declares
    def own_routers(self) -> Float[Tensor, "1 k d"]:
        """(1, E, D) the rows of the router; not its bias."""
        return self.stored_routers.to(torch.float64)[None]

    @cached_property
    def neurons(self) -> Float[Tensor, "1 k d m"]:
        """(1, E, D, F) the neurons; none (D = F = 0) of experts that are quantised."""
        return self.stored_neurons.to(torch.float64)[None]

    @property
    def stored_routers(self) -> Float[Tensor, "k d"]:
        """(E, D) the rows of the router, in the type that the model has."""
        return self._tensors.read(self._layer.router).detach().cpu()[list(self._experts)]

    @property
    def stored_neurons(self) -> Float[Tensor, "k d m"]:
        """(E, D, F) the neurons, in the type that the model has."""
        each = [self._neurons(expert) for expert in self._experts]
        return torch.stack(each) if len(each) > 1 else each[0][None]

    def _neurons(self, expert: int) -> Float[Tensor, "d m"]:
        """The neurons of one expert, one in each column."""
        roles = self._layer.roles
        own = [name for name in sorted(roles) if roles[name].neurons and roles[name].expert in (expert, -1)]
        found = [self._columns(name, expert).detach().cpu() for name in own]
        plain = bool(found) and all(_plain(part) for part in found)
        return torch.cat(found, 1) if plain else torch.empty(0, 0, dtype=torch.float64)

    def _columns(self, name: str, expert: int) -> Tensor:
        """One tensor's neurons of an expert, one in each column."""
        role = self._layer.roles[name]
        if role.kind == "listed":
            return self._tensors.read(name).T
        size = self._tensors.shape(name)[0] // self._layer.experts
        own = self._tensors.read(name, expert * size, (expert + 1) * size)
        own = own if own.ndim == 2 else own[0]
        wide = role.neurons == "either" and own.shape[1] == self._tensors.shape(self._layer.router)[1]
        return own.T if wide or role.neurons == "rows" else own


class Pair:
    """The experts of one layer before and after fine-tuning, both as the narrower of their types holds them."""

    def __init__(self, before: LayerExperts, after: LayerExperts) -> None:
        self._stored = before, after

    @cached_property
    def routers(self) -> Alike:
        """The rows of the routers, (E, D)."""
        before, after = self._stored
        return alike(before.stored_routers, after.stored_routers)

    @cached_property
    def neurons(self) -> Alike:
        """The neurons, (E, D, F); of no length where those of one model are quantised.

        Raises:
          ValueError: the two models have neurons of different sizes.
        """
        old, new = (side.stored_neurons for side in self._stored)
        if not (old.numel() and new.numel()):
            return Alike(old[..., :0], new[..., :0], torch.float64, False)
        rule = "before must have as many neurons of the same length in each expert"
        require(old.shape == new.shape, rule, before=tuple(old.shape), after=tuple(new.shape))
        return alike(old, new)

    @property
    def sides(self) -> tuple[Experts, Experts]:
        """Before and after, as criteria read them."""
        return Side(self, "before"), Side(self, "after")


@dataclass(frozen=True)
class Side:
    """One model of a pair, as criteria read it."""

    pair: Pair
    name: Literal["before", "after"]

    @property
    def own_routers(self) -> Float[Tensor, "1 k d"]:
        """(1, E, D) the rows of the router."""
        rows: Tensor = getattr(self.pair.routers, self.name)
        return rows[None]

    @property
    def neurons(self) -> Float[Tensor, "1 k d m"]:
        """(1, E, D, F) the neurons."""
        found: Tensor = getattr(self.pair.neurons, self.name)
        return found[None]


def _plain(part: Tensor) -> bool:
    """Whether a tensor holds numbers as they are, and not quantised ones that have a scale elsewhere."""
    return part.is_floating_point() and part.element_size() > 1
