"""The figures of deep pruning and their pictures, on a model that is hardly trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.config import ConfigError
from moe_lab.drawing import theme
from moe_lab.vision import deep, figures_pruning, plots

SHORT = deep.PRE_TRAINING.replace(steps=2, warm_up=1, batch=25, test_images=50)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    folder = tmp_path_factory.mktemp("cache")
    more = {"batch": 25, "test_images": 50, "pre_training": SHORT, "folder": folder}
    return figures_pruning.deep_pruning(2, 3, steps=2, pruned=(0, 3, 6), **more)


def test_accuracies_of_every_trial(data: xr.Dataset, tmp_path: Path) -> None:
    assert dict(data["accuracy"].sizes) == {"trial": 2, "criterion": 6, "mode": 2, "pruned": 3}
    assert np.isfinite(data["accuracy"]).all() and data["remaining"].dims == ("pruned",)
    whole = data["accuracy"].sel(pruned=0)
    assert (whole == whole.isel(criterion=0, mode=0)).all()  # with nothing pruned all criteria are the same
    before = deep.pretrained(SHORT, tmp_path)
    run = deep.DigitRun(steps=2, trial=1, seed=3, batch=25, test_images=50)
    pruned = deep.prune(before, deep.fine_tune(before, run), "router-norm-change", 3)
    found = data["accuracy"].sel(trial=1, criterion="router-norm-change", mode="silent", pruned=3)
    assert float(found) == deep.accuracy(pruned.model, run.test)
    assert data.attrs["call"].startswith("figures_pruning.deep_pruning(trials=2, seed=3, classes=10, steps=2")


def test_wrong_values_are_refused_before_anything_trains(tmp_path: Path) -> None:
    for wrong, sentence in [
        ({"trials": 0}, "trials"),
        ({"criteria": "luck"}, "criteria"),
        ({"modes": "loud"}, "modes"),
    ]:
        with pytest.raises(ValueError, match=f"^{sentence} must be"):
            figures_pruning.deep_pruning(**wrong, folder=tmp_path)
    with pytest.raises(ConfigError, match="DigitRun has no parameter 'speed'"):
        figures_pruning.deep_pruning(speed=1, folder=tmp_path)
    with pytest.raises(ValueError, match="size must be layer, b16, e3-s32"):
        figures_pruning.costs("h14")
    assert list(tmp_path.iterdir()) == []


def test_pictures_show_the_numbers(data: xr.Dataset) -> None:
    figure = theme.figure()
    first, second, third = (figure.add_subplot(1, 3, place) for place in (1, 2, 3))
    plots.pruning_curve(data, first, "rerouted")
    lines = {line.get_gid(): line for line in first.lines}
    expected = data["accuracy"].sel(mode="rerouted", criterion="router-norm-change").median("trial")
    assert lines["router-norm-change"].get_ydata() == pytest.approx(expected.values)
    assert lines["router-norm-change"].get_linewidth() > lines["random"].get_linewidth()
    one = data.isel(trial=0)
    plots.expert_scores(one, second, block=3)
    heights = [bar.get_height() for bar in second.patches]
    assert heights == pytest.approx(one["score"].sel(block=3, criterion="router-norm-change").values)
    measured = figures_pruning.costs(deep.TINY, experts_kept=(8, 2), repeats=1)
    plots.costs(measured, third)
    bars = {bar.get_gid(): bar.get_height() for bar in third.patches}
    share = measured["parameters"].sel(kept=2) / measured["parameters"].sel(kept=8)
    assert bars["parameters silent"] == pytest.approx(float(share.sel(mode="silent")))
    assert sum(line.get_gid() == "published" for line in third.lines) == 3
    figure.canvas.draw()
