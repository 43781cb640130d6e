"""All claims and errata, paper by paper and then by topic, and their selection by name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache

from moe_lab.core.arguments import checked
from moe_lab.registry import CLAIMED
from moe_lab_papers.catalogue import selected
from moe_lab_papers.claim import Claim, Measurement
from moe_lab_papers.erratum import Erratum


@cache
def claims() -> tuple[Claim, ...]:
    """Returns every claim, paper by paper, and then those of topics."""
    return tuple(claim for key in CLAIMED for claim in importlib.import_module(f"{__package__}.{key}").CLAIMS)


@cache
def errata() -> tuple[Erratum, ...]:
    """Returns every erratum, paper by paper."""
    return tuple(erratum for key in CLAIMED for erratum in importlib.import_module(f"{__package__}.{key}").ERRATA)


@checked
def chosen(names: Sequence[str] = ()) -> tuple[Claim, ...]:
    """Returns the claims whose id is one of the names or has it as its first parts ("chen2022", "chen2022/table3").

    All claims if there are no names.

    Raises:
      ValueError: no id has a name as its first parts.
    """
    known = claims()
    ids = set(selected((claim.id for claim in known), names))
    return tuple(claim for claim in known if claim.id in ids)


def measurements(selection: Sequence[Claim]) -> tuple[Measurement, ...]:
    """Returns the measurements behind the claims, each once."""
    return tuple({claim.measurement.name: claim.measurement for claim in selection}.values())
