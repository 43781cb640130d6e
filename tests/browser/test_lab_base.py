"""A small Lab in a real JupyterLab: it is dragged, typed at, stopped and broken, and goes on."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser.driver import NotebookPage
from tests.helpers.effort import THOROUGH

pytestmark = pytest.mark.browser


def _runs_the_slider(page: NotebookPage) -> bool:
    """Whether the present run is that of the gap slider."""
    return f"gap={page.value('g'):.1f}" in page.code()


BUSY = """import time
from pathlib import Path
print(0)
end = time.monotonic() + 300
while time.monotonic() < end and not Path({told!r}).exists():
    time.sleep(0.05)"""
"""A cell that runs until there is a file that tells it to end."""


def test_drag_while_it_trains_and_a_cell_runs(opened: Callable[..., NotebookPage], tmp_path: Path) -> None:
    told = tmp_path / "end"
    told.touch()
    page = opened("TinyLab", BUSY.format(told=str(told)), epochs=60, delay=20.0)
    told.unlink()
    page.start_all()  # the Lab anew, and then the cell
    page.until(lambda: page.last_cell()[0][:1] == ["0"], "the cell does not run")
    value, run = page.value("g"), page.run()
    page.drag("g", -60)
    assert page.value("g") < value
    page.until(lambda: page.run() > run and _runs_the_slider(page), "the slider does not answer")
    assert page.busy(), "the cell has ended too early"
    told.touch()
    page.wait_idle()
    before = page.pixels()
    page.drag("g", 30)
    page.wait_for_change(before)
    page.wait_for_end()
    assert _runs_the_slider(page), "the run is not the slider's last value"
    page.check()


RIVAL = """import time
from pathlib import Path
end, turn = time.monotonic() + 300, 0
while time.monotonic() < end and not Path({told!r}).exists():
    turn += 1
    lab.set(samples=40 + 20 * (turn % 3))
    (lab.pin if turn % 2 else lab.unpin)()
    lab.png(), lab.records, lab.link()
    if turn % 5 == 0:
        lab.scrub(0 if turn % 10 else None)
    time.sleep(0.01)
print("moved", turn)"""
"""A cell that operates the Lab all the time, until there is a file that tells it to end."""


def test_many_moves_while_a_cell_moves_the_lab_too(opened: Callable[..., NotebookPage], tmp_path: Path) -> None:
    page = opened("TinyLab", "", epochs=30)
    random = np.random.default_rng(2)
    page.start_code(RIVAL.format(told=str(tmp_path / "end")))
    for _ in range(200 if THOROUGH else 60):
        label = ["g", "lr", "steps"][random.integers(3)]
        page.press(label, ["ArrowLeft", "ArrowRight", "PageUp", "PageDown"][random.integers(4)])
    assert page.busy(), "the cell has ended too early"
    (tmp_path / "end").touch()
    page.wait_idle()
    assert page.printed("moved"), "the cell has not come to its end"
    page.until(lambda: page.state() == "finished", "the Lab does not train any more")
    for name, label in (("gap", "g"), ("learning_rate", "lr"), ("epochs", "steps"), ("samples", "N")):
        # A page that draws a slider sends its value back, off by a rounding error: a Lab's own value has none.
        held = page.ask(f"float(lab.values[{name!r}]), round(float(lab.controls.knobs[{name!r}].value), 9)")
        assert held == str((page.readout(label),) * 2), f"page and kernel differ in {name}"
    page.until(lambda: _runs_the_slider(page), "the last value is not run")
    assert page.text("alert") == "" and page.ask("lab.error") == "None"
    assert "Exception in" not in page.kernel_log()
    before = page.pixels()
    page.press("g", "ArrowLeft" if page.value("g") > 0 else "ArrowRight", 5)
    page.wait_for_change(before)
    page.check()


def test_an_error_is_said_and_the_next_move_recovers(opened: Callable[..., NotebookPage]) -> None:
    page = opened("TinyLab", epochs=20)
    page.wait_for_end()
    before = page.pixels()
    page.press("N", "End")
    page.press("N", "ArrowLeft")
    page.until(lambda: "must be a multiple of 4: got N=190" in page.text("alert"), "the error is not shown")
    assert page.text("status").startswith("no run")
    page.press("N", "Home")
    page.until(lambda: page.text("alert") == "", "the error stays")
    page.wait_for_change(before)
    page.choose("what goes", "error")
    page.until(lambda: "the disk is on fire" in page.text("alert"), "the crash is not shown")
    page.choose("what goes", "nothing")
    page.until(lambda: page.text("alert") == "", "the error stays")
    page.wait_for_end()
    page.check()


def test_a_page_moves_no_slider_that_code_has_put_between_its_steps(opened: Callable[..., NotebookPage]) -> None:
    page = opened("TinyLab", epochs=5, gap=1.23)
    page.wait_for_end()
    assert (page.readout("steps"), page.readout("g ·")) == (5, 1.23)
    page.choose("story", "Far apart")
    page.page.wait_for_timeout(1500)  # a page that rounds sends its value within a moment
    page.until(lambda: page.said() == "The accuracy reaches 100 %.", "the story's end says nothing", 60)
    assert "gap=4.0" in page.code() and "epochs=40" in page.code(), "40 steps are the default"
    page.run_code("lab.set(gap=2.375)")
    page.until(lambda: page.readout("g ·") == 2.375, "the number beside the slider is rounded")
    page.check()


def test_buttons_story_time_and_pin(opened: Callable[..., NotebookPage]) -> None:
    page = opened("TinyLab", epochs=200, delay=20.0)
    page.button("Pause").click()
    page.until(lambda: page.state() == "paused", "pause does nothing")
    step = page.step()
    page.button("Step").click()
    page.until(lambda: page.step() == step + 1, "step does nothing")
    page.choose("speed", "as fast as it trains")
    page.button("Play").click()
    page.wait_for_end()
    last = page.pixels()
    page.until(lambda: page.frames_kept() == 201, "the page lacks frames that were not drawn while it trained")
    page.press("time", "ArrowLeft", 5)
    page.until(lambda: page.step() == 195, "the time slider does nothing")
    page.wait_for_change(last)
    page.press("time", "End")
    page.until(lambda: np.array_equal(page.pixels(), last), "the last picture does not come back")
    page.button("Pin").click()
    page.wait_for_change(last)
    page.choose("story", "On top of each other")
    page.until(lambda: page.value("g") == 0, "the story does not move the slider")
    near = page.page.get_by_text("The accuracy stays near 50 %.")
    page.until(lambda: near.count() == 1, "the story's end says nothing", 60)
    before = page.run()
    page.button("Reset").click()
    page.until(lambda: page.run() > before, "reset does nothing")
    page.check()


def test_one_button_plays_holds_and_replays(opened: Callable[..., NotebookPage]) -> None:
    page = opened("TinyLab", epochs=80, delay=20.0)
    page.button("Pause").click()
    page.until(lambda: page.state() == "paused" and page.button("Play").is_visible(), "pause does nothing")
    shown = page.page.locator(".moe-lab-screen").first.get_attribute("data-record")
    assert page.counter() == f"step {shown} of 80", "the counter is that of the picture"
    page.press("time", "Home")
    page.until(lambda: page.text("status").startswith("paused; showing step 0 of 80 ·"), "the kernel does not follow")
    held = page.ask("len(lab.records)")
    page.button("Play").click()  # from an earlier record: what is there again, and no training
    page.until(lambda: page.state() == "paused" and page.step() == int(held) - 1, "it does not come to the newest")
    page.until(lambda: page.button("Play").is_visible() and "showing" not in page.text("status"), "it does not rest")
    assert page.ask("len(lab.records)") == held
    page.button("Play").click()  # at the newest record: the training goes on
    page.wait_for_end()
    before = page.run()
    page.button("Play").click()
    page.until(lambda: 0 <= page.step() < 60 and page.button("Pause").is_visible(), "the run is not shown again")
    page.button("Pause").click()
    page.until(
        lambda: "finished; showing step" in page.text("status") and page.button("Play").is_visible(),
        "the replay does not stop",
    )
    assert page.step() < 80
    assert page.run() == before and page.ask("len(lab.records)") == "81", "nothing is trained again"
    page.button("Reset").click()
    page.until(lambda: page.state() == "training" and page.button("Pause").is_visible(), "reset does not train")
    page.check()


def test_copy_as_code(opened: Callable[..., NotebookPage]) -> None:
    page = opened("TinyLab", epochs=20)
    page.button("Copy as code").click()
    page.page.locator("button", has_text="Copy").last.click()
    page.until(
        lambda: page.page.get_by_text("copied").count() + page.page.get_by_text("Ctrl+C").count() > 0, "no answer"
    )
    assert "run(samples=80, gap=2.0, learning_rate=0.5, epochs=20," in page.code()
    page.check()


def test_the_saved_notebook_shows_its_last_picture_without_a_kernel(
    opened: Callable[..., NotebookPage], browser: Any, tmp_path: Path
) -> None:
    page = opened("TinyLab", epochs=20)
    page.wait_for_end()
    before = page.pixels()
    page.drag("g", 40)
    page.wait_for_change(before)
    page.wait_for_end()
    page.page.wait_for_timeout(2000)  # the Lab leaves its picture once it has come to rest
    assert page.image.is_visible()
    assert [image.is_visible() for image in page.page.locator(".jp-OutputArea img").all()] == [False, False]
    widgets, still = page.save()["cells"][0]["outputs"]
    assert "application/vnd.jupyter.widget-view+json" in widgets["data"]
    assert still["data"]["text/plain"].startswith("Step 20 of 20.")
    stored = np.asarray(Image.open(io.BytesIO(base64.b64decode(still["data"]["image/png"]))))
    apart = np.abs(stored[:447].astype(int) - page.pixels()[:447])
    assert apart.mean() < 0.3 and apart.max() < 100, "edges of lines and words differ a little from those in files"
    path = page.folder / page.name
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto((tmp_path / path.with_suffix(".html").name).as_uri())
    assert plain.locator(".jp-OutputArea img").count() == 1
    assert plain.locator(".jp-OutputArea img").bounding_box()["width"] > 500
    context.close()
    page.check()


def test_running_the_cell_again_and_closing_leave_no_thread(opened: Callable[..., NotebookPage]) -> None:
    count = "import threading\nprint('runs:', sum(t.name == 'moe-lab run' for t in threading.enumerate()))"
    page = opened("TinyLab", count, epochs=20)
    for _ in range(3):
        page.run_all()
        assert page.printed("runs:") == ["runs: 1"], "running a cell again must close its earlier Lab"
    page.run_code("lab.close()\n" + count)
    page.until(lambda: page.printed("runs:") == ["runs: 0"], "close leaves a thread")
    assert page.page.locator(".moe-lab-screen, img.widget-image").count() == 0


BELOW = """from IPython.display import HTML
from moe_lab_widgets import predict
asked = predict("Which turns first?", ["the largest", "the smallest", "none"])
lower = TinyLab(epochs=20)
display(asked, HTML("<div style='height: 3000px'>far</div>"), lower)
display(asked.seen("a", "Its gate moves most."))"""


def test_a_lab_trains_once_it_is_on_screen(opened: Callable[..., NotebookPage]) -> None:
    page = opened("TinyLab", BELOW, epochs=20)
    page.until(lambda: page.ask("lab.finished") == "True", "the Lab on screen did not train")
    state = "len(lower.records), lower.playing, lower.finished"
    page.until(lambda: page.ask(state) == "(1, True, False)", "the Lab off screen does not hold at its first record")
    for _ in range(3):  # and it stays there
        page.page.wait_for_timeout(300)
        assert page.ask(state) == "(1, True, False)"
    assert "waiting until it is on screen" in page.ask("lower.controls.status.value")
    page.page.locator(".moe-lab-screen canvas").last.scroll_into_view_if_needed()
    page.until(lambda: page.ask("lower.finished") == "True", "the Lab did not notice that it is on screen")
    assert page.ask("[record.step for record in lower.records] == list(range(21))") == "True"
    assert page.ask("lower.close()") == "None"
    page.check()


def test_a_prediction_is_chosen_by_keyboard_and_kept(opened: Callable[..., NotebookPage]) -> None:
    page = opened("TinyLab", BELOW, epochs=20)
    assert page.page.get_by_text("You made no prediction").count() == 2, "and nothing has waited for it"
    radios = page.page.locator("input[type=radio]")
    assert radios.count() == 3 and page.page.locator("input[type=radio]:checked").count() == 0
    radios.first.focus()
    for letter in "ab":
        page.page.keyboard.press("Space")
        page.until(lambda letter=letter: page.ask("asked.chosen") == repr(letter), "the choice is lost")
        page.page.keyboard.press("Tab")
    page.page.get_by_text("Saved: b. Run the next cell.").wait_for()
    page.occupy(4)
    radios.first.focus()
    page.page.keyboard.press("Space")
    page.page.get_by_text("Saved: a. Run the next cell.").wait_for()
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Space")
    page.page.get_by_text("Saved: b. Run the next cell.").wait_for()
    assert page.occupied(), "the buttons have answered when the kernel had nothing else to do"
    page.until(lambda: not page.occupied(), "the kernel is busy for good")
    assert page.ask("lower.close()") == "None"
    page.run_all()
    page.until(lambda: page.page.locator("input[type=radio]:checked").count() == 1, "the buttons have forgotten")
    verdict = page.page.get_by_text("You predicted “the smallest”; it was “the largest”. Take a minute: why?")
    page.until(lambda: verdict.count() == 2, "the verdict stands where it is asked for and below the buttons")
    assert page.ask("lower.close()") == "None"
    page.check()
