"""The recorded Labs as parts of the site's pages, and the files that these load when a run is chosen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moe_lab.core.files import write_whole
from moe_lab.registry import LABS, NOTEBOOKS
from moe_lab_widgets.engine.recording import in_words
from moe_lab_widgets.frames.document import in_script, part
from moe_lab_widgets.frames.module import recorded_source
from tools.live_pages import live
from tools.recordings import CACHE, Run, Show, complete, kind_of

FOLDER = "recordings"
SCRIPT = f'<script src="{FOLDER}/player.js" defer></script>'
SLIDERS = "Move the sliders"
SNAP = (
    "Recorded: the sliders snap to the settings that were recorded, and show the end of each run. "
    "Open the notebook to train with any other."
)
HEADING = "# The Labs"
OPENING = """Labs below which *Live* stands train in your browser. Of the others, runs were recorded: choose one, play
it, and drag the time slider. No kernel and no network is needed. To train those with settings of your own, open the
notebook."""
# This page has no use for a table of contents beside the pictures, which need its place.
WIDE = """```{raw} html
<style>
.bd-sidebar-secondary { display: none !important; }
.bd-main .bd-content .bd-article-container { max-width: 1180px !important; padding-inline: 8px; }
</style>
```"""


@dataclass(frozen=True)
class Recorded:
    """What was recorded for a site.

    Attributes:
      shows: by the name of their Lab.
      cache: the folder of the recordings.
    """

    shows: Mapping[str, Show] = field(default_factory=dict)
    cache: Path = CACHE

    def plain(self, run: Run) -> dict[str, Any]:
        """Returns a recording as it was stored."""
        stored: dict[str, Any] = json.loads((self.cache / f"{run.key}.json").read_text(encoding="utf-8"))
        return stored

    def html(self, lab: str, note: str, first: Run | None = None, *, script: bool = True) -> str:
        """Returns the part of a page with the runs of a Lab, `first` (or its first story) at the top of the list."""
        show = self.shows[lab]
        stories = list(show.stories)
        if first is not None:
            named = next(story for story in stories if story.key == first.key)
            stories = [named, *(story for story in stories if story is not named)]
        made = part(self.plain(stories[0]), f"{FOLDER}/{stories[0].key}.png", catalogue(show, stories), note)
        return f"{made}\n{SCRIPT}" if script else made

    def write(self, folder: Path) -> None:
        """Writes the player, and a script and a picture for each run."""
        folder.mkdir()
        write_whole(folder / "player.js", recorded_source().encode())
        for key in {run.key for show in self.shows.values() for run in show.runs}:
            plain = json.loads((self.cache / f"{key}.json").read_text(encoding="utf-8"))
            script = f"moeLabRecorded({in_script(_file(key))},{in_script(plain)});\n"
            write_whole(folder / f"{key}.js", script.encode())
            shutil.copyfile(self.cache / f"{key}.png", folder / f"{key}.png")

    def covers(self, run: Run) -> bool:
        """Whether a run is among those that are shown."""
        return run.lab in self.shows and run.key in {one.key for one in self.shows[run.lab].stories}


def _file(key: str) -> str:
    return f"{FOLDER}/{key}.js"


def catalogue(show: Show, stories: Iterable[Run]) -> dict[str, Any]:
    """Returns what page/recorded.js offers to choose from."""
    runs = [{"name": run.name, "see": run.see, "file": _file(run.key), "values": dict(run.values)} for run in stories]
    if not show.grid:
        return {"lab": show.lab, "runs": runs}
    axes = show.axes
    knobs = {knob.name: knob for knob in kind_of(show.lab).knobs}
    grid = {
        "name": SLIDERS,
        "see": SNAP,
        "knobs": [
            {"label": knobs[name].label, "words": [in_words(knobs[name], value) for value in values]}
            for name, values in axes.items()
        ],
        "start": [_place(values, knobs[name].default) for name, values in axes.items()],
        "names": list(axes),
        "axes": [list(values) for values in axes.values()],
        "values": dict(next(iter(show.grid.values())).values),
        "files": {",".join(map(str, place)): _file(run.key) for place, run in show.grid.items()},
    }
    return {"lab": show.lab, "runs": runs, "grid": grid}


def _place(values: tuple[Any, ...], value: Any) -> int:
    return values.index(value) if value in values else 0


def labs_page(recorded: Recorded) -> str:
    """Returns a page with the live Labs and the recorded ones, in the order of the course."""
    parts, script = [WIDE, HEADING, OPENING], True
    titles = {notebook.number: notebook for notebook in NOTEBOOKS}
    for lab in LABS:
        opened = f'<a href="{titles[lab.notebook].stem}.html">open the notebook</a>'
        if lab.page:
            shown = live(lab.name, complete(lab.name, {}), f"Live; {opened} to read about it.")
        elif lab.name in recorded.shows:
            shown, script = recorded.html(lab.name, f"Recorded; {opened} to train.", script=script), False
        else:
            continue
        parts += [f"## {kind_of(lab.name).title}\n\n```{{raw}} html\n{shown}\n```"]
    return "\n\n".join(parts) + "\n"
