"""The demo: its numbers, its three files, and what it refuses before it trains or writes anything."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from matplotlib.image import imread
from rich.console import Console

import moe_lab
from moe_lab.course import demo
from moe_lab.patch_routing import PatchRun
from tests.helpers.effort import only_thorough

MODELS = ["joint", "separate", "cnn"]
NAMES = {"demo.png", "demo.nc", "demo.json"}


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> tuple[Path, dict]:
    """One whole demo, in a folder that it has to make."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return folder, demo.run(folder, seed=3, trials=5, device="cpu")


@pytest.fixture
def brief(monkeypatch) -> None:
    """Trainings of a few epochs, where it matters only what is made of them."""
    plan = demo.plan
    monkeypatch.setattr(demo, "plan", lambda *how: {key: run.replace(epochs=3) for key, run in plan(*how).items()})


class TestReport:
    def test_is_what_demo_json_holds(self, done):
        folder, report = done
        assert json.loads((folder / "demo.json").read_text()) == report
        assert (report["device"], report["seed"], report["version"]) == ("cpu", 3, moe_lab.__version__)
        assert set(report) == {"runs", "device", "seed", "version"}

    def test_has_every_model_on_every_task(self, done):
        _, report = done
        assert [(run["task"], run["model"]) for run in report["runs"]] == [
            (task, model) for task in ("patterns", "digits") for model in MODELS
        ]
        for run in report["runs"]:
            assert list(run) == [
                *("task", "model", "trials", "test_accuracy_mean", "test_accuracy_std"),
                *("coverage_mean", "seconds", "config"),
            ]
            assert run["trials"] == 5 and 0 <= run["test_accuracy_std"] < 0.1
            assert (run["coverage_mean"] is None) if run["model"] == "cnn" else 0.8 < run["coverage_mean"] <= 1

    def test_joint_beats_separate_beats_the_cnn(self, done):
        _, report = done
        mean = {(run["task"], run["model"]): run["test_accuracy_mean"] for run in report["runs"]}
        assert mean["patterns", "joint"] > 0.97
        assert mean["digits", "joint"] > 0.95
        for task in ("patterns", "digits"):
            assert mean[task, "joint"] > mean[task, "separate"] > mean[task, "cnn"] - 0.02
            assert 0.75 < mean[task, "cnn"] < mean[task, "joint"] - 0.05

    def test_configs_say_what_was_run(self, done):
        _, report = done
        planned = demo.plan(3, 5, "cpu")
        for run in report["runs"]:
            config, plan = run["config"], planned[run["task"], run["model"]]
            assert config == plan.record()
            assert (config["seed"], config["trials"], config["device"]) == (3, 5, "cpu")
            assert config["model"]["kind"] == type(plan.model).__name__
            assert PatchRun(**{**config, "model": plan.model, "task": plan.task}) == plan

    def test_live_default_is_the_widgets_default(self):
        joint = demo.plan(0, 5, "auto")["patterns", "joint"]
        assert joint.code() == "train(JointMoE(learning_rate=5.0), PatternTask(), record_every=5)"


class TestFiles:
    def test_are_three_and_nothing_else(self, done):
        folder, _ = done
        assert {file.name for file in folder.iterdir()} == NAMES

    def test_the_summary_holds_the_reported_numbers(self, done):
        folder, report = done
        with xr.open_dataset(folder / "demo.nc", engine="h5netcdf") as data:
            assert data.test_accuracy.dims == ("task", "model", "trial")
            assert data.coverage.dims == ("task", "model", "trial", "class")
            assert data.model.values.tolist() == MODELS
            assert data.attrs["call"] == "moe-lab demo --seed 3 --trials 5"
            for run in report["runs"]:
                last = data.sel(task=run["task"], model=run["model"])
                assert float(last.test_accuracy.mean()) == pytest.approx(run["test_accuracy_mean"], abs=1e-12)
                if run["coverage_mean"] is not None:
                    assert float(last.coverage.mean()) == pytest.approx(run["coverage_mean"], abs=1e-6)

    def test_groups_hold_every_snapshot_and_how_to_make_them_again(self, done):
        folder, _ = done
        with xr.open_dataset(folder / "demo.nc", engine="h5netcdf", group="digits/joint") as data:
            assert data.test_accuracy.dims == ("step", "trial")
            assert data.step.values[0] == 0
            assert data.sizes["step"] > 5
            assert float(data.test_accuracy.isel(step=0).mean()) < 0.7 < float(data.test_accuracy.isel(step=-1).mean())
            assert data.alignment.dims == ("step", "trial", "expert", "class")
            assert data.attrs["call"].startswith("train(JointMoE(learning_rate=8.0, batch_size=2), DigitTask()")
            assert -1 < data.attrs["class_overlap"] < 0  # the centred digits 6 and 7 lie on opposite sides

    def test_picture_is_a_picture(self, done):
        folder, _ = done
        pixels = imread(folder / "demo.png")
        assert pixels.shape[:2] == (1035, 1650)
        assert pixels[..., :3].std() > 0.05
        np.testing.assert_allclose(pixels[0, 0, :3], np.array([0xFB, 0xFA, 0xF7]) / 255, atol=0.01)

    @only_thorough("takes two runs")
    def test_a_second_run_replaces_old_files_and_repeats_the_numbers(self, tmp_path, brief):
        """The same seed gives the same numbers, another seed others; torch's threads stay as they were."""
        for name in NAMES:
            (tmp_path / name).write_text("old")
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            runs = [demo.run(tmp_path, seed=seed, trials=1, device="cpu")["runs"] for seed in (1, 1, 2)]
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(before)
        first, again, other = ([run["test_accuracy_mean"] for run in part] for part in runs)
        assert first == again
        assert first != other
        assert json.loads((tmp_path / "demo.json").read_text())["seed"] == 2
        assert (tmp_path / "demo.nc").read_bytes()[:4] == b"\x89HDF"
        assert (tmp_path / "demo.png").read_bytes()[:4] == b"\x89PNG"


class TestOnScreen:
    def test_prints_a_table_with_every_number(self, capsys, tmp_path, brief):
        report = demo.run(tmp_path, seed=5, trials=2, device="cpu")
        out = capsys.readouterr().out
        for run in report["runs"]:
            mean, deviation = 100 * run["test_accuracy_mean"], 100 * run["test_accuracy_std"]
            assert f"{mean:.1f} ± {deviation:.1f} %" in out
        assert "joint pMoE" in out
        assert "on cpu, seed 5" in out
        assert str(tmp_path) in out


class TestAskedWrongly:
    @pytest.mark.parametrize(
        ("arguments", "error", "says"),
        [
            ({"trials": 0}, ValueError, "trials .T. must be at least 1: got T=0"),
            ({"seed": -1}, ValueError, "seed must be at least 0|seed .seed. must be at least 0"),
            ({"device": "abacus"}, ValueError, "device must be"),
            ({"device": "cuda:63"}, RuntimeError, "not present on this machine"),
        ],
    )
    def test_says_so_at_once_and_writes_nothing(self, tmp_path, arguments, error, says):
        folder = tmp_path / "out"
        with pytest.raises(error, match=says):
            demo.run(folder, **arguments)
        assert not folder.exists()

    def test_a_folder_that_cannot_be_written_to(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setattr(demo, "_train", lambda *_: pytest.fail("it trained first"))
        with pytest.raises(RuntimeError, match="file"):
            demo.run(tmp_path / "file", trials=1)
        with pytest.raises(RuntimeError, match="file"):
            demo.run(tmp_path / "file" / "below", trials=1)

    def test_a_broken_run_leaves_the_old_files(self, tmp_path, monkeypatch, brief):
        for name in NAMES:
            (tmp_path / name).write_text("old")

        def broken(*_: object) -> None:
            raise RuntimeError("no picture today")

        monkeypatch.setattr(demo, "draw", broken)
        with pytest.raises(RuntimeError, match="no picture today"):
            demo.run(tmp_path, trials=1, device="cpu")
        assert {file.name: file.read_text() for file in tmp_path.iterdir()} == dict.fromkeys(NAMES, "old")


def test_diverged_trainings_are_said_and_counted_out(done):
    """No NaN in the JSON, a word in the table, and a picture all the same."""
    folder, _ = done
    planned, results = demo.plan(3, 5, "cpu"), {}
    for (task, model), run in planned.items():
        with xr.open_dataset(folder / "demo.nc", engine="h5netcdf", group=f"{task}/{model}") as data:
            results[task, model] = demo.Result(run, data.load(), 1.0)
    lost, half = results["digits", "cnn"].data, results["patterns", "joint"].data
    lost["test_accuracy"][:] = np.nan
    results["patterns", "separate"].data["coverage"][:] = np.nan
    half["test_accuracy"][:, 0] = np.nan

    rows = [demo._row(task, model, result) for (task, model), result in results.items()]
    by_name = {(row["task"], row["model"]): row["test_accuracy_mean"] for row in rows}
    assert by_name["digits", "cnn"] is None
    assert by_name["patterns", "joint"] > 0.97
    json.dumps(rows, allow_nan=False)
    printed = io.StringIO()
    Console(file=printed, width=100).print(demo._table(rows, 5))
    assert printed.getvalue().count("diverged") == 1
    page = demo.draw({key: result.data for key, result in results.items()}, demo.SAMPLES)
    page.savefig(io.BytesIO())
    assert [text.get_text() for axes in page.axes for text in axes.texts].count("diverged") == 3  # accuracy, o1, o2
