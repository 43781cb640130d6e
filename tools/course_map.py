"""The tables of the course as Markdown, for the notebooks `00_course` and 00, from the registry."""

from __future__ import annotations

from moe_lab.registry import NOTEBOOKS, WAYS, Notebook


def map_table() -> str:
    """The table of `00_course`: link, minutes, what each notebook needs, and what its reader will do."""
    rows = ["| notebook | minutes | after | you will |", "| --- | --- | --- | --- |"]
    for notebook in NOTEBOOKS:
        link = f"[{notebook.number} {notebook.title}]({notebook.stem}.ipynb)"
        rows.append(f"| {link} | {notebook.minutes} | {', '.join(notebook.after) or 'nothing'} | {notebook.will} |")
    return "\n".join(rows)


def course_table() -> str:
    """The table of notebook 00: title, minutes, and what the reader will do."""
    rows = ["| notebook | minutes | you will |", "| --- | --- | --- |"]
    rows += [f"| {each.number} {each.title} | {each.minutes} | {each.will} |" for each in NOTEBOOKS]
    return "\n".join(rows)


def ways_table() -> str:
    """The table of the ways through the course: notebooks, and minutes at the keyboard."""
    known = {notebook.number: notebook for notebook in NOTEBOOKS}
    rows = ["| you have | take, in this order | minutes at the keyboard |", "| --- | --- | --- |"]
    for way, numbers in WAYS.items():
        minutes = sum(known[number].minutes for number in numbers)
        rows.append(f"| {way} | {', '.join(_link(known[number]) for number in numbers)} | {minutes} |")
    return "\n".join(rows)


def _link(notebook: Notebook) -> str:
    return f"[{notebook.number}]({notebook.stem}.ipynb)"
