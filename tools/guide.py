"""Writes the Labs' goals and stories into the instructor's guide.

In the guide a line `<!-- story: TITLE -->` stands for a story of a Lab, `<!-- other stories: LAB -->` for those of a
Lab that no question names, and `<!-- goals: LAB -->` for its goals with a solution. The quoted lines below it are
generated, so that their numbers are typed once.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import moe_lab_widgets
from moe_lab import registry
from moe_lab.core.config import require

GUIDE = Path("notebooks") / "instructors_guide.md"
LABS = tuple(lab.name for lab in registry.LABS)
_MARK = re.compile(r"^( *)<!-- (story|other stories|goals): (.+?) -->\n(?:\1>.*\n)*", flags=re.M)


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
    """The guide with every goal and story written out.

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
            lab = getattr(moe_lab_widgets, name)
            shown = [story for story in lab.stories if story.name not in asked]
            if kind == "goals":
                shown = list(enumerate(lab.declaration.goals, start=1))
        told = _goal if kind == "goals" else _story
        quotes = f"\n{indent}>\n".join(_quoted(told(one), indent) for one in shown)
        return f"{indent}<!-- {kind}: {name} -->\n" + (f"{quotes}\n" if quotes else "")

    return _MARK.sub(written, text)


def _story(story: Any) -> str:
    """A story: its title, the sliders that it sets, and what to see."""
    values = _values(story.values)
    return f"Story “{story.name}”{f' ({values})' if values else ''}: {story.what_to_see}"


def _goal(numbered: tuple[int, Any]) -> str:
    """A goal: what it asks, a solution, and the question that follows with its answer."""
    number, goal = numbered
    why, start = goal.why, _values(goal.start)
    begin = f" It begins with {start}." if start else ""
    answer = f"{why.asks} *{why.right}.* {why.answers[why.right]} {goal.seen}"
    return f"Goal {number}: {goal.asks}{begin} A solution: {_values(goal.solved_by)}. {answer}"


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items() if name != "seed")


def _quoted(sentence: str, indent: str) -> str:
    """A text as quoted lines."""
    starred = sentence.replace("l*", r"l\*")
    # A number stays with its %, which alone at the start of a line would be a comment in some dialects of Markdown.
    lines = textwrap.wrap(starred.replace(" %", "\xa0%"), 118 - len(indent), break_on_hyphens=False)
    return "\n".join(f"{indent}> {line}" for line in lines).replace("\xa0%", " %")


def stamp_guide(root: Path) -> None:
    """Writes the stories into the guide."""
    path = root / GUIDE
    path.write_text(stamped(path.read_text(encoding="utf-8")), encoding="utf-8")
