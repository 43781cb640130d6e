"""Three regression data sets of the UCI repository, airfoil, concrete and stock portfolios, from a file of the user's.

The first two are downloaded only when asked to, and then checked against the SHA-256 of the very bytes: for airfoil
those of UCI's own file, for concrete, which UCI has as an Excel file only, those of a CSV copy at a fixed commit. Of
stock portfolios UCI has an Excel file and nobody a CSV copy that could be vouched for: the user saves seven of its
columns. Nothing is unpickled, and nothing but numbers is read.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from moe_lab.core import files
from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError, MissingFileError, OperationError
from moe_lab.core.files import named, writable_folder
from moe_lab.datasets import Regression

_MOST = 16 * 2**20  # bytes, unpacked; the larger of the two files has 60,000
_CORRUPT = (gzip.BadGzipFile, EOFError, zlib.error)


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and what its columns are.

    Attributes:
      file: its name.
      urls: where it can be had, the first that works is taken; none if it must be brought.
      sha256: of the file; "" if it must be brought.
      features: the columns but the last.
      target: the last column.
    """

    file: str
    urls: tuple[str, ...]
    sha256: str
    features: tuple[str, ...]
    target: str


SOURCES: Mapping[str, Source] = {
    "airfoil": Source(
        "airfoil_self_noise.dat",
        (
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00291/airfoil_self_noise.dat",
            "https://raw.githubusercontent.com/d2l-ai/d2l-zh/275424e773b849a94a9d0902144390dad8776d1e/data/airfoil_self_noise.dat",
        ),
        "74c75fd71783f1e6b71f8a622b993dc592897a97cd689c5090a07147a1b097b3",
        ("frequency, Hz", "angle of attack, deg", "chord length, m", "velocity, m/s", "displacement thickness, m"),
        "sound pressure, dB",
    ),
    "concrete": Source(
        "concrete.csv",
        (
            "https://raw.githubusercontent.com/stedy/Machine-Learning-with-R-datasets/72e6b6cc91bc2bb08eb6f99f52c033677cb70c1a/concrete.csv",
        ),
        "d7d8bd087f832935e902bcb2687667238cac3fe06799677a93ca2f46dce8db02",
        ("cement", "slag", "fly ash", "water", "superplasticiser", "coarse aggregate", "fine aggregate", "age, days"),
        "compressive strength, MPa",
    ),
    "portfolio": Source(
        "stock_portfolio.csv",
        (),
        "",
        (
            "weight of large B/P",
            "weight of large ROE",
            "weight of large S/P",
            "weight of large return rate in the last quarter",
            "weight of large market value",
            "weight of small systematic risk",
        ),
        "excess return",
    ),
}
_PORTFOLIO = "portfolio has six weights in each row, from 0 to 1, whose sum is 1 within .01"


@checked
def load(name: str, path: Path | str | None = None, *, download: bool = False) -> Regression:
    """Reads a data set.

    Args:
      name: "airfoil" (1503 rows of 5 features, Brooks et al., 1989), "concrete" (1030 of 8, Yeh, 1998) or "portfolio"
        (63 of 6, Liu and Yeh, 2017), which must be brought: the columns of six weights, then that of excess returns.
      path: its file, see `read_table`; None for the user's cache.
      download: fetch it into the cache if it is not there yet.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: an unknown name, a path and download, a file that is not a table of that many columns, or weights of
        portfolios that are none.
      RuntimeError: the download failed, or gave something else.
    """
    require(name in SOURCES, f"name must be one of {', '.join(SOURCES)}", name=name)
    require(path is None or not download, "download=True goes to the cache: leave out path", path=str(path))
    source = SOURCES[name]
    if path is None:
        file = cache_folder() / source.file
        if download:
            fetch(name)
        if not os.path.isfile(file):
            other = " or download=True" if source.urls else ""
            raise MissingFileError(f"{name} is not in the cache ({named(file)}): pass path= (a file){other}")
    else:
        file = Path(path)
    table = read_table(file)
    columns = len(source.features) + 1
    rule = f"{name} has {columns} columns, the last its target"
    require(table.shape[1] == columns, rule, columns=table.shape[1], path=str(file))
    if name == "portfolio":
        weights = table[:, :-1]
        wrong = ((weights < 0) | (weights > 1)).any(1) | (abs(weights.sum(1) - 1) > 0.01)
        require(not wrong.any(), _PORTFOLIO, row=int(wrong.argmax()) + 1, path=str(file))
    return Regression(table[:, :-1].copy(), table[:, -1].copy(), source.features, source.target)


def cache_folder() -> Path:
    """Returns where downloads go when no folder is named: the folder in MOE_LAB_CACHE, or the user's cache."""
    return files.cache_folder("uci")


def fetch(name: str, folder: Path | str | None = None, *, source: Source | None = None) -> Path:
    """Downloads a data set unless its file is there, checks its SHA-256, and says where it is.

    Args:
      name: a key of `SOURCES`.
      folder: where to; None for the cache.
      source: another source than that of the name.

    Raises:
      ValueError: an unknown name, or a data set that must be brought.
      RuntimeError: no address gave the right file, or the folder cannot be written to.
    """
    require(name in SOURCES, f"name must be one of {', '.join(SOURCES)}", name=name)
    chosen = source or SOURCES[name]
    require(bool(chosen.urls), "this data set must be brought as a file: pass path=", name=name)
    where = cache_folder() if folder is None else Path(folder)
    if os.path.isfile(where / chosen.file):
        return where / chosen.file
    import pooch

    where, failures = writable_folder(where), []
    for url in chosen.urls:
        try:
            # pooch writes to a temporary file, and moves it into place only when its hash is right.
            pooch.retrieve(
                url,
                known_hash=f"sha256:{chosen.sha256}",
                fname=chosen.file,
                path=where,
                downloader=pooch.HTTPDownloader(timeout=30),
            )
        except ValueError as error:
            failures.append(f"{url} (not the file expected: {str(error).split('.')[0]})")
        except OSError as error:  # every network error of requests is one
            failures.append(f"{url} ({type(error).__name__})")
        else:
            return where / chosen.file
    raise OperationError(
        f"{name} could not be downloaded into {where} ({'; '.join(failures)}); without a network, pass a file of it as "
        "path="
    )


@checked
def read_table(path: Path | str) -> np.ndarray:
    """Reads a table of numbers: commas, semicolons, tabs or blanks between them, perhaps one line of names on top.

    Args:
      path: a text file, plain or gzipped (by its contents, whatever its name).

    Returns:
      (rows, columns) float64.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not text, has no rows, rows of different lengths, or anything but finite numbers.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise MissingFileError(f"there is no file {named(path)}")
    lines = [line.strip() for line in _text(path).splitlines()]
    lines = [line for line in lines if line]
    rows = [_split(line) for line in lines]
    if rows and not any(_number(cell) for cell in rows[0]):
        rows = rows[1:]
    require(len(rows) > 0, "a table must have at least one row of numbers", path=str(path))
    for number, row in enumerate(rows, start=len(lines) - len(rows) + 1):
        rule = f"every row of a table must have as many numbers as the first, {len(rows[0])}"
        require(len(row) == len(rows[0]), rule, row=number, numbers=len(row), path=str(path))
        wrong = [cell for cell in row if not _number(cell)]
        rule = "a table must hold finite numbers"
        require(not wrong, rule, **({"row": number, "value": wrong[0][:40]} if wrong else {}), path=str(path))
    return np.array(rows, dtype=np.float64)


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"[,;\t]", line)] if re.search(r"[,;\t]", line) else line.split()


def _number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _text(path: Path) -> str:
    """A file's text, unpacked if need be, of at most `_MOST` bytes."""
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            content = file.read(_MOST + 1)
    except _CORRUPT as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from error
    require(len(content) <= _MOST, f"a table must unpack to at most {_MOST} bytes", path=str(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"a table must be text, with commas, tabs or blanks between numbers (an Excel file must be saved as CSV "
            f"first): got {content[:4].hex(' ')} as the first bytes of {path}"
        ) from None
