"""The map of the course as Markdown, for the notebook `index`, from what each notebook's head says."""

from __future__ import annotations

from moe_lab.course import WAYS, Lesson, lessons


def map_table() -> str:
    """A row for each notebook: link, minutes, what it needs, what one will do."""
    rows = ["| notebook | minutes | after | you will |", "| --- | --- | --- | --- |"]
    for one in lessons():
        link = f"[{one.number} {one.title}]({one.name}.ipynb)"
        rows.append(f"| {link} | {one.minutes} | {', '.join(one.after) or 'nothing'} | {one.will} |")
    return "\n".join(rows)


def ways_table() -> str:
    """A row for each way through the course: notebooks and minutes at the keyboard."""
    known = {one.number: one for one in lessons()}
    rows = ["| you have | take, in this order | minutes at the keyboard |", "| --- | --- | --- |"]
    rows += [
        f"| {way} | {', '.join(_link(known[number]) for number in numbers)} | {minutes(numbers)} |"
        for way, numbers in WAYS.items()
    ]
    return "\n".join(rows)


def minutes(numbers: tuple[str, ...]) -> int:
    """The minutes of these notebooks together."""
    return sum(one.minutes for one in lessons() if one.number in numbers)


def _link(lesson: Lesson) -> str:
    return f"[{lesson.number}]({lesson.name}.ipynb)"
