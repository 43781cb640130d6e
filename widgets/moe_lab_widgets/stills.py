"""Writes the last picture of every Lab's stories:  python -m moe_lab_widgets.stills FOLDER [LAB ...]"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from rich.progress import track

import moe_lab_widgets
from moe_lab.core.console import PlainConsole
from moe_lab.core.files import write_whole
from moe_lab.registry import LABS

ENVIRONMENT = {"MOE_LAB_HEADLESS": "1", "MOE_LAB_BUDGET": "3600"}
"""Trains to the end as fast as it goes, at no pace."""
MOST_WORKERS = 4  # of about half a gigabyte each


def stills(folder: Path, labs: Sequence[str] = ()) -> None:
    """Runs the stories of some Labs, all if none is named, each to its end, behind a progress bar on stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare) as pool:
        jobs = [
            pool.submit(_still, folder, lab.name, number)
            for lab in LABS
            if not labs or lab.name in labs
            for number in range(len(getattr(moe_lab_widgets, lab.name).stories))
        ]
        try:
            done = track(as_completed(jobs), "Drawing stories", len(jobs), console=PlainConsole(stderr=True))
            for job in done:
                job.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    os.environ.update(ENVIRONMENT)


def _still(folder: Path, name: str, number: int) -> None:
    """Draws the end of a Lab's story into a file of its own, unless it is there."""
    lab = next(lab for lab in LABS if lab.name == name)
    kind = getattr(moe_lab_widgets, name)
    story = kind.stories[number]
    words = re.sub(r"[^a-z0-9]+", "-", story.name.lower()).strip("-")
    path = folder / f"{lab.notebook}_{lab.name}_{number + 1}_{words[:40]}.png"
    if not path.exists():
        running = kind(**story.values)
        try:
            running.wait()
            write_whole(path, running.png())
        finally:
            running.close()


if __name__ == "__main__":
    stills(Path(sys.argv[1]), sys.argv[2:])
