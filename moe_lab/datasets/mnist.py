"""MNIST from its IDX files, plain or gzipped, in a folder that the user names; downloaded only when asked to.

Every byte is checked: magic numbers, sizes and truncation of any file, and the SHA-256 of what is downloaded. Nothing
is unpickled.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from moe_lab.core import files
from moe_lab.core.arguments import checked
from moe_lab.core.errors import InputError, MissingFileError, OperationError
from moe_lab.core.files import named, writable_folder
from moe_lab.core.sentences import brief, shown
from moe_lab.datasets import Images

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

# SHA-256 of the unpacked files: a repacked archive, with another date in its header, holds the same images.
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}

PAIRS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "t10k": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_UNSIGNED_BYTES = 0x08
_CORRUPT = (gzip.BadGzipFile, EOFError, zlib.error)


def cache_folder() -> Path:
    """Returns where downloads go when no folder is named: the folder in MOE_LAB_CACHE, or the user's cache."""
    return files.cache_folder("mnist")


@checked
def find(root: Path | str | None = None) -> dict[str, tuple[Path, Path]]:
    """Returns the pairs ("train", "t10k") that a folder holds, as paths of images and labels; no file is opened.

    Args:
      root: the folder; None for the cache.
    """
    folder = cache_folder() if root is None else Path(root)
    found = {}
    for pair, (images, labels) in PAIRS.items():
        paths = _present(folder, images), _present(folder, labels)
        if paths[0] is not None and paths[1] is not None:
            found[pair] = (paths[0], paths[1])
    return found


@checked
def check_folder(root: Path | str) -> None:
    """Checks that a folder holds a pair of MNIST's files; none is opened.

    Raises:
      FileNotFoundError: it does not.
    """
    if not find(root):
        raise MissingFileError(_missing(Path(root), root))


@checked
def load(root: Path | str | None = None, *, download: bool = False) -> Images:
    """Loads the pairs that a folder holds: 60,000 training images, 10,000 test images, or both.

    Args:
      root: a folder of IDX files, plain or gzipped; None for the cache.
      download: fetch what is missing into that folder, and check it against its SHA-256.

    Returns:
      The images in float32; `is_test` is the official split where both pairs are there, else None.

    Raises:
      FileNotFoundError: the folder or a file of a pair is not there.
      ValueError: a file is not what its name says, or is cut short.
      RuntimeError: the download failed, or its content is not MNIST.
    """
    folder = cache_folder() if root is None else Path(root)
    if download:
        fetch(folder)
    found = find(folder)
    if not found:
        raise MissingFileError(_missing(folder, root))
    loaded = {pair: _read_pair(*paths) for pair, paths in found.items()}
    sides = {side for _, _, side in loaded.values()}
    if len(sides) > 1:
        raise InputError(f"training and test images must have the same size: got sides {sorted(sides)} in {folder}")
    is_test = np.concatenate([np.full(len(labels), pair == "t10k") for pair, (_, labels, _) in loaded.items()])
    return Images(
        images=np.concatenate([images for images, _, _ in loaded.values()]),
        labels=np.concatenate([labels for _, labels, _ in loaded.values()]),
        side=sides.pop(),
        is_test=is_test if len(loaded) == 2 else None,
    )


def fetch(folder: Path | str, *, mirrors: Sequence[str] | None = None, sha256: Mapping[str, str] = SHA256) -> None:
    """Downloads missing files from the first mirror that has them, unpacks them and checks their SHA-256.

    A file that fails the check is thrown away and the next mirror is tried. A file that is already there is left alone.

    Args:
      folder: where the files go; made if need be.
      mirrors: addresses of folders that serve the gzipped files; None for MIRRORS.
      sha256: name -> SHA-256 of the unpacked file, for each file wanted.

    Raises:
      RuntimeError: no mirror gave the right file, or the folder cannot be written to.
    """
    missing = {name: known for name, known in sha256.items() if _present(Path(folder), name) is None}
    folder = writable_folder(folder) if missing else Path(folder)
    for name, known in missing.items():
        failures = []
        for mirror in MIRRORS if mirrors is None else mirrors:
            failure = _download(mirror + name + ".gz", folder / name, known)
            if failure is None:
                break
            failures.append(f"{mirror} {failure}")
        else:
            raise OperationError(
                f"{name} could not be downloaded into {folder} ({'; '.join(failures)}); without a network, put the "
                "MNIST files into a folder and pass it as root="
            )


def _download(url: str, path: Path, known: str) -> str | None:
    """Downloads and unpacks one file. Returns why that failed, or None."""
    import pooch

    def unpacked(url: str, output_file: str | IO[bytes], pooch_object: Any) -> None:
        packed = f"{output_file}.gz"
        try:
            pooch.HTTPDownloader(timeout=30)(url, packed, pooch_object)
            Path(cast(str, output_file)).write_bytes(_unpack(Path(packed)))
        finally:
            Path(packed).unlink(missing_ok=True)

    try:
        # pooch writes to a temporary file, and moves it into place only when its hash is right.
        pooch.retrieve(url, known_hash=f"sha256:{known}", fname=path.name, path=path.parent, downloader=unpacked)
    except ValueError as error:
        return f"(not the file expected: {str(error).split('.')[0]})"
    except OSError as error:  # every network error of requests is one
        return f"({type(error).__name__})"
    return None


def _unpack(path: Path, most: int = 64 * 2**20) -> bytes:
    """The contents of a gzipped file, at most `most` bytes.

    Raises:
      ValueError: the file is not gzipped, is cut short, or unpacks to more.
    """
    try:
        with gzip.open(path) as file:
            content = file.read(most + 1)
    except _CORRUPT as error:
        raise InputError(f"{path} is not a whole gzip file: {error}") from error
    if len(content) > most:
        raise InputError(f"{path} must unpack to at most {most} bytes")
    return content


@checked
def read_idx(path: Path | str) -> np.ndarray:
    """Reads an IDX file of unsigned bytes, plain or gzipped (by its contents, whatever its name).

    Format: two zero bytes, the type (8: unsigned byte), the number of axes, each axis's length as a big-endian 32-bit
    number, then the values.

    Returns:
      uint8, with the axes that the file names.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not an IDX file of unsigned bytes, or is shorter or longer than its header says.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise MissingFileError(f"there is no file {named(path)}")
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    content = _unpack(path) if packed else path.read_bytes()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES or not 1 <= content[3] <= 3:
        raise InputError(
            f"an IDX file of unsigned bytes starts with 00 00 08 and 01, 02 or 03: got {content[:4].hex(' ')} in {path}"
        )
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise InputError(
            f"an IDX file with {content[3]} axes has a header of {start} bytes: got {len(content)} in {path}"
        )
    shape = tuple(int(length) for length in np.frombuffer(content, ">u4", content[3], offset=4))
    expected = start + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise InputError(
            f"an IDX file of shape {shape} has {expected} bytes: got {len(content)} in {path}, which is "
            f"{'cut short' if len(content) < expected else 'too long'}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_pair(images_path: Path, labels_path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or images.shape[1] != images.shape[2] or 0 in images.shape:
        raise InputError(f"images must have shape (count, side, side): got {images.shape} in {images_path}")
    if labels.ndim != 1 or len(labels) != len(images):
        raise InputError(
            f"labels must be one for each image: got {len(images)} images in {images_path} and labels of shape "
            f"{labels.shape} in {labels_path}"
        )
    if labels.max() > 9:
        raise InputError(f"labels must be digits from 0 to 9: got {labels.max()} in {labels_path}")
    flat = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
    return flat, labels.astype(np.int64), images.shape[1]


def _present(folder: Path, name: str) -> Path | None:
    """The file of that name, plain or gzipped, with "-idx" or (as some archives have it) ".idx"."""
    for spelling in (name, name.replace("-idx", ".idx")):
        for path in (folder / spelling, folder / f"{spelling}.gz"):
            if os.path.isfile(path):
                return path
    return None


def _missing(folder: Path, root: Path | str | None) -> str:
    if root is None:
        return f"MNIST is not in the cache ({named(folder)}): pass root= (a folder of IDX files) or download=True"
    if not os.path.isdir(folder):
        return f"MNIST's folder must exist: got root={shown(str(root))}"
    names = [name for pair in PAIRS.values() for name in pair]
    have = [name for name in names if _present(folder, name) is not None]
    return (
        "MNIST's folder must hold a pair, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte or those of train, "
        f"plain or .gz: got {', '.join(have) or 'neither'} in {brief(str(folder), 100)}"
    )
