"""Saved files of every Lab."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from tests.widgets.cases import Case
from tests.widgets.labs import pixels


def test_saved_files_hold_the_numbers_and_the_picture_of_the_lab(case: Case, ended: Any, tmp_path: Path) -> None:
    with xr.open_dataset(ended.save_data(tmp_path / "run")) as data:
        case.check_data(data, ended)
        sizes = dict(data.sizes)
    assert json.loads(ended.save_data(tmp_path / "run.json").read_text())["dims"] == sizes
    with Image.open(ended.save_picture(tmp_path / "run")) as saved:
        assert saved.size == (1100, 480)
        np.testing.assert_array_equal(np.asarray(saved)[:447, :, :3], pixels(ended)[:447])
    assert {path.name for path in tmp_path.iterdir()} == {"run.nc", "run.json", "run.png"}


def test_saving_before_the_first_record_is_refused_and_the_run_goes_on(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, start = threading.Event(), case.kind.start

    def slow(lab: Any, values: dict[str, Any]) -> Iterator[Any]:
        assert go_on.wait(60)
        return start(lab, values)

    monkeypatch.setattr(case.kind, "start", slow)
    with case.short_runs():
        lab = case.kind(**case.small, playing=False)
        try:
            with pytest.raises(ValueError, match="there is nothing to save yet"):
                lab.save_data("run.nc")
            lab.controls.save_data.click()
            assert "there is nothing to save yet" in lab.controls.message.value and lab.error is None
            go_on.set()
            assert lab.wait(60) and lab.record.step == 0 and lab.record.begun and lab.controls.message.value == ""
        finally:
            go_on.set()
            lab.close()
