"""`moe-lab reproduce`: measures claims, shows its progress, prints a table, writes results.json and report.html."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_args

from rich.table import Table
from rich.text import Text

from moe_lab.core import errors
from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.console import PlainConsole
from moe_lab.core.devices import choose, device_label, label_of
from moe_lab.core.files import writable_folder, write_whole
from moe_lab.core.workers import on_cluster, processors
from moe_lab_papers import progress, tables
from moe_lab_papers.claim import Budget, Claim
from moe_lab_papers.exchange import file, run_part, write
from moe_lab_papers.ledger import chosen, measurements
from moe_lab_papers.report import page
from moe_lab_papers.runner import Done, Order, measured, missing, pieces
from moe_lab_papers.verdicts import Row, judged, pictured, tally

_STYLES = {
    "agrees": "green",
    "in kind": "cyan",
    "follows": "blue",
    "differs": "magenta",
    "unsteady": "yellow",
    "not comparable": "dim",
    "needs data": "dim",
    "failed": "red",
}


@checked
def run(
    names: Sequence[str] = (),
    *,
    budget: str = "quick",
    seed: int = 0,
    device: str = "auto",
    jobs: int | None = None,
    out: Path | str = Path("moe_lab_report"),
    data: Path | str | None = None,
    cluster: str = "",
) -> list[dict[str, Any]]:
    """Measures claims and judges them; writes `out`/results.json, in the form of claims.schema.json, and report.html.

    Finished measurements are kept in `out`/measured, so that a run that was stopped or killed continues from there.

    Args:
      names: ids of claims, or beginnings of ids ("chen2022/table3"); none for all.
      budget: "quick", smaller sizes and fewer trials; "full", the papers' own where an hour of a CPU allows them; or
        "paper", the papers' own and 40 or more trials, for a GPU, or a CPU if `device` says so.
      seed: of all random streams.
      device: "auto", "cpu", "cuda", "cuda:N" or "mps".
      jobs: number of processes; None for one per core on a CPU and a single one with a GPU.
      out: a folder, made if necessary.
      data: a folder of data files that some claims need.
      cluster: the address of a Dask scheduler whose workers do the work.

    Returns:
      The claims in results.json, each with its result.

    Raises:
      ValueError: no claim has such a name, or the budget, seed, device or number of jobs is invalid; or the budget is
        "paper", there is no GPU, and `device` does not say "cpu".
      RuntimeError: `out` cannot be written to, the cluster cannot be reached, or a measurement failed: the others are
        done and written.
    """
    order, parallel = _order(budget=budget, seed=seed, device=device, jobs=jobs, out=out, data=data, cluster=cluster)
    claims, console = chosen(names), tables.console()
    if budget == "paper":
        console.print(_cost(claims, order, parallel), soft_wrap=True)
    folder = writable_folder(out)
    started = time.perf_counter()
    with on_cluster(cluster), warnings.catch_warnings():
        # joblib restarts a worker that holds much memory, and warns, which would interrupt the progress bar
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
        done = _measure(claims, order, parallel, console)
    rows = judged(claims, done, order)
    label = label_of(device)
    how = run_part(order, label)
    results = file([row.claim for row in rows], rows, how)
    write(folder / "results.json", results)
    console.print(table(console, rows))
    for reason in reasons(rows):
        console.print(reason, soft_wrap=True)
    pictures = pictured([row.claim for row in rows], done)
    write_whole(folder / "report.html", page(rows, pictures, order, how, names).encode())
    minutes = (time.perf_counter() - started) / 60
    console.print(f"{tally(rows)}; {minutes:.1f} minutes on {label}, seed {seed}, {budget} budget")
    console.print(f"written to {folder}: results.json, report.html", soft_wrap=True)
    _raise_failures(rows)
    return [part.model_dump(mode="json") for part in results.claims]


def _order(
    *, budget: str, seed: int, device: str, jobs: int | None, out: Path | str, data: Path | str | None, cluster: str
) -> tuple[Order, int]:
    """Validates the arguments of `run`; returns the order and the number of processes."""
    require(budget in get_args(Budget), f"budget must be one of {', '.join(get_args(Budget))}", budget=budget)
    require(seed >= 0, "seed must be at least 0", seed=seed)
    require(jobs is None or jobs >= 1, "jobs must be at least 1", jobs=jobs)
    require(data is None or os.path.isdir(data), "data must be a folder", data=str(data))
    parallel = jobs or (processors() if choose(device).type == "cpu" else 1)
    order = Order(
        budget=cast(Budget, budget),
        seed=seed,
        device=device,
        folder=Path(out).absolute() / "measured",
        data=Path(data).resolve() if data else None,
        jobs=None if cluster else parallel,
    )
    return order, parallel


def _cost(claims: Sequence[Claim], order: Order, parallel: int) -> str:
    """Estimates the costs of the papers' own sizes.

    Raises:
      ValueError: it would be a CPU's work, and nobody has said that this is wanted.
    """
    available = [measurement for measurement in measurements(claims) if not missing(measurement, order.data)]
    total = sum(measurement.duration(order.budget) for measurement in available)
    device = choose(order.device)
    words = f"the papers' own sizes take about {total / 3600:.1f} hours of one CPU core"
    rule = f"budget='paper' needs a GPU (pass device='cpu' to run anyway): {words}"
    require(device.type != "cpu" or order.device == "cpu", rule, device=order.device)
    if device.type == "cpu":
        return f"{words}: about {total / 3600 / parallel:.1f} hours in {parallel} processes"
    there = sum(measurement.duration(order.budget) for measurement in available if measurement.device)
    return f"{words}, of which {device_label(device)} takes over {there / total:.0%}"


def _raise_failures(rows: Sequence[Row]) -> None:
    """Raises RuntimeError if a measurement failed; if by a bug, with its traceback."""
    failed = [row for row in rows if row.verdict == "failed"]
    if failed:
        first = next((row for row in failed if row.trace), failed[0])
        raise errors.failed(
            f"{len(failed)} of {len(rows)} claims could not be measured, the others are done; the first is "
            f"{first.claim.id} ({first.note})",
            first.trace,
        )


def _measure(claims: Sequence[Claim], order: Order, parallel: int, console: PlainConsole) -> dict[str, list[Done]]:
    """Measures the claims and shows the progress; returns the pieces of each measurement in the order of its calls."""
    available = [measurement for measurement in measurements(claims) if not missing(measurement, order.data)]
    plan = {measurement.name: pieces(measurement, order) for measurement in available}
    done: dict[str, list[Done]] = {}
    with progress.shown(claims, plan, parallel, console) as watching:
        for part in measured(order, [piece for calls in plan.values() for piece in calls]):
            done.setdefault(part.piece.measurement, []).append(part)
            watching.send(part)
    place = {piece.call: number for calls in plan.values() for number, piece in enumerate(calls)}
    for parts in done.values():
        parts.sort(key=lambda part: place[part.piece.call])
    return done


def table(where: PlainConsole, rows: Sequence[Row]) -> Table:
    """Lays out published and measured numbers."""
    layout = tables.table(where, ("claim", "published", "measured", "verdict"), "Published against measured")
    for number, row in enumerate(rows):
        last = number + 1 == len(rows) or rows[number + 1].claim.paper != row.claim.paper
        verdict = Text(row.verdict, _STYLES[row.verdict])
        unit = f" {row.claim.unit}" if row.claim.unit and row.measured else ""
        name, published = tables.named(where, row.claim.id), row.claim.published.words
        layout.add_row(name, published, row.measured + unit, verdict, end_section=last)
    return layout


def reasons(rows: Sequence[Row]) -> list[str]:
    """Returns why those claims differ that do."""
    return [f"{row.claim.id} differs: {row.reason}" for row in rows if row.verdict == "differs"]
