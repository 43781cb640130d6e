"""Drives a notebook in the classic front end (notebook 6 and ipywidgets 7), which is close to what Colab has."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator

from tests.browser.driver import NotebookPage


class ClassicPage(NotebookPage):
    """One notebook in one page; see NotebookPage."""

    def open(self, name: str) -> None:
        self.name = name
        self.page.goto(f"{self.address}/notebooks/{name}?token={self.token}")
        self.page.wait_for_selector("#notebook .cell", timeout=120_000)
        self.page.wait_for_function("() => window.Jupyter && Jupyter.notebook && Jupyter.notebook.kernel")
        self.page.wait_for_function("() => Jupyter.notebook.kernel.is_connected()", timeout=120_000)
        self.page.wait_for_timeout(4000)  # the page asks the kernel for widgets first, and would miss ours meanwhile

    def start_all(self) -> None:
        self.page.evaluate("() => { Jupyter.notebook.execute_all_cells() }")

    def write_cells(self, *sources: str) -> None:
        self.complaints.clear()
        self.page.evaluate(
            "(sources) => sources.forEach((source, at) => Jupyter.notebook.get_cell(at).set_text(source))",
            list(sources),
        )

    def start_code(self, source: str) -> None:
        self.page.evaluate(
            """(source) => {
              const cell = Jupyter.notebook.get_cell(Jupyter.notebook.ncells() - 1);
              cell.set_text(source); cell.execute();
            }""",
            source,
        )

    def printed(self, start: str) -> list[str]:
        texts = self.page.locator(".output_area pre").all_inner_texts()
        return [text.strip() for text in texts if text.strip().startswith(start)]

    def wait_idle(self, timeout: float = 120) -> None:
        """Waits until every cell has run that was asked to. A Lab that trains keeps the kernel busy."""
        self.page.wait_for_function(
            "() => ![...document.querySelectorAll('.input_prompt')].some(p => p.textContent.includes('[*]'))",
            timeout=1000 * timeout,
        )

    def save(self) -> dict[str, Any]:
        raise NotImplementedError("the classic notebook's outputs are not read")

    def slider(self, label: str) -> Locator:
        handle = self._row(label).locator(".ui-slider-handle")
        handle.scroll_into_view_if_needed()
        return handle

    def value(self, label: str) -> float:
        return self.readout(label)

    def check(self) -> None:
        errors = self.page.locator(".output_error")
        assert errors.count() == 0, errors.first.inner_text()
        assert not self.complaints, self.complaints
