"""Learning curves: means and bands by hand, names and colours, and what cannot be drawn."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab.drawing import plots, theme


def run(offset: float = 0.0, trials: int = 3) -> xr.Dataset:
    steps = np.array([0, 10, 20])
    values = 0.5 + offset + 0.01 * steps[:, None] * np.arange(1, trials + 1) / trials
    share = {"units": "", "long_name": "share of test samples with the right label"}
    return xr.Dataset(
        {
            "test_accuracy": (("step", "trial"), values, share),
            "coverage": (("step", "trial", "class"), np.stack([values, values / 2], -1), {"long_name": "coverage"}),
            "gate_matrix": (("step", "trial", "expert", "class"), np.zeros((3, trials, 2, 2))),
            "steps": ("trial", np.full(trials, 20)),
        },
        coords={"step": steps, "class": ["o1", "o2"]},
    )


def test_lines_are_means_and_bands_one_standard_deviation():
    data = run()
    (axes,) = plots.curves(data).axes
    (line,), (band,) = axes.lines, axes.collections
    assert line.get_xdata().tolist() == [0, 10, 20]
    np.testing.assert_allclose(line.get_ydata(), data["test_accuracy"].values.mean(1))
    top = band.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx((data["test_accuracy"].values.mean(1) + data["test_accuracy"].values.std(1)).max())


def test_runs_have_names_and_colours_of_their_own_and_a_caption():
    page = plots.curves({"mine": run(), "CNN": run(-0.1), "third": run(-0.2)})
    (axes,) = page.axes
    colours = {text.get_text().strip(): text.get_color() for text in axes.texts}
    assert colours == {"mine": theme.INK, "CNN": theme.REFERENCE, "third": theme.OWN[0].colour}
    words = " ".join(text.get_text().replace("\n", " ") for text in page.texts)
    assert "mine 63.3 %, CNN 53.3 % and third 43.3 %" in words and "± one standard deviation" in words


def test_a_further_axis_gives_a_line_for_each_label_on_given_axes():
    page = theme.figure()
    axes = theme.axes(page, 80, 60, 600, 300)
    assert plots.curves(run(), "coverage", axes) is page
    assert [line.get_gid() for line in axes.lines] == ["class o1", "class o2"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((run(), "accuracy"), "measure must be one of those that change with the step: test_accuracy, coverage"),
        ((run(), "gate_matrix"), r"at most one axis besides step and trial.*\['expert', 'class'\]"),
        (({},), "at least one run"),
        (({str(name): run() for name in range(9)},), "at most 8 lines"),
        ((xr.Dataset(),), "a measure over step and trial"),
        (("run",), "data must be"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        plots.curves(*arguments)
