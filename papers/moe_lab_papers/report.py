"""report.html: a self-contained page, pictures included, of published and measured results side by side."""

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
from moe_lab.core.findings import Finding
from moe_lab.registry import CLAIMED
from moe_lab_papers.claim import Measurement, imported
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.ledger import errata
from moe_lab_papers.runner import Order
from moe_lab_papers.verdicts import Row, tally

_VERSIONS = ("torch", "numpy", "scipy", "xarray", "scikit-learn", "matplotlib")


def page(
    rows: Sequence[Row], data: Mapping[str, xr.Dataset], order: Order, device: str, names: Sequence[str] = ()
) -> str:
    """Returns the page, which loads nothing from elsewhere.

    Args:
      rows: the judged claims.
      data: the Datasets of measurements that have a picture, by name.
      order: how they were measured.
      device: on which device, in words.
      names: of claims, as the user gave them.
    """
    papers = [_paper(key, [row for row in rows if row.claim.paper == key], data) for key in CLAIMED]
    template = Environment(
        loader=PackageLoader("moe_lab_papers", "."), autoescape=True, undefined=StrictUndefined
    ).get_template("report.html")
    versions = {name: version(name) for name in _VERSIONS}
    about = {"moe_lab": __version__, "Python": platform.python_version(), **versions, "platform": platform.platform()}
    found = [paper for paper in papers if paper["rows"]]
    return template.render(
        papers=found, order=order, device=device, versions=about, tally=tally(rows), command=_command(names, order)
    )


def _command(names: Sequence[str], order: Order) -> str:
    """Returns the command that makes this page again."""
    data = "" if order.data is None else " --data FOLDER"
    selection = "".join(f"{name} " for name in names)
    return f"moe-lab reproduce {selection}--budget {order.budget} --seed {order.seed} --device {order.device}{data}"


def _paper(key: str, rows: Sequence[Row], data: Mapping[str, xr.Dataset]) -> dict[str, Any]:
    return {
        "key": key,
        "title": CLAIMED[key].citation,
        "tally": tally(rows),
        "rows": rows,
        "parts": _parts(rows, data),
        "errata": [(erratum, checked(erratum)) for erratum in errata() if erratum.paper == key] if rows else [],
    }


def _parts(rows: Sequence[Row], data: Mapping[str, xr.Dataset]) -> list[dict[str, Any]]:
    """Groups rows by measurement, each above its picture; groups without a picture share a table with the next."""
    by_measurement: dict[str, list[Row]] = {}
    for row in rows:
        by_measurement.setdefault(row.claim.measurement.name, []).append(row)
    parts: list[dict[str, Any]] = []
    for name, group in by_measurement.items():
        picture = _picture(group[0].claim.measurement, data[name]) if name in data else None
        if parts and parts[-1]["picture"] is None:
            parts[-1] = {"rows": [*parts[-1]["rows"], *group], "picture": picture}
        else:
            parts.append({"rows": group, "picture": picture})
    return parts


def _picture(measurement: Measurement, data: xr.Dataset) -> dict[str, str]:
    """Returns a picture as a data URL, with the sentence that describes it."""
    return {
        "name": measurement.name,
        "sees": measurement.sees,
        "call": str(data.attrs["measured_by"]),
        "source": "data:image/png;base64," + base64.b64encode(png(measurement, data)).decode(),
    }


def png(measurement: Measurement, data: xr.Dataset) -> bytes:
    """Returns the measurement's picture as PNG."""
    figure, content = imported(measurement.picture)(data), io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def checked(erratum: Erratum) -> Finding | None:
    """Returns the result of the erratum's check; None where it has none."""
    return None if erratum.check is None else erratum.check()
