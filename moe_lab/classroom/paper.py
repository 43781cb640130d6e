"""Handouts and slides of a lesson as single HTML files, which need no script, no server and no network."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

from moe_lab.classroom.exercises import exercise_of, exercises_of
from moe_lab.classroom.formulas import mathml
from moe_lab.registry import NOTEBOOKS, Notebook

_MATH = re.compile(r"(?<!\\)\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)([^$\n]+?)(?<!\s)\$", flags=re.DOTALL)
_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", flags=re.DOTALL)
_IN_HTML = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head><body>
"""
_SHARED = """
body { font-family: system-ui, sans-serif; color: #1B1B25; background: #FBFAF7; margin: 0 }
h1, h2 { line-height: 1.2 }
a { color: inherit }
table { border-collapse: collapse }
td, th { border-bottom: 1px solid #C9CACE; padding: .2em .6em }
code { font-size: .9em }
img { max-width: 100%; height: auto }
"""
HANDOUT = f"""{_SHARED}
@page {{ size: A4; margin: 14mm }}
body {{ font-size: 9.6pt; line-height: 1.32; max-width: 182mm; margin: auto; padding: 4mm; background: white }}
h1 {{ font-size: 16pt; margin: 0 }}
h2 {{ font-size: 10.5pt; margin: .9em 0 .2em }}
p, ol, ul {{ margin: .25em 0 }}
ol, ul {{ padding-left: 1.5em }}
.note {{ color: #595D68 }}
.write {{ border-bottom: 1px solid #7A808C; height: 1.5em }}
"""
SLIDES = f"""{_SHARED}
html {{ scroll-snap-type: y mandatory }}
section {{ box-sizing: border-box; min-height: 100vh; padding: 5vh 7vw; scroll-snap-align: start; line-height: 1.4;
  font-size: clamp(16px, 2.3vw, 34px); display: flex; flex-direction: column; justify-content: center }}
h1 {{ font-size: 1.9em }}
h2 {{ font-size: 1.45em; margin: .2em 0 }}
img {{ max-height: 72vh; object-fit: contain; align-self: center }}
footer {{ color: #595D68; font-size: .55em; margin-top: auto }}
@page {{ size: 297mm 167mm; margin: 0 }}
@media print {{ section {{ break-after: page; height: 100vh }} }}
"""


def handout(lesson: Notebook, notebook: Mapping[str, Any]) -> str:
    """A page of A4: what the lesson is about, its sections in a sentence each, and room for predictions and answers."""
    heads = {one.number: one.heading for one in NOTEBOOKS}
    after = ", ".join(heads[number] for number in lesson.after) or "nothing"
    parts = [_HEAD.format(title=html.escape(lesson.heading), style=HANDOUT), f"<h1>{html.escape(lesson.heading)}</h1>"]
    parts.append(f"<p class=note>{lesson.minutes} minutes. Comes after: {html.escape(after)}.</p>")
    parts.append(f"<p>You will {html.escape(lesson.will)}.</p><h2>The way</h2><ul>")
    for title, text in sections(notebook):
        parts.append(f"<li><b>{_inline(title)}</b> {_inline(_first_sentence(text))}</li>")
    parts.append("</ul><h2>I expect, before I move a slider</h2><div class=write></div><div class=write></div>")
    parts.append("<h2>I saw</h2><div class=write></div><div class=write></div><h2>Exercises</h2><ol>")
    for one in exercises_of(notebook):
        parts.append(f"<li><code>{one.name}</code>: {_inline(one.question)}<div class=write></div></li>")
    return "\n".join([*parts, "</ol></body></html>\n"])


def slides(lesson: Notebook, notebook: Mapping[str, Any]) -> str:
    """A slide for each section of a lesson, and one for each picture that the notebook stores; a page each in print.

    The keys of a browser (Space, Page Down, arrows) move on.
    """
    parts = [_HEAD.format(title=html.escape(lesson.heading), style=SLIDES)]
    foot = f"<footer>moe_lab · {html.escape(lesson.heading)}</footer>"
    will = html.escape(lesson.will)
    parts.append(f"<section><h1>{html.escape(lesson.heading)}</h1><p>You will {will}.</p>{foot}</section>")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            for title, text in _parts(cell["source"]):
                first = text.split("\n\n")[0] if text else ""
                parts.append(f"<section><h2>{_inline(title)}</h2>{_block(first)}{foot}</section>")
            continue
        if (found := exercise_of(cell)) is not None:
            words = f"<h2>Exercise <code>{found.name}</code></h2><p>{_inline(found.question)}</p>"
            parts.append(f"<section>{words}{foot}</section>")
        for output in cell.get("outputs", []):
            for png in _pictures(output.get("data", {})):
                alt = html.escape("A picture of the notebook; the text of its section says what to see.")
                parts.append(f'<section><img alt="{alt}" src="data:image/png;base64,{png}">{foot}</section>')
    return "\n".join([*parts, "</body></html>\n"])


def _pictures(data: Mapping[str, Any]) -> list[str]:
    """The PNGs of an output as base64: its own, or what a moving picture shows without a script."""
    if "image/png" in data:
        return ["".join(data["image/png"]).replace("\n", "")]
    return _IN_HTML.findall("".join(data.get("text/html", "")))


def with_slides(notebook: Any) -> Any:
    """The notebook with the metadata that `jupyter nbconvert --to slides` reads: sections, fragments, hidden code."""
    for cell in notebook.cells:
        kind = "-"
        if cell.cell_type == "markdown":
            kind = "slide" if next(_parts(cell.source), None) else "fragment"
        elif cell.get("outputs") or exercise_of(cell):
            kind = "subslide"
        cell.metadata["slideshow"] = {"slide_type": "skip" if kind == "-" else kind}
    return notebook


def sections(notebook: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The sections of a notebook: title and text."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            yield from _parts(cell["source"])


def _parts(source: str) -> Iterator[tuple[str, str]]:
    """The headings of a cell below its title, each with the text that follows it."""
    pieces = re.split(r"^#{2,3} (.+)$", source, flags=re.MULTILINE)
    yield from zip(pieces[1::2], (text.strip() for text in pieces[2::2]), strict=True)


def _first_sentence(text: str) -> str:
    """The first sentence of a text that is a paragraph; "" where it begins with a list, a table or a picture."""
    first = text.split("\n\n")[0].replace("\n", " ")
    if not first or first[0] in "-|!<>*0123456789$`":
        return ""
    return re.split(r"(?<=[.?!]) (?=[A-Z])", first)[0]


def _block(text: str) -> str:
    """Markdown as HTML with its formulas."""
    from nbconvert.filters import markdown2html

    return str(markdown2html(_with_formulas(text)))


def _inline(text: str) -> str:
    """A line of Markdown as HTML without a paragraph around it."""
    made = _block(text).strip()
    return made.removeprefix("<p>").removesuffix("</p>")


def _with_formulas(text: str) -> str:
    """Formulas as MathML, except in code."""
    parts = _CODE.split(text)
    for place in range(0, len(parts), 2):
        parts[place] = _MATH.sub(
            lambda found: mathml(found[1] or found[2], "block" if found[1] else "inline"), parts[place]
        )
    return "".join(parts)
