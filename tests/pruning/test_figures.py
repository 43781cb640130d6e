"""Figures 3 to 7, 9 and 10 in this room: what they measure, what they say of themselves, and wrong questions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.pruning import BranchStart, PlantedStart, RandomStart, TokenMoE, TokenRun, TokenTask, figures, fine_tune
from moe_lab.pruning.criteria import CRITERIA, UndefinedCriterionError
from moe_lab.pruning.initialization import important_experts
from moe_lab.pruning.recipes import RECIPES, recipe_of, run_of
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
START = PlantedStart(favourites=4)
SMALL = {"trials": 3, "seed": 5, "fine_tuning_steps": 4, **TINY}


def run_small(routing: str = "expert-choice", **more) -> TokenRun:
    """The run behind `SMALL`, made without the recipes."""
    model = TokenMoE(experts=8, neurons=4, top=3, routing=routing)
    task = TokenTask(patterns=40, tokens=12)
    how = {"trials": 3, "seed": 5, "steps": 12, "batch": 10, "test_samples": 80, "measure": "last", "start": START}
    return TokenRun(model=model, task=task, **{**how, **more})


@pytest.fixture(scope="module")
def small() -> xr.Dataset:
    return figures.criteria(START, rho=(0.5, 0.25), **SMALL)


@pytest.fixture(scope="module")
def planted() -> xr.Dataset:
    """The live default, on a seed that no setting was chosen on."""
    return figures.criteria(trials=6, seed=14)


@pytest.fixture
def broken(monkeypatch):
    """Every training loses its second trial."""

    class Broken(TokenTraining):
        def __init__(self, run):
            super().__init__(run)
            self.learners[0].weights.routers[1] = torch.nan

    monkeypatch.setattr("moe_lab.pruning.recipes.TokenTraining", Broken)


class TestRecipes:
    def test_the_live_default_is_what_run_has_by_default(self):
        run = run_of("criteria", "planted", "expert-choice", trials=8, seed=0, more={})
        assert run == TokenRun(model=TokenMoE(), task=TokenTask(), measure="last")

    def test_all_of_them_can_be_run(self):
        for start, routing in RECIPES:
            run = run_of("criteria", start, routing, trials=1, seed=0, more={})
            assert (run.start.name, run.model.routing) == (start, routing)
            assert (run.task.patterns, run.task.tokens, run.model.experts) == (200, 100, 20)
        assert {run_of("f", "random", r, trials=1, seed=0, more={}).model.top for r in ("expert-choice",)} == {5}

    def test_a_parameter_goes_to_the_config_that_has_it(self):
        more = {"experts": 40, "zipf": 0.5, "steps": 7, "router_learning_rate": 0.02}
        run = run_of("criteria", "random", "expert-choice", trials=2, seed=3, more=more)
        assert (run.model.experts, run.task.zipf, run.steps, run.model.router_learning_rate) == (40, 0.5, 7, 0.02)
        assert run.batch == 100  # the recipe's

    def test_a_start_of_ones_own_keeps_the_recipe_of_its_kind(self):
        mine = RandomStart(router_scale=1e-3)
        assert recipe_of(mine, "expert-choice").settings == RECIPES["random", "expert-choice"].settings
        assert recipe_of(mine, "expert-choice").start is mine

    def test_no_parameter_is_in_two_configs(self):
        """Else a name would not say whose it is."""
        kinds = [set(TokenMoE.model_fields), set(TokenTask.model_fields), set(TokenRun.model_fields)]
        assert sum(len(kind) for kind in kinds) == len(set.union(*kinds))


class TestCriteria:
    def test_axes_and_labels(self, small):
        assert small.test_accuracy.dims == ("criterion", "rho", "fine_tuned", "trial")
        assert small.kept.dims == ("criterion", "rho", "trial", "expert")
        assert small.unpruned_accuracy.dims == ("trial",)
        assert small.norm_change.dims == small.important.dims == ("trial", "expert")
        assert small.criterion.values.tolist() == [
            "router-norm-change",
            "random",
            "importance-score",
            "router-magnitude",
            "neuron-magnitude",
            "neuron-magnitude-change",
        ]
        assert small.rho.values.tolist() == [0.5, 0.25]
        assert small.fine_tuned.values.tolist() == [False, True]
        assert small.expert.values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert "".join(small.group.values) == "++++----"
        assert small.kept.dtype == small.important.dtype == bool
        assert "right sign" in small.test_accuracy.attrs["long_name"]
        assert all(value.attrs["long_name"] for value in small.data_vars.values())

    @pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])
    def test_every_number_is_that_of_the_checkpoints(self, routing):
        """No figure has a training or a pruning of its own."""
        names = tuple(name for name in CRITERIA if routing == "token-choice" or name != "token-count")
        data = figures.criteria(START, routing, (0.25, 0.5), criteria=names, **SMALL)
        tuned = fine_tune(run_small(routing))
        for steps, flag in ((0, False), (4, True)):
            expected = tuned.accuracies(names, (0.25, 0.5), steps)
            np.testing.assert_allclose(data.test_accuracy.sel(fine_tuned=flag), expected)
        for name in names:
            np.testing.assert_array_equal(data.kept.sel(criterion=name, rho=0.5), tuned.kept(name, 0.5))
        np.testing.assert_allclose(data.norm_change, tuned.scores("router-norm-change"), atol=1e-6)
        np.testing.assert_allclose(data.unpruned_accuracy, tuned.evaluation.accuracy())
        np.testing.assert_array_equal(data.important, important_experts(START, 8, [0, 1, 2], 5))

    def test_what_remains_is_what_the_smaller_layer_holds(self, small):
        assert small.experts_kept.values.tolist() == [4, 6]
        each = 40 * (1 + 4)  # a router and four neurons
        assert small.parameters.values.tolist() == [4 * each, 6 * each]
        np.testing.assert_allclose(small.remaining_share, [0.5, 0.75])
        np.testing.assert_array_equal(small.kept.sum("expert"), np.broadcast_to([[[4], [6]]], (6, 2, 3)))

    def test_where_tokens_choose_the_routers_remain(self):
        data = figures.criteria(START, "token-choice", 0.5, criteria="random", **SMALL)
        assert data.parameters.item() == 8 * 40 + 4 * 40 * 4

    def test_attrs_make_it_again(self, small):
        assert small.attrs["figure"] == "figure 5"
        assert small.attrs["paper"] == "pruning2024, figure 5"
        assert (small.attrs["seed"], small.attrs["device"], small.attrs["fine_tuning_steps"]) == (5, "cpu", 4)
        (config,) = json.loads(small.attrs["config"])
        assert (config["start"]["kind"], config["start"]["favourites"]) == ("PlantedStart", 4)
        assert (config["model"]["experts"], config["task"]["patterns"], config["steps"]) == (8, 40, 12)
        assert "criteria=" not in small.attrs["call"]

    @pytest.mark.parametrize("start", ["random", BranchStart(tasks=2, steps=5, batch=5)])
    @pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])
    def test_other_starts(self, start, routing):
        how = {**TINY, "top": 2, "first_trial": 4, "precision": "float64"}
        data = figures.criteria(start, routing, 0.5, 2, 3, ("random", "router-difference-norm"), 2, **how)
        assert "important" not in data
        assert data.trial.values.tolist() == [4, 5]
        assert data.test_accuracy.notnull().all()

    def test_without_fine_tuning_there_is_one_half_only(self, small):
        bare = figures.criteria(START, rho=(0.5, 0.25), **{**SMALL, "fine_tuning_steps": 0})
        assert bare.fine_tuned.values.tolist() == [False]
        assert bare.test_accuracy.equals(small.test_accuracy.isel(fine_tuned=[0]))

    def test_criteria_that_agree_share_one_fine_tuning(self, monkeypatch):
        counted = []
        whole = figures.FineTuned.accuracy

        def accuracy(self, kept, steps=0):
            counted.append(steps)
            return whole(self, kept, steps)

        monkeypatch.setattr(figures.FineTuned, "accuracy", accuracy)
        names = ("router-norm-change", "router-difference-norm", "random")
        data = figures.criteria(START, "token-choice", (0.0, 0.5), criteria=names, **SMALL)
        different = len({one.tobytes() for several in data.kept.values for one in several})
        assert different < 6
        assert sorted(counted) == [0] * different + [4] * different

    def test_diverged_trials_are_nan(self, small, broken):
        data = figures.criteria(START, rho=(0.5, 0.25), **SMALL)
        assert data.unpruned_accuracy.isnull().values.tolist() == [False, True, False]
        assert data.test_accuracy.sel(trial=1).isnull().all()
        assert data.norm_change.sel(trial=1).isnull().all()
        xr.testing.assert_allclose(data.test_accuracy.sel(trial=[0, 2]), small.test_accuracy.sel(trial=[0, 2]))


class TestWhatTheyShow:
    def test_the_change_of_norm_keeps_those_that_matter(self, planted):
        """What the room must reach, without fine-tuning, on a seed of the test's own."""
        bare = planted.test_accuracy.sel(fine_tuned=False)
        assert (bare.sel(criterion="router-norm-change") >= 0.99).all()
        assert bare.sel(criterion="importance-score", rho=0.9).mean() <= 0.6
        assert bare.sel(criterion="router-magnitude", rho=0.5).mean() <= 0.9
        assert bare.sel(criterion="neuron-magnitude", rho=0.9).mean() <= 0.6
        assert bare.sel(criterion="random", rho=0.9).mean() < 0.95
        assert (bare.sel(criterion="neuron-magnitude-change") >= 0.99).all()  # never beaten here, and said so

    def test_important_experts_are_those_whose_routers_grew(self, planted):
        change = planted.norm_change
        assert change.where(planted.important).min() > 1.5 * np.log(5)
        assert change.where(~planted.important).max() < 0.1
        assert planted.important.sum("expert").values.tolist() == [4] * 6

    def test_important_ones_are_kept_as_long_as_there_is_room(self, planted):
        kept = planted.kept.sel(criterion="router-norm-change")
        assert kept.where(planted.important, True).sel(rho=[0.3, 0.5]).all()
        assert kept.sel(rho=0.9).where(~planted.important, False).sum() == 0

    def test_where_tokens_choose_it_is_the_same(self):
        data = figures.criteria(routing="token-choice", rho=(0.5, 0.9), trials=3, seed=14, fine_tuning_steps=0)
        assert (data.test_accuracy.sel(criterion="router-norm-change") >= 0.99).all()
        assert data.test_accuracy.sel(criterion="importance-score", rho=0.9).mean() <= 0.6
        assert data.test_accuracy.sel(criterion="router-magnitude", rho=0.9).mean() <= 0.6

    def test_from_random_weights_change_is_magnitude(self):
        """Routers begin at almost nothing, so that these criteria cannot be told apart."""
        names = ("router-norm-change", "router-magnitude", "router-difference-norm")
        data = figures.criteria("random", trials=2, seed=14, criteria=names, fine_tuning_steps=0, rho=(0.5, 0.8))
        for name in names[1:]:
            same = (data.kept.sel(criterion=name) == data.kept.sel(criterion=names[0])).mean("expert")
            assert (same >= 0.8).all()
            here, there = (data.test_accuracy.sel(criterion=one) for one in (name, names[0]))
            np.testing.assert_allclose(here, there, atol=0.02)


class TestAskedWrongly:
    def test_undefined_is_an_error_of_its_own_and_the_rest_can_be_had(self):
        with pytest.raises(UndefinedCriterionError):
            figures.criteria(top=1)
        with pytest.raises(UndefinedCriterionError, match=r"^token counts are .* got routing='expert-choice'$"):
            figures.criteria(criteria="token-count")
        names = ("random", "importance-score", "router-magnitude")
        data = figures.criteria(START, criteria=names, rho=0.5, **{**SMALL, "top": 1})
        assert data.test_accuracy.notnull().all()
        assert (data.norm_change == 0).all()
