"""The look: colours that can be told apart, labels that do not collide, and pictures without pyplot."""

from __future__ import annotations

import itertools
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from scipy.optimize import isotonic_regression

from moe_lab.drawing import theme


def _luminance(colour: str) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    parts = theme.rgba(colour)[:3] / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(one: str, other: str) -> float:
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


# Simulations of colour vision by Machado, Oliveira and Fernandes (2009), severity 1, in linear RGB.
_VISION = {
    "usual": np.eye(3),
    "no red cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no blue cones": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def _lab(colour: str, vision: str) -> np.ndarray:
    """CIE L*a*b* of a colour as seen with one kind of vision."""
    parts = theme.rgba(colour)[:3] / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(_VISION[vision]) @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(to_xyz @ seen / [0.9505, 1, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", _VISION)
def test_colours_of_one_picture_can_be_told_apart(vision: str) -> None:
    colours = [*theme.CLASSES, *(style.colour for style in theme.EXPERTS[:4]), theme.INK, theme.REFERENCE]
    distances = [np.linalg.norm(_lab(a, vision) - _lab(b, vision)) for a, b in itertools.combinations(colours, 2)]
    assert min(distances) > 12


def test_text_can_be_read() -> None:
    for colour in (theme.INK, theme.MUTED, *theme.CLASSES[:1]):
        assert _contrast(colour, theme.PAPER) >= 4.5
    for style in theme.EXPERTS:
        assert _contrast(style.on, style.colour) >= 4.5
    for value in np.linspace(0, 1, 21):
        ground = "#{:02x}{:02x}{:02x}".format(*theme.ramp(value)[:3])
        assert _contrast(theme.ink_on(value), ground) >= 3


def test_experts_have_a_second_cue() -> None:
    assert len({(style.colour, style.marker) for style in theme.EXPERTS}) == 8
    assert len({style.marker for style in theme.EXPERTS}) == 8
    assert theme.expert(9) == theme.EXPERTS[1]


def test_ramp_runs_from_paper_to_dark_and_only_gets_darker() -> None:
    colours = theme.ramp(np.linspace(0, 1, 50))
    assert colours.shape == (50, 4) and colours.dtype == np.uint8
    assert tuple(colours[0]) == tuple(theme.rgba(theme.PAPER))
    assert np.all(np.diff(colours[:, :3].sum(1).astype(int)) <= 0)
    assert tuple(theme.ramp(np.nan)) == tuple(theme.rgba(theme.PAPER))
    assert tuple(theme.ramp(7.0)) == tuple(theme.ramp(1.0))


@pytest.mark.parametrize("size", [9, 16, 24, 36])
def test_tiles_of_different_meaning_differ_even_in_grey(size: int) -> None:
    tiles = [theme.tile(role, side, size) for role in ("signal", "distractor") for side in (0, 1)]
    tiles.append(theme.tile("background", 0, size))
    assert all(tile.shape == (size, size, 4) and (tile[..., 3] == 255).all() for tile in tiles)
    patterns = [tile[..., :3].mean(-1) for tile in tiles]
    for one, other in itertools.combinations(patterns, 2):
        assert (np.abs(one - other) > 8).mean() > 0.05
    white = [(tile[size // 2, :, :3] == 255).all(-1) for tile in tiles[:2]]
    bars = [int((np.diff(np.r_[False, row].astype(int)) == 1).sum()) for row in white]
    assert bars == [1, 2]


def test_tile_says_which_roles_there_are() -> None:
    with pytest.raises(ValueError, match=r"role must be .* got role='noise'"):
        theme.tile("noise", 0)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(-100, 100), max_size=12), st.floats(0.1, 20))
def test_spread_keeps_gap_and_order(wanted: list[float], gap: float) -> None:
    places = theme.spread(wanted, gap)
    order = np.argsort(wanted, kind="stable")
    assert np.all(np.diff(places[order]) >= gap - 1e-6)
    if len(wanted) == 1 or (len(wanted) > 1 and np.diff(np.sort(wanted)).min() > gap):
        np.testing.assert_allclose(places, wanted, atol=1e-9)


def test_spread_is_the_nearest_arrangement() -> None:
    np.testing.assert_allclose(theme.spread([5, 5], 2), [4, 6])
    np.testing.assert_allclose(theme.spread([0, 1, 10], 4), [-1.5, 2.5, 10])
    np.testing.assert_allclose(theme.spread([9, 9.5, 0], 2, 0, 10), [8, 10, 0])
    np.testing.assert_allclose(theme.spread([5, 5, 5], 8, 0, 10), [0, 5, 10])  # too little room: shared evenly
    assert theme.spread([], 1).shape == (0,)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12), st.floats(0.1, 20))
def test_spread_is_an_isotonic_regression(wanted: list[float], gap: float) -> None:
    steps = gap * np.arange(len(wanted))
    nearest = isotonic_regression(np.sort(wanted) - steps).x + steps
    np.testing.assert_allclose(np.sort(theme.spread(wanted, gap)), nearest, rtol=1e-12, atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=8))
def test_marks_are_pushed_apart(points: list[tuple[float, float]]) -> None:
    moved = theme.push_apart(points, 0.2, rounds=500)
    for i, j in itertools.combinations(range(len(points)), 2):
        assert np.hypot(*(moved[i] - moved[j])) >= 0.19
    assert np.isfinite(moved).all()


def test_marks_on_one_spot_part() -> None:
    moved = theme.push_apart([(0, 0)] * 8, 0.2, rounds=500)
    assert min(np.hypot(*(a - b)) for a, b in itertools.combinations(moved, 2)) >= 0.19


def test_end_labels_do_not_overlap() -> None:
    figure = theme.figure()
    axes = theme.axes(figure, 60, 100, 300, 290)
    axes.set(xlim=(0, 10), ylim=(0, 1))
    texts = theme.end_labels(axes, [(0.5, "pMoE", theme.INK), (0.51, "CNN", theme.REFERENCE), (0.99, "top", theme.INK)])
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in itertools.pairwise(boxes))


def test_a_figure_shows_itself_in_a_notebook() -> None:
    """IPython asks for this; without pyplot nothing else would show it."""
    shown = theme.figure(300, 200, 1.5)._repr_png_()
    pixels = imread(BytesIO(shown), format="png")
    assert pixels.shape[:2] == (300, 450)
    np.testing.assert_allclose(255 * pixels[0, 0], theme.rgba(theme.PAPER), atol=0.5)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_positions_are_pixels_from_the_top_left(scale: float) -> None:
    figure = theme.figure(scale=scale)
    assert tuple(figure.get_size_inches() * figure.dpi) == pytest.approx((1100 * scale, 480 * scale))
    axes = theme.axes(figure, 60, 100, 300, 200)
    box = axes.get_window_extent()
    assert (box.x0, box.y1) == pytest.approx((60 * scale, (480 - 100) * scale))
    assert (box.width, box.height) == pytest.approx((300 * scale, 200 * scale))
    assert axes.get_facecolor()[3] == 1 and figure.get_facecolor()[3] == 1


@pytest.mark.parametrize("words", [3, 24, 60])
def test_a_caption_stays_in_the_picture(words: int) -> None:
    figure = theme.figure()
    _, text = theme.caption(figure, " ".join(["coverage"] * words))
    box = text.get_window_extent()
    assert box.x0 >= 0 and (box.x1 <= 1100 or words == 60) and box.y0 >= -1 and box.y1 <= 33


def test_the_look_needs_neither_pyplot_nor_widgets() -> None:
    probe = (
        "import sys, moe_lab.drawing.theme; print([n for n in ('matplotlib.pyplot', 'ipywidgets') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
