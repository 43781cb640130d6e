"""The mixture with top-k routing bound to its data and weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from moe_lab.routers import balance
from moe_lab.specialization import topk
from moe_lab.specialization.data import Samples
from moe_lab.specialization.experts import Dispatch, Experts
from moe_lab.specialization.learners import MixtureLearner
from moe_lab.specialization.measures import Counts, agreement, largest_products
from moe_lab.specialization.run import Run


class TopKLearner(MixtureLearner[topk.TopKMoE]):
    """Some trials of `TopKMoE`."""

    def __init__(self, run: Run, model: topk.TopKMoE, trials: Sequence[int], train: Samples, test: Samples) -> None:
        super().__init__(run, model, trials, train, test)
        d = run.task.dimension
        experts = np.stack([topk.initial_filters(trial, run.seed, model, d) for trial in trials])
        routers = np.stack([topk.initial_routers(trial, run.seed, model, d) for trial in trials])
        bias = self.like.new_zeros(len(trials), model.experts)
        first = self.tensor(routers)
        if model.lead:
            first[:, 0] += topk.towards_all(model.lead, [block.inputs.totals for block in self.train])
        self.state = topk.State(self.tensor(experts), first, bias)

    @property
    def _moving(self) -> tuple[Tensor, ...]:
        return (*self.state, self.loss, self.right, self.steps)

    def _moved(self, noise: Tensor) -> tuple[Tensor, ...]:
        state, sums = topk.topk_step(self.state, self.train, noise, self.model)
        return (*state, sums.loss / self.run.samples, sums.right, self.steps + 1)

    def _outputs(self, blocks: Sequence[Experts]) -> Iterator[tuple[Experts, Tensor, topk.Routing, Tensor, Tensor]]:
        """Yields blocks with h, their routing without noise, f of all experts and F(x)."""
        for block in blocks:
            scores = topk.scores_of(self.state, [block])
            routing = topk.route(scores, scores + self.state.bias[..., None], self.model)
            every = block.every(self.state.experts)
            yield block, scores, routing, every, (routing.weights * every.gather(1, routing.slots)).sum(1)

    def evaluate(self) -> dict[str, Tensor]:
        model, d = self.model, self.run.task.dimension
        counts = Counts(len(self.trials), model.experts, self.run.task.clusters, self.like)
        size = torch.zeros_like(self.loss)
        for block, scores, routing, every, output in self._outputs(self.test):
            sent = Dispatch(routing.chosen, routing.slots[:, 0])
            counts.add(every[:, : model.experts], sent, output, block.inputs.labels, block.inputs.clusters)
            size += (scores.logsumexp(1) - np.log(model.experts)).abs().sum(1)
        counted = counts.values()
        load = counted["expert_load"] / model.experts_per_sample
        feature, center = largest_products(self.state.experts[..., :d], self.signals)
        routers = self.state.routers @ self.signals.mT
        half = routers.shape[2] // 2
        shared = {"shared_feature": feature[:, model.experts :]} if model.shared else {}
        return (
            counted
            | shared
            | {
                "expert_load": load,
                "load_entropy": balance.load_entropy(load),
                "maximal_violation": balance.maximal_violation(load),
                "agreement": agreement(counted["dispatch"]),
                "score_size": size / self.run.test_samples,
                "selection_bias": self.state.bias,
                "expert_feature": feature[:, : model.experts],
                "expert_center": center[:, : model.experts],
                "router_feature": routers[..., :half],
                "router_center": routers[..., half:],
            }
        )

    def _training_margins(self) -> Iterator[Tensor]:
        return (block.inputs.labels * output for block, _, _, _, output in self._outputs(self.train))
