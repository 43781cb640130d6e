"""The grid fills, in any order and any process; what is finished survives errors and kills, and is not done again."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import xarray as xr
from joblib.externals.loky import get_reusable_executor

import moe_lab
from moe_lab.core.config import Config, knob
from moe_lab.core.snapshots import Measure
from moe_lab.core.store import Store
from moe_lab.core.sweep import sweep
from tests.helpers.effort import one_in

HELPERS = Path(__file__).parents[1] / "helpers"
ROOT = Path(moe_lab.__file__).parents[1]
AXES = {"a": [1, 2, 3, 4], "b": [10, 20, 30]}
CELLS = [(a, b) for a in AXES["a"] for b in AXES["b"]]


@pytest.fixture(scope="module")
def runs() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HELPERS))
        get_reusable_executor().shutdown(wait=True)  # workers of other tests do not know where grid_runs lies
        import grid_runs

        yield grid_runs


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """How often each point "a,b" was computed since the test began, in any process."""
    log = tmp_path / "log.txt"
    monkeypatch.setenv("MOE_LAB_TEST_LOG", str(log))
    return lambda: Counter(log.read_text().split()) if log.exists() else Counter()


def last(datasets: Any) -> xr.Dataset:
    return list(datasets)[-1]


def expected(trials: int = 2, seed: int = 0) -> np.ndarray:
    return np.multiply.outer(AXES["a"], AXES["b"])[..., None] + np.arange(trials) / 10 + seed


# --- the grid ---------------------------------------------------------------------------------------------------------


def test_every_point_gets_its_own_values(runs: Any) -> None:
    result = last(sweep(runs.product, AXES, trials=2, seed=5, batch=5))
    assert result.value.dims == ("a", "b", "trial")
    np.testing.assert_array_equal(result.value, expected(seed=5))
    assert result.done.all() and float(result.value.sel(a=3, b=20, trial=1)) == 65.1


def test_the_dataset_fills_batch_by_batch_and_each_is_a_copy(runs: Any) -> None:
    seen = list(sweep(runs.product, AXES, trials=2, batch=5))
    done = [int(dataset.done.sum()) for dataset in seen]
    assert done[0] == 0 and done[-1] == 12 and sorted(set(done)) == [0, 5, 10, 12]
    first_filled = next(dataset for dataset in seen if dataset.done.any())
    values = first_filled.value.values.reshape(12, 2)
    assert np.isfinite(values[:5]).all() and np.isnan(values[5:]).all()


def test_a_function_may_choose_the_batches_and_their_order(runs: Any, tmp_path: Path) -> None:
    def cheap_first(points: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        return [[point for point in points if point["b"] == b] for b in (30, 10, 20)]

    seen = list(sweep(runs.product, AXES, trials=2, batch=cheap_first))
    filled = [dataset.done.any("a").values.tolist() for dataset in seen]
    assert filled[0] == [False, False, False] and [False, False, True] in filled and [True, False, True] in filled
    np.testing.assert_array_equal(seen[-1].value, expected())
    with pytest.raises(ValueError, match="batch must divide the points so that each comes once: got points=12, got=1"):
        list(sweep(runs.product, AXES, trials=2, batch=lambda points: [points[:1]]))


def test_batches_shrink_so_that_every_process_has_work(runs: Any) -> None:
    result = last(sweep(runs.threads, {"a": [1, 2, 3, 4], "b": [1]}, trials=1, batch=64, jobs=2))
    counts = np.unique(result.process, return_counts=True)[1]
    assert counts.tolist() in ([2, 2], [4])  # two batches of two, unless one process was quick enough to take both


def test_axes_of_measures_meanings_and_attributes_are_written_down(runs: Any) -> None:
    stream = sweep(
        runs.vectors,
        {"a": np.array([1, 2]), "b": [0.5]},
        trials=3,
        measures={"pair": Measure(("side",), "px", "a and b"), "success": Measure(meaning="worked")},
        meanings={"a": "a, the first"},
        coords={"side": ["left", "right"]},
        attrs={"paper": "none"},
    )
    first = next(stream)
    assert first.pair.dims == ("a", "b", "trial", "side") and first.pair.isnull().all()
    result = last(stream)
    assert result.pair.sel(a=2, b=0.5, trial=0).values.tolist() == [2.0, 0.5]
    assert result.side.values.tolist() == ["left", "right"] and result.a.attrs["long_name"] == "a, the first"
    assert result.pair.attrs == {"units": "px", "long_name": "a and b"} and result.success.values.all()
    assert result.attrs == {"seed": 0, "trials": 3, "version": moe_lab.__version__, "paper": "none"}


def test_undeclared_axes_get_names_and_the_result_can_be_saved(runs: Any, tmp_path: Path) -> None:
    result = last(sweep(runs.vectors, {"a": [1], "b": [2]}, trials=1))
    assert result.pair.dims == ("a", "b", "trial", "pair_0")
    result.to_netcdf(tmp_path / "result.nc", engine="scipy")
    with xr.open_dataset(tmp_path / "result.nc", engine="scipy") as again:
        np.testing.assert_array_equal(again.pair, result.pair)


def test_axis_values_may_be_words(runs: Any) -> None:
    result = last(sweep(runs.vectors, {"a": [1], "b": [2], "model": ["joint", "cnn"]}, trials=1))
    assert result.success.sel(model="cnn").shape == (1, 1, 1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"axes": {}}, "axes must name at least one axis"),
        ({"axes": {"a": []}}, r"axis a must have at least one value: got values=\[\]"),
        ({"axes": {"a": [1, 1]}}, r"values of axis a must differ: got values=\[1, 1\]"),
        ({"axes": {"a": [1.0, float("nan")]}}, "values of axis a must be finite numbers or strings"),
        ({"axes": {"a": [(1, 2)]}}, "values of axis a must be finite numbers or strings"),
        ({"axes": {"trial": [1]}}, "an axis must not be named 'trial' or 'done': got axis='trial'"),
        ({"trials": 0}, "trials must be at least 1: got trials=0"),
        ({"batch": 0}, "batch must be at least 1: got batch=0"),
        ({"jobs": 0}, "jobs must be at least 1, -1 .all cores. or None: got jobs=0"),
    ],
)
def test_a_bad_call_is_refused_before_anything_runs(runs: Any, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        sweep(runs.product, **{"axes": AXES, "trials": 2, **changes})


# --- signs of life ----------------------------------------------------------------------------------------------------


def test_signs_of_life_give_the_dataset_again_and_partial_values_show(runs: Any) -> None:
    seen = list(sweep(runs.in_steps, {"a": [1], "b": [2]}, trials=4))
    assert seen[1] is seen[0] and seen[3] is seen[0]  # nothing new: nothing to draw
    half = seen[4]
    assert half.value.notnull().values.ravel().tolist() == [True, True, False, False] and not half.done.any()
    assert seen[-1].value.notnull().all() and seen[-1].done.all()


def test_a_consumer_stops_a_run_between_signs_of_life(runs: Any, computed: Callable[[], Counter[str]]) -> None:
    stream = sweep(runs.endless, {"a": [1], "b": [2]}, trials=1)
    for _, _ in zip(range(20), stream, strict=False):
        pass
    stream.close()  # or it would never return
    assert computed() == {"closed,": 1}


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_one_batch_loses_no_other(runs: Any, tmp_path: Path, jobs: int) -> None:
    stream = sweep(runs.fails_at_two, AXES, trials=2, batch=3, jobs=jobs, store=tmp_path / "kept")
    shown: list[xr.Dataset] = []
    with pytest.raises(RuntimeError, match=r"1 of 4 batches failed.*'a': 2, 'b': 10.*ValueError.*a must not be 2"):
        for dataset in stream:
            shown.append(dataset)
    result = shown[-1]
    assert result.done.sum("b").values.tolist() == [3, 0, 3, 3]
    np.testing.assert_array_equal(result.value.sel(a=[1, 3, 4]), expected()[[0, 2, 3]])
    assert result.value.sel(a=2).isnull().all()
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 9


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("silent", "run must give values for each batch: got none from grid_runs.silent"),
        ("wrong_shape", r"arrays of shape \(points, trials, ...\), here \(12, 2, ...\): got value=\(2,\)"),
        ("no_mapping", "run must return a mapping of arrays, or be a generator"),
    ],
)
def test_a_run_that_gives_something_else_is_told_so(runs: Any, name: str, sentence: str) -> None:
    with pytest.raises(RuntimeError, match=sentence):
        list(sweep(getattr(runs, name), AXES, trials=2))


def test_an_unwritable_store_is_refused_before_any_work(
    runs: Any, tmp_path: Path, computed: Callable[[], Counter[str]]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RuntimeError, match=r"the folder must be writable: got .*file/kept"):
        sweep(runs.product, AXES, trials=2, store=tmp_path / "file" / "kept")
    assert computed() == {}


def test_a_store_needs_a_run_with_a_name_and_a_config_that_can_be_written(runs: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be a function at the top of a module.*<lambda>"):
        sweep(lambda points, **_: {}, AXES, trials=2, store=tmp_path)
    with pytest.raises(ValueError, match="config must be made of Configs, numbers, strings"):
        sweep(runs.product, AXES, trials=2, store=tmp_path, config=object())


# --- the store --------------------------------------------------------------------------------------------------------


class Shape(Config):
    side: int = knob(3, meaning="side")


def test_a_second_call_computes_nothing(runs: Any, tmp_path: Path, computed: Callable[[], Counter[str]]) -> None:
    arguments: dict[str, Any] = {
        "trials": 2,
        "store": tmp_path / "kept",
        "config": {"shape": Shape(), "root": tmp_path},
    }
    first = last(sweep(runs.product, AXES, batch=5, **arguments))
    again = list(sweep(runs.product, AXES, batch=2, **arguments))
    assert len(again) == 1 and computed() == {f"{a},{b}": 1 for a, b in CELLS}
    xr.testing.assert_identical(again[0], first)


def test_a_grid_may_grow(runs: Any, tmp_path: Path, computed: Callable[[], Counter[str]]) -> None:
    last(sweep(runs.product, {"a": [1, 2], "b": [10, 20]}, trials=2, store=tmp_path))
    result = last(sweep(runs.product, AXES, trials=2, store=tmp_path))
    np.testing.assert_array_equal(result.value, expected())
    assert computed() == {f"{a},{b}": 1 for a, b in CELLS}


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"trials": 3},
        {"config": Shape(side=4)},
        {"run": functools.partial},
        {"version": "9.9"},
    ],
)
def test_another_seed_config_run_or_version_is_computed_anew(
    runs: Any,
    tmp_path: Path,
    computed: Callable[[], Counter[str]],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    arguments: dict[str, Any] = {"trials": 2, "seed": 0, "config": Shape(), "store": tmp_path / "kept"}
    run = functools.partial(runs.scaled, 1.0)
    last(sweep(run, AXES, **arguments))
    if "run" in changes:
        run = functools.partial(runs.scaled, 2.0)
    elif "version" in changes:
        monkeypatch.setattr(moe_lab, "__version__", changes["version"])
    else:
        arguments.update(changes)
    result = last(sweep(run, AXES, **arguments))
    assert set(computed().values()) == {2}
    factor = 2 if "run" in changes else 1
    np.testing.assert_array_equal(result.value, factor * expected(arguments["trials"], arguments["seed"]))


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        middle = content.index(b"PK\x01\x02") - 3  # in the last value, just before the archive's list of contents
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
    elif how == "pickle":
        np.savez(path, recipe=np.array([{"a": 1}], dtype=object))
    elif how == "other":
        other = next(file for file in path.parent.glob("*.npz") if file != path)
        path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "pickle", "other"])
def test_a_damaged_file_is_named_and_its_point_computed_again(
    runs: Any, tmp_path: Path, computed: Callable[[], Counter[str]], how: str
) -> None:
    kept = tmp_path / "kept"
    last(sweep(runs.product, AXES, trials=2, store=kept))
    victim = sorted(kept.glob("*.npz"))[3]
    damage(victim, how)
    with pytest.warns(UserWarning, match=rf"{victim.name} is not a whole result of this sweep .* is computed again"):
        result = last(sweep(runs.product, AXES, trials=2, store=kept))
    np.testing.assert_array_equal(result.value, expected())
    assert sorted(computed().values()) == [1] * 11 + [2]
    assert len(list(sweep(runs.product, AXES, trials=2, store=kept))) == 1  # repaired: no warning, nothing to do


def test_other_files_in_the_folder_are_left_alone_and_old_parts_cleared(runs: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    old, new = tmp_path / ".old.part", tmp_path / ".new.part"
    old.write_bytes(b"half"), new.write_bytes(b"half")
    os.utime(old, (0, 0))
    last(sweep(runs.product, AXES, trials=2, store=tmp_path))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not old.exists() and new.exists()  # the new one may belong to a sweep that is writing now


# --- other processes --------------------------------------------------------------------------------------------------


def test_processes_give_the_same_and_use_one_torch_thread(runs: Any, tmp_path: Path) -> None:
    result = last(sweep(runs.product, AXES, trials=2, batch=2, jobs=2, store=tmp_path))
    np.testing.assert_array_equal(result.value, expected())
    about = last(sweep(runs.threads, AXES, trials=1, batch=1, jobs=2))
    assert (about.threads == 1).all() and os.getpid() not in about.process.values


def test_joblib_decides_where_jobs_is_none(runs: Any) -> None:
    with joblib.parallel_config(backend="threading", n_jobs=2):
        result = last(sweep(runs.threads, {"a": [1, 2], "b": [1]}, trials=1, batch=1, jobs=None))
    assert (result.process == os.getpid()).all()


def test_stopping_early_with_processes_leaves_no_warning(runs: Any) -> None:
    stream = sweep(runs.slow_product, AXES, trials=1, batch=1, jobs=2)
    next(stream), next(stream)
    stream.close()


def test_a_worker_that_dies_loses_nothing_finished(runs: Any, tmp_path: Path) -> None:
    stream = sweep(runs.dies_at_two, {"a": [1, 3, 4, 2], "b": [1]}, trials=1, batch=1, jobs=2, store=tmp_path)
    with pytest.raises(RuntimeError, match="a worker process ended"):
        list(stream)
    assert list(tmp_path.glob("*.npz"))
    result = last(sweep(runs.product, {"a": [1, 3, 4, 2], "b": [1]}, trials=1, store=tmp_path))
    assert result.done.all()


# --- killed, twice ----------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from grid_runs import slow_product
from moe_lab.core.store import Store
from moe_lab.core.sweep import sweep
for dataset in sweep(slow_product, {axes!r}, trials=2, batch=2, jobs={jobs}, store=sys.argv[1]):
    print(int(dataset.done.sum()), flush=True)
"""


def start(store: Path, jobs: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HELPERS), str(ROOT)])}
    command = [sys.executable, "-c", SCRIPT.format(axes=AXES, jobs=jobs), str(store)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def kill_after(process: subprocess.Popen[str], points: int) -> None:
    """Kills the process and its workers as soon as it has said that so many points are done."""
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= points:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=120)
    process.stdout.close()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("jobs", one_in(2, [1, 2]))
def test_killed_twice_a_sweep_goes_on_and_does_nothing_finished_again(
    runs: Any, tmp_path: Path, computed: Callable[[], Counter[str]], jobs: int
) -> None:
    store = tmp_path / "kept"
    finished: Counter[str] = Counter()
    for target in (2, 7):
        before = computed()
        kill_after(start(store, jobs), target)
        again = {point for point, count in computed().items() if count > before[point]}
        assert not again & set(finished), "a finished point was computed again"
        stored = next(sweep(runs.slow_product, AXES, trials=2, store=store))  # what survived, read whole
        finished = Counter(f"{a},{b}" for a, b in CELLS if stored.done.sel(a=a, b=b))
        assert target <= len(finished) < 12, "the kill must fall in the middle"
        np.testing.assert_array_equal(stored.value.values[stored.done.values], expected()[stored.done.values])
    before = computed()
    process = start(store, jobs)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0 and output.split()[-1] == "12"
    assert set((computed() - before).keys()) == {f"{a},{b}" for a, b in CELLS} - set(finished)
    resumed = next(sweep(runs.slow_product, AXES, trials=2, store=store))
    uninterrupted = last(sweep(runs.slow_product, AXES, trials=2))
    xr.testing.assert_identical(resumed, uninterrupted)


def _sweep_of(run: Callable[..., Any], store: Path, jobs: int) -> list[float]:
    *_, data = sweep(run, {"x": list(range(12))}, trials=1, batch=2, jobs=jobs, store=store)
    return data["value"].values[:, 0].tolist()


@pytest.mark.parametrize("jobs", [1, 2])
def test_two_processes_on_one_store_compute_no_point_twice(runs, tmp_path, monkeypatch, jobs):
    computed, store = tmp_path / "computed", tmp_path / "store"
    computed.mkdir()
    monkeypatch.setenv("MOE_LAB_TEST_COMPUTED", str(computed))
    with ThreadPoolExecutor(2) as both:  # two threads have locks of their own, as two processes have
        found = list(both.map(_sweep_of, [runs.slow] * 2, [store] * 2, [1, jobs]))
    assert found == [[float(x) for x in range(12)]] * 2
    assert len(list(computed.iterdir())) == 12
    assert {path.suffix for path in store.iterdir()} == {".npz"}


def test_a_point_whose_process_has_died_is_computed(runs, tmp_path, monkeypatch):
    (tmp_path / "computed").mkdir()
    monkeypatch.setenv("MOE_LAB_TEST_COMPUTED", str(tmp_path / "computed"))
    store = Store.open(tmp_path / "store", runs.slow, None, 1, 0)
    program = (
        "import sys, os; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire(); "
        "print('held', flush=True); sys.stdin.read(1); os._exit(9)"
    )
    path = store.path({"x": 3}).with_suffix(".lock")
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin and holder.stdout and holder.stdout.readline() == "held\n"
        filling = sweep(runs.slow, {"x": [3, 4]}, trials=1, batch=1, store=store.folder)
        states = [next(filling), next(filling), next(filling)]
        assert not states[-1]["done"].values[0]
        holder.kill()
        holder.wait()
        *_, data = filling
    assert data["value"].values[:, 0].tolist() == [3.0, 4.0]
