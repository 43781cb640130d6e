"""Which goals have been reached on this machine: kept in a file, for Labs that are opened again and for the index."""

from __future__ import annotations

import json
from pathlib import Path

from moe_lab.core.files import cache_folder, write_whole
from moe_lab.registry import LABS
from moe_lab_widgets.playground.declared import kind_of


def file() -> Path:
    """Returns where it is kept: in the folder in MOE_LAB_CACHE, or in the user's cache."""
    return cache_folder("goals") / "reached.json"


def _known() -> dict[str, list[str]]:
    try:
        known = json.loads(file().read_text(encoding="utf-8"))
    except (OSError, ValueError):  # nothing is kept yet, or somebody has written over it: it begins anew
        return {}
    return known if isinstance(known, dict) else {}


def reached(lab: str) -> set[str]:
    """Returns the goals of a Lab that have been reached, by name."""
    return set(_known().get(lab, ()))


def keep(lab: str, goal: str) -> bool:
    """Keeps that a goal of a Lab has been reached; returns whether that could be written."""
    known = _known()
    known[lab] = sorted({*known.get(lab, ()), goal})
    try:
        file().parent.mkdir(parents=True, exist_ok=True)
        write_whole(file(), json.dumps(known, ensure_ascii=False, indent=1).encode())
    except OSError:  # a home that cannot be written to; the Lab itself still knows
        return False
    return True


def goals() -> None:
    """Prints how many goals of each Lab have been reached on this machine, and how many of all."""
    counts = {}
    for lab in LABS:
        kind = kind_of(lab.name)
        names = {goal.name for goal in kind.declaration.goals}
        counts[kind.title] = len(names & reached(lab.name)), len(names)
    for title, (done, count) in counts.items():
        print(f"{title:22} {'✓' * done}{'·' * (count - done)}")
    done, count = (sum(one) for one in zip(*counts.values(), strict=True))
    print(f"{done} of {count} goals reached")
