"""A run as a page shows it without a kernel: its frames, what each shows in words, its settings and its code."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_lab_widgets.drawing.picture import Picture, drawing_lock
from moe_lab_widgets.drawing.words import told
from moe_lab_widgets.frames.writer import FrameWriter, stage

MOST_FRAMES = 200
"""Frames of a recording; longer runs are thinned evenly."""
REACH = 16
"""Pixels from the edge of a panel within which the picture may be cut."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """See the module's text.

    Attributes:
      title: of the Lab.
      stage: what the page needs to know of the picture (see page/player.js).
      bodies: a frame each (see resources.py); read in their order.
      captions: a sentence for each frame.
      progress: how far the run was at each frame, in words.
      values: label and value of each knob, as the Lab shows them.
      code: the call that makes the run.
      still: the last frame with its caption, as PNG.
      question: what a page asks before it plays (see page/recorded.js); None for nothing.
    """

    title: str
    stage: dict[str, Any]
    bodies: tuple[bytes, ...]
    captions: tuple[str, ...]
    progress: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    code: str
    still: bytes
    question: dict[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """Returns what page/recorded.js reads, as plain data; the frames are compressed, and base64."""
        frames = base64.b64encode(gzip.compress(b"".join(self.bodies), 9, mtime=0)).decode()
        named = {name: getattr(self, name) for name in ("title", "stage", "captions", "progress", "values", "code")}
        asked: dict[str, Any] = {} if self.question is None else {"question": self.question}
        return {**named, **asked, "frames": frames}


def spread_out(count: int, most: int) -> list[int]:
    """Returns at most `most` places of `count`, evenly spread, the first and the last among them."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def cut_apart(pixels: NDArray[np.uint8], spans: Sequence[tuple[int, int]], scale: float) -> list[list[int]]:
    """Returns where to cut a picture so that panels can be stacked: near the edges of spans, where nothing is drawn.

    Labels of an axis may begin a little to the left of their panel.

    Args:
      pixels: (height, width, 4).
      spans: left and right of the panels, at scale 1.
    """
    blank = (pixels[..., :3] == pixels[0, 0, :3]).all(axis=(0, 2))
    cuts = []
    for _, edge in spans[:-1]:
        near = sorted(range(edge - REACH, edge + REACH + 1), key=lambda place: abs(place - edge))
        free = (place for place in near if blank[round((place - 1) * scale) : round((place + 2) * scale)].all())
        cuts.append(next(free, edge))
    edges = [spans[0][0], *cuts, spans[-1][1]] if spans else []
    return [list(span) for span in pairwise(edges)]


def film(
    picture: Picture,
    records: Sequence[Any],
    caption: Callable[[Any], str],
    progress: Callable[[Any], str],
    shown: Any,
    most: int = MOST_FRAMES,
) -> Recording:
    """Draws records one after the other; title, values and code are left empty.

    Args:
      picture: begun with the values of the run.
      records: of the run, at least one.
      caption, progress: describe a record, and say how far the run is there.
      shown: the record that the picture holds, which it holds again afterwards; None for none.
      most: bounds the frames, at least 2.
    """
    kept = [records[place] for place in spread_out(len(records), most)]
    captions = tuple(caption(record) for record in kept)
    with drawing_lock:  # for all of it: a run that begins meanwhile would change the limits
        writer = FrameWriter(picture)
        bodies = []
        for number, record in enumerate(kept):
            picture.update(record)
            if writer.full:
                writer = FrameWriter(picture)
            bodies.append(writer.frame(number))
        still = picture.png(told(progress(kept[-1]), captions[-1]))
        if shown is not None:
            picture.update(shown)
        on = stage(picture, cut_apart(picture.pixels(), picture.spans, picture.scale))
    far = tuple(progress(record) for record in kept)
    return Recording(
        title="", stage=on, bodies=tuple(bodies), captions=captions, progress=far, values=(), code="", still=still
    )


def described(recording: Recording, title: str, values: Sequence[tuple[str, str]], code: str) -> Recording:
    """Returns a recording with its title, the values of its knobs, and its code."""
    return replace(recording, title=title, values=tuple(values), code=code)
