"""The pictures of the tables and figures: what is drawn is what was measured, and can be read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import same_color

from moe_lab.drawing import theme
from moe_lab.specialization import plots
from moe_lab.specialization.published import published
from tests.helpers.on_axes import drawn, lines, rendered, stars, words

MIXTURES = ["moe-cubic", "moe-linear"]
MODELS = [*MIXTURES, "single-cubic", "single-linear"]
LEVEL = {"moe-cubic": 0.98, "moe-linear": 0.93, "single-cubic": 0.7, "single-linear": 0.65}
PRODUCTS = ("expert_feature", "expert_center", "router_feature", "router_center")
ENTROPY = {"moe-cubic": 0.1, "moe-linear": 1.2, "single-cubic": np.nan, "single-linear": np.nan}


def attrs(place: str) -> dict[str, str]:
    config = json.dumps([{"model": {"activation": "cubic"}, "task": {"clusters": 4}, "first_trial": 1}])
    return {"figure": place, "paper": f"chen2022, {place}", "config": config, "call": "made()"}


def compared(place: str, models: list[str], settings: list[int]) -> xr.Dataset:
    """Made-up values whose medians are those of LEVEL and ENTROPY, less a tenth of a percent for each setting."""
    aside = np.array([-0.01, 0.0, 0.015])
    dims, coords = ("setting", "model", "trial"), {"setting": settings, "model": models}
    less = -0.001 * np.array(settings)[:, None, None]
    accuracy = np.array([LEVEL[name] for name in models])[:, None] + aside + less
    entropy = np.array([ENTROPY[name] for name in models])[:, None] + aside - less
    return xr.Dataset(
        {"test_accuracy": (dims, accuracy), "dispatch_entropy": (dims, entropy)}, coords=coords, attrs=attrs(place)
    )


def three() -> xr.Dataset:
    return compared("table 3", MODELS, [1, 2, 3, 4])


def nine() -> xr.Dataset:
    return compared("table 9", MIXTURES[::-1], [1, 4])


def four() -> xr.Dataset:
    final = np.zeros((4, 8))
    final[[0, 1, 2, 3], [5, 2, 7, 1]] = [390, 410, 400, 400]
    coords = {"cluster": [1, 2, 3, 4], "expert": np.arange(1, 9)}
    initial = np.full((4, 8), 50.0)
    counts = {"initial_dispatch": (("cluster", "expert"), initial), "final_dispatch": (("cluster", "expert"), final)}
    values = {"test_accuracy": 1.0, "dispatch_entropy": -0.0}
    return xr.Dataset({**counts, **values}, coords=coords, attrs=attrs("table 4"))


def seven() -> xr.Dataset:
    values = 0.7 + np.zeros((2, 2, 3)) + 0.05 * np.arange(2)[:, None, None] + np.array([-0.02, 0, 0.01])
    coords = {"setting": [1, 3], "activation": ["cubic", "linear"]}
    data = xr.Dataset({"test_accuracy": (("setting", "activation", "trial"), values)}, coords=coords)
    data["optimum"] = "setting", [np.nan, 0.875]
    return data.assign_attrs(attrs("tables 7 and 8"))


def entropy() -> xr.Dataset:
    steps = np.array([0, 100, 200, 300])
    fall = np.array([1.38, 0.6, 0.2, 0.1])[:, None] + np.array([-0.05, 0.0, 0.2])
    stay = np.array([1.38, 1.25, 1.2, 1.1])[:, None] + np.array([-0.05, 0.0, 0.02])
    values = np.stack([np.stack([fall, stay]), np.stack([fall + 0.1, stay])])
    coords = {"setting": [1, 2], "model": MIXTURES, "step": steps}
    data = xr.Dataset({"dispatch_entropy": (("setting", "model", "step", "trial"), values)}, coords=coords)
    return data.assign_attrs(attrs("figure 3"))


def products() -> xr.Dataset:
    """Expert m learns v_(m mod 4) alone, up to 3; routers learn c alone, up to 2."""
    steps = np.arange(0, 301, 100)
    own = np.eye(4)[np.arange(8) % 4]
    grow = (steps / 300)[:, None, None, None] * own
    dims = ("step", "trial", "expert", "cluster")
    parts = {"expert_feature": 3 * grow, "expert_center": 0.01 * grow, "router_feature": -0.1 * grow}
    coords = {"step": steps, "expert": np.arange(1, 9), "cluster": [1, 2, 3, 4]}
    values = {name: (dims, value) for name, value in {**parts, "router_center": 2 * grow}.items()}
    return xr.Dataset(values, coords=coords, attrs=attrs("figure 4"))


def one() -> xr.Dataset:
    xy = np.array([[-0.5, 0.5], [-0.4, 0.4], [0.5, -0.5], [0.4, -0.4], [0.6, 0.6]])
    expert = np.array([[1, 2, 3, 4, 4], [1, 1, 2, 2, 2]])
    label = np.array([1, 1, -1, -1, 1])
    answer = np.array([[1, -1, -1, -1, 1], [1, 1, -1, -1, 1]])
    places = np.linspace(-1.05, 1.05, 22)
    region = np.broadcast_to(np.where(places < 0, 1, -1), (2, 22, 22))  # + on the left
    return xr.Dataset(
        {
            "xy": (("sample", "axis"), xy),
            "cluster": ("sample", [1, 1, 2, 2, 3]),
            "label": ("sample", label),
            "expert": (("model", "sample"), expert),
            "answer": (("model", "sample"), answer),
            "region": (("model", "y", "x"), region),
            "test_accuracy": ("model", [0.8, 1.0]),
            "dispatch_entropy": ("model", [0.9, -0.0]),
        },
        coords={"model": ["moe-linear", "moe-cubic"], "axis": ["x", "y"], "x": places, "y": places},
        attrs=attrs("figure 1"),
    )


class TestComparison:
    @pytest.mark.parametrize("make", [three, nine])
    def test_every_trial_and_every_median_is_drawn(self, make):
        data = make()
        for axes, name in zip(drawn(plots.PICTURES, data), ("test_accuracy", "dispatch_entropy"), strict=True):
            known = data[name].stack(cell=("model", "setting")).transpose("cell", "trial").dropna("cell")
            marks, bars = lines(axes, "trials"), lines(axes, "median")
            assert len(marks) == len(bars) == known.sizes["cell"]
            for mark, bar, values in zip(marks, bars, known.values, strict=True):
                np.testing.assert_allclose(np.sort(mark[1]), np.sort(values))
                np.testing.assert_allclose(bar[1], np.median(values))

    def test_groups_are_settings_and_models_keep_their_place(self):
        left, _ = drawn(plots.PICTURES, three())
        middle = np.array([bar[0].mean() for bar in lines(left, "median")]).reshape(4, 4)  # model, setting
        np.testing.assert_array_equal(middle.round(), np.tile(np.arange(4), (4, 1)))
        assert (np.diff(middle, axis=0) > 0).all()
        assert [text.get_text() for text in left.get_xticklabels()] == [f"setting {n}" for n in (1, 2, 3, 4)]

    @pytest.mark.parametrize(("make", "kind"), [(three, "table 3"), (nine, "table 9")])
    def test_stars_are_what_the_paper_publishes(self, make, kind):
        data, theirs = make(), published(kind)
        for axes, name in zip(drawn(plots.PICTURES, data), ("test_accuracy", "dispatch_entropy"), strict=True):
            expected = []
            if name in theirs:
                here = theirs[name].sel(model=data["model"], setting=data["setting"])
                expected = [value for value in here.transpose("model", "setting").values.ravel() if np.isfinite(value)]
            np.testing.assert_allclose([y for _, y in stars(axes)], expected)

    def test_spreads_are_the_papers_standard_deviations(self):
        left, right = drawn(plots.PICTURES, three())
        theirs = published("table 3")
        for axes, name in ((left, "test_accuracy"), (right, "dispatch_entropy")):
            spans = [line[1] for line in lines(axes, "spread")]
            assert len(spans) == 8  # single experts have none
            here = theirs.sel(setting=2, model="moe-linear")
            low, high = spans[5]
            assert (high - low) / 2 == pytest.approx(float(here[f"{name}_std"]))
            assert (high + low) / 2 == pytest.approx(float(here[name]))

    def test_names_stand_at_the_right(self):
        left, right = drawn(plots.PICTURES, three())
        assert set(words(left)) == {"cubic mixture", "linear mixture", "single cubic", "single linear"}
        assert set(words(right)) == {"cubic mixture", "linear mixture"}
        assert all(text.get_position()[0] == left.get_xlim()[1] for text in left.texts)

    def test_models_differ_in_shape(self):
        left, _ = drawn(plots.PICTURES, three())
        marks = [line for line in left.get_lines() if line.get_gid() == "trials"][::4]
        assert len({mark.get_marker() for mark in marks}) == 4

    def test_entropy_runs_from_0_to_log_k(self):
        _, right = drawn(plots.PICTURES, three())
        assert [label.get_text() for label in right.get_yticklabels()] == ["0", "0.5", "1", "log 4"]
        low, high = right.get_ylim()
        assert low < 0 < np.log(4) < high

    def test_the_axis_of_accuracy_holds_everything_drawn(self):
        left, _ = drawn(plots.PICTURES, compared("table 3", MIXTURES, [2]))
        assert left.get_ylim()[0] == pytest.approx(0.85)  # the paper's 88.48 % of linear experts
        left, _ = drawn(plots.PICTURES, three())
        assert left.get_ylim()[0] == pytest.approx(0.6)
        assert min(y for _, y in stars(left)) > 0.6

    def test_diverged_trials_are_left_out_and_a_lost_model_has_no_name(self):
        data = three()
        data.test_accuracy.loc[{"trial": 0}] = np.nan
        data.test_accuracy.loc[{"model": "single-cubic"}] = np.nan
        left, _ = drawn(plots.PICTURES, data)
        assert len(lines(left, "trials")) == 12
        assert all(mark.shape[1] == 2 for mark in lines(left, "trials"))
        assert "single cubic" not in words(left)


class TestDispatchTable:
    def test_every_count_is_written_and_sums_stand_below(self):
        (axes,) = drawn(plots.PICTURES, four())
        counts = [text.get_text() for text in axes.texts if text.get_gid() == "count"]
        rows = np.array(counts).reshape(6, 8)
        assert rows[0].tolist() == ["·"] * 5 + ["390", "·", "·"]
        assert rows[4].tolist() == ["·", "400", "410", "·", "·", "390", "·", "400"]
        assert rows[5].tolist() == ["200"] * 8
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == ["cluster 1", "cluster 2", "cluster 3", "cluster 4", "all clusters", "all, in the first step"]

    def test_published_tables_are_drawn_alike(self):
        (axes,) = drawn(plots.PICTURES.kinds["table 4"], published("table 6"))
        counts = [text.get_text() for text in axes.texts if text.get_gid() == "count"]
        rows = np.array(counts).reshape(6, 8)
        assert rows[1].tolist() == ["136", "1107", "1884", "651", "·", "·", "·", "231"]
        assert rows[4].tolist() == ["136", "2708", "6969", "5311", "27", "87", "4", "758"]
        assert rows[5].tolist() == ["1969", "2037", "1983", "2007", "1949", "1905", "2053", "2097"]

    def test_rows_stand_beside_their_labels(self):
        (axes,) = drawn(plots.PICTURES, four())
        places = dict(zip((label.get_text() for label in axes.get_yticklabels()), axes.get_yticks(), strict=True))
        rows = axes.patches[::8]  # the first cell of each
        assert len(rows) == len(places) == 6
        for cell, place in zip(rows, places.values(), strict=True):
            assert cell.get_y() < place < cell.get_y() + cell.get_height()

    def test_idle_experts_are_told_apart(self):
        (axes,) = drawn(plots.PICTURES, four())
        weights = [label.get_weight() for label in axes.get_xticklabels()]
        assert weights == ["normal", "bold", "bold", "normal", "normal", "bold", "normal", "bold"]


class TestSingleExperts:
    def test_a_panel_a_setting_with_every_trial(self):
        data = seven()
        for axes, setting in zip(drawn(plots.PICTURES, data), (1, 3), strict=True):
            for mark, name in zip(lines(axes, "trials"), ("cubic", "linear"), strict=True):
                values = data.test_accuracy.sel(setting=setting, activation=name)
                np.testing.assert_allclose(np.sort(mark[0]), np.sort(values))
            place = "table 7" if setting == 3 else "table 8"
            theirs = published(place).test_accuracy.sel(setting=setting)
            expected = [float(theirs.sel(model=f"single-{name}")) for name in ("cubic", "linear")]
            assert [x for x, _ in stars(axes)] == ([] if setting == 3 else expected)  # table 7 has other ranges

    def test_the_bound_is_drawn_only_where_it_holds(self):
        first, second = drawn(plots.PICTURES, seven())
        assert not any("theorem" in word for word in words(first))
        assert "87.5 %, theorem 4.1" in words(second)
        assert [line.get_xdata()[0] for line in second.get_lines() if same_color(line.get_color(), theme.FAILURE)] == [
            0.875
        ]

    def test_changed_ranges_have_no_published_numbers(self):
        data = seven().assign_attrs(call="single_experts(settings=(1, 3), feature=(1, 2))")
        assert [stars(axes) for axes in drawn(plots.PICTURES, data)] == [[], []]

    def test_table_7s_ranges_have_table_7s_numbers(self):
        call = "single_experts(settings=(1, 3), feature=(1.0, 2.0), feature_noise=(1.0, 2.0))"
        in_setting_1, in_setting_3 = (stars(axes) for axes in drawn(plots.PICTURES, seven().assign_attrs(call=call)))
        assert in_setting_1 == [] and [x for x, _ in in_setting_3] == [0.7269, 0.7481]


class TestThroughTime:
    def test_thin_lines_are_trials_and_thick_ones_medians(self):
        data = entropy()
        for axes, setting in zip(drawn(plots.PICTURES, data), (1, 2), strict=True):
            thin, thick = lines(axes, "trials"), lines(axes, "median")
            assert (len(thin), len(thick)) == (6, 2)
            for median, name in zip(thick, MIXTURES, strict=True):
                values = data.dispatch_entropy.sel(setting=setting, model=name)
                np.testing.assert_allclose(median, [data.step, values.median("trial")])
            assert {"cubic", "linear"} <= set(words(axes))
            assert axes.get_xlim() == (0, 300)

    def test_a_diverged_trial_does_not_end_the_median(self):
        data = entropy()
        data.dispatch_entropy[:, :, 2:, 0] = np.nan
        axes, _ = drawn(plots.PICTURES, data)
        assert np.isfinite(lines(axes, "median")[0]).all()
        assert np.isnan(lines(axes, "trials")[0][1]).sum() == 2

    def test_experts_and_routers_have_four_panels_of_all_lines(self):
        data = products()
        panels = drawn(plots.PICTURES, data)
        for axes, name in zip(panels, PRODUCTS, strict=True):
            assert len(lines(axes, "others")) == 32
            assert len(lines(axes, "largest")) == 8
            for expert, line in enumerate(lines(axes, "largest")):
                values = data[name].isel(trial=0, expert=expert)
                np.testing.assert_allclose(line[1], values.isel(cluster=int(values.values[-1].argmax())))

    def test_a_colour_is_a_signal_s_and_no_expert_s(self):
        colours = [theme.OWN[signal].colour for signal in range(4)]
        assert len(set(colours)) == 4 and not set(colours) & {style.colour for style in theme.EXPERTS}
        for axes, name in zip(drawn(plots.PICTURES, products()), PRODUCTS, strict=True):
            data = products()[name].isel(trial=0)
            thin = [line for line in axes.get_lines() if line.get_gid() == "others"]
            assert [line.get_color() for line in thin] == colours * 8
            thick = [line for line in axes.get_lines() if line.get_gid() == "largest"]
            best = data.isel(step=-1).argmax("cluster").values
            assert [line.get_color() for line in thick] == [colours[signal] for signal in best]

    def test_names_are_only_where_something_was_learned(self):
        panels = drawn(plots.PICTURES, products())
        expected = {f"{expert + 1}: v{'₁₂₃₄'[expert % 4]}" for expert in range(8)}
        assert set(words(panels[0])) == expected
        assert words(panels[1]) == words(panels[2]) == []
        assert set(words(panels[3])) == {name.replace("v", "c") for name in expected}

    def test_signals_and_centers_share_a_scale(self):
        panels = drawn(plots.PICTURES, products())
        assert panels[0].get_ylim() == panels[1].get_ylim() == (0, pytest.approx(3.15))
        assert panels[2].get_ylim() == panels[3].get_ylim() == (pytest.approx(-2.1), pytest.approx(2.1))

    def test_another_trial(self):
        data = products()
        both = xr.concat([data, 0.5 * data], "trial", data_vars="all")
        page = theme.figure()
        plots.inner_products(both, page.subplots(2, 2), trial=1)
        assert page.axes[0].get_ylim()[1] == pytest.approx(3.15)  # of all trials
        np.testing.assert_allclose(lines(page.axes[0], "largest")[0][1][-1], 1.5)


class TestMap:
    def test_marks_are_samples_by_expert_and_class(self):
        data = one()
        linear, cubic = drawn(plots.PICTURES, data)
        groups = {mark.get_gid(): mark.get_offsets() for mark in linear.collections if mark.get_gid()}
        np.testing.assert_allclose(groups["expert 1, 1"], data.xy[[0]])
        np.testing.assert_allclose(groups["expert 4, -1"], data.xy[[3]])
        np.testing.assert_allclose(groups["expert 4, 1"], data.xy[[4]])
        np.testing.assert_allclose(groups["wrong"], data.xy[[1]])
        none = next(mark for mark in cubic.collections if mark.get_gid() == "wrong")
        assert len(none.get_offsets()) == 0

    def test_classes_are_filled_and_open(self):
        linear, _ = drawn(plots.PICTURES, one())
        faces = {mark.get_gid(): len(mark.get_facecolor()) for mark in linear.collections if mark.get_gid()}
        assert faces["expert 4, 1"] == 1
        assert faces["expert 4, -1"] == 0

    def test_ground_is_the_answer_there(self):
        for axes in drawn(plots.PICTURES, one()):
            (image,) = axes.images
            pixels = np.asarray(image.get_array())
            assert pixels.shape[:2] == (22, 22)
            assert same_color(pixels[5, 2], theme.CLASSES_TINT[0])
            assert same_color(pixels[5, 20], theme.CLASSES_TINT[1])
            assert image.origin == "lower"

    def test_one_answer_everywhere_has_no_boundary(self):
        data = one()
        data["region"] = data["region"] * 0 + 1
        page = theme.figure()
        plots.tsne(data, page.subplots(1, 2))
        rendered(page)


class TestAllPictures:
    @pytest.mark.parametrize("make", [four, products])
    def test_says_which_experts_it_shows(self, make):
        texts = " ".join(text.get_text() for text in plots.picture(make()).texts)
        assert "cubic experts" in texts
        other = make().assign_attrs(config=make().attrs["config"].replace("cubic", "linear"))
        assert "linear experts" in " ".join(text.get_text() for text in plots.picture(other).texts)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            nine,
            "Medians of 3 trials: linear mixture 92.6 to 92.9 %, entropy 1.20; "
            "cubic mixture 97.6 to 97.9 %, entropy 0.10.",
        ),
        (three, "single cubic 69.6 to 69.9 %; single linear 64.6 to 64.9 %."),
        (
            four,
            "After training 4 of 8 experts get samples, 4 of them from one cluster only; "
            "entropy 0.00, test accuracy 100.0 %.",
        ),
        (
            seven,
            "Medians of 3 trials: setting 1 70.0 % and setting 3 75.0 %; the best training reached 76.0 %; "
            "no single expert can pass 87.5 % where α and γ are alike.",
        ),
        (
            entropy,
            "Median entropy at step 300 (3 trials). setting 1: cubic mixture 0.10 and linear mixture 1.10; "
            "setting 2: cubic mixture 0.20 and linear mixture 1.10.",
        ),
        (
            products,
            "100 % lies on one of them (median). Largest: experts 3 with v, 0.01 with c; routers 0.1 with v, 2 with c.",
        ),
        (
            one,
            "5 unseen samples, trial 1: linear mixture 80.0 % right, entropy 0.90; "
            "cubic mixture 100.0 % right, entropy 0.00.",
        ),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_captions_say_the_numbers(make, says):
    assert plots.caption(make()).endswith(says)


def test_names_of_models():
    assert plots.name_of("single-linear-512") == "single linear (512)"
    assert plots.name_of("moe-relu") == "relu mixture"
    assert plots.floor(np.array([0.52, 0.99])) == 0.5
    assert plots.floor(np.array([0.97])) == 0.9
    assert plots.floor(np.array([np.nan])) == 0
