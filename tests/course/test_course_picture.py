"""The map of the course, as it is and with notebooks that need more: each arrow can be followed, each title read."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from moe_lab.course.picture import Layout, course_map, direct_needs
from moe_lab.registry import NOTEBOOKS, THEMES, Notebook


def more(stem: str, theme: str, *after: str) -> Notebook:
    title = stem[3:].replace("_", " ").capitalize()
    return Notebook(stem, title, 45, after, will="see", theme=theme, exercises="start")


TANGLED = (
    *NOTEBOOKS,
    more("80_a_notebook_with_quite_a_long_name", "recovery", "03", "04", "09"),
    more("81_beside", "patches and routing", "03", "11"),
    more("82_far_on", "patches and routing", "02", "81", "09"),
    more("83_after_all", "patches and routing", "03", "80"),
    more("84_pruning", "pruning", "00", "01", "05"),
)
COURSES = pytest.mark.parametrize("course", [NOTEBOOKS, TANGLED], ids=["course", "tangled"])


def needed(needs: dict[str, tuple[str, ...]], number: str) -> set[str]:
    """All that is to be done before a notebook."""
    return {one for before in needs[number] for one in ({before} | needed(needs, before))}


@COURSES
def test_an_arrow_leads_from_a_to_b_where_a_is_to_be_done_before_b(course):
    arrows = {(arrow.before, arrow.after) for arrow in Layout(course).arrows}
    needs = {one.number: one.after for one in course}
    drawn = {number: tuple(before for before, after in arrows if after == number) for number in needs}
    assert [needed(drawn, number) for number in needs] == [needed(needs, number) for number in needs]
    for before, after in arrows:
        others = {**drawn, after: tuple(one for one in drawn[after] if one != before)}
        assert before not in needed(others, after), "an arrow that others imply"
    assert direct_needs(NOTEBOOKS)["03"] == ("02",) and direct_needs(NOTEBOOKS)["07"] == ("06",)


def lines(arrow):
    """The straight parts of an arrow as (left, top, right, bottom)."""
    for (x, y), (u, v) in itertools.pairwise(arrow.corners):
        assert x == u or y == v, "arrows run along the page's sides"
        yield min(x, u), min(y, v), max(x, u), max(y, v)


def meet(one, other) -> bool:
    """Whether two areas have more than their rims in common."""
    wide, high = (min(one[i + 2], other[i + 2]) - max(one[i], other[i]) for i in (0, 1))
    return wide > 0.5 and high > 0.5


@COURSES
def test_each_arrow_can_be_followed(course):
    layout = Layout(course)
    boxes = {number: layout.box(number) for number in layout.places}
    areas = {number: (x, y, x + wide, y + high) for number, (x, y, wide, high) in boxes.items()}
    assert not [pair for pair in itertools.combinations(areas.values(), 2) if meet(*pair)]
    for arrow in layout.arrows:
        for part in lines(arrow):
            thick = (part[0] - 1, part[1] - 1, part[2] + 1, part[3] + 1)
            touched = {number for number, area in areas.items() if meet(thick, area)}
            assert touched <= {arrow.before, arrow.after}, "an arrow runs over a box"
    for one, other in itertools.combinations(layout.arrows, 2):
        if one.before != other.before:
            for first, second in itertools.product(lines(one), lines(other)):
                along = (first[0] == first[2]) == (second[0] == second[2])
                near = (first[0] - 3, first[1] - 3, first[2] + 3, first[3] + 3)
                assert not (along and meet(near, (*second[:2], second[2] + 1, second[3] + 1))), (one, other)


@COURSES
def test_every_title_fits_its_box_and_every_box_its_theme(course):
    figure = course_map(course)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (page,) = figure.axes
    shapes = {patch.get_gid(): patch.get_window_extent() for patch in page.patches if isinstance(patch, FancyBboxPatch)}
    words = [(text.get_gid(), text.get_window_extent()) for text in page.texts]
    assert len(words) == 2 * len(course) + len(THEMES) and set(shapes) == {one.number for one in course} | set(THEMES)
    for owner, extent in words:
        box = shapes[owner]
        assert box.x0 + 4 < extent.x0 and extent.x1 < box.x1 - 4 and box.y0 < extent.y0 and extent.y1 < box.y1, owner
    for one in course:
        box, band = shapes[one.number], shapes[one.theme]
        assert band.x0 < box.x0 and box.x1 < band.x1 and band.y0 < box.y0 and box.y1 < band.y1
    assert {one.theme for one in NOTEBOOKS} == set(THEMES)


def test_the_map_of_the_course_fits_a_laptop():
    wide, high = course_map().get_size_inches() * 100
    assert wide <= 920 and high <= 620
