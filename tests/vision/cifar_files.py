"""CIFAR's binary files, written from the format's definition: a few records that can be told apart."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np

BATCHES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")


def records(count: int, start: int, label_bytes: int = 1) -> bytes:
    """Records with classes 0 ... 9 in turn, all pixels random but the same for the same start."""
    random = np.random.default_rng(start)
    each = []
    for number in range(count):
        label = bytes([number % 20, number % 100]) if label_bytes == 2 else bytes([number % 10])
        each.append(label + random.integers(256, size=3072, dtype=np.uint8).tobytes())
    return b"".join(each)


def cifar10(folder: Path, count: int = 20) -> Path:
    """Writes all six files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for start, name in enumerate(BATCHES):
        (folder / name).write_bytes(records(count, start))
    return folder


def archive(path: Path, files: dict[str, bytes]) -> Path:
    """Writes a .tar.gz with these members."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
