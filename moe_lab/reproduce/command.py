"""`moe-lab reproduce`: measures claims, shows its progress, prints a table, writes results.json and report.html."""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from moe_lab.arguments import checked
from moe_lab.config import require
from moe_lab.devices import choose, device_label, label_of
from moe_lab.files import writable_folder, write_whole
from moe_lab.reproduce.claim import Budget, Claim
from moe_lab.reproduce.ledger import chosen, measurements
from moe_lab.reproduce.report import page
from moe_lab.reproduce.runner import Done, Order, Piece, measured, missing, pieces
from moe_lab.reproduce.verdicts import Row, judged, pictured, tally
from moe_lab.workers import on_cluster, processors

_STYLES = {
    "agrees": "green",
    "agrees in kind": "cyan",
    "follows": "blue",
    "differs": "magenta",
    "needs data": "dim",
    "failed": "red",
}
WIDTH_OF_IDS = 18  # what a terminal of 80 columns leaves them


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
    """Measures claims and judges them; writes `out`/results.json and `out`/report.html.

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
      The records in results.json.

    Raises:
      ValueError: no claim has such a name, or the budget, seed, device or number of jobs is invalid; or the budget is
        "paper", there is no GPU, and `device` does not say "cpu".
      RuntimeError: `out` cannot be written to, the cluster cannot be reached, or a measurement failed: the others are
        done and written.
    """
    order, parallel = _order(budget=budget, seed=seed, device=device, jobs=jobs, out=out, data=data, cluster=cluster)
    claims, console = chosen(names), Console(highlight=False)
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
    records = [row.record(order) for row in rows]
    write_whole(folder / "results.json", (json.dumps(records, indent=1, allow_nan=False) + "\n").encode())
    console.print(table(rows))
    pictures = pictured([row.claim for row in rows], done)
    write_whole(folder / "report.html", page(rows, pictures, order, label, names).encode())
    minutes = (time.perf_counter() - started) / 60
    console.print(f"{tally(rows)}; {minutes:.1f} minutes on {label}, seed {seed}, {budget} budget")
    console.print(f"written to {folder}: results.json, report.html", soft_wrap=True)
    _raise_failures(rows)
    return records


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
    """Says what the papers' own sizes cost.

    Raises:
      ValueError: it would be a CPU's work, and nobody has said that this is wanted.
    """
    available = [measurement for measurement in measurements(claims) if not missing(measurement, order.data)]
    total = sum(measurement.takes(order.budget) for measurement in available)
    device = choose(order.device)
    words = f"the papers' own sizes take about {total / 3600:.1f} hours of one CPU core"
    rule = f"budget='paper' needs a GPU, or device='cpu' from those who can wait, because {words}"
    require(device.type != "cpu" or order.device == "cpu", rule, device=order.device)
    if device.type == "cpu":
        return f"{words}: about {total / 3600 / parallel:.1f} hours in {parallel} processes"
    there = sum(measurement.takes(order.budget) for measurement in available if measurement.device)
    return f"{words}, of which {device_label(device)} takes over {there / total:.0%}"


def _raise_failures(rows: Sequence[Row]) -> None:
    """Raises RuntimeError if a measurement failed."""
    failed = [row for row in rows if row.verdict == "failed"]
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(rows)} claims could not be measured, the others are done; the first is "
            f"{failed[0].claim.id} ({failed[0].note})"
        )


def _measure(claims: Sequence[Claim], order: Order, parallel: int, console: Console) -> dict[str, list[Done]]:
    """Measures the claims and shows the progress; returns the pieces of each measurement in the order of its calls."""
    available = [measurement for measurement in measurements(claims) if not missing(measurement, order.data)]
    plan = {measurement.name: pieces(measurement, order) for measurement in available}
    done: dict[str, list[Done]] = {}
    with _progress(claims, plan, parallel, console) as progress:
        for part in measured(order, [piece for calls in plan.values() for piece in calls]):
            done.setdefault(part.piece.measurement, []).append(part)
            progress.send(part)
    place = {piece.call: number for calls in plan.values() for number, piece in enumerate(calls)}
    for parts in done.values():
        parts.sort(key=lambda part: place[part.piece.call])
    return done


@contextmanager
def _progress(
    claims: Sequence[Claim], plan: dict[str, list[Piece]], parallel: int, console: Console
) -> Iterator[Generator[None, Done, None]]:
    """Yields a generator that takes finished pieces and shows the progress: a bar in a terminal, lines elsewhere."""
    every = [piece for calls in plan.values() for piece in calls]
    total = sum(piece.seconds for piece in every)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    live = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not live) as progress:
        bar = progress.add_task("", total=total, left="")

        def watch() -> Generator[None, Done, None]:
            began, fresh, known, trials, ended = time.perf_counter(), 0.0, 0.0, 0, dict.fromkeys(plan, 0)
            while True:
                part = yield
                known += part.piece.seconds
                fresh += part.piece.seconds if part.fresh else 0.0
                trials += part.piece.trials
                ended[part.piece.measurement] += 1
                whole = {name for name, count in ended.items() if count == len(plan[name])}
                decided = sum(claim.measurement.name in whole for claim in claims)
                pace = (time.perf_counter() - began) / fresh if fresh else 1 / parallel
                left = max(0.0, total - known) * pace
                words = f"claims {decided}/{len(claims)}, trials {trials}/{sum(piece.trials for piece in every)}"
                progress.update(bar, completed=known, description=words, left=f"about {_clock(left)} left")
                if not live:
                    what = f"{part.piece.measurement}: {part.failure or f'{part.seconds:.1f} s'}"
                    kept = "" if part.fresh else " (kept)"
                    console.print(f"{words}, about {_clock(left)} left; {what}{kept}", soft_wrap=True)

        watching = watch()
        next(watching)
        yield watching


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def table(rows: Sequence[Row]) -> Table:
    """Lays out published and measured numbers for a terminal."""
    layout = Table(title="Published against measured", title_justify="left")
    for heading in ("claim", "published", "measured", "verdict"):
        layout.add_column(heading, overflow="fold")
    for number, row in enumerate(rows):
        last = number + 1 == len(rows) or rows[number + 1].claim.paper != row.claim.paper
        verdict = f"[{_STYLES[row.verdict]}]{row.verdict}[/]"
        unit = f" {row.claim.unit}" if row.claim.unit and row.measured else ""
        name = folded(row.claim.id, WIDTH_OF_IDS)
        layout.add_row(name, row.claim.published.words, row.measured + unit, verdict, end_section=last)
    return layout


def folded(name: str, width: int) -> str:
    """An id in lines of at most `width`, broken after a slash or hyphen where it has one in time."""
    lines = [""]
    for part in re.findall(r"[^/-]*[/-]?", name):
        if len(lines[-1] + part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


@checked
def show(names: Sequence[str] = ()) -> None:
    """Prints the named claims with their places, statements and rules.

    Raises:
      ValueError: no claim has such a name.
    """
    claims, console = chosen(names), Console(highlight=False, soft_wrap=True)
    for claim in claims:
        takes = ", ".join(f"{claim.measurement.takes(budget):.0f} s {budget}" for budget in get_args(Budget))
        lack = missing(claim.measurement, None)
        console.print(f"[bold]{claim.id}[/]  ({claim.where}; about {takes})")
        console.print(f"    {claim.sentence} Published: {claim.published.words}.", markup=False)
        console.print(f"    Rule: {claim.rule.words}.{f' It {lack}.' if lack else ''}", markup=False)
    console.print(f"{len(claims)} claims")
