"""What a panel promises those who write `furnish` and `draw`, on real figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.drawing.placed import OFTEN
from moe_lab_widgets.engine.record import ONLY, Record

Draw = Callable[[Any, Record], None]


def moment(count: int = 5, slope: float = 1.0, **values: Any) -> Record:
    """A run of `count` records of a loss that grows from 0."""
    shots = tuple({"step": step, "loss": slope * step} for step in range(count))
    return Record({ONLY: shots}, values, (ONLY,))


def begun(draw: Draw, furnish: Any = lambda ax, values: None, values: Mapping[str, Any] | None = None) -> Picture:
    """A picture of one panel whose run has begun."""
    picture = Picture((Panel("One", draw, furnish),))
    picture.begin(dict(values or {}))
    return picture


def shown(picture: Picture, now: Record) -> np.ndarray:
    """The pixels of a moment."""
    picture.show(now)
    return picture.pixels()[..., :3].copy()


def nothing(ax: Any, now: Record) -> None:
    """Draws nothing."""


def curve(ax: Any, now: Record) -> None:
    ax.plot(*now.curve("loss"), "k", label="loss")


def fixed(ax: Any, values: Any) -> None:
    ax.set(xlim=(0, 10), ylim=(0, 10))


# ---- furniture ----


def top(values: Mapping[str, Any]) -> float:
    return 10 if values["noise"] < 5 else 20


def test_furniture_is_drawn_again_only_where_what_it_has_read_differs() -> None:
    furnished = []

    def furnish(ax: Any, values: Any) -> None:
        furnished.append(values["steps"])
        ax.set(xlim=(0, values["steps"]), ylim=(0, values.of(top)))

    picture = begun(curve, furnish, {"steps": 10, "noise": 1, "seed": 0})
    shown(picture, moment())
    first = picture.background()
    for values in ({"steps": 10, "noise": 1, "seed": 7}, {"steps": 10, "noise": 4, "seed": 0}):
        picture.begin(values)
        shown(picture, moment())
        assert len(furnished) == 1 and picture.background() is first, "nobody read the seed; the top is the same"
    for number, values in enumerate(({"steps": 10, "noise": 9}, {"steps": 20, "noise": 9}), 2):
        picture.begin(values)
        drawn = shown(picture, moment())
        assert len(furnished) == number and picture.background() is not first
        np.testing.assert_array_equal(drawn, shown(begun(curve, furnish, values), moment()))
        furnished.pop()


def test_a_note_that_is_a_function_of_the_values_changes_with_its_result() -> None:
    picture = Picture((Panel("One", nothing, fixed, note=lambda values: f"{values['trials'] > 1}"),))
    backgrounds = []
    for trials in (1, 1, 2, 3):
        picture.begin({"trials": trials})
        shown(picture, moment())
        backgrounds.append(picture.background())
    assert backgrounds[0] is backgrounds[1] is not backgrounds[2] and backgrounds[2] is backgrounds[3]


def test_a_furnish_that_failed_is_asked_again() -> None:
    fails = [True]

    def furnish(ax: Any, values: Any) -> None:
        ax.figure.text(0.5, 0.5, "half of it")
        ax.twinx()
        if fails[0]:
            raise OSError("no file")
        fixed(ax, values)

    picture = Picture((Panel("One", curve, furnish),))
    for _ in range(2):
        with pytest.raises(OSError, match="no file"):
            picture.begin({})
    fails[0] = False
    picture.begin({})
    np.testing.assert_array_equal(shown(picture, moment()), shown(begun(curve, furnish), moment()))


def test_what_furnish_adds_to_the_figure_is_furniture() -> None:
    def furnish(ax: Any, values: Any) -> None:
        fixed(ax, values)
        ax.figure.text(0.5, 0.5, f"{values['words']}")

    picture = begun(nothing, furnish, {"words": "one"})
    one = shown(picture, moment())
    assert not np.array_equal(one, shown(begun(nothing, fixed), moment()))
    picture.begin({"words": "another"})
    another = shown(picture, moment())
    picture.begin({"words": "one"})
    np.testing.assert_array_equal(shown(picture, moment()), one)
    assert not np.array_equal(one, another)


# ---- what draw adds ----


def furnish_family(ax: Any, values: Any) -> None:
    """Axes with a twin and an inset."""
    fixed(ax, values)
    theme.plain(ax.twinx()).set(ylim=(0, 1))
    theme.plain(ax.inset_axes((0.6, 0.6, 0.3, 0.3))).set(xlim=(0, 1), ylim=(0, 1))


def twin(ax: Any) -> Any:
    return next(one for one in ax.figure.axes if one is not ax)


ADDED: dict[str, Callable[[Any], Any]] = {
    "a line": lambda ax: ax.plot([0, 9], [0, 9]),
    "words": lambda ax: ax.text(5, 5, "here"),
    "bars": lambda ax: ax.bar([1, 2], [3, 4]),
    "error bars": lambda ax: ax.errorbar([1, 2], [3, 4], yerr=1),
    "an image": lambda ax: ax.imshow(np.eye(3), extent=(0, 9, 0, 9), aspect="auto"),
    "an area": lambda ax: ax.fill_between([0, 9], [1, 2], [3, 4]),
    "a legend": lambda ax: (ax.plot([0, 9], [0, 9], label="one"), ax.legend()),
    "a table": lambda ax: ax.table([["1", "2"]], loc="center"),
    "a line of a twin": lambda ax: twin(ax).plot([0, 9], [0, 1]),
    "a line of an inset": lambda ax: ax.child_axes[0].plot([0, 1], [0, 1]),
    "words of the figure": lambda ax: ax.figure.text(0.5, 0.5, "here"),
    "a legend of the figure": lambda ax: ax.figure.legend(handles=ax.plot([0, 9], [0, 9]), labels=["one"]),
}


@pytest.mark.parametrize("what", ADDED)
def test_what_draw_adds_is_shown_and_goes_before_the_next_frame(what: str) -> None:
    picture = begun(lambda ax, now: ADDED[what](ax) if len(now.shots[ONLY]) > 1 else None, furnish_family)
    empty = shown(picture, moment(1))
    background, count = picture.background(), len(picture.figure.findobj())
    full = shown(picture, moment(2))
    with_it = len(picture.figure.findobj())
    assert not np.array_equal(full, empty)
    for _ in range(3):
        np.testing.assert_array_equal(shown(picture, moment(2)), full)
    assert len(picture.figure.findobj()) == with_it > count
    np.testing.assert_array_equal(shown(picture, moment(1)), empty)
    assert picture.background() is background, "furniture is not drawn again"


def test_a_legend_names_the_bars_of_its_frame_alone() -> None:
    def draw(ax: Any, now: Record) -> None:
        ax.bar([1, 2], [3, 4], label="bars")
        ax.legend()

    picture = begun(draw, fixed)
    for _ in range(3):
        picture.show(moment())
    legend = picture.placed[0].axes[0].get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["bars"]


def test_colours_do_not_wander_from_frame_to_frame() -> None:
    def draw(ax: Any, now: Record) -> None:
        for one in (ax, twin(ax), ax.child_axes[0]):
            one.plot([0, 1], [0, 1])
            one.fill([0, 1, 1], [0, 0, 1])

    picture = begun(draw, furnish_family)
    first = shown(picture, moment())
    for _ in range(3):
        np.testing.assert_array_equal(shown(picture, moment()), first)


# ---- what draw must not do ----

REFUSED: dict[str, Callable[[Any], Any]] = {
    "a twin": lambda ax: ax.twinx(),
    "an inset": lambda ax: ax.inset_axes((0, 0, 1, 1)),
    "axes of the figure": lambda ax: ax.figure.add_axes((0, 0, 1, 1)),
    "a colour bar": lambda ax: ax.figure.colorbar(ax.imshow(np.eye(3), extent=(0, 9, 0, 9), aspect="auto"), ax=ax),
}


@pytest.mark.parametrize("what", REFUSED)
def test_axes_made_in_draw_are_refused_and_the_picture_recovers(what: str) -> None:
    def draw(ax: Any, now: Record) -> None:
        curve(ax, now)
        if len(now.shots[ONLY]) == 3:
            REFUSED[what](ax)

    picture = begun(draw, fixed)
    good, count = shown(picture, moment(2)), len(picture.figure.findobj())
    with pytest.raises(ValueError, match=r"^draw must not make Axes \(.*\): make them in furnish: got panel='One'$"):
        picture.show(moment(3))
    np.testing.assert_array_equal(shown(picture, moment(2)), good)
    assert len(picture.figure.findobj()) == count


def test_a_draw_that_fails_leaves_nothing() -> None:
    def draw(ax: Any, now: Record) -> None:
        curve(ax, now)
        ax.figure.text(0.5, 0.5, "half of it")
        if len(now.shots[ONLY]) == 3:
            raise OSError("no file")

    picture = begun(draw, fixed)
    good, count = shown(picture, moment(2)), len(picture.figure.findobj())
    with pytest.raises(OSError, match="no file"):
        picture.show(moment(3))
    np.testing.assert_array_equal(shown(picture, moment(2)), good)
    assert len(picture.figure.findobj()) == count


def test_axes_cleared_in_draw_are_refused_and_the_next_run_has_its_furniture() -> None:
    def draw(ax: Any, now: Record) -> None:
        if len(now.shots[ONLY]) == 3:
            ax.clear()
        curve(ax, now)

    picture = begun(draw, furnish_family)
    good = shown(picture, moment(2))
    rule = "draw must not clear its Axes, which hold what furnish has drawn: got panel='One'"
    with pytest.raises(ValueError, match=f"^{re.escape(rule)}$"):
        picture.show(moment(3))
    picture.begin({})
    np.testing.assert_array_equal(shown(picture, moment(2)), good)


# ---- limits that are left open ----


def test_open_limits_hold_the_data_and_grow_rarely() -> None:
    picture = begun(curve)
    placed = picture.placed[0]
    ax, versions = placed.axes[0], set()
    for count in range(2, 200):
        picture.show(moment(count))
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        assert left <= 0 < count - 1 <= right and low <= 0 < count - 1 <= high
        versions.add(placed.version)
    assert len(versions) < 30
    wide = ax.get_xlim()
    picture.show(moment(2))
    assert ax.get_xlim() == wide, "an earlier record is shown in the same limits"
    picture.begin({})
    picture.show(moment(3))
    assert ax.get_xlim()[1] < 3, "another run sets them anew"


def test_open_limits_hold_what_furnish_has_drawn() -> None:
    picture = begun(curve, lambda ax, values: ax.plot([-50, 0], [70, 70]))
    ax = picture.placed[0].axes[0]
    for _ in range(2):
        picture.show(moment(5))
        assert ax.get_xlim()[0] < -50 and ax.get_xlim()[1] > 4 and ax.get_ylim()[0] < 0 and ax.get_ylim()[1] > 70
        picture.begin({})


def test_open_limits_of_a_twin_follow_its_data_and_share_the_horizontal_ones() -> None:
    def draw(ax: Any, now: Record) -> None:
        steps, values = now.curve("loss")
        ax.plot(steps, values)
        twin(ax).plot(2 * steps, 100 * values)

    picture = begun(draw, lambda ax, values: ax.twinx())
    ax = picture.placed[0].axes[0]
    for count in (3, 30):
        full = shown(picture, moment(count))
        assert ax.get_ylim()[1] >= count - 1 and twin(ax).get_ylim()[1] >= 100 * (count - 1)
        assert ax.get_xlim() == twin(ax).get_xlim() and ax.get_xlim()[1] >= 2 * (count - 1)
    picture.set_scale(1.0)  # which has all furniture drawn again
    np.testing.assert_array_equal(shown(picture, moment(30)), full)


# ---- a draw that changes the furniture ----


def test_a_scale_or_a_title_set_in_draw_costs_the_furniture_once() -> None:
    def draw(ax: Any, now: Record) -> None:
        ax.set(yscale="log", title="A title", xlabel="step", ylabel="loss")
        ax.plot(*now.curve("loss"))

    picture = begun(draw, lambda ax, values: ax.set(xlim=(0, 10), ylim=(0.1, 10)))
    shown(picture, moment(5))
    once = picture.background()
    for count in (2, 5, 9):
        shown(picture, moment(count))
        assert picture.background() is once

    def furnish(ax: Any, values: Any) -> None:
        ax.set(yscale="log", title="A title", xlabel="step", ylabel="loss", xlim=(0, 10), ylim=(0.1, 10))

    np.testing.assert_array_equal(
        shown(picture, moment(9)), shown(begun(lambda ax, now: ax.plot(*now.curve("loss")), furnish), moment(9))
    )


# ---- pins ----


def draw_two(ax: Any, now: Record) -> None:
    ax.plot(*now.curve("loss"), "k", label="loss")
    ax.plot([0, 9], [9, 0], "k")  # which has no label
    twin(ax).plot(*now.curve("loss"), "r", label="loss of the twin")


def furnish_two(ax: Any, values: Any) -> None:
    ax.set(xlim=(0, 10), ylim=(0, values["top"]))
    ax.twinx().set(ylim=(0, values["top"]))


def pinned(picture: Picture) -> list[Any]:
    return [one for one in picture.placed[0].content if one.get_label() == "pinned"]


def test_pins_keep_labelled_lines_dotted_over_runs_and_go_again() -> None:
    picture = begun(draw_two, furnish_two, {"top": 10})
    plain, count = shown(picture, moment(8, 0.5)), len(picture.figure.findobj())
    picture.pin([moment(8)])
    for top_now, slope in ((10, 0.5), (20, 0.5), (20, 2.0)):  # the second has new furniture, and another twin
        picture.begin({"top": top_now})
        picture.show(moment(8, slope))
        lines = pinned(picture)
        assert len(lines) == 2 and {one.axes for one in lines} == set(picture.placed[0].family)
        for line in lines:
            np.testing.assert_array_equal(line.get_ydata(), np.arange(8))
            assert line.get_linestyle() == ":"
        assert not np.array_equal(picture.pixels()[..., :3], plain)
    picture.unpin()
    picture.begin({"top": 10})
    np.testing.assert_array_equal(shown(picture, moment(8, 0.5)), plain)
    assert len(picture.figure.findobj()) == count


def test_a_panel_may_draw_its_pins_itself() -> None:
    kept: list[Record] = []

    def pin(ax: Any, pinned: Record, now: Record) -> None:
        kept.append(pinned)
        ax.axhline(pinned["loss"])

    picture = Picture((Panel("One", curve, fixed, pin=pin),))
    picture.begin({})
    plain = shown(picture, moment(3))
    picture.pin([moment(7)])
    with_it = shown(picture, moment(3))
    assert kept[-1]["loss"] == 6 and not np.array_equal(with_it, plain) and pinned(picture) == []
    picture.unpin()
    np.testing.assert_array_equal(shown(picture, moment(3)), plain)


# ---- speed ----


def test_slow_drawing_is_told_the_helper() -> None:
    def slow(ax: Any, now: Record) -> None:
        for place in range(150):
            ax.text(place % 10, place / 15, str(place))

    picture = Picture((Panel("Many words", slow, fixed), Panel("A curve", curve, fixed)))
    picture.begin({})
    for number in range(OFTEN):
        assert picture.advice == "", "one slow frame is no reason to say so"
        shown(picture, moment(number + 2))
    rule = r"drawing “Many words” takes \d+ ms a frame: write of moe_lab_widgets\.drawing\.on_axes would be faster"
    assert re.fullmatch(rule, picture.advice)
