"""Files are written whole or not at all, and say what is wrong with a folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab_widgets.engine.files import dataset_bytes, write_whole


def test_replaces_a_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    assert write_whole(path, b"new") == path
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="the folder of a file to save must exist: got folder="):
        write_whole(tmp_path / "nowhere" / "a.png", b"new")


@pytest.mark.parametrize("place", ["/proc", "/sys"])
def test_a_folder_that_takes_no_files(place: str) -> None:
    if not Path(place).is_dir():
        pytest.skip(f"this system has no {place}")
    with pytest.raises(RuntimeError, match=r"cannot be written .*: choose a folder you may write to"):
        write_whole(Path(place) / "a.png", b"new")


def test_a_target_that_is_a_folder_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(RuntimeError, match="cannot be written"):
        write_whole(tmp_path / "a.png", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_datasets_survive_both_formats(tmp_path: Path) -> None:
    dataset = xr.Dataset(
        {"accuracy": (("step", "trial"), np.array([[0.5, np.nan], [1.0, 0.75]]), {"units": ""})},
        coords={"step": [0, 10], "trial": [0, 1]},
        attrs={"seed": 3, "config": {"model": {"experts": 4}}, "paper": "pmoe2023", "lucky": True, "nothing": None},
    )
    write_whole(tmp_path / "a.nc", dataset_bytes(dataset, ".nc"))
    with xr.open_dataset(tmp_path / "a.nc") as back:
        np.testing.assert_array_equal(back.accuracy, dataset.accuracy)
        assert json.loads(back.attrs["config"]) == {"model": {"experts": 4}} and back.attrs["seed"] == 3
    plain = json.loads(dataset_bytes(dataset, ".json"))
    assert plain["data_vars"]["accuracy"]["data"] == [[0.5, None], [1.0, 0.75]]
    assert plain["attrs"]["config"] == {"model": {"experts": 4}}
    with pytest.raises(ValueError, match=r"must end in \.nc or \.json: got suffix='\.csv'"):
        dataset_bytes(dataset, ".csv")
