"""What happens to a page and to its kernel besides moves of sliders: it is hidden, cut off, restarted."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tests.browser.driver import NotebookPage

_KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"


def connected(page: NotebookPage) -> bool:
    """Whether the page is connected to its kernel."""
    return bool(page.page.evaluate(f"() => {_KERNEL}.connectionStatus === 'connected'"))


def restart_kernel(page: NotebookPage) -> None:
    """Restarts the kernel, which forgets every Lab."""
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    page.wait_idle()


def hide(page: NotebookPage, hidden: bool = True) -> None:
    """Hides the page, or shows it again: a page without a window is never hidden otherwise, so it is told so."""
    page.page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});
          Object.defineProperty(document, 'visibilityState', {
            get: () => hidden ? 'hidden' : 'visible', configurable: true});
          document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


def heap(page: NotebookPage) -> float:
    """Bytes that the page's scripts hold, after a collection of what they have dropped."""
    session = page.page.context.new_cdp_session(page.page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return float(metrics["JSHeapUsedSize"])


def views(page: NotebookPage) -> list[NDArray[np.uint8]]:
    """The pixels of every view of a live picture in the page, from top to bottom."""
    found = page.page.locator(".moe-lab-screen canvas").all()
    drawn = [one.evaluate("(canvas) => canvas.toDataURL('image/png').split(',')[1]") for one in found]
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")) for data in drawn]
