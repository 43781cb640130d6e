"""Writes the Labs' stories into the instructor's guide.

In the guide a line `<!-- story: TITLE -->` stands for a story of a Lab, and `<!-- other stories: LAB -->` for the
stories of a Lab that no question names. The quoted lines below it are generated, so that their numbers are typed once.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import moe_lab_widgets
from moe_lab import registry
from moe_lab.core.config import require

GUIDE = Path("notebooks") / "instructors_guide.md"
LABS = tuple(lab.name for lab in registry.LABS)
_MARK = re.compile(r"^( *)<!-- (story|other stories): (.+?) -->\n(?:\1>.*\n)*", flags=re.M)


def stories() -> dict[str, Any]:
    """The stories of all Labs by title.

    Raises:
      ValueError: two stories have the same title.
    """
    every = [story for lab in LABS for story in getattr(moe_lab_widgets, lab).stories]
    found = {story.name: story for story in every}
    require(len(found) == len(every), "each story must have a title of its own", titles=sorted(s.name for s in every))
    return found


def stamped(text: str) -> str:
    """The guide with every story written out.

    Raises:
      ValueError: no Lab has a story of that title, or there is no such Lab.
    """
    known = stories()
    asked = {title for _, kind, title in _MARK.findall(text) if kind == "story"}

    def written(mark: re.Match[str]) -> str:
        indent, kind, name = mark.groups()
        if kind == "story":
            require(name in known, "the guide must name a story of a Lab", story=name)
            shown = [known[name]]
        else:
            require(name in LABS, f"the guide must name a Lab ({', '.join(LABS)})", lab=name)
            shown = [story for story in getattr(moe_lab_widgets, name).stories if story.name not in asked]
        quotes = f"\n{indent}>\n".join(_quoted(story, indent) for story in shown)
        return f"{indent}<!-- {kind}: {name} -->\n" + (f"{quotes}\n" if quotes else "")

    return _MARK.sub(written, text)


def _quoted(story: Any, indent: str) -> str:
    """A story as quoted lines: its title, the sliders that it sets, and what to see."""
    values = ", ".join(f"{name} = {value}" for name, value in story.values.items() if name != "seed")
    sentence = f"Story “{story.name}”{f' ({values})' if values else ''}: {story.what_to_see}".replace("*", r"\*")
    # A number stays with its %, which alone at the start of a line would be a comment in some dialects of Markdown.
    lines = textwrap.wrap(sentence.replace(" %", "\xa0%"), 118 - len(indent), break_on_hyphens=False)
    return "\n".join(f"{indent}> {line}" for line in lines).replace("\xa0%", " %")


def stamp_guide(root: Path) -> None:
    """Writes the stories into the guide."""
    path = root / GUIDE
    path.write_text(stamped(path.read_text(encoding="utf-8")), encoding="utf-8")
