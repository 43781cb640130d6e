"""Drives a notebook in a real JupyterLab as a student does: runs its cells, drags sliders, looks at the pictures."""

from __future__ import annotations

import base64
import io
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Locator, Page


def write_notebook(path: Path, *cells: str) -> Path:
    """Writes a notebook of code cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


class NotebookPage:
    """One notebook in one browser page.

    Args:
      page: a Playwright page.
      address: of the JupyterLab, with its token.
      folder: the server's root.

    Attributes:
      name: of the notebook that is open.
      names: of all that have been.
    """

    def __init__(self, page: Page, address: str, token: str, folder: Path) -> None:
        self.page, self.address, self.token, self.folder = page, address, token, folder
        self.name, self.names = "", set[str]()
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on(
            "console",
            lambda said: self.complaints.append(f"console: {said.text}") if _is_ours(said) else None,
        )

    # ---- opening and running ----

    def open(self, name: str) -> None:
        """Opens a notebook of the server's folder and waits for its kernel."""
        self.name = name
        self.names.add(name)
        self.page.goto(f"{self.address}/lab/tree/{name}?token={self.token}&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
        self.page.wait_for_function("() => window.jupyterapp !== undefined", timeout=120_000)
        self.wait_idle()

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Runs one of JupyterLab's commands, and waits until it is done."""
        self.page.evaluate("([name, args]) => window.jupyterapp.commands.execute(name, args)", [name, arguments or {}])

    def start_all(self) -> None:
        """Starts all cells, without waiting for them."""
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells') }")

    def run_all(self, timeout: float = 120) -> None:
        """Runs all cells, waits until the kernel is idle, and fails on an error output."""
        self.start_all()
        self.page.wait_for_timeout(200)
        self.wait_idle(timeout)
        self.check()

    def write_cells(self, *sources: str) -> None:
        """Replaces the code of the notebook's cells, and forgets earlier complaints of the page."""
        self.complaints.clear()
        self.page.evaluate(
            """(sources) => {
              const cells = window.jupyterapp.shell.currentWidget.content.widgets;
              sources.forEach((source, number) => cells[number].model.sharedModel.setSource(source));
            }""",
            list(sources),
        )

    def start_code(self, source: str) -> None:
        """Puts code into the last cell and starts it, without waiting."""
        self.page.evaluate(
            """(source) => {
              const cells = window.jupyterapp.shell.currentWidget.content;
              cells.activeCellIndex = cells.widgets.length - 1;
              cells.activeCell.model.sharedModel.setSource(source);
              window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            source,
        )

    def run_code(self, source: str) -> None:
        """Puts code into the last cell and runs it."""
        self.start_code(source)
        self.page.wait_for_timeout(200)
        self.wait_idle()

    def ask(self, expression: str) -> str:
        """What the kernel says of an expression. Unlike a cell that is run, it scrolls nothing."""
        asked = """async (code) => {
          const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
          const asked = kernel.requestExecute({ code: "", user_expressions: { found: code }, store_history: false });
          return (await asked.done).content.user_expressions.found.data["text/plain"];
        }"""
        return str(self.page.evaluate(asked, expression))

    def occupy(self, seconds: float) -> None:
        """Keeps the kernel's main thread busy, as a cell does."""
        self.page.evaluate(
            """(code) => {
              const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
              window.occupied = true;
              kernel.requestExecute({ code, store_history: false }).done.then(() => { window.occupied = false; });
            }""",
            f"import time; time.sleep({seconds})",
        )

    def occupied(self) -> bool:
        """Whether that goes on."""
        return bool(self.page.evaluate("() => window.occupied"))

    def printed(self, start: str) -> list[str]:
        """What the cells have printed that begins with `start`."""
        texts = self.page.locator(".jp-OutputArea-output pre").all_inner_texts()
        return [text.strip() for text in texts if text.strip().startswith(start)]

    def busy(self) -> bool:
        """Whether a cell is running, or waits for its turn."""
        return any("[*]" in prompt for prompt in self.page.locator(".jp-InputPrompt").all_inner_texts())

    def last_cell(self) -> tuple[list[str], int]:
        """What the last cell has printed, line by line, and how many pictures it shows."""
        cell = self.page.locator(".jp-Notebook .jp-Cell").last
        printed = "".join(cell.locator(".jp-OutputArea-output pre").all_inner_texts())
        return printed.split(), cell.locator(".jp-OutputArea-output img").count()

    def kernel_log(self) -> str:
        """What the server has logged since the newest kernel began, whose faults with messages a kernel reports there.

        An earlier kernel may have complained while it was shut down, which is no fault of the page that is open now.
        """
        return (self.folder.parent / "server.log").read_text().rpartition("Kernel started:")[2]

    def wait_idle(self, timeout: float = 120) -> None:
        """Waits until the kernel has nothing to do and every cell has run that was asked to."""
        self.page.wait_for_function(
            """() => {
              const panel = window.jupyterapp.shell.currentWidget;
              const session = panel && panel.sessionContext && panel.sessionContext.session;
              const kernel = session && session.kernel;
              if (!kernel || kernel.status !== 'idle') return false;
              return ![...document.querySelectorAll('.jp-InputPrompt')].some(p => p.textContent.includes('[*]'));
            }""",
            timeout=1000 * timeout,
        )

    def save(self) -> dict[str, Any]:
        """Saves the notebook and returns its content."""
        self.command("docmanager:save")
        path = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
        return nbformat.read(self.folder / path, as_version=4)

    # ---- the controls ----

    def _row(self, label: str) -> Locator:
        row = self.page.locator(".widget-slider, .jupyter-widget-slider").filter(has=self._label(label)).first
        self._reveal(row)
        return row

    def _reveal(self, row: Locator) -> None:
        """Opens "more settings" if a control lies there."""
        if row.count() and not row.is_visible():
            self.button("More settings").click()
            row.wait_for()

    def _label(self, start: str) -> Locator:
        """Descriptions that begin with `start`."""
        return self.page.locator(".widget-label").filter(has_text=re.compile(rf"^\s*{re.escape(start)}"))

    def slider(self, label: str) -> Locator:
        """The handle of the slider whose description begins with `label`; "time" is the picture's own."""
        if label == "time":
            slider = self.page.locator(".moe-lab-time input")
            slider.scroll_into_view_if_needed()
            return slider
        handle = self._row(label).locator(".noUi-handle")
        handle.scroll_into_view_if_needed()
        return handle

    def greyed(self, label: str) -> bool:
        """Whether a slider cannot be moved."""
        return self._row(label).locator("[disabled]").count() > 0

    def value(self, label: str) -> float:
        """The number that a slider stands at, with one digit after the point."""
        return float(self.slider(label).get_attribute("aria-valuenow") or "nan")

    def readout(self, label: str) -> float:
        """The number beside a slider, with all its digits."""
        text = self._row(label).locator(".widget-readout").inner_text()
        return float(text.replace("\u2212", "-"))  # the page writes a minus sign

    def drag(self, label: str, distance: float, steps: int = 12, pause: float = 15) -> None:
        """Drags a slider's handle by `distance` pixels in some steps with the mouse, `pause` ms apart."""
        box = self.slider(label).bounding_box()
        assert box is not None, f"the slider {label!r} is not on the page"
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        for step in range(1, steps + 1):
            mouse.move(x + distance * step / steps, y)
            self.page.wait_for_timeout(pause)
        mouse.up()

    def track(self, label: str) -> float:
        """The width of a slider's track, in pixels."""
        box = self._row(label).locator(".slider-container").bounding_box()
        return box["width"] if box else 0.0

    def type(self, label: str, text: str) -> None:
        """Types a number beside a slider."""
        self._row(label).locator(".widget-readout").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def press(self, label: str, key: str, times: int = 1) -> None:
        """Moves a slider with the keyboard."""
        handle = self.slider(label)
        handle.focus()
        for _ in range(times):
            handle.press(key)

    def button(self, name: str) -> Locator:
        return self.page.locator("button.jupyter-button, button.widget-button").filter(has_text=name).first

    def choose(self, description: str, option: str) -> None:
        """Picks an option of a drop-down."""
        row = self.page.locator(".widget-dropdown").filter(has=self._label(description)).first
        self._reveal(row)
        row.locator("select").select_option(label=option)

    # ---- the picture and the texts ----

    @property
    def image(self) -> Locator:
        """The first live picture."""
        return self.page.locator(".moe-lab-screen canvas").first

    def pixels(self) -> NDArray[np.uint8]:
        """What the live picture shows, as (height, width, 3): the picture itself, not a screenshot."""
        data = self.image.evaluate("(canvas) => canvas.toDataURL('image/png').split(',')[1]")
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))

    def count_frames(self) -> None:
        """From now on the page notes the time of every new frame of the live picture."""
        self.image.evaluate(
            """(canvas) => {
              window.frames_seen = [];
              if (window.frame_watcher) window.frame_watcher.disconnect();
              window.frame_watcher = new MutationObserver(() => window.frames_seen.push(performance.now()));
              const root = canvas.closest(".moe-lab-screen");
              window.frame_watcher.observe(root, {attributes: true, attributeFilter: ["data-shown"]});
            }"""
        )

    def frames(self) -> list[float]:
        """The times (ms) of the frames since `count_frames`."""
        return list(self.page.evaluate("() => window.frames_seen"))

    def frames_kept(self) -> int:
        """How many frames of the run are in the page."""
        return int(self.page.locator(".moe-lab-time input").first.get_attribute("max") or 0) + 1

    def text(self, role: str) -> str:
        """The text of a region: "status", "alert", or "caption" (the sentence below the picture)."""
        selector = ".moe-lab-caption:visible" if role == "caption" else f".widget-html :is(div, p)[role='{role}']"
        found = self.page.locator(selector)
        texts = found.all_inner_texts()  # in one go: a sentence may be taken away between a count and a look
        return texts[-1] if texts else ""

    def shows(self) -> dict[str, Any]:
        """What a reader of a failed test wants to know of the page."""
        kernel = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"
        chosen = "(lists) => lists.map(list => list.selectedOptions[0]?.label)"
        return {
            **{role: self.text(role) for role in ("status", "alert", "caption")},
            "said": self.said(),
            "chosen": self.page.locator(".widget-dropdown select").evaluate_all(chosen),
            "kernel": self.page.evaluate(kernel),
            "complaints": self.complaints,
        }

    def said(self) -> str:
        """What to see, or why a slider went elsewhere."""
        return " ".join(self.page.locator(".moe-lab-stage > .widget-html p[aria-live='polite']").all_inner_texts())

    def code(self) -> str:
        """What "copy as code" holds."""
        return self.page.locator(".widget-html textarea").last.input_value()

    def step(self) -> int:
        """The step that the counter names; -1 before there is one."""
        found = re.match(r"step (\d+)", self.counter())
        return int(found[1]) if found else -1

    def run(self) -> int:
        """The number of the run on show; it grows with each run."""
        return int(self.page.locator(".moe-lab-screen").first.get_attribute("data-run") or -1)

    def time_to_frame(self, label: str, key: str) -> float:
        """Milliseconds from a key press on a slider to the first new frame of the picture."""
        handle = self.slider(label)
        handle.focus()
        self.count_frames()
        self.page.evaluate(
            """() => document.addEventListener('keydown', () => {
              window.pressed = performance.now(); window.frames_seen = [];
            }, {capture: true, once: true})"""
        )
        handle.press(key)
        self.until(lambda: len(self.frames()) > 0, "no frame after a key press")
        return self.frames()[0] - float(self.page.evaluate("() => window.pressed"))

    def until(self, holds: Callable[[], bool], what: str, timeout: float = 60) -> None:
        """Waits until something holds; fails with `what` otherwise."""
        end, looks = time.monotonic() + timeout, 0
        while not holds():
            assert time.monotonic() < end, f"waited {timeout} s in vain: {what}; the page shows {self.shows()}"
            looks += 1
            self.page.wait_for_timeout(30 if looks < 10 else 150)  # a look takes time from what is waited for

    def wait_for_change(self, before: NDArray[np.uint8], timeout: float = 60) -> NDArray[np.uint8]:
        """Waits until the picture differs from `before`."""
        self.until(lambda: not np.array_equal(self.pixels(), before), "the picture did not change", timeout)
        return self.pixels()

    def wait_for_end(self) -> None:
        """Waits until the run has ended."""
        self.until(lambda: self.state() == "finished", "the run did not end", 120)

    def state(self) -> str:
        """What the status line says of the run: training, paused, finished, or that it waits."""
        return self.text("status").split(" · ")[0].split(";")[0]

    def counter(self) -> str:
        """How far the run was at the moment on show."""
        return self.page.locator(".moe-lab-time output").first.inner_text()

    def clipped(self) -> list[str]:
        """Descriptions that are too long for their place."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll('.moe-lab :is(.widget-label, button)')]
                 .filter(({scrollWidth, clientWidth, scrollHeight, clientHeight}) =>
                   scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1)
                 .map(label => label.textContent)"""
        )

    def check(self) -> None:
        """Fails on an error output of a cell, on a widget that cannot be shown, and on errors of the page."""
        errors = self.page.locator(
            "[data-mime-type='application/vnd.jupyter.error'], .jp-OutputArea-output pre.jp-error"
        )
        assert errors.count() == 0, errors.first.inner_text()
        for words in ("Error displaying widget", "Error creating widget"):
            assert self.page.get_by_text(words).count() == 0, words
        assert not self.complaints, self.complaints


def _is_ours(said: Any) -> bool:
    """Whether a console message is an error that a widget could have caused, not a missing favicon or a plug-in."""
    ignored = ("favicon", "Failed to load resource", "ERR_", "deprecated", "/api/", "extension")
    return said.type == "error" and not any(word in said.text for word in ignored)
