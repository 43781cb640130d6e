"""Sets the repository and the release in every badge, link and notebook set-up cell:

    python -m tools.badges [--repo owner/name] [--ref v1.2.3]

Both are kept in pyproject.toml ([tool.moe_lab] repo and ref). Without an option everything is stamped again with them.
The tables of the course and the solutions of the exercises are stamped too.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from moe_lab.registry import INDEX, NOTEBOOKS, Notebook, papers_of
from tools.course_map import course_table, map_table, ways_table
from tools.guide import stamp_guide
from tools.owner import release, repository
from tools.pairs import FORMAT, ROOT, bring_in_step, sources
from tools.solutions import stamp_solutions

# Text files that name the repository; the notebooks are stamped cell by cell.
NAMING = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CITATION.cff", ".github/ISSUE_TEMPLATE/config.yml")
# What comes before the name, in links and in the one place where it is set.
PLACES = (r"github\.com/", "/github/", "/v2/gh/", 'repo = "')
COURSE = Path("notebooks") / "README.md"
"""The page with the badges of all notebooks."""
MARK, END = "<!-- notebooks: written by `make badges` -->", "<!-- end -->"

SETUP = """\
# On Colab this installs moe_lab {ref} from github.com/{repo}, and keeps
# the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    source = "{package}git+https://github.com/{repo}@{ref}"
    print(f"Installing {source}")
    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source, "anywidget", *keep], check=True)"""


def badges(repo: str, ref: str, notebook: str) -> str:
    """The Markdown of a notebook's two badges.

    Args:
      repo: owner/name.
      ref: the tag or commit that they open.
      notebook: its file name, as "00_start_here.ipynb".
    """
    colab = f"https://colab.research.google.com/github/{repo}/blob/{ref}/notebooks/{notebook}"
    binder = f"https://mybinder.org/v2/gh/{repo}/{ref}?urlpath=lab/tree/notebooks/{notebook}"
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})\n"
        f"[![Open on Binder](https://mybinder.org/badge_logo.svg)]({binder})"
    )


def table(repo: str, ref: str) -> str:
    """The table of the course: title and badges of each notebook."""
    rows = ["| notebook | Colab | Binder |", "| --- | --- | --- |"]
    titles = dict([INDEX, *((notebook.stem, notebook.heading) for notebook in NOTEBOOKS)])
    for stem, title in titles.items():
        colab, binder = badges(repo, ref, f"{stem}.ipynb").splitlines()
        rows.append(f"| [{title}]({stem}.ipynb) | {colab} | {binder} |")
    return "\n".join(rows)


def stamp_course(root: Path) -> None:
    """Writes the table into the page of the course, between its two marks."""
    path = root / COURSE
    start, rest = path.read_text(encoding="utf-8").split(MARK, 1)
    shown = table(repository(root), release(root))
    path.write_text(f"{start}{MARK}\n{shown}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def setup_cell(repo: str, ref: str, extra: str = "") -> str:
    """The code of the set-up cell, which installs an extra of the package too where a notebook needs one.

    In `name[extra] @ address` the name only labels what is at the address: pip asks no index for it.
    """
    package = f"moe-lab[{extra}] @ " if extra else ""
    return SETUP.replace("{repo}", repo).replace("{ref}", ref).replace("{package}", package)


def paper_links(lesson: Notebook) -> str:
    """The papers that a notebook is about, with their addresses, as a sentence; "" where it is about none."""
    links = [f"[{paper.authors}, {paper.venue}]({paper.url})" for paper in papers_of(lesson)]
    return f"*The {'papers' if len(links) > 1 else 'paper'}: {'; '.join(links)}.*" if links else ""


def stamp(notebook: NotebookNode, repo: str, ref: str, name: str) -> None:
    """Writes a notebook's badges below its title, links to its papers, its set-up cell before any other code, tables
    and solutions.

    Args:
      notebook: changed in place.
      repo: owner/name.
      ref: a tag or a commit.
      name: the notebook's file name, as "00_start_here.ipynb".
    """
    cells = notebook.cells
    lesson = next((known for known in NOTEBOOKS if f"{known.stem}.ipynb" == name), None)
    for tag, make, text in (
        ("badges", _markdown, badges(repo, ref, name)),
        ("setup", _code, setup_cell(repo, ref, lesson.extra if lesson else "")),
        ("papers", _markdown, paper_links(lesson) if lesson else ""),
    ):
        if not text:
            continue
        place = next((i for i, cell in enumerate(cells) if tag in cell.metadata.get("tags", [])), None)
        if place is not None:
            cells[place].source = text
            cells[place].metadata.update(_about(tag))
            continue
        after = next((i for i, cell in enumerate(cells) if "badges" in cell.metadata.get("tags", [])), 0)
        cells.insert(after + 1, make(text, tag))
    for cell in cells:
        for tag, write in (("map", map_table), ("ways", ways_table), ("course", course_table)):
            if tag in cell.metadata.get("tags", []):
                cell.source = write()
    if lesson:
        stamp_solutions(notebook, lesson.exercises)


def _markdown(text: str, tag: str) -> NotebookNode:
    return NotebookNode(cell_type="markdown", source=text, metadata=_about(tag))


def _code(text: str, tag: str) -> NotebookNode:
    return NotebookNode(cell_type="code", source=text, metadata=_about(tag), outputs=[], execution_count=None)


def _about(tag: str) -> NotebookNode:
    """The metadata of a cell; JupyterLab hides the source of one that is code."""
    return NotebookNode(jupyter={"source_hidden": True}, tags=[tag]) if tag == "setup" else NotebookNode(tags=[tag])


def stamp_notebooks(root: Path) -> list[Path]:
    """Stamps the .py twin of every notebook. Returns those that changed."""
    changed = []
    for path in sources(root):
        before = path.read_text(encoding="utf-8")
        notebook = jupytext.reads(before, fmt=FORMAT)
        stamp(notebook, repository(root), release(root), f"{path.stem}.ipynb")
        after = jupytext.writes(notebook, fmt=FORMAT)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def rename(root: Path, repo: str) -> None:
    """Writes a new name wherever a text file has the present one.

    Raises:
      ValueError: the name is not of the form owner/name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}", repo):
        raise ValueError(f"REPO must be owner/name: got {repo!r}")
    present = repository(root)
    for path, place in ((root / name, place) for name in NAMING for place in PLACES):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf"(?<={place}){re.escape(present)}(?![\w-])", repo, text))


def set_release(root: Path, ref: str) -> None:
    """Writes the tag or commit that badges open and set-up cells install.

    Raises:
      ValueError: it is neither; a branch changes under its readers.
    """
    if not re.fullmatch(r"v\d+\.\d+\.\d+\w*|[0-9a-f]{40}", ref):
        raise ValueError(f"REF must be a tag such as v0.2.0 or the 40 digits of a commit: got {ref!r}")
    path = root / "pyproject.toml"
    path.write_text(re.sub(r'(?m)^ref = ".*"$', f'ref = "{ref}"', path.read_text(encoding="utf-8")), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.badges", description="Stamps badges and set-up cells.")
    parser.add_argument("--repo", help="owner/name on GitHub")
    parser.add_argument("--ref", help="the tag or commit that badges open and set-up cells install")
    given = parser.parse_args(arguments)
    try:
        if given.repo is not None:
            rename(ROOT, given.repo)
        if given.ref is not None:
            set_release(ROOT, given.ref)
    except ValueError as error:
        sys.exit(str(error))
    changed = stamp_notebooks(ROOT)
    stamp_course(ROOT)
    stamp_guide(ROOT)
    bring_in_step(ROOT)
    print(f"{repository()} {release()}: {len(changed)} notebooks stamped")


if __name__ == "__main__":
    main()
