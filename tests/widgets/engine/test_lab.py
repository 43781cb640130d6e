"""A Lab as a student uses it: knobs in any order, at any time, and the machinery never dies."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ipywidgets
import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.core.errors import UserError
from moe_lab.core.interrupts import stop_if_unwanted
from moe_lab_widgets import config_from, offer
from moe_lab_widgets import lab as declare
from moe_lab_widgets.engine import runner
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.record import ONLY
from tests.helpers.living import living_widgets
from tests.helpers.page import tell
from tests.helpers.strange import LONG, Strange
from tests.widgets.engine.tiny import Blobs, TinyLab, run, shown, tiny, train

FAST = "as fast as it trains"


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A Lab at full speed whose first run has ended."""
    made = TinyLab()
    made.controls.speed.value = FAST
    made.wait(120)
    yield made
    made.close()


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "moe-lab run"]


def _runners() -> int:
    return sum(type(one) is runner.Runner for one in gc.get_objects())


def _waits(lab: Lab) -> bool:
    """Whether a Lab says that it holds until it is on screen."""
    return "waiting until it is on screen" in lab.controls.status.value


def _until(holds: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def _restart(lab: Lab, **values: Any) -> None:
    """Sets values and waits for the first frame of their run."""
    before = lab.record
    lab.set(**values)
    _until(lambda: lab.record is not before)


def _expected(lab: Lab) -> dict[str, np.ndarray]:
    """The last values of the same run, trained here without a Lab."""
    return dict(list(train(config_from(Blobs, lab.values), seed=lab.values["seed"]))[-1].values)


def _check_state(lab: Lab) -> None:
    """After a finished run: records, picture and texts belong to the values that the sliders show."""
    assert lab.finished and lab.error is None
    values = lab.values
    for name, widget in lab.controls.knobs.items():
        expected = values[name]
        assert widget.value == (expected if isinstance(expected, str) else pytest.approx(expected))
    assert [record.step for record in lab.records] == list(range(values["epochs"] + 1))
    assert lab.record is lab.records[-1] is shown(lab)[-1]
    for name, expected in _expected(lab).items():
        np.testing.assert_array_equal(lab.record[name], expected)
    assert lab.picture.placed[0].axes[0].get_xlim() == (0, values["epochs"])
    assert lab.caption(lab.record) in lab.screen.caption.value
    assert "finished" in lab.controls.status.value and f"step {values['epochs']}" in lab.controls.status.value
    assert lab.controls.message.value == ""


# ---- declaration ----


def test_sliders_come_from_the_declared_knobs(lab: Lab) -> None:
    slider = lab.controls.knobs["samples"]
    assert isinstance(slider, ipywidgets.IntSlider)
    assert (slider.min, slider.max, slider.step, slider.value) == (10, 200, 10, 80)
    assert slider.description == "N · training samples"
    gap = lab.controls.knobs["gap"]
    assert isinstance(gap, ipywidgets.FloatSlider) and gap.value == 2.0  # the Lab's own default, not the Config's
    assert isinstance(lab.controls.knobs["trouble"], ipywidgets.Dropdown)


def test_starting_values_and_unknown_names() -> None:
    made = TinyLab(gap=5.5, samples=40, seed=3, playing=False)
    try:
        assert made.controls.knobs["gap"].value == 5.5 and made.controls.knobs["gap"].max == 5.5
        assert (made.values["samples"], made.values["seed"]) == (40, 3)
    finally:
        made.close()
    with pytest.raises(ValueError, match=r"^TinyLab has no parameter 'gapp': did you mean gap \(g\)\?$"):
        TinyLab(gapp=1)
    with pytest.raises(ValueError, match=r"an offered knob must be one of Blobs's .* got 'noise'"):
        offer(Blobs, "noise")
    assert offer(Blobs, "gap", default=3.0, meaning="apart").label == "g · apart"


def test_a_lab_must_say_what_it_runs() -> None:
    parts: dict[str, Any] = {"knobs": (), "panels": ()}
    for ways, got in ({}, "neither"), ({"train": run, "runs": lambda values: {}}, "both"):
        with pytest.raises(ValueError, match=rf"either a function that yields records .*: got {got}$"):
            declare("Empty", **parts, **ways)
    with pytest.raises(ValueError, match=r"a Lab must be made of what `help\(lab\)` .*: got capton$"):
        declare("Empty", run, **parts, capton=lambda now: "")


# ---- knobs ----


def test_a_value_that_comes_back_rounded_does_not_restart(lab: Lab) -> None:
    records = lab.records
    lab.controls.knobs["gap"].value = 2.0000000000000004
    lab.wait(120)
    assert lab.records[0] is records[0]


def test_a_drag_while_training_ends_on_its_last_value(lab: Lab) -> None:
    _restart(lab, delay=5.0, epochs=200)
    _until(lambda: len(lab.records) > 3)
    starts = []
    start = lab.start
    lab.start = lambda values: (starts.append(values["gap"]), start(values))[1]  # type: ignore[method-assign]
    for step in range(12):
        lab.controls.knobs["gap"].value = 0.5 + 0.1 * step
        time.sleep(0.02)
    _until(lambda: starts and starts[-1] == pytest.approx(1.6))
    lab.set(delay=0.0, epochs=30)
    assert lab.wait(120)
    assert lab.values["gap"] == pytest.approx(1.6) and len(starts) <= 13
    _check_state(lab)


def test_knobs_set_from_many_threads(lab: Lab) -> None:
    def move(offset: int) -> None:
        for i in range(20):
            lab.controls.knobs["gap"].value = round(0.1 * ((i * 7 + offset) % 40), 1)

    movers = [threading.Thread(target=move, args=(i,)) for i in range(4)]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    lab.set(gap=1.5)
    assert lab.wait(120)
    _check_state(lab)


def test_set_moves_several_knobs_and_starts_one_run(lab: Lab) -> None:
    lab.set(gap=1.0, samples=40, seed=2)
    lab.wait(120)
    assert (lab.values["gap"], lab.values["samples"], lab.values["seed"]) == (1.0, 40, 2)
    _check_state(lab)
    with pytest.raises(ValueError, match=r"samples \(N\) must be a finite number: got samples='many'"):
        lab.set(samples="many")


def _refused(call: Callable[..., Any], *given: Any, **named: Any) -> str:
    """The one short sentence with which a call is refused."""
    with pytest.raises((ValueError, RuntimeError, FileNotFoundError)) as raised:
        call(*given, **named)
    sentence = str(raised.value)
    kind = type(raised.value)
    assert issubclass(kind, UserError) and len(sentence) <= 300 and sentence.isprintable(), (kind, sentence)
    return sentence


def test_wrong_arguments_are_refused_in_short_sentences(lab: Lab) -> None:
    for call, value in itertools.product((lab.scrub, lab.wait, lab.recording, lab.link), ("x", [], Strange(), b"1")):
        if (call, value) != (lab.link, "x"):
            assert " must be " in _refused(call, value)
    _refused(lab.link, 5)
    _refused(lab.wait, float("nan"))
    _refused(lab.recording, 1)
    _refused(TinyLab, playing="x")
    for call, value in itertools.product((TinyLab, lab.set), ("x", Strange(), 10**400, -1, 0.5, float("nan"), None)):
        assert _refused(call, seed=value).startswith("seed must be a whole number of at least 0: got seed=")
    for call, value in itertools.product((TinyLab, lab.set), ("x", Strange(), 10**400, LONG, None)):
        assert _refused(call, gap=value).startswith("gap (g) must be a finite number: got gap=")
    for call, name in itertools.product((TinyLab, lab.set), ("self", LONG, "a\nb")):
        assert _refused(call, **{name: 1}).startswith("TinyLab has no parameter '")
    assert lab.wait(float("inf")) and lab.wait(10**10)
    _check_state(lab)


# ---- errors ----


def test_many_diverged_trials_are_counted_and_few_are_named(lab: Lab) -> None:
    for lost, words in (([1, 3], "in trials 2, 4:"), ([5], "in trial 6:"), (list(range(13)), "in 13 of 40 trials:")):
        diverged = np.zeros(40, dtype=bool)
        diverged[lost] = True
        shot = dataclasses.replace(lab.record.of(), diverged=diverged)
        assert words in lab.trouble(dataclasses.replace(lab.record, shots={ONLY: (shot,)}))


def test_a_crash_in_the_middle_is_said_and_forgotten_after_the_next_move(lab: Lab) -> None:
    lab.set(trouble="error")
    with pytest.raises(OSError, match="the disk is on fire"):
        lab.wait(120)
    assert "the disk is on fire" in lab.controls.message.value
    assert lab.record.step == 4 and isinstance(lab.error, OSError)
    lab.set(trouble="nothing")
    assert lab.wait(120)
    _check_state(lab)


def test_an_error_while_drawing_or_captioning_is_said(lab: Lab) -> None:
    lab.caption = lambda record: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    lab.reset()
    with pytest.raises(ZeroDivisionError):
        lab.wait(120)
    assert "ZeroDivisionError" in lab.controls.message.value
    del lab.caption
    lab.reset()
    lab.wait(120)
    _check_state(lab)


def test_texts_are_escaped(lab: Lab) -> None:
    lab.controls.warn("a < b & <script>")
    assert "a &lt; b &amp; &lt;script&gt;" in lab.controls.message.value


# ---- play, step, reset ----


def test_pause_step_play(lab: Lab) -> None:
    _restart(lab, delay=5.0)
    _until(lambda: len(lab.records) > 2)
    lab.controls.play.click()
    lab.wait(120)
    assert not lab.playing and not lab.finished and lab.controls.play.description == "Play"
    assert "paused" in lab.controls.status.value
    held = len(lab.records)
    time.sleep(0.05)
    assert len(lab.records) == held
    lab.controls.step.click()
    lab.wait(120)
    assert len(lab.records) == held + 1 and shown(lab)[-1] is lab.records[-1]
    for _ in range(3):
        lab.controls.step.click()
    lab.wait(120)
    assert len(lab.records) == held + 4
    lab.controls.play.click()
    assert lab.wait(120) and lab.finished
    _check_state(lab)


def test_reset_and_play_after_the_end_start_again(lab: Lab) -> None:
    first = lab.records[0]
    lab.controls.reset.click()
    lab.wait(120)
    assert lab.records[0] is not first
    first = lab.records[0]
    assert lab.controls.play.description == "Play"
    lab.controls.play.click()
    lab.wait(120)
    assert lab.records[0] is not first and lab.playing
    _check_state(lab)


# ---- time ----


def test_scrub_back_and_forth(lab: Lab) -> None:
    live = lab.screen.image.value
    lab.scrub(7)
    lab.wait(120)
    assert lab.record is lab.records[7] and "Step 7:" in lab.screen.caption.value
    assert "finished; showing step 7 of 40 ·" in lab.controls.status.value
    earlier = lab.screen.image.value
    assert earlier != live
    lab.scrub(None)
    lab.wait(120)
    assert lab.screen.image.value == live and "showing step 40 of 40 ·" in lab.controls.status.value
    lab.scrub(7)
    lab.wait(120)
    assert lab.screen.image.value == earlier


def test_scrubbing_does_not_disturb_the_run(lab: Lab) -> None:
    _restart(lab, delay=5.0, epochs=100)
    _until(lambda: len(lab.records) > 10)
    lab.scrub(4)
    _until(lambda: lab.record is lab.records[4])
    seen = len(lab.records)
    _until(lambda: len(lab.records) > seen + 10)
    assert lab.record is lab.records[4]
    lab.scrub(None)
    lab.wait(120)
    _check_state(lab)


def test_a_long_run_keeps_a_bounded_even_record() -> None:
    made = tiny(most_records=8)(epochs=100)
    try:
        made.controls.speed.value = FAST
        made.wait(120)
        steps = [record.step for record in made.records]
        assert len(steps) <= 9 and steps[0] == 0 and steps[-1] == 100
        made.scrub(1)
        made.wait(120)
        assert made.record.step == steps[1]
    finally:
        made.close()


# ---- pin, stories, code ----


# ---- files ----


def test_the_code_is_shown_on_request(lab: Lab) -> None:
    assert lab.controls.code.layout.display == "none" and "gap=2.0" in lab.controls.code.value
    lab.controls.code_shown.value = True
    assert lab.controls.code.layout.display == ""


def test_save_picture_and_data(lab: Lab, tmp_path: Path) -> None:
    lab.controls.file.value = str(tmp_path / "mine")
    lab.controls.save_picture.click()
    lab.controls.save_data.click()
    assert (tmp_path / "mine.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "mine.nc" in lab.controls.status.value
    with xr.open_dataset(tmp_path / "mine.nc") as data:
        assert data.accuracy.dims == ("step", "trial") and data.sizes["step"] == 41
        np.testing.assert_array_equal(data.loss[-1], lab.record["loss"])
        assert data.attrs["seed"] == 0
    assert json.loads(lab.save_data(tmp_path / "mine.json").read_text())["dims"]["step"] == 41
    assert lab.save_picture(tmp_path / "other.v2").name == "other.v2.png"


@pytest.mark.parametrize("name", ["save_picture", "save_data", "export"])
def test_a_file_that_cannot_be_named_is_refused_in_a_short_sentence(lab: Lab, tmp_path: Path, name: str) -> None:
    places = (LONG, f"{LONG}/mine", f"nowhere\n/{LONG}", "a\0b", "a\0b/mine", f"{tmp_path}/{LONG}", "", "..")
    for path in (5, None, [], Strange(), *places, Path(LONG)):
        _refused(getattr(lab, name), path)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_reported_and_the_run_goes_on(lab: Lab, tmp_path: Path) -> None:
    lab.controls.file.value = str(tmp_path / "nowhere" / "mine")
    for button in (lab.controls.save_picture, lab.controls.save_data):
        button.click()
        assert "the folder of a file to save must exist" in lab.controls.message.value
        lab.scrub(3)
        assert lab.wait(120) and lab.error is None
        assert "the folder of a file to save must exist" in lab.controls.message.value
    lab.controls.file.value = str(tmp_path / "mine")
    lab.controls.save_picture.click()
    assert lab.controls.message.value == "" and lab.wait()
    lab.controls.knobs["gap"].value = 1.0
    lab.wait(120)
    _check_state(lab)


# ---- the end ----


def test_close_leaves_no_thread_no_widget_and_no_memory() -> None:
    gc.collect()
    before, threads, runners = len(living_widgets()), len(_threads()), _runners()
    made = TinyLab(delay=5.0)
    _until(lambda: len(made.records) > 2)
    made.pin()
    gone = [weakref.ref(part) for part in (made, made.picture, made.picture.figure)]
    made.close()
    made.close()
    made.set(gap=1.0)  # harmless
    made = None  # type: ignore[assignment]
    gc.collect()
    assert len(_threads()) == threads
    assert len(living_widgets()) == before
    assert [ref() for ref in gone] == [None] * 3 and _runners() == runners


def test_the_worker_uses_one_torch_thread_and_leaves_ours_alone() -> None:
    seen: list[int] = []

    @functools.wraps(run)
    def asking(**values: Any) -> Iterator[Any]:
        seen.append(torch.get_num_threads())
        return run(**values)

    torch.set_num_threads(2)
    try:
        made = tiny(asking)(epochs=10)
        made.wait(120)
        made.close()
        assert seen == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_closing_a_run_that_takes_long_does_not_wait_for_it() -> None:
    made = TinyLab(delay=50.0, epochs=200)
    _until(lambda: len(made.records) > 1)
    begun = time.monotonic()
    made.close()
    assert time.monotonic() - begun < 5, "the run takes ten seconds"


# ---- without a thread ----


def test_headless_trains_in_the_cell_and_errors_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    threads = len(_threads())
    made = TinyLab()
    try:
        _check_state(made)
        assert len(_threads()) == threads
        made.controls.knobs["gap"].value = 3.0
        _check_state(made)
        with pytest.raises(ValueError, match="must be a multiple of 4"):
            made.controls.knobs["samples"].value = 190
        with pytest.raises(OSError, match="on fire"):
            made.set(samples=80, trouble="error")
        made.set(trouble="nothing")
        _check_state(made)
        made.scrub(3)
        assert made.record.step == 3
    finally:
        made.close()
    with pytest.raises(ValueError, match="must be a multiple of 4"):
        TinyLab(samples=190)


def test_colab_trains_in_the_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    threads = len(_threads())
    made = TinyLab()
    try:
        assert len(_threads()) == threads
        assert made.wait(120)
        _check_state(made)
        made.controls.knobs["samples"].value = 190  # shown, not raised: nobody would catch it there
        assert "must be a multiple of 4" in made.controls.message.value
        made.controls.knobs["samples"].value = 60
        assert made.wait(120)
        _check_state(made)
    finally:
        made.close()


# ---- cost ----


def test_a_moved_slider_does_not_wait_for_the_record_at_hand() -> None:
    """A record of 1000 steps, 50 ms each, is left at the next step."""
    taken: list[int] = []  # by each run

    @functools.wraps(run)
    def slowly(**values: Any) -> Iterator[Any]:
        own = len(taken)
        taken.append(0)
        for number, snapshot in enumerate(run(**values)):
            yield snapshot
            for _ in range(1000 if own == number == 0 else 0):
                stop_if_unwanted()
                time.sleep(0.05)
                taken[own] += 1

    slow = tiny(slowly)()
    try:
        _until(lambda: len(slow.records) == 1)
        _until(lambda: taken[0] > 1)
        _restart(slow, gap=1.0)
        assert taken[0] < 1000
        assert slow.error is None and slow.record.of().origin["config"] == config_from(Blobs, slow.values).code()
    finally:
        slow.close()


def test_a_frame_that_takes_long_is_drawn_rarely(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = itertools.count(step=10**6)  # seconds of every frame, which may take a quarter of the time
    monkeypatch.setattr(runner, "time", SimpleNamespace(**{**vars(time), "thread_time": lambda: next(cost)}))
    before = len(shown(lab))
    lab.set(epochs=200, samples=140)
    assert lab.wait(120) and lab.finished
    assert len(shown(lab)) == before + 2 and shown(lab)[-1] is lab.records[-1], "the first and the last"


def test_a_lab_is_drawn_at_most_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TinyLab, "frames", 2.0)
    made = TinyLab(delay=5.0, epochs=200, playing=False)
    try:
        made.controls.speed.value = FAST
        made.wait(120)
        begun = time.monotonic()
        made.play()
        assert made.wait(120) and made.finished
        assert len(shown(made)) <= 2 * (time.monotonic() - begun) + 4, "and as it begins, is played and ends"
    finally:
        made.close()


def test_a_speed_is_a_pace(lab: Lab) -> None:
    for speed, pace in (("easy to follow", 15), ("slow", 4)):
        lab.controls.speed.value = speed
        first, begun = lab.records[0], time.monotonic()
        lab.reset()
        _until(lambda first=first: len(lab.records) >= 5 and lab.records[0] is not first)
        assert time.monotonic() - begun > 2.5 / pace, "the first two come at once"
    begun = time.monotonic()
    lab.controls.speed.value = FAST
    _until(lambda: lab.finished)
    assert time.monotonic() - begun < 36 / pace, "the run at hand takes the new pace"


# ---- on screen ----


@pytest.fixture
def unseen() -> Iterator[Lab]:
    """A Lab of which a page has said that it is not on screen."""
    made = TinyLab(delay=5.0, epochs=12)
    tell(made.screen.page, kind="away")
    _until(lambda: len(made.records) == 1 and _waits(made))
    yield made
    made.close()


def test_it_holds_at_its_first_record_until_it_is_on_screen(unseen: Lab) -> None:
    time.sleep(0.2)
    assert len(unseen.records) == 1 and unseen.playing and not unseen.finished
    assert _waits(unseen)
    tell(unseen.screen.page, kind="here")
    _until(lambda: len(unseen.records) > 3)
    tell(unseen.screen.page, kind="away")  # another page, where it is further down
    _until(lambda: unseen.finished)


@pytest.mark.parametrize(
    "use",
    [
        lambda lab: lab.wait(20),
        lambda lab: lab.set(gap=1.0),
        lambda lab: lab.reset(),
        lambda lab: lab.play(),
        lambda lab: setattr(lab.controls.knobs["gap"], "value", 3.0),
    ],
    ids=["wait", "set", "reset", "play", "slider"],
)
def test_whoever_uses_it_need_not_see_it(unseen: Lab, use: Any) -> None:
    use(unseen)
    _until(lambda: len(unseen.records) > 3)
    tell(unseen.screen.page, kind="away")
    _until(lambda: unseen.finished)
    assert not _waits(unseen)


def test_what_has_ended_or_is_paused_or_headless_is_left_alone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = TinyLab()
    ended.controls.speed.value = FAST
    _until(lambda: ended.finished)
    paused = TinyLab(playing=False)
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    headless = TinyLab()
    for one in (ended, paused, headless):
        records, status = one.records, one.controls.status.value
        tell(one.screen.page, kind="away")
        time.sleep(0.05)
        assert not _waits(one) and one.controls.status.value == status
        assert [id(record) for record in one.records] == [id(record) for record in records], "no other run has begun"
        one.close()
