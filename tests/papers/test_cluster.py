"""A real Dask cluster does the work, and goes on when one of its workers is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moe_lab_papers import command, ledger
from moe_lab_papers.claim import Claim, Rule
from moe_lab_papers.ranges import near
from tests.papers.conftest import claim, squares

distributed = pytest.importorskip("distributed", reason="the cluster needs dask.distributed")


@pytest.fixture
def cluster(helpers: Path, computed: Callable[[], Counter[str]]) -> Iterator[object]:
    """A scheduler and two workers, each a process of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a busy port or machine is not what is tested here
        made = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0, silence_logs=50
        )
    with made:
        yield made


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> tuple[Claim, ...]:
    """A claim that is measured in ten pieces of half a second."""
    numbers = tuple(range(10))
    one = squares(quick={"numbers": numbers, "trials": 3, "wait": 0.5}, seconds=(5.0, 5.0))
    made = tuple(
        claim(f"chen2022/squares/{number}", one, Rule(agrees=near(number**2, 0.5)), number) for number in numbers
    )
    monkeypatch.setattr(ledger, "claims", lambda: made)
    return made


@pytest.mark.slow
def test_a_killed_worker_changes_no_result_and_loses_nothing_finished(
    cluster: object, slow: tuple[Claim, ...], tmp_path: Path, computed: Callable[[], Counter[str]]
) -> None:
    alone = command.run(out=tmp_path / "alone", jobs=1, device="cpu")
    before = computed()
    workers: dict[str, object] = cluster.scheduler_info["workers"]  # type: ignore[attr-defined]
    victim = next(iter(cluster.workers.values())).pid  # type: ignore[attr-defined]
    finished: list[str] = []

    def kill_in_the_middle() -> None:
        while len(finished) < 3:
            finished[:] = [path.name for path in (tmp_path / "shared" / "measured").glob("*.nc")]
            time.sleep(0.02)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_in_the_middle, daemon=True)  # or a failure would wait for it
    killer.start()
    together = command.run(out=tmp_path / "shared", cluster=cluster.scheduler_address, device="cpu")  # type: ignore[attr-defined]
    killer.join(timeout=60)
    assert len(workers) == 2 and 3 <= len(finished) < 10, "the kill must fall in the middle"
    results = [[claim["result"] for claim in claims] for claims in (together, alone)]
    assert [one["trials"] for one in results[0]] == [one["trials"] for one in results[1]]
    assert [one["verdict"] for one in results[0]] == ["agrees"] * 10
    repeated = computed() - before - Counter(dict.fromkeys(map(str, range(10)), 1))
    assert repeated.total() <= 1, "only what the killed worker had in hand is measured again"
    assert json.loads((tmp_path / "shared" / "results.json").read_text())["claims"] == together
