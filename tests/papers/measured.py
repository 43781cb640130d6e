"""The results of a quick run of all claims at seed 0, against which the rules are tested.

`python -m tests.papers.measured FOLDER --data DATA` measures what is new or has another call than the claims make now,
and keeps the others as they are; with `--all` it measures every claim. It says how long that takes, and asks, before it
begins. Finished pieces are taken from FOLDER, and kept there, as those of

    moe-lab reproduce --seed 0 --device cpu --data DATA --out FOLDER

`measured.zip` changes once all are there.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr

from moe_lab.core.files import from_netcdf, netcdf, write_whole
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


def _measurements() -> list[Measurement]:
    return ledger.measurements(ledger.claims())


def to_measure(data: Path | None, kept: Mapping[str, xr.Dataset]) -> list[Measurement]:
    """Returns the measurements whose data are there, but for those that are kept and still of the claims' calls."""
    return [
        measurement
        for measurement in _measurements()
        if not missing(measurement, data)
        and (measurement.name not in kept or not _still(measurement, kept[measurement.name], data))
    ]


def keep(order: Order, kept: Mapping[str, xr.Dataset], place: Path = KEPT) -> None:
    """Writes the archive of results: measures those of `to_measure`, and writes the other kept ones as they are.

    The file is written whole, once all is measured: a run that is stopped changes nothing.
    """
    new, whole = to_measure(order.data, kept), io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for measurement in _measurements():
            if measurement in new:
                result = _measure(measurement, order)
            elif measurement.name in kept:
                result = kept[measurement.name]
            else:
                continue
            member = zipfile.ZipInfo(f"{measurement.name}.nc", date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(member, netcdf(result), zipfile.ZIP_DEFLATED, 9)
    write_whole(place, whole.getvalue())


def _measure(measurement: Measurement, order: Order) -> xr.Dataset:
    """Returns what claims read of a measurement, from its finished pieces and those that it measures now."""
    plan = pieces(measurement, order)
    places = {piece.call: number for number, piece in enumerate(plan)}
    done = sorted(measured(order, plan), key=lambda part: places[part.piece.call])
    whole = joined(measurement, done)
    if order.data is not None:
        whole.attrs["measured_by"] = whole.attrs["measured_by"].replace(str(order.data), "DATA")
    return smaller(whole[read_variables(measurement, whole)])


def _still(measurement: Measurement, old: xr.Dataset, data: Path | None) -> bool:
    """Whether kept results are of the call that the claims make now, and have what they read."""
    same = bool(old.attrs["measured_by"] == first_call(measurement, None if measurement.needs is None else data))
    return same and bool(read_variables(measurement, old))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.papers.measured",
        description="Keeps the results of a quick run at seed 0, with which the tests check the rules of claims.",
    )
    parser.add_argument("folder", type=Path, help="where finished pieces are kept")
    parser.add_argument("--data", type=Path, help="folder of the data that some measurements need")
    parser.add_argument("--all", action="store_true", help="measure all anew, not only what has another call")
    parser.add_argument("--yes", action="store_true", help="begin without asking")
    given = parser.parse_args(arguments)
    order = Order("quick", 0, "cpu", given.folder / "measured", data=given.data)
    kept = datasets()
    if given.all:  # what lacks its data stays as it is
        kept = {one.name: kept[one.name] for one in _measurements() if one.name in kept and missing(one, given.data)}
    new = to_measure(given.data, kept)
    minutes = sum(measurement.duration("quick") for measurement in new) / 60
    print(
        f"{len(new)} of {len(_measurements())} results to measure, about {minutes:.0f} minutes on one core.", flush=True
    )
    if given.yes or input("Measure them, and write measured.zip? [y/N] ").strip().lower() == "y":
        keep(order, kept)


if __name__ == "__main__":
    main()
