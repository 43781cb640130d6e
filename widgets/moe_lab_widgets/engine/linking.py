"""A state of a Lab that can be shared: a line of code, and an address of the site's recorded runs."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any
from urllib.parse import urlencode, urlparse

from moe_lab_widgets.engine.knobs import arguments

PAGE = "labs.html"


@dataclass(frozen=True)
class Link:
    """What `Lab.link` returns; it displays itself at the end of a cell.

    Attributes:
      code: makes the Lab with these values.
      address: of a page that opens the recorded run whose values are nearest; empty for a Lab of one's own.
    """

    code: str
    address: str

    def __repr__(self) -> str:
        return f"{self.code}\n{self.address}".strip()

    def _repr_html_(self) -> str:
        code, address = f"<pre>{html.escape(self.code)}</pre>", html.escape(self.address)
        return f"{code}<a href='{address}'>the nearest recorded run</a>: {address}" if address else code


def link_of(kind: type, values: Mapping[str, Any], needed: Mapping[str, Any], site: str | None) -> Link:
    """Returns the link to a state of a Lab.

    Args:
      kind: the Lab's class.
      values: of every knob, and the seed.
      needed: those that the Lab would not have by itself.
      site: the site's address; that of the package's repository when None.
    """
    name, call = kind.__name__, f"{kind.__name__}({arguments(needed)})"
    if not kind.__module__.startswith("moe_lab_widgets."):
        return Link(f"# {name} is the Lab in your notebook\n{call}", "")
    address = f"{(own_site() if site is None else site).rstrip('/')}/{PAGE}#{urlencode({'lab': name, **values})}"
    return Link(f"from moe_lab_widgets import {name}\n{call}", address)


def own_site() -> str:
    """The pages of the repository that the installed package names; "." if it is not installed."""
    try:
        links = metadata("moe-lab").get_all("Project-URL") or []
    except PackageNotFoundError:
        return "."
    source = next((link.partition(", ")[2] for link in links if link.startswith("Source, ")), "")
    owner, _, name = urlparse(source).path.strip("/").partition("/")
    return f"https://{owner}.github.io/{name}" if name else "."
