"""The study that needs a cluster: a real scheduler and workers, one of which is killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab.core.workers import on_cluster
from moe_lab_papers.pmoe2023.study import figure5_study
from tests.helpers.effort import only_thorough

distributed = pytest.importorskip("distributed", reason="the cluster needs dask.distributed")

SMALL: dict[str, Any] = {
    "pairs": ((1, 0), (4, 9)),
    "patches_per_expert": (1, 2, 3, 4),
    "samples": (20, 30),
    "trials": 4,
}
"""Sixteen cells in eight batches: cells of the same l are trained together."""


@pytest.fixture
def mnist(shared_data: Path) -> Path:
    return shared_data / "mnist-t10k"


@only_thorough("takes a minute")
def test_a_killed_worker_loses_no_finished_cell_and_changes_none(mnist: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    finished: list[Path] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a busy port or machine is not what is tested here
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0, silence_logs=50
        )
    with cluster:
        victim = next(iter(cluster.workers.values())).pid

        def kill_in_the_middle() -> None:
            while len(finished) < 2:
                finished[:] = store.glob("*.npz")
                time.sleep(0.02)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill_in_the_middle, daemon=True)  # or a failure would wait for it
        killer.start()
        with on_cluster(cluster.scheduler_address), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = figure5_study(mnist, **SMALL, jobs=None, store=store)
        killer.join(timeout=60)
    assert 2 <= len(finished) < 16, "the kill must fall in the middle"
    alone = figure5_study(mnist, **SMALL, jobs=1)
    assert found["pair"].values.tolist() == ["1-0", "4-9"] and found["test_accuracy"].shape == (2, 4, 2, 4)
    np.testing.assert_allclose(found["test_accuracy"], alone["test_accuracy"], atol=1e-9)
    assert len(list(store.glob("*.npz"))) == 16


def test_the_pairs_are_checked_before_anything_runs(mnist: Path) -> None:
    with pytest.raises(ValueError, match="pairs must be a sequence of sequences of whole numbers: got pairs=5"):
        figure5_study(mnist, pairs=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"digits \(o\) must be two to nine different digits"):
        figure5_study(mnist, pairs=((1, 0), (3, 3)))
