"""A file is written whole or not at all, whatever goes wrong on the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import xarray as xr

import moe_lab
from moe_lab.core.files import clear_parts, from_netcdf, netcdf, writable_folder, write_whole

ROOT = Path(moe_lab.__file__).parents[1]


def test_content_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "result.bin"
    write_whole(path, b"first")
    assert path.read_bytes() == b"first"
    write_whole(str(path), b"")
    assert path.read_bytes() == b"" and list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    write_whole(tmp_path / "whole", b"")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "whole")}
    assert len(modes) == 1


def test_a_full_disk_leaves_the_old_content_and_no_part(tmp_path: Path) -> None:
    """A limit on the size of files, set in a process of its own, makes the write fail halfway for real."""
    path = tmp_path / "result.bin"
    path.write_bytes(b"old")
    script = (
        "import resource, sys\n"
        "from moe_lab.core.files import write_whole\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_whole(sys.argv[1], bytes(100_000))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, env=environment)
    assert f"OperationError: {path} could not be written (File too large)" in done.stderr
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"gone/result.bin could not be written \(No such file or directory\)"):
        write_whole(tmp_path / "gone" / "result.bin", b"x")


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "result.bin"
    contents = {bytes([letter]) * 300_000 for letter in b"abc"}
    write_whole(path, b"a" * 300_000)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for content in contents:
                write_whole(path, content)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen, reads, give_up = set(), 0, time.monotonic() + 30
    while (reads < 200 or len(seen) < 2) and time.monotonic() < give_up:
        seen.add(path.read_bytes())
        reads += 1
    stop.set()
    for writer in writers:
        writer.join()
    assert seen <= contents and len(seen) > 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_writable_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = writable_folder(tmp_path / "a" / "b")
    assert folder.is_dir() and list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "sub", Path("/proc/moe_lab")):
        with pytest.raises(RuntimeError, match="the folder must be writable: got "):
            writable_folder(folder)


def test_only_old_parts_are_cleared(tmp_path: Path) -> None:
    names = (".old.part", ".new.part", "old.npz")
    for name in names:
        (tmp_path / name).write_bytes(b"")
    for name in (".old.part", "old.npz"):
        os.utime(tmp_path / name, (0, 0))
    clear_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new.part", "old.npz"]


def test_labels_that_join_those_of_a_file_are_not_cut_to_their_length() -> None:
    short, long = (xr.Dataset({"accuracy": ("cell", [0.5])}, {"cell": [name]}) for name in ("cnn", "joint, l=16"))
    read = [from_netcdf(netcdf(data)) for data in (short, long)]
    joined = xr.concat(read, "cell")
    assert from_netcdf(netcdf(joined))["cell"].values.tolist() == ["cnn", "joint, l=16"]
