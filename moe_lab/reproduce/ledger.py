"""All claims and errata, paper by paper, and how one names some of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache

from moe_lab.config import require
from moe_lab.registry import PAPERS
from moe_lab.reproduce.claim import Claim, Measurement
from moe_lab.reproduce.erratum import Erratum


@cache
def claims() -> tuple[Claim, ...]:
    """Every claim, paper by paper."""
    return tuple(claim for paper in PAPERS for claim in importlib.import_module(f"{__package__}.{paper}").CLAIMS)


@cache
def errata() -> tuple[Erratum, ...]:
    """Every erratum, paper by paper."""
    return tuple(one for paper in PAPERS for one in importlib.import_module(f"{__package__}.{paper}").ERRATA)


def chosen(names: Sequence[str] = ()) -> tuple[Claim, ...]:
    """The claims of that name, or whose id begins with it ("chen2022", "chen2022/table3"); all where nothing is named.

    Raises:
      ValueError: nothing begins with a name.
    """
    known = claims()
    for name in names:
        require(
            any(_is_in(claim.id, name) for claim in known),
            f"a claim must be named by its id or its beginning, such as {known[0].id} or one of {', '.join(PAPERS)} "
            "(--list shows all)",
            name=name,
        )
    return tuple(claim for claim in known if not names or any(_is_in(claim.id, name) for name in names))


def _is_in(identity: str, name: str) -> bool:
    return identity == name or identity.startswith(name.rstrip("/") + "/")


def measurements(some: Sequence[Claim]) -> tuple[Measurement, ...]:
    """What the claims need measured, each once."""
    return tuple({claim.measurement.name: claim.measurement for claim in some}.values())
