"""A trial that is lost says so, shows nothing more and leaves the others alone, in every room.

Lost are trials whose training samples are no numbers; which weights and losses end a trial, rooms test. EM alone goes
on with lost trials among the others.
"""

from __future__ import annotations

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot
from moe_lab.patch_routing import PatternTask
from moe_lab.pruning.data import SampleStream
from moe_lab.recovery import MixtureTask, gridlock
from moe_lab.recovery.landscape import descend
from moe_lab.specialization import ClusterTask
from moe_lab.vision import QuadrantTask, TurnTask
from tests.trainings.cases import (
    FEW_OF_IMAGES,
    OF_CLUSTERS,
    OF_LOSSES,
    OF_MIXTURES,
    OF_PATCHES,
    OF_ROUTINGS,
    OF_TOKENS,
    PATCH_MODELS,
    Case,
    each,
)

NUMBERS = {
    **{PatternTask: "bank", ClusterTask: "noise", SampleStream: "labels", MixtureTask: "y"},
    **{QuadrantTask: "images", TurnTask: "images"},
}
"""What draws samples, and a part of them, (trial, ...), without which nothing can be learned."""
MEMBERS = {
    **{f"{name}, patterns": OF_PATCHES[f"{name}, patterns"] for name in PATCH_MODELS},
    **OF_ROUTINGS,
    **OF_CLUSTERS,
    **OF_TOKENS,
    **{name: OF_MIXTURES[name] for name in ("joint, identity", "joint, gradient, identity")},
    **{name: case for name, case in OF_LOSSES.items() if "population" not in name},
    **FEW_OF_IMAGES,
}


def lose(monkeypatch: pytest.MonkeyPatch, rows: list[int]) -> None:
    """Makes the training samples of some trials no numbers."""
    for kind, part in NUMBERS.items():

        def sample(*given, draw=kind.sample, part=part, **how):
            drawn = draw(*given, **how)
            if how.get("split") != "test":
                getattr(drawn, part)[rows] = np.nan
            return drawn

        monkeypatch.setattr(kind, "sample", sample)


def measured(snapshot: Snapshot) -> list[str]:
    return [name for name in snapshot.values if not snapshot.measures[name].constant]


@each(MEMBERS)
def test_one_of_three(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = case.snapshots(trials=3)
    lose(monkeypatch, [1])
    found = case.snapshots(trials=3)
    assert found[-1].diverged.tolist() == [False, True, False] and found[-1].finished.all()
    assert found[-1].steps[1] < found[-1].steps[0] or case.train is gridlock.train, "it is counted no more"
    for snapshot, wanted in zip(found, whole, strict=True):
        assert snapshot.finished[[0, 2]].tolist() == wanted.finished[[0, 2]].tolist()
        for name in measured(snapshot):
            assert np.isnan(snapshot[name][1]).all() or not snapshot.diverged[1], name
            np.testing.assert_allclose(
                snapshot[name][[0, 2]], wanted[name][[0, 2]], rtol=1e-9, atol=1e-12, err_msg=name
            )


@each(MEMBERS)
def test_a_run_of_lost_trials_ends(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    how = {"trials": 2} | ({} if case.train in (gridlock.train, descend) else {"measure": "last"})
    full = case.snapshots(**how)[-1]
    lose(monkeypatch, [0, 1])
    last = case.snapshots(**how)[-1]
    assert last.diverged.all() and last.finished.all()
    assert last.step < full.step or case.train is gridlock.train, "it need not go on"
    assert measured(full) and all(np.isnan(last[name]).all() for name in measured(last))
