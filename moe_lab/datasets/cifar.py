"""CIFAR-10 and CIFAR-100 from their binary version: an archive, or a folder of the files in it.

A file is a sequence of records: one byte for the class (CIFAR-100: two, the class of classes first), then 1024 bytes
each of red, green and blue, row by row. The archive is downloaded only when asked to and checked against its SHA-256;
it is read without being unpacked to the disk. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from moe_lab.core import files
from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError, MissingFileError, OperationError
from moe_lab.core.files import writable_folder
from moe_lab.core.sentences import brief, shown
from moe_lab.datasets import ColourImages

_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_MOST = 256 * 2**20  # bytes of one file, unpacked; the largest of the official ones has 153,700,000


@dataclass(frozen=True)
class Source:
    """One of the two data sets.

    Attributes:
      archive: the file name of the archive.
      sha256: of the official archive.
      folder: of the files in it.
      train, test: the files, of which a folder may hold some.
      label_bytes: before the pixels of a record; the last one is the class.
      classes: how many there are, by label byte.
    """

    archive: str
    sha256: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    label_bytes: int
    classes: tuple[int, ...]

    @property
    def record(self) -> int:
        """Bytes of a record."""
        return self.label_bytes + _PIXELS


SOURCES: Mapping[str, Source] = {
    "cifar-10": Source(
        "cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        "cifar-10-batches-bin",
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        ("test_batch.bin",),
        1,
        (10,),
    ),
    "cifar-100": Source(
        "cifar-100-binary.tar.gz",
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        "cifar-100-binary",
        ("train.bin",),
        ("test.bin",),
        2,
        (20, 100),
    ),
}
MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The classes of CIFAR-10."""


def cache_folder() -> Path:
    """Returns where downloads go when no folder is named: the folder in MOE_LAB_CACHE, or the user's cache."""
    return files.cache_folder("cifar")


@checked
def load(root: Path | str | None = None, *, name: str = "cifar-10", download: bool = False) -> ColourImages:
    """Loads the images of an archive or of a folder, training images first.

    Args:
      root: the archive; or a folder that holds the .bin files, the folder of them, or the archive, looked for in this
        order; None for the cache. Files may have any whole number of records, and some of them may be missing.
      name: "cifar-10" or "cifar-100".
      download: fetch the archive into that folder if it is not there, and check its SHA-256.

    Raises:
      FileNotFoundError: there is neither an archive nor any of the files.
      ValueError: the name is unknown, or a file is not what its name says.
      RuntimeError: the download failed, or gave another file.
    """
    require(name in SOURCES, f"name must be one of {', '.join(SOURCES)}", name=name)
    source, place = SOURCES[name], cache_folder() if root is None else Path(root)
    if download and not _has_any(place, source):
        fetch(place, name=name)
    contents, official = _contents(place, source, root)
    parts = [(_records(contents[file], source, file), file in source.test) for file in contents]
    records = np.concatenate([part for part, _ in parts])
    return ColourImages(
        images=records[:, source.label_bytes :].reshape(-1, 3, _SIDE, _SIDE),
        labels=records[:, source.label_bytes - 1].astype(np.int64),
        is_test=np.concatenate([np.full(len(part), test) for part, test in parts]),
        coarse=records[:, 0].astype(np.int64) if source.label_bytes == 2 else None,
        official=official,
    )


def fetch(folder: Path | str, *, name: str = "cifar-10", mirrors: Sequence[str] | None = None) -> Path:
    """Downloads an archive from the first mirror that has the official one, and returns its path.

    Args:
      folder: where it goes; made if need be.
      mirrors: addresses of folders that serve it; None for MIRRORS.

    Raises:
      RuntimeError: no mirror gave the right file, or the folder cannot be written to.
    """
    import pooch

    source, failures = SOURCES[name], []
    folder = writable_folder(folder)
    for mirror in MIRRORS if mirrors is None else mirrors:
        try:
            # pooch writes to a temporary file, and moves it into place only when its hash is right.
            pooch.retrieve(
                mirror + source.archive,
                known_hash=f"sha256:{source.sha256}",
                fname=source.archive,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=60),
            )
            return folder / source.archive
        except ValueError as error:
            failures.append(f"{mirror} (not the file expected: {str(error).split('.')[0]})")
        except OSError as error:  # every network error of requests is one
            failures.append(f"{mirror} ({type(error).__name__})")
    raise OperationError(
        f"{source.archive} could not be downloaded into {folder} ({'; '.join(failures)}); without a network, put it or "
        "the files in it into a folder and pass it as root="
    )


def _bin_files(folder: Path, source: Source) -> dict[str, Path]:
    """The .bin files in a folder or in its subfolder of the official name."""
    for place in (folder, folder / source.folder):
        found = {name: place / name for name in (*source.train, *source.test) if os.path.isfile(place / name)}
        if found:
            return found
    return {}


def _has_any(place: Path, source: Source) -> bool:
    return os.path.isfile(place) or os.path.isfile(place / source.archive) or bool(_bin_files(place, source))


def _contents(place: Path, source: Source, root: Path | str | None) -> tuple[dict[str, bytes], bool | None]:
    """The contents of the files by name, and whether they come from the official archive."""
    files = _bin_files(place, source)
    if files:
        return {name: _read(path) for name, path in files.items()}, None
    archive = place if os.path.isfile(place) else place / source.archive
    if not os.path.isfile(archive):
        cache = f"the cache ({brief(str(place), 100)}), which download=True fills"
        at = cache if root is None else f"root={shown(str(root), 100)}"
        rule = f"must hold {', '.join((*source.train, *source.test))}, or {source.archive}"
        raise MissingFileError(f"a folder of {source.archive.split('-binary')[0]} {rule}: got {at}")
    with archive.open("rb") as file:
        official = hashlib.file_digest(file, "sha256").hexdigest() == source.sha256
    return _members(archive, source), official


def _members(archive: Path, source: Source) -> dict[str, bytes]:
    """The files of an archive that have the known names, wherever they lie in it, read without being extracted."""
    known, found = (*source.train, *source.test), dict[str, bytes]()
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                if name not in known or not member.isfile():
                    continue
                require(name not in found, "a file must be in an archive once", file=name, archive=str(archive))
                require(member.size <= _MOST, f"a file must have at most {_MOST} bytes", file=name, bytes=member.size)
                reader = tar.extractfile(member)
                content = b"" if reader is None else reader.read()
                require(len(content) == member.size, "a file must be whole", file=name, bytes=len(content))
                found[name] = content
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputError(f"{archive} is not a whole tar archive: {error}") from error
    if not found:
        raise MissingFileError(f"the archive must hold {', '.join(known)}: got none of them in {archive}")
    return {name: found[name] for name in known if name in found}


def _read(path: Path) -> bytes:
    size = path.stat().st_size
    require(size <= _MOST, f"a file must have at most {_MOST} bytes", file=str(path), bytes=size)
    return path.read_bytes()


def _records(content: bytes, source: Source, file: str) -> np.ndarray:
    """The records of a file, one per row."""
    whole = len(content) > 0 and len(content) % source.record == 0
    require(whole, f"a file must be a whole number of records of {source.record} bytes", file=file, bytes=len(content))
    records = np.frombuffer(content, np.uint8).reshape(-1, source.record)
    for place, classes in enumerate(source.classes):
        largest = int(records[:, place].max())
        require(largest < classes, f"a class must be less than {classes}", file=file, got=largest)
    return records
