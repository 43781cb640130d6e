"""Training of routers and experts together."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from moe_lab.patch_routing import model as models
from moe_lab.patch_routing import start
from moe_lab.patch_routing.data import Samples
from moe_lab.patch_routing.learners import Learner, Rows, Setting, initial_outputs
from moe_lab.patch_routing.measures import RoutingCounts, alignment


class JointLearner(Learner):
    """Routers and experts together; weights are (T, m + k, d)."""

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        super().__init__(rows, setting, train, test)
        neurons, most = setting.model.neurons, int(rows.experts.max())
        n, d = train.index.shape[2], train.bank.shape[2]
        initial = np.zeros((len(rows.trial), neurons + most, d))
        for row, (trial, experts) in enumerate(zip(rows.trial, rows.experts, strict=True)):
            initial[row, :neurons] = start.initial_experts(setting.model, trial, setting.seed, d)
            initial[row, neurons : neurons + experts] = start.initial_routers(
                setting.model, trial, setting.seed, experts, n, d
            )
        self.weights = setting.tensor(initial)
        self.present = setting.tensor(rows.experts)[:, None] > torch.arange(most, device=setting.device)
        self.rules = models.joint_rules(
            outputs=initial_outputs(rows, setting, rows.patches_per_expert, n),
            membership=setting.tensor(models.membership(neurons, rows.experts.tolist())),
            patches_per_expert=setting.tensor(rows.patches_per_expert),
            learning_rate=setting.tensor(rows.learning_rate)[:, None, None],
        )

    @property
    def sizes(self) -> tuple[int, int]:
        n, d = self.train.index.shape[2], self.train.bank.shape[2]
        return self.present.shape[1], n * (d + 2 * self.setting.model.neurons)

    def _step(self, rows: slice, samples: Tensor, *drawn: Tensor) -> tuple[Tensor, models.Loss]:
        return models.joint_step(self.weights[rows], *self.chosen(rows, samples), self.rules.of(rows))

    def _outputs_of(self, samples: Tensor) -> Tensor:
        patches, _ = self.chosen(slice(None), samples)
        return models.joint_forward(self.weights, patches, self.rules).outputs

    def _forward(self, data: Samples, begin: int, end: int) -> models.JointPass:
        return models.joint_forward(self.weights, self.patches(data, begin, end), self.rules)

    def _outputs(self, data: Samples, begin: int, end: int, counts: RoutingCounts | None) -> Tensor:
        now = self._forward(data, begin, end)
        if counts is not None:
            labels, signal, roles = (part[self.group, begin:end] for part in (data.labels, data.signal, data.roles))
            counts.add(now.mask, now.gates, labels, signal, roles)
        return now.outputs

    def _keep(self, rows: Tensor) -> None:
        self.rules = self.rules.of(rows)
        self.present = self.present[rows]

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        routers, signals = self.weights[:, self.setting.model.neurons :], self.setting.signals[self.group]
        return {**counts.values(self.present), "alignment": alignment(routers, signals, self.present)}

    def examples(self) -> dict[str, Tensor]:
        mask = self._forward(self.test, 0, self.setting.classes).mask
        return {"example_kept": (mask & self.present[:, :, None, None]).transpose(1, 2)}
