"""Records what the site shows of most Labs:  python -m tools.recordings [--cache .recordings]

Each Lab's stories, the Labs of the notebooks' cells, and a coarse grid of the main knobs of some Labs, so that sliders
move on the site. Labs that the playground mirrors are live there and are not recorded. A recording is kept in a folder
under a hash of what it depends on: its values and the sources.
"""

from __future__ import annotations

import argparse
import ast
import base64
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from moe_lab.core.files import write_whole
from moe_lab.registry import LABS, NOTEBOOKS
from tools.outputs import ENVIRONMENT, optimised
from tools.pairs import ROOT, read

CACHE = ROOT / ".recordings"
FRAMES, GRID_FRAMES = 60, 20
"""Most frames of a story, and of a run of a grid."""
GRIDS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "PruningLab": {"rho": (0.0, 0.4, 0.8, 0.9), "criterion": ("router-norm-change", "router-magnitude", "random")},
}
"""The main knobs of a Lab and the values of each that are recorded, all combinations."""
PARTS_NOT_NEEDED = ("exercises",)
"""Packages of the library that no Lab reads."""


@dataclass(frozen=True)
class Run:
    """A run to record.

    Attributes:
      lab: the name of its class.
      values: every knob's, and the seed.
      frames: the most frames.
      name, see: what the list of runs calls it, and what to see in it.
    """

    lab: str
    values: Mapping[str, Any] = field(hash=False)
    frames: int = FRAMES
    name: str = ""
    see: str = ""

    @property
    def key(self) -> str:
        """The name of its files: the Lab, and a hash of what the recording depends on."""
        depends = json.dumps([self.lab, self.frames, self.values], sort_keys=True)
        return f"{self.lab}-{hashlib.sha256((sources(self.lab) + depends).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Show:
    """What the site has of one Lab.

    Attributes:
      stories: to choose from a list.
      axes: names of the knobs with sliders, and their values.
      grid: the runs by their place on each slider.
    """

    lab: str
    stories: tuple[Run, ...]
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    grid: Mapping[tuple[int, ...], Run] = field(default_factory=dict)

    @property
    def runs(self) -> list[Run]:
        return [*self.stories, *self.grid.values()]


@cache
def sources(lab: str) -> str:
    """A hash of the code that a recording of a Lab depends on."""
    module = next(one.module for one in LABS if one.name == lab).partition(".")[2]
    library = [
        path
        for path in (ROOT / "moe_lab").rglob("*.py")
        if path.relative_to(ROOT / "moe_lab").parts[0] not in PARTS_NOT_NEEDED
    ]
    widgets = ROOT / "widgets" / "moe_lab_widgets"
    own = [path for part in ("engine", "drawing", "frames") for path in (widgets / part).rglob("*.py")]
    own += (widgets / "labs").glob(f"{module}*.py")
    whole = hashlib.sha256()
    for path in sorted([*library, *own]):
        whole.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return whole.hexdigest()


def kind_of(lab: str) -> Any:
    """Returns the class of a Lab."""
    import moe_lab_widgets

    return getattr(moe_lab_widgets, lab)


def complete(lab: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the value of every knob: those that are left out take their defaults, or follow the others."""
    from moe_lab_widgets.engine.board import KnobBoard
    from moe_lab_widgets.engine.callbacks import OwnMoves

    return KnobBoard(lab, kind_of(lab).knobs, values, OwnMoves()).values


def show_of(lab: str, cells: Iterable[Run] = ()) -> Show:
    """Returns all that the site has of a Lab.

    Args:
      cells: runs in the notebooks; those of this Lab stand below its stories, where none is the same.
    """
    kind = kind_of(lab)
    defaults = {**{knob.name: knob.default for knob in kind.knobs}, "seed": 0}
    stories = [
        Run(lab, complete(lab, {**defaults, **story.values}), FRAMES, story.name, story.what_to_see)
        for story in kind.stories
    ]
    for run in cells:
        if run.lab == lab and all(story.key != run.key for story in stories):
            stories.append(run)
    axes = GRIDS.get(lab, {})
    return Show(lab, tuple(stories), axes, grid_of(lab, axes))


def grid_of(lab: str, axes: Mapping[str, tuple[Any, ...]], **others: Any) -> dict[tuple[int, ...], Run]:
    """Returns the runs of all combinations of values, by the places of these; `others` are values of other knobs."""
    if not axes:
        return {}
    places = itertools.product(*(range(len(values)) for values in axes.values()))
    chosen = {place: {name: axes[name][i] for name, i in zip(axes, place, strict=True)} for place in places}
    return {place: Run(lab, complete(lab, {**others, **values}), GRID_FRAMES) for place, values in chosen.items()}


OPENED = ("ask", "playing", "projector")
"""Arguments of a Lab that say how it opens, and not what runs."""


def lab_of_cell(cell: NotebookNode) -> Run | None:
    """Returns the run of the Lab that a cell shows; None where it shows none, or one with a model made there."""
    names = {lab.name for lab in LABS}
    if cell.cell_type != "code" or not any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
        return None
    for node in ast.walk(ast.parse(cell.source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            known = {"SEED": 0}
            if any(isinstance(one.value, ast.Name) and one.value.id not in known for one in node.keywords):
                return None  # made in the notebook
            values = {
                str(one.arg): known[one.value.id] if isinstance(one.value, ast.Name) else ast.literal_eval(one.value)
                for one in node.keywords
                if one.arg not in OPENED
            }
            return Run(node.func.id, complete(node.func.id, values), FRAMES, "As in the notebook")
    return None


def cells_of(notebook: NotebookNode) -> dict[int, Run]:
    """Returns the runs of the Labs in a notebook by the number of their cell."""
    found = {number: lab_of_cell(cell) for number, cell in enumerate(notebook.cells)}
    return {number: run for number, run in found.items() if run is not None}


def everything() -> list[Show]:
    """Returns what the site has of all Labs that are not live there."""
    notebooks = [read(ROOT / "notebooks" / f"{notebook.stem}.ipynb") for notebook in NOTEBOOKS]
    cells = [run for one in notebooks for run in cells_of(one).values()]
    return [show_of(lab.name, cells) for lab in LABS if not lab.page]


# ---- recording ----


def record(run: Run, folder: Path, key: str) -> float:
    """Trains and writes KEY.json and KEY.png into a folder; returns the seconds.

    The key is given, since the sources may change meanwhile.
    """
    os.environ.update(ENVIRONMENT)
    begun = time.monotonic()
    lab = kind_of(run.lab)(**run.values)
    try:
        lab.wait()
        recording = lab.recording(run.frames)
    finally:
        lab.close()
    still = base64.b64decode(optimised(base64.b64encode(recording.still).decode()))
    write_whole(folder / f"{key}.png", still)
    text = json.dumps(recording.plain(), ensure_ascii=False, separators=(",", ":"))
    write_whole(folder / f"{key}.json", text.encode())  # last: it says that both are there
    return time.monotonic() - begun


def record_all(runs: Iterable[Run], folder: Path = CACHE, workers: int = 2, tell: Any = None) -> None:
    """Records those runs that the folder lacks.

    Raises:
      RuntimeError: a run could not be recorded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = {run.key: run for run in runs if not (folder / f"{run.key}.json").exists()}
    if not missing:
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        jobs = {pool.submit(record, run, folder, key): run for key, run in missing.items()}
        for number, job in enumerate(as_completed(jobs), 1):
            run = jobs[job]
            if (error := job.exception()) is not None:
                pool.shutdown(cancel_futures=True)
                raise RuntimeError(f"{run.lab}, {run.name or run.values}, could not be recorded: {error}") from error
            if tell is not None:
                tell(f"{number} of {len(missing)}: {run.lab}, {run.name or 'grid'}, {job.result():.0f} s")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.recordings", description="Records what the site shows.")
    parser.add_argument("--cache", type=Path, default=CACHE, help="the folder of recordings")
    given = parser.parse_args(arguments)
    record_all([run for show in everything() for run in show.runs], given.cache, tell=_say)


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(str(error))
