"""The pictures of the tables and figures: what is drawn is what was measured, and can be read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from moe_lab.recovery.gridlock import method_names, plots
from moe_lab.recovery.gridlock.published import published
from tests.helpers.on_axes import drawn, lines, words

SPECTRAL = ["orth-als", "spectral", "spectral+em"]
METHODS = ["spectral", "spectral+em", "joint-em", "joint-em-gradient"]


def attrs(place: str, **more: object) -> dict[str, object]:
    return {"figure": place, "paper": f"gridlock2019, {place}", "call": "made()", **more}


def table(place: str = "table 2") -> xr.Dataset:
    across, labels = ("gating", ["orthogonal", "random"]) if place == "table 2" else ("first_share", [0.1, 0.5])
    level = np.array([0.91, 0.97, 0.999])[:, None] + np.array([-0.01, 0.0, 0.001])
    values = np.stack([level, level - 0.004])
    dims = (across, "algorithm", "trial")
    coords = {across: labels, "algorithm": SPECTRAL}
    data = {"regressor_fit": (dims, values), "gating_fit": (dims, values - 0.005), "error": (dims, 1 - values)}
    return xr.Dataset(data, coords, attrs(place))


def stuck() -> xr.Dataset:
    """4 trials: spectral + EM has found 3 and one moves; of joint EM 2 are stuck, 1 was found, 1 diverged."""
    dims, coords = ("algorithm", "k", "samples", "trial"), {"algorithm": ["spectral+em", "joint-em"], "k": [8]}
    fit = np.array([[0.99, 0.99, 0.98, 0.5], [0.3, 0.4, 0.97, np.nan]])[:, None, None]
    bad = np.array([[0, 0, 0, 0], [1, 1, 0, np.nan]], dtype=float)[:, None, None]
    error = np.array([[0.7, 0.8, 0.9, 3.0], [5.0, 4.0, 0.8, np.nan]])[:, None, None]
    values = {"regressor_fit": (dims, fit), "stuck": (dims, bad), "error": (dims, error)}
    return xr.Dataset(values, {**coords, "samples": [6000]}, attrs("section 4.3", window=20, gain=0.02))


def stuck_map() -> xr.Dataset:
    """Of 4 trials k=3 is always found; of k=8, joint EM finds none at n=2000, where 3 are stuck, and 2 at n=6000."""
    dims, coords = ("algorithm", "k", "samples", "trial"), {"algorithm": ["spectral+em", "joint-em"], "k": [3, 8]}
    fit, bad = np.full((2, 2, 2, 4), 0.99), np.zeros((2, 2, 2, 4))
    fit[1, 1, 0], bad[1, 1, 0, :3] = 0.4, 1
    fit[1, 1, 1, :2] = [np.nan, 0.4]
    values = {"regressor_fit": (dims, fit), "stuck": (dims, bad), "error": (dims, 1 - fit)}
    return xr.Dataset(values, {**coords, "samples": [2000, 6000]}, attrs("section 4.3", window=20, gain=0.02))


def gates() -> xr.Dataset:
    dims = ("gating", "samples", "regressors", "algorithm", "trial")
    fit = 1 - np.array([0.03, 0.02, 0.01])[:, None] * np.array([0.9, 1.0, 1.2])
    values = np.broadcast_to(np.stack([fit - 0.01, fit]), (2, 2, 2, 3, 3))
    config = json.dumps([{"task": {"noise": 0.1, "first_share": None}}])
    coords = {"gating": ["orthogonal", "random"], "samples": [2000, 20000], "regressors": ["estimated", "true"]}
    coords["algorithm"] = ["moments", "centred-moments", "spectral"]
    return xr.Dataset({"gating_fit": (dims, values)}, coords, attrs("theorem 3", config=config))


def curves(place: str = "figure 4") -> xr.Dataset:
    """Falls from 4 to .3 (all but "spectral", which stays at 1 and whose last trial has no start)."""
    axes = {"figure 3": {"k": [3, 4]}, "figure 4": {"samples": [1000, 5000]}}.get(
        place, {"activation": ["sigmoid", "relu"], "noise": [0.1, 0.5]}
    )
    fall = np.geomspace(4, 0.3, 11)[:, None] * np.array([0.9, 1.0, 1.2])
    stay = np.full((11, 3), 1.0)
    stay[:, 2] = np.nan
    one = np.stack([stay, fall, fall, 3 * fall])
    shape = [len(values) for values in axes.values()]
    values = np.broadcast_to(one, (*shape, *one.shape)).copy()
    best = np.full((*shape, 3), 0.3)
    data = xr.Dataset(
        {"error": ((*axes, "algorithm", "iteration", "trial"), values), "best_error": ((*axes, "trial"), best)},
        {**axes, "algorithm": METHODS, "iteration": np.arange(11)},
        attrs(place),
    )
    if place == "figure 3":
        gates = np.linspace(0.2, 1, 4)[None, :, None] * np.ones((2, 1, 3))
        dims = ("gate_algorithm", "gate_iteration", "trial")
        data["gates_alone"] = dims, gates
        data = data.assign_coords(gate_algorithm=["spectral", "spectral-gradient"], gate_iteration=np.arange(4))
    return data


def real() -> xr.Dataset:
    names = ["variance", "ridge", "spectral", "spectral+em"]
    values = np.array([[0.2, 0.21, 0.22], [0.06, 0.07, 0.08], [0.3, 0.4, 9.0], [0.05, 0.06, np.nan]])
    data = json.dumps({"rows": 442, "features": ["age"]})
    more = attrs("figure 6", source="diabetes", data=data)
    return xr.Dataset({"test_error": (("algorithm", "trial"), values)}, {"algorithm": names}, more)


@pytest.mark.parametrize("place", ["table 1", "table 2"])
def test_tables_show_every_trial_every_median_and_what_is_published(place: str) -> None:
    data = table(place)
    across = str(data.regressor_fit.dims[0])
    theirs = published(place)
    for axes, name in zip(drawn(plots.PICTURES, data), ("regressor_fit", "gating_fit"), strict=True):
        cells = data[name].stack(cell=("algorithm", across)).transpose("cell", "trial").values
        marks, bars = lines(axes, "trials"), lines(axes, "median")
        assert len(marks) == len(bars) == len(cells) == 6
        for mark, bar, values in zip(marks, bars, cells, strict=True):
            np.testing.assert_allclose(np.sort(mark[1]), np.sort(values))
            np.testing.assert_allclose(bar[1], np.median(values))
        expected = theirs.sel({across: data[across]})
        np.testing.assert_allclose([star[1, 0] for star in lines(axes, "paper")], expected[name])
        spans = [np.ptp(span[1]) / 2 for span in lines(axes, "spread")]
        np.testing.assert_allclose(spans, expected[f"{name}_std"])
        assert {"spectral + EM", "spectral", "Orth-ALS"} <= set(words(axes))


def test_values_below_the_axis_are_counted() -> None:
    data = table()
    data["regressor_fit"][0, 0, 0] = 0.2
    left, right = drawn(plots.PICTURES, data)
    assert any("1 trials lie below" in word for word in words(left))
    assert not any("below" in word for word in words(right))


def test_stuck_trials_are_crossed_out_and_counted() -> None:
    left, right = drawn(plots.PICTURES, stuck())
    (cross,) = [mark[1] for mark in lines(left, "stuck") if mark.size]
    np.testing.assert_array_equal(cross, [5.0, 4.0])
    bars = {(patch.get_gid(), round(-patch.get_y() - 0.31)): patch.get_width() for patch in right.patches}
    assert bars == {("found", 0): 3, ("still moving", 0): 1, ("found", 1): 1, ("stuck", 1): 2, ("diverged", 1): 1}
    assert [label.get_text() for label in right.get_yticklabels()] == ["spectral + EM", "joint EM"]
    assert right.get_xlim() == (0, 4)


def test_many_sizes_are_a_map_of_what_became_of_the_trials() -> None:
    _, right = drawn(plots.PICTURES, stuck_map())
    cells = {(round(text.get_position()[0]), round(text.get_position()[1])): [] for text in right.texts}
    for text in right.texts:
        x, y = text.get_position()
        cells[round(x), round(y)].append(text.get_text())
    first, second = ["0", "3 stuck", "1 moving"], ["2", "1 moving", "1 diverged"]
    assert cells == {(0, 0): ["4"], (1, 0): ["4"], (0, 1): first, (1, 1): second}
    assert [label.get_text() for label in right.get_xticklabels()] == ["2,000", "6,000"]
    shades = [patch.get_facecolor() for patch in right.patches]
    assert len(shades) == 4 and shades[0] == shades[1] != shades[2]


def test_gates_are_angles_of_every_trial() -> None:
    data = gates()
    for axes, gating in zip(drawn(plots.PICTURES, data), data.gating.values, strict=True):
        fit = data.gating_fit.sel(gating=gating).stack(cell=("algorithm", "samples", "regressors"))
        marks, bars = lines(axes, "trials"), lines(axes, "median")
        assert len(marks) == len(bars) == 12
        for mark, bar, values in zip(marks, bars, fit.transpose("cell", "trial").values, strict=True):
            np.testing.assert_allclose(np.cos(np.radians(np.sort(mark[1])[::-1])), np.sort(values))
            np.testing.assert_allclose(np.cos(np.radians(bar[1])), np.median(values))
        assert {"moments", "centred moments", "EM"} <= set(words(axes))
        assert [label.get_text() for label in axes.get_xticklabels()][1] == "n = 2,000\ntrue"
    assert "n = 2,000: moments 0.959 to 0.969, centred" in plots.caption(data)


@pytest.mark.parametrize("place", ["figure 4", "figure 5"])
def test_curves_are_all_trials_their_medians_and_the_least_error(place: str) -> None:
    data = curves(place)
    for axes, point in zip(drawn(plots.PICTURES, data), method_names.points_across(data), strict=True):
        thin, thick = lines(axes, "trials"), lines(axes, "median")
        assert (len(thin), len(thick)) == (12, 4)
        for line, method in zip(thick, METHODS, strict=True):
            expected = data.error.sel({**point, "algorithm": method}).median("trial")
            np.testing.assert_allclose(line, [data.iteration, expected])
        (best,) = lines(axes, "best")
        assert (best[1] == 0.3).all()
        assert axes.get_yscale() == "log" and axes.get_xlim() == (0, 10)


def test_figure_3_has_the_gates_first() -> None:
    data = curves("figure 3")
    first, *rest = drawn(plots.PICTURES, data)
    assert len(lines(first, "median")) == 2 and len(rest) == 2
    np.testing.assert_allclose(lines(first, "median")[0], [np.arange(4), np.linspace(0.2, 1, 4)])
    assert {"spectral + EM", "joint EM", "EM from the truth"} <= set(words(rest[-1]))


def test_figure_6_says_medians_and_what_lies_beyond() -> None:
    (axes,) = drawn(plots.PICTURES, real())
    told = [text.get_text() for text in axes.texts if text.get_gid() == "median"]
    assert told == ["0.210", "0.070", "0.400  (1 beyond)", "0.055  (1 without a start)"]
    np.testing.assert_allclose([bar[0, 0] for bar in lines(axes, "median")], [0.21, 0.07, 0.4, 0.055])


def test_a_median_of_figure_6_stands_where_it_is_written_though_half_the_errors_lie_beyond() -> None:
    values = {"test_error": (("algorithm", "trial"), np.array([[0.1, 0.2, 0.3, 9.0], [0.01, 0.02, 0.03, 0.04]]))}
    (axes,) = drawn(plots.PICTURES, xr.Dataset(values, {"algorithm": ["spectral", "ridge"]}, real().attrs))
    np.testing.assert_allclose([bar[0, 0] for bar in lines(axes, "median")], [0.25, 0.025])


def test_captions_say_the_numbers() -> None:
    assert "Orth-ALS 0.903 to 0.907 and 0.898 to 0.902" in plots.caption(table())
    assert plots.caption(stuck()) == (
        "Spectral + EM finds all regressors most often; joint EM mostly gets stuck. "
        "Of 4 trials each, spectral + EM: 3 found and 1 still moving; joint EM: 1 found, 2 stuck and 1 diverged. "
        "Stuck: not found, and the error fell by less than 2 % in 20 iterations."
    )
    assert "of 6 trials each: spectral 0, spectral + EM 4, joint EM 4, joint EM (gradient) 0 reach" in plots.caption(
        curves()
    )
    assert (
        plots.caption(real())
        .partition(". ")[2]
        .startswith("Diabetes, medians of 3 divisions: variance of the target 0.210, ridge")
    )
