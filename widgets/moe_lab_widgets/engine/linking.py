"""A state of a Lab that can be shared: a line of code, and an address of a page of the site that opens it.

Where the Lab has a page, that trains this very run; else the address is that of its notebook.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any
from urllib.parse import urlencode, urlparse

from moe_lab.registry import LABS, NOTEBOOKS, PAGES
from moe_lab_widgets.engine.copying import name_of
from moe_lab_widgets.engine.knobs import OWN, arguments
from moe_lab_widgets.engine.mnist import MNIST
from moe_lab_widgets.live.declare import LivePage
from moe_lab_widgets.playground.texts import BOTH

NOTEBOOK, LIVE = "the notebook of this Lab", "this run, live in the browser"
"""What an address opens."""
NOWHERE = "."
"""The site of a package that does not name its repository."""


@dataclass(frozen=True)
class Link:
    """What `Lab.link` returns; it displays itself at the end of a cell.

    Attributes:
      code: makes the Lab with these values.
      address: of a page that opens the run; empty for a Lab of one's own.
      opens: what that page shows: this run, live, or the Lab's notebook.
      lacks: what of this run the page cannot show, and shows instead; empty for most.
    """

    code: str
    address: str
    opens: str = NOTEBOOK
    lacks: str = ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, (self.code, self.address, self.lacks)))

    def _repr_html_(self) -> str:
        code, address = f"<pre>{html.escape(self.code)}</pre>", html.escape(self.address)
        lacks = f"<br>{html.escape(self.lacks)}" if self.lacks else ""
        return f"{code}<a href='{address}'>{self.opens}</a>: {address}{lacks}" if address else code


def link_of(
    kind: Any, values: Mapping[str, Any], needed: Mapping[str, Any], site: str | None, own: Mapping[str, Any]
) -> Link:
    """Returns the link to a state of a Lab.

    Args:
      kind: the Lab's class.
      values: of every knob, and the seed.
      needed: those that the Lab would not have by itself.
      site: the site's address; that of the package's repository when None.
      own: the Lab's own arguments, None where they were not given.
    """
    mine = {one: name_of(given, one) for one, given in own.items() if given is not None and one not in values}
    changed = arguments({one: value for one, value in needed.items() if value != OWN})
    name = kind.__name__
    call = f"{name}({', '.join(filter(None, [*map('='.join, mine.items()), changed]))})"
    if not kind.__module__.startswith("moe_lab_widgets."):
        return Link(f"# {name} is the Lab in your notebook\n{call}", "")
    yours = "".join(f"# {one} is what you gave to the Lab\n" for one in mine.values())
    code = f"from moe_lab_widgets import {name}\n{yours}{call}"
    place = (own_site() if site is None else site).rstrip("/")
    if name not in PAGES:
        number = next(lab.notebook for lab in LABS if lab.name == name)
        return Link(code, f"{place}/{next(one.stem for one in NOTEBOOKS if one.number == number)}.html")
    # no folder of the user's stands in an address, and nothing that a page cannot have
    known = {one: value for one, value in values.items() if one not in own and value != OWN}
    lacks = [BOTH["LACKS_MNIST"]] if values.get("source") == MNIST else []
    page: LivePage | None = kind.declaration.page
    lacks += [] if page is None or page.has(values) else page.missing
    for one in mine:
        lacks.append(BOTH["LACKS_OWN"].format(name=one))
        known[OWN] = one  # so that the page says so, too
    return Link(code, f"{place}/{PAGES[name]}#{urlencode({'lab': name, **known})}", LIVE, " ".join(lacks))


def own_site() -> str:
    """Returns the pages of the repository that the installed package names; "." if it is not installed."""
    try:
        links = metadata("moe-lab").get_all("Project-URL") or []
    except PackageNotFoundError:
        return NOWHERE
    source = next((link.partition(", ")[2] for link in links if link.startswith("Source, ")), "")
    owner, _, name = urlparse(source).path.strip("/").partition("/")
    return f"https://{owner}.github.io/{name}" if name else NOWHERE
