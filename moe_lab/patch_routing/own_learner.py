"""Training of an `OwnModel`, whose functions are checked once before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.numbers import finite_array
from moe_lab.patch_routing.batch import Rows
from moe_lab.patch_routing.data import PatchSamples
from moe_lab.patch_routing.learner import Setting
from moe_lab.patch_routing.learners import AllPatchesLearner
from moe_lab.patch_routing.measures import RoutingCounts
from moe_lab.patch_routing.own import OwnModel, Routed, Sizes, check_gates


class OwnRules(NamedTuple):
    """The weights that are not trained, by name, and the step sizes."""

    frozen: Mapping[str, Tensor]
    learning_rate: Float[Tensor, "T 1 1"]

    def of(self, trials: slice | Tensor) -> OwnRules:
        """Returns the rules of some trials."""
        return OwnRules({name: value[trials] for name, value in self.frozen.items()}, self.learning_rate[trials])


class OwnLearner(AllPatchesLearner):
    """An `OwnModel`. Its trained weights are flattened to (T, P), and given to `forward` by name."""

    rules: OwnRules

    def __init__(self, rows: Rows, setting: Setting, train: PatchSamples, test: PatchSamples) -> None:
        super().__init__(rows, setting, train, test)
        assert isinstance(setting.model, OwnModel)
        self.model = setting.model
        self.wanted = Sizes(self.n, self.d, 1 if setting.classes == 2 else setting.classes)
        drawn = [self.model.initial(int(trial), setting.seed, self.wanted) for trial in rows.trial]
        initial = _stacked(drawn, self.model.frozen)
        trained = {name: value for name, value in initial.items() if name not in self.model.frozen}
        self.shapes = {name: value.shape[1:] for name, value in trained.items()}
        flat = [value.reshape(len(rows), -1) for value in trained.values()]
        self.weights = setting.tensor(np.concatenate(flat, axis=1))
        self.rules = OwnRules(
            {name: setting.tensor(initial[name]) for name in self.model.frozen},
            setting.tensor(rows.learning_rate)[:, None, None],
        )
        experts = self._try_out()
        self.routes = experts is not None
        self.present = torch.ones(len(rows), experts or 1, dtype=torch.bool, device=setting.device)

    def _try_out(self) -> int | None:
        """Computes two samples of the first two rows, and of the first alone, to refuse a wrong `forward` at once.

        Returns:
          k, None for a model without experts.
        """
        patches = self.patches(self.test, 0, 2)[:2]
        every, alone = (
            self._forward(self.weights[:rows], patches[:rows], self.rules.of(slice(0, rows))) for rows in (2, 1)
        )
        rule = "forward must compute each trial from its own weights: alone it gives other outputs than in a batch"
        gap = float((every.outputs[:1] - alone.outputs).abs().max())
        apart = not torch.allclose(every.outputs[:1], alone.outputs, rtol=1e-3, atol=1e-5, equal_nan=True)
        require(not apart, rule, difference=gap)
        if every.mask is None:
            return None
        if every.gates is not None:
            check_gates(every.mask, every.gates)
        return every.mask.shape[1]

    @property
    def captured(self) -> bool:
        return self.model.capturable

    @property
    def numbers_per_sample(self) -> int:
        return self.n * (self.d + 2 * -(-self.weights.shape[1] // self.d))

    def _forward(self, weights: Tensor, patches: Tensor, rules: OwnRules, *drawn: Tensor) -> Routed:
        """Computes the model's outputs from flattened weights, and checks their shapes."""
        found = self.model.forward({**rules.frozen, **self._named(weights)}, patches)
        require(isinstance(found, Routed), "forward must return a Routed", returned=type(found).__name__)
        trials, batch, n, _ = patches.shape
        wanted, given = (trials, self.wanted.outputs, batch), tuple(found.outputs.shape)
        require(given == wanted, f"forward must return outputs of shape (T, c, B), here {wanted}", outputs=given)
        for name, part in (("mask", found.mask), ("gates", found.gates)):
            proper = part is None or (part.ndim == 4 and (part.shape[0], *part.shape[2:]) == (trials, batch, n))
            rule = f"forward must return a {name} of shape (T, k, B, n), here ({trials}, k, {batch}, {n})"
            require(proper, rule, **{name: None if part is None else tuple(part.shape)})
        return found

    def _named(self, weights: Float[Tensor, "T P"]) -> dict[str, Tensor]:
        """The trained weights by name."""
        parts = weights.split([prod(shape) for shape in self.shapes.values()], dim=1)
        return {name: part.view(-1, *shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def _routers(self) -> Tensor | None:
        routers = self._named(self.weights).get("routers")
        shape = (self.experts, self.d)
        return routers if routers is not None and routers.shape[1:] == shape else None

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        return super().routing(counts) if self.routes else {}


def _stacked(drawn: list[Any], frozen: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The initial weights of all rows by name."""
    proper = all(isinstance(part, Mapping) and part for part in drawn)
    rule = "initial must return the weights of one trial as a mapping from names to arrays"
    require(proper, rule, returned=type(drawn[0]).__name__)
    names = list(drawn[0])
    rule = "initial must give every trial weights of the same names and shapes"
    require(all(list(part) == names for part in drawn), rule, names=names)
    arrays = {name: [finite_array(f"the initial {name}", part[name]) for part in drawn] for name in names}
    require(all(part.shape == of[0].shape for of in arrays.values() for part in of), rule, names=names)
    fits = set(frozen) < set(names)
    require(fits, "frozen must name some of the weights that initial returns, and not all", frozen=frozen, names=names)
    return {name: np.stack(of) for name, of in arrays.items()}
