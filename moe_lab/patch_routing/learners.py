"""Training of routers and experts together: every patch meets all weights, and a mask chooses afterwards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.routing import expert_choice
from moe_lab.core.trials import Draw, stream
from moe_lab.patch_routing import initialization, routed
from moe_lab.patch_routing.batch import Rows
from moe_lab.patch_routing.data import PatchSamples
from moe_lab.patch_routing.joint import JointPass, JointRules, by_expert, joint_forward, joint_step
from moe_lab.patch_routing.learner import PatchLearner, Setting, initial_outputs
from moe_lab.patch_routing.loss import Loss, loss_of
from moe_lab.patch_routing.measures import Pass, PlaceCounts, RoutingCounts, alignment
from moe_lab.patch_routing.model import JointMoE
from moe_lab.patch_routing.own import check_gates, has_own_route
from moe_lab.patch_routing.routed import RoutedMoE


def autograd_step(
    weights: Tensor, outputs: Callable[[Tensor], Float[Tensor, "T c B"]], labels: Int[Tensor, "T B"], rate: Tensor
) -> tuple[Tensor, Loss]:
    """Takes one SGD step on the mean loss of each row, with the gradient that torch finds.

    Args:
      outputs: computes f from the weights, each row from its own.
      rate: (T, 1, 1), the step size of each row.

    Returns:
      The new weights, and the loss before the step.

    Raises:
      ValueError: the outputs do not depend on the weights in a way that torch differentiates.
    """
    with torch.enable_grad():
        variable = weights.detach().requires_grad_()
        found = outputs(variable)
        loss = loss_of(found.detach(), labels)
        total = (found * loss.slope).sum() / labels.shape[1]  # its derivative by f is that of the mean losses
    rule = "the outputs of a model must depend on its weights through operations that torch differentiates"
    require(total.requires_grad, rule, requires_grad=False)
    (gradient,) = torch.autograd.grad(total, variable)  # rows share no weights: that of the sum has that of each
    return weights - rate.view(-1, *[1] * (weights.ndim - 1)) * gradient, loss


class AllPatchesLearner(PatchLearner):
    """Rows of a model that is given all patches.

    Attributes:
      present: (T, k) the experts that each row has.
    """

    present: Tensor

    @abstractmethod
    def _forward(self, weights: Tensor, patches: Float[Tensor, "T B n d"], rules: Any, *drawn: Tensor) -> Pass:
        """Computes f and the routing of some rows."""

    @abstractmethod
    def _routers(self) -> Float[Tensor, "T k d"] | None:
        """The routers whose alignment is measured, if there are any."""

    def _step(self, rows: slice, samples: Tensor, *drawn: Tensor) -> tuple[Tensor, Loss]:
        (patches, labels), rules = self.chosen(rows, samples), self.rules.of(rows)

        def outputs(weights: Tensor) -> Tensor:
            return self._forward(weights, patches, rules, *drawn).outputs

        return autograd_step(self.weights[rows], outputs, labels, rules.learning_rate)

    def _outputs_of(self, samples: Tensor) -> Tensor:
        return self.forward(self.chosen(slice(None), samples)[0]).outputs

    def _outputs(self, data: PatchSamples, begin: int, end: int, counts: RoutingCounts | None) -> Tensor:
        now = self.forward(self.patches(data, begin, end))
        if counts is not None:
            counts.add(now, *(part[self.group, begin:end] for part in (data.labels, data.signal, data.roles)))
        return now.outputs

    def _keep(self, rows: np.ndarray, there: Tensor) -> None:
        super()._keep(rows, there)
        self.present = self.present[there]

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        values, routers = counts.values(self.present), self._routers()
        if routers is not None:
            values["alignment"] = alignment(routers, self.setting.signals[self.group], self.present)
        return values

    def forward(self, patches: Float[Tensor, "T B n d"]) -> Pass:
        """Computes f and the routing of samples that are given, for every row with its present weights."""
        return self._forward(self.weights, patches, self.rules)

    def examples(self) -> dict[str, Tensor]:
        mask = self.forward(self.patches(self.test, 0, self.setting.classes)).mask
        return {} if mask is None else {"example_kept": (mask & self.present[:, :, None, None]).transpose(1, 2)}

    @property
    def experts(self) -> int:
        return self.present.shape[1]


class JointLearner(AllPatchesLearner):
    """A JointMoE; weights are (T, m + k, d). A subclass with a `route` of its own has the gradient that torch finds."""

    rules: JointRules

    def __init__(self, rows: Rows, setting: Setting, train: PatchSamples, test: PatchSamples) -> None:
        super().__init__(rows, setting, train, test)
        assert isinstance(setting.model, JointMoE)
        self.model, most = setting.model, int(rows.experts.max())
        n, d = self.n, self.d
        self.present = setting.tensor(rows.experts)[:, None] > torch.arange(most, device=setting.device)
        hidden = initialization.hidden_weights(self.model, rows.trial.tolist(), setting.seed, d)
        routers = setting.tensor(initialization.routers(self.model, rows.trial.tolist(), setting.seed, most, n, d))
        self.weights = torch.cat((setting.tensor(hidden), routers * self.present[..., None]), dim=1)
        outputs = initial_outputs(rows, setting, rows.patches_per_expert, n)
        self.rules = JointRules(
            outputs=by_expert(outputs, rows.experts.tolist()),
            patches_per_expert=setting.tensor(rows.patches_per_expert),
            learning_rate=setting.tensor(rows.learning_rate)[:, None, None],
        )
        self.own_route = has_own_route(self.model)
        if self.own_route:
            tried = self._forward(self.weights, self.patches(self.test, 0, 2), self.rules)
            check_gates(tried.mask, tried.gates)  # before the first step, and never again

    @property
    def captured(self) -> bool:
        return self.model.capturable if self.own_route else True

    @property
    def numbers_per_sample(self) -> int:
        return self.n * (self.d + 2 * self.model.neurons)

    def _step(self, rows: slice, samples: Tensor, *drawn: Tensor) -> tuple[Tensor, Loss]:
        if self.own_route:
            return super()._step(rows, samples, *drawn)
        return joint_step(self.weights[rows], *self.chosen(rows, samples), self.rules.of(rows))

    def _forward(self, weights: Tensor, patches: Tensor, rules: JointRules, *drawn: Tensor) -> JointPass:
        return joint_forward(weights, patches, rules, self._route if self.own_route else expert_choice)

    def _route(self, scores: Tensor, patches_per_expert: Tensor) -> tuple[Tensor, Tensor]:
        """The model's own route, its shapes checked."""
        found = self.model.route(scores, patches_per_expert)
        shapes = tuple(tuple(part.shape) for part in found)
        right = shapes == (tuple(scores.shape),) * 2 and found[0].dtype == torch.bool
        rule = f"route must return a mask of True and False and gates, both of the scores' shape {tuple(scores.shape)}"
        require(right, rule, shapes=shapes, mask=found[0].dtype)
        return found

    def _routers(self) -> Tensor:
        return self.weights[:, self.model.neurons :]


class RoutedLearner(AllPatchesLearner):
    """A RoutedMoE; weights are (T, m + the router's rows, d), see `routed`."""

    rules: routed.RoutedRules

    def __init__(self, rows: Rows, setting: Setting, train: PatchSamples, test: PatchSamples) -> None:
        super().__init__(rows, setting, train, test)
        assert isinstance(setting.model, RoutedMoE)
        self.model, trials = setting.model, rows.trial.tolist()
        neurons, experts, seed = self.model.neurons, self.model.experts, setting.seed
        n, d = self.n, self.d
        hidden = initialization.initial_experts(trials, seed, neurons, d)
        routers = routed.initial_router(trials, seed, self.model, n, d)
        self.weights = setting.tensor(torch.cat((hidden, routers), dim=1))
        self.present = torch.ones(len(rows), experts, dtype=torch.bool, device=setting.device)
        outputs = initial_outputs(rows, setting, np.full(len(trials), routed.pooled(self.model, n)), n)
        directions, table = routed.hash_of(trials, seed, self.model, d)
        self.rules = routed.RoutedRules(
            outputs=by_expert(outputs, [experts] * len(trials)),
            directions=setting.tensor(directions),
            table=table.to(setting.device),
            learning_rate=setting.tensor(rows.learning_rate)[:, None, None],
        )
        self.soft = self.model.routing == "soft"
        self._trials = trials
        self._noise: list[np.random.Generator] = []  # of each row, once it is drawn from

    @property
    def numbers_per_sample(self) -> int:
        slots = self.model.experts * self.model.places(self.n) if self.soft else 0
        return (self.n + slots) * (self.d + 2 * self.model.neurons)

    def _noise_of(self, batch: int) -> Draw | None:
        """The noise of a step (k, B, n) from a trial's own stream; None where scores have none."""
        if self.model.routing not in ("expert-choice", "token-choice") or not self.model.router_noise:
            return None
        return Draw("router noise", (self.model.experts, batch, self.n), "normal")

    def _draw(self, batch: int) -> tuple[Tensor, ...]:
        noise = self._noise_of(batch)
        if noise is None:
            return ()
        if not self._noise:
            self._noise = [stream(self.setting.seed, trial, noise.purpose) for trial in self._trials]
        return (self.setting.tensor(np.stack([noise.of(random) for random in self._noise])),)

    @property
    def step_draws(self) -> dict[str, Draw]:
        noise = self._noise_of(self.setting.model.batch_size)
        return super().step_draws | ({} if noise is None else {"noise": noise})

    def inputs_of(self, raw: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return *super().inputs_of(raw), *([raw["noise"]] if "noise" in raw else [])

    def _forward(
        self, weights: Tensor, patches: Tensor, rules: routed.RoutedRules, *drawn: Tensor
    ) -> routed.RoutedPass:
        return routed.routed_forward(weights, patches, rules, self.model, *drawn)

    def _keep(self, rows: np.ndarray, there: Tensor) -> None:
        super()._keep(rows, there)
        self._trials = [self._trials[row] for row in rows]
        self._noise = [self._noise[row] for row in rows] if self._noise else []

    def _routers(self) -> Tensor | None:
        """Rows of the router that give scores; with soft MoE, one for each slot."""
        if self.model.routing == "hash":
            return None
        scores = self.model.experts * (self.model.places(self.n) if self.soft else 1)
        return self.weights[:, self.model.neurons :][:, :scores]

    def _counts(self) -> RoutingCounts:
        places = self.model.places(self.n)
        return PlaceCounts(places, self.soft, len(self.group), self.experts, self.setting.classes, self.weights)

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        routers = self._routers()
        if not self.soft or routers is None:
            return super().routing(counts)
        every = torch.ones_like(routers[..., 0], dtype=torch.bool)
        each = alignment(routers, self.setting.signals[self.group], every)
        nearest = each.unflatten(1, (self.experts, -1)).amax(2)  # of an expert's slots
        return {**counts.values(self.present), "alignment": nearest}

    def examples(self) -> dict[str, Tensor]:
        choice = self._forward(self.weights, self.patches(self.test, 0, self.setting.classes), self.rules).choice
        parts = {"example_kept": choice.mask, "example_asked": choice.asked, "example_gates": choice.gates}
        return {name: part.transpose(1, 2) for name, part in parts.items()}
