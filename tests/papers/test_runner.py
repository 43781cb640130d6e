"""Every piece is measured once, whatever happens to the others and to the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers.claim import Measurement, Needs
from moe_lab_papers.runner import Done, Order, joined, measured, missing, pieces
from tests.helpers.effort import one_in
from tests.papers.conftest import HELPERS, squares


def order(folder: Path, jobs: int | None = 1, **changes: object) -> Order:
    return Order(**{"budget": "quick", "seed": 7, "device": "cpu", "folder": folder, "jobs": jobs, **changes})  # type: ignore[arg-type]


def test_a_measurement_is_cut_along_one_argument_and_joined_again(helpers: Path, tmp_path: Path) -> None:
    one = squares()
    how = order(tmp_path)
    plan = pieces(one, how)
    assert [piece.arguments["numbers"] for piece in plan] == [(1,), (2,), (3,)]
    assert [piece.seconds for piece in plan] == [1.0, 1.0, 1.0] and [piece.trials for piece in plan] == [3, 3, 3]
    data = joined(one, list(measured(how, plan)))
    assert data["square"].dims == ("number", "trial")
    np.testing.assert_allclose(data["square"], [[8, 8.1, 8.2], [11, 11.1, 11.2], [16, 16.1, 16.2]])
    assert data["rest"].dims == ()


def test_the_full_budget_has_its_own_arguments(tmp_path: Path) -> None:
    plan = pieces(squares(split=None), order(tmp_path, budget="full"))
    assert [dict(piece.arguments) for piece in plan] == [
        {"numbers": (1, 2, 3, 4), "trials": 5, "seed": 7, "device": "cpu"}
    ]
    assert plan[0].call == "measure_runs.squares(numbers=(1, 2, 3, 4), trials=5, seed=7, device='cpu')"


def test_what_takes_no_seed_and_no_device_gets_none(tmp_path: Path) -> None:
    plan = pieces(squares(split=None, seeded=False, device=False), order(tmp_path))
    assert set(plan[0].arguments) == {"numbers", "trials"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_kept_is_not_measured_again_and_another_seed_is(
    helpers: Path, tmp_path: Path, computed: Callable[[], Counter[str]], jobs: int
) -> None:
    kept = tmp_path / "kept"
    first = list(measured(order(kept, jobs), pieces(squares(), order(kept))))
    assert sorted(computed()) == ["1", "2", "3"] and all(one.fresh for one in first)
    again = list(measured(order(kept, jobs), pieces(squares(), order(kept))))
    assert computed().total() == 3 and not any(one.fresh for one in again)
    other = order(kept, jobs, seed=8)
    list(measured(other, pieces(squares(), other)))
    assert computed().total() == 6


def test_a_damaged_file_is_measured_again(helpers: Path, tmp_path: Path, computed: Callable[[], Counter[str]]) -> None:
    kept = tmp_path / "kept"
    plan = pieces(squares(), order(kept))
    list(measured(order(kept), plan))
    path = plan[1].path(kept)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="is not a whole result"):
        again = list(measured(order(kept), plan))
    assert computed()["2"] == 2 and computed().total() == 4
    assert all(one.data is not None for one in again)


def test_a_piece_of_another_call_is_not_taken_for_this_one(helpers: Path, tmp_path: Path) -> None:
    one, other = pieces(squares(), order(tmp_path))[:2]
    list(measured(order(tmp_path), [one]))
    one.path(tmp_path).rename(other.path(tmp_path))
    with pytest.warns(UserWarning, match="made by another call"):
        (done,) = measured(order(tmp_path), [other])
    assert done.fresh and done.data is not None and float(done.data["square"][0, 0]) == 4 + 7


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_that_breaks_off_says_why_and_hurts_no_other(helpers: Path, tmp_path: Path, jobs: int) -> None:
    bad = Measurement(name="chen2022/bad", function="measure_runs:broken", quick={"trials": 2}, full={}, seconds=(1, 1))
    how = order(tmp_path, jobs)
    done = list(measured(how, [*pieces(bad, how), *pieces(squares(), how)]))
    failed = [one for one in done if one.data is None]
    assert [one.failure for one in failed] == ["ArithmeticError: 2 trials of seed 7 went wrong"]
    assert len(done) == 4


def test_the_longest_is_begun_first(helpers: Path, tmp_path: Path) -> None:
    short, long = squares("chen2022/short"), squares("chen2022/long", seconds=(30.0, 80.0))
    how = order(tmp_path)
    names = [one.piece.measurement for one in measured(how, [*pieces(short, how), *pieces(long, how)])]
    assert names == ["chen2022/long"] * 3 + ["chen2022/short"] * 3


def test_data_that_nobody_gave_are_missing(tmp_path: Path) -> None:
    needs = Needs(what="a file of digits", argument="root", pattern="*.digits")
    one = squares(needs=needs)
    assert missing(one, None) == missing(one, tmp_path) == "needs a file of digits: give its folder with --data"
    assert missing(squares(), None) == ""
    (tmp_path / "a.digits").touch()
    assert missing(one, tmp_path) == ""
    plan = pieces(one, order(tmp_path, data=tmp_path))
    assert plan[0].arguments["root"] == str(tmp_path)
    two = squares(needs=Needs(what="two files", argument="root", pattern="*.digits", others=("*.weights",)))
    assert missing(two, tmp_path) == "needs two files: give its folder with --data"
    (tmp_path / "a.weights").touch()
    assert missing(two, tmp_path) == ""
    as_file = squares(needs=Needs(what="a file of digits", argument="root", pattern="*.digits", as_file=True))
    assert pieces(as_file, order(tmp_path, data=tmp_path))[0].arguments["root"] == str(tmp_path / "a.digits")


_SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from moe_lab_papers.claim import Measurement
from moe_lab_papers.runner import Order, measured, pieces
one = Measurement(name="chen2022/squares", function="measure_runs:squares",
    quick={{"numbers": tuple(range(8)), "wait": 0.3}}, full={{}}, seconds=(8, 8), split=("numbers", "number"))
how = Order("quick", 7, "cpu", Path({folder!r}), jobs={jobs})
for number, _ in enumerate(measured(how, pieces(one, how)), 1):
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", one_in(2, [1, 2]))
def test_killed_it_goes_on_and_loses_nothing_finished(
    helpers: Path, tmp_path: Path, root: Path, computed: Callable[[], Counter[str]], jobs: int
) -> None:
    folder = tmp_path / "kept"
    paths = [str(HELPERS), str(root)]
    script = _SCRIPT.format(paths=paths, folder=str(folder), jobs=jobs)
    killed = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ}
    )
    assert killed.stdout is not None
    for line in killed.stdout:
        if int(line) == 3:
            break
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait(timeout=60)
    killed.stdout.close()
    finished = {path.name for path in folder.glob("*.nc")}
    assert 3 <= len(finished) < 8, "the kill must fall in the middle"
    before = computed()
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120, env={**os.environ})
    assert (computed() - before).total() == 8 - len(finished), "a finished piece was measured again"
    one = squares(quick={"numbers": tuple(range(8)), "wait": 0.3}, device=False)
    data = joined(one, sorted_by_call(list(measured(order(folder), pieces(one, order(folder)))), one, folder))
    np.testing.assert_allclose(data["square"].isel(trial=0), np.arange(8) ** 2 + 7)


def sorted_by_call(done: list[Done], one: Measurement, folder: Path) -> list[Done]:
    calls = [piece.call for piece in pieces(one, order(folder))]
    return sorted(done, key=lambda part: calls.index(part.piece.call))


def test_a_result_is_read_as_it_was_written(helpers: Path, tmp_path: Path) -> None:
    (one,) = pieces(squares(split=None), order(tmp_path))
    (done,) = measured(order(tmp_path), [one])
    assert done.data is not None and done.seconds >= 0
    with xr.open_dataset(one.path(tmp_path), engine="h5netcdf") as file:
        assert file.attrs["measured_by"] == one.call and file.attrs["measured_on"] == "cpu"
        xr.testing.assert_identical(file.load(), done.data)
