"""Compares choices of experts by the loss that is left on texts: criteria's and a plan's with random ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from moe_lab.core.config import require
from moe_lab.core.files import write_whole
from moe_lab.core.saliency import NEED_BEFORE, NEED_TOKENS, UndefinedCriterionError
from moe_lab_hub.folder import Folder, source_of_folder
from moe_lab_hub.plans import Kept, check_plan, kept_by_chance, read_plan
from moe_lab_hub.prune import built, loaded, source_of
from moe_lab_hub.scores import (
    CRITERIA,
    chance_of,
    check_count,
    check_pair,
    checked_name,
    kept_experts,
    scores_of,
    source_groups,
)
from moe_lab_hub.survey import check_finite
from moe_lab_hub.texts import Text, batches_of, check_tokens, losses_by_batch
from moe_lab_hub.tokens import measured_on_disk
from moe_lab_hub.verdicts import Verdict, judged

CHANCE, PLAN = "random", "plan"
WAYS: Mapping[str, str] = {"removed": "rerouted", "silent": "silent"}
"""How experts go, and what `prune_experts` calls that: tokens choose among the others, or the experts answer 0."""


@dataclass(frozen=True)
class Row:
    """A choice of experts that is to be judged.

    Attributes:
      criterion: its name; `PLAN` for a plan's.
      share: of each layer's experts that goes; NaN for a plan's.
      way: one of `WAYS`.
      kept: the experts that stay; None where the criterion is undefined.
      undefined: why it is.
    """

    criterion: str
    share: float
    way: str
    kept: Kept | None
    undefined: str = ""


@dataclass(frozen=True)
class Judged:
    """What a row comes to.

    Attributes:
      row: the choice of experts.
      losses: (N,) of the texts, with its choice.
      chance: (R, N) with the random choices.
      verdict: on all texts.
      topics: the verdicts on the texts of each topic; none where there is one topic.
    """

    row: Row
    losses: Float[np.ndarray, " N"]
    chance: Float[np.ndarray, "R N"]
    verdict: Verdict
    topics: Mapping[str, Verdict]


@dataclass(frozen=True)
class Settings:
    """What is compared.

    Attributes:
      model, before: folders of a model after fine-tuning and before; without the second, criteria that compare with it
        are left out.
      criteria: names in `hub.CRITERIA` but the random one.
      shares: of each layer's experts that go.
      ways: some of `WAYS`.
      draws: number of random choices.
      plan: a file that says which experts stay, to be judged as well.
      seed: of the random choices, and of what resamples the texts.
    """

    model: Path
    before: Path | None = None
    criteria: Sequence[str] = ()
    shares: Sequence[float] = (0.25, 0.5)
    ways: Sequence[str] = ("removed",)
    draws: int = 40
    plan: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require(bool(self.shares) and all(0 < one < 1 for one in self.shares), "shares must lie between 0 and 1",
                shares=list(self.shares))  # fmt: skip
        require(self.draws >= 3, "draws must be at least 3, to tell how much random choices differ", draws=self.draws)
        unknown = [one for one in self.ways if one not in WAYS]
        require(bool(self.ways) and not unknown, f"ways must be among {', '.join(WAYS)}", ways=list(self.ways))
        for one in self.criteria:
            checked_name(one)
            require(one != CHANCE, "random choices are what criteria are compared with, not one of them", criteria=one)
            rule = f"{one} compares with the model before fine-tuning: give before"
            require(one not in NEED_BEFORE or self.before is not None, rule, before=None)


def criteria_for(before: bool, calibrated: bool) -> list[str]:
    """Returns the names of the criteria that there is enough known for."""
    own = [one for one in CRITERIA if one != CHANCE]
    own = own if before else [one for one in own if one not in NEED_BEFORE]
    return own if calibrated else [one for one in own if one not in NEED_TOKENS]


class Comparison:
    """Evaluates a model, whole and pruned in many ways, on texts. What is finished is stored, and not done again.

    Args:
      texts: held-out texts.
      calibration: other texts, for criteria that need tokens.
      folder: where losses are stored.

    Raises:
      ValueError: the model is not supported, the models do not match, or too few experts would be left.
    """

    def __init__(self, settings: Settings, texts: Sequence[Text], calibration: Sequence[Text], folder: Path) -> None:
        self.settings, self.texts, self.calibration = settings, texts, calibration
        self.parts = folder / "parts"
        self._folder = Folder(settings.model)
        self.source = source_of_folder(self._folder)
        layers = self.source.layers
        self._groups = {way: source_groups(self.source, mode) for way, mode in WAYS.items()}
        for share in settings.shares:
            for way in settings.ways:
                check_count(self.source, share, self._groups[way])
        check_finite(layers, self.source.tensors)
        check_tokens([*texts, *calibration], int(self.source.config.get_text_config().vocab_size))
        self.plan = None if settings.plan is None else read_plan(settings.plan, layers)
        if self.plan is not None and "removed" in settings.ways:
            assert settings.plan is not None
            check_plan(self.plan, self.source, self._groups["removed"], settings.plan)

    @cached_property
    def model(self) -> nn.Module:
        """The whole model, in memory once."""
        return loaded(self.settings.model, self.source.family)

    @cached_property
    def bytes(self) -> tuple[int, int]:
        """The bytes of the whole model's numbers, and of the experts of the largest pruned one, which lie beside it."""
        entries = {name: entry.end - entry.begin for name, entry in self._folder.entries.items()}
        of_layers = sum(entries[name] for layer in self.source.layers for name in layer.roles if name in entries)
        return sum(entries.values()), int(of_layers * (1 - min(self.settings.shares)))

    @cached_property
    def rows(self) -> list[Row]:
        """Every criterion's choices, and the plan's; the shards of a model are read layer by layer."""
        settings, layers = self.settings, self.source.layers
        base = None
        if settings.before is not None:
            base = source_of_folder(Folder(settings.before), [layer.name for layer in layers])
            check_pair(base, self.source)
        statistics = chance_of(layers, settings.seed)
        if self.calibration:
            batches = batches_of(self.calibration)
            statistics = measured_on_disk(self.model, self.source.family, layers, batches, settings.seed)
        rows = []
        for criterion in settings.criteria:
            try:
                found = scores_of(criterion, base, self.source, statistics, layers)
                scores = {name: one.scores for name, one in found}
                undefined = ""
            except UndefinedCriterionError as error:
                scores, undefined = {}, str(error)
            for share in settings.shares:
                for way in settings.ways:
                    kept = {name: kept_experts(one, share, self._groups[way]) for name, one in scores.items()}
                    rows.append(Row(criterion, share, way, kept or None, undefined))
        if self.plan is not None:
            rows += [Row(PLAN, float("nan"), way, self.plan) for way in settings.ways]
        return rows

    def chance(self, row: Row, draw: int) -> Kept:
        """Returns a random choice that keeps as many experts of each layer as another."""
        assert row.kept is not None
        return kept_by_chance(self.source.layers, row.kept, self._groups[row.way], draw, self.settings.seed)

    @cached_property
    def needed(self) -> list[tuple[str, Kept]]:
        """Returns the way and the experts of every pruned model that is evaluated, each once."""
        found: dict[str, tuple[str, Kept]] = {}
        for row in self.rows:
            if row.kept is not None:
                for kept in (row.kept, *(self.chance(row, draw) for draw in range(self.settings.draws))):
                    found.setdefault(self._name(row.way, kept), (row.way, kept))
        return list(found.values())

    def left(self) -> list[tuple[str, Kept | None]]:
        """Returns the models that are still to be evaluated, the whole one first."""
        every: list[tuple[str, Kept | None]] = [("whole", None), *self.needed]
        return [one for one in every if not self._path(*one).exists()]

    def run(self) -> Iterator[int]:
        """Evaluates what is left; yields after each batch of texts how many they were."""
        for way, kept in self.left():
            path = self._path(way, kept)
            model = self.model if kept is None else self._pruned(way, kept)
            losses = []
            for some in losses_by_batch(model, self.texts):
                losses.append(some)
                yield len(some)
            del model
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps([float(one) for one in np.concatenate(losses)]).encode())

    def losses(self, way: str = "whole", kept: Kept | None = None) -> Float[np.ndarray, " N"]:
        """Returns the losses of the texts that are stored of a model."""
        return np.array(json.loads(self._path(way, kept).read_text("utf-8")))

    def judged(self, row: Row) -> Judged:
        """Compares the stored losses of a row, whose criterion is defined, with those of the random choices."""
        assert row.kept is not None
        own = self.losses(row.way, row.kept)
        draws = range(self.settings.draws)
        chance = np.stack([self.losses(row.way, self.chance(row, draw)) for draw in draws])
        of_topic = np.array([text.topic for text in self.texts])
        topics = {one: of_topic == one for one in topics_of(self.texts)}
        seed = self.settings.seed
        by_topic = {one: judged(own[those], chance[:, those], seed) for one, those in topics.items()}
        return Judged(row, own, chance, judged(own, chance, seed), by_topic)

    def _pruned(self, way: str, kept: Kept) -> nn.Module:
        inside = source_of(self.model)
        own = {layer.name: kept[known.name] for layer, known in zip(inside.layers, self.source.layers, strict=True)}
        with torch.no_grad():
            return built(self.model, inside, own, WAYS[way], shares=True)

    def _path(self, way: str, kept: Kept | None) -> Path:
        return self.parts / f"{self._name(way, kept)}.json"

    def _name(self, way: str, kept: Kept | None) -> str:
        """The name of what is stored: it depends on the model's files, the texts, the way and the experts."""
        told = [self._digest, way, None if kept is None else {name: list(one) for name, one in kept.items()}]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:24]

    @cached_property
    def _digest(self) -> str:
        """Of the texts, and of the model's files by name, size and time, as hashing a large one takes minutes."""
        files = sorted(path for path in self.settings.model.iterdir() if path.is_file())
        stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        told = [stats, [[list(text.tokens), text.topic] for text in self.texts]]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def topics_of(texts: Sequence[Text]) -> list[str]:
    """Returns the topics of texts, in order of their first appearance; none where only one is named."""
    found = list(dict.fromkeys(text.topic for text in texts))
    return found if len(found) > 1 else []
