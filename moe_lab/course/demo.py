"""Trains joint, separate and CNN on patterns and on digits without a browser, and writes the results."""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TimeElapsedColumn
from rich.table import Table

from moe_lab import __version__
from moe_lab.core.console import PlainColumn, PlainConsole
from moe_lab.core.devices import DeviceName
from moe_lab.core.files import writable_folder, write_whole
from moe_lab.core.snapshots import Snapshot, collect
from moe_lab.core.trials import device_labels
from moe_lab.course.demo_picture import draw
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatchRun, PatternTask, SeparateMoE, train_batch
from moe_lab.patch_routing.figures import RECIPES
from moe_lab.patch_routing.plots import MODEL_NAMES

SAMPLES = {"patterns": 200, "digits": 100}
_RECORD_EVERY = {"patterns": 5, "digits": 10}  # steps; a step on digits takes a tenth of the samples


@dataclass(frozen=True)
class Result:
    """One model trained on one task: its records, and the seconds that it took."""

    run: PatchRun
    data: xr.Dataset
    seconds: float


def plan(seed: int, trials: int, device: DeviceName) -> dict[tuple[str, str], PatchRun]:
    """Returns the runs of the demo by (task, model): the live default and the embedded digits.

    Raises:
      ConfigError: a wrong seed or number of trials.
    """
    runs = {}
    for name, task in {"patterns": PatternTask(), "digits": DigitTask()}.items():
        recipe = RECIPES[name]
        how: dict[str, Any] = {"batch_size": recipe.batch_size, "learning_rate": recipe.learning_rate}
        separate = SeparateMoE(patches_per_expert=recipe.separate_patches, **how)
        for model in (JointMoE(**how), separate, CNN(**how)):
            runs[name, model.name] = PatchRun(
                model=model,
                task=task,
                samples=SAMPLES[name],
                record_every=_RECORD_EVERY[name],
                trials=trials,
                seed=seed,
                device=device,
            )
    return runs


def run(out: Path, seed: int = 0, trials: int = 5, device: DeviceName = "auto") -> dict[str, Any]:
    """Trains, prints a table, and writes demo.png, demo.nc and demo.json, each whole or not at all.

    demo.nc opens as a summary over (task, model, trial); its groups "patterns/joint" and so on hold every Snapshot.

    Args:
      out: the folder to write to; made if need be.
      seed: of all streams.
      trials: trainings of each model on each task.
      device: "auto", "cpu", "cuda", "cuda:N" or "mps".

    Returns:
      What demo.json holds: {"runs": [{"task", "model", "trials", "test_accuracy_mean", ...}, ...], "device", "seed",
      "version"}.

    Raises:
      ValueError, RuntimeError: a wrong seed, number of trials or device, or a folder that cannot be written to, before
        any training.
    """
    runs = plan(seed, trials, device)
    computed_on = device_labels(runs.values())
    folder = writable_folder(out)
    console = PlainConsole()
    with _one_thread():
        results = _train(runs, console)
    rows = [_row(task, model, result) for (task, model), result in results.items()]
    report = {"runs": rows, "device": computed_on, "seed": seed, "version": __version__}
    data = {key: result.data for key, result in results.items()}
    write_whole(folder / "demo.png", _png(data))
    write_whole(folder / "demo.nc", _netcdf(results, seed))
    write_whole(folder / "demo.json", (json.dumps(report, indent=2, allow_nan=False) + "\n").encode())
    console.print(_table(rows, trials))
    console.print(
        f"on {report['device']}, seed {seed}; written to {folder}: demo.png, demo.nc, demo.json", soft_wrap=True
    )
    return report


def _train(runs: Mapping[tuple[str, str], PatchRun], console: PlainConsole) -> dict[tuple[str, str], Result]:
    """Trains everything, with a bar that counts finished trials."""
    results = {}
    columns = (SpinnerColumn(), PlainColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=sum(run.trials for run in runs.values()))
        for (task, model), run in runs.items():
            started = time.perf_counter()
            snapshots = _reported(train_batch([run]), progress, bar, f"{task}, {MODEL_NAMES[model]}")
            data = collect(snapshots)
            if model == "joint":
                data.attrs["class_overlap"] = _class_overlap(run)
            results[task, model] = Result(run, data, time.perf_counter() - started)
    return results


def _reported(snapshots: Iterator[Snapshot], progress: Progress, bar: TaskID, name: str) -> Iterator[Snapshot]:
    """Passes Snapshots on and moves the bar: their finished trials come on top of those of earlier runs."""
    earlier = progress.tasks[bar].completed
    for snapshot in snapshots:
        completed = earlier + int(snapshot.finished.sum())
        progress.update(bar, description=f"{name}: step {snapshot.step}", completed=completed)
        yield snapshot


def _class_overlap(run: PatchRun) -> float:
    """Computes <o_1, o_2>, the mean over the trials."""
    signals = run.task.signals(range(run.trials), run.seed)
    return float((signals[:, 0] * signals[:, 1]).sum(-1).mean())


def _row(task: str, model: str, result: Result) -> dict[str, Any]:
    last = result.data.isel(step=-1)
    accuracy = last["test_accuracy"].values
    return {
        "task": task,
        "model": model,
        "trials": result.run.trials,
        "test_accuracy_mean": _finite(np.nanmean, accuracy),
        "test_accuracy_std": _finite(np.nanstd, accuracy),
        "coverage_mean": _finite(np.nanmean, last["coverage"].values) if "coverage" in last else None,
        "seconds": round(result.seconds, 3),
        "config": result.run.record(),
    }


def _finite(statistic: Any, values: np.ndarray) -> float | None:
    """A statistic over the trials that did not diverge; None if all did."""
    return float(statistic(values)) if np.isfinite(values).any() else None


def _table(rows: list[dict[str, Any]], trials: int) -> Table:
    table = Table(title=f"Test accuracy and router coverage, {trials} trials each", title_justify="left")
    table.add_column("task")
    table.add_column("model")
    for heading in ("test accuracy", "coverage", "seconds"):
        table.add_column(heading, justify="right")
    for number, row in enumerate(rows):
        mean, deviation, coverage = row["test_accuracy_mean"], row["test_accuracy_std"], row["coverage_mean"]
        table.add_row(
            row["task"],
            MODEL_NAMES[row["model"]],
            "diverged" if mean is None else f"{100 * mean:.1f} ± {100 * deviation:.1f} %",
            "" if coverage is None else f"{100 * coverage:.1f} %",
            f"{row['seconds']:.2f}",
            end_section=number + 1 < len(rows) and rows[number + 1]["task"] != row["task"],
        )
    return table


def _png(data: Mapping[tuple[str, str], xr.Dataset]) -> bytes:
    picture = io.BytesIO()
    draw(data, SAMPLES).savefig(picture, format="png")
    return picture.getvalue()


def _netcdf(results: Mapping[tuple[str, str], Result], seed: int) -> bytes:
    """The content of one file: a summary at its root, and a group for each run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.nc"
        summary(results, seed).to_netcdf(path, engine="h5netcdf")
        for (task, model), result in results.items():
            result.data.to_netcdf(path, mode="a", group=f"{task}/{model}", engine="h5netcdf")
        return path.read_bytes()


def summary(results: Mapping[tuple[str, str], Result], seed: int) -> xr.Dataset:
    """Returns the final test_accuracy(task, model, trial) and coverage(task, model, trial, class) of all runs."""
    tasks, models = (list(dict.fromkeys(key[part] for key in results)) for part in (0, 1))
    first = next(iter(results.values())).data
    trials, classes = first.sizes["trial"], first.sizes["class"]
    accuracy = np.full((len(tasks), len(models), trials), np.nan)
    coverage = np.full((*accuracy.shape, classes), np.nan)
    for (task, model), result in results.items():
        place, last = (tasks.index(task), models.index(model)), result.data.isel(step=-1)
        accuracy[place] = last["test_accuracy"].values
        if "coverage" in last:
            coverage[place] = last["coverage"].values
    about = {name: first[name].attrs for name in ("test_accuracy", "coverage")}
    return xr.Dataset(
        {
            "test_accuracy": (("task", "model", "trial"), accuracy, about["test_accuracy"]),
            "coverage": (("task", "model", "trial", "class"), coverage, about["coverage"]),
        },
        coords={"task": tasks, "model": models, "trial": np.arange(trials), "class": ["o1", "o2"]},
        attrs={
            "call": f"moe-lab demo --seed {seed} --trials {trials}",
            "groups": ", ".join(f"{task}/{model}" for task, model in results),
            "seed": seed,
            "device": first.attrs["device"],
            "version": __version__,
            "paper": first.attrs["paper"],
        },
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Steps as small as these run many times slower on several threads than on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
