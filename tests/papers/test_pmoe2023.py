"""What is specific to pmoe2023: claims read from whole curves, bounds, hyperplanes, single grid points and MNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.snapshots import Snapshot
from moe_lab.patch_routing import PatchRun, figures
from moe_lab_papers.claim import imported
from moe_lab_papers.pmoe2023 import measures, tuning
from moe_lab_papers.spread import judge
from tests.papers.small import CLAIMS, claims_of, small, turned, verdict


def ended(accuracy: np.ndarray) -> Snapshot:
    """The last Snapshot of trainings with these test accuracies."""
    done = np.ones(len(accuracy), dtype=bool)
    return Snapshot(1, {"test_accuracy": accuracy}, {}, np.ones(len(accuracy), dtype=int), done, np.isnan(accuracy))


@pytest.mark.parametrize(
    ("joint", "samples", "outperforms"),
    [(600, "in kind", "in kind"), (100, "differs", "in kind"), (1100, "differs", "differs")],
)
def test_figure_4_is_judged_by_where_the_curves_cross(joint: int, samples: str, outperforms: str) -> None:
    counts = np.arange(100, 1201, 100)
    needed = {"joint": joint, "separate": 600, "cnn": 1000}
    accuracy = [[[0.95 + (count - least) / 1e4] * 2 for count in counts] for least in needed.values()]
    data = xr.Dataset(
        {"test_accuracy": (("model", "samples", "trial"), accuracy)}, {"model": list(needed), "samples": counts}
    )
    assert verdict("pmoe2023/figure4/joint-samples", data) == samples
    assert verdict("pmoe2023/figure4/joint-outperforms", data) == outperforms


@pytest.mark.parametrize(("kind", "sizes"), [("joint", "k=8, l=6"), ("separate", "l=2")])
def test_mnist_is_judged_by_two_sizes(kind: str, sizes: str) -> None:
    def lines(least: int) -> xr.Dataset:
        """Accuracies on lines in log N that reach 95 % at `least` samples, and at 1000 for the CNN."""
        known = {f"{kind}, N={{}}, {sizes}": (least, (100, 300)), "cnn, N={}": (1000, (100, 1000))}
        accuracy = {
            name.format(count): 0.95 + 0.1 * np.log(count / reached)
            for name, (reached, counts) in known.items()
            for count in counts
        }
        values = np.array([[mean] * 2 for mean in accuracy.values()])
        return xr.Dataset({"test_accuracy": (("cell", "trial"), values)}, {"cell": list(accuracy)})

    assert verdict(f"pmoe2023/figure4/mnist-{kind}-samples", lines(600)) == "agrees"
    assert verdict(f"pmoe2023/figure4/mnist-{kind}-samples", lines(300)) == "differs"
    assert verdict(f"pmoe2023/figure4/mnist-{kind}-outperforms", lines(600)) == "in kind"
    assert verdict(f"pmoe2023/figure4/mnist-{kind}-outperforms", lines(1500)) == "differs"


@pytest.mark.parametrize(("least", "expected"), [(600, "agrees"), (300, "in kind"), (900, "differs")])
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_the_authors_recipe_is_judged_by_where_a_line_meets_the_cnn(kind: str, least: int, expected: str) -> None:
    own = {"joint": ", k=8, l=6", "separate": ", l=2"}[kind]
    accuracy = {f"{kind}, N={count}{own}": 0.95 + 0.1 * np.log(count / least) for count in (100, 300, 600, 1000)}
    values = np.array([[mean] * 3 for mean in accuracy.values()] + [[0.95, 0.5, 0.95]])  # a CNN that says one class
    for cnn in ("cnn", "cnn-4"):
        cells = [*accuracy, f"{cnn}, N=1000"]
        data = xr.Dataset({"test_accuracy": (("cell", "trial"), values)}, {"cell": cells})
        assert verdict(f"pmoe2023/figure4/mnist-authors-{kind}-samples-{cnn}", data) == expected


@pytest.mark.parametrize(("power", "expected"), [(1, "in kind"), (0, "differs"), (-1, "differs")])
def test_figure_5_is_judged_by_the_power_of_l(power: int, expected: str) -> None:
    samples, kept = np.arange(50, 2001, 50), np.array([2, 4, 8])
    success = (samples >= 400 * (kept[:, None] / 4.0) ** power).astype(float)[..., None].repeat(2, 2)
    data = xr.Dataset(
        {"success": (("patches_per_expert", "samples", "trial"), success)},
        {"patches_per_expert": kept, "samples": samples},
    )
    assert verdict("pmoe2023/figure5/power-of-l", data) == expected
    assert verdict("pmoe2023/figure5/mnist-power-of-l", data) == expected.replace("in kind", "agrees")


@pytest.mark.parametrize(("times", "expected"), [(1.44, "agrees"), (1.8, "in kind"), (1.0, "differs"), (3, "differs")])
def test_figure_7_is_judged_by_how_far_the_error_grows(times: float, expected: str) -> None:
    accuracy = {"joint, N=100, k=8, l=6": 0.9, "joint, N=100, k=8, l=16": 1 - 0.1 * times}
    values = np.array([[value] * 2 for value in accuracy.values()])
    data = xr.Dataset({"test_accuracy": (("cell", "trial"), values)}, {"cell": list(accuracy)})
    assert verdict("pmoe2023/figure7/mnist-fall", data) == expected


def test_each_model_of_figure_4_has_the_best_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    best = {"joint": 32.0, "separate": 2.0, "cnn": 8.0}
    seen: list[tuple[int, int]] = []

    def trained(runs: list[PatchRun]) -> list[Snapshot]:
        """Accuracies that are highest at the model's best step."""
        seen.extend((run.first_trial, run.samples) for run in runs)
        steps = np.array([float(run.model.learning_rate or 0) for run in runs])
        accuracy = np.repeat(1 - 0.01 * np.abs(np.log2(steps / best[runs[0].model.name]))[:, None], runs[0].trials, 1)
        return [ended(accuracy.ravel())]

    monkeypatch.setattr(tuning, "train_batch", trained)
    data = tuning.tuned_sample_complexity((40,), trials=2, seed=3, tuning_trials=2, epochs=1, test_samples=40)
    assert dict(zip(data.model.values.tolist(), data.learning_rate.values.tolist(), strict=True)) == best
    assert {first for first, _ in seen} == {10_000} and {count for _, count in seen} == {100}
    for name, step in best.items():
        alone = figures.sample_complexity(
            samples=(40,), trials=2, seed=3, learning_rate=step, epochs=1, test_samples=40
        )["test_accuracy"].sel(model=name)
        np.testing.assert_array_equal(data["test_accuracy"].sel(model=name), alone)


def test_a_step_at_which_a_training_diverges_is_not_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "train_batch", lambda runs: [ended(np.r_[np.full(9, 0.9), np.nan])])
    data = tuning.tuned_sample_complexity((40,), trials=1, tuning_trials=2, epochs=1, test_samples=40)
    np.testing.assert_allclose(data["tuned"].sel(model="joint"), [0.9, 0.9, 0.9, 0.9, 0.45])


def test_lemma_4_1_fails_with_one_sample_that_loses_its_patch() -> None:
    def lost(data: xr.Dataset) -> xr.Dataset:
        data = xr.ones_like(data)
        data["coverage"][-1, -1, 0, 0] = 0.999
        return data

    assert turned("pmoe2023/lemma4.1/from-l-star-on", xr.ones_like) == "agrees"
    assert turned("pmoe2023/lemma4.1/from-l-star-on", lost) == "differs"


def test_an_order_is_not_compared_with_a_number() -> None:
    """Table 1 has an O(), which says nothing at one m: measured is a third of the ratio of the printed orders."""
    (claim,) = claims_of("pmoe2023/bounds")
    data = small("pmoe2023/bounds")
    assert claim.published.value is not None and 3 * claim.values(data)[0] == pytest.approx(
        claim.published.value, rel=0.2
    )
    assert judge(claim, data).verdict == "not comparable"


def test_four_classes_are_tested_with_enough_samples() -> None:
    """From 400 samples separate training has .8, from 3,200 it has .98: fewer than that test another statement."""
    for budget in ("quick", "full", "paper"):
        assert CLAIMS["pmoe2023/appendixM/separate-accuracy"].measurement.arguments(budget)["samples"] >= 3200


def test_a_hyperplane_separates_few_sets_and_not_many() -> None:
    data = measures.separability((16, 256), samples=500, trials=1, seed=5)
    assert verdict("pmoe2023/lemmaK.1/16-pattern-sets", data) == "differs"
    assert verdict("pmoe2023/lemmaK.1/256-pattern-sets", data) == "agrees"


def test_cells_count_epochs_and_operations() -> None:
    cells = (("joint", 40, 8, 6), ("separate", 40, 1, 2), ("cnn", 40, 1, 1))
    data = measures.cells("digits", cells, trials=2, seed=1, epochs=1, test_samples=100)
    assert data["cell"].values.tolist() == ["joint, N=40, k=8, l=6", "separate, N=40, l=2", "cnn, N=40"]
    assert (data["epochs"] == 1).all()
    each = {"joint": 40 * 6 + 8 * 16 + 8 * 6**2, "separate": 40 * 2, "cnn": 40 * 16}
    np.testing.assert_allclose(data["operations"], [[20.0 * operations] * 2 for operations in each.values()])
    assert data["largest_gate"].sel(cell="cnn, N=40").isnull().all()


def test_mnist_is_read_from_the_folder_that_is_named(shared_data: Path) -> None:
    measurement = CLAIMS["pmoe2023/figure8/mnist-top-4"].measurement
    folder = shared_data / "mnist-t10k"
    assert measurement.needs is not None and any(folder.glob(measurement.needs.pattern))
    data = imported(measurement.function)(**{**measurement.quick, "trials": 2, "root": str(folder)})
    assert verdict("pmoe2023/figure8/mnist-top-4", data) == "in kind"


def test_a_reader_gives_a_number_for_every_trial() -> None:
    for name in ("figure6/rise", "figure9/o1", "section5.1/epochs", "lemmaE.1/direction", "assumption4.4/largest-gate"):
        claim = CLAIMS[f"pmoe2023/{name}"]
        assert claim.values(small(claim.measurement.name)).shape == (2,), name
