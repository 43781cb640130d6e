"""Figures 4 to 9: what they measure, what they say of themselves, and every way of asking them wrongly."""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import final
from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatchRun, PatternTask, SeparateMoE, figures, train

pytestmark = pytest.mark.usefixtures("float64")

SMALL = {"samples": (40, 60), "trials": 2, "test_samples": 200, "epochs": 10}


@pytest.fixture(scope="module")
def four() -> xr.Dataset:
    return figures.sample_complexity(samples=(60, 100), trials=10, seed=101)


@pytest.fixture(scope="module")
def small() -> xr.Dataset:
    return figures.sample_complexity(**SMALL, seed=4)


class TestSampleComplexity:
    def test_joint_needs_far_fewer_samples_than_the_cnn(self, four):
        """The science of the room on the embedded digits: 10 trials, a seed that no setting was chosen on."""
        mean = four.test_accuracy.mean("trial").sel(samples=100)
        assert mean.sel(model="joint") >= 0.96
        assert mean.sel(model="cnn") <= 0.91
        assert mean.sel(model="joint") > mean.sel(model="separate") > mean.sel(model="cnn")
        assert (four.test_accuracy.sel(model="joint", samples=100) > 0.9).all()

    def test_more_samples_help(self, four):
        mean = four.test_accuracy.mean("trial")
        assert (mean.sel(samples=100) > mean.sel(samples=60)).all()

    def test_axes_units_and_meaning(self, four):
        assert four.test_accuracy.dims == ("model", "samples", "trial")
        assert four.coverage.dims == ("model", "samples", "trial", "class")
        assert four.model.values.tolist() == ["joint", "separate", "cnn"]
        assert four.samples.values.tolist() == [60, 100]
        assert "right label" in four.test_accuracy.attrs["long_name"]
        assert four.samples.attrs["long_name"] == "N, training samples"

    def test_only_models_with_routers_have_coverage(self, four):
        assert four.coverage.sel(model="cnn").isnull().all()
        assert four.coverage.sel(model=["joint", "separate"]).notnull().all()
        assert four.coverage.sel(model="joint", samples=100).mean() > 0.95

    def test_a_cell_is_what_train_gives(self, four):
        """No figure has a training of its own."""
        how = {"batch_size": 2, "learning_rate": 8.0}
        for model in (JointMoE(**how), SeparateMoE(patches_per_expert=2, **how), CNN(**how)):
            alone = final(train(model, DigitTask(), samples=60, trials=3, seed=101, measure="last"))
            there = four.test_accuracy.sel(model=model.name, samples=60)[:3]
            np.testing.assert_array_equal(alone["test_accuracy"], there)

    def test_attrs_say_what_was_trained(self, small):
        data = small
        assert (data.attrs["figure"], data.attrs["seed"], data.attrs["device"]) == ("figure 4", 4, "cpu")
        assert data.attrs["paper"] == "pmoe2023, figure 4"
        config = json.loads(data.attrs["config"])
        assert config["models"]["joint"] == {
            "name": "JointMoE",
            **JointMoE(batch_size=2, learning_rate=8.0).model_dump(),
        }
        assert config["settings"] == {"test_samples": 200, "epochs": 10}

    def test_trials_and_sizes_do_not_depend_on_their_company(self):
        how = {**SMALL, "seed": 4, "precision": "float64"}
        few = figures.sample_complexity(**{**how, "samples": (40,)})
        many = figures.sample_complexity(**{**how, "samples": (60, 40), "trials": 3})
        part = many.test_accuracy.sel(samples=[40]).isel(trial=slice(2))
        np.testing.assert_array_equal(few.test_accuracy, part)

    def test_other_models_task_and_training(self):
        task = PatternTask(patches=8, distractors=1)
        models = {"joint": JointMoE(experts=4, patches_per_expert=3), "cnn": CNN()}
        data = figures.sample_complexity(task=task, models=models, batch_size=10, learning_rate=3.0, **SMALL)
        assert data.model.values.tolist() == ["joint", "cnn"]
        config = json.loads(data.attrs["config"])
        assert data.attrs["source"] == "patterns"
        assert config["task"]["patches"] == 8
        assert (config["models"]["joint"]["experts"], config["models"]["joint"]["learning_rate"]) == (4, 3.0)

    def test_patterns_put_joint_first(self):
        data = figures.sample_complexity("patterns", samples=(100,), trials=5, seed=3)
        mean = data.test_accuracy.mean(("trial", "samples"))
        assert mean.sel(model="joint") > 0.9
        assert mean.sel(model="joint") > mean.sel(model="cnn") + 0.05

    def test_goes_on_from_a_store(self, small, tmp_path):
        first = figures.sample_complexity(**SMALL, seed=4, store=tmp_path)
        assert first.identical(small)
        files = sorted(tmp_path.rglob("*"))
        before = [file.stat().st_mtime_ns for file in files if file.is_file()]
        assert len(before) >= 6
        assert figures.sample_complexity(**SMALL, seed=4, store=tmp_path).identical(first)
        assert [file.stat().st_mtime_ns for file in sorted(tmp_path.rglob("*")) if file.is_file()] == before

    @pytest.mark.slow
    def test_mnist_from_files(self, shared_data):
        """Ten thousand real digits, in small batches to be quick: both mixtures above the CNN at N=100."""
        root = shared_data / "mnist-t10k"
        data = figures.sample_complexity("mnist", samples=(100,), trials=3, seed=1, root=root, batch_size=2)
        mean = data.test_accuracy.mean(("trial", "samples"))
        assert mean.sel(model="joint") > 0.89
        assert mean.sel(model="separate") > 0.86
        assert mean.sel(model="cnn") < mean.sel(model=["joint", "separate"]).min() - 0.03
        assert str(root) in data.attrs["call"]


class TestAskedWrongly:
    def test_files_that_are_not_there(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=str(tmp_path)):
            figures.sample_complexity("mnist", root=tmp_path, **SMALL)

    def test_a_wrong_model_is_a_config_error(self):
        with pytest.raises(ConfigError, match="divisible"):
            figures.sample_complexity(models={"joint": JointMoE().replace(experts=3)})


class TestOtherFigures:
    def test_more_experts_help_joint_training(self):
        data = figures.accuracy_by_experts(experts=(1, 8), samples=(100,), trials=20, seed=11)
        assert data.test_accuracy.dims == ("samples", "experts", "trial")
        one, eight = data.test_accuracy.mean("trial").sel(samples=100).values
        assert eight > one + 0.01

    def test_joint_training_cannot_route_with_one_patch(self):
        """At l=1 the gate is 1 whatever the router: no gradient, no learning to route."""
        data = figures.accuracy_by_patches(patches_per_expert=(1, 6), samples=(100,), trials=3, seed=11, epochs=12)
        assert data.test_accuracy.dims == ("samples", "patches_per_expert", "trial")
        one, six = data.test_accuracy.mean("trial").sel(samples=100).values
        assert six > one + 0.15
        coverage = data.coverage.mean(("trial", "class")).sel(samples=100).values
        assert coverage[1] > coverage[0] + 0.2

    def test_separate_routers_find_o_with_more_patches_and_more_samples(self):
        data = figures.separate_routers(patches_per_expert=(1, 2, 4), samples=(20, 100, 300), trials=5, seed=11)
        assert data.coverage.dims == ("patches_per_expert", "samples", "trial", "class")
        assert (data.coverage.diff("patches_per_expert") >= 0).all()  # the top 2 contain the top 1
        mean = data.coverage.mean("trial")
        assert (mean.sel(samples=300) > mean.sel(samples=20)).all()
        assert (mean.sel(samples=300, patches_per_expert=4) > 0.9).all()

    def test_frozen_routers_do_not_care_how_long_experts_train(self):
        how = {"patches_per_expert": (2,), "samples": (60,), "trials": 2, "seed": 3}
        short, long = figures.separate_routers(**how), figures.separate_routers(**how, epochs=20)
        np.testing.assert_array_equal(short.coverage, long.coverage)

    def test_joint_routers_give_o_the_largest_gate(self):
        data = figures.joint_routers(samples=(20, 300), trials=3, seed=11)
        assert data.largest_gate.dims == ("samples", "trial", "class")
        assert (data.largest_gate <= data.coverage).all()  # what has the largest gate was received
        assert (data.largest_gate.sel(samples=300).mean("trial") > 0.9).all()

    def test_figure_5_is_here_too(self):
        data = figures.phase_map(patches_per_expert=(2,), samples=(60, 500), trials=3, seed=1)
        assert data.success.dims == ("patches_per_expert", "samples", "trial")
        assert isinstance(figures.phase_map_stream(samples=(60,), trials=1), types.GeneratorType)

    def test_shared_settings_fit_every_model(self):
        """One recipe a source: what the docstring of the module promises."""
        for source, recipe in figures.RECIPES.items():
            task = DigitTask(source="mnist", root=Path(".")) if source == "mnist" else None
            how = {"batch_size": recipe.batch_size, "learning_rate": recipe.learning_rate}
            models = (JointMoE(**how), SeparateMoE(patches_per_expert=recipe.separate_patches, **how), CNN(**how))
            runs = [PatchRun(model=model, task=task or DigitTask(), samples=100) for model in models]
            assert {(run.model.batch_size, run.model.learning_rate) for run in runs} == {tuple(how.values())}


def curves(*rows: list[list[float]]) -> xr.Dataset:
    """test_accuracy(model, samples, trial) by hand; N = 100, 200, 300."""
    values = ("model", "samples", "trial"), np.array(rows, dtype=float)
    return xr.Dataset({"test_accuracy": values}, coords={"samples": [100, 200, 300]})


class TestReadOff:
    def test_samples_needed_counts_trials_from_there_on(self):
        data = curves(
            [[0.96, 0.96], [0.96, 0.94], [0.96, 0.97]],  # good, then not, then good: from 300 on
            [[0.95, 0.95], [0.96, 0.95], [0.99, 0.95]],
            [[0.9, 0.9], [0.9, 0.9], [0.9, 0.9]],
            [[0.99, 0.99], [0.99, 0.99], [np.nan, 0.99]],  # a diverged training failed
        )
        np.testing.assert_array_equal(figures.samples_needed(data), [300, 100, np.nan, np.nan])
        np.testing.assert_array_equal(figures.samples_needed(data, share=0.5), [100, 100, np.nan, 100])
        np.testing.assert_array_equal(figures.samples_needed(data, accuracy=0.9), [100, 100, 100, np.nan])

    def test_samples_needed_of_exactly_nine_in_ten(self):
        row = [0.95] * 9 + [0.5]
        assert figures.samples_needed(curves([row, row, row])).item() == 100

    def test_order_of_samples_does_not_matter(self):
        data = curves([[0.9], [0.96], [0.97]])
        turned = data.isel(samples=[2, 0, 1])
        assert figures.samples_needed(turned).item() == figures.samples_needed(data).item() == 200
        assert figures.samples_for(turned).item() == figures.samples_for(data).item()

    def test_samples_for_lies_on_the_line_between(self):
        data = curves([[0.90, 0.90], [0.94, 0.96], [0.99, 0.99]], [[0.96, 0.96]] * 3, [[0.5, 0.5]] * 3)
        np.testing.assert_allclose(figures.samples_for(data), [200, 100, np.nan])
        np.testing.assert_allclose(figures.samples_for(data, 0.925), [150, 100, np.nan])

    def test_a_phase_map_can_be_read_too(self):
        data = figures.phase_map(patches_per_expert=(2,), samples=(60, 500), trials=5, seed=2)
        needed = figures.samples_needed(data, share=0.5)
        assert needed.sel(patches_per_expert=2).item() == 500
        assert (data.success.mean("trial").sel(patches_per_expert=2) >= 0.5).values.tolist() == [False, True]

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [({"share": 1.5}, "share must be within 0 to 1"), ({"accuracy": -0.1}, "accuracy must be within 0 to 1")],
    )
    def test_shares_are_shares(self, arguments, says):
        with pytest.raises(ValueError, match=says):
            figures.samples_needed(curves([[0.9], [0.9], [0.9]]), **arguments)

    def test_needs_a_curve(self):
        with pytest.raises(ValueError, match="must have test_accuracy"):
            figures.samples_needed(xr.Dataset())
        with pytest.raises(ValueError, match="must have test_accuracy"):
            figures.samples_for(curves([[0.9], [0.9], [0.9]]).mean("trial"))
