"""Training of models of your own, with the gradient that torch finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.data import Samples
from moe_lab.patch_routing.joint_learner import JointLearner
from moe_lab.patch_routing.learners import Learner, Rows, Setting
from moe_lab.patch_routing.measures import RoutingCounts, alignment
from moe_lab.patch_routing.own import OwnModel, Routed, Sizes


def autograd_step(
    weights: Tensor, outputs: Callable[[Tensor], Float[Tensor, "T c B"]], labels: Int[Tensor, "T B"], rate: Tensor
) -> tuple[Tensor, models.Loss]:
    """Takes one SGD step on the mean loss of each row, with the gradient that torch finds.

    Args:
      outputs: computes f from the weights, each row from its own.
      rate: the step size of each row, in a shape that multiplies the weights.

    Returns:
      The new weights, and the loss before the step.

    Raises:
      ValueError: the outputs do not depend on the weights in a way that torch differentiates.
    """
    free = weights.detach().clone().requires_grad_()
    with torch.enable_grad():
        loss = models.loss_of(outputs(free), labels)
        total = loss.value.mean(1).sum()  # rows share no weights: the gradient of the sum holds that of each
        rule = "the outputs of a model must depend on its weights through operations that torch differentiates"
        require(total.requires_grad, rule, requires_grad=False)
        (gradient,) = torch.autograd.grad(total, free)
    return weights - rate * gradient, models.Loss(*(part.detach() for part in loss))


def check_gates(mask: Tensor, gates: Tensor) -> None:
    """Checks that no patch passes a gate to an expert that does not receive it.

    Outputs are computed with the gates and measured with the mask: where the two disagree, coverage and pictures would
    show another model than the one that is trained.

    Raises:
      ValueError: a gate is not 0 where the mask is False.
    """
    outside = (gates != 0) & ~mask
    gate = float(gates[outside][0]) if bool(outside.any()) else 0.0
    require(gate == 0, "gates must be 0 where the mask is False", gate=gate)


class OwnRouteLearner(JointLearner):
    """A JointMoE whose subclass has a `route` of its own."""

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        super().__init__(rows, setting, train, test)
        tried = self._forward(self.test, 0, 2)  # before the first step, and never again
        check_gates(tried.mask, tried.gates)

    @property
    def captured(self) -> bool:
        return self.setting.model.capturable

    def _advance(self, samples: Tensor, *drawn: Tensor) -> None:
        with torch.no_grad():
            super()._advance(samples, *drawn)

    def _step(self, rows: slice, samples: Tensor, *drawn: Tensor) -> tuple[Tensor, models.Loss]:
        patches, labels = self.chosen(rows, samples)
        rules, route = self.rules.of(rows), self._route

        def outputs(weights: Tensor) -> Tensor:
            return models.joint_forward(weights, patches, rules, route).outputs

        return autograd_step(self.weights[rows], outputs, labels, rules.learning_rate)

    def _outputs_of(self, samples: Tensor) -> Tensor:
        patches, _ = self.chosen(slice(None), samples)
        return models.joint_forward(self.weights, patches, self.rules, self._route).outputs

    def _forward(self, data: Samples, begin: int, end: int) -> models.JointPass:
        return models.joint_forward(self.weights, self.patches(data, begin, end), self.rules, self._route)

    def _route(self, scores: Tensor, patches_per_expert: Tensor) -> tuple[Tensor, Tensor]:
        model = self.setting.model
        assert isinstance(model, models.JointMoE)
        found = model.route(scores, patches_per_expert)
        shapes = tuple(tuple(part.shape) for part in found)
        right = shapes == (tuple(scores.shape),) * 2 and found[0].dtype == torch.bool
        rule = f"route must return a mask of True and False and gates, both of the scores' shape {tuple(scores.shape)}"
        require(right, rule, shapes=shapes, mask=found[0].dtype)
        return found


@dataclass(frozen=True)
class Rate:
    """The step size of each row, as the other learners' rules have it."""

    learning_rate: Float[Tensor, "T 1 1"]


class OwnLearner(Learner):
    """An `OwnModel`. Its trained weights are flattened to (T, P), and given to `forward` by name."""

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        super().__init__(rows, setting, train, test)
        model = setting.model
        assert isinstance(model, OwnModel)
        self.model = model
        n, d = train.index.shape[2], train.bank.shape[2]
        self.wanted = Sizes(n, d, 1 if setting.classes == 2 else setting.classes)
        initial = _stacked([model.initial(int(trial), setting.seed, self.wanted) for trial in rows.trial], model.frozen)
        trained = {name: value for name, value in initial.items() if name not in model.frozen}
        self.shapes = {name: value.shape[1:] for name, value in trained.items()}
        flat = [value.reshape(len(rows.trial), -1) for value in trained.values()]
        self.weights = setting.tensor(np.concatenate(flat, axis=1))
        self.fixed = {name: setting.tensor(np.asarray(initial[name], dtype=float)) for name in model.frozen}
        self.rules = Rate(setting.tensor(rows.learning_rate)[:, None, None])
        self.experts, self.receives = 1, False
        self._try_out()

    def _try_out(self) -> None:
        """Computes two samples of the first two rows, and of the first alone, to refuse a wrong `forward` at once."""
        patches = self.patches(self.test, 0, 2)[:2]
        every = self._forward(self.weights[:2], patches, slice(0, 2))
        alone = self._forward(self.weights[:1], patches[:1], slice(0, 1))
        rule = "forward must compute each trial from its own weights: alone it gives other outputs than in a batch"
        gap = float((every.outputs[:1] - alone.outputs).abs().max())
        apart = not torch.allclose(every.outputs[:1], alone.outputs, rtol=1e-3, atol=1e-5, equal_nan=True)
        require(not apart, rule, difference=gap)
        if every.mask is not None:
            self.experts, self.receives = every.mask.shape[1], True
            if every.gates is not None:
                check_gates(every.mask, every.gates)

    @property
    def captured(self) -> bool:
        return self.setting.model.capturable

    @property
    def sizes(self) -> tuple[int, int]:
        n, d = self.train.index.shape[2], self.train.bank.shape[2]
        return self.experts, n * (d + 2 * -(-self.weights.shape[1] // d))

    def _forward(self, weights: Tensor, patches: Tensor, rows: slice) -> Routed:
        """What the model makes of flattened weights, its shapes checked."""
        named, begin = {name: value[rows] for name, value in self.fixed.items()}, 0
        for name, shape in self.shapes.items():
            end = begin + prod(shape)
            named[name], begin = weights[:, begin:end].unflatten(1, shape or (1,)), end
            if not shape:
                named[name] = named[name][:, 0]
        found = self.model.forward(named, patches)
        require(isinstance(found, Routed), "forward must return a Routed", returned=type(found).__name__)
        trials, batch, n, _ = patches.shape
        wanted, given = (trials, self.wanted.outputs, batch), tuple(found.outputs.shape)
        require(given == wanted, f"forward must return outputs of shape (T, c, B), here {wanted}", outputs=given)
        for name, part in (("mask", found.mask), ("gates", found.gates)):
            proper = part is None or (part.ndim == 4 and (part.shape[0], *part.shape[2:]) == (trials, batch, n))
            rule = f"forward must return a {name} of shape (T, k, B, n), here ({trials}, k, {batch}, {n})"
            require(proper, rule, **{name: None if part is None else tuple(part.shape)})
        return found

    def _step(self, rows: slice, samples: Tensor, *drawn: Tensor) -> tuple[Tensor, models.Loss]:
        patches, labels = self.chosen(rows, samples)

        def outputs(weights: Tensor) -> Tensor:
            return self._forward(weights, patches, rows).outputs

        return autograd_step(self.weights[rows], outputs, labels, self.rules.learning_rate[rows, :, 0])

    def _outputs_of(self, samples: Tensor) -> Tensor:
        patches, _ = self.chosen(slice(None), samples)
        return self._forward(self.weights, patches, slice(None)).outputs

    def _outputs(self, data: Samples, begin: int, end: int, counts: RoutingCounts | None) -> Tensor:
        found = self._forward(self.weights, self.patches(data, begin, end), slice(None))
        if counts is not None and found.mask is not None:
            labels, signal, roles = (part[self.group, begin:end] for part in (data.labels, data.signal, data.roles))
            gates = found.mask.to(found.outputs.dtype) if found.gates is None else found.gates
            counts.add(found.mask, gates, labels, signal, roles)
        return found.outputs

    def _keep(self, rows: Tensor) -> None:
        self.rules = Rate(self.rules.learning_rate[rows])
        self.fixed = {name: value[rows] for name, value in self.fixed.items()}

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        if not self.receives:
            return {}
        d = self.train.bank.shape[2]
        present = torch.ones(len(self.group), self.experts, dtype=torch.bool, device=self.setting.device)
        values = counts.values(present)
        if self.shapes.get("routers") == (self.experts, d):
            begin = sum(prod(shape) for shape in list(self.shapes.values())[: list(self.shapes).index("routers")])
            routers = self.weights[:, begin : begin + self.experts * d].unflatten(1, (self.experts, d))
            values["alignment"] = alignment(routers, self.setting.signals[self.group], present)
        return values

    def examples(self) -> dict[str, Tensor]:
        mask = self._forward(self.weights, self.patches(self.test, 0, self.setting.classes), slice(None)).mask
        return {} if mask is None else {"example_kept": mask.transpose(1, 2)}


def _stacked(drawn: list[Any], frozen: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The initial weights of all rows by name."""
    proper = all(isinstance(part, Mapping) and part for part in drawn)
    rule = "initial must return the weights of one trial as a mapping from names to arrays"
    require(proper, rule, returned=type(drawn[0]).__name__)
    names = list(drawn[0])
    same = all(list(part) == names and all(np.shape(part[n]) == np.shape(drawn[0][n]) for n in names) for part in drawn)
    require(same, "initial must give every trial weights of the same names and shapes", names=names)
    fits = set(frozen) < set(names)
    require(fits, "frozen must name some of the weights that initial returns, and not all", frozen=frozen, names=names)
    return {name: np.stack([np.asarray(part[name], dtype=float) for part in drawn]) for name in names}
