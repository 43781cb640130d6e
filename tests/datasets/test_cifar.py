"""CIFAR's binary files read record by record, from folders and archives, right ones and damaged ones."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from moe_lab.datasets import cifar
from tests.vision.cifar_files import BATCHES, archive, cifar10, records


def test_a_folder_of_files_keeps_the_official_division(tmp_path: Path) -> None:
    loaded = cifar.load(cifar10(tmp_path / "cifar-10-batches-bin", count=7).parent)
    assert loaded.images.shape == (42, 3, 32, 32) and loaded.images.dtype == np.uint8 and loaded.official is None
    assert loaded.labels[:8].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert loaded.is_test.tolist() == [False] * 35 + [True] * 7 and loaded.coarse is None
    # The second record of the third file: its green pixel in row 4, column 9, by its place in the file.
    content = (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").read_bytes()
    assert loaded.images[15, 1, 4, 9] == content[3073 + 1 + 1024 + 4 * 32 + 9]


def test_files_may_lie_directly_and_some_may_be_missing(tmp_path: Path) -> None:
    cifar10(tmp_path, count=3)
    (tmp_path / "data_batch_2.bin").unlink()
    assert len(cifar.load(str(tmp_path)).labels) == 15


def test_an_archive_is_read_without_being_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"cifar-10-batches-bin/{name}": records(2, start) for start, name in enumerate(BATCHES)}
    path = archive(tmp_path / "cifar-10-binary.tar.gz", {"../../evil.bin": b"x", "readme.html": b"x", **files})
    for root in (path, tmp_path):
        loaded = cifar.load(root)
        assert len(loaded.labels) == 12 and loaded.is_test.sum() == 2 and loaded.official is False
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    official = cifar.Source(
        **{**vars(cifar.SOURCES["cifar-10"]), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    )
    monkeypatch.setattr(cifar, "SOURCES", {"cifar-10": official})
    assert cifar.load(path).official is True


def test_cifar100_has_a_class_of_classes(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(records(30, 0, label_bytes=2))
    loaded = cifar.load(tmp_path, name="cifar-100")
    assert loaded.coarse is not None
    assert loaded.labels[21] == 21 and loaded.coarse[21] == 1 and not loaded.is_test.any()


def test_damaged_files_say_what_is_wrong(tmp_path: Path) -> None:
    for content, words in (
        (records(2, 0)[:-1], "whole number of records of 3073 bytes"),
        (b"", "whole number of records"),
        (b"\x0a" + records(1, 0)[1:], "class must be less than 10"),
        (pickle.dumps({"data": [0]}), "whole number of records"),
    ):
        (tmp_path / "test_batch.bin").write_bytes(content)
        with pytest.raises(ValueError, match=words):
            cifar.load(tmp_path)
    (tmp_path / "test_batch.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold data_batch_1\.bin"):
        cifar.load(tmp_path)
    broken = tmp_path / "cifar-10-binary.tar.gz"
    broken.write_bytes(archive(broken, {"test_batch.bin": records(5, 0)}).read_bytes()[:2000])
    with pytest.raises(ValueError, match="not a whole tar archive"):
        cifar.load(tmp_path)
    with pytest.raises(ValueError, match="name must be one of cifar-10, cifar-100"):
        cifar.load(tmp_path, name="cifar-1000")


def test_a_download_of_another_file_is_thrown_away(tmp_path: Path) -> None:
    served = archive(tmp_path / "cifar-10-binary.tar.gz", {"test_batch.bin": records(1, 0)})
    import functools
    import http.server
    import threading

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(RuntimeError, match="not the file expected"):
            cifar.fetch(tmp_path / "cache", mirrors=[address])
        server.shutdown()
    assert served.exists() and list((tmp_path / "cache").iterdir()) == []
