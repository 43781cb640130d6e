"""`moe-lab reproduce`: measures claims, says how far it is, prints a table, writes results.json and report.html."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from moe_lab.config import require
from moe_lab.files import writable_folder, write_whole
from moe_lab.reproduce.claim import Budget, Claim, Measurement
from moe_lab.reproduce.ledger import chosen, measurements
from moe_lab.reproduce.report import page
from moe_lab.reproduce.runner import Done, Order, Piece, measured, missing, pieces
from moe_lab.reproduce.verdicts import Row, judged, pictured, tally
from moe_lab.trials import choose_device, device_label

CLUSTER_SECONDS = 20
"""How long a Dask scheduler may take to answer."""
_STYLES = {"agrees": "green", "agrees in kind": "cyan", "differs": "magenta", "needs data": "dim", "failed": "red"}


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
    """Measures the claims of these names; writes `out`/results.json and `out`/report.html, each whole or not at all.

    What is finished is kept in `out`/measured: a call that was stopped or killed goes on where it was.

    Args:
      names: of claims, or beginnings of them ("chen2022/table3"); none for all.
      budget: "quick", smaller sizes and fewer trials, or "full", the papers' own where they can be had.
      seed: of all streams.
      device: "auto", "cpu", "cuda", "cuda:N" or "mps".
      jobs: processes; None for one a core on a CPU and a single one beside a GPU.
      out: a folder, made if need be.
      data: a folder of data files that some claims need.
      cluster: the address of a Dask scheduler whose workers do the work.

    Returns:
      What results.json holds.

    Raises:
      ValueError: no claim has such a name, or a budget, seed, device or number of jobs that there is not.
      RuntimeError: `out` cannot be written to, the cluster cannot be reached, or a measurement broke off: the
        others are done and written.
    """
    require(budget in get_args(Budget), f"budget must be one of {', '.join(get_args(Budget))}", budget=budget)
    require(seed >= 0, "seed must be at least 0", seed=seed)
    require(jobs is None or jobs >= 1, "jobs must be at least 1", jobs=jobs)
    require(data is None or Path(data).is_dir(), "data must be a folder", data=str(data))
    on = choose_device(device)
    claims = chosen(names)
    folder = writable_folder(out)
    parallel = jobs or (_cores() if on.type == "cpu" else 1)
    place = folder.resolve() / "measured"
    order = Order(
        cast(Budget, budget), seed, device, place, Path(data).resolve() if data else None, None if cluster else parallel
    )
    console = Console(highlight=False)
    started = time.perf_counter()
    with _workers(cluster), warnings.catch_warnings():
        # joblib begins a worker anew once it holds much memory, and says so to whoever reads the progress
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
        done = _measure(claims, order, parallel, console)
    rows = judged(claims, done, order)
    records = [row.record(order) for row in rows]
    write_whole(folder / "results.json", (json.dumps(records, indent=1, allow_nan=False) + "\n").encode())
    console.print(table(rows))
    pictures = pictured([row.claim for row in rows], done)
    write_whole(folder / "report.html", page(rows, pictures, order, device_label(on), names).encode())
    minutes = (time.perf_counter() - started) / 60
    console.print(f"{tally(rows)}; {minutes:.1f} minutes on {device_label(on)}, seed {seed}, {budget} budget")
    console.print(f"written to {folder}: results.json, report.html", soft_wrap=True)
    failed = [row for row in rows if row.verdict == "failed"]
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(rows)} claims could not be measured, the others are done; the first is "
            f"{failed[0].claim.id} ({failed[0].note})"
        )
    return records


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _workers(cluster: str) -> Iterator[None]:
    """Lets joblib hand its tasks to a Dask scheduler, where one is named.

    Raises:
      RuntimeError: dask.distributed is not installed, or the scheduler does not answer.
    """
    if not cluster:
        yield
        return
    try:
        from dask.distributed import Client
    except ModuleNotFoundError as error:
        raise RuntimeError("a cluster needs dask.distributed: pip install 'moe-lab[cluster]'") from error
    import joblib

    try:
        client = Client(cluster, timeout=CLUSTER_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise RuntimeError(f"no Dask scheduler answers at {cluster}: {error}") from error
    with client, joblib.parallel_config("dask"):
        yield


def _measure(claims: Sequence[Claim], order: Order, parallel: int, console: Console) -> dict[str, list[Done]]:
    """The finished pieces by measurement, with a line that says how far it is."""
    able = [one for one in measurements(claims) if not missing(one, order.data)]
    plan = {one.name: pieces(one, order) for one in able}
    done: dict[str, list[Done]] = {}
    with _progress(claims, able, plan, parallel, console) as seen:
        for one in measured(order, [piece for part in plan.values() for piece in part]):
            done.setdefault(one.piece.measurement, []).append(one)
            seen.send(one)
    place = {piece.call: number for part in plan.values() for number, piece in enumerate(part)}
    for parts in done.values():
        parts.sort(key=lambda part: place[part.piece.call])
    return done


@contextmanager
def _progress(
    claims: Sequence[Claim],
    able: Sequence[Measurement],
    plan: dict[str, list[Piece]],
    parallel: int,
    console: Console,
) -> Iterator[Generator[None, Done, None]]:
    """Takes finished pieces; shows claims, trials and time left, as a bar in a terminal and as lines elsewhere."""
    every = [piece for part in plan.values() for piece in part]
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    live = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not live) as progress:
        bar = progress.add_task("", total=sum(piece.seconds for piece in every), left="")

        def watch() -> Generator[None, Done, None]:
            began, fresh, known, trials, ended = time.perf_counter(), 0.0, 0.0, 0, dict.fromkeys(plan, 0)
            while True:
                one = yield
                known += one.piece.seconds
                fresh += one.piece.seconds if one.fresh else 0.0
                trials += one.piece.trials
                ended[one.piece.measurement] += 1
                whole = {name for name, count in ended.items() if count == len(plan[name])}
                decided = sum(claim.measurement.name in whole for claim in claims)
                total = sum(piece.seconds for piece in every)
                pace = (time.perf_counter() - began) / fresh if fresh else 1 / parallel
                left = max(0.0, total - known) * pace
                words = f"claims {decided}/{len(claims)}, trials {trials}/{sum(piece.trials for piece in every)}"
                progress.update(bar, completed=known, description=words, left=f"about {_clock(left)} left")
                if not live:
                    what = f"{one.piece.measurement}: {one.failure or f'{one.seconds:.1f} s'}"
                    kept = "" if one.fresh else " (kept)"
                    console.print(f"{words}, about {_clock(left)} left; {what}{kept}", soft_wrap=True)

        seen = watch()
        next(seen)
        yield seen


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def table(rows: Sequence[Row]) -> Table:
    """Published against measured, for a terminal."""
    made = Table(title="Published against measured", title_justify="left")
    for heading in ("claim", "published", "measured", "verdict"):
        made.add_column(heading, overflow="fold")
    for number, row in enumerate(rows):
        last = number + 1 == len(rows) or rows[number + 1].claim.paper != row.claim.paper
        verdict = f"[{_STYLES[row.verdict]}]{row.verdict}[/]"
        unit = f" {row.claim.unit}" if row.claim.unit and row.measured else ""
        made.add_row(row.claim.id, row.claim.published.words, row.measured + unit, verdict, end_section=last)
    return made


def show(names: Sequence[str] = ()) -> None:
    """Prints the claims of these names with their places, statements and rules.

    Raises:
      ValueError: no claim has such a name.
    """
    claims, console = chosen(names), Console(highlight=False, soft_wrap=True)
    for claim in claims:
        quick, full = claim.measurement.seconds
        lack = missing(claim.measurement, None)
        console.print(f"[bold]{claim.id}[/]  ({claim.where}; about {quick:.0f} s quick, {full:.0f} s full)")
        console.print(f"    {claim.sentence} Published: {claim.published.words}.", markup=False)
        console.print(f"    Rule: {claim.rule.words}.{f' It {lack}.' if lack else ''}", markup=False)
    console.print(f"{len(claims)} claims")
