"""Pages of the site about the library itself: its reference, and a gallery of the figures with the call of each.

What a module holds comes from its docstrings and declared parameters (`docs/autodoc.py` turns them into a page); which
notebooks explain it, from what the notebooks import. Pictures of the gallery are those that notebooks store.
"""

from __future__ import annotations

import ast
import base64
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from moe_lab.registry import NOTEBOOKS, PAPERS, SHARED_ROOMS, notebook_of
from tools.outputs import is_exercise
from tools.pairs import read

ROOT = Path(__file__).resolve().parent.parent
SHARED: Mapping[str, str] = {
    "moe_lab.core.snapshots": "Runs as streams of Snapshots",
    "moe_lab.drawing.plots": "Learning curves",
    "moe_lab.core.sweep": "Grids of runs",
    "moe_lab.core.config": "Parameters",
    "moe_lab.core.routing": "Routing",
    "moe_lab.core.saliency": "Criteria of pruning",
    "moe_lab.core.trials": "Random streams",
    "moe_lab.core.devices": "Where a run computes",
    "moe_lab.recovery.gridlock.estimator": "A regressor for scikit-learn",
    "moe_lab_hub": "Models of Hugging Face",
}
OF_COURSE = ("moe_lab.cli", "moe_lab.course", "moe_lab.exercises", "moe_lab.drawing.theme", "moe_lab.drawing.mixture")
"""What notebooks and how-to pages import that is the course's own, or looks alone."""
PARTS = ("figures", "plots", "theory")
"""Modules of a room with pages of their own."""

_OF_HOWTO = re.compile(r"^(?:from|import) (moe_lab[\w.]*)", re.MULTILINE)
_TINY = "samples=(60, 100), trials=3"
SMALL: Mapping[str, Mapping[str, str]] = {
    "moe_lab.patch_routing.figures": {
        "accuracy_by_experts": "experts=(1, 2, 4, 8), samples=(60,), trials=3",
        "accuracy_by_patches": "patches_per_expert=(1, 2, 4, 8), samples=(60,), trials=3",
        "illustrations": "seed=1",
        "joint_routers": _TINY,
        "phase_map": "patches_per_expert=(2, 4, 6), samples=(60, 140, 240), trials=5",
        "sample_complexity": _TINY,
        "separate_routers": _TINY,
    },
    "moe_lab.specialization.figures": {
        "dispatch_table": "samples=1000",
        "entropy_through_time": "samples=1000, trials=3",
        "inner_products": "samples=1000",
        "load_balancing": "samples=1000, trials=2",
        "single_experts": "samples=1000, trials=1",
        "table1": "samples=1000, trials=2",
        "table3": "samples=1000, trials=2",
        "tsne": "samples=1000",
    },
    "moe_lab.pruning.figures": {"figure7": "trials=3"},
    "moe_lab.recovery.gridlock.figures": {"figure4": "samples=(500, 1000, 2000), trials=3, iterations=30"},
    "moe_lab.recovery.landscape.figures": {
        "loss_surface": "loss='L4'",
        "random_gates": "trials=3",
        "small_batches": "trials=3, every=200",
    },
    "moe_lab.vision.figures": {
        "sample_complexity": "samples=(100, 300), models=('learned', 'none'), trials=1, steps=40, test_samples=100",
    },
}
"""Arguments with which the site's build draws a figure that no notebook stores."""

NO_FIGURES = frozenset({"published", "published_compute", "surface", "where_l2_ended"})
"""Functions beside the figures whose Datasets are numbers to compare with, or parts of a figure."""

PICTURE = """

`picture(data, scale=1.0)` draws whatever the figures of this paper return on a page of its own;
`caption(data)` describes it in words."""


@cache
def modules() -> Mapping[str, str]:
    """Every module with a page, and its title: those above, the rooms, and what notebooks and how-to pages import."""
    found = dict(SHARED)
    for room in (*(paper.room for paper in PAPERS.values()), *SHARED_ROOMS):
        package = f"moe_lab.{room}"
        found[package] = (inspect.getdoc(importlib.import_module(package)) or package).split(":")[0].splitlines()[0]
        found |= {f"{package}.{part}": f"{part.capitalize()}" for part in PARTS if _exists(f"{package}.{part}")}
    texts = [one.read_text(encoding="utf-8") for one in sorted((ROOT / "docs" / "howto").glob("*.md"))]
    asked = {name for text in texts for name in _OF_HOWTO.findall(text)}
    asked |= {name for notebook in NOTEBOOKS for name in _imported(ROOT / "notebooks" / f"{notebook.stem}.py")}
    for name in sorted(asked - set(found)):
        if not name.startswith(OF_COURSE) and name != "moe_lab" and _exists(name):
            package, _, own = name.rpartition(".")
            module = importlib.import_module(name)
            if not package or getattr(importlib.import_module(package), own) is module:  # no function of that name
                found[name] = _first_line(module)
    return found


def _first_line(documented: object) -> str:
    """The first paragraph of a docstring on one line, without its last full stop."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split()).rstrip(".")


def explained_in(root: Path) -> dict[str, list[str]]:
    """The notebooks that use a module, by its name: their stems."""
    found: dict[str, list[str]] = {name: [] for name in modules()}
    for notebook in NOTEBOOKS:
        for name in _imported(root / "notebooks" / f"{notebook.stem}.py"):
            if name in found and notebook.stem not in found[name]:
                found[name].append(notebook.stem)
    return found


def used_by(root: Path, stem: str) -> str:
    """A line with links to the reference of what a notebook uses; "" if it uses nothing that has a page."""
    used = [name for name, stems in explained_in(root).items() if stem in stems]
    links = ", ".join(f"[`{name}`](reference/{name}.md)" for name in used)
    return f"*In the reference:* {links}." if links else ""


def reference_pages(root: Path) -> dict[str, str]:
    """The pages of the reference by the names of their files."""
    titles, notebooks = modules(), explained_in(root)
    headings = {notebook.stem: notebook.heading for notebook in NOTEBOOKS}
    rows = [f"- [`{name}`]({name}.md): {title}" for name, title in titles.items()]
    tree = ["```{toctree}", ":hidden:", "", *titles, "```"]
    opening = "Every parameter has its symbol, meaning, default and bounds; `help(...)` shows the same."
    pages = {"reference/index.md": "\n".join(["# Reference", "", opening, "", *rows, "", *tree, ""])}
    seen: set[int] = set()
    for name in titles:
        module = importlib.import_module(name)
        links = ", ".join(f"[{headings[stem]}](../{stem}.ipynb)" for stem in notebooks[name])
        imported = "   :imported-members:\n" if hasattr(module, "__path__") else ""
        explained = f"Explained in {links}.\n\n" if links else ""
        left = _left_out(module, seen)
        options = f"   :members:\n   :exclude-members: {', '.join(left)}\n{imported}"
        body = f"{_table(module, left)}```{{eval-rst}}\n.. automodule:: {name}\n{options}```"
        body += PICTURE if name.endswith(".plots") else ""
        pages[f"reference/{name}.md"] = f"# {name.removeprefix('moe_lab.')}\n\n{explained}{body}\n"
    return pages


def _members(module: ModuleType) -> Iterator[tuple[str, object, bool]]:
    """The names of a module with their values, and whether each is its own: in its `__all__`, or defined there."""
    every = hasattr(module, "__all__")
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name)
        yield name, value, every or getattr(value, "__module__", "") == module.__name__


def _table(module: ModuleType, left: Sequence[str]) -> str:
    """A line for each function and class of a page, linked: what it is or does."""
    rows = [
        f"| {{py:obj}}`{name} <{module.__name__}.{name}>` | {_in_markdown(_first_line(value))} |"
        for name, value, own in _members(module)
        if own and (inspect.isfunction(value) or inspect.isclass(value)) and name[0] != "_" and name not in left
    ]
    return "\n".join(["| name | what it is or does |", "| --- | --- |", *rows, "", ""]) if len(rows) > 1 else ""


def _in_markdown(words: str) -> str:
    """Words of a docstring, of which only code in backticks is marked up."""
    parts = words.replace("|", "\\|").split("`")
    return "`".join(re.sub(r"([*_<])", r"\\\1", part) if not at % 2 else part for at, part in enumerate(parts))


def _left_out(module: ModuleType, seen: set[int]) -> list[str]:
    """Names that the page of a module leaves out: what another page has, and methods that are bound to an object."""
    left = ["model_config"]
    for name, value, own in _members(module):
        if not own:
            if inspect.ismethod(value):
                left.append(name)
            continue  # imported for its own use: autodoc leaves it out by itself
        if inspect.ismethod(value) or (id(value) in seen and (inspect.isclass(value) or inspect.isfunction(value))):
            left.append(name)
        seen.add(id(value))
    return left


class Shown(NamedTuple):
    """A figure in the gallery.

    Attributes:
      title: what its picture shows, or what it is.
      drawn: whether there is a picture.
      explained: where a notebook is about it, in Markdown.
      made: the call of the picture, as a comment.
    """

    module: str
    name: str
    title: str
    drawn: bool
    explained: str
    made: str

    @property
    def file(self) -> str:
        """The name of its picture."""
        return f"{self.module}.{self.name}.png"

    @property
    def anchor(self) -> str:
        """Where it is on the page."""
        return f"gallery-{self.module}-{self.name}".replace(".", "-").replace("_", "-")


def shown_figures(root: Path, folder: Path, draw: bool = False) -> list[Shown]:
    """Writes the pictures of all figures into a folder, and returns what the gallery has of each.

    Args:
      draw: whether to compute what no notebook stores, in small runs of about three minutes together.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [_shown(root, folder, module, name, draw) for module, names in gallery() for name in names]


def gallery_page(figures: Sequence[Shown], folder: str) -> str:
    """The gallery: thumbnails, then every figure with its call.

    Args:
      folder: where the pictures are, seen from the page.
    """
    parts = [
        "# Gallery\n\nEvery figure and table that the library makes, under what it shows, and the call that makes it. "
        "A picture is the one that a notebook stores, often of a smaller run; without arguments a call is as large as "
        "the paper's.",
        '<div class="moe-lab-gallery">',
        *(_thumbnail(folder, one) for one in figures if one.drawn),
        "</div>",
    ]
    for module, of_room in groupby(figures, key=lambda one: one.module):
        parts.append(f"## {module.removeprefix('moe_lab.').removesuffix('.figures')}")
        parts += [_entry(folder, one) for one in of_room]
    return "\n\n".join(parts) + "\n"


def _shown(root: Path, folder: Path, module: str, name: str, draw: bool) -> Shown:
    """Writes the picture of a figure, where a notebook stores one or it is drawn here."""
    file, stored, small = folder / f"{module}.{name}.png", _stored(root).get((module, name)), _small(module, name)
    if stored is not None:
        stem, made, finding, png = stored
        file.write_bytes(png)
        explained = f"[Notebook {stem[:2]}](../{stem}.ipynb) explains it.\n\n"
        return Shown(module, name, finding, True, explained, f"\n\n# in the notebook: {made}")
    if not draw or small is None:
        return Shown(module, name, name, False, "", "")
    plots = importlib.import_module(module.replace(".figures", ".plots"))
    picture = plots.picture(eval(f"function({small})", {"function": getattr(importlib.import_module(module), name)}))
    picture.savefig(file)
    notebook = notebook_of(f"{module}.{name}")
    explained = "" if notebook is None else f"[Notebook {notebook.number}](../{notebook.stem}.ipynb) is about it.\n\n"
    return Shown(module, name, picture.finding, True, explained, f"\n\n# here: figures.{name}({small})")


def _small(module: str, name: str) -> str | None:
    return SMALL.get(module, {}).get(name)


def _thumbnail(folder: str, one: Shown) -> str:
    title = one.title.removesuffix(".")
    return f"[{title}\n![{title}]({folder}/{one.file})](#{one.anchor})"


def _entry(folder: str, one: Shown) -> str:
    """A figure with its picture and its call."""
    function = getattr(importlib.import_module(one.module), one.name)
    what = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ").replace("*", r"\*")
    picture = f"![{one.title}]({folder}/{one.file})\n\n" if one.drawn else ""
    call = f"from {one.module.rsplit('.', 1)[0]} import figures, plots\n\nplots.picture(figures.{one.name}()){one.made}"
    heading = f"({one.anchor})=\n### {one.title.removesuffix('.')}"
    return f"{heading}\n\n`{one.name}`: {what}\n\n{picture}{one.explained}```python\n{call}\n```"


@cache
def _stored(root: Path) -> dict[tuple[str, str], tuple[str, str, str, bytes]]:
    """The first stored picture of each figure that says what it shows: the notebook's stem, the call, that, the PNG."""
    found: dict[tuple[str, str], tuple[str, str, str, bytes]] = {}
    for notebook in NOTEBOOKS:
        rooms = _imported(root / "notebooks" / f"{notebook.stem}.py")
        for cell in read(root / "notebooks" / f"{notebook.stem}.ipynb").cells:
            data = [output.get("data", {}) for output in cell.get("outputs", [])]
            pictures = [one for one in data if "image/png" in one and not one.get("text/plain", "<").startswith("<")]
            if not pictures or is_exercise(cell) or "Lab(" in cell.source:
                continue
            for module, names in gallery():
                for name in names if module in rooms else ():
                    if f"figures.{name}(" in cell.source:
                        call = _call(cell.source, f"figures.{name}")
                        said, png = pictures[0]["text/plain"], base64.b64decode(pictures[0]["image/png"])
                        found.setdefault((module, name), (notebook.stem, call, said, png))
    return found


def _call(source: str, function: str) -> str:
    """The first call of a function in a cell."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return next(ast.unparse(call) for call in calls if ast.unparse(call.func) == function)


@cache
def gallery() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Every module of figures, and its functions whose pictures the gallery has."""
    found = []
    for name in (name for name in modules() if name.endswith(".figures")):
        module = importlib.import_module(name)
        named = [one for one, made in _functions(module) if str(made) in ("xr.Dataset", "xarray.Dataset")]
        found.append((name, tuple(one for one in named if one not in NO_FIGURES)))
    return tuple(found)


def _functions(module: ModuleType) -> Iterator[tuple[str, object]]:
    """The public functions of a module, and what each returns."""
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name)
        if inspect.isfunction(value) and not name.startswith("_") and value.__module__.startswith(module.__name__[:-8]):
            yield name, value.__annotations__.get("return")


def _imported(path: Path) -> set[str]:
    """The modules that a notebook imports, packages with the names that are modules in them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("moe_lab"):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("moe_lab")}
    return found


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
