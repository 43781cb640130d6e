"""report.html: a self-contained page, pictures included, of published and measured results side by side."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence

import xarray as xr

from moe_lab.core.findings import Finding
from moe_lab_papers.claim import Measurement, imported
from moe_lab_papers.digest import Digest, digests, templates
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.exchange import hash_of_rules
from moe_lab_papers.form import RunPart
from moe_lab_papers.ledger import measurements
from moe_lab_papers.runner import Order
from moe_lab_papers.verdicts import Row, tally


def page(
    rows: Sequence[Row], data: Mapping[str, xr.Dataset], order: Order, run: RunPart, names: Sequence[str] = ()
) -> str:
    """Returns the page, which loads nothing from elsewhere.

    Args:
      rows: the judged claims.
      data: the Datasets of measurements that have a picture, by name.
      order: how they were measured.
      run: the same, as results.json states it.
      names: of claims, as the user gave them.
    """
    claims = [row.claim for row in rows]
    found = digests(claims, rows)
    return (
        templates()
        .get_template("report.html")
        .render(
            digests=found,
            anchor=lambda key: f"#{key}",
            pictured=[_picture(one, data[one.name]) for one in measurements(claims) if one.name in data],
            errata=[(one.title, _checked(one)) for one in found if one.errata],
            order=order,
            run=run,
            rules=hash_of_rules(claims),
            tally=tally(rows),
            command=_command(names, order),
        )
    )


def _command(names: Sequence[str], order: Order) -> str:
    """Returns the command that makes this page again."""
    data = "" if order.data is None else " --data FOLDER"
    selection = "".join(f"{name} " for name in names)
    return f"moe-lab reproduce {selection}--budget {order.budget} --seed {order.seed} --device {order.device}{data}"


def _checked(paper: Digest) -> list[tuple[Erratum, Finding | None]]:
    return [(erratum, checked(erratum)) for erratum in paper.errata]


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
