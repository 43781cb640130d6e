"""Tables 1 and 3 to 9 and figures 3 to 5: what they measure, what they say of themselves, and wrong questions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.core import trials
from moe_lab.core.snapshots import collect, final
from moe_lab.specialization import ClusterTask, SingleExpert, SwitchMoE, figures, train, train_run
from moe_lab.specialization.recipes import ALL, LINEAR_START, ClusterFigure, model_of, task_of
from tests.helpers.effort import only_thorough

pytestmark = pytest.mark.usefixtures("float64")

SMALL = {"trials": 2, "samples": 200, "steps": 20}
MIXTURES = ("moe-cubic", "moe-linear")


@pytest.fixture(scope="module")
def three() -> xr.Dataset:
    return figures.table3(settings=(3, 1), **SMALL, seed=7)


class TestRecipes:
    def test_names_are_models(self):
        assert model_of("moe-cubic", "paper") == SwitchMoE()
        assert model_of("moe-tanh", "authors") == SwitchMoE.authors(activation="tanh")
        assert model_of("single-linear", "paper") == SingleExpert(filters=128, activation="linear")
        assert model_of("single-linear", "authors").biases
        assert model_of("single-cubic-512", "authors") == SingleExpert(filters=512, activation="cubic")

    def test_the_scale_of_the_data_belongs_to_the_step_sizes(self):
        cubic, single = SwitchMoE(), SingleExpert()
        assert task_of(2, cubic, "paper") == ClusterTask.setting(2)
        assert task_of(2, cubic, "authors") == ClusterTask.setting(2).replace(scale=10.0, one_data_set=True)
        assert task_of(2, single, "paper") == ClusterTask.setting(2).replace(scale=10.0)
        assert task_of(2, single, "authors") == ClusterTask.setting(2).replace(scale=10.0, one_data_set=True)

    @pytest.mark.parametrize(
        ("name", "objective", "steps"),
        [
            ("moe-cubic", "paper", 300),
            ("moe-linear", "paper", 300),
            ("moe-cubic", "authors", 500),
            ("moe-linear", "authors", 500),
            ("single-cubic", "paper", 500),
        ],
    )
    def test_steps(self, name, objective, steps):
        assert model_of(name, objective).steps == steps

    def test_the_runs_of_a_table_are_those_recipes(self):
        """At the sizes of the paper, which are not trained here."""
        figure = ClusterFigure("table 3", 10, 0, {})
        runs = {point["model"]: run for point, run in figure.runs({"setting": [4], "model": ALL}, {})}
        assert [runs[name].last_step for name in ALL] == [300, 300, 500, 500]
        assert {(run.samples, run.test_samples, run.trials, run.measure) for run in runs.values()} == {
            (16000, 16000, 10, "last")
        }
        assert runs["moe-linear"].model == SwitchMoE(activation="linear", initial_scale=LINEAR_START)
        assert runs["moe-linear"].task == ClusterTask.setting(4)


class TestTable3:
    def test_axes_and_labels(self, three):
        assert three.test_accuracy.dims == ("setting", "model", "trial")
        assert three.dispatch_entropy.dims == ("setting", "model", "trial")
        assert three.dispatch.dims == ("setting", "model", "trial", "cluster", "expert")
        assert three.expert_load.dims == ("setting", "model", "trial", "expert")
        assert three.expert_accuracy.dims == ("setting", "model", "trial", "expert", "cluster")
        assert three.setting.values.tolist() == [3, 1]
        assert three.model.values.tolist() == list(ALL)
        assert three.expert.values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert three.cluster.values.tolist() == [1, 2, 3, 4]
        assert "right label" in three.test_accuracy.attrs["long_name"]
        assert three.dispatch_entropy.attrs["units"] == "nats"

    def test_single_experts_dispatch_nothing(self, three):
        single = three.sel(model=["single-cubic", "single-linear"])
        assert single.test_accuracy.notnull().all()
        assert single.train_accuracy.notnull().all()
        for name in ("dispatch_entropy", "dispatch", "expert_load", "expert_accuracy"):
            assert single[name].isnull().all()
            assert three[name].sel(model=list(MIXTURES)).notnull().all()

    def test_every_test_sample_is_dispatched(self, three):
        assert (three.dispatch.sel(model=list(MIXTURES)).sum(("cluster", "expert")) == 200).all()

    @pytest.mark.parametrize(("name", "setting"), list(zip(ALL, (1, 3, 3, 1), strict=True)))
    def test_a_cell_is_what_train_gives(self, three, name, setting):
        """No figure has a training of its own."""
        model = model_of(name, "paper")
        task = ClusterTask.setting(setting).replace(scale=10.0 if name.startswith("single") else 1.0)
        alone = final(train(model, task, **SMALL, seed=7, test_samples=200, measure="last"))
        there = three.sel(setting=setting, model=name)
        np.testing.assert_array_equal(alone["test_accuracy"], there.test_accuracy)
        np.testing.assert_array_equal(alone["train_accuracy"], there.train_accuracy)
        if name in MIXTURES:
            np.testing.assert_array_equal(alone["dispatch_entropy"], there.dispatch_entropy)
            np.testing.assert_array_equal(alone["dispatch"], there.dispatch)

    def test_the_authors_objective_is_what_train_gives(self):
        data = figures.table3(1, objective="authors", models="moe-linear", **SMALL, seed=7)
        task = ClusterTask.setting(1).replace(scale=10.0, one_data_set=True)
        model = SwitchMoE.authors(activation="linear")
        alone = final(train(model, task, **SMALL, seed=7, test_samples=200, measure="last"))
        np.testing.assert_array_equal(alone["test_accuracy"], data.test_accuracy[0, 0])
        np.testing.assert_array_equal(alone["dispatch_entropy"], data.dispatch_entropy[0, 0])

    def test_attrs_make_it_again(self, three):
        assert three.attrs["figure"] == "table 3"
        assert three.attrs["paper"] == "chen2022, table 3"
        assert (three.attrs["seed"], three.attrs["device"], three.attrs["objective"]) == (7, "cpu", "paper")
        runs = json.loads(three.attrs["config"])
        assert [run["point"] for run in runs[:2]] == [
            {"setting": 3, "model": "moe-cubic"},
            {"setting": 3, "model": "moe-linear"},
        ]
        assert runs[0]["model"]["kind"] == "SwitchMoE"
        assert (runs[0]["steps"], runs[0]["samples"], runs[0]["test_samples"]) == (20, 200, 200)
        assert runs[4]["task"]["feature_noise"] == [0.5, 3.0]

    def test_one_model_and_one_setting(self, three):
        one = figures.table3(3, models="single-linear", **SMALL, seed=7)
        assert dict(one.test_accuracy.sizes) == {"setting": 1, "model": 1, "trial": 2}
        np.testing.assert_array_equal(
            one.test_accuracy[0, 0], three.test_accuracy.sel(setting=3, model="single-linear")
        )

    @pytest.mark.parametrize("figure", [figures.table3, figures.load_balancing])
    def test_all_trials_may_share_a_data_set(self, figure):
        how = {"trials": 1, "samples": 50, "steps": 1}
        made = (figure(3, one_data_set=together, **how).attrs["config"] for together in (True, False))
        shared, own = (json.loads(config)[0] for config in made)
        assert (shared["task"]["one_data_set"], own["task"]["one_data_set"]) == (True, False)

    def test_more_filters_are_another_model(self):
        names = ("single-linear", "single-linear-512")
        data = figures.table3(3, models=names, **SMALL)
        sizes = [run["model"]["filters"] for run in json.loads(data.attrs["config"])]
        assert sizes == [128, 512]

    def test_goes_on_from_a_store(self, three, tmp_path, monkeypatch):
        part = figures.table3(settings=(3, 1), models=MIXTURES, **SMALL, seed=7, store=tmp_path)
        trained = []

        def counted(run):
            trained.append(run.model.name)
            return train_run(run)

        monkeypatch.setattr("moe_lab.specialization.recipes.train_run", counted)
        whole = figures.table3(settings=(3, 1), **SMALL, seed=7, store=tmp_path)
        assert trained == ["single"] * 4  # the mixtures were there already
        assert whole.identical(three)
        assert whole.sel(model=list(MIXTURES)).test_accuracy.identical(part.test_accuracy)
        figures.table3(settings=(3,), models=MIXTURES, trials=2, samples=201, steps=20, seed=7, store=tmp_path)
        assert trained == ["single"] * 4 + ["moe"] * 2  # other samples are another result

    @only_thorough("starts processes, as tests/core/test_sweep.py does")
    def test_processes_share_the_work(self):
        how = {**SMALL, "settings": (3, 1), "seed": 7, "precision": "float64"}  # a process does not know of `float64`
        assert figures.table3(**how, jobs=2).identical(figures.table3(**how))

    @pytest.mark.parametrize("every", [None, 5])
    def test_diverged_trials_are_nan(self, every, monkeypatch):
        monkeypatch.setattr(trials, "choose_dtype", lambda *_: torch.float32)  # which overflows
        wild = {"task": {"scale": 1e6, "feature": (1e3, 1e3)}, "moe-cubic": {"initial_scale": 1e6}}
        figure = ClusterFigure("table 3", 2, 0, {"steps": 20}, "paper", 50, every)
        names = ("test_accuracy", "dispatch_entropy", "dispatch")
        data = figure.fill({"setting": [1], "model": list(MIXTURES)}, names, wild)
        last = data if every is None else data.isel(step=-1)
        for name in names:
            assert last[name].sel(model="moe-cubic").isnull().all()
            assert last[name].sel(model="moe-linear").notnull().all()

    def test_cubic_experts_divide_the_clusters_and_linear_ones_do_not(self):
        """The science of the room, at a tenth of the paper's samples and a seed that no setting was chosen on."""
        data = figures.table3(3, models=MIXTURES, trials=3, samples=1600, seed=31)
        median = data.median("trial").sel(setting=3)
        assert median.test_accuracy.sel(model="moe-cubic") > 0.99
        assert median.dispatch_entropy.sel(model="moe-cubic") < 0.1
        assert median.dispatch_entropy.sel(model="moe-linear") > 0.5
        assert median.test_accuracy.sel(model="moe-cubic") > median.test_accuracy.sel(model="moe-linear")


class TestOtherTables:
    def test_table_1_is_the_first_half_of_table_3(self):
        one = figures.table1(models=MIXTURES, **SMALL, seed=7)
        three = figures.table3(models=MIXTURES, **SMALL, seed=7)
        xr.testing.assert_equal(one, three.sel(setting=[1, 2]))
        assert one.attrs["paper"] == "chen2022, table 1"

    def test_single_experts_by_activation(self, three):
        data = figures.single_experts((1, 3), ("linear", "cubic", "gelu"), **SMALL, seed=7)
        assert data.test_accuracy.dims == ("setting", "activation", "trial")
        assert data.activation.values.tolist() == ["linear", "cubic", "gelu"]
        there = three.test_accuracy.sel(setting=[1, 3], model=["single-linear", "single-cubic"])
        np.testing.assert_array_equal(data.test_accuracy.sel(activation=["linear", "cubic"]), there)

    def test_cubic_experts_need_biases(self):
        """Without one, sigma(<w, a v>) = a^3 sigma(<w, v>): gamma^3 drowns alpha^3 where gamma reaches 3."""
        found = [
            float(figures.single_experts(1, "cubic", 1, 5, 4000, biases=biases, steps=300).test_accuracy.mean())
            for biases in (False, True)
        ]
        assert found[0] < 0.57
        assert found[1] > 0.62

    def test_the_bound_holds_only_where_alpha_and_gamma_are_drawn_alike(self):
        data = figures.single_experts((1, 3), "linear", **SMALL)
        np.testing.assert_array_equal(data.optimum, [np.nan, 0.875])
        caption = figures.single_experts(1, "linear", feature=(1, 2), feature_noise=(1, 2), **SMALL)
        assert caption.optimum.item() == 0.875
        assert json.loads(caption.attrs["config"])[0]["task"]["feature"] == [1.0, 2.0]

    @pytest.mark.parametrize(("settings", "place"), [(3, "table 7"), ((1, 2), "table 8"), ((1, 3), "tables 7 and 8")])
    def test_place_of_single_experts(self, settings, place):
        assert figures.single_experts(settings, "linear", trials=1, samples=50, steps=1).attrs["figure"] == place

    def test_load_balancing_is_for_linear_experts_alone(self):
        plain = figures.table3(1, models=MIXTURES, **SMALL)
        data = figures.load_balancing(1, strength=0.5, **SMALL)
        assert data.model.values.tolist() == ["moe-linear", "moe-cubic"]
        assert data.test_accuracy.sel(model="moe-cubic").equals(plain.test_accuracy.sel(model="moe-cubic"))
        assert not data.expert_load.sel(model="moe-linear").equals(plain.expert_load.sel(model="moe-linear"))
        weights = {run["point"]["model"]: run["model"]["load_balancing"] for run in json.loads(data.attrs["config"])}
        assert weights == {"moe-linear": 0.5, "moe-cubic": 0.0}
        none = figures.load_balancing(1, strength=0.0, **SMALL)
        assert none.test_accuracy.sel(model="moe-linear").equals(plain.test_accuracy.sel(model="moe-linear"))


class TestThroughTime:
    def test_entropy_is_that_of_every_snapshot(self):
        data = figures.entropy_through_time((1, 3), **SMALL, seed=7, every=6)
        assert data.dispatch_entropy.dims == ("setting", "model", "step", "trial")
        assert data.step.values.tolist() == [0, 6, 12, 18, 20]
        alone = collect(train(SwitchMoE(), ClusterTask.setting(3), **SMALL, seed=7, test_samples=200, record_every=6))
        there = data.sel(setting=3, model="moe-cubic")
        np.testing.assert_array_equal(there.dispatch_entropy, alone.dispatch_entropy)
        np.testing.assert_array_equal(there.test_accuracy, alone.test_accuracy)
        np.testing.assert_allclose(data.dispatch_entropy.sel(step=0), np.log(4), atol=0.05)
        assert data.attrs["paper"] == "chen2022, figure 3"

    def test_all_lines_are_as_long(self):
        figure = figures.entropy_through_time(1, trials=1, samples=50, every=150)
        assert figure.step.values.tolist() == [0, 150, 300]
        assert figure.dispatch_entropy.notnull().all()

    def test_a_trial_that_the_authors_stop_stays_as_it_is(self):
        """Their runs end early; the curve goes on level."""
        data = figures.entropy_through_time(3, 2, 7, "authors", 100, "moe-cubic", every=20, steps=900)
        curve = data.dispatch_entropy[0, 0]
        assert curve.sizes["step"] == 46
        assert curve.notnull().all()

    def test_inner_products_are_those_of_train(self):
        data = figures.inner_products("cubic", 1, **SMALL, seed=7, every=10)
        assert data.expert_feature.dims == ("step", "trial", "expert", "cluster")
        assert set(data.data_vars) == {"expert_feature", "expert_center", "router_feature", "router_center"}
        alone = collect(train(SwitchMoE(), ClusterTask.setting(1), **SMALL, seed=7, test_samples=200, record_every=10))
        for name in data.data_vars:
            np.testing.assert_array_equal(data[name], alone[name])
        assert (data.router_center.sel(step=0) == 0).all()

    @pytest.mark.parametrize(
        ("activation", "place"),
        [("cubic", "figure 4"), ("linear", "figure 5"), ("relu", "figures 4 and 5, another activation")],
    )
    def test_place_of_inner_products(self, activation, place):
        data = figures.inner_products(activation, trials=1, samples=50, steps=2)
        assert data.attrs["figure"] == place

    def test_curves_go_on_from_a_store(self, tmp_path, monkeypatch):
        how = {"trials": 1, "samples": 50, "steps": 4, "store": tmp_path}
        first = figures.inner_products("linear", **how)
        monkeypatch.setattr("moe_lab.specialization.recipes.train_run", None)
        assert figures.inner_products("linear", **how).identical(first)
