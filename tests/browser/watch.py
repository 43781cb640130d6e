"""Notes in the page which pictures a Lab shows, and when, while nobody else asks the page anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.browser.driver import NotebookPage

# A Screen names the run and the record on show, which frames for the time slider leave as they are; of a picture in an
# <img> only the change can be seen.
_WATCH = """(pattern) => {
  const paint = () => {
    const screen = document.querySelector('.moe-lab-screen[data-shown]');
    const codes = document.querySelectorAll('.widget-html textarea');
    const found = codes.length ? codes[codes.length - 1].value.match(new RegExp(pattern)) : null;
    const at = screen ? `${screen.dataset.run} ${screen.dataset.record}` : window.paints.length;
    if (at === window.paint_at) return;
    window.paint_at = at;
    window.paints.push([
      performance.now(), screen ? Number(screen.dataset.run) : null, found ? Number(found[1]) : null,
    ]);
  };
  window.paints = [];
  window.paint_at = null;
  if (window.paint_watcher) window.paint_watcher.disconnect();
  window.paint_watcher = new MutationObserver((changes) => { if (changes.some(ours)) paint(); });
  const ours = (change) => change.target.matches(
    change.attributeName === 'src' ? 'img.widget-image, img.jupyter-widget-image' : '.moe-lab-screen');
  window.paint_watcher.observe(
    document.body, {subtree: true, attributes: true, attributeFilter: ['src', 'data-shown']});
  if (!window.moved) {
    for (const kind of ['keydown', 'pointerdown'])
      document.addEventListener(kind, () => { window.moved = performance.now(); }, {capture: true});
  }
  window.moved = performance.now();
}"""


@dataclass(frozen=True)
class Paint:
    """One change of the picture in the page.

    Attributes:
      time: in milliseconds.
      run: the number of the run that it shows; None where the page does not know it.
      value: that which the knob under watch has in "copy as code" at that time; None where code does not name it.
    """

    time: float
    run: int | None
    value: float | None


class Watch:
    """Watches the pictures of a Lab.

    Args:
      name: of the knob whose value tells one run from another.
    """

    def __init__(self, page: NotebookPage, name: str) -> None:
        self.page, self._pattern = page, rf"\b{name}=([-\d.e]+)"

    def begin(self) -> None:
        """Forgets what was seen so far."""
        self.page.page.evaluate(_WATCH, self._pattern)

    def paints(self) -> list[Paint]:
        """Every change since `begin`."""
        return [Paint(*seen) for seen in self.page.page.evaluate("() => window.paints")]

    def moved(self) -> float:
        """The time (ms) of the latest key or button that was pressed since `begin`, or of `begin`."""
        return float(self.page.page.evaluate("() => window.moved"))

    def right(self, value: float) -> float | None:
        """Milliseconds from the latest move to the first picture of the run that has this value; None before it."""
        moved = self.moved()
        after = [paint for paint in self.paints() if paint.time >= moved and paint.value == value]
        newest = max((paint.run for paint in after if paint.run is not None), default=None)
        of_run = [paint for paint in after if paint.run == newest]
        return of_run[0].time - moved if of_run else None

    def time_to_right(self, value: Callable[[], float], timeout: float = 60) -> float:
        """Waits for the first right picture after the latest move; returns the milliseconds it took."""
        wanted = value()
        self.page.until(lambda: self.right(wanted) is not None, f"no picture of the value {wanted}", timeout)
        self.page.page.wait_for_timeout(300)  # where that was the picture of an earlier run, a newer one comes
        found = self.right(wanted)
        assert found is not None
        return found
