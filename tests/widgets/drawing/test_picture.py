"""A live picture: what stands still is drawn once, what moves is drawn each frame, and the file is the same picture."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from moe_lab import theme
from moe_lab_widgets.drawing.picture import Picture, Strip, encode


def _decode(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


class Moving(Picture):
    """A line that the record moves, beside still things."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale=scale)
        theme.header(self.figure, 14, 1, "A line", "that moves")
        self.axes = theme.axes(self.figure, 60, 100, 280, 290)
        self.axes.set(xlim=(0, 10), ylim=(0, 1), xlabel="step")
        self.line = self.live(self.axes.plot([], [], color=theme.INK, linewidth=3)[0])
        self.strip = self.live(Strip(400, 120, zoom=3))
        self.backgrounds = 0

    def update(self, record: float) -> None:
        self.line.set_data([0, 10], [record, record])
        self.strip.set_pixels(np.concatenate([theme.tile("signal", 0, 12), theme.tile("signal", 1, 12)], axis=1))

    def background(self) -> Any:
        self.backgrounds += self._background is None
        return super().background()


def drawn(picture: Picture, record: float) -> np.ndarray:
    """A frame."""
    picture.show(record)
    return picture.pixels()[..., :3].copy()


@pytest.mark.parametrize("channels", [3, 4])
def test_encode_is_a_lossless_png(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (37, 53, channels), dtype=np.uint8)
    np.testing.assert_array_equal(_decode(encode(pixels)), pixels[..., :3])


def test_a_frame_by_blitting_equals_a_full_drawing() -> None:
    fast, slow = Moving(), Moving()
    for record in (0.2, 0.9, 0.5):
        slow.invalidate()
        np.testing.assert_array_equal(drawn(fast, record), drawn(slow, record))
    assert (fast.backgrounds, slow.backgrounds) == (1, 3)


def test_what_moved_away_leaves_no_trace() -> None:
    picture = Moving()
    frames = [drawn(picture, record).tobytes() for record in (0.2, 0.9, 0.2)]
    assert frames[0] == frames[2] != frames[1]


def test_limits_redraw_the_background_only_when_they_differ() -> None:
    picture = Moving()
    drawn(picture, 0.5)
    picture.limits(picture.axes, x=(0, 10), y=(0, 1))
    drawn(picture, 0.5)
    assert picture.backgrounds == 1
    picture.limits(picture.axes, x=(0, 20))
    drawn(picture, 0.5)
    assert picture.backgrounds == 2 and picture.axes.get_xlim() == (0, 20)


def test_a_strip_shows_its_pixels_as_they_are() -> None:
    shown = drawn(Moving(), 0.5)[120 : 120 + 36, 400 : 400 + 72]
    tiles = np.concatenate([theme.tile("signal", 0, 12), theme.tile("signal", 1, 12)], axis=1)[..., :3]
    np.testing.assert_array_equal(shown, tiles.repeat(3, axis=0).repeat(3, axis=1))


@pytest.mark.parametrize(("scale", "size"), [(1.0, (448, 1100, 3)), (1.5, (672, 1650, 3))])
def test_size_is_fixed(scale: float, size: tuple[int, int, int]) -> None:
    picture = Moving(scale)
    assert drawn(picture, 0.5).shape == size
    assert _decode(picture.png("A sentence.")).shape == (round(480 * scale), size[1], 3)


def test_the_file_holds_the_same_picture_and_the_caption() -> None:
    picture = Moving()
    before = drawn(picture, 0.5)
    whole, plain = _decode(picture.png("Step 5: the line stands at 0.5.")), _decode(picture.png(""))
    np.testing.assert_array_equal(whole[:447], before[:447])
    assert (whole[450:] != plain[450:]).any(-1).sum() > 200
    assert (drawn(picture, 0.5) == before).all(), "the caption must not stay in the live picture"


def test_a_failing_update_leaves_the_last_good_picture() -> None:
    picture = Moving()
    before = drawn(picture, 0.5)
    with pytest.raises((TypeError, ValueError)):
        drawn(picture, "not a number")  # type: ignore[arg-type]
    np.testing.assert_array_equal(drawn(picture, 0.5), before)


def test_remove_takes_away_an_artist() -> None:
    picture = Moving()
    with_line = drawn(picture, 0.5)
    picture.remove(picture.line)
    assert (drawn(picture, 0.5) != with_line).any()


def test_a_picture_can_be_made_larger_at_any_time() -> None:
    live, large = Moving(), Moving(1.5)
    small = drawn(live, 0.5)
    live.set_scale(1.5)
    assert (live.scale, live.foot) == (1.5, 48)
    np.testing.assert_array_equal(drawn(live, 0.5), drawn(large, 0.5))
    assert live.png("A sentence.") == large.png("A sentence.")
    live.set_scale(1.0)
    np.testing.assert_array_equal(drawn(live, 0.5), small)


def test_no_pyplot() -> None:
    assert Moving().figure.canvas.manager is None
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_close_frees_the_figure() -> None:
    import gc
    import weakref

    picture = Moving()
    drawn(picture, 0.5)
    gone = weakref.ref(picture.figure)
    picture.close()
    del picture
    gc.collect()
    assert gone() is None
