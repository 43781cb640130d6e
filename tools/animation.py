"""Writes the moving picture at the top of README.md:  python -m tools.animation

Ten seconds of the router alignment Lab: its records are drawn one after the other, as in a notebook.
"""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

from PIL import Image

from moe_lab.core.files import write_whole
from tools.outputs import ENVIRONMENT
from tools.pairs import ROOT

FILE = ROOT / "docs" / "router_alignment.webp"
SETTINGS = {"steps": 100, "seed": 0}
WIDTH = 900
"""Pixels, about as wide as the text of a page on GitHub."""
MOVING, RESTING = 8000, 2000
"""Milliseconds of the run, and of its last frame."""
FRAMES = 50


def frames() -> list[Image.Image]:
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
        return [_picture(lab, index) for index in shown]
    finally:
        lab.close()


def _picture(lab: object, index: int) -> Image.Image:
    record = lab.records[index]  # type: ignore[attr-defined]
    with lab.screen.for_a_file(record) as picture:  # type: ignore[attr-defined]
        png = picture.png(lab.caption(record))  # type: ignore[attr-defined]
    image = Image.open(BytesIO(png)).convert("RGB")
    return image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)


def write(path: Path = FILE) -> int:
    """Writes the animation; returns its bytes."""
    first, *rest = frames()
    times = [MOVING // len(rest)] * len(rest) + [RESTING]
    made = BytesIO()
    first.save(
        made,
        "WEBP",
        save_all=True,
        append_images=rest,
        duration=times,
        loop=0,
        quality=70,
        method=4,
        minimize_size=True,
    )
    write_whole(path, made.getvalue())
    return len(made.getvalue())


if __name__ == "__main__":
    print(f"{FILE.relative_to(ROOT)}: {write() // 1000} kB")
