"""Handouts and slides of a lesson as single HTML files, which need no script, no server and no network."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moe_lab.classroom.exercises import exercise_of, exercises_of
from moe_lab.classroom.formulas import mathml
from moe_lab.registry import NOTEBOOKS, Notebook

_MATH = re.compile(r"(?<!\\)\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)((?:[^$\n]|\n(?!\n))+?)(?<!\s)\$", flags=re.DOTALL)
_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", flags=re.DOTALL)
_OWN_PLACE = ("Exercise", "Exercises", "Before you go")
"""Sections that a handout has in a form of its own, or not at all."""
_LISTED = ("- ", "1. ", "| ")
_TABLE = re.compile(r"<table.*?</table>", flags=re.DOTALL)
_IN_HTML = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head><body>
"""
_SHARED = """
body { font-family: system-ui, sans-serif; color: #1B1B25; background: #FBFAF7; margin: 0 }
h1, h2 { line-height: 1.2 }
a { color: inherit }
table { border: 0; border-collapse: collapse }
td, th { border: 0 solid #C9CACE; border-bottom-width: 1px; padding: .2em .6em; text-align: right }
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
section.shows {{ padding: 3vh 5vw }}
section:has(> img) {{ height: 100vh }}
section.much {{ font-size: clamp(14px, 1.65vw, 24px) }}
.shows h2 {{ font-size: 1.15em; margin: 0 0 .4em }}
.shows > :is(p, ol, table) {{ font-size: .8em; margin-block: .4em }}
.shows > table {{ align-self: flex-start }}
math[display=block] {{ font-size: .75em }}
img {{ flex: 0 1 auto; min-height: 0; object-fit: contain; align-self: center }}
.caption {{ font-size: .6em; line-height: 1.35; margin-top: .8em }}
.caption p {{ margin: 0 }}
.much .caption {{ font-size: .8em }}
footer {{ color: #595D68; font-size: .55em; margin-top: auto }}
@page {{ size: 297mm 167mm; margin: 0 }}
@media print {{ section {{ break-after: page }} }}
"""


def handout(lesson: Notebook, notebook: Mapping[str, Any]) -> str:
    """A page of A4: what the lesson is about, its sections in a sentence each, and room for predictions and answers."""
    heads = {one.number: one.heading for one in NOTEBOOKS}
    after = ", ".join(heads[number] for number in lesson.after) or "nothing"
    parts = [_HEAD.format(title=html.escape(lesson.heading), style=HANDOUT), f"<h1>{html.escape(lesson.heading)}</h1>"]
    parts.append(f"<p class=note>{lesson.minutes} minutes. Comes after: {html.escape(after)}.</p>")
    parts.append(f"<p>You will {html.escape(lesson.will)}.</p><h2>In this lesson</h2><ul>")
    for title, text in sections(notebook):
        if title in _OWN_PLACE:
            continue
        parts.append(f"<li><b>{_inline(title)}</b> {_inline(_first_sentence(text))}</li>")
    parts.append("</ul><h2>I expect, before I move a slider</h2><div class=write></div><div class=write></div>")
    parts.append("<h2>I saw</h2><div class=write></div><div class=write></div><h2>Exercises</h2><ol>")
    for one in exercises_of(notebook):
        parts.append(f"<li><code>{one.name}</code>: {_inline(one.question)}<div class=write></div></li>")
    return "\n".join([*parts, "</ol></body></html>\n"])


def slides(lesson: Notebook, notebook: Mapping[str, Any]) -> str:
    """A slide for each section, picture, table, prediction and exercise of a lesson; a page each in print.

    A section without words of its own lends its title to what it shows. The keys of a browser (Space, Page Down,
    arrows) move on.
    """
    head = html.escape(lesson.heading)
    parts = [_HEAD.format(title=head, style=SLIDES)]
    parts.append(f"<section><h1>{head}</h1><p>You will {html.escape(lesson.will)}.</p>{_foot(head)}</section>")
    parts.extend(slide.html(_foot(head)) for slide in _slides_of(notebook) if slide.body)
    return "\n".join([*parts, "</body></html>\n"])


@dataclass
class _Slide:
    """A slide: its title and words, or what the notebook shows with the words below it."""

    title: str
    body: str = ""
    caption: str = ""
    shows: bool = False

    @property
    def _much(self) -> bool:
        """Whether it needs smaller letters: a long text, or a large table."""
        text = re.sub(r"<annotation.*?</annotation>|<[^>]*>", "", self.body)
        return len(text) > 430 or self.body.count("<tr") > 7

    def html(self, foot: str) -> str:
        kind = " ".join(["shows"] * self.shows + ["much"] * self._much)
        caption = f"<div class=caption>{self.caption}</div>" if self.caption else ""
        return f'<section class="{kind}"><h2>{self.title}</h2>{self.body}{caption}{foot}</section>'


def _slides_of(notebook: Mapping[str, Any]) -> list[_Slide]:
    """The slides in the order of the notebook's cells; those of sections without words have no body."""
    made: list[_Slide] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            words, *_ = re.split(r"^#{1,3} ", cell["source"], flags=re.MULTILINE)
            if made and made[-1].shows and not made[-1].caption:
                made[-1].caption = _block(_first_paragraph(words))
            made.extend(_Slide(_inline(title), _block(_opening(text))) for title, text in _parts(cell["source"]))
            continue
        if (found := exercise_of(cell)) is not None:
            made.append(_Slide(f"Exercise <code>{found.name}</code>", f"<p>{_inline(found.question)}</p>"))
        for output in cell.get("outputs", []) if made else []:
            for shown in _shown(output.get("data", {}), made[-1].title):
                if made[-1].body:
                    made.append(_Slide(made[-1].title))
                made[-1].body, made[-1].shows = shown, True
    return made


def _shown(data: Mapping[str, Any], title: str) -> list[str]:
    """The pictures, tables and predictions of an output as HTML; of a moving picture what it shows without a script."""
    made = "".join(data.get("text/html", ""))
    alt = html.escape(f"Picture: {re.sub('<annotation.*?</annotation>|<.*?>', '', title)}")
    png = "".join(data.get("image/png", "")).replace("\n", "")
    if pictures := [png] if png else _IN_HTML.findall(made):
        return [f'<img alt="{alt}" src="data:image/png;base64,{png}">' for png in pictures]
    return _TABLE.findall(made) or ([made] if made.startswith("<p>") else [])


def _foot(head: str) -> str:
    return f"<footer>moe_lab · {head}</footer>"


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


def _first_paragraph(text: str) -> str:
    return text.strip().split("\n\n")[0]


def _opening(text: str) -> str:
    """The first paragraph with the formula, list or table that it leads to."""
    first, *others = text.strip().split("\n\n")
    leads = others and (others[0].startswith("$$") or (first.endswith(":") and others[0].startswith(_LISTED)))
    return f"{first}\n\n{others[0]}" if leads else first


def _first_sentence(text: str) -> str:
    """The first sentence of a text that is a paragraph; "" where it begins with a list, a table or a picture."""
    first = _first_paragraph(text).replace("\n", " ")
    if not first or first[0] in "-|!<>*0123456789$`":
        return ""
    return re.split(r"(?<=[.?!]) (?=[A-Z])", first)[0]


def _block(text: str) -> str:
    """Markdown as HTML with its formulas as MathML."""
    from nbconvert.filters import markdown2html

    formulas: list[str] = []

    def put_aside(found: re.Match[str]) -> str:  # since Markdown reads the _ and * of a formula as its own
        formulas.append(mathml(found[1] or found[2], "block" if found[1] else "inline"))
        return f"FORMULA{len(formulas) - 1}HERE"

    parts = _CODE.split(text)
    parts[::2] = [_MATH.sub(put_aside, part) for part in parts[::2]]  # not in code
    made = str(markdown2html("".join(parts))).strip()
    return re.sub(r"FORMULA(\d+)HERE", lambda found: formulas[int(found[1])], made)


def _inline(text: str) -> str:
    """A line of Markdown as HTML without a paragraph around it."""
    return _block(text).removeprefix("<p>").removesuffix("</p>")
