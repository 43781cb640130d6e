"""What is read off trained weights: answers to any samples, the dispatch tables 4 to 6 and figure 1."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.core.snapshots import final
from moe_lab.routers.balance import dispatch_entropy
from moe_lab.specialization import ClusterRun, ClusterTask, SingleExpert, SwitchMoE, figures, train_run
from moe_lab.specialization.embedding import RANGES, embed, regions
from moe_lab.specialization.predictions import trained


def run_of(objective: str, activation: str, **more) -> ClusterRun:
    model = SwitchMoE(activation=activation) if objective == "paper" else SwitchMoE.authors(activation=activation)
    task = ClusterTask.setting(1).replace(scale=1.0 if objective == "paper" else 10.0)
    how = {"samples": 300, "test_samples": 250, "trials": 3, "steps": 40, "seed": 5}
    return ClusterRun(model=model, task=task, **(how | more))


class TestAnswers:
    @pytest.mark.parametrize("objective", ["paper", "authors"])
    @pytest.mark.parametrize("activation", ["cubic", "linear", "relu"])
    def test_are_those_that_train_counts(self, objective, activation):
        """Test accuracy, dispatch and entropy from the answers are what the run itself measures."""
        run = run_of(objective, activation)
        last, model = final(train_run(run)), trained(run)
        test = model.samples("test")
        answers = model.predict(test, model.last_noise("test"))
        right = (torch.sign(answers.output) == test.labels).double().mean(1)
        np.testing.assert_allclose(right, last["test_accuracy"])
        counts = torch.zeros(3, 4, 8, dtype=torch.float64)
        for trial in range(3):
            for cluster, expert in zip(test.clusters[trial], answers.expert[trial], strict=True):
                counts[trial, cluster, expert] += 1
        np.testing.assert_array_equal(counts, last["dispatch"])
        np.testing.assert_allclose(dispatch_entropy(counts), last["dispatch_entropy"], atol=1e-6)
        for name, value in model.measures.items():
            np.testing.assert_allclose(value, last[name], rtol=1e-5, atol=1e-6, err_msg=name)

    def test_output_is_gate_times_expert(self):
        """F(x) = pi f, by the words of section 3.2 and nothing of the engine."""
        run = run_of("paper", "cubic", trials=1, precision="float64")
        model = trained(run)
        test = model.samples("test")
        filters, routers = model.state.experts[0], model.state.routers[0]
        answers = model.predict(test)
        for sample in range(20):
            patches = test.patches()[0, sample]
            scores = (patches @ routers.T).sum(0)
            best = int(scores.argmax())
            expert = sum(float(w @ x) ** 3 for w in filters[best] for x in patches)
            gate = float(scores.softmax(0)[best])
            assert int(answers.expert[0, sample]) == best
            assert float(answers.output[0, sample]) == pytest.approx(gate * expert, rel=1e-9)

    def test_a_later_trial_is_that_trial(self):
        many, one = trained(run_of("paper", "cubic")), trained(run_of("paper", "cubic", trials=1, first_trial=2))
        np.testing.assert_allclose(one.measures["test_accuracy"], many.measures["test_accuracy"][2:])

    def test_other_samples_of_the_same_trials(self):
        model = trained(run_of("paper", "cubic"))
        shown = model.run.task.sample(40, trials=[0, 1, 2], seed=99)
        assert model.predict(shown).output.shape == (3, 40)
        with pytest.raises(ValueError, match="drawn for the trials of the run: got trials=3, drawn=2"):
            model.predict(model.run.task.sample(40, trials=[0, 1], seed=99))

    def test_diverged_trials_measure_nan(self):
        task = ClusterTask(scale=1e6, feature=(1e3, 1e3))
        run = run_of("paper", "cubic").replace(model=SwitchMoE(initial_scale=1e6), task=task)
        assert np.isnan(trained(run).measures["test_accuracy"]).all()

    def test_a_single_expert_sends_no_samples_anywhere(self):
        with pytest.raises(ValueError, match="only a mixture sends samples to experts"):
            trained(ClusterRun(model=SingleExpert(), task=ClusterTask(scale=10.0)))


class TestDispatchTable:
    def test_counts_all_training_samples(self):
        data = figures.dispatch_table(samples=400, steps=30, seed=3)
        assert data.final_dispatch.dims == data.initial_dispatch.dims == ("cluster", "expert")
        assert float(data.final_dispatch.sum()) == float(data.initial_dispatch.sum()) == 400
        assert data.initial_dispatch.sum("expert").equals(data.final_dispatch.sum("expert"))  # the same samples
        clusters = ClusterTask.setting(1).sample(400, trials=[0], seed=3).clusters[0]
        np.testing.assert_array_equal(data.final_dispatch.sum("expert"), np.bincount(clusters))

    def test_first_step_is_decided_by_its_noise_alone(self):
        """Expert m gets the samples whose largest draw is its own: an eighth of them, whatever their cluster."""
        data = figures.dispatch_table(samples=4000, steps=1, seed=3)
        loads = data.initial_dispatch.sum("cluster")
        assert abs(loads - 500).max() < 5 * np.sqrt(500)
        noise = trained(
            ClusterRun(model=SwitchMoE(), task=ClusterTask.setting(1), samples=4000, steps=1, trials=1, seed=3)
        )
        np.testing.assert_array_equal(loads, np.bincount(noise.first_noise()[0].argmax(0), minlength=8))

    def test_values_are_those_of_the_trial(self):
        data = figures.dispatch_table("linear", 3, 3, trial=2, samples=300, steps=30)
        table = figures.table3(3, models="moe-linear", trials=3, samples=300, steps=30, seed=3)
        assert float(data.test_accuracy) == pytest.approx(float(table.test_accuracy[0, 0, 2]))
        entropy = dispatch_entropy(torch.as_tensor(data.final_dispatch.values))
        assert float(data.dispatch_entropy) == pytest.approx(float(entropy))

    @pytest.mark.parametrize(("kind", "place"), [("nonlinear", "table 4"), ("linear", "table 6")])
    @pytest.mark.parametrize("objective", ["paper", "authors"])
    def test_attrs_say_which_table_it_is(self, kind, place, objective):
        data = figures.dispatch_table(kind, 2, 4, objective, 200, steps=10)
        assert data.attrs["paper"] == f"chen2022, {place}"
        (run,) = json.loads(data.attrs["config"])
        assert run["point"] == {"setting": 2, "model": "moe-cubic" if kind == "nonlinear" else "moe-linear"}

    def test_cubic_experts_serve_one_cluster_each(self):
        """Table 4: after training every expert gets samples of one cluster or none."""
        data = figures.dispatch_table(setting=3, samples=2000, seed=31)
        assert ((data.final_dispatch > 4).sum("cluster") <= 1).all()
        assert float(data.test_accuracy) > 0.99


SMALL = {"samples": 300, "shown": 80, "steps": 30, "perplexity": 10.0, "resolution": 20}


@pytest.fixture(scope="module")
def one() -> xr.Dataset:
    return figures.tsne(seed=3, **SMALL)


class TestFigure1:
    def test_axes(self, one):
        assert one.xy.dims == ("sample", "axis")
        assert one.expert.dims == one.answer.dims == ("model", "sample")
        assert one.region.dims == ("model", "y", "x")
        assert dict(one.sizes) == {"sample": 80, "axis": 2, "model": 2, "x": 20, "y": 20}
        assert one.model.values.tolist() == ["moe-linear", "moe-cubic"]
        assert set(np.unique(one.cluster)) == {1, 2, 3, 4}
        assert set(np.unique(one.expert)) <= {1, 2, 3, 4}
        for name in ("label", "answer", "region"):
            assert set(np.unique(one[name])) <= {-1, 1}
        assert float(np.abs(one.xy).max()) == pytest.approx(1)

    def test_answers_and_experts_are_those_of_the_trained_models(self, one):
        accuracy = (one.answer == one.label).mean("sample")
        np.testing.assert_allclose(accuracy, one.test_accuracy)
        for model in one.model.values:
            counts = np.zeros((4, 4))
            here = one.sel(model=model)
            np.add.at(counts, (here.cluster.values - 1, here.expert.values - 1), 1)
            assert float(dispatch_entropy(torch.as_tensor(counts))) == pytest.approx(
                float(here.dispatch_entropy), abs=1e-6
            )

    def test_samples_and_ranges_are_the_captions(self, one):
        drawn = ClusterTask(**RANGES).sample(80, trials=[1], seed=3, split="test")
        np.testing.assert_array_equal(one.cluster, drawn.clusters[0] + 1)
        np.testing.assert_array_equal(one.label, drawn.labels[0])
        task = json.loads(one.attrs["config"])[0]["task"]
        assert (task["feature"], task["center"], task["feature_noise"]) == ([0.5, 2.0], [1.0, 2.0], [1.0, 2.0])
        assert [run["model"]["experts"] for run in json.loads(one.attrs["config"])] == [4, 4]

    def test_the_map_does_not_know_of_the_models(self, one):
        other = figures.tsne(seed=3, **{**SMALL, "steps": 1})
        assert other.xy.equals(one.xy)
        assert not other.answer.equals(one.answer)

    def test_the_map_puts_like_samples_together(self, one):
        """The nearest sample on the map is nearly always of the same cluster and label."""
        distance = np.linalg.norm(one.xy.values[:, None] - one.xy.values, axis=2)
        nearest = (distance + 9 * np.eye(80)).argmin(1)
        assert (one.cluster.values[nearest] == one.cluster.values).mean() > 0.8

    def test_authors_objective(self):
        data = figures.tsne(seed=3, objective="authors", **SMALL)
        assert json.loads(data.attrs["config"])[0]["task"]["scale"] == 10
        np.testing.assert_allclose((data.answer == data.label).mean("sample"), data.test_accuracy)


class TestPieces:
    def test_noise_is_stretched_and_order_forgotten(self, monkeypatch):
        seen = []

        class Plane:
            def __init__(self, **how):
                assert how["random_state"] == 3

            def fit_transform(self, rows):
                seen.append(rows)
                return rows[:, :2]

        monkeypatch.setattr("sklearn.manifold.TSNE", Plane)
        drawn = ClusterTask(scale=10.0).sample(30, trials=[0], seed=0, dtype=torch.float64)
        xy = embed(drawn, 3.0, 10.0, 5.0, 3)
        (rows,) = seen
        parts = rows.reshape(30, 4, 50)
        np.testing.assert_allclose(parts[:, :3], drawn.signal_patches()[0] / 10)
        np.testing.assert_allclose(parts[:, 3], 3 * drawn.noise[0, :, 0] / 10)
        assert np.abs(xy).max() == 1

    def test_regions_are_votes_of_the_nearest(self):
        xy = np.array([[-1.0, 0.0], [-0.9, 0.0], [-0.8, 0.0], [1.0, 0.0]])
        outputs = np.array([2.0, 0.1, -1.0, -3.0])
        places = np.array([-1.0, 1.0])
        np.testing.assert_array_equal(regions(xy, outputs, places, 1), [[1, -1], [1, -1]])
        np.testing.assert_array_equal(regions(xy, outputs, places, 3), [[1, -1], [1, -1]])
        turned = regions(xy[:, ::-1], outputs, places, 1)
        np.testing.assert_array_equal(turned, [[1, 1], [-1, -1]])  # rows are y
