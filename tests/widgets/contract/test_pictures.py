"""The picture of every Lab: pins, earlier records, size, and the texts around it."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from PIL import Image

from moe_lab_widgets.drawing.picture import drawing_lock
from moe_lab_widgets.frames.writer import FrameWriter
from tests.helpers.user_style import users_style
from tests.widgets.cases import Case, one_case_in
from tests.widgets.labs import Make, another_picture, done, move, pixels, shown


def artists(lab: Any) -> int:
    return len(lab.picture.figure.findobj())


def caption(lab: Any) -> str:
    return html.unescape(lab.screen.caption.value)


@one_case_in(2, 1)
def test_the_texts_of_a_finished_run(ended: Any) -> None:
    lab = ended
    status = html.unescape(lab.controls.status.value)
    assert lab.caption(lab.record) in caption(lab) and "aria-live" in caption(lab)
    assert lab.record is lab.records[-1]
    assert lab.progress(lab.record) in status and re.search(r"finished; .* · \d+\.\d s of training on the CPU", status)
    assert lab.controls.message.value == "" and lab.trouble(lab.record) == ""
    assert lab.controls.play.description == "Play"
    assert len(np.unique(pixels(lab).astype(int) @ [65536, 256, 1])) > 50, "the picture is empty"


def curves(lab: Any) -> tuple[list[Any], list[Any]]:
    """The places of the lines that show the run, and of those that a pin keeps."""
    drawn = [one for placed in lab.picture.placed for one in placed.content if isinstance(one, Line2D)]
    kept = [one for one in drawn if "pinned" in str(one.get_label())]
    return [one.get_xydata().copy() for one in drawn if one not in kept], [one.get_xydata().copy() for one in kept]


def within(some: list[Any], all_of: list[Any]) -> bool:
    """Whether every curve of some is among others."""
    return all(any(np.array_equal(one, other, equal_nan=True) for other in all_of) for one in some)


def test_pinned_curves_stay_over_runs_until_they_are_taken_away(case: Case, make: Make) -> None:
    lab = done(make())
    plain, (before, _), count, (name, values) = pixels(lab), curves(lab), artists(lab), case.drag
    lab.controls.pin.value = True
    shown(lab)
    assert artists(lab) > count
    first = lab.values[name]
    move(lab, name, values[-1])
    done(lab)
    with_pin, (now, pinned) = pixels(lab), curves(lab)
    assert len(pinned) == case.pins
    if case.name != "StuckRateLab":  # which keeps shares of its cells
        assert within(pinned, before)
    lab.controls.pin.value = False
    shown(lab)
    if not within(pinned, now):  # below a curve that is the same it is not seen
        assert not np.array_equal(pixels(lab), with_pin), "the curves of the earlier run are still there"
    lab.pin()
    assert lab.controls.pin.value is True
    move(lab, name, first)
    done(lab)
    lab.unpin()
    shown(lab)
    assert artists(lab) == count
    np.testing.assert_array_equal(pixels(lab), plain)


@one_case_in(3, 2)
def test_pins_come_and_go_while_another_thread_draws(make: Make, ended: Any) -> None:
    lab = make()
    for _ in range(10):
        lab.pin()
        lab.unpin()
    done(lab)
    assert artists(lab) == artists(ended)
    np.testing.assert_array_equal(pixels(lab), pixels(ended))


@one_case_in(3)
def test_an_earlier_record_is_shown_as_it_was_when_it_was_new(make: Make) -> None:
    lab = shown(make(playing=False))
    begun = len(lab.records)
    live = [pixels(lab)]
    for count in (1, 2, 3):
        lab.step()
        assert len(shown(lab).records) == begun + count
        live.append(pixels(lab))
    lab.play()
    now = pixels(done(lab))
    for index in (3, 0, 2):
        lab.scrub(begun - 1 + index)
        shown(lab)
        assert lab.record is lab.records[begun - 1 + index] and lab.caption(lab.record) in caption(lab)
        assert f"showing {lab.progress(lab.record)}" in lab.controls.status.value
        np.testing.assert_array_equal(pixels(lab), live[index])
    assert not np.array_equal(now, live[3])
    lab.scrub(None)
    shown(lab)
    np.testing.assert_array_equal(pixels(lab), now)


def test_a_record_draws_the_same_picture_at_any_time(ended: Any) -> None:
    picture, records = ended.picture, ended.records
    drawn = []
    for index in (len(records) // 3, -1, len(records) // 3, -1):
        picture.show(records[index])
        drawn.append(pixels(ended))
    np.testing.assert_array_equal(drawn[0], drawn[2])
    np.testing.assert_array_equal(drawn[1], drawn[3])
    assert not np.array_equal(drawn[0], drawn[1])


@one_case_in(4, 2)
def test_a_projector_gets_a_picture_half_as_large_again(make: Make, tmp_path: Path) -> None:
    lab = shown(make(projector=True, playing=False))
    assert pixels(lab).shape[:2] == (672, 1650)
    with Image.open(lab.save_picture(tmp_path / "large")) as saved:
        assert saved.size == (1650, 720)


def test_its_picture_is_the_same_whatever_style_a_user_has_set(ended: Any) -> None:
    def drawn() -> np.ndarray:
        picture = another_picture(ended)
        picture.show(ended.record)
        whole = np.asarray(Image.open(io.BytesIO(picture.png("A caption with 50 % and $x_1$."))))
        with drawing_lock:
            body = np.frombuffer(FrameWriter(picture).frame(0), dtype=np.uint8)
        picture.close()
        return np.concatenate([whole.ravel(), body])

    usual = drawn()
    with users_style():
        np.testing.assert_array_equal(drawn(), usual)


@one_case_in(3)
def test_it_trains_and_draws_on_its_thread_in_the_one_style(make: Make, ended: Any) -> None:
    with users_style():
        lab = done(make())
        np.testing.assert_array_equal(pixels(lab), pixels(ended))
