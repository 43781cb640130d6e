"""What a Lab says in the page when its kernel has gone, and that it lives on where the kernel is there again."""

from __future__ import annotations

import pytest

from tests.browser.driver import NotebookPage, write_notebook

pytestmark = pytest.mark.browser

CODE = """from moe_lab_widgets import RoutingTable
from tests.widgets.engine.tiny import TinyLab
table = RoutingTable([[1, 2], [3, 4]])
display(table)
lab = TinyLab(epochs=20)
lab"""
SENTENCE = "The kernel was restarted: run this cell again"
KERNEL = "const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;"
SEEN = """() => [...document.querySelectorAll('.moe-lab')].map((box) => ({
  said: box.querySelector(':scope > .moe-lab-gone-words')?.textContent ?? '',
  chains: [box, ...box.querySelectorAll('*')].filter((one) => {
    const { content, display } = getComputedStyle(one, '::before');
    return content.includes('\\uf127') && display !== 'none';
  }).length,
  dimmed: [...box.children].filter((one) => !one.matches('.moe-lab-gone-words') && one.offsetHeight)
    .every((one) => getComputedStyle(one).opacity < 0.5 && one.inert),
}))"""
ALIVE = {"said": "", "chains": 0, "dimmed": False}


@pytest.fixture(scope="module")
def page(notebook: NotebookPage) -> NotebookPage:
    write_notebook(notebook.folder / "gone.ipynb", CODE, "")
    notebook.open("gone.ipynb")
    return notebook


def seen(page: NotebookPage) -> list[dict[str, object]]:
    found: list[dict[str, object]] = page.page.evaluate(SEEN)
    return found


def begin(page: NotebookPage) -> None:
    page.run_all()
    page.image.wait_for()
    page.image.scroll_into_view_if_needed()
    page.wait_for_end()
    assert seen(page) == [ALIVE, ALIVE]


@pytest.mark.parametrize(
    "end", ["kernel.restart()", "kernel.requestExecute({ code: 'import os; os.kill(os.getpid(), 9)' })"]
)
def test_a_lab_whose_kernel_has_gone_says_so_and_runs_again_with_its_cell(page: NotebookPage, end: str) -> None:
    begin(page)
    page.page.evaluate(f"() => {{ {KERNEL} {end}; }}")
    gone = {"said": SENTENCE, "chains": 0, "dimmed": True}
    page.until(lambda: seen(page) == [gone, gone], "the Labs look as if they lived")
    assert page.page.locator(".moe-lab-gone-words[role=alert]").count() == 2
    page.page.wait_for_timeout(3000)
    assert seen(page) == [gone, gone], "no memory of a kernel comes back"
    page.wait_idle()
    for dialog in page.page.locator(".jp-Dialog .jp-mod-accept").all():  # JupyterLab says that a kernel has died
        dialog.click()
    begin(page)
    before = page.pixels()
    page.press("g", "ArrowLeft")
    page.wait_for_change(before)
    page.check()


def test_a_lab_lives_on_when_a_lost_connection_is_back(page: NotebookPage) -> None:
    begin(page)
    page.page.evaluate(f"() => {{ {KERNEL} kernel._reconnectLimit = 0; kernel._ws.close(); }}")
    page.until(lambda: all("connection" in str(one["said"]) and one["dimmed"] for one in seen(page)), "nothing is said")
    page.page.evaluate(f"() => {{ {KERNEL} kernel._reconnectLimit = 7; return kernel.reconnect(); }}")
    page.until(lambda: seen(page) == [ALIVE, ALIVE], "the Labs stay dimmed")
    before = page.pixels()
    page.press("g", "ArrowLeft")
    page.wait_for_change(before)
