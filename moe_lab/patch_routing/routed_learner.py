"""Training of experts behind one of several routings, and the counts of what finds a place."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.graphs import to_device
from moe_lab.core.trials import stream
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing import routed_model as routed
from moe_lab.patch_routing.data import Samples
from moe_lab.patch_routing.learners import Learner, Rows, Setting, initial_outputs
from moe_lab.patch_routing.measures import RoutingCounts, alignment
from moe_lab.patch_routing.routed import RoutedMoE


class RoutedLearner(Learner):
    """Weights are (T, m + the router's rows, d); see `routed_model`."""

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        super().__init__(rows, setting, train, test)
        assert isinstance(setting.model, RoutedMoE)
        self.model, trials = setting.model, rows.trial.tolist()
        neurons, experts, seed = self.model.neurons, self.model.experts, setting.seed
        n, d = train.index.shape[2], train.bank.shape[2]
        initial = [
            np.concatenate([
                models.initial_experts(trial, seed, neurons, d), routed.initial_router(trial, seed, self.model, n, d)
            ])
            for trial in trials
        ]  # fmt: skip
        self.weights = setting.tensor(np.stack(initial))
        outputs = initial_outputs(rows, setting, np.full(len(trials), routed.pooled(self.model, n)), n)
        member = setting.tensor(models.membership(neurons, [experts] * len(trials)))
        directions, table = zip(*(routed.hash_of(trial, seed, self.model, d) for trial in trials), strict=True)
        self.rules = routed.RoutedRules(
            outputs=outputs.mT[:, :, None] * member.mT[:, None],
            directions=setting.tensor(np.stack(directions)),
            table=to_device(np.stack(table), setting.device),
            learning_rate=setting.tensor(rows.learning_rate)[:, None, None],
        )
        self._noise = [stream(seed, trial, "router noise") for trial in trials]
        self._tally: Tally | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        n, d = self.train.index.shape[2], self.train.bank.shape[2]
        slots = self.model.experts * self.model.places(n) if self.model.routing == "soft" else 0
        return self.model.experts, (n + slots) * (d + 2 * self.model.neurons)

    def _draw(self, batch: int) -> tuple[Tensor, ...]:
        """The noise of a step, (T, k, B, n), from every trial's own stream."""
        if self.model.routing not in ("expert-choice", "token-choice") or not self.model.router_noise:
            return ()
        shape = self.model.experts, batch, self.train.index.shape[2]
        return (self.setting.tensor(np.stack([random.standard_normal(shape) for random in self._noise])),)

    def _outputs_of(self, samples: Tensor) -> Tensor:
        patches, _ = self.chosen(slice(None), samples)
        return routed.routed_forward(self.weights, patches, self.rules, self.model).outputs

    def _step(self, rows: slice, samples: Tensor, *drawn: Tensor) -> tuple[Tensor, models.Loss]:
        data, rules = self.chosen(rows, samples), self.rules.of(rows)
        return routed.routed_step(self.weights[rows], *data, rules, self.model, *drawn)

    def _forward(self, data: Samples, begin: int, end: int) -> routed.RoutedPass:
        return routed.routed_forward(self.weights, self.patches(data, begin, end), self.rules, self.model)

    def _outputs(self, data: Samples, begin: int, end: int, counts: RoutingCounts | None) -> Tensor:
        now = self._forward(data, begin, end)
        if counts is not None:
            labels, signal, roles = (part[self.group, begin:end] for part in (data.labels, data.signal, data.roles))
            counts.add(now.choice.mask, now.choice.gates, labels, signal, roles)
            assert self._tally is not None
            self._tally.add(now.choice, signal, soft=self.model.routing == "soft")
        return now.outputs

    def evaluate(self) -> dict[str, Tensor]:
        self._tally = Tally(len(self.group), self.model.experts, self.weights)
        return super().evaluate()

    def keep(self, rows: np.ndarray) -> None:
        super().keep(rows)
        self._noise = [self._noise[row] for row in rows]  # here, because `_keep` would have to wait for the device

    def _keep(self, rows: Tensor) -> None:
        self.rules = self.rules.of(rows)

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        assert self._tally is not None
        n, signals = self.train.index.shape[2], self.setting.signals[self.group]
        present = torch.ones(len(self.group), self.model.experts, dtype=torch.bool, device=self.setting.device)
        values = counts.values(present) | self._tally.values(self.model.places(n), soft=self.model.routing == "soft")
        routers = self.weights[:, self.model.neurons :]
        if self.model.routing == "hash":
            return values
        if self.model.routing == "soft":  # of an expert's slots the one that is nearest
            every = present.repeat_interleave(self.model.places(n), 1)
            return {
                **values,
                "alignment": alignment(routers, signals, every).unflatten(1, (present.shape[1], -1)).amax(2),
            }
        return {**values, "alignment": alignment(routers[:, : self.model.experts], signals, present)}

    def examples(self) -> dict[str, Tensor]:
        choice = self._forward(self.test, 0, self.setting.classes).choice
        parts = {"example_kept": choice.mask, "example_asked": choice.asked, "example_gates": choice.gates}
        return {name: part.transpose(1, 2) for name, part in parts.items()}


class Tally:
    """Accumulates what finds a place over test samples, chunk by chunk, with the device and dtype of `like`."""

    def __init__(self, trials: int, experts: int, like: Tensor) -> None:
        self.samples = 0
        self.patches = 0
        self.asked, self.placed = like.new_zeros(trials, experts), like.new_zeros(trials, experts)
        self.signal_kept, self.signal_received, self.lost = (like.new_zeros(trials) for _ in range(3))

    def add(self, choice: routed.Choice, signal: Tensor, *, soft: bool) -> None:
        """Adds a chunk; `signal`, (T, b), is the position of o in each sample."""
        dtype = self.lost.dtype
        received = choice.gates if soft else choice.mask.to(dtype)
        at = signal[:, None, :, None].expand(-1, received.shape[1], -1, 1)
        reached = choice.mask.any(1)  # (T, b, n)
        self.samples += signal.shape[1]
        self.patches += reached.shape[1] * reached.shape[2]
        self.asked += choice.asked.sum((2, 3)).to(dtype)
        self.placed += choice.mask.sum((2, 3)).to(dtype)
        self.signal_kept += reached.gather(-1, signal[..., None]).sum((1, 2)).to(dtype)
        self.signal_received += received.gather(-1, at).sum((1, 2, 3))
        self.lost += (~reached).sum((1, 2)).to(dtype)

    def values(self, places: int, *, soft: bool) -> dict[str, Tensor]:
        """Returns the measures. Each of an expert's slots counts as a place, and nothing is turned away from them."""
        asked, placed = (part / self.samples for part in (self.asked, self.placed))
        taken = torch.full_like(placed, places) if soft else placed
        received = len(placed[0]) * self.samples if soft else self.placed.sum(1)
        return {
            "signal_kept": self.signal_kept / self.samples,
            "signal_share": self.signal_received / received,
            "lost": self.lost / self.patches,
            "dropped": 1 - placed.sum(1) / asked.sum(1),
            "places_taken": taken,
            "turned_away": asked - placed,
        }
