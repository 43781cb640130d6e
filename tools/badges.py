"""Sets the repository's name in every badge, link and notebook set-up cell:  python -m tools.badges [owner/name]

The name is kept in pyproject.toml ([tool.moe_lab] repo). Without an argument everything is stamped again with it. The
tables of the course and the solutions of the exercises are stamped too.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from moe_lab.registry import INDEX, NOTEBOOKS
from tools.course_map import course_table, map_table, ways_table
from tools.guide import stamp_guide
from tools.pairs import FORMAT, ROOT, bring_in_step, sources
from tools.solutions import stamp_solutions

# Text files that name the repository; the notebooks are stamped cell by cell.
NAMING = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CITATION.cff")
# What comes before the name, in links and in the one place where it is set.
PLACES = (r"github\.com/", "/github/", "/v2/gh/", 'repo = "')
BRANCH = "main"
MARK, END = "<!-- notebooks: written by `make badges` -->", "<!-- end -->"

SETUP = """\
# On Colab this installs moe_lab beside the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    source = "{package}git+https://github.com/{repo}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source, "anywidget", *keep], check=True)"""


def repository(root: Path = ROOT) -> str:
    """The repository's name, as "owner/name"."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["tool"]["moe_lab"]["repo"])


def badges(repo: str, notebook: str) -> str:
    """The Markdown of a notebook's two badges.

    Args:
      repo: owner/name.
      notebook: its file name, as "00_start_here.ipynb".
    """
    colab = f"https://colab.research.google.com/github/{repo}/blob/{BRANCH}/notebooks/{notebook}"
    binder = f"https://mybinder.org/v2/gh/{repo}/{BRANCH}?urlpath=lab/tree/notebooks/{notebook}"
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})\n"
        f"[![Open on Binder](https://mybinder.org/badge_logo.svg)]({binder})"
    )


def table(repo: str) -> str:
    """The README's table of notebooks: title and badges."""
    rows = ["| notebook | Colab | Binder |", "| --- | --- | --- |"]
    titles = dict([INDEX, *((notebook.stem, notebook.heading) for notebook in NOTEBOOKS)])
    for stem, title in titles.items():
        colab, binder = badges(repo, f"{stem}.ipynb").splitlines()
        rows.append(f"| [{title}](notebooks/{stem}.ipynb) | {colab} | {binder} |")
    return "\n".join(rows)


def stamp_readme(root: Path, repo: str) -> None:
    """Writes the table into the README, between its two marks."""
    path = root / "README.md"
    start, rest = path.read_text().split(MARK, 1)
    path.write_text(f"{start}{MARK}\n{table(repo)}\n{END}{rest.split(END, 1)[1]}")


def setup_cell(repo: str, extra: str = "") -> str:
    """The code of the set-up cell, which installs an extra of the package too where a notebook needs one."""
    return SETUP.replace("{repo}", repo).replace("{package}", f"moe-lab[{extra}] @ " if extra else "")


def stamp(notebook: NotebookNode, repo: str, name: str) -> None:
    """Writes a notebook's badges below its title, its set-up cell before any other code, tables and solutions.

    Args:
      notebook: changed in place.
      repo: owner/name.
      name: the notebook's file name, as "00_start_here.ipynb".
    """
    cells = notebook.cells
    lesson = next((known for known in NOTEBOOKS if f"{known.stem}.ipynb" == name), None)
    for tag, make, text in (
        ("badges", _markdown, badges(repo, name)),
        ("setup", _code, setup_cell(repo, lesson.extra if lesson else "")),
    ):
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


def stamp_notebooks(root: Path, repo: str) -> list[Path]:
    """Stamps the .py twin of every notebook. Returns those that changed."""
    changed = []
    for path in sources(root):
        before = path.read_text()
        notebook = jupytext.reads(before, fmt=FORMAT)
        stamp(notebook, repo, f"{path.stem}.ipynb")
        after = jupytext.writes(notebook, fmt=FORMAT)
        if after != before:
            path.write_text(after)
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
        text = path.read_text()
        path.write_text(re.sub(rf"(?<={place}){re.escape(present)}(?![\w-])", repo, text))


def main(arguments: list[str]) -> None:
    try:
        if arguments:
            rename(ROOT, arguments[0])
    except ValueError as error:
        sys.exit(str(error))
    changed = stamp_notebooks(ROOT, repository())
    stamp_readme(ROOT, repository())
    stamp_guide(ROOT)
    bring_in_step(ROOT)
    print(f"{repository()}: {len(changed)} notebooks stamped")


if __name__ == "__main__":
    main(sys.argv[1:])
