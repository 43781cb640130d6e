"""The one style: it holds for one thread, ends with what is set in it, and leaves the user's settings alone."""

from __future__ import annotations

import importlib
import inspect
import io
import pkgutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

import moe_lab
from moe_lab import collect
from moe_lab.course.picture import course_map
from moe_lab.drawing import theme
from moe_lab.drawing.mixture_picture import mixture_diagram
from moe_lab.drawing.plots import curves
from moe_lab.drawing.routing_plots import gate_table
from moe_lab.drawing.style import fixed_style
from moe_lab.patch_routing import CNN, PatternTask, train
from tests.helpers.on_axes import rendered
from tests.helpers.user_style import OTHERWISE, users_style

DEFAULTS = matplotlib.rcParamsDefault


def seen() -> dict[str, Any]:
    return {name: matplotlib.rcParams[name] for name in OTHERWISE}


def test_matplotlibs_defaults_hold_within_it_and_the_users_settings_outside() -> None:
    with users_style():
        with fixed_style():
            assert seen() == {name: DEFAULTS[name] for name in OTHERWISE}
        assert matplotlib.rcParams["text.usetex"] is True and matplotlib.rcParams["font.size"] == 31


def test_another_thread_keeps_the_users_settings_meanwhile() -> None:
    found: list[Any] = []

    def elsewhere() -> None:
        found.append(matplotlib.rcParams["lines.linewidth"])
        matplotlib.rcParams["lines.linewidth"] = 4

    with matplotlib.rc_context({"lines.linewidth": 3}):
        with fixed_style():
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            assert matplotlib.rcParams["lines.linewidth"] == DEFAULTS["lines.linewidth"]
        assert found == [3] and matplotlib.rcParams["lines.linewidth"] == 4, "what a cell sets meanwhile is kept"


def test_a_users_context_may_end_while_another_thread_draws() -> None:
    """With matplotlib's own context on that thread, the user's settings would come back when it ends."""
    inside, leave = threading.Event(), threading.Event()

    def draw() -> None:
        with fixed_style():
            inside.set()
            leave.wait(10)

    with matplotlib.rc_context({"text.usetex": True}):
        thread = threading.Thread(target=draw)
        thread.start()
        assert inside.wait(10)
    leave.set()
    thread.join()
    assert matplotlib.rcParams["text.usetex"] is False


def test_what_is_set_within_it_ends_with_it_and_a_context_ends_where_it_ends() -> None:
    with fixed_style():
        with matplotlib.rc_context({"lines.linewidth": 5}):
            assert matplotlib.rcParams["lines.linewidth"] == 5
        assert matplotlib.rcParams["lines.linewidth"] == DEFAULTS["lines.linewidth"]
        matplotlib.rcParams["lines.linewidth"] = 6
        with fixed_style():
            assert matplotlib.rcParams["lines.linewidth"] == 6
        with pytest.raises(ValueError, match=r"lines\.linewidth"):
            matplotlib.rcParams["lines.linewidth"] = "thick"
    assert matplotlib.rcParams["lines.linewidth"] == DEFAULTS["lines.linewidth"]


def test_the_backend_is_the_users_and_can_be_changed() -> None:
    before = dict.__getitem__(matplotlib.rcParams, "backend")
    with fixed_style():
        assert matplotlib.rcParams._get("backend") is before
        assert matplotlib.get_backend(auto_select=False) == matplotlib.rcParams._get_backend_or_none()


# ---- every picture ----


def _curves() -> np.ndarray:
    return rendered(curves(collect(train(CNN(), PatternTask(), epochs=1, samples=20, trials=2, record_every=1))))


def _table() -> np.ndarray:
    page = theme.figure(400, 300)
    gate_table(theme.axes(page, 10, 10, 380, 280), [[0.5, 0.0], [0.2, 0.9]], "expert choice")
    return rendered(page)


PICTURES: dict[str, Callable[[], np.ndarray]] = {
    "curves": _curves,
    "gate_table": _table,
    "mixture_diagram": lambda: rendered(mixture_diagram()),
    "course_map": lambda: rendered(course_map()),
}


@pytest.mark.parametrize("make", PICTURES.values(), ids=PICTURES)
def test_a_picture_is_the_same_in_every_style(make: Callable[[], np.ndarray]) -> None:
    usual = make()
    with users_style():
        np.testing.assert_array_equal(make(), usual)


def test_a_page_is_saved_and_shown_in_the_one_style() -> None:
    def saved() -> list[tuple[int, ...]]:
        page, file = mixture_diagram(), io.BytesIO()
        page.savefig(file)
        images = [Image.open(io.BytesIO(content)) for content in (file.getvalue(), page._repr_png_())]  # type: ignore[attr-defined]
        assert all(image.format == "PNG" for image in images)
        return [(*image.size, *map(int, np.asarray(image.convert("RGB"))[0, 0])) for image in images]

    usual = saved()
    with users_style():
        assert saved() == usual == [(1100, 330, 0xFB, 0xFA, 0xF7)] * 2


def _drawing() -> Iterator[tuple[str, Any]]:
    """Yields the public functions of the library that draw onto Axes, or return a figure."""
    for found in pkgutil.walk_packages(moe_lab.__path__, "moe_lab."):
        if not found.name.endswith(("plots", "picture", "theme")):
            continue
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("_") and function.__module__ == found.name:
                yield f"{found.name}.{name}", function


PARTS = ("figure", "entropy_axis", "threshold", "frame", "plain", "spot", "without_frame", "title", "plain_numbers")
"""A `Page` makes itself in the one style; the others change what is there, within functions that draw."""


@pytest.mark.parametrize("name, function", [pytest.param(*each, id=each[0]) for each in _drawing()])
def test_each_function_that_draws_does_so_in_the_one_style(name: str, function: Any) -> None:
    signature = inspect.signature(function)
    draws = {"axes", "figure"} & set(signature.parameters) or "Figure" in str(signature.return_annotation)
    if draws and function.__name__ not in PARTS:
        decorators = inspect.getsource(inspect.unwrap(function)).partition("def ")[0]
        styled = "@in_fixed_style" in decorators or ".of(" in decorators  # of Pictures, which draws so
        assert styled, f"{name} follows the user's style: add @in_fixed_style"
