"""What holds for the picture of every table and figure: it only draws, can be read, and bears what a run may bring.

Rooms test which numbers are drawn where, and what their captions say.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
import xarray as xr
from matplotlib import _pylab_helpers
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch.utils._python_dispatch import TorchDispatchMode

from moe_lab.drawing import theme
from tests.figures.cases import DRAWN, Case, each
from tests.helpers.on_axes import rendered
from tests.helpers.user_style import users_style

WIDE = 1100
EACH = each(DRAWN)
EACH_WITH_TRIALS = each({name: case for name, case in DRAWN.items() if case.several is not None})


class NoTensors(TorchDispatchMode):
    """Refuses every operation of torch: nothing can train meanwhile."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{operation} while drawing")


@contextmanager
def only_drawing() -> Iterator[None]:
    """Nothing trains, and matplotlib's settings, its open figures and the random numbers stay as they are."""
    settings, chance = dict(matplotlib.rcParams), (np.random.get_state()[1].tolist(), torch.get_rng_state())
    managers = set(_pylab_helpers.Gcf.figs)
    with NoTensors():
        yield
    assert dict(matplotlib.rcParams) == settings and set(_pylab_helpers.Gcf.figs) == managers
    assert np.random.get_state()[1].tolist() == chance[0] and torch.equal(torch.get_rng_state(), chance[1])


@functools.cache
def page_of(name: str) -> tuple[Figure, np.ndarray]:
    """The picture of a figure and its pixels, drawn once for all who only look."""
    case = DRAWN[name]
    assert case.pictures is not None
    page = case.pictures.picture(case.shown)
    return page, rendered(page)


@pytest.fixture(params=DRAWN)
def page(request: pytest.FixtureRequest) -> Figure:
    return page_of(request.param)[0]


def words_of(page: Figure) -> list[Text]:
    """All texts that show: matplotlib keeps those of ticks outside the limits too, and does not draw them."""
    found = list(page.texts)
    for axes in page.axes:
        found += [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            if axis.get_visible() and axes.axison:
                ticks = [tick for tick in axis.get_major_ticks() if min(limits) <= tick.get_loc() <= max(limits)]
                found += [tick.label1 for tick in ticks]
    return [text for text in found if text.get_text().strip() and text.get_visible()]


def caption(case: Case, data: xr.Dataset) -> str:
    assert case.pictures is not None
    return case.pictures.caption(data)


def without(data: xr.Dataset, axis: str, places: slice) -> xr.Dataset:
    """A Dataset some of whose trials have diverged: what is measured of them is NaN."""
    lost = {
        name: data[name].where(~data[axis].isin(data[axis][places])).transpose(*data[name].dims)
        for name in data.data_vars
        if axis in data[name].dims and data[name].dtype.kind == "f"
    }
    return data.assign(lost)


@EACH
def test_it_only_draws_and_draws_the_same_again(case: Case, request: pytest.FixtureRequest) -> None:
    assert case.pictures is not None
    before = case.shown.copy(deep=True)
    _, pixels = page_of(request.node.callspec.id)
    with only_drawing():
        np.testing.assert_array_equal(rendered(case.pictures.picture(case.shown)), pixels)
    assert case.shown.identical(before)


@EACH
def test_it_is_the_same_whatever_style_a_user_has_set(case: Case, request: pytest.FixtureRequest) -> None:
    assert case.pictures is not None
    _, pixels = page_of(request.node.callspec.id)
    with users_style():
        np.testing.assert_array_equal(rendered(case.pictures.picture(case.shown)), pixels)


@EACH
def test_it_draws_onto_axes_of_ones_own_and_refuses_too_few(case: Case) -> None:
    assert case.pictures is not None
    kind, page = case.pictures.kind_of(case.shown), theme.figure()
    if kind.boxes is None:
        assert kind.draw(case.shown, page) is None and page.axes
        return
    axes = [page.add_subplot(1, 9, number + 1) for number in range(len(kind.boxes(case.shown)))]
    assert kind.draw(case.shown, axes if len(axes) > 1 else axes[0]) is None
    assert all(one.has_data() for one in axes) and page.axes[: len(axes)] == axes
    rendered(page)
    if len(axes) > 1:
        with pytest.raises(ValueError, match=f"^axes must be {len(axes)} Axes: got got={len(axes) - 1}$"):
            kind.draw(case.shown, axes[:-1] if len(axes) > 2 else axes[0])


def test_its_page_has_paper_heads_and_the_caption(page: Figure) -> None:
    assert page.get_size_inches()[0] * page.dpi == WIDE and same_color(page.get_facecolor(), theme.PAPER)
    texts = [text.get_text().replace("\n", " ") for text in page.texts]
    assert any(re.fullmatch(r"\d", text) for text in texts), "a head has a number"


def test_everything_written_can_be_read(page: Figure) -> None:
    """Nothing is cut off, no text lies on another, and none is too small."""
    words = words_of(page)
    boxes = [text.get_window_extent() for text in words]
    assert len(words) > 4
    for text, box in zip(words, boxes, strict=True):
        assert text.get_fontsize() >= theme.SMALL_SIZE, text.get_text()
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.bbox.x1 + 1 and box.y1 <= page.bbox.y1 + 1
        assert inside, f"cut: {text.get_text()!r}"
    for (a, one), (b, other) in itertools.combinations(zip(boxes, words, strict=True), 2):
        wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert wide < 2 or high < 3, f"{one.get_text()!r} on {other.get_text()!r}"


@EACH
def test_its_caption_is_a_short_text_with_numbers_and_stands_on_the_page(case: Case, request: Any) -> None:
    words, kind = caption(case, case.shown), case.pictures.kind_of(case.shown)
    assert words.endswith(".") and re.search(r"\d", words) and len(words) < 380
    finding = kind.finding(case.shown)
    assert (
        words == f"{finding}. {kind.describe(case.shown)}"
        and not re.match("[a-z]", finding)
        and 10 < len(finding) < 100
    )
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", words)
    page, _ = page_of(request.node.callspec.id)
    said = [text.get_text().replace("\n", " ") for text in page.texts]
    assert words in said or (finding in said and kind.describe(case.shown) in said)
    assert repr(page) == f"{finding}.", "who cannot see it is told"


@EACH_WITH_TRIALS
def test_trials_are_counted_as_they_are(case: Case) -> None:
    """Wherever a page says how many trials there are, it says so of one too."""
    assert case.several is not None and case.pictures is not None
    axis = case.several[1]
    for data in (case.shown, case.shown.isel({axis: [0]})):
        page = case.pictures.picture(data)
        rendered(page)
        told = " ".join(text.get_text() for text in page.texts)
        counts = re.findall(r"(?<![\d.,])(\d+) (?:trials?|starts?|cells?|divisions?)\b(?! each)", told)
        assert set(counts) <= {str(data.sizes[axis])}, told


@EACH_WITH_TRIALS
def test_diverged_trials_are_left_out_and_none_left_is_no_error(case: Case) -> None:
    assert case.several is not None and case.pictures is not None
    lost = without(case.shown, case.several[1], slice(1, 2))
    assert not lost.identical(case.shown)
    page = case.pictures.picture(lost)
    rendered(page)
    assert "nan" not in " ".join(text.get_text() for text in page.texts)
    none_left = without(case.shown, case.several[1], slice(None))
    rendered(case.pictures.picture(none_left))
    if case.several[1] == "trial":  # cells are not trained
        assert "nan" not in caption(case, none_left)


@EACH
def test_a_caption_is_of_the_data(case: Case) -> None:
    """Other numbers are told otherwise."""
    floats = [name for name in case.shown.data_vars if case.shown[name].dtype.kind == "f"]
    other = case.shown.assign({name: 1 - case.shown[name] for name in floats})
    assert caption(case, other) != caption(case, case.shown)


@EACH
def test_another_dataset_is_refused(case: Case) -> None:
    assert case.pictures is not None
    for said in ({}, {"figure": "figure 99"}, {"paper": "another, figure 1"}):
        data = case.shown.assign_attrs(said) if said else xr.Dataset()
        for tell in (case.pictures.picture, case.pictures.caption):
            with pytest.raises(ValueError, match=r"^data must come from one of the functions in figures: got figure="):
                tell(data)
