"""A live picture: what stands still is drawn once, what moves is drawn each frame, and the file is the same picture."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.picture import Picture, encode
from moe_lab_widgets.drawing.sheet import Strip


def _decode(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


class Level:
    """A record: how high a line lies."""

    def __init__(self, height: float) -> None:
        self.height = height


TILES = (
    np.concatenate([theme.tile("signal", 0, 12), theme.tile("signal", 1, 12)], axis=1)
    .repeat(3, axis=0)
    .repeat(3, axis=1)
)


def furnish(ax: Any, values: Any) -> None:
    ax.set(xlim=(0, values["steps"]), ylim=(0, 1), xlabel="step")


def draw(ax: Any, now: Level) -> None:
    ax.plot([0, 10], [now.height, now.height], color=theme.INK, linewidth=3, label="a line")
    ax.add_artist(Strip(400, 120, TILES))


class Moving(Picture):
    """A line that the record moves, beside still things."""

    def __init__(self, scale: float = 1.0) -> None:
        panels = (
            Panel("A line", draw, furnish, "that moves", 400, (60, 60, 100, 58)),
            Panel("Empty", lambda ax, now: None, width=700, margins=(40, 20, 60, 40)),
        )
        super().__init__(panels, scale)
        self.begin({"steps": 10})


def drawn(picture: Picture, record: float) -> np.ndarray:
    """A frame."""
    picture.show(Level(record))
    return picture.pixels()[..., :3].copy()


@pytest.mark.parametrize("channels", [3, 4])
def test_encode_is_a_lossless_png(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (37, 53, channels), dtype=np.uint8)
    np.testing.assert_array_equal(_decode(encode(pixels)), pixels[..., :3])


def test_a_frame_over_known_furniture_equals_a_full_drawing() -> None:
    fast = Moving()
    for record in (0.2, 0.9, 0.5):
        np.testing.assert_array_equal(drawn(fast, record), drawn(Moving(), record))


def test_what_moved_away_leaves_no_trace() -> None:
    picture = Moving()
    frames = [drawn(picture, record).tobytes() for record in (0.2, 0.9, 0.2)]
    assert frames[0] == frames[2] != frames[1]


def test_a_strip_shows_its_pixels_as_they_are() -> None:
    shown = drawn(Moving(), 0.5)[120 : 120 + 36, 400 : 400 + 72]
    np.testing.assert_array_equal(shown, TILES[..., :3])


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
    with pytest.raises(AttributeError):
        picture.show(object())
    np.testing.assert_array_equal(drawn(picture, 0.5), before)


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
