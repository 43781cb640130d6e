"""Training of experts whose patches are known beforehand: behind routers trained first, or as a CNN."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding

from moe_lab.core.graphs import on_accelerator
from moe_lab.core.routing import one_hot, sorted_patches
from moe_lab.patch_routing import initialization
from moe_lab.patch_routing.batch import Rows
from moe_lab.patch_routing.data import ROLES, PatchSamples
from moe_lab.patch_routing.fixed import FixedRules, fixed_forward, fixed_step, router_direction, train_routers
from moe_lab.patch_routing.learner import PatchLearner, Setting, initial_outputs, numbers_at_once
from moe_lab.patch_routing.loss import Loss
from moe_lab.patch_routing.measures import RoutingCounts, alignment
from moe_lab.patch_routing.model import SeparateMoE

NUMBERS_WORTH_A_PART = {"cpu": 2**17, "cuda": 2**24, "mps": 2**22}  # of padding, which cost as much as its launches


class _FixedLearner(PatchLearner):
    """Experts whose patches are known beforehand; weights are (T, k, m/k, d).

    `tables` contain, for each source (a trained router, or a trial's data), the patches of every sample and expert as
    rows of the bank; `source` is the index of the table that a row of the batch uses. Rows that keep fewer patches are
    padded to the most of their part, so that they should come in the order of l.
    """

    rules: FixedRules
    tables: dict[str, Int[Tensor, "sources N k l"]]
    source: Int[Tensor, " T"]

    def _initialize(self, rows: Rows, experts: int) -> None:
        setting, d, per_expert = self.setting, self.d, rows.patches_per_expert
        neurons, most = setting.model.neurons, int(per_expert.max())
        initial = initialization.hidden_weights(setting.model, rows.trial.tolist(), setting.seed, d)
        self.weights = setting.tensor(initial).unflatten(1, (experts, neurons // experts))
        self.per_expert = per_expert  # l of each row, on the host
        self._padded: dict[tuple[int, int], tuple[int, FixedRules]] = {}
        self.rules = FixedRules(
            outputs=initial_outputs(rows, setting, per_expert, self.n),
            valid=None
            if (per_expert == most).all()
            else setting.tensor((np.arange(most) < per_expert[:, None]).astype(float)),
            learning_rate=setting.tensor(rows.learning_rate)[:, None, None],
        )

    @property
    def experts(self) -> int:
        return self.tables["train"].shape[2]

    @property
    def numbers_per_sample(self) -> int:
        return self.tables["train"].shape[3] * self._numbers_of_patch

    @property
    def _numbers_of_patch(self) -> int:
        """Numbers that one patch of every expert needs."""
        return self.experts * (self.d + 2 * self.weights.shape[2])

    @property
    def _samples_at_once(self) -> int:
        """On a CPU as many as one row has room for, as `parts` divides the rows."""
        if on_accelerator(self.setting.device):
            return super()._samples_at_once
        return max(self.setting.classes, numbers_at_once(self.setting.device) // self.numbers_per_sample)

    def _divided(self, batch: int) -> list[slice]:
        """Cuts where the padding of rows with a smaller l would cost more than a part of its own."""
        of_patch = batch * self._numbers_of_patch
        worth = NUMBERS_WORTH_A_PART[self.setting.device.type] / of_patch
        cuts, padded = [0], 0
        for row in range(1, len(self.per_expert)):
            padded += max(self.per_expert[row] - self.per_expert[row - 1], 0) * (row - cuts[-1])
            if padded > worth:
                cuts.append(row)
                padded = 0
        alike = [slice(begin, end) for begin, end in pairwise([*cuts, len(self.per_expert)])]
        return [part for rows in alike for part in self._in_cache(rows, of_patch * int(self.per_expert[rows].max()))]

    def _rules_of(self, rows: slice) -> tuple[int, FixedRules]:
        """Returns the most patches that one of some rows keeps, and their rules, padded where others keep fewer."""
        part = rows.start, rows.stop
        if part not in self._padded:
            per_expert, rules = self.per_expert[rows], self.rules.of(rows)
            most = int(per_expert.max())
            valid = None if rules.valid is None or (per_expert == most).all() else rules.valid[:, :most]
            self._padded[part] = most, rules._replace(valid=valid)
        return self._padded[part]

    def _fetch(self, data: PatchSamples, table: Int[Tensor, "T b k l"]) -> Float[Tensor, "T k l b d"]:
        return embedding(table.permute(0, 2, 3, 1).contiguous(), data.flat)

    def _step(self, rows: slice, samples: Tensor, *drawn: Tensor) -> tuple[Tensor, Loss]:
        patches, rules = self._chosen(rows, samples)
        return fixed_step(self.weights[rows], patches, self.train.labels[self.group[rows, None], samples], rules)

    def _chosen(self, rows: slice, samples: Int[Tensor, "T B"]) -> tuple[Float[Tensor, "T k l B d"], FixedRules]:
        """Returns the patches of some training samples, and the rules of their rows."""
        most, rules = self._rules_of(rows)
        table = self.tables["train"]
        at = (self.source[rows, None] * table.shape[1] + samples).flatten()
        places = table.flatten(0, 1).flatten(1).index_select(0, at)  # much faster than indexing of a slice
        return self._fetch(self.train, places.view(*samples.shape, *table.shape[2:])[..., :most]), rules

    def _outputs_of(self, samples: Tensor) -> Tensor:
        parts = [(self.weights[rows], *self._chosen(rows, samples[rows])) for rows in self.parts(samples.shape[1])]
        return torch.cat([fixed_forward(*part).outputs for part in parts])

    def _outputs(self, data: PatchSamples, begin: int, end: int, counts: RoutingCounts | None) -> Tensor:
        table, found = self.tables["test" if data is self.test else "train"], []
        for rows in self.parts(end - begin):
            most, rules = self._rules_of(rows)
            patches = self._fetch(data, table[self.source[rows], begin:end, :, :most])
            found.append(fixed_forward(self.weights[rows], patches, rules).outputs)
        return torch.cat(found)

    def _keep(self, rows: np.ndarray, there: Tensor) -> None:
        super()._keep(rows, there)
        self.per_expert, self.source, self._padded = self.per_expert[rows], self.source[there], {}


class CNNLearner(_FixedLearner):
    """One expert, all patches, gate 1 (eq. 5)."""

    def __init__(self, rows: Rows, setting: Setting, train: PatchSamples, test: PatchSamples) -> None:
        super().__init__(rows, setting, train, test)
        self.tables = {"train": train.rows[:, :, None], "test": test.rows[:, :, None]}
        self.source = self.group
        self._initialize(rows, 1)

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        return {}

    def examples(self) -> dict[str, Tensor]:
        return {}


class SeparateLearner(_FixedLearner):
    """Routers trained in closed form, then frozen; each expert receives the l patches that its router scores highest.

    Rows with the same trial and N have the same routers, so the routing is computed once for each such source, for the
    largest l: the first l patches in the order of the routing values are J_s for every smaller l.
    """

    def __init__(self, rows: Rows, setting: Setting, train: PatchSamples, test: PatchSamples) -> None:
        super().__init__(rows, setting, train, test)
        self.patches_per_expert = setting.tensor(rows.patches_per_expert)
        pairs, source = np.unique(np.stack((rows.group, rows.samples), axis=1), axis=0, return_inverse=True)
        self.source = setting.tensor(source.reshape(-1))
        trials = {int(group): int(trial) for group, trial in zip(rows.group, rows.trial, strict=True)}
        self.routers = self._trained([(trials[int(group)], int(group), int(count)) for group, count in pairs])
        most, groups = int(rows.patches_per_expert.max()), setting.tensor(pairs[:, 0])
        self.tables = {}
        for name, data in (("train", train), ("test", test)):
            order = self._order(data, pairs[:, 0].tolist())
            places = order[..., :most]
            chosen = data.rows[groups].unsqueeze(2).expand(-1, -1, setting.classes, -1)
            self.tables[name] = chosen.gather(-1, places)
            if name == "test":
                self.places = places
                self.rank = (order == data.signal[groups][..., None, None]).to(torch.int8).argmax(-1)
                roles = data.roles[groups].unsqueeze(2).expand(-1, -1, setting.classes, -1).gather(-1, places)
                kinds = one_hot(roles, len(ROLES)).to(setting.dtype)
                self.load = kinds.mean(1).cumsum(2)  # (sources, k, l, roles), for every l at once
        self._initialize(rows, setting.classes)

    def _trained(self, sources: Sequence[tuple[int, int, int]]) -> Float[Tensor, "sources c d"]:
        """The routers of each (trial, group, N) after `router_epochs` epochs (closed form)."""
        setting, model = self.setting, self.setting.model
        assert isinstance(model, SeparateMoE)
        n, d = self.n, self.d
        routers = []
        for trial, group, samples in sources:
            count = model.router_samples or samples
            sums = embedding(self.train.rows[group, :count], self.train.flat).sum(1)[None]
            labels = self.train.labels[group : group + 1, :count]
            direction = router_direction(sums, labels, setting.classes)
            initial = setting.tensor(initialization.routers(model, [trial], setting.seed, setting.classes, n, d))
            trained = train_routers(
                initial,
                direction,
                epochs=model.router_epochs,
                samples=count,
                batch_size=model.batch_size,
                learning_rate=initialization.router_rate(model, n),
            )
            routers.append(trained[0])
        return torch.stack(routers)

    def _order(self, data: PatchSamples, groups: Sequence[int]) -> Int[Tensor, "sources N k n"]:
        """Returns the positions of the patches of every sample by descending routing value, for each source."""
        found = []
        for source, group in enumerate(groups):
            bank = data.bank[0 if len(data.bank) == 1 else group]
            values = bank @ self.routers[source].mT  # every patch of the bank once
            scores = embedding(data.index[group], values).mT  # (N, k, n)
            found.append(sorted_patches(scores))
        return torch.stack(found)

    def _keep(self, rows: np.ndarray, there: Tensor) -> None:
        super()._keep(rows, there)
        self.patches_per_expert = self.patches_per_expert[there]

    def routing(self, counts: RoutingCounts) -> dict[str, Tensor]:
        classes = self.setting.classes
        received = (self.rank[self.source] < self.patches_per_expert[:, None, None]).to(self.setting.dtype)  # (T, N, k)
        member = one_hot(self.test.labels[self.group], classes).to(self.setting.dtype)
        expert_coverage = received.mT @ member / member.sum(1, keepdim=True)
        present = torch.ones(len(self.group), classes, dtype=torch.bool, device=self.setting.device)
        routers = self.routers[self.source]
        return {
            "expert_coverage": expert_coverage,
            "coverage": expert_coverage.amax(1),
            "gate_matrix": expert_coverage,  # gates are 1 where o is received
            "expert_load": self.load[self.source, :, self.patches_per_expert - 1],
            "alignment": alignment(routers, self.setting.signals[self.group], present),
        }

    def examples(self) -> dict[str, Tensor]:
        classes, n = self.setting.classes, self.n
        places = self.places[self.source, :classes]  # (T, c, k, l)
        counted = torch.arange(places.shape[-1], device=places.device) < self.patches_per_expert[:, None, None, None]
        empty = torch.zeros(*places.shape[:3], n, device=places.device, dtype=torch.bool)
        return {"example_kept": empty.scatter(-1, places, counted.expand_as(places))}
