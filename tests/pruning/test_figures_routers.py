"""Figures 3 and 7: routers and neurons after training from tiny random weights; and what the paper states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.pruning import RandomStart, TokenMoE, TokenRun, TokenTask, figures, fine_tune
from moe_lab.pruning.recipes import run_of
from moe_lab.pruning.training import TokenTraining

pytestmark = pytest.mark.usefixtures("float64")

TINY = {
    "experts": 8,
    "neurons": 4,
    "patterns": 40,
    "tokens": 12,
    "top": 3,
    "steps": 12,
    "batch": 10,
    "test_samples": 80,
}


@pytest.fixture
def broken(monkeypatch):
    """Every training loses its second trial."""

    class Broken(TokenTraining):
        def __init__(self, run):
            super().__init__(run)
            self.learners[0].weights.routers[1] = torch.nan

    monkeypatch.setattr("moe_lab.pruning.recipes.TokenTraining", Broken)


@pytest.fixture(scope="module")
def three() -> xr.Dataset:
    return figures.figure3(trials=4, seed=14)


class TestFigure3:
    def test_axes_and_labels(self, three):
        for name in ("router_norm", "norm_change", "proficiency", "large", "router_own", "router_share", "neurons_own"):
            assert three[name].dims == ("trial", "expert")
        assert three.router_component.dims == ("expert", "pattern")
        assert three.neuron_component.dims == ("expert", "neuron", "pattern")
        assert dict(three.sizes) == {"trial": 4, "expert": 20, "pattern": 200, "neuron": 20, "role": 2}
        assert three.pattern.values[[0, 1, 2, -1]].tolist() == ["o1", "o2", "q1", "q198"]
        assert all(value.attrs["long_name"] for value in three.data_vars.values())

    def test_the_trial_shown_has_large_routers_in_both_groups(self, three):
        large = three.large.groupby("group").any()
        np.testing.assert_array_equal(three.violated, ~large.all("group"))
        np.testing.assert_array_equal(three.large, three.norm_change > 1.5 * np.log(5))
        first = int(three.trial[~three.violated.values][0])
        assert int(three.shown_trial) == first
        assert 2 <= int(three.large.sel(trial=first).sum()) <= 6

    def test_large_routers_point_at_their_pattern_and_so_do_their_neurons(self, three):
        """Lemma 4.1 and 4.2, as figures 3 (b) to (e) show them."""
        large, small = (int(three.shown.sel(role=role)) for role in ("large", "small"))
        one = three.router_component.sel(expert=large)
        assert str(one.idxmax().item()) == "o1"
        assert float(one.sel(pattern="o1")) > 1.5 * np.log(5)
        assert float(abs(one.drop_sel(pattern="o1")).max()) < 0.2
        neurons = three.neuron_component.sel(expert=large)
        assert 0.2 < float((neurons.sel(pattern="o1") > 1).mean()) < 0.8
        assert float((neurons.drop_sel(pattern="o1") > 1).mean()) == 0
        assert float(abs(three.router_component.sel(expert=small)).max()) < 0.1
        assert float((three.neuron_component.sel(expert=small) > 1).mean()) == 0
        assert (three.proficiency.where(three.large, 1) > 0.999).all()

    def test_components_are_those_of_the_trial_shown(self, three):
        norms = np.linalg.norm(three.router_component, axis=1)
        np.testing.assert_allclose(norms, three.router_norm.sel(trial=int(three.shown_trial)), rtol=1e-5)

    def test_own_components_are_those_of_the_trial_shown(self, three):
        shown, plus = three.sel(trial=int(three.shown_trial)), three.group == "+"
        router, neuron = three.router_component, three.neuron_component
        own = xr.where(plus, router.sel(pattern="o1"), router.sel(pattern="o2"))
        np.testing.assert_array_equal(shown.router_own, own)
        np.testing.assert_allclose(shown.router_share, own**2 / (router**2).sum("pattern"), rtol=1e-5)
        above = xr.where(plus, neuron.sel(pattern="o1"), neuron.sel(pattern="o2")) > 1
        np.testing.assert_allclose(shown.neurons_own, above.mean("neuron"))

    def test_figure_7_is_the_other_half_of_the_same_training(self):
        how = {"trials": 2, "seed": 3, **TINY}
        three, seven = figures.figure3(**how), figures.figure7(**how)
        for name in set(three.data_vars) - {"shown"}:
            xr.testing.assert_identical(three[name].variable, seven[name].variable)
        for data, experts in ((three, (1, 2, 3, 4)), (seven, (5, 6, 7, 8))):
            norms = data.router_norm.sel(trial=int(data.shown_trial), expert=list(experts))
            assert data.shown.values.tolist() == [int(norms.idxmax()), int(norms.idxmin())]
        assert (three.attrs["figure"], seven.attrs["figure"]) == ("figure 3", "figure 7")

    def test_the_patterns_of_another_pair_come_first_too(self):
        how = {"trials": 1, "seed": 3, **TINY, "steps": 40}
        model = TokenMoE(experts=8, neurons=4, top=3, router_learning_rate=0.01)
        task = TokenTask(patterns=40, tokens=12, pair=3)
        run = TokenRun(
            model=model, task=task, start=RandomStart(), trials=1, seed=3, steps=40, batch=10, test_samples=80
        )
        tuned = fine_tune(run)
        data = figures.figure3(**how, pair=3)
        np.testing.assert_allclose(data.router_component[:, :2], tuned.after.routers[0][:, 6:8])
        np.testing.assert_allclose(data.neuron_component[:, :, 1], tuned.after.neurons[0][:, 7])
        np.testing.assert_allclose(data.router_component[:, 2:], tuned.after.routers[0][:, [*range(6), *range(8, 40)]])

    def test_a_trial_by_its_number(self):
        how = {"trials": 2, "seed": 3, **TINY}
        data = figures.figure3(**how, trial=1)
        alone = figures.figure3(**{**how, "trials": 1}, first_trial=1)
        assert int(data.shown_trial) == int(alone.shown_trial) == 1
        xr.testing.assert_allclose(data.neuron_component, alone.neuron_component, rtol=1e-9)

    def test_a_diverged_trial_violates_nothing(self, broken):
        data = figures.figure3(trials=2, seed=3, **TINY)
        assert data.violated.values.tolist() == [True, False]
        for name in ("router_norm", "router_own", "router_share", "neurons_own"):
            assert data[name].isnull().all("expert").values.tolist() == [False, True], name

    def test_where_no_trial_has_both_the_first_is_shown(self):
        data = figures.figure3(trials=2, seed=3, **{**TINY, "steps": 1})
        assert data.violated.all()
        assert int(data.shown_trial) == 0


class TestPublished:
    def test_says_what_the_paper_says(self):
        data = figures.published()
        value = {name: float(data.value.sel(statement=name)) for name in data.statement.values}
        assert value["cifar-10/tuned/experts"] == 0.75
        assert value["cifar-10/tuned/model"] == 0.60
        assert (value["cifar-10/bare/experts"], value["cifar-10/bare/model"]) == (0.50, 0.35)
        assert (value["cifar-100/model"], value["imagenet/experts"], value["imagenet/model"]) == (0.41, 0.42, 0.35)
        assert value["e3-cifar/model"] == 0.45
        assert (value["cifar-10/operations"], value["imagenet/operations"]) == (0.40, 0.14)
        assert data.attrs["paper"] == "pruning2024"
        assert all(data.place.values)

    def test_the_synthetic_setting_is_the_one_that_figure_3_trains(self):
        run = run_of("figure3", "random", "expert-choice", trials=1, seed=0, more={})
        found = {
            "patterns": run.task.patterns,
            "tokens": run.task.tokens,
            "experts": run.model.experts,
            "top": run.model.top,
            "router-variance": run.start.router_scale**2,
            "neuron-variance": run.start.neuron_scale**2,
        }
        data = figures.published()
        for name, value in found.items():
            assert float(data.value.sel(statement=f"synthetic/{name}")) == pytest.approx(value)

    def test_functions_are_figures_and_vision_is_only_in_kind(self):
        data = figures.published()
        named = set(data.function.values) - {""}
        assert all(callable(getattr(figures, name)) for name in named)
        for statement in data.statement.values:
            one = data.sel(statement=statement)
            if str(statement).startswith(("cifar", "imagenet", "e3", "v-moe")):
                assert bool(one.in_kind) or one.function.item() == ""
