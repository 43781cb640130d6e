"""Sheets: boxes, words and images lie where they are put, at any scale, for Agg and for a page."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import RendererAgg

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.ink import stamp
from moe_lab_widgets.drawing.on_axes import cells, table
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import FAINTEST, fills, key

HIGH, WIDE = 60, 120
WIDER = 1 if matplotlib.__version_info__ < (3, 9) else 0  # pixels that an old matplotlib adds to a digit


def drawn(sheet: Sheet, scale: float = 1.0) -> np.ndarray:
    """(height, width, 4) the sheet over nothing, by Agg."""
    renderer = RendererAgg(round(WIDE * scale), round(HIGH * scale), 100 * scale)
    sheet.draw(renderer)
    return np.asarray(renderer.buffer_rgba())


def half_filled(colour: str, wide: int, high: int, scale: float) -> np.ndarray:
    """Paints every other column."""
    pixels = np.zeros((high, wide, 4), dtype=np.uint8)
    pixels[:, ::2] = theme.rgba(colour)
    return pixels


def span(seen: np.ndarray) -> tuple[int, int, int, int]:
    """The first and last column, and the first and last row, that hold anything."""
    rows, columns = np.nonzero(seen)
    return int(columns.min()), int(columns.max()), int(rows.min()), int(rows.max())


def test_boxes_are_cut_at_the_edge_and_never_vanish() -> None:
    sheet = Sheet()
    sheet.box(10, 20, 30, 40, theme.INK)
    assert span(drawn(sheet)[..., 3]) == (10, 29, 20, 39)
    assert span(drawn(sheet, 1.5)[..., 3]) == (15, 44, 30, 59)
    sheet = Sheet()
    sheet.box(-5, -5, 500, 1, theme.INK)
    assert span(drawn(sheet)[..., 3]) == (0, WIDE - 1, 0, 0)
    sheet = Sheet()
    sheet.box(10, 20, 10.2, 20.2, theme.INK)
    sheet.box(50, 20, 60, 30, "none")
    assert (drawn(sheet)[..., 3] > 0).sum() == 1


@pytest.mark.parametrize("scale", [1.0, 1.25, 1.5, 2.0])
def test_frames_and_gaps_are_equally_thick_everywhere(scale: float) -> None:
    sheet = Sheet()
    places = [(10 + 13.7 * column, 10 + 12.4 * row) for row in range(3) for column in range(7)]
    sheet.add([(left, top, left + 13.7, top + 12.4, 0, 0, -1, -1) for left, top in places], fills(np.ones((3, 7)))[0])
    row = drawn(sheet, scale)[round(15 * scale), :, 3] > 0
    edges = np.flatnonzero(np.diff(row.astype(int)))
    assert set(edges[2::2] - edges[1:-1:2]) == {max(round(scale), 1)}
    sheet = Sheet()
    sheet.frame(10.3, 10.3, 40.6, 30.6, theme.INK)
    seen = drawn(sheet, scale)[..., 3] > 0
    left, right, top, bottom = span(seen)
    thick = max(round(scale), 1)
    inner = seen[top + thick : bottom + 1 - thick, left + thick : right + 1 - thick]
    assert not inner.any() and seen.sum() == (right - left + 1) * (bottom - top + 1) - inner.size


def test_words_stand_where_they_are_told() -> None:
    sheet = Sheet()
    for ha, low, high in (("left", 60, 68), ("center", 56, 64), ("right", 52, 60)):
        sheet = Sheet()
        sheet.write(60, 30, "8", ha, bold=True)
        left, right, top, bottom = span(drawn(sheet)[..., 3] > 60)
        assert low - WIDER <= left and right <= high + WIDER and abs((top + bottom) / 2 - 30) < 2.5
    sheet = Sheet()
    sheet.write(-90, -40, "outside")
    assert sheet.words == ["outside"] and not drawn(sheet)[..., 3].any()
    sheet = Sheet()
    box = sheet.add([(20, 10, 60, 50, 0, 0, 0, 0)])
    sheet.label(box, "88", size=9.5, colour=theme.INK)
    left, right, top, bottom = span(drawn(sheet)[..., 3])
    assert abs((left + right) / 2 - 39.5) <= 0.5 and abs((top + bottom) / 2 - 29.5) <= 0.5


def test_words_share_a_base_line() -> None:
    bottoms, sheet = set(), Sheet()
    for words in ("a", "b", "ab"):
        sheet = Sheet()
        sheet.write(10, 15, words)
        bottoms.add(span(drawn(sheet)[..., 3] > 100)[3])
    assert len(bottoms) == 1


def test_sheets_of_equal_content_are_known_as_such() -> None:
    def made(end: float, words: str) -> Sheet:
        sheet = Sheet()
        sheet.box(0, 0, end, 10, theme.INK)
        sheet.image(0, 20, 10, 30, half_filled, theme.INK)
        sheet.write(20, 20, words)
        return sheet

    assert made(10, "1").content() == made(10, "1").content()
    assert made(10, "1").content() != made(11, "1").content() and made(10, "1").content() != made(10, "2").content()


def test_images_fill_their_place_and_lie_below_boxes() -> None:
    sheet = Sheet()
    sheet.box(10, 10, 50, 12, theme.FAILURE)
    sheet.image(10, 10, 50, 50, half_filled, theme.INK)
    seen = drawn(sheet)
    assert 0.4 < (seen[12:50, 10:50, 3] > 0).mean() < 0.6
    assert (seen[10:12, 10:50] == theme.rgba(theme.FAILURE)).all()


class Page(RendererAgg):
    """What a recording renderer is asked for."""

    def __init__(self, scale: float) -> None:
        super().__init__(round(WIDE * scale), round(HIGH * scale), 100 * scale)
        self.pixels = np.zeros((self.height, self.width, 4), dtype=np.uint8)
        self.pixels[..., :3] = theme.rgba(theme.PAPER)[:3]

    def boxes(self, boxes: Any, colours: Any) -> None:
        for (left, top, wide, high), colour in zip(boxes, colours.view(np.uint8).reshape(-1, 4), strict=True):
            self.pixels[top : top + high, left : left + wide] = colour

    def stamps(self, inks: Any, places: Any, colours: Any) -> None:
        for ink, (left, top), colour in zip(inks, places, colours.view(np.uint8).reshape(-1, 4), strict=True):
            under = self.pixels[top : top + ink.shape[0], left : left + ink.shape[1]]
            over = ink[..., None] / 255
            under[..., :3] = np.rint(under[..., :3] * (1 - over) + colour[:3] * over)

    def image(self, left: int, top: int, pixels: np.ndarray) -> None:
        self.pixels[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_a_page_and_agg_are_given_the_same(scale: float) -> None:
    sheet = Sheet()
    sheet.image(0, 0, 20, 20, lambda wide, high, scale: np.full((high, wide, 4), 99, dtype=np.uint8))
    shades, inks = fills(np.linspace(0, 1, 6).reshape(2, 3))
    for place, words in enumerate(["1", "22", "", "0.4", "–", "100"]):
        left, top = 20 + 30 * (place % 3), 5 + 20 * (place // 3)
        box = sheet.add([(left, top, left + 30, top + 20, 0, 0, -1, -1)], [shades[place]])
        sheet.label(box, words, size=theme.SMALL_SIZE, colour=theme.ink_on(place / 5))
    assert sheet.inks == inks
    page = Page(scale)
    sheet.draw(page)
    agg, _, _ = sheet.composed(scale, page.width, page.height)
    high, wide = agg.shape[:2]
    np.testing.assert_array_equal(agg[5:, :, :3], page.pixels[5:high, :wide, :3])


# ---- tables ----


def test_cells_are_shaded_by_the_ramp_and_empty_ones_can_be_seen() -> None:
    ax = theme.axes(theme.figure(WIDE, HIGH), 5, 5, 90, 60)
    table(ax, ["a", "b"], ["1", "2", "3"])
    shades = np.array([[0.0, 0.5, 1.0], [np.nan, -1.0, 2.0]])
    sheet: Any = cells(ax, [""] * 6, shades)
    assert sheet.parts[3] == "b, 1"
    made = drawn(sheet)
    for (left, top, *_), shade in zip(sheet.edges, np.clip(np.nan_to_num(shades), FAINTEST, 1).flat, strict=True):
        cell = made[int(top) + 1 : int(top) + 19, int(left) + 1 : int(left) + 29]
        assert (cell == cell[0, 0]).all()
        np.testing.assert_allclose(cell[0, 0].astype(int), theme.ramp(shade).astype(int), atol=3)
    assert not (theme.ramp(FAINTEST) == theme.rgba(theme.PAPER)).all()


def test_a_stamp_is_cropped_to_its_ink() -> None:
    words = stamp("88", 10, 100)
    assert 230 < words.max() <= 255 and words[:, 0].any() and words[0].any()
    assert stamp("", 10, 100).size == 0 and stamp(" ", 10, 100).size == 0


def test_a_key_shows_even_steps() -> None:
    made = key(10, 20, 3, 17, 30, 100.0)
    assert made.words == ["0", "50", "100"] and span(drawn(made)[..., 3]) == (10, 98, 20, 35)
    assert (np.diff(drawn(made)[21, 11:98:30, 0].astype(int)) < 0).all()
