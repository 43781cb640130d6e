"""Writes the last picture of every Lab's stories:  python -m moe_lab_widgets.stills FOLDER [LAB ...]"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import moe_lab_widgets
from moe_lab.files import write_whole
from moe_lab.registry import LABS


def stills(folder: Path, labs: tuple[str, ...] = ()) -> Iterator[str]:
    """Runs the stories of some Labs, all if none is named, each to its end; yields a line for each picture."""
    folder.mkdir(parents=True, exist_ok=True)
    for lab in LABS:
        if labs and lab.name not in labs:
            continue
        kind = getattr(moe_lab_widgets, lab.name)
        for number, story in enumerate(kind.stories, 1):
            name = re.sub(r"[^a-z0-9]+", "-", story.name.lower()).strip("-")
            path = folder / f"{lab.notebook}_{lab.folder}_{number}_{name[:40]}.png"
            if not path.exists():
                running = kind(**story.values)
                try:
                    running.wait()
                    write_whole(path, running.png())
                finally:
                    running.close()
            yield f"{path.name}: {story.name}"


if __name__ == "__main__":
    for line in stills(Path(sys.argv[1]), tuple(sys.argv[2:])):
        print(line, flush=True)
