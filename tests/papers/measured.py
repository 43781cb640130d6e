"""The results of a quick run of all claims at seed 0, against which the rules are tested.

`python -m tests.papers.measured FOLDER --data DATA` makes `measured.zip` anew from a folder of results:

    moe-lab reproduce --seed 0 --device cpu --data DATA --out FOLDER

With `--changed` it keeps those that are still of the claims' calls, and measures the others.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr

from moe_lab.core.files import from_netcdf, netcdf
from moe_lab_papers import ledger
from moe_lab_papers.claim import Claim, Measurement
from moe_lab_papers.runner import Order, joined, measured, missing, pieces
from moe_lab_papers.spread import judge
from moe_lab_papers.verdicts import Row

UNREADABLE = (KeyError, ValueError, IndexError, TypeError)
"""What reading a claim's number raises where the data do not have it."""
KEPT = Path(__file__).parent / "measured.zip"


@cache
def datasets() -> dict[str, xr.Dataset]:
    """Returns the Dataset of each measurement whose data were there, by its name."""
    with zipfile.ZipFile(KEPT) as archive:
        return {name.removesuffix(".nc"): from_netcdf(archive.read(name)) for name in archive.namelist()}


@cache
def rows() -> tuple[Row, ...]:
    """Returns the result of every claim; those whose data were not there need data."""
    found = datasets()
    return tuple(_row(claim, found.get(claim.measurement.name)) for claim in ledger.claims())


def _row(claim: Claim, data: xr.Dataset | None) -> Row:
    if data is None:
        return Row(claim, "needs data", np.zeros(0), 0.0, "", (), "needs a file")
    found, calls = judge(claim, data), (data.attrs["measured_by"],)
    return Row(
        claim,
        found.verdict,
        claim.values(data),
        1.0,
        "cpu",
        calls,
        leaning=found.leaning,
        interval=found.interval,
        settled_by=found.settled_by,
    )


def first_call(measurement: Measurement, data: Path | None) -> str:
    """Returns the call of a measurement's first piece, as its Dataset states it; the folder of files is "DATA"."""
    call = pieces(measurement, Order("quick", 0, "cpu", Path(), data=data))[0].call
    return call if data is None else call.replace(str(data), "DATA")


def read_variables(measurement: Measurement, data: xr.Dataset) -> list[str]:
    """Returns the variables that claims read: those without which a number cannot be read, or is another.

    There are none where the data do not have all of them.
    """
    claims = [claim for claim in ledger.claims() if claim.measurement is measurement]

    def read(left: xr.Dataset) -> list[list[float]] | None:
        try:
            return [claim.values(left).tolist() for claim in claims]
        except UNREADABLE:
            return None

    found = read(data)
    if found is None:
        return []
    return [str(name) for name in data.data_vars if read(data.drop_vars([name])) != found]


def smaller(data: xr.Dataset, most: int = 5000) -> xr.Dataset:
    """Keeps single precision of what has many numbers: the points of a scatter plot, say."""
    large = [name for name, values in data.data_vars.items() if values.dtype.kind == "f" and values.size > most]
    return data.assign({name: data[name].astype("float32") for name in large})


def keep(folder: Path, data: Path | None, kept: Mapping[str, xr.Dataset]) -> None:
    """Writes `measured.zip` from the finished pieces in a folder of results; measures what is missing there.

    Args:
      kept: Datasets by name; those that the claims' calls made are written again as they are.
    """
    order = Order("quick", 0, "cpu", folder / "measured", data=data)
    with zipfile.ZipFile(KEPT, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for measurement in ledger.measurements(ledger.claims()):
            old = kept.get(measurement.name)
            if old is not None and (missing(measurement, data) or _still(measurement, old, data)):
                archive.writestr(_member(measurement), netcdf(old), zipfile.ZIP_DEFLATED, 9)
                continue
            if missing(measurement, data):
                continue
            done = list(measured(order, plan := pieces(measurement, order)))
            places = {piece.call: place for place, piece in enumerate(plan)}
            whole = joined(measurement, sorted(done, key=lambda part: places[part.piece.call]))
            if data is not None:
                whole.attrs["measured_by"] = whole.attrs["measured_by"].replace(str(data), "DATA")
            whole = smaller(whole[read_variables(measurement, whole)])
            archive.writestr(_member(measurement), netcdf(whole), zipfile.ZIP_DEFLATED, 9)


def _still(measurement: Measurement, old: xr.Dataset, data: Path | None) -> bool:
    """Whether kept results are of the call that the claims make now, and have what they read."""
    same = bool(old.attrs["measured_by"] == first_call(measurement, None if measurement.needs is None else data))
    return same and bool(read_variables(measurement, old))


def _member(measurement: Measurement) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{measurement.name}.nc", date_time=(1980, 1, 1, 0, 0, 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Keeps the results of a quick run at seed 0 for the tests of rules.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--changed", action="store_true", help="measure only what is no longer the claims' call")
    arguments = parser.parse_args()
    keep(arguments.folder, arguments.data, datasets() if arguments.changed else {})
