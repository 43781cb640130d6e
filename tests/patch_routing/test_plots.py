"""The pictures of figures 4 to 9: what is drawn is what was measured, and can be read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes

from moe_lab.drawing import theme
from moe_lab.patch_routing import DigitTask, PatternTask, plots
from tests.helpers.on_axes import drawn, rendered, stars, words

SAMPLES = [60, 100, 300, 1000]


def attrs(number: int, task: PatternTask | DigitTask | None = None) -> dict[str, str]:
    task = task or DigitTask()
    config = {"task": {"name": type(task).__name__, **task.model_dump(mode="json")}}
    return {"figure": f"figure {number}", "paper": f"pmoe2023, figure {number}", "config": json.dumps(config)}


def measured(number: int, name: str, **axes: list) -> xr.Dataset:
    """Made-up values that rise along the last axis before the trials, so that every mean is known."""
    dims = [dim for dim in axes if dim != "class"]
    shape = [len(axes[dim]) for dim in dims]
    base = 0.8 + 0.19 * np.linspace(0, 1, int(np.prod(shape))).reshape(shape)
    values = base[..., None] + np.array([-0.01, 0.0, 0.01])
    dims.append("trial")
    if "class" in axes:
        values = values[..., None] + np.array([0.0, -0.02])
        dims.append("class")
    return xr.Dataset({name: (dims, values)}, coords=axes, attrs=attrs(number))


def four() -> xr.Dataset:
    return measured(4, "test_accuracy", model=["cnn", "separate", "joint"], samples=SAMPLES).isel(model=[2, 1, 0])


def five() -> xr.Dataset:
    share = np.array([[0, 0, 0.5, 0.75], [0, 1, 1, 1], [0.25, 0.5, 1, 1]])
    success = (np.arange(4) < 4 * share[..., None]).astype(float)
    axes = {"patches_per_expert": [1, 2, 8], "samples": SAMPLES}
    return xr.Dataset({"success": ([*axes, "trial"], success)}, coords=axes, attrs=attrs(5))


def six() -> xr.Dataset:
    return measured(6, "test_accuracy", samples=[100, 300], experts=[1, 2, 8, 40])


def seven() -> xr.Dataset:
    return measured(7, "test_accuracy", samples=[100, 300], patches_per_expert=[1, 2, 6, 16])


def eight() -> xr.Dataset:
    return measured(8, "coverage", patches_per_expert=[1, 2, 4], samples=SAMPLES, **{"class": ["o1", "o2"]})


def nine() -> xr.Dataset:
    return measured(9, "largest_gate", samples=SAMPLES, **{"class": ["o1", "o2"]})


def curves(axes: Axes) -> list[np.ndarray]:
    """The measured curves: lines with marks at more than one place."""
    lines = [line for line in axes.get_lines() if line.get_marker() not in ("None", "*", None)]
    return [np.stack([line.get_xdata(), line.get_ydata()]) for line in lines if len(line.get_xdata()) > 1]


class TestWhatIsDrawn:
    def test_figure_4_draws_the_means(self):
        data = four()
        (axes,) = drawn(plots.PICTURES, data)
        for curve, name in zip(curves(axes), data.model.values, strict=True):
            np.testing.assert_allclose(curve[0], SAMPLES)
            np.testing.assert_allclose(curve[1], data.test_accuracy.sel(model=name).mean("trial"))
        assert {"joint pMoE", "separate pMoE", "CNN", "95 %"} <= set(words(axes))

    def test_figure_4_puts_the_papers_claim_at_60_percent_of_the_cnns_samples(self):
        data = four()
        data.test_accuracy.loc[{"model": "cnn"}] = np.array([0.8, 0.9, 0.95, 0.97])[:, None]
        (axes,) = drawn(plots.PICTURES, data)
        assert stars(axes) == [(pytest.approx(180), 0.95)]

    def test_figure_4_makes_no_claim_where_the_cnn_never_gets_there(self):
        data = four()
        data.test_accuracy.loc[{"model": "cnn"}] = 0.8
        (axes,) = drawn(plots.PICTURES, data)
        assert stars(axes) == []

    def test_models_differ_in_marker_and_line_never_in_colour_alone(self):
        (axes,) = drawn(plots.PICTURES, four())
        models = [line for line in axes.get_lines() if line.get_marker() in ("o", "^", "s")]
        assert len({line.get_marker() for line in models}) == len({line.get_linestyle() for line in models}) == 3

    def test_bands_are_one_standard_deviation(self):
        data = measured(4, "test_accuracy", model=["joint"], samples=SAMPLES)
        (axes,) = drawn(plots.PICTURES, data)
        (band,) = axes.collections
        inside = band.get_paths()[0].vertices
        at_60 = inside[np.isclose(inside[:, 0], 60)][:, 1]
        mean = float(data.test_accuracy.mean("trial")[0, 0])
        np.testing.assert_allclose([at_60.min(), at_60.max()], [mean - 0.01, mean + 0.01])

    def test_figure_5_writes_every_share_into_its_cell_with_large_l_on_top(self):
        (axes,) = drawn(plots.PICTURES, five())
        numbers = [int(word) for word in words(axes) if word.isdigit()]
        assert numbers == [25, 50, 100, 100, 0, 100, 100, 100, 0, 0, 50, 75]
        assert [label.get_text() for label in axes.get_yticklabels()] == ["8", "2", "1"]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["60", "100", "300", "1000"]

    def test_figure_5_staircase_is_where_90_percent_succeed_from_there_on(self):
        (axes,) = drawn(plots.PICTURES, five())
        upright = [line.get_xdata()[0] for line in axes.get_lines() if line.get_xdata()[0] == line.get_xdata()[1]]
        assert upright == [2, 1]  # l=8 from the third size, l=2 from the second, l=1 nowhere

    def test_figure_5_hatches_what_has_not_run(self):
        data = five()
        data.success[0, 3] = np.nan
        (axes,) = drawn(plots.PICTURES, data)
        (cell,) = [patch for patch in axes.patches if patch.get_hatch()]
        assert cell.get_xy() == (3, 2)
        assert len([word for word in words(axes) if word.isdigit()]) == 11

    @pytest.mark.parametrize(("make", "dim"), [(six, "experts"), (seven, "patches_per_expert")])
    def test_figures_6_and_7_draw_a_line_for_each_n(self, make, dim):
        data = make()
        (axes,) = drawn(plots.PICTURES, data)
        for curve, count in zip(curves(axes), (100, 300), strict=True):
            np.testing.assert_allclose(curve[0], data[dim])
            np.testing.assert_allclose(curve[1], data.test_accuracy.sel(samples=count).mean("trial"))
        assert {"N = 100", "N = 300"} <= set(words(axes))

    @pytest.mark.parametrize(
        ("task", "says"),
        [
            (PatternTask(distractors=4), "l* = 5"),
            (DigitTask(source="mnist", digits=(1, 0), root="."), "l* = 6 (the paper)"),
            (DigitTask(), None),
        ],
    )
    def test_figure_7_shows_l_star_where_it_is_known(self, task, says):
        (axes,) = drawn(plots.PICTURES, seven().assign_attrs(attrs(7, task)))
        assert [word for word in words(axes) if word.startswith("l*")] == ([says] if says else [])

    def test_figure_8_has_a_panel_a_class_and_the_papers_number(self):
        data = eight()
        left, right = drawn(plots.PICTURES, data)
        for number, axes in enumerate((left, right)):
            for curve, kept in zip(curves(axes), (1, 2, 4), strict=True):
                shares = data.coverage.isel({"class": number}).sel(patches_per_expert=kept)
                np.testing.assert_allclose(curve[1], shares.mean("trial"))
            assert stars(axes) == [(300, 0.95)]
            assert {"l = 1", "l = 2", "l = 4"} <= set(words(axes))

    def test_figure_8_fits_a_part_of_a_larger_figure(self):
        page = theme.figure(1600, 500)
        left, _right = page.subfigures(1, 2)
        plots.separate_routers(eight(), left)
        assert len(left.axes) == 2
        rendered(page)

    def test_figure_9_draws_both_classes_and_both_published_shares(self):
        data = nine()
        (axes,) = drawn(plots.PICTURES, data)
        for number, curve in enumerate(curves(axes)):
            np.testing.assert_allclose(curve[1], data.largest_gate.isel({"class": number}).mean("trial"))
        assert stars(axes) == [(300, 0.95), (300, 0.92)]
        assert {"o₁", "o₂"} <= set(words(axes))

    def test_a_star_outside_the_measured_sizes_is_left_out(self):
        (axes,) = drawn(plots.PICTURES, nine().sel(samples=[60, 100]))
        assert stars(axes) == []


class TestCaptions:
    def test_figure_4_says_what_each_model_needs(self):
        data = four()
        curve = {
            "joint": [0.96, 0.97, 0.98, 0.99],
            "separate": [0.9, 0.925, 0.975, 0.98],
            "cnn": [0.8, 0.85, 0.9, 0.94],
        }
        for name, values in curve.items():
            data.test_accuracy.loc[{"model": name}] = np.array(values)[:, None]
        assert plots.caption(data) == (
            "The joint mixture needs the fewest samples. N = 100: joint 97.0 %, separate 92.5 % and CNN 85.0 %. "
            "Samples for 95 %: joint at most 60, separate about 200 and CNN more than 1000."
        )

    def test_figure_5_names_the_cheapest_l(self):
        assert plots.caption(five()) == (
            "The more patches an expert keeps, the more samples it takes. "
            "Cheapest: l = 2 with 100 samples; l = 8 needs 300."
        )
        none = five().assign(success=five().success * 0)
        finding, _, said = plots.caption(none).partition(". ")
        assert finding == "No number of kept patches is enough"
        assert said == "No l reaches 95 % accuracy in 90 % of the trials with 1000 samples."

    def test_figure_6_names_the_best_k(self):
        said = plots.caption(six())
        assert said.startswith(
            "Few experts cost accuracy. N = 100: 80.0 % at k = 1, 88.1 % at k = 40, best 88.1 % at k = 40; N = 300:"
        )

    def test_figures_8_and_9_speak_of_the_papers_n(self):
        finding, _, numbers = plots.caption(eight()).partition(". ")
        assert finding == "With enough samples separate routers nearly always find the deciding patch"
        assert numbers.startswith("N = 300: the top l patches hold o₁ / o₂ in 83 / 81 % (l = 1), ")
        said = "N = 300: o₁ / o₂ get the largest gate of their best expert in 93 / 91 % of test samples."
        assert plots.caption(nine()).partition(". ")[2] == said
