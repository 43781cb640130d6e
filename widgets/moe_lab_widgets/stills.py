"""Writes the last picture of every Lab's stories:  python -m moe_lab_widgets.stills FOLDER [LAB ...]"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import moe_lab_widgets
from moe_lab.files import write_whole
from moe_lab.registry import LABS

ENVIRONMENT = {"MOE_LAB_HEADLESS": "1", "MOE_LAB_BUDGET": "3600"}
"""Trains to the end as fast as it goes, at no pace."""
MOST_WORKERS = 4  # of about half a gigabyte each


def stills(folder: Path, labs: tuple[str, ...] = ()) -> Iterator[str]:
    """Runs the stories of some Labs, all if none is named, each to its end; yields a line for each picture."""
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
            yield from (job.result() for job in jobs)
        finally:
            pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    os.environ.update(ENVIRONMENT)


def _still(folder: Path, name: str, number: int) -> str:
    """Draws the end of a Lab's story into a file of its own, unless it is there; returns a line about it."""
    lab = next(lab for lab in LABS if lab.name == name)
    kind = getattr(moe_lab_widgets, name)
    story = kind.stories[number]
    words = re.sub(r"[^a-z0-9]+", "-", story.name.lower()).strip("-")
    path = folder / f"{lab.notebook}_{lab.folder}_{number + 1}_{words[:40]}.png"
    if not path.exists():
        running = kind(**story.values)
        try:
            running.wait()
            write_whole(path, running.png())
        finally:
            running.close()
    return f"{path.name}: {story.name}"


if __name__ == "__main__":
    for line in stills(Path(sys.argv[1]), tuple(sys.argv[2:])):
        print(line, flush=True)
