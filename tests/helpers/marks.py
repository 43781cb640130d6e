"""Compares marks that a page has drawn with those of Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from moe_lab.drawing.marks import Mark, parts_of
from moe_lab.drawing.words import Words
from moe_lab_widgets.live.pictures import goals_in_page


def numbers(value: Any) -> np.ndarray:
    return np.array([float(one) for one in np.ravel(np.array(value, dtype=object))])


def close(one: Any, other: Any, where: str, scale: float = 0.0, within: float = 1e-12) -> None:
    """Asserts that numbers are the same to 1e-12, say, of the largest, or of 1."""
    one, other = numbers(one), numbers(other)
    assert one.shape == other.shape, where
    np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other), where)
    known = np.isfinite(other)
    most = max(1.0, scale, np.abs(other[known]).max(initial=0))
    np.testing.assert_allclose(one[known] / most, other[known] / most, rtol=0, atol=within, err_msg=where)


def same(page: Any, mine: Any, where: str, within: float = 1e-12) -> None:
    """Asserts that a mark of a page is one of Python's: the same words, and numbers as in `close`."""
    if isinstance(mine, (Mark, Words)):
        for name, one in parts_of(mine):
            if name in page:
                same(page[name], one, f"{where}.{name}", within)
    elif hasattr(mine, "numpy"):
        array = mine.numpy()
        data = page["data"] if isinstance(page, dict) else [page]
        if isinstance(page, dict) and where.endswith((".x", ".y")):  # a page has room for records to come
            rows = len(array)
            data = numbers(data).reshape(page["sizes"])[:rows].ravel()
            assert np.isnan(numbers(page["data"]).reshape(page["sizes"])[rows:]).all(), where
        scale = 100 if where.endswith(".scores") else 0  # differences magnify rounding
        close(data, array, where, scale=scale, within=within)
    elif isinstance(mine, (list, tuple)):
        assert len(page) == len(mine), where
        for place, (one, own) in enumerate(zip(page, mine, strict=True)):
            same(one, own, f"{where}[{place}]", within)
    elif isinstance(mine, bool) or mine is None or isinstance(mine, str):
        assert page == mine, where
    else:
        close([page], [mine], where, within=within)


def same_goals(kind: Any, picture: Any, now: Any, where: str, within: float = 1e-12) -> None:
    """Asserts that a page judges the goals of a Lab as the Lab does."""
    goals = goals_in_page(kind)
    assert len(picture["goals"]) == len(goals)
    for told, goal in zip(picture["goals"], goals, strict=True):
        same(told["reached"], goal.reached(now), f"{goal.asks} {where}", within)
        same(told["so_far"], goal.so_far(now), f"{goal.asks} {where}", within)
