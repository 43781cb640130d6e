"""No step, rule or measure of a learner reads a number: each can be captured as a graph, or recorded for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.training import Learner, Training
from moe_lab.core.trials import drawn, stream
from moe_lab.patch_routing import DigitTask, PatternTask
from moe_lab.pruning import TokenTask
from moe_lab.recovery import MixtureTask, gridlock
from moe_lab.specialization import ClusterTask
from tests.second_device import WAITS
from tests.trainings.cases import Case, each
from tests.trainings.test_contract import MEMBERS, TRIALS

BY_LEARNERS = {name: case for name, case in MEMBERS.items() if case.train is not gridlock.train}
"""EM of gridlock2019 has no learner: its iterations end one another by their result."""
PARTS = ("step", "end_trials", "online", "measure")


class Reads(TorchDispatchMode):
    """Counts operations whose result is a number, or has a shape that depends on numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        places = args[1] if name.startswith("index") and len(args) > 1 else ()
        chooses = isinstance(places, list | tuple) and any(
            isinstance(place, torch.Tensor) and place.dtype == torch.bool for place in places
        )
        if name in WAITS or chooses:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


def watched(kind: type[Learner], name: str, calls: Counter[str], reads: Counter[str]) -> Callable[..., Any]:
    method = getattr(kind, name)

    def call(learner: Learner, *given: Any) -> Any:
        with Reads() as mode:
            result = method(learner, *given)
        calls[name] += 1
        reads.update({f"{name}: {what}": count for what, count in mode.found.items()})
        return result

    return call


@each(BY_LEARNERS)
def test_a_learner_reads_no_number_on_an_accelerator(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, reads = Counter[str](), Counter[str]()
    begin, watching = Training.snapshots, set[type[Learner]]()

    def snapshots(training: Any) -> Any:
        for kind in {type(learner) for learner in training.learners} - watching:
            watching.add(kind)
            for name in PARTS:
                monkeypatch.setattr(kind, name, watched(kind, name, calls, reads))
        return begin(training)

    monkeypatch.setattr(Training, "snapshots", snapshots)
    with as_on_accelerator():
        case.snapshots(trials=TRIALS)
    assert not reads
    assert calls["step"] and calls["measure"] and calls["online"]


@pytest.mark.parametrize(
    "task",
    [ClusterTask(), ClusterTask(imbalance=2.0), MixtureTask(first_share=0.3), MixtureTask(gating="orthogonal")],
    ids=["clusters", "uneven clusters", "two inputs", "orthogonal gates"],
)
def test_samples_are_made_of_raw_numbers_without_a_look_at_them(task: ClusterTask | MixtureTask) -> None:
    raw = drawn(task.draws(40, "train"), [2, 5], 7)
    with Reads() as mode:
        made = task.made(raw)
    assert not mode.found
    wanted = task.sample(40, trials=[2, 5], seed=7, dtype=torch.float64)
    compared = pytree.tree_map(torch.equal, *(pytree.tree_leaves(vars_of(one)) for one in (made, wanted)))
    assert compared and all(compared)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(
    "task",
    [PatternTask(), PatternTask(spurious=0.7, classes=4, distractors=2, noise=0), DigitTask()],
    ids=["patterns", "spurious patterns", "digits"],
)
def test_patches_are_made_of_raw_numbers_without_a_look_at_them(task: PatternTask | DigitTask, split: Any) -> None:
    raw = drawn(task.draws(40, split), [2, 5], 7)
    with Reads() as mode:
        made = task.made(raw, split)
    assert not mode.found
    wanted = task.sample(40, trials=[2, 5], seed=7, split=split, dtype=torch.float64)
    torch.testing.assert_close(made.patches(), wanted.patches(), rtol=1e-12, atol=1e-14)
    assert torch.equal(made.signal, wanted.signal) and torch.equal(made.labels, wanted.labels)
    assert torch.equal(made.roles, wanted.roles) and torch.equal(made.sides, wanted.sides)


@pytest.mark.parametrize("zipf", [0.0, 1.2])
def test_tokens_are_made_of_raw_numbers_without_a_look_at_them(zipf: float) -> None:
    task = TokenTask(zipf=zipf)
    raw = torch.stack([torch.from_numpy(stream(7, trial, "train/tokens").random((40, 101))) for trial in (2, 5)])
    with Reads() as mode:
        made = task.made(raw)
    assert not mode.found
    assert torch.equal(made.tokens, task.sample(40, trials=[2, 5], seed=7).tokens)


def vars_of(one: object) -> object:
    """The tensors of a dataclass, and of those in it."""
    return {name: vars_of(part) for name, part in vars(one).items()} if is_dataclass(one) else one


def test_what_reads_is_found() -> None:
    flags = torch.tensor([True, False])
    with Reads() as mode:
        flags.any().item()
        torch.nn.functional.one_hot(torch.tensor([0, 1]), 2)
        flags[flags]
    assert mode.found["_local_scalar_dense"] > 1 and mode.found["index"] == 1
