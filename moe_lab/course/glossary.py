"""The symbols of the course, from the knobs that the rooms' Configs declare: by notebook, and by their names in code.

The papers use one letter for several things: n is patches, tokens or samples. Each meaning has a row.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from moe_lab.core.config import Config
from moe_lab.core.signatures import limits_of
from moe_lab.registry import NOTEBOOKS, ROOMS, notebook_of

if TYPE_CHECKING:
    import pandas as pd

TERMS = (
    ("l*", "moe_lab.patch_routing.data:PatternTask.l_star"),
    ("coverage", "moe_lab.patch_routing.measures:MEASURES[coverage]"),
    ("alignment", "moe_lab.patch_routing.measures:MEASURES[alignment]"),
    ("entropy", "moe_lab.specialization.measures:MEASURES[dispatch_entropy]"),
    ("Delta", "moe_lab.pruning.criteria:router_norm_change"),
    ("regressor fit", "moe_lab.recovery.measures:regressor_fit"),
    ("gating fit", "moe_lab.recovery.measures:gating_fit"),
    ("E(A, W)", "moe_lab.recovery.measures:parameter_error"),
)
"""Measured quantities: the symbol, and the function or Measure whose first sentence defines it."""

EARLIER = {("patch_routing", symbol): "00" for symbol in ("n", "k", "l", "N", "seed")} | {("patch_routing", "m"): "01"}
"""The notebooks that explain a room's symbols before the one that is about the room."""

_LEFT = "style='text-align: left'"
_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "Delta": "Δ",
    "eps": "ε",
    "eta": "η",
    "lambda": "λ",
    "mu": "μ",
    "rho": "ρ",
    "sigma": "σ",
}


@dataclass(frozen=True)
class Entry:
    """One meaning of a symbol.

    Attributes:
      symbol: as declared, in ASCII: "eta_r".
      meaning: a few words, or a sentence.
      room: the folder of the paper: "patch_routing".
      places: where it is declared: ("JointMoE.experts",); several where Configs share a knob.
      bounds: the allowed values, in words and with their unit; "" for measured quantities.
      notebook: the number of the first notebook that explains it.
    """

    symbol: str
    meaning: str
    room: str
    places: tuple[str, ...]
    bounds: str
    notebook: str

    @property
    def written(self) -> str:
        """The symbol with its Greek letters, as Labs and pictures write it: "η_r"."""
        return re.sub(r"[A-Za-z]+", lambda word: _GREEK.get(word[0], word[0]), self.symbol)


def configs(room: str) -> tuple[type[Config], ...]:
    """Returns the public Configs that a room declares, by name."""
    found = {
        value.__name__: value
        for module in _modules(room)
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Config) and value.__module__ == module.__name__
    }
    return tuple(found[name] for name in sorted(found) if not name.startswith("_") and not found[name].is_template())


@cache
def entries() -> tuple[Entry, ...]:
    """Returns every knob that has a symbol, and the terms of `TERMS`; by symbol, then in the order of the rooms."""
    merged: dict[tuple[str, str, str, str, str], list[type[Config]]] = {}
    for room in ROOMS:
        for config in configs(room):
            for knob in config.knobs().values():
                if knob.symbol:
                    key = (knob.symbol, knob.meaning, room, knob.name, limits_of(config, knob))
                    merged.setdefault(key, []).append(config)
    found = [
        Entry(
            symbol=symbol,
            meaning=meaning,
            room=room,
            places=tuple(f"{config.__name__}.{name}" for config in declaring),
            bounds=bounds,
            notebook=min(_notebook(config.__module__, room, symbol) for config in declaring),
        )
        for (symbol, meaning, room, name, bounds), declaring in merged.items()
    ]
    found += [_term(symbol, path) for symbol, path in TERMS]
    return tuple(sorted(found, key=lambda entry: (_order(entry.written), ROOMS.index(entry.room))))


def table() -> pd.DataFrame:
    """Returns the meanings of all symbols, each once, in the order of the notebooks that explain them first."""
    import pandas as pd

    first: dict[tuple[str, str], str] = {}
    for entry in entries():
        key = (entry.written, entry.meaning)
        first[key] = min(entry.notebook, first.get(key, entry.notebook))
    titles = {notebook.number: f"{notebook.number} {notebook.title}" for notebook in NOTEBOOKS}
    ordered = sorted(first.items(), key=lambda item: item[1])
    rows = [(symbol, meaning, titles[number]) for (symbol, meaning), number in ordered]
    return pd.DataFrame(rows, columns=["symbol", "meaning", "first in"])


def code_names() -> pd.DataFrame:
    """Returns where the library declares each symbol, and its allowed values; by symbol, then by room."""
    import pandas as pd

    rows = [(entry.written, entry.room, ", ".join(entry.places), entry.bounds) for entry in entries()]
    return pd.DataFrame(rows, columns=["symbol", "room", "declared in", "values"])


def as_html() -> str:
    """Returns both tables for a notebook, the names in code folded away."""
    return f"{_html(table())}<details><summary>Names in code</summary>{_html(code_names())}</details>"


def _html(frame: pd.DataFrame) -> str:
    """A table with its words at the left, also where a page removes style sheets."""
    return frame.to_html(index=False, border=0).replace("<td>", f"<td {_LEFT}>").replace("<th>", f"<th {_LEFT}>")


def _notebook(module: str, room: str, symbol: str) -> str:
    """The number of the first notebook that explains a symbol declared in a module."""
    about = notebook_of(module)
    assert about is not None, f"no notebook explains {module}"
    return EARLIER.get((room, symbol), about.number)


def _modules(room: str) -> Iterator[ModuleType]:
    package = importlib.import_module(f"moe_lab.{room}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(module.name)


def _term(symbol: str, path: str) -> Entry:
    """Returns the entry of a measured quantity; its meaning is the first sentence of the docstring."""
    module, name = path.split(":")
    item = re.fullmatch(r"(\w+)\[(\w+)\]", name)
    found: Any = importlib.import_module(module)
    for part in [item[1]] if item else name.split("."):
        found = getattr(found, part)
    sentence = found[item[2]].meaning if item else (inspect.getdoc(found) or "").split("\n\n")[0]
    meaning = " ".join(sentence.split()).removeprefix(f"{symbol}: ").removeprefix("Computes ").removesuffix(".")
    _, room, file = module.split(".")
    place = f"{file}.{item[2] if item else name}"
    return Entry(symbol, meaning, room, (place,), "", _notebook(module, room, symbol))


def _order(symbol: str) -> tuple[str, bool, str]:
    """Sort key: by letter, small before large, and a letter before the same with an index."""
    return re.split(r"[_*]", symbol)[0].lower(), symbol[0].isupper(), symbol
