"""What is specific to pmoe2023: claims read from whole curves, bounds, hyperplanes, single grid points and MNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab.reproduce.claim import imported
from moe_lab.reproduce.pmoe2023 import measures
from tests.reproduce.small import CLAIMS, claims_of, small, turned, verdict


@pytest.mark.parametrize(
    ("joint", "samples", "outperforms"),
    [(600, "agrees in kind", "agrees in kind"), (100, "differs", "agrees in kind"), (1100, "differs", "differs")],
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
    assert verdict(f"pmoe2023/figure4/mnist-{kind}-outperforms", lines(600)) == "agrees"
    assert verdict(f"pmoe2023/figure4/mnist-{kind}-outperforms", lines(1500)) == "differs"


@pytest.mark.parametrize(("least", "expected"), [(600, "agrees"), (300, "agrees in kind"), (900, "differs")])
@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_the_authors_recipe_is_judged_by_where_a_line_meets_the_cnn(kind: str, least: int, expected: str) -> None:
    own = {"joint": ", k=8, l=6", "separate": ", l=2"}[kind]
    accuracy = {f"{kind}, N={count}{own}": 0.95 + 0.1 * np.log(count / least) for count in (100, 300, 600, 1000)}
    values = np.array([[mean] * 3 for mean in accuracy.values()] + [[0.95, 0.5, 0.95]])  # a CNN that says one class
    for cnn in ("cnn", "cnn-4"):
        cells = [*accuracy, f"{cnn}, N=1000"]
        data = xr.Dataset({"test_accuracy": (("cell", "trial"), values)}, {"cell": cells})
        assert verdict(f"pmoe2023/figure4/mnist-authors-{kind}-samples-{cnn}", data) == expected


@pytest.mark.parametrize(("power", "expected"), [(1, "agrees in kind"), (0, "differs"), (-1, "differs")])
def test_figure_5_is_judged_by_the_power_of_l(power: int, expected: str) -> None:
    samples, kept = np.arange(50, 2001, 50), np.array([2, 4, 8])
    success = (samples >= 400 * (kept[:, None] / 4.0) ** power).astype(float)[..., None].repeat(2, 2)
    data = xr.Dataset(
        {"success": (("patches_per_expert", "samples", "trial"), success)},
        {"patches_per_expert": kept, "samples": samples},
    )
    assert verdict("pmoe2023/figure5/power-of-l", data) == expected
    assert verdict("pmoe2023/figure5/mnist-power-of-l", data) == expected.removesuffix(" in kind")


def test_lemma_4_1_fails_with_one_sample_that_loses_its_patch() -> None:
    def lost(data: xr.Dataset) -> xr.Dataset:
        data = xr.ones_like(data)
        data["coverage"][-1, -1, 0, 0] = 0.999
        return data

    assert turned("pmoe2023/lemma4.1/from-l-star-on", xr.ones_like) == "agrees"
    assert turned("pmoe2023/lemma4.1/from-l-star-on", lost) == "differs"


def test_bounds_are_the_theorems_and_the_misprint_differs() -> None:
    verdicts = {claim.id: verdict(claim.id) for claim in claims_of("pmoe2023/bounds")}
    differing = {"pmoe2023/theorem4.5/neurons-ratio", "pmoe2023/eq9/opposite-patterns"}
    differing.add("pmoe2023/table1/joint-total")
    assert {name for name, found in verdicts.items() if found == "differs"} == differing
    assert {found for name, found in verdicts.items() if name not in differing} == {"follows"}


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
    assert verdict("pmoe2023/figure8/mnist-top-4", data) == "agrees"


def test_a_reader_gives_a_number_for_every_trial() -> None:
    for name in ("figure6/rise", "figure9/o1", "section5.1/epochs", "lemmaE.1/direction", "assumption4.4/largest-gate"):
        claim = CLAIMS[f"pmoe2023/{name}"]
        assert claim.values(small(claim.measurement.name)).shape == (2,), name
