"""Builds the course's site:  python -m tools.site [--results results.json] [--out site]

The first page is the playground. It leads to the course: a page with three doors, the notebooks with their stored
outputs, the instructor's guide, the glossary, what replicates of each paper, and the claims of `moe-lab reproduce`;
with a results.json of that command also what was measured. Labs train in the browser (see live_pages.py). Nothing is
fetched, and reading the site needs no network, server or kernel; without a script, Labs are still pictures.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from moe_lab.core.installing import how_to_install
from moe_lab.course import glossary
from moe_lab.course.copies import asks
from moe_lab.registry import CLAIMED, INDEX, NOTEBOOKS, PAGES
from moe_lab_papers.exchange import json_text
from moe_lab_papers.form import SCHEMA, schema
from tools.badges import badges
from tools.claims_page import DATA, claims_data, claims_page, paper_page, papers_judged
from tools.guide import GUIDE
from tools.landing import PICTURE, landing
from tools.live_pages import cells_of, labs_page, live, write_pages
from tools.markdown import WIDE, table
from tools.outputs import is_exercise
from tools.owner import release, repository
from tools.pairs import ROOT, read
from tools.reference import gallery_page, reference_pages, shown_figures, used_by

HOWTO = Path("docs") / "howto"
HOWTO_ORDER = (
    "playground", "figure", "gallery", "sweep", "data", "model", "router", "criterion", "prune", "compare", "claim",
    "cluster", "saving",
)  # fmt: skip
PAPERS = Path("docs") / "papers"
UNCLAIMED = "without_a_claim"
RESEARCH = ("howto/index", "papers/index", "reference/index")
_MENDED = (
    # What opens a part of the list of pages has no words; the link before it names the part.
    (
        r'(>([^<>]+)</a><details[^>]*>)<summary>(?=<span class="toctree-toggle")',
        r'\1<summary aria-label="\2: its pages">',
    ),
    (r'(?<=<div id="pst-primary-sidebar") (?=class=)', ' role="complementary" aria-label="The site" '),
    # The lines of a long signature are no list of definitions.
    (r'<dl>(?=\s*<dd><em class="sig-param">)', '<dl role="none">'),
)
COURSE = "course"
"""The page of the course, whose notebook is `INDEX`: the site's first page is the playground."""
COMPARE = "compare"
"""Tag of a cell that compares a prediction with what was seen."""
ELSEWHERE = "Here the table is [a page of its own](glossary.md), and so are [the papers' claims](claims.md)."


def notebook_page(
    notebook: NotebookNode,
    name: str,
    title: str,
    alive: Mapping[int, str] | None = None,
) -> NotebookNode:
    """Returns a stored notebook as a page, without its set-up cell and with links in place of its badges.

    What answers a question is folded, and the code that compares is left out.

    Args:
      notebook: as stored.
      name: its file name, as "00_start_here.ipynb".
      title: what it is about, for readers who cannot see its pictures.
      alive: what stands before the pictures of Labs, where the page runs scripts: HTML by the number of the cell.
    """
    cells: list[NotebookNode] = []
    folded = answers(notebook.cells)
    words = {"image": {"alt": f"A picture of “{title}”; the text below it says what to see."}}
    for number, cell in enumerate(notebook.cells):
        tags = cell.metadata.setdefault("tags", [])
        if "setup" in tags:
            continue
        if "badges" in tags:
            cell = _markdown(links(name))
        elif cell.get("outputs"):
            cell.metadata["mystnb"] = words
            if alive and number in alive:
                stills = [output for output in cell.outputs if "image/png" in output.get("data", {})]
                cell.outputs = [_html(alive[number]), *stills]
        cell.source = cell.source.replace(f"({INDEX[0]}.ipynb)", f"({COURSE}.ipynb)")
        if number in folded:
            tags += ["hide-output", *(["remove-input"] if COMPARE in tags else [])]
            prompts = {"code_prompt_show": "Show what happened", "code_prompt_hide": "Hide what happened"}
            cell.metadata["mystnb"] = {**cell.metadata.get("mystnb", {}), **prompts}
        cells.append(cell)
        if is_exercise(cell):
            cells.append(_markdown(exercise(name)))
    return NotebookNode({**notebook, "cells": cells})


def answers(cells: Sequence[NotebookNode]) -> set[int]:
    """The numbers of the cells whose outputs answer a question: after it, and what is compared with the comparison."""
    found: set[int] = set()
    code = [number for number, cell in enumerate(cells) if cell.cell_type == "code"]
    for before, after in itertools.pairwise(code):
        if asks(cells[before]) and not asks(cells[after]):
            found.add(after)
        if COMPARE in cells[after].metadata.get("tags", []):
            found |= {before, after}
    return found


def links(name: str) -> str:
    """Links to where a notebook can be run, without pictures."""
    colab, binder = _addresses(name)
    return f"To move the sliders, open this notebook [in Colab]({colab}), [on Binder]({binder}), or with `moe-lab lab`."


def exercise(name: str) -> str:
    """What stands below an exercise, whose check answers only where it can be run."""
    colab, binder = _addresses(name)
    return (
        f"*Your turn:* open this notebook [in Colab]({colab}) or [on Binder]({binder}), and fill the function in. "
        "The check says whether it is right, and gives a hint where it is not."
    )


def lab_note(name: str) -> str:
    """What stands below a Lab, in HTML."""
    colab, binder = _addresses(name)
    places = f'<a href="{colab}">in Colab</a> or <a href="{binder}">on Binder</a>'
    return f"It trains in your browser; to run the code, open {places}."


def _addresses(name: str) -> list[str]:
    """Where a notebook can be run: Colab and Binder."""
    return [badge.rsplit("(", 1)[1].rstrip(")") for badge in badges(repository(), release(), name).splitlines()]


def glossary_page() -> str:
    """The glossary as a page: a row for each meaning of a symbol, then the names in code."""
    opening = "The papers use one letter for several things; each meaning has its row."
    measured = "“declared in” names a parameter, or the function that measures what has no values."
    meanings, names = (
        table(list(frame.columns), frame.to_numpy().tolist()) for frame in (glossary.table(), glossary.code_names())
    )
    return f"{WIDE}\n# Symbols\n\n{opening}\n\n{meanings}\n\n## Names in code\n\n{measured}\n\n{names}\n"


def howto_page(pages: Mapping[str, str]) -> str:
    """The page that leads to the how-to pages, in the order in which they are read, with the first sentence of each."""
    order = [*(name for name in HOWTO_ORDER if name in pages), *(name for name in pages if name not in HOWTO_ORDER)]
    opening = "A task of a researcher on each page. The code runs as it stands there: a test runs it."
    lines = [f"- [{title}]({name}.md): {sentence}" for name in order for title, sentence in [_begins(pages[name])]]
    tree = ["```{toctree}", ":hidden:", "", *order, "```", ""]
    return "\n".join(["# How to", "", opening, "", *lines, "", *tree])


def _begins(page: str) -> tuple[str, str]:
    """Returns the title of a page in Markdown, and the first sentence below it."""
    title, _, rest = page.removeprefix(WIDE).lstrip().partition("\n\n")
    paragraph = rest.partition("\n\n")[0].replace("\n", " ")
    return title.removeprefix("# "), f"{paragraph.partition('. ')[0].rstrip('.:')}."


def papers_page(root: Path) -> str:
    """The page that leads to what replicates of each paper."""
    text = (root / PAPERS / "README.md").read_text(encoding="utf-8")
    return "\n".join([text, "```{toctree}", ":hidden:", "", *CLAIMED, UNCLAIMED, "```", ""])


def lay_out(root: Path, folder: Path, results: Path | None, draw: bool) -> None:
    """Writes the pages' sources into a new folder.

    Args:
      draw: whether to draw the figures that no notebook stores.

    Raises:
      ValueError: the results are not what `moe-lab reproduce` writes.
      FileNotFoundError: there are no such results.
    """
    pages = {"claims.md": claims_page(results), "glossary.md": glossary_page()}
    pages |= {DATA: json_text(claims_data(results).model_dump(mode="json")), SCHEMA: json_text(schema())}
    pages["labs.md"] = labs_page()
    pages[GUIDE.name] = (root / GUIDE).read_text(encoding="utf-8")
    folder.mkdir(parents=True)
    shutil.copyfile(root / PICTURE, folder / Path(PICTURE).name)
    pages |= {f"howto/{path.name}": path.read_text(encoding="utf-8") for path in sorted((root / HOWTO).glob("*.md"))}
    reference = reference_pages(root)
    judged, documented = papers_judged(results), {Path(name).name.removesuffix(".md") for name in reference}
    figures = shown_figures(root, folder / "howto" / "gallery", draw=draw)
    for name in (*CLAIMED, UNCLAIMED):
        text = (root / PAPERS / f"{name}.md").read_text(encoding="utf-8")
        pages[f"papers/{name}.md"] = paper_page(text, judged.get(name), documented, figures)
    pages["papers/index.md"] = papers_page(root)
    pages |= {**reference, "howto/gallery.md": gallery_page(figures, "gallery")}
    pages["howto/index.md"] = howto_page(
        {Path(name).stem: text for name, text in pages.items() if name.startswith("howto/")}
    )
    for name, text in pages.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    titles = dict([INDEX, *((notebook.stem, notebook.title) for notebook in NOTEBOOKS)])
    for name, title in titles.items():
        stored = read(root / "notebooks" / f"{name}.ipynb")
        runs, file = cells_of(stored), f"{name}.ipynb"
        alive = {number: live(run.lab, run.values, lab_note(file)) for number, run in runs.items() if run.lab in PAGES}
        page = notebook_page(stored, file, title, alive)
        if used := used_by(root, name):
            page.cells.append(_markdown(used))
        if name == INDEX[0]:
            name = COURSE
            others = [
                *list(titles)[1:],
                "labs",
                GUIDE.stem,
                "glossary",
                "claims",
                *RESEARCH,
            ]
            page.cells[0].source = page.cells[0].source.replace("# ", "## ", 1)
            page.cells.insert(0, _markdown(landing(root)))
            page.cells[-1] = _markdown(ELSEWHERE)
            page.cells.append(_markdown("\n".join(["```{toctree}", ":hidden:", "", *others, "```"])))
        nbformat.write(page, folder / f"{name}.ipynb")


def build(root: Path, out: Path, results: Path | None = None, draw: bool = False) -> None:
    """Builds the site into `out`, in place of what is there.

    Args:
      draw: whether to draw the figures that no notebook stores, too, which takes minutes.

    Raises:
      RuntimeError: Sphinx is not installed, warned, or `out` holds something else than a site.
      ValueError, FileNotFoundError: as `lay_out`.
    """
    missing = [name for name in ("sphinx", "myst_nb", "sphinx_book_theme", "latex2mathml") if not _installed(name)]
    if missing:
        raise RuntimeError(f"the site needs {', '.join(missing)}: {how_to_install('site')}")
    if out.exists() and any(out.iterdir()) and not (out / "searchindex.js").exists():
        raise RuntimeError(f"the site's folder must be empty or hold an older site: got {out}")
    with tempfile.TemporaryDirectory() as folder:
        pages, built = Path(folder) / "pages", Path(folder) / "built"
        lay_out(root, pages, results, draw)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-b", "html"]
        command += ["-c", str(root / "docs"), "-d", str(Path(folder) / "doctrees"), str(pages), str(built)]
        if subprocess.run(command, cwd=root).returncode:
            raise RuntimeError("Sphinx could not build the site; see its messages above")
        _mend(built)
        write_pages(root, built)
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(built, out)


def _mend(built: Path) -> None:
    """Mends what the theme and Sphinx leave: a script that is not needed, and parts that a screen reader cannot name.

    The script, of 1.5 MB, has thousands of icons; the few that are used come with the theme's style.
    """
    for path in built.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"<(script|link)\b[^>]*scripts/fontawesome\.js[^>]*>(</script>)?", "", text)
        for theirs, ours in _MENDED:
            text = re.sub(theirs, ours, text)
        path.write_text(text, encoding="utf-8")
    (built / "_static" / "scripts" / "fontawesome.js").unlink(missing_ok=True)


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _html(text: str) -> NotebookNode:
    return nbformat.v4.new_output("display_data", {"text/html": text})


def _markdown(text: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(text)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="Builds the course's site.")
    parser.add_argument("--results", type=Path, help="results.json of `moe-lab reproduce`")
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="the folder to build into")
    parser.add_argument("--quick", action="store_true", help="draw no figures but those that notebooks store")
    given = parser.parse_args(arguments)
    try:
        claims_page(given.results)  # before minutes of drawing
        build(ROOT, given.out.resolve(), given.results, draw=not given.quick)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(str(error))
    print(f"the site is built: {given.out / 'index.html'}")


if __name__ == "__main__":
    main()
