"""`moe-lab compare`: which experts of a model may go, and is a criterion better than chance?"""

from __future__ import annotations

import io
import json
import math
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, Progress, TimeRemainingColumn
from rich.table import Table

from moe_lab import __version__
from moe_lab.core.console import PlainColumn, PlainConsole
from moe_lab.core.errors import InputError
from moe_lab.core.files import writable_folder, write_whole
from moe_lab.core.saliency import NEED_TOKENS
from moe_lab.drawing import theme
from moe_lab_hub import plots
from moe_lab_hub.comparing import Comparison, Judged, Row, Settings, criteria_for, topics_of
from moe_lab_hub.folder import check_checkpoint
from moe_lab_hub.record import hashed, model_files
from moe_lab_hub.texts import check_apart, losses_by_batch, read_texts
from moe_lab_hub.verdicts import BETTER, ENOUGH_DRAWS, UNCLEAR, WORSE

RESULT, PICTURE = "compare.json", "compare.png"
"""Files that are written."""
Found = Sequence[Row | Judged]
"""What each row comes to; the row itself where its criterion is undefined."""


def run(
    model: Path,
    text: Path,
    out: Path,
    *,
    before: Path | None,
    calibrate: Path | None,
    criteria: str,
    shares: str,
    ways: str,
    draws: int,
    plan: Path | None,
    length: int,
    seed: int,
    dry_run: bool,
) -> None:
    """Compares criteria, and a plan, with random choices on texts; prints a table, writes a picture and one JSON."""
    console = PlainConsole()
    for home in (model, *([before] if before else [])):
        check_checkpoint(home)
    if not dry_run:
        writable_folder(out)
    known = criteria_for(before is not None, calibrate is not None)
    chosen = known if criteria == "all" else [one.strip() for one in criteria.split(",") if one.strip()]
    if calibrate is None and (without := [one for one in chosen if one in NEED_TOKENS]):
        raise InputError(f"{without[0]} needs tokens: add --calibrate FILE, or choose other --criteria")
    each_way = [one.strip() for one in ways.split(",")]
    settings = Settings(model, before, chosen, _numbers(shares), each_way, draws, plan, seed)
    texts = read_texts(text, model, length)
    calibration = read_texts(calibrate, model, length) if calibrate else []
    check_apart(texts, calibration)
    comparison = Comparison(settings, texts, calibration, out)
    with console.status("scoring experts"):
        rows = comparison.rows
    for row in {one.undefined: one for one in rows if one.undefined}.values():
        console.print(f"Undefined: {row.criterion}, as {row.undefined}.", soft_wrap=True)
    left = comparison.left()
    console.print(_plan_of_work(comparison, len(left)), soft_wrap=True)
    if dry_run:
        console.print("Nothing was written.")
        return
    with Progress(PlainColumn("evaluating"), BarColumn(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("", total=len(left) * len(texts))
        for done in comparison.run():
            progress.advance(task, done)
    found = [row if row.kept is None else comparison.judged(row) for row in rows]
    console.print(table_of(comparison, found))
    if topics_of(texts):
        console.print(topics_table(found, topics_of(texts)))
    for line in _notes(comparison, found):
        console.print(line, soft_wrap=True)
    with console.status("hashing the model's files"):
        content = record(comparison, found, {"text": text, "calibrate": calibrate, "length": length, "out": out})
    write_whole(out / RESULT, (json.dumps(content, indent=1) + "\n").encode())
    write_whole(out / PICTURE, picture_of(content))
    console.print(
        f"The table with hashes, seeds and losses by text is in {out / RESULT}, its picture beside it.", soft_wrap=True
    )


def table_of(comparison: Comparison, found: Found) -> Table:
    """Returns one row for each criterion, share and way, with its loss, that of chance, and the verdict."""
    title = f"{comparison.source.family.name}: mean loss of {len(comparison.texts)} texts, in nats a token"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    for title, side in (("removed by", "left"), ("loss", "right"), ("minus chance", "right"), ("than chance", "left")):
        table.add_column(title, justify=side, overflow="fold")  # type: ignore[arg-type]
    table.add_row("nothing", f"{comparison.losses().mean():.4f}")
    for one in found:
        if isinstance(one, Row):
            table.add_row(_name(one), "", "", "undefined")
            continue
        verdict = one.verdict
        apart = f"{verdict.difference:+.3f} ({verdict.low:+.3f}, {verdict.high:+.3f})"
        words = verdict.words.removesuffix(" than chance").removesuffix(" from chance")
        table.add_row(_name(one.row), f"{one.losses.mean():.4f}", apart, words)
    return table


def topics_table(found: Found, topics: Sequence[str]) -> Table:
    """Returns the losses minus chance on the texts of each topic."""
    table = Table(title="minus chance, by topic", box=SIMPLE_HEAD)
    table.add_column("removed by")
    for topic in topics:
        table.add_column(topic, justify="right", overflow="fold")
    for one in found:
        if isinstance(one, Judged):
            each = [one.topics[topic] for topic in topics]
            marks = {BETTER: " *", WORSE: " *", UNCLEAR: "  "}
            table.add_row(_name(one.row), *(f"{own.difference:+.4f}{marks[own.words]}" for own in each))
    return table


def _name(row: Row) -> str:
    return plots.row_name(row.criterion, None if math.isnan(row.share) else row.share, row.way)


def _plan_of_work(comparison: Comparison, left: int) -> str:
    """Says how long it will take and how much memory, after reading one batch of texts."""
    texts, (whole, beside) = len(comparison.texts), comparison.bytes
    if not left:
        return "All losses are stored."
    begun = time.perf_counter()
    read = len(next(losses_by_batch(comparison.model, comparison.texts)))
    seconds = (time.perf_counter() - begun) / read * texts * left
    took = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{max(seconds, 1):.0f} seconds"
    return (
        f"{left} models on {texts} texts: about {took}; in memory the whole model, {whole / 2**20:,.0f} MiB, and "
        f"beside it the experts that are left of a pruned one, up to {beside / 2**20:,.0f} MiB."
    )


def _notes(comparison: Comparison, found: Found) -> list[str]:
    """Says what the columns are, and how many texts would tell apart what is not."""
    settings = comparison.settings
    lines = [
        f"Chance: {settings.draws} random choices with as many experts in each layer; in brackets the 95 % interval "
        "over texts. Told apart: all but a fortieth of them are worse, or better, and would be on other texts."
    ]
    if settings.draws < ENOUGH_DRAWS:
        lines.append(
            f"{settings.draws} random choices cannot tell apart so surely: give --draws {ENOUGH_DRAWS} or more."
        )
    if topics_of(comparison.texts):
        lines.append("By topic, a star marks what is told apart from chance.")
    for one in found:
        if isinstance(one, Judged) and one.verdict.enough:
            lines.append(f"{_name(one.row)}: about {one.verdict.enough:,} texts would tell the same difference apart.")
    return lines


def picture_of(content: dict[str, Any]) -> bytes:
    """Returns the picture of a comparison as PNG."""
    judged_rows = [row for row in content["rows"] if "losses" in row]
    figure = theme.figure(1000, 110 + 46 * max(len(judged_rows), 1), 1.5)
    axes = figure.add_axes((0.27, 0.5 / (1 + 0.42 * len(judged_rows)), 0.7, 1 - 0.7 / (1 + 0.42 * len(judged_rows))))
    plots.against_chance(content, axes)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def record(comparison: Comparison, found: Found, options: dict[str, Any]) -> dict[str, Any]:
    """Returns what was found as plain values, with the hashes of all files that were read and the command."""
    settings = comparison.settings
    files: dict[str, Any] = {}
    for name, home in (("model", settings.model), ("before", settings.before)):
        if home is not None:
            files[name] = {file.relative_to(home).as_posix(): digest for file, digest in hashed(model_files(home))}
    for name, path in (("text", options["text"]), ("calibrate", options["calibrate"]), ("plan", settings.plan)):
        if path is not None:
            files[name] = next(digest for _, digest in hashed([path]))
    return {
        "moe_lab": __version__,
        "family": comparison.source.family.name,
        "command": _command(settings, options),
        "seed": settings.seed,
        "draws": settings.draws,
        "files": files,
        "topics": [text.topic for text in comparison.texts],
        "whole": comparison.losses().tolist(),
        "rows": [_row(one) for one in found],
    }


def _row(one: Row | Judged) -> dict[str, Any]:
    """Returns a row as plain values."""
    row = one if isinstance(one, Row) else one.row
    share = None if math.isnan(row.share) else row.share
    about: dict[str, Any] = {"criterion": row.criterion, "share": share, "way": row.way}
    if isinstance(one, Row) or row.kept is None:
        return {**about, "undefined": row.undefined}
    by_topic = {topic: vars(verdict) for topic, verdict in one.topics.items()}
    return {
        **about,
        "kept": {name: list(kept) for name, kept in row.kept.items()},
        "losses": one.losses.tolist(),
        "chance": one.chance.mean(1).tolist(),
        **vars(one.verdict),
        **({"topics": by_topic} if by_topic else {}),
    }


def _command(settings: Settings, options: dict[str, Any]) -> str:
    """The command that makes the comparison again."""
    parts = ["moe-lab", "compare", str(settings.model), "--text", str(options["text"]), "--out", str(options["out"])]
    for name, value in (("before", settings.before), ("calibrate", options["calibrate"]), ("plan", settings.plan)):
        parts += [f"--{name}", str(value)] if value else []
    parts += ["--criteria", ",".join(settings.criteria), "--shares", ",".join(f"{one:g}" for one in settings.shares)]
    parts += ["--ways", ",".join(settings.ways), "--draws", str(settings.draws), "--length", str(options["length"])]
    return shlex.join([*parts, "--seed", str(settings.seed)])


def _numbers(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise InputError(f"--shares must be numbers with commas between them, as in .25,.5: got {text}") from None
