"""What only the playground's pages say. All else that they say is declared by their Labs."""

from __future__ import annotations

from collections.abc import Mapping

from moe_lab_widgets.engine import goal

BOTH: Mapping[str, str] = {
    "NOW": "{title} is now {value}: {words}.",
    "TOGETHER": "this page does not have {wanted} with these settings; Python does",
    "UNREAD": "{title} stays at {value}: it must be {kind}: got '{text}'",
    "WHOLE": "a whole number",
    "NUMBER": "a number",
    "LACKS_VALUE": "This page has no {title} = {value}. It shows {nearest}, which is the nearest.",
    "LACKS_MNIST": "MNIST's images are not in this page. It shows the handwritten digits instead.",
    "LACKS_SOURCE": "This page has no data named {value}. It shows the handwritten digits instead.",
    "LACKS_OWN": "This page has no {name} of your own. It runs with the library's.",
    "FAILED": "Training has stopped, because something failed in this page: {words}. Reload the page, or change a "
    "setting to try again.",
    **goal.OF_QUESTIONS,
    "REACHED": goal.REACHED,
    "NOT_SO": goal.NOT_SO,
    "RIGHT": goal.RIGHT,
    "KEEP": goal.KEEP,
    "GOALS": goal.COUNT,
    "CARRIED": "The patch is number {place} of its sample now. A router scores each patch alone, wherever it lies: "
    "every expert keeps what it kept.",
    "DRAW_IN": "Class {sign}, patch {place}",
    "PAD": "Empty it and draw a digit, narrow and in the middle, as in the data: who keeps it?",
    "PEN": "Draw with the pointer, or with the arrow keys and Space; a stroke that begins on ink rubs it out.",
    "SAME": "The page draws the library's random numbers, so every training is the library's training.",
}
"""Texts of all pages; Labs say the same of what is typed."""
