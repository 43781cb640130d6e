"""IDX files read byte by byte: right ones, damaged ones, and a real download from a server in this process."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moe_lab.datasets import mnist

REAL = Path(os.environ.get("MOE_LAB_MNIST", Path(__file__).parents[3] / "shared" / "data" / "mnist-t10k"))
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="needs MNIST's t10k pair: set MOE_LAB_MNIST to its folder")


def idx(array: np.ndarray) -> bytes:
    """The IDX file of an array of unsigned bytes, written from the format's definition."""
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def small_pair(folder: Path, pair: str, count: int = 3, side: int = 2, packed: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    images = np.arange(count * side * side, dtype=np.uint8).reshape(count, side, side)
    labels = np.arange(count, dtype=np.uint8)
    for name, content in zip(mnist.PAIRS[pair], (idx(images), idx(labels)), strict=True):
        (folder / f"{name}{'.gz' if packed else ''}").write_bytes(gzip.compress(content) if packed else content)


# --- reading ----------------------------------------------------------------------------------------------------------


@needs_real
def test_the_real_t10k_pair() -> None:
    loaded = mnist.load(REAL)
    assert loaded.images.shape == (10000, 784) and loaded.images.dtype == np.float32 and loaded.side == 28
    assert loaded.images.min() == 0 and loaded.images.max() == 1
    assert loaded.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]  # as in every MNIST tutorial
    assert np.bincount(loaded.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert loaded.is_test is None  # one pair alone has no division
    assert mnist.find(REAL).keys() == {"t10k"}


@needs_real
@pytest.mark.parametrize("name", mnist.PAIRS["t10k"])
def test_the_pinned_hashes_are_those_of_the_real_files(name: str) -> None:
    content = gzip.decompress((REAL / f"{name}.gz").read_bytes())
    assert hashlib.sha256(content).hexdigest() == mnist.SHA256[name]


@pytest.mark.parametrize("packed", [False, True])
def test_both_pairs_keep_the_official_division(tmp_path: Path, packed: bool) -> None:
    small_pair(tmp_path, "train", count=4, packed=packed)
    small_pair(tmp_path, "t10k", count=2, packed=packed)
    loaded = mnist.load(tmp_path)
    assert loaded.is_test is not None and loaded.is_test.tolist() == [False] * 4 + [True] * 2
    assert loaded.labels.tolist() == [0, 1, 2, 3, 0, 1] and loaded.side == 2
    np.testing.assert_array_equal(loaded.images[1] * 255, [4, 5, 6, 7])
    assert mnist.find(tmp_path).keys() == {"train", "t10k"}


def test_a_pair_may_be_named_with_a_dot_and_mixed(tmp_path: Path) -> None:
    small_pair(tmp_path, "t10k")
    images = tmp_path / "t10k-images-idx3-ubyte"
    (tmp_path / "t10k-images.idx3-ubyte.gz").write_bytes(gzip.compress(images.read_bytes()))
    images.unlink()
    assert len(mnist.load(str(tmp_path)).labels) == 3


def test_a_gzipped_file_is_known_by_its_contents(tmp_path: Path) -> None:
    (tmp_path / "plain-name").write_bytes(gzip.compress(idx(np.array([3, 1, 4], np.uint8))))
    assert mnist.read_idx(tmp_path / "plain-name").tolist() == [3, 1, 4]


# --- files that are not right -----------------------------------------------------------------------------------------


GOOD = idx(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "starts with 00 00 08 and 01, 02 or 03: got  in"),
        (b"\0\0\x0d\x03" + GOOD[4:], "got 00 00 0d 03 in"),  # floats
        (b"PK\x03\x04 a zip archive", "got 50 4b 03 04 in"),
        (b"\0\0\x08\x09" + GOOD[4:], "got 00 00 08 09 in"),
        (GOOD[:9], "with 3 axes has a header of 16 bytes: got 9 in"),
        (GOOD[:-1], r"of shape \(3, 2, 2\) has 28 bytes: got 27 in .*, which is cut short"),
        (GOOD + b"!", r"has 28 bytes: got 29 in .*, which is too long"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "which is cut short"),  # a header that promises 2^96 bytes
        (gzip.compress(GOOD)[:-9], "is not a whole gzip file"),
        (gzip.compress(GOOD)[:12] + b"\0\0\0\0" + gzip.compress(GOOD)[16:], "is not a whole gzip file"),
        (b"\x1f\x8bnot gzip", "is not a whole gzip file"),
        (gzip.compress(bytes(2**26 + 1), 1), "must unpack to at most 67108864 bytes"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as raised:
        mnist.read_idx(path)
    assert str(path) in str(raised.value)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(b"\x80\x04cos\nsystem\n.")
    with pytest.raises(ValueError, match="IDX file"):
        mnist.read_idx(tmp_path / "t10k-images-idx3-ubyte")


@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (np.zeros((3, 2, 2)), np.zeros(2), "one for each image: got 3 images in .* and labels of shape .2,."),
        (np.zeros((3, 2, 2)), np.zeros((3, 1, 1)), "one for each image"),
        (np.zeros((3, 2, 4)), np.zeros(3), r"shape \(count, side, side\): got \(3, 2, 4\)"),
        (np.zeros(3), np.zeros(3), r"shape \(count, side, side\): got \(3,\)"),
        (np.zeros((0, 2, 2)), np.zeros(0), r"shape \(count, side, side\): got \(0, 2, 2\)"),
        (np.zeros((2, 2, 2)), np.array([3, 10]), "digits from 0 to 9: got 10"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused(
    tmp_path: Path, images: np.ndarray, labels: np.ndarray, sentence: str
) -> None:
    for name, array in zip(mnist.PAIRS["t10k"], (images, labels), strict=True):
        (tmp_path / name).write_bytes(idx(array.astype(np.uint8)))
    with pytest.raises(ValueError, match=sentence):
        mnist.load(tmp_path)


def test_pairs_of_different_sizes_are_refused(tmp_path: Path) -> None:
    small_pair(tmp_path, "train", side=2)
    small_pair(tmp_path, "t10k", side=3)
    with pytest.raises(ValueError, match=r"must have the same size: got sides \[2, 3\]"):
        mnist.load(tmp_path)


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"MNIST's folder must exist: got root='/nowhere/at all'"):
        mnist.load("/nowhere/at all")
    with pytest.raises(FileNotFoundError, match=r"must hold a pair.*got neither in"):
        mnist.load(tmp_path)
    small_pair(tmp_path, "t10k")
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold a pair.*got t10k-images-idx3-ubyte in"):
        mnist.load(tmp_path)
    assert mnist.find(tmp_path) == {} and mnist.find("/nowhere") == {}
    with pytest.raises(FileNotFoundError, match="there is no file /nowhere/x"):
        mnist.read_idx("/nowhere/x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match=r"not in the cache \(.*mnist\): pass root= .* or download=True"):
        mnist.load()


# --- downloading ------------------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what it was asked for."""

    asked: list[str]

    def __init__(self, *arguments: object, asked: list[str], **named: object) -> None:
        self.asked = asked
        super().__init__(*arguments, **named)  # type: ignore[arg-type]

    def log_message(self, *arguments: object) -> None:
        self.asked.append(self.path)


class Server:
    """A real HTTP server on a free port of this machine."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        handler = functools.partial(Quiet, directory=str(folder), asked=self.asked)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def good(tmp_path: Path) -> Iterator[Server]:
    """A mirror that serves the real t10k pair."""
    server = Server(REAL)
    yield server
    server.close()


@pytest.fixture
def bad(tmp_path: Path) -> Iterator[Server]:
    """A mirror whose images have one wrong pixel and whose labels are cut short."""
    folder = tmp_path / "bad"
    folder.mkdir()
    images, labels = (f"{name}.gz" for name in mnist.PAIRS["t10k"])
    content = bytearray(gzip.decompress((REAL / images).read_bytes()))
    content[5000] ^= 1
    (folder / images).write_bytes(gzip.compress(bytes(content), 1))
    (folder / labels).write_bytes((REAL / labels).read_bytes()[:-100])
    server = Server(folder)
    yield server
    server.close()


T10K = {name: mnist.SHA256[name] for name in mnist.PAIRS["t10k"]}


@needs_real
def test_a_download_is_checked_unpacked_and_not_repeated(tmp_path: Path, good: Server) -> None:
    root = tmp_path / "new" / "mnist"
    mnist.fetch(root, mirrors=[good.url], sha256=T10K)
    assert sorted(path.name for path in root.iterdir()) == sorted(T10K)
    np.testing.assert_array_equal(mnist.load(root).images, mnist.load(REAL).images)
    mnist.fetch(root, mirrors=[good.url], sha256=T10K)
    assert len(good.asked) == 2


@needs_real
def test_a_corrupted_mirror_is_passed_over(tmp_path: Path, bad: Server, good: Server) -> None:
    mnist.fetch(tmp_path / "mnist", mirrors=[bad.url, good.url], sha256=T10K)
    assert len(bad.asked) == 2 and len(good.asked) == 2
    assert len(mnist.load(tmp_path / "mnist").labels) == 10000


@needs_real
def test_only_corrupted_copies_leave_nothing_behind(tmp_path: Path, bad: Server) -> None:
    with pytest.raises(RuntimeError, match=r"t10k-images-idx3-ubyte could not be downloaded .*not the file expected"):
        mnist.fetch(tmp_path / "mnist", mirrors=[bad.url], sha256=T10K)
    assert list((tmp_path / "mnist").iterdir()) == []


def test_no_network_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Server(tmp_path)
    closed.close()
    monkeypatch.setattr(mnist, "MIRRORS", (closed.url,))
    with pytest.raises(RuntimeError, match=r"ConnectionError.*without a network, put the MNIST files into a folder"):
        mnist.load(tmp_path / "mnist", download=True)


def test_a_mirror_without_the_file_is_passed_over(tmp_path: Path) -> None:
    empty = Server(tmp_path)
    try:
        with pytest.raises(RuntimeError, match="HTTPError"):
            mnist.fetch(tmp_path / "mnist", mirrors=[empty.url], sha256=T10K)
    finally:
        empty.close()


def test_a_folder_that_cannot_be_written_to_is_named_before_the_download(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="the folder must be writable"):
        mnist.fetch(tmp_path / "file" / "mnist", mirrors=["http://127.0.0.1:1/"])
