"""The head of the course's page: what moe_lab is, in motion, and a door for each kind of reader."""

from __future__ import annotations

from pathlib import Path

from moe_lab.registry import NOTEBOOKS

PICTURE = "docs/router_alignment.webp"
DOORS = (
    (
        "Learn",
        "00_start_here",
        f"{len(NOTEBOOKS)} notebooks. Predict, move a slider, see what happens, and check yourself in exercises. "
        f"The first takes {NOTEBOOKS[0].minutes} minutes.",
    ),
    (
        "Teach",
        "instructors_guide",
        "A lecture, a day or a term: timing, talking points, misconceptions, and what can go wrong in the room.",
    ),
    (
        "Research",
        "howto/index",
        "Figures, sweeps, your own data, model, router or criterion; and which published results replicate.",
    ),
)
"""What each is called, the page that it leads to, and what is behind it."""


def landing(root: Path) -> str:
    """Returns the head as Markdown: the README's opening with its picture, and the doors."""
    opening = (root / "README.md").read_text(encoding="utf-8").partition("\n## ")[0].strip()
    doors = "".join(
        f'<a class="door" href="{page}.html"><strong>{name}</strong><span>{words}</span></a>'
        for name, page, words in DOORS
    )
    opening = opening.replace(PICTURE, Path(PICTURE).name)
    return f'{opening}\n\n<nav class="doors" aria-label="Where to begin">{doors}</nav>\n'
