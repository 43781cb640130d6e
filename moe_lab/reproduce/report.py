"""report.html: a page of its own, pictures inside, that lays what was measured beside what the papers have."""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import xarray as xr
from jinja2 import Environment, PackageLoader, StrictUndefined

from moe_lab import __version__
from moe_lab.findings import Finding
from moe_lab.reproduce.claim import Erratum, Measurement, imported
from moe_lab.reproduce.ledger import PAPERS, errata
from moe_lab.reproduce.runner import Order
from moe_lab.reproduce.verdicts import Row, tally

_VERSIONS = ("torch", "numpy", "scipy", "xarray", "scikit-learn", "matplotlib")


def page(rows: Sequence[Row], data: Mapping[str, xr.Dataset], order: Order, device: str) -> str:
    """The whole page: nothing in it is fetched from elsewhere.

    Args:
      rows: the judged claims.
      data: the Datasets of measurements that have a picture, by name.
      order: how they were measured.
      device: on what, in words.
    """
    papers = [_paper(key, [row for row in rows if row.claim.paper == key], data) for key in PAPERS]
    template = Environment(
        loader=PackageLoader("moe_lab.reproduce", "."), autoescape=True, undefined=StrictUndefined
    ).get_template("report.html")
    versions = {name: version(name) for name in _VERSIONS}
    about = {"moe_lab": __version__, "Python": platform.python_version(), **versions, "platform": platform.platform()}
    found = [paper for paper in papers if paper["rows"]]
    return template.render(
        papers=found, order=order, device=device, versions=about, tally=tally(rows), command=_command(rows, order)
    )


def _command(rows: Sequence[Row], order: Order) -> str:
    """The command that makes this page again."""
    papers = list(dict.fromkeys(row.claim.paper for row in rows))
    names = "" if len(papers) == len(PAPERS) else " ".join(papers) + " "
    return f"moe-lab reproduce {names}--budget {order.budget} --seed {order.seed} --device {order.device}"


def _paper(key: str, rows: Sequence[Row], data: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    shown: dict[str, Measurement] = {row.claim.measurement.name: row.claim.measurement for row in rows}
    return {
        "key": key,
        "title": PAPERS[key],
        "tally": tally(rows),
        "rows": rows,
        "pictures": [_picture(one, data[name]) for name, one in shown.items() if name in data],
        "errata": [(one, checked(one)) for one in errata() if one.paper == key] if rows else [],
    }


def _picture(measurement: Measurement, data: xr.Dataset) -> dict[str, str]:
    """A picture as a data address, with the sentence that says what is to be seen."""
    return {
        "name": measurement.name,
        "sees": measurement.sees,
        "call": str(data.attrs["measured_by"]),
        "source": "data:image/png;base64," + base64.b64encode(png(measurement, data)).decode(),
    }


def png(measurement: Measurement, data: xr.Dataset) -> bytes:
    """The measurement's picture as PNG."""
    figure, content = imported(measurement.picture)(data), io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def checked(erratum: Erratum) -> Finding | None:
    """What the erratum's check says; None where it has none."""
    if not erratum.check:
        return None
    found = imported(erratum.check)()
    if not isinstance(found, Finding):
        raise TypeError(f"the check of an erratum must return a Finding: got {type(found).__name__} of {erratum.id}")
    return found
