"""`play`: a Dataset with steps as a moving picture in the notebook, with a time slider, which needs no kernel.

The output holds its frames, so that a stored notebook and the course's site play it too. Where scripts of an output do
not run, as in a notebook that somebody else has run, it is the picture of the last step with its caption.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xarray as xr

from moe_lab.core.files import write_whole
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.frames.document import document, part
from moe_lab_widgets.frames.module import recorded_source
from moe_lab_widgets.frames.recording import Recording, described, film
from moe_lab_widgets.pulls import GAP, HEIGHTS, MARGINS, Pulls, caption, draw, furnish, prepared
from moe_lab_widgets.pulls import NOTE as NOTE_ON_SCALE

TITLE = "What pulls each router"
NOTE = "Press Play, or drag the time slider; its arrow keys move by one step."
FRAMES_PER_SECOND = 8
SMALLEST = 0.72
"""The scale below which panels are stacked: JupyterLab with its file browser leaves .8 of their width of 1366."""
_IMPORTS = """from moe_lab.patch_routing import DigitTask, JointMoE, PatternTask
from moe_lab.patch_routing.pulls import router_pulls
from moe_lab_widgets import play
"""


def _panel(pulls: Pulls, column: int) -> Panel:
    return Panel(
        f"Expert {pulls.experts[column]}",
        lambda axes, step: draw(axes, pulls, column, step),
        lambda axes, values: furnish(axes, pulls, column),
        "" if column else NOTE_ON_SCALE,
        margins=MARGINS,
        rows=HEIGHTS,
        gap=GAP,
    )


@dataclass(frozen=True)
class Played:
    """What `play` returns; it displays itself at the end of a cell."""

    recording: Recording

    def __repr__(self) -> str:
        return self.recording.captions[-1]

    def _repr_html_(self) -> str:
        return f"{part(self.recording)}\n<script>{recorded_source()}</script>"

    def save(self, path: Path | str) -> Path:
        """Writes it as a page that needs nothing from elsewhere."""
        write_whole(Path(path), document(self.recording))
        return Path(path)


def play(pulls: xr.Dataset, scale: float = 1.0) -> Played:
    """Shows what `moe_lab.patch_routing.pulls.router_pulls` returns as a moving picture.

    Args:
      pulls: of at most four experts and 200 steps; of more steps, 200 are shown.
      scale: of the still picture; the moving one is as wide as the page.

    Raises:
      ValueError: pulls is something else, or has more experts.
    """
    drawn = prepared(pulls)
    picture = Picture([_panel(drawn, column) for column in range(len(drawn.experts))], scale=scale)
    picture.begin({})
    try:
        last = drawn.steps[-1]
        told = lambda step: f"step {step} of {last}"  # noqa: E731
        shown = film(picture, drawn.steps, lambda step: caption(pulls, step), told, None)
    finally:
        picture.close()
    shown = replace(shown, stage={**shown.stage, "rate": FRAMES_PER_SECOND, "smallest": SMALLEST})
    return Played(described(shown, TITLE, _values(pulls), f"{_IMPORTS}\nplay({pulls.attrs['call']})"))


def _values(pulls: xr.Dataset) -> list[tuple[str, str]]:
    run: dict[str, Any] = json.loads(pulls.attrs["config"])
    numbers = {
        "k, experts": run["model"]["experts"],
        "l, patches each expert keeps": run["model"]["patches_per_expert"],
    }
    numbers |= {"N, training samples": run["samples"], "trial": run["first_trial"], "seed": run["seed"]}
    return [(label, str(number)) for label, number in numbers.items()]
