"""The pictures of this room: what is drawn is what was measured, and can be read."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes

from moe_lab.core.saliency import NAMES
from moe_lab.drawing import theme
from moe_lab.pruning import PlantedStart, figures, plots, router_plots
from moe_lab.pruning.costs import relative
from moe_lab.pruning.criteria import CRITERIA
from tests.helpers.on_axes import drawn, lines, rendered, words

LAYER = {"experts": 8, "neurons": 4, "top": 3}
TINY = {**LAYER, "patterns": 40, "tokens": 12, "steps": 12, "batch": 10, "test_samples": 80, "seed": 5}
START = PlantedStart(favourites=4)
COMPARED = [name for name in CRITERIA if name != "token-count"]
"""Where experts choose, all receive equally many tokens."""


@functools.cache
def five() -> xr.Dataset:
    names = tuple(COMPARED)
    return figures.criteria(START, rho=(0.75, 0.0, 0.5), trials=3, criteria=names, fine_tuning_steps=4, **TINY)


@functools.cache
def bare() -> xr.Dataset:
    names = ("importance-score", "router-magnitude")
    return figures.criteria("random", "token-choice", 0.5, 2, criteria=names, fine_tuning_steps=0, **TINY)


@functools.cache
def three() -> xr.Dataset:
    return figures.figure3(trials=2, **{**TINY, "steps": 250, "tokens": 8})


@functools.cache
def seven() -> xr.Dataset:
    return figures.figure7(trials=1, **TINY)


@functools.cache
def six() -> xr.Dataset:
    sizes = {"experts": 8, "neurons": 16, "dimension": 12, "tokens": 10, "kept_tokens": 2}
    return figures.efficiency((0.25, 0.5, 0.75), samples=3, repeats=2, **sizes)


ALL = {"five": five, "bare": bare, "three": three, "seven": seven, "six": six}


@functools.cache
def axes_of(kind: str) -> list[Axes]:
    """The axes of one of the figures, drawn once for all who only look."""
    return drawn(plots.PICTURES, ALL[kind]())


def line(axes: Axes, gid: str) -> np.ndarray:
    """(x, y) of the one line that stands for something."""
    [found] = lines(axes, gid)
    return found


class TestCriteria:
    def test_lines_are_medians_in_the_order_of_rho(self):
        data = five().sortby("rho")
        for axes, tuned in zip(axes_of("five")[1:], (False, True), strict=True):
            for name in COMPARED:
                median = data.test_accuracy.sel(criterion=name, fine_tuned=tuned).median("trial")
                np.testing.assert_allclose(line(axes, name), [data.rho, median])

    def test_the_ground_is_the_range_of_random(self):
        data = five().sortby("rho").test_accuracy.sel(criterion="random", fine_tuned=False)
        [ground] = [part for part in axes_of("five")[1].collections if part.get_gid() == "range of random"]
        outline = ground.get_paths()[0].vertices
        for share in data.rho.values:
            here = outline[np.isclose(outline[:, 0], share), 1]
            assert here.min() == pytest.approx(float(data.sel(rho=share).min()))
            assert here.max() == pytest.approx(float(data.sel(rho=share).max()))
        assert not axes_of("bare")[1].collections

    def test_the_chosen_criterion_is_solid_and_the_others_are_told_apart(self):
        axes = axes_of("five")[1]
        found = {one.get_gid(): one for one in axes.get_lines() if one.get_gid() in COMPARED}
        chosen = found.pop("router-norm-change")
        assert chosen.get_linestyle() == "-" and all(one.get_linestyle() != "-" for one in found.values())
        assert len({one.get_marker() for one in [*found.values(), chosen]}) == len(COMPARED)

    def test_another_criterion_can_be_chosen(self):
        page = theme.figure()
        axes = page.add_subplot()
        plots.pruning_curve(five(), axes, True, "random")
        found = {one.get_gid(): one for one in axes.get_lines() if one.get_gid() in COMPARED}
        assert found["random"].get_linestyle() == "-" != found["router-norm-change"].get_linestyle()
        first = axes_of("bare")[1]  # has no norm change: the first takes its place
        found = {one.get_gid(): one for one in first.get_lines() if one.get_gid() in COMPARED}
        assert found["importance-score"].get_linestyle() == "-" != found["router-magnitude"].get_linestyle()

    def test_each_line_is_named_once_as_in_the_lab(self):
        assert sorted(words(axes_of("five")[1])) == sorted(NAMES[name] for name in COMPARED)
        assert not set(COMPARED) - {"random"} & set(words(axes_of("five")[1])), "code has other names"

    def test_axes_of_accuracy_begin_at_forty_percent(self):
        fair = five().assign(test_accuracy=five().test_accuracy.clip(0.45))
        assert [axes.get_ylim()[0] for axes in drawn(plots.PICTURES, fair)[1:]] == [0.4, 0.4]
        poor = five().assign(test_accuracy=five().test_accuracy * 0.1)
        assert [axes.get_ylim()[0] for axes in drawn(plots.PICTURES, poor)[1:]] == [0, 0]

    def test_every_expert_of_every_trial_has_its_mark(self):
        data, axes = five(), axes_of("five")[0]
        for sign in "+-":
            for flag in (True, False):
                mine = data.norm_change.where(data.important == flag).sel(expert=data.group == sign).values
                np.testing.assert_allclose(line(axes, f"{sign} {flag}")[1], np.sort(mine[np.isfinite(mine)]))
        assert line(axes, "threshold")[1][0] == pytest.approx(1.5 * np.log(3))

    def test_other_starts_do_not_know_who_is_important(self):
        data, axes = bare(), axes_of("bare")[0]
        for sign in "+-":
            mine = data.norm_change.sel(expert=data.group == sign).values.ravel()
            np.testing.assert_allclose(line(axes, f"{sign} None")[1], np.sort(mine))
        assert "threshold" not in [one.get_gid() for one in axes.get_lines()]  # the lemma is not of token-choice


class TestRouters:
    def test_bars_are_norms_of_the_trial_shown(self):
        data = three()
        norms = data.router_norm.sel(trial=int(data.shown_trial)).values
        axes = axes_of("three")[0]
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], norms)
        level = 1.5 * np.log(3)
        assert line(axes, "threshold")[1][0] == pytest.approx(level)
        assert words(axes, "norm") == [f"{norm:.1f}" for norm in norms if norm > level] != []
        bold = [label.get_text() for label in axes.get_xticklabels() if label.get_weight() == "bold"]
        assert sorted(bold) == sorted(str(expert) for expert in data.shown.values)

    def test_maps_are_components_o1_and_o2_wide(self):
        data = three()
        most = router_plots.darkest(data)
        for number, role in enumerate(("large", "small")):
            router, neurons = axes_of("three")[1 + 2 * number : 3 + 2 * number]
            one = data.sel(expert=int(data.shown.sel(role=role)))
            for axes, name, largest in zip(
                (router, neurons), ("router_component", "neuron_component"), most, strict=True
            ):
                pixels = np.asarray(axes.images[0].get_array())
                values = np.atleast_2d(one[name].values)
                shades = theme.ramp(np.clip(values / largest, 0, 1))
                np.testing.assert_array_equal(pixels[:, 0], shades[:, 0])
                np.testing.assert_array_equal(pixels[:, 40], shades[:, 1])
                np.testing.assert_array_equal(pixels[:, -1], shades[:, -1])
                np.testing.assert_array_equal(np.unique(pixels[:, 78:], axis=1), np.unique(shades[:, 2:], axis=1))
            assert words(router, "component") == [router_plots.signed(float(v)) for v in one.router_component[:2]]
            count = int((one.neuron_component.sel(pattern="o1") > 1).sum())
            assert neurons.get_xlabel() == f"{count} of 4 above 1 along o₁"

    def test_figure_7_is_about_o2(self):
        assert axes_of("seven")[2].get_xlabel().endswith("along o₂")

    def test_a_largest_router_that_is_small_is_not_called_large(self):
        heads = [text.get_text() for text in plots.picture(seven()).texts]
        assert not bool(seven().large.any())
        assert f"Expert {int(seven().shown[0])}: largest router" in heads
        assert f"Expert {int(three().shown[0])}: large router" in [t.get_text() for t in plots.picture(three()).texts]


class TestEfficiency:
    def test_lines_and_marks_are_what_was_measured(self):
        data = six()
        marks = {"operations": data.counted_operations, "bytes": data.bytes, "seconds": data.seconds}
        for axes, (quantity, measured) in zip(axes_of("six"), marks.items(), strict=True):
            for routing in ("expert-choice", "token-choice"):
                share = relative(data, quantity).sel(routing=routing)
                np.testing.assert_allclose(line(axes, routing), [data.pruned_share, share])
                one = measured.sel(routing=routing)
                expected = one / one.sel(rho=0.0).median()
                np.testing.assert_allclose(line(axes, f"{routing} marks")[1], expected.values.ravel())
            assert axes.get_ylim()[1] >= max(one.get_ydata().max() for one in axes.get_lines())

    def test_names_tell_the_slope(self):
        first = words(axes_of("six")[0])
        assert first[0] == "expert-choice\n slope −1.00"
        slope = float(six().slope.sel(quantity="operations", routing="token-choice"))
        assert first[1] == f"token-choice\n slope −{-slope:.2f}"


class TestAllPictures:
    @pytest.mark.parametrize("kind", ["five", "bare"])
    def test_diverged_trials_are_left_out_of_the_medians(self, kind):
        data = ALL[kind]().copy(deep=True)
        for name in ("test_accuracy", "norm_change", "unpruned_accuracy"):
            data[name].loc[{"trial": 0}] = np.nan
        axes = drawn(plots.PICTURES, data)[1]
        name = str(data.criterion.values[0])
        rest = data.test_accuracy.isel(trial=slice(1, None)).sel(criterion=name, fine_tuned=False).sortby("rho")
        np.testing.assert_allclose(line(axes, name)[1], rest.median("trial"))

    def test_other_sizes_can_be_drawn(self):
        more = {"patterns": 400, "experts": 30, "neurons": 3, "steps": 2, "batch": 5, "test_samples": 20}
        rendered(plots.picture(figures.figure3(trials=1, **more), scale=1.5))
        one = figures.criteria(rho=0.5, trials=1, criteria="random", steps=2, test_samples=20, fine_tuning_steps=0)
        assert rendered(plots.picture(one, scale=1.5)).shape[:2] == (720, 1650)


class TestCaptions:
    def test_criteria(self):
        data = five()
        last = data.test_accuracy.sel(rho=0.75, fine_tuned=False, criterion="random")
        _, _, told = plots.caption(data).replace("\u00a0", " ").partition(". ")
        assert told.startswith("ρ = 0.75, 2 of 8 experts left, median of 3 trials without fine-tuning: norm change ")
        assert f"random {100 * float(last.median()):.0f} % (worst {100 * float(last.min()):.0f} %)" in told

    def test_routers(self):
        data = three()
        trial, expert = int(data.shown_trial), int(data.shown.sel(role="large"))
        _, _, told = plots.caption(data).partition(". ")
        assert told.startswith(f"Trial {trial}: {int(data.large.sel(trial=trial).sum())} of 8 routers are large.")
        along = float(data.router_component.sel(expert=expert, pattern="o1"))
        assert f"That of expert {expert} has {along:.1f} along o₁" in told
        assert told.endswith(f"In {int(data.violated.sum())} of 2 trials a class has no large router.")

    def test_efficiency(self):
        _, _, told = plots.caption(six()).replace("\u00a0", " ").partition(". ")
        assert told.startswith("With 2 of 8 experts left: expert-choice 25 % of the FLOPs, 25 % of the memory and ")
        assert told.endswith("Torch counts the same FLOPs.")
        other = six().assign(counted_operations=1.05 * six().operations)
        assert plots.caption(other).endswith("Torch's count of FLOPs is up to 5.0 % off.")

    def test_numbers_have_a_minus_and_zero_has_none(self):
        assert [router_plots.signed(value) for value in (1.25, -2.0, -0.01, 0.0)] == ["1.2", "−2.0", "0.0", "0.0"]


def test_criteria_of_ones_own_have_a_style_too():
    assert plots.style_of("mine", "random")[0] == theme.REFERENCE
    assert plots.style_of("router-norm-change", "random")[2] != "-"
