"""Words as the ink that the font library lays, each made once."""

from __future__ import annotations

import threading
from functools import lru_cache

import numpy as np
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

Ink = NDArray[np.uint8]
"""(height, width) from 0 to 255."""
_one_at_a_time = threading.Lock()


@lru_cache(maxsize=2048)
def stamp(words: str, size: float, dpi: float, bold: bool = False) -> Ink:
    """Returns words cropped to their ink; `size` in points."""
    if not words.strip():
        return np.zeros((0, 0), dtype=np.uint8)
    font = _font(size, dpi, bold)
    with _one_at_a_time:  # a font holds one text
        font.set_text(words, 0.0)
        font.draw_glyphs_to_bitmap(antialiased=True)
        ink = np.array(font.get_image(), dtype=np.uint8)
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    return np.ascontiguousarray(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])


@lru_cache(maxsize=2048)
def line(words: str, size: float, dpi: float, bold: bool = False) -> Ink:
    """Returns words on one base line: stamps are cropped to their ink and would not share it."""
    tall = stamp("Ag|", size, dpi, bold).shape[0]
    ink = stamp(f"|{words}", size, dpi, bold)[:, stamp("|", size, dpi, bold).shape[1] :]
    columns = np.flatnonzero(ink.any(0))
    ink = ink[:, columns[0] :] if len(columns) else ink
    padded = np.zeros((max(tall, ink.shape[0]), ink.shape[1]), dtype=np.uint8)
    padded[: ink.shape[0]] = ink
    return padded


@lru_cache(maxsize=32)
def _font(size: float, dpi: float, bold: bool) -> FT2Font:
    """Returns a font of one size: to change the size of a font takes longer than to draw some words with it."""
    file = findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal"))
    font = FT2Font(file)
    font.set_size(size, dpi)
    return font


@lru_cache(maxsize=64)
def glyph(words: str) -> Path:
    """Returns words as a centred marker, which costs a tenth of a Text."""
    path = TextPath((0, 0), words, size=1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = path.get_extents()
    scale = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2).scale(1 / max(box.width, box.height))
    return scale.transform_path(path)
