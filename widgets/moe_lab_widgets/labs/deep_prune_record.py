"""One record of the deep pruning Lab: a pre-training, a fine-tuning, or what pruning the tuned model gives."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from moe_lab.core.errors import InputError
from moe_lab.core.interrupts import uninterrupted
from moe_lab.core.training import Snapshot, collect
from moe_lab.vision.deep import (
    MODES,
    PRE_TRAINING,
    DigitRun,
    PruningTable,
    Training,
    favourites,
    pre_train,
    pretrained,
    pruning_costs,
)
from moe_lab.vision.vmoe import VMoE, VMoEConfig

if TYPE_CHECKING:
    import xarray

Stage = Literal["pre-training", "fine-tuning", "pruning"]
BETWEEN = {"pre-training": 10, "fine-tuning": 5}
"""Steps from one record to the next: a fifth of a second, so that a slider is answered soon."""
TEST_EVERY = {"pre-training": 5, "fine-tuning": 10}
"""Records from one test to the next."""
TILES = 6
"""Patches of each expert."""
CELLS = 2
"""Cells of the table for each record."""

Tiles = tuple[tuple[bytes, ...], ...]
"""Of every block and expert: the patches as grey values, one after the other; empty where it receives none."""


@dataclass(frozen=True)
class Plan:
    """The trainings of a run: a pre-training, which is the same for all seeds, and a fine-tuning after it."""

    before: DigitRun
    tuning: DigitRun

    def code(self) -> str:
        """Returns the Python expression for the fine-tuned model."""
        return f"fine_tune({self.start_code()}, {self.tuning.code()})"

    def start_code(self) -> str:
        """Returns the Python expression for the pre-trained model."""
        changed = {
            name: getattr(self.before, name)
            for name in ("steps", "batch")
            if getattr(self.before, name) != getattr(PRE_TRAINING, name)
        }
        words = ", ".join(f"{name}={value}" for name, value in changed.items())
        return f"pretrained(PRE_TRAINING.replace({words}))" if words else "pretrained()"


@dataclass(frozen=True)
class Costs:
    """What one block costs after pruning; axes are (mode, experts pruned).

    Attributes:
      memory, operations: shares of the whole block's.
      milliseconds: of an image, the fastest of some measurements; NaN where not yet measured.
    """

    memory: NDArray[np.float64]
    operations: NDArray[np.float64]
    milliseconds: NDArray[np.float64]


@dataclass(frozen=True)
class Frame:
    """One record of the Lab.

    Attributes:
      run: what is trained.
      stage: what is done.
      step: of the stage's training.
      shot: the latest Snapshot of the stage's training; None before there is one.
      tested: (m, 2) steps of the stage and the test accuracy there.
      tiles: the patches that each expert receives with the largest gates, once they are known.
      table: what `PruningTable.data` holds, as far as it is computed; None before.
      costs: of one block; None before there is a table.
    """

    run: Plan
    stage: Stage
    step: int
    shot: Snapshot | None = None
    tested: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros((0, 2)))
    tiles: Tiles | None = None
    table: xarray.Dataset | None = None
    costs: Costs | None = None

    @property
    def total(self) -> int:
        """Steps of the stage's training."""
        return (self.run.before if self.stage == "pre-training" else self.run.tuning).steps

    @property
    def accuracy(self) -> float:
        """The latest test accuracy of the unpruned model, NaN if there is none."""
        return float(self.tested[-1, 1]) if len(self.tested) else np.nan

    @property
    def changes(self) -> NDArray[np.float64]:
        """(block, expert) Delta, 0 before the fine-tuning."""
        if self.shot is None or self.stage == "pre-training":
            model = self.run.tuning.model
            return np.zeros((len(model.layers), model.num_experts))
        return np.asarray(self.shot["norm_change"][0])

    @property
    def received(self) -> NDArray[np.float64] | None:
        """(block, expert) the share of the tokens that each expert receives after fine-tuning."""
        return None if self.table is None else np.asarray(self.table["received"])

    def kept(self, criterion: str, pruned: int) -> NDArray[np.bool_] | None:
        """Returns (block, expert) which experts stay; None while nothing is pruned."""
        if self.table is None:
            return None
        ranks = self.table["rank"].values[self.table["criterion"].values.tolist().index(criterion)]
        return np.asarray(ranks < ranks.shape[1] - pruned)

    def curves(self, mode: str) -> dict[str, NDArray[np.float64]]:
        """Returns the accuracy against the experts pruned, by criterion; empty while nothing is pruned."""
        if self.table is None:
            return {}
        values = self.table["accuracy"].values[:, MODES.index(mode)]  # (criterion, pruned)
        return dict(zip(self.table["criterion"].values.tolist(), values, strict=True))

    def left(self, criterion: str, mode: str, pruned: int) -> float:
        """Returns the accuracy after pruning, or of the whole model in training; NaN if unknown."""
        curves = self.curves(mode)
        return float(curves[criterion][pruned]) if curves else self.accuracy


def pre_training(plan: Plan) -> Iterator[Frame]:
    """Yields the records of the pre-training; none if its model is in the cache."""
    return _stage(plan, "pre-training", pre_train(_paced(plan.before, "pre-training")))


def frames(plan: Plan, before: Iterator[Frame], costs_of: Iterator[Costs]) -> Iterator[Frame]:
    """Yields the records of a run: of the pre-training, of the fine-tuning, of the table.

    Args:
      before: what is left of `pre_training(plan)`, which may have begun in an earlier run.
      costs_of: yields what is known of a block's costs, as `measure` does.

    Raises:
      RuntimeError: the cache cannot be written to, or the pre-training diverged.
      ValueError: the pre-trained model in the cache is damaged, or a criterion gives no order of experts.
    """
    yield Frame(plan, "fine-tuning", 0)  # at once: what follows takes a moment
    for frame in uninterrupted(before):  # a later run goes on with it
        yield dataclasses.replace(frame, run=plan)
    start, run = pretrained(plan.before), plan.tuning
    training = Training(_paced(run, "fine-tuning"), start)
    validation = run.validation
    tiles = tiles_of(training.model, validation.images)
    for frame in _stage(plan, "fine-tuning", training.snapshots()):
        last = dataclasses.replace(frame, tiles=tiles)
        yield last
    assert last.shot is not None
    if last.shot.diverged.any():
        return
    table = PruningTable(start, training.model, run.test, validation, seed=run.seed)
    tiles = tiles_of(training.model, validation.images)
    costs = next(costs_of)
    for number, _ in enumerate(table.cells(), 1):
        if number % CELLS == 0:
            found = table.data.copy(deep=True)
            yield dataclasses.replace(last, stage="pruning", tiles=tiles, table=found, costs=costs)
    for costs in costs_of:
        yield dataclasses.replace(last, stage="pruning", tiles=tiles, table=found, costs=costs)


def _paced(run: DigitRun, stage: str) -> DigitRun:
    return run.replace(record_every=BETWEEN[stage], test_every=TEST_EVERY[stage])


def _stage(plan: Plan, stage: Stage, shots: Iterator[Snapshot]) -> Iterator[Frame]:
    tested: list[tuple[float, float]] = []
    for shot in shots:
        accuracy = float(shot["test_accuracy"][0])
        if np.isfinite(accuracy):
            tested.append((shot.step, accuracy))
        yield Frame(plan, stage, shot.step, shot, np.array(tested).reshape(-1, 2))


def tiles_of(model: Any, images: Any) -> Tiles:
    """Returns the patches that each expert receives with the largest gates."""
    found = []
    for patches, gates in favourites(model, images, TILES).values():
        grey = np.rint(255 * np.nan_to_num((patches[..., 0] + 1) / 2)).astype(np.uint8)
        found.append(tuple(own[weights > 0].tobytes() for own, weights in zip(grey, gates, strict=True)))
    return tuple(found)


_known: dict[tuple[VMoEConfig, int], Costs] = {}
_one_at_a_time = threading.Lock()


def measure(layer: VMoEConfig, repeats: int) -> Iterator[Costs]:
    """Counts the costs of a block, then measures its time, whole and pruned in both ways; once per process.

    Yields:
      What is known, after every measurement.
    """
    key = (layer, repeats)
    if key in _known:
        yield _known[key]
        return
    kept = range(layer.num_experts, layer.num_selected_experts - 1, -1)
    counted = pruning_costs(layer, kept, MODES, repeats=0)
    memory, operations = (np.asarray(counted[name] / counted[name][0, 0]) for name in ("bytes", "operations"))
    times = np.full(memory.shape, np.nan)
    yield Costs(memory, operations, times.copy())
    whole = VMoE(layer)
    for left in (*kept, layer.num_experts):  # the whole block at last again
        for row, mode in enumerate(MODES):
            with _one_at_a_time:
                taken = float(pruning_costs(layer, (left,), (mode,), repeats, whole=whole)["milliseconds"].min())
            rows = slice(None) if left == layer.num_experts else row  # which is the same in both ways
            times[rows, layer.num_experts - left] = np.fmin(times[rows, layer.num_experts - left], taken)
            yield Costs(memory, operations, times.copy())
    yield _known.setdefault(key, Costs(memory, operations, times))


def dataset(records: Sequence[Frame], code: str) -> xarray.Dataset:
    """Returns the fine-tuning, the accuracies after pruning in every way, and the costs of a block.

    Raises:
      ValueError: the fine-tuning has not begun.
    """
    shots = {id(one.shot): one.shot for one in records if one.shot is not None and one.stage != "pre-training"}
    if not shots:
        raise InputError("there is nothing to save yet: the fine-tuning has not begun")
    tuning, last = collect(shots.values()), records[-1]
    if last.table is None or last.costs is None:
        return tuning
    axes, costs = ("mode", "pruned"), last.costs
    made: dict[str, Any] = {
        "memory": (axes, costs.memory, _about("memory of one block of D = 256, over the whole one's")),
        "operations": (axes, costs.operations, _about("its operations, over the whole one's")),
        "milliseconds": (axes, costs.milliseconds, _about("its CPU time of an image", "ms")),
    }
    table = last.table.rename(accuracy="pruned_accuracy", received="received_after")
    return tuning.merge(table).assign(made).assign_attrs(tuning.attrs, code=code)


def _about(meaning: str, unit: str = "") -> dict[str, str]:
    return {"units": unit, "long_name": meaning}
