"""Words as the ink that the font library lays, each made once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from matplotlib.font_manager import FontProperties, findfont, get_font
from numpy.typing import NDArray

Ink = NDArray[np.uint8]
"""(height, width) from 0 to 255."""


@lru_cache(maxsize=2048)
def stamp(words: str, size: float, dpi: float, bold: bool = False) -> Ink:
    """Returns words cropped to their ink; `size` in points."""
    if not words.strip():
        return np.zeros((0, 0), dtype=np.uint8)
    font = get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))
    font.set_size(size, dpi)
    font.set_text(words, 0.0)
    font.draw_glyphs_to_bitmap(antialiased=True)
    ink = np.asarray(font.get_image(), dtype=np.uint8)
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    return np.ascontiguousarray(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])


@lru_cache(maxsize=2048)
def line(words: str, size: float, dpi: float, bold: bool = False) -> Ink:
    """Returns words on one base line: stamps are cropped to their ink and would not share it."""
    tall = stamp("Ag|", size, dpi, bold).shape[0]
    ink = stamp(f"|{words}", size, dpi, bold)[:, stamp("|", size, dpi, bold).shape[1] :]
    columns = np.flatnonzero(ink.any(0))
    ink = ink[:, columns[0] :] if len(columns) else ink
    return np.pad(ink, ((0, max(tall - ink.shape[0], 0)), (0, 0)))
