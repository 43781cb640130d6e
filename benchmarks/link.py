"""RouterAlignmentLab over slow links: how many pictures come, how large they are, and how soon a slider is answered."""

from __future__ import annotations

from benchmarks.browser import in_browser
from benchmarks.link_session import RATES, ROUND_TRIP
from benchmarks.measure import Result

FIGURES = {
    "frames": ("1/s", "frames/s shown while training"),
    "bytes": ("kB/s", "to the page meanwhile, texts included"),
    "frame_bytes": ("kB", "for each frame shown"),
    "fresh_ms": ("ms", "from a key press to the first right picture, nothing else under way; median of 5"),
    "moved_ms": ("ms", "from the last key press of 20 s to the first right picture"),
    "paused_frames": ("", "pictures after Pause was pressed while training"),
    "paused_ms": ("ms", "from Pause to the last of them"),
}
SLOWER = {"fresh_ms": 2.0, "moved_ms": 2.0}
"""How many times as long as on the free connection of the same session a slider may take to be answered."""


MARGIN = 1.1
"""By how much more than its rate a link may pass on for a moment: what it held back when the watch began."""


def check(rate: str, figures: dict[str, float]) -> None:
    """Refuses the figures of a link that the page did not use.

    Args:
      rate: of the link, a key of `RATES`.
      figures: as `link_session.measure` returns them.

    Raises:
      RuntimeError: pictures came that the link did not pass on, or faster than it can.
    """
    mbit = RATES[rate]
    if figures["bytes"] <= 0:
        raise RuntimeError(f"the link of {rate} Mbit/s passed nothing on: got {figures['bytes']:g} bytes a second")
    if mbit is not None and figures["bytes"] > MARGIN * mbit * 125_000:
        raise RuntimeError(
            f"a link of {rate} Mbit/s passes on at most {mbit * 125:g} kB/s: got {figures['bytes'] / 1000:g}"
        )
    for name in ("fresh_ms", "moved_ms"):
        if figures[name] < 1000 * ROUND_TRIP:
            least = f"a picture takes at least the {1000 * ROUND_TRIP:g} ms of the way there and back"
            raise RuntimeError(f"{least}: got {name} = {figures[name]:g} ({rate} Mbit/s)")


def run(tiny: bool = False) -> list[Result]:
    figures = in_browser("link_session.py", tiny)
    results = []
    for rate in () if isinstance(figures, str) else figures:
        check(rate, figures[rate])
    for rate in RATES if isinstance(figures, str) else figures:
        for name, (unit, note) in FIGURES.items():
            value, why = (None, figures) if isinstance(figures, str) else (figures[rate][name], note)
            if value is not None and unit.startswith("kB"):
                value /= 1000
            link = f"{rate} Mbit/s" if rate != "free" else "no limit"
            label = f"link_{rate}_{name.replace('bytes', 'kilobytes')}"
            results.append(Result(label, value, unit, note=f"{link}: {why}"))
            if name in SLOWER and rate != "free":
                slower = None if value is None else value / figures["free"][name]
                label, why = label.replace("_ms", "_over_free"), "the same over that without limit"
                results.append(Result(label, slower, "times", SLOWER[name], note=f"{link}: {why}"))
    return results
