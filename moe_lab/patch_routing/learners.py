"""A model bound to its data and weights: fetch a batch, take a step, answer test samples.

A learner holds one row for every training of a batch. `keep` drops the rows that have finished; row order is kept.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding

from moe_lab.graphs import Replay
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.data import ROLES, Samples
from moe_lab.patch_routing.measures import RoutingCounts, alignment
from moe_lab.routing import sorted_patches

_NUMBERS_AT_ONCE = {"cpu": 2**20, "cuda": 2**27, "mps": 2**24}


@dataclass(frozen=True)
class Rows:
    """One entry a row: which trial it is, where its data lie, and its own settings."""

    trial: np.ndarray
    group: np.ndarray  # position of the trial in the drawn Samples
    samples: np.ndarray  # N
    patches_per_expert: np.ndarray  # l
    experts: np.ndarray  # k
    learning_rate: np.ndarray  # eta


@dataclass(frozen=True)
class Setting:
    """What all rows of a batch share."""

    model: models.Model
    classes: int
    seed: int
    signals: Tensor  # (groups, c, d)
    device: torch.device
    dtype: torch.dtype

    def tensor(self, values: np.ndarray) -> Tensor:
        whole = np.issubdtype(values.dtype, np.integer)
        return torch.as_tensor(values, device=self.device, dtype=torch.int64 if whole else self.dtype)


class Learner(ABC):
    """Rows of one model in training. `weights` leads with the row axis; `right` and `loss` are running sums."""

    weights: Tensor

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        self.setting, self.train, self.test = setting, train, test
        self.group = setting.tensor(rows.group)
        self.counts = setting.tensor(rows.samples)
        self.wrong = torch.zeros(len(rows.trial), device=setting.device, dtype=torch.int64)
        self.loss = torch.zeros(len(rows.trial), device=setting.device, dtype=setting.dtype)
        self._replay: Replay | None = None

    # What a model must say -------------------------------------------------------------------------------------------

    @abstractmethod
    def _step(self, weights: Tensor, samples: Int[Tensor, "T B"]) -> tuple[Tensor, models.Loss]:
        """The weights after one step on the given samples of each row, and the loss before it."""

    @abstractmethod
    def _outputs(self, data: Samples, begin: int, end: int, counts: RoutingCounts | None) -> Float[Tensor, "T c b"]:
        """f for samples begin ... end-1 of every row; adds what the routers did to `counts`."""

    @abstractmethod
    def _keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Drops all other rows of what the model holds besides the weights."""

    @abstractmethod
    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        """The routing measures of every row, given the sums over the test samples."""

    @abstractmethod
    def example_kept(self) -> Tensor | None:
        """(T, c, k, n) which patches of each class's first test sample every expert keeps; None without routers."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Experts k, and how many numbers a sample needs while it is answered."""

    # What all share --------------------------------------------------------------------------------------------------

    def step(self, samples: Int[Tensor, "T B"]) -> None:
        """One SGD step of every row on the given samples."""
        if self._replay is None:
            self._replay = Replay(self._advance, (self.weights, self.wrong, self.loss), (samples,))
        self._replay(samples)

    def _advance(self, samples: Int[Tensor, "T B"]) -> None:
        weights, loss = self._step(self.weights, samples)
        self.weights.copy_(weights)
        self.wrong += (~loss.right).sum(-1)
        self.loss += loss.value.sum(-1)

    def keep(self, rows: np.ndarray) -> None:
        """Goes on with the rows at these positions only."""
        kept = self.setting.tensor(rows)
        self._keep(kept)
        self.weights, self.wrong, self.loss = self.weights[kept], self.wrong[kept], self.loss[kept]
        self.group, self.counts = self.group[kept], self.counts[kept]
        self._replay = None

    def only(self, rows: np.ndarray) -> Self:
        """A learner of the rows at these positions, to look at; this one goes on with all of its rows."""
        part = copy.copy(self)
        part.keep(rows)
        return part

    def training_error(self) -> tuple[Float[Tensor, " T"], Float[Tensor, " T"]]:
        """Each row's share of wrong training samples and its mean training loss, exactly."""
        wrong, total = torch.zeros_like(self.loss), torch.zeros_like(self.loss)
        for begin, end in self._chunks(int(self.counts.max())):
            outputs = self._outputs(self.train, begin, end, None)
            loss = models.loss_of(outputs, self.train.labels[self.group, begin:end])
            counted = torch.arange(begin, end, device=self.setting.device) < self.counts[:, None]
            wrong += (~loss.right & counted).sum(-1)
            total += torch.where(counted, loss.value, 0.0).sum(-1)
        return wrong / self.counts, total / self.counts

    def examine(self) -> dict[str, Tensor]:
        """Test accuracy and routing measures of every row, over all test samples."""
        experts, _ = self.sizes
        rows, count = len(self.group), self.test.labels.shape[1]
        counts = RoutingCounts(rows, experts, self.setting.classes, len(ROLES), self.weights)
        right = torch.zeros_like(self.loss)
        for begin, end in self._chunks(count):
            outputs = self._outputs(self.test, begin, end, counts)
            right += models.loss_of(outputs, self.test.labels[self.group, begin:end]).right.sum(-1)
        return {"test_accuracy": right / count, **self.routing(counts)}

    def _chunks(self, samples: int) -> list[tuple[int, int]]:
        """Cuts samples into runs that keep the working set small."""
        at_once = _NUMBERS_AT_ONCE[self.setting.device.type] // (len(self.group) * self.sizes[1])
        size = max(self.setting.classes, at_once)
        return [(begin, min(begin + size, samples)) for begin in range(0, samples, size)]


def make_learner(rows: Rows, setting: Setting, train: Samples, test: Samples) -> Learner:
    """The learner for the setting's model."""
    kind: dict[type, Callable[[Rows, Setting, Samples, Samples], Learner]]
    kind = {models.JointMoE: JointLearner, models.SeparateMoE: SeparateLearner, models.CNN: CNNLearner}
    return kind[type(setting.model)](rows, setting, train, test)


class JointLearner(Learner):
    """Routers and experts together; weights are (T, m + k, d)."""

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        super().__init__(rows, setting, train, test)
        neurons, most = setting.model.neurons, int(rows.experts.max())
        n, d = train.index.shape[2], train.bank.shape[2]
        initial = np.zeros((len(rows.trial), neurons + most, d))
        for row, (trial, experts) in enumerate(zip(rows.trial, rows.experts, strict=True)):
            initial[row, :neurons] = models.initial_experts(trial, setting.seed, neurons, d)
            initial[row, neurons : neurons + experts] = models.initial_routers(trial, setting.seed, experts, n, d)
        self.weights = setting.tensor(initial)
        self.present = setting.tensor(rows.experts)[:, None] > torch.arange(most, device=setting.device)
        self.rules = models.joint_rules(
            outputs=_outputs(rows, setting, rows.patches_per_expert),
            membership=setting.tensor(models.membership(neurons, rows.experts.tolist())),
            patches_per_expert=setting.tensor(rows.patches_per_expert),
            learning_rate=setting.tensor(rows.learning_rate)[:, None, None],
        )

    @property
    def sizes(self) -> tuple[int, int]:
        n, d = self.train.index.shape[2], self.train.bank.shape[2]
        return self.present.shape[1], n * (d + 2 * self.setting.model.neurons)

    def _step(self, weights: Tensor, samples: Tensor) -> tuple[Tensor, models.Loss]:
        count = self.train.index.shape[1]
        rows = self.train.rows.flatten(0, 1)[self.group[:, None] * count + samples]
        return models.joint_step(
            weights, embedding(rows, self.train.flat), self.train.labels[self.group[:, None], samples], self.rules
        )

    def _forward(self, data: Samples, begin: int, end: int) -> models.JointPass:
        patches = embedding(data.rows[self.group, begin:end], data.flat)
        return models.joint_forward(self.weights, patches, self.rules)

    def _outputs(self, data: Samples, begin: int, end: int, counts: RoutingCounts | None) -> Tensor:
        now = self._forward(data, begin, end)
        if counts is not None:
            labels, signal, roles = (part[self.group, begin:end] for part in (data.labels, data.signal, data.roles))
            counts.add(now.mask, now.gates, labels, signal, roles)
        return now.outputs

    def _keep(self, rows: Tensor) -> None:
        self.rules = models.JointRules(*(part[rows] for part in self.rules))
        self.present = self.present[rows]

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        routers, signals = self.weights[:, self.setting.model.neurons :], self.setting.signals[self.group]
        return {**counts.values(self.present), "alignment": alignment(routers, signals, self.present)}

    def example_kept(self) -> Tensor:
        mask = self._forward(self.test, 0, self.setting.classes).mask
        return (mask & self.present[:, :, None, None]).transpose(1, 2)


class _FixedLearner(Learner):
    """Experts whose patches are known beforehand; weights are (T, k, m/k, d).

    `tables` name, for each source (a trained router, or a trial's data), the patches of every sample and expert as rows
    of the bank; `source` says which table a row of the batch reads.
    """

    tables: dict[str, Int[Tensor, "sources N k l"]]
    source: Int[Tensor, " T"]

    def _start(self, rows: Rows, experts: int, pooled: np.ndarray) -> None:
        setting, d = self.setting, self.train.bank.shape[2]
        neurons, most = setting.model.neurons, int(pooled.max())
        initial = np.stack([models.initial_experts(trial, setting.seed, neurons, d) for trial in rows.trial])
        self.weights = setting.tensor(initial).unflatten(1, (experts, neurons // experts))
        self.rules = models.FixedRules(
            outputs=_outputs(rows, setting, pooled),
            kept=None if (pooled == most).all() else setting.tensor((np.arange(most) < pooled[:, None]).astype(float)),
            learning_rate=setting.tensor(rows.learning_rate)[:, None, None],
        )

    @property
    def sizes(self) -> tuple[int, int]:
        _, _, experts, kept = self.tables["train"].shape
        return experts, experts * kept * (self.train.bank.shape[2] + 2 * self.weights.shape[2])

    def _fetch(self, data: Samples, table: Int[Tensor, "T b k l"]) -> Float[Tensor, "T k l b d"]:
        return embedding(table.permute(0, 2, 3, 1).contiguous(), data.flat)

    def _step(self, weights: Tensor, samples: Tensor) -> tuple[Tensor, models.Loss]:
        table = self.tables["train"]
        rows = table.flatten(0, 1)[self.source[:, None] * table.shape[1] + samples]
        labels = self.train.labels[self.group[:, None], samples]
        return models.fixed_step(weights, self._fetch(self.train, rows), labels, self.rules)

    def _outputs(self, data: Samples, begin: int, end: int, counts: RoutingCounts | None) -> Tensor:
        table = self.tables["test" if data is self.test else "train"]
        return models.fixed_forward(self.weights, self._fetch(data, table[self.source, begin:end]), self.rules)[1]

    def _keep(self, rows: Tensor) -> None:
        outputs, kept, rate = self.rules
        self.rules = models.FixedRules(outputs[rows], None if kept is None else kept[rows], rate[rows])
        self.source = self.source[rows]


class CNNLearner(_FixedLearner):
    """One expert, all patches, gate 1 (eq. 5)."""

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        super().__init__(rows, setting, train, test)
        self.tables = {"train": train.rows[:, :, None], "test": test.rows[:, :, None]}
        self.source = self.group
        self._start(rows, 1, np.full(len(rows.trial), train.index.shape[2]))

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        return {}

    def example_kept(self) -> None:
        return None


class SeparateLearner(_FixedLearner):
    """Routers trained in closed form, then frozen; each expert sees the l patches that its router scores highest.

    Rows with the same trial and N have the same routers, so the routing is worked out once for each such source, for
    the largest l: the first l patches in the order of the routing values are J_s for every smaller l.
    """

    def __init__(self, rows: Rows, setting: Setting, train: Samples, test: Samples) -> None:
        super().__init__(rows, setting, train, test)
        self.patches_per_expert = setting.tensor(rows.patches_per_expert)
        pairs, source = np.unique(np.stack((rows.group, rows.samples), axis=1), axis=0, return_inverse=True)
        self.source = setting.tensor(source.reshape(-1))
        trials = {int(group): int(trial) for group, trial in zip(rows.group, rows.trial, strict=True)}
        self.routers = self._trained([(trials[int(group)], int(group), int(count)) for group, count in pairs])
        most, groups = int(rows.patches_per_expert.max()), setting.tensor(pairs[:, 0])
        self.tables = {}
        for name, data in (("train", train), ("test", test)):
            order = self._order(data, groups)
            places = order[..., :most]
            chosen = data.rows[groups].unsqueeze(2).expand(-1, -1, setting.classes, -1)
            self.tables[name] = chosen.gather(-1, places)
            if name == "test":
                self.places = places
                self.rank = (order == data.signal[groups][..., None, None]).to(torch.int8).argmax(-1)
        self._start(rows, setting.classes, rows.patches_per_expert)

    def _trained(self, sources: Sequence[tuple[int, int, int]]) -> Float[Tensor, "sources c d"]:
        """The routers of each (trial, group, N) after `router_epochs` epochs (closed form)."""
        setting, model = self.setting, self.setting.model
        assert isinstance(model, models.SeparateMoE)
        n, d = self.train.index.shape[2], self.train.bank.shape[2]
        routers = []
        for trial, group, count in sources:
            sums = embedding(self.train.rows[group, :count], self.train.flat).sum(1)[None]
            labels = self.train.labels[group : group + 1, :count]
            direction = models.router_direction(sums, labels, torch.ones_like(sums[..., 0]), setting.classes)
            initial = setting.tensor(models.initial_routers(trial, setting.seed, setting.classes, n, d))[None]
            trained = models.train_routers(
                initial,
                direction,
                epochs=model.router_epochs,
                samples=setting.tensor(np.array([count])),
                batch_size=model.batch_size,
                learning_rate=1 / n,
            )
            routers.append(trained[0])
        return torch.stack(routers)

    def _order(self, data: Samples, groups: Int[Tensor, " sources"]) -> Int[Tensor, "sources N k n"]:
        """The places of the patches of every sample by descending routing value, for each source."""
        found = []
        for source, group in enumerate(groups.tolist()):
            bank = data.bank[0 if len(data.bank) == 1 else group]
            values = bank @ self.routers[source].mT  # every patch of the bank once
            scores = embedding(data.index[group], values).mT  # (N, k, n)
            found.append(sorted_patches(scores))
        return torch.stack(found)

    def _keep(self, rows: Tensor) -> None:
        super()._keep(rows)
        self.patches_per_expert = self.patches_per_expert[rows]

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        classes = self.setting.classes
        received = (self.rank[self.source] < self.patches_per_expert[:, None, None]).to(self.setting.dtype)  # (T, N, k)
        member = torch.nn.functional.one_hot(self.test.labels[self.group], classes).to(self.setting.dtype)
        expert_coverage = received.mT @ member / member.sum(1, keepdim=True)
        present = torch.ones(len(self.group), classes, dtype=torch.bool, device=self.setting.device)
        routers = self.routers[self.source]
        return {
            "expert_coverage": expert_coverage,
            "coverage": expert_coverage.amax(1),
            "alignment": alignment(routers, self.setting.signals[self.group], present),
        }

    def example_kept(self) -> Tensor:
        classes, n = self.setting.classes, self.test.index.shape[2]
        places = self.places[self.source, :classes]  # (T, c, k, l)
        counted = torch.arange(places.shape[-1], device=places.device) < self.patches_per_expert[:, None, None, None]
        empty = torch.zeros(*places.shape[:3], n, device=places.device, dtype=torch.bool)
        return empty.scatter(-1, places, counted.expand_as(places))


def _outputs(rows: Rows, setting: Setting, pooled: np.ndarray) -> Float[Tensor, "T m c"]:
    """Each row's output weights over the number of patches that it pools: a / l."""
    outputs = 1 if setting.classes == 2 else setting.classes
    drawn = [models.initial_outputs(trial, setting.seed, setting.model.neurons, outputs) for trial in rows.trial]
    return setting.tensor(np.stack(drawn) / pooled[:, None, None])
