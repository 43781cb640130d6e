"""Writes the moving picture at the top of README.md:  python -m tools.animation

Ten seconds of the router alignment Lab: its records are drawn one after the other, as in a notebook. The file says what
is written on its last frame, so that a test finds out when the Lab says something else.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.text import Text
from PIL import ExifTags, Image

from moe_lab.core.files import write_whole
from moe_lab_widgets.drawing.sheet import Sheet
from tools.outputs import ENVIRONMENT
from tools.pairs import ROOT

if TYPE_CHECKING:
    from moe_lab_widgets import Lab

FILE = ROOT / "docs" / "router_alignment.webp"
SETTINGS = {"steps": 100, "seed": 0}
WIDTH = 900
"""Pixels, about as wide as the text of a page on GitHub."""
MOVING, RESTING = 8000, 2000
"""Milliseconds of the run, and of its last frame."""
FRAMES = 50


@dataclass(frozen=True)
class Frame:
    """A picture of a run, and all that is written on it, its caption last."""

    image: Image.Image
    words: list[str]


def frames() -> list[Frame]:
    """Trains, and returns pictures of the run, each different from the one before."""
    os.environ.update(ENVIRONMENT)
    from moe_lab_widgets import RouterAlignmentLab

    lab = RouterAlignmentLab(**SETTINGS)
    try:
        lab.wait()
        last = len(lab.records) - 1
        shown = sorted(
            {round(last * (number / (FRAMES - 1)) ** 1.3) for number in range(FRAMES)}
        )  # early steps move most
        return [frame(lab, index) for index in shown]
    finally:
        lab.close()


def frame(lab: Lab, index: int) -> Frame:
    """Returns the picture of a record."""
    record = lab.records[index]
    caption = lab.caption(record)
    with lab.screen.for_a_file(record) as picture:
        image = Image.open(BytesIO(picture.png(caption))).convert("RGB")
        words = [text.get_text() for text in picture.figure.findobj(Text) if text.get_visible() and text.get_text()]
        sheets = dict.fromkeys([*picture.figure.findobj(Sheet), *picture.content()])  # of furniture and of the record
        words += [word for sheet in sheets if isinstance(sheet, Sheet) for word in sheet.words]
    height = round(image.height * WIDTH / image.width)
    return Frame(image.resize((WIDTH, height), Image.Resampling.LANCZOS), [*words, caption])


def words_of(path: Path = FILE) -> list[str]:
    """Returns what is written on the last frame of an animation, which its file says."""
    with Image.open(path) as image:
        words: list[str] = json.loads(image.getexif()[ExifTags.Base.ImageDescription])
        return words


def write(path: Path = FILE) -> int:
    """Writes the animation; returns its bytes."""
    first, *rest = frames()
    described = Image.Exif()
    described[ExifTags.Base.ImageDescription] = json.dumps(rest[-1].words)
    times = [MOVING // len(rest)] * len(rest) + [RESTING]
    made = BytesIO()
    first.image.save(
        made,
        "WEBP",
        save_all=True,
        append_images=[one.image for one in rest],
        duration=times,
        loop=0,
        quality=70,
        method=4,
        minimize_size=True,
        exif=described,
    )
    write_whole(path, made.getvalue())
    return len(made.getvalue())


if __name__ == "__main__":
    print(f"{FILE.relative_to(ROOT)}: {write() // 1000} kB")
