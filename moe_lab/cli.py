"""The command line: moe-lab lab · playground · demo · reproduce · prune · compare · class · doctor.

What the user can do something about is one sentence on stderr; a bug keeps its traceback, and with --debug, or
MOE_LAB_DEBUG=1, every error does. Exit code 1: the command could not be carried out; 2: wrong usage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import moe_lab
from moe_lab.core.errors import DEBUG, NO_ROOM, traced

CRITERIA = (
    "router-norm-change",
    "router-magnitude",
    "router-difference-norm",
    "neuron-magnitude",
    "neuron-magnitude-change",
    "random",
    "importance-score",
    "token-count",
    "reap",
)
"""Criteria of pruning; the last three need tokens."""

app = typer.Typer(
    name="moe-lab",
    help="Move a slider and watch a mixture of experts train.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"moe-lab {moe_lab.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of every error.")] = False,
) -> None:
    """Options that come before a command."""
    if debug:
        os.environ[DEBUG] = "1"  # worker processes inherit it


@app.command()
def lab(
    folder: Annotated[
        Path, typer.Argument(help="Where to put the course. Your edits there are never overwritten.")
    ] = Path("moe_lab_course"),
    browser: Annotated[bool, typer.Option(help="Open a browser, or only print the address.")] = True,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port to serve on; a free one if not given.")
    ] = None,
    ip: Annotated[str, typer.Option(help="The address to serve on.")] = "127.0.0.1",
) -> None:
    """Copy the course to a folder and open it in JupyterLab."""
    from moe_lab.course import copies as course
    from moe_lab.course import jupyter

    jupyter.check(ip, port)
    copied = course.copy_course(folder)
    for sentence in [f"The course is in {folder.resolve()}.", *copied.sentences()]:
        print(sentence, flush=True)
    with jupyter.own_folders() as sentence:
        if sentence:
            print(sentence, flush=True)
        jupyter.serve(folder, browser=browser, port=port, ip=ip)


@app.command()
def playground(
    lab: Annotated[
        str | None, typer.Argument(help="The Lab: router-alignment (the default), phase-transition, ...")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file or folder to write to, and open nothing; this folder if not given.")
    ] = None,
) -> None:
    """Write a page that trains a Lab's run in the browser, and open it; it needs no kernel and no network."""
    from moe_lab.course import playground as the_playground

    print(the_playground.open_page(lab, out), flush=True)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to write demo.png, demo.nc and demo.json.")] = Path("."),
    seed: Annotated[int, typer.Option(help="The same seed gives the same runs.")] = 0,
    trials: Annotated[int, typer.Option(help="Number of training runs per model.")] = 5,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
) -> None:
    """Train joint, separate and CNN on patterns and on handwritten digits; print a table and write the results."""
    from moe_lab.course import demo as the_demo

    the_demo.run(out, seed, trials, device)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Claims by id or its beginning, such as pmoe2023; all if not given.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="quick: minutes; full: an hour; paper: the papers' own sizes, for a GPU.")
    ] = "quick",
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core if not given.")] = None,
    out: Annotated[
        Path, typer.Option(help="Where to write report.html and results.json; a stopped run resumes there.")
    ] = Path("moe_lab_report"),
    data: Annotated[Path | None, typer.Option(help="A folder of data files that some claims need.")] = None,
    cluster: Annotated[str, typer.Option(help="The address of a Dask scheduler that does the work.")] = "",
    listed: Annotated[
        bool, typer.Option("--list", help="List the claims, or tell all about a single one, and measure nothing.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the claims and their rules as JSON, and measure nothing.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judge results that somebody else measured, such as a results.json."),
    ] = None,
) -> None:
    """Measure what the papers publish, and compare published with measured values."""
    if listed:
        import_module("moe_lab_papers.catalogue").show(names or [])
        return
    if export:
        import_module("moe_lab_papers.exchange").export(export, names or [])
        return
    if check:
        import_module("moe_lab_papers.check").check(check, names or [])
        return
    command = import_module("moe_lab_papers.command")
    command.run(names or [], budget=budget, seed=seed, device=device, jobs=jobs, out=out, data=data, cluster=cluster)


@app.command()
def prune(
    folder: Annotated[Path, typer.Argument(help="A model of transformers: config.json and safetensors.")],
    out: Annotated[Path, typer.Argument(help="Where to write the pruned model; a new or empty folder.")],
    before: Annotated[
        Path | None, typer.Option(help="The same model before fine-tuning, for criteria with change or difference.")
    ] = None,
    share: Annotated[float, typer.Option(help="The share of each layer's experts to remove.")] = 0.5,
    criterion: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"How experts are ranked (the highest scores stay): {', '.join(CRITERIA)}."),
    ] = "router-norm-change",
    calibrate: Annotated[
        Path | None, typer.Option(help="Texts, a JSON object a line, for criteria that need tokens.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed (criterion 'random' only).")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the tables, and write the plan alone.")] = False,
) -> None:
    """Remove experts of a model on disk; tokens choose among those left, which saves memory.

    The scores, the experts kept and the hashes of the model's files are written beside the new model, to OUT.plan.json.
    """
    command = import_module("moe_lab_hub.command")
    own = {"before": before, "criterion": criterion, "share": share, "calibrate": calibrate}
    command.run(folder, out, **own, seed=seed, dry_run=dry_run)


@app.command()
def compare(
    model: Annotated[Path, typer.Argument(help="A model of transformers: config.json and safetensors.")],
    text: Annotated[Path, typer.Option(help="Held-out texts, a JSON object a line: text or tokens, and a topic.")],
    out: Annotated[Path, typer.Option(help="A folder for results; a run that was stopped goes on there.")],
    before: Annotated[
        Path | None, typer.Option(help="The same model before fine-tuning, for criteria with change or difference.")
    ] = None,
    calibrate: Annotated[Path | None, typer.Option(help="Other texts, for criteria that need tokens.")] = None,
    criteria: Annotated[
        str, typer.Option(help="Names with commas between them; all that enough is known for.")
    ] = "all",
    shares: Annotated[str, typer.Option(help="Shares of each layer's experts to remove.")] = ".25,.5",
    ways: Annotated[
        str, typer.Option(help="removed (tokens choose among the others), silent (they answer 0).")
    ] = "removed",
    draws: Annotated[int, typer.Option(help="Random choices to compare with.")] = 40,
    plan: Annotated[
        Path | None, typer.Option(help="A JSON or YAML of experts to keep or prune, to be judged too.")
    ] = None,
    length: Annotated[int, typer.Option(help="Tokens of a text that are read at most.")] = 512,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how long it would take, and how much memory.")
    ] = False,
) -> None:
    """Say which experts of a model may go, and whether a criterion, or anybody's plan, is better than chance.

    The loss on texts of the model without the experts that it removes, beside that of random choices of as many.
    """
    command = import_module("moe_lab_hub.compare")
    told = {
        "before": before,
        "calibrate": calibrate,
        "criteria": criteria,
        "shares": shares,
        "ways": ways,
        "draws": draws,
    }
    command.run(model, text, out, **told, plan=plan, length=length, seed=seed, dry_run=dry_run)


@app.command("class")
def for_class(
    folder: Annotated[Path, typer.Argument(help="Where to write the course; submitted notebooks there stay.")],
    stills: Annotated[
        bool, typer.Option("--stills", help="Also draw the last picture of every Lab's stories: about half an hour.")
    ] = False,
) -> None:
    """Write the course as nbgrader grades it: lessons with solutions and tests for you, without them for students."""
    from moe_lab.course.classroom import build

    for line in build.build(folder, stills):
        print(line, flush=True)


@app.command()
def doctor(
    data: Annotated[Path | None, typer.Option(help="A folder of MNIST files to check.")] = None,
) -> None:
    """Show what is installed, which commands will run, which device is used and which data sets are present."""
    from moe_lab.course import doctor as the_doctor

    the_doctor.report(data)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits: 0 when done, 1 when it could not be carried out, 2 for wrong usage."""
    output = sys.stdout
    try:
        code = app(list(arguments) if arguments is not None else None, standalone_mode=False)
        output.flush()
    except (KeyboardInterrupt, typer.Abort):
        _leave("stopped", 130)
    except (Exception, SystemExit) as error:
        # Where a pipe's reader has gone, click and rich leave without a word.
        first = error.__context__ if isinstance(error, SystemExit) else error
        cause = _unwritten(output)
        if isinstance(first, OSError) and first.filename is None and first.errno in NO_ROOM:
            cause = first.strerror or str(first)
        if cause:
            _leave(f"the output could not be written ({cause})", 1)
        if isinstance(error, SystemExit):
            raise
        # Typer's usage errors: their class has moved between modules, their method has one name. The rest are bugs.
        if hasattr(error, "format_message"):
            _leave(error.format_message(), 2)
        if traced(error):
            raise
        _leave(_sentence(error), 1)
    sys.exit(code if isinstance(code, int) else 0)


def _unwritten(output: Any) -> str:
    """Why what was printed cannot be written; "" if it can. Python would complain of it once more at its end."""
    try:
        output.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        return error.strerror or str(error)
    return ""


def _sentence(error: Exception) -> str:
    """The error on one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return " ".join(str(error).split())


def _leave(message: str, code: int) -> NoReturn:
    if message:
        with suppress(OSError):  # where nobody reads the messages either
            print(f"moe-lab: {message}", file=sys.stderr)
    sys.exit(code)
