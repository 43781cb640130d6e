"""pmoe2023's claims: each is read off a small run of its measurement, rules turn with the data, errata hold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.files import from_netcdf, netcdf
from moe_lab.reproduce import pmoe2023
from moe_lab.reproduce.claim import Claim, imported
from moe_lab.reproduce.pmoe2023 import measures as pmoe2023_measures
from moe_lab.reproduce.report import checked
from moe_lab.reproduce.runner import Done, Order, joined, pieces

BY_ID = {claim.id: claim for claim in pmoe2023.CLAIMS}
MEASUREMENTS = {claim.measurement.name: claim.measurement for claim in pmoe2023.CLAIMS}
FAST = {"trials": 2, "epochs": 2, "test_samples": 400}
SMALL: dict[str, dict[str, Any]] = {
    "pmoe2023/figure4-digits": {"samples": (60, 100), **FAST},
    "pmoe2023/figure5-digits": {"patches_per_expert": (2, 8), "samples": (60,), **FAST},
    "pmoe2023/figure6-digits": FAST,
    "pmoe2023/figure7-digits": FAST,
    "pmoe2023/figure8-digits": {"patches_per_expert": (4,), "samples": (300,), "trials": 2},
    "pmoe2023/figure9-digits": {"samples": (300,), **FAST},
    "pmoe2023/digits-cells": {**FAST, "epochs": 1},
    "pmoe2023/mnist-cells": {"source": "patterns", **FAST},  # the same cells, of data that are always there
    "pmoe2023/figure8-mnist": {"source": "digits", "trials": 2},
    "pmoe2023/lemma4.1": {"patches_per_expert": (4, 5, 16), "samples": (400,), "trials": 2},
    "pmoe2023/appendixM-routers": {"patches_per_expert": (4, 5), "samples": (400,), "trials": 2},
    "pmoe2023/finding1-kept": {"samples": 400, "trials": 2},
    "pmoe2023/lemmaE.1": {"samples": (100, 400), "trials": 2},
    "pmoe2023/assumption4.4": {"samples": (60,), "trials": 2},
    "pmoe2023/theorems-by-n": {"samples": 40, **FAST},
    "pmoe2023/finding3-by-overlap": {"samples": 40, **FAST},
    "pmoe2023/lemmaK.1": {"samples": 200, "trials": 2},
    "pmoe2023/bounds": {},
    "pmoe2023/table1-step": {},
}
CURVES = (
    "pmoe2023/figure4/joint-samples",
    "pmoe2023/figure4/mnist-joint-samples",
    "pmoe2023/figure4/mnist-separate-samples",
    "pmoe2023/figure5/power-of-l",
)
"""Read off whole curves, which a small run does not have."""


@cache
def small(name: str) -> xr.Dataset:
    """A small run of a measurement, in its pieces, as it comes back from its files."""
    measurement = MEASUREMENTS[name]
    tiny = replace(measurement, quick={**measurement.quick, **SMALL[name]}, needs=None)
    order = Order("quick", 3, "cpu", Path("unused"))
    done = []
    for piece in pieces(tiny, order):
        data = imported(piece.function)(**piece.arguments)
        done.append(Done(piece, from_netcdf(netcdf(data)), 0.0))
    return joined(tiny, done)


def judged(identity: str, **arrays: Any) -> str:
    """The verdict of a claim on made data."""
    claim = BY_ID[identity]
    return claim.rule.verdict(claim.values(xr.Dataset(**arrays)))


def test_there_are_enough_claims_and_each_may_differ_with_a_reason() -> None:
    assert len(BY_ID) == len(pmoe2023.CLAIMS) >= 16
    assert set(MEASUREMENTS) == set(SMALL)
    for claim in pmoe2023.CLAIMS:
        assert claim.reason or claim.rule.agrees is not None, claim.id


@pytest.mark.parametrize(
    "claim", [claim for claim in pmoe2023.CLAIMS if claim.id not in CURVES], ids=lambda claim: claim.id
)
def test_a_claim_is_read_off_its_measurement(claim: Claim) -> None:
    data = small(claim.measurement.name)
    values = claim.values(data)
    assert values.shape == (data.sizes.get("trial", 1),)
    assert np.isfinite(values).all()


@pytest.mark.parametrize("place", ["figure8", "figure9"])
def test_pictures_are_drawn_from_what_was_kept(place: str) -> None:
    measurement = MEASUREMENTS[f"pmoe2023/{place}-digits"]
    figure = imported(measurement.picture)(small(measurement.name))
    assert figure.axes and measurement.sees


def test_figure_4_is_judged_by_where_the_curves_cross() -> None:
    def curves(joint: int) -> dict[str, Any]:
        samples = np.arange(100, 1001, 100)
        needed = {"joint": joint, "separate": 600, "cnn": 1000}
        accuracy = [[[0.95 + (count - least) / 1e4] * 2 for count in samples] for least in needed.values()]
        return {
            "data_vars": {"test_accuracy": (("model", "samples", "trial"), accuracy)},
            "coords": {"model": list(needed), "samples": samples},
        }

    assert judged("pmoe2023/figure4/joint-samples", **curves(600)) == "agrees"
    assert judged("pmoe2023/figure4/joint-samples", **curves(300)) == "differs"
    assert judged("pmoe2023/figure4/joint-outperforms", **curves(300)) == "agrees in kind"
    assert judged("pmoe2023/figure4/joint-outperforms", **curves(1100)) == "differs"


def test_mnist_is_judged_by_two_sizes() -> None:
    def cells(joint: int) -> dict[str, Any]:
        """Accuracies on lines in log N that reach 95 % at `joint` samples, and at 1000 for the CNN."""
        known = {"joint, N={}, k=8, l=6": (joint, (100, 300)), "cnn, N={}": (1000, (100, 1000))}
        accuracy = {
            name.format(count): 0.95 + 0.1 * np.log(count / least)
            for name, (least, sizes) in known.items()
            for count in sizes
        }
        values = np.array([[one] * 2 for one in accuracy.values()])
        return {"data_vars": {"test_accuracy": (("cell", "trial"), values)}, "coords": {"cell": list(accuracy)}}

    assert judged("pmoe2023/figure4/mnist-joint-samples", **cells(600)) == "agrees"
    assert judged("pmoe2023/figure4/mnist-joint-samples", **cells(300)) == "differs"
    assert judged("pmoe2023/figure4/mnist-joint-outperforms", **cells(600)) == "agrees"
    assert judged("pmoe2023/figure4/mnist-joint-outperforms", **cells(1500)) == "differs"


@pytest.mark.parametrize(("power", "verdict"), [(1, "agrees in kind"), (0, "differs"), (-1, "differs")])
def test_figure_5_is_judged_by_the_power_of_l(power: int, verdict: str) -> None:
    samples, kept = np.arange(50, 2001, 50), np.array([2, 4, 8])
    success = (samples >= 400 * (kept[:, None] / 4.0) ** power).astype(float)
    data = {"data_vars": {"success": (("patches_per_expert", "samples", "trial"), success[..., None].repeat(2, 2))}}
    assert (
        judged("pmoe2023/figure5/power-of-l", **data, coords={"patches_per_expert": kept, "samples": samples})
        == verdict
    )


def test_lemma_4_1_fails_with_one_sample_that_loses_its_patch() -> None:
    claim = BY_ID["pmoe2023/lemma4.1/from-l-star-on"]
    data = xr.ones_like(small(claim.measurement.name))
    assert claim.rule.verdict(claim.values(data)) == "agrees"
    data["coverage"][-1, -1, 0, 0] = 0.999
    assert claim.rule.verdict(claim.values(data)) == "differs"


def test_bounds_are_the_theorems_and_the_misprint_differs() -> None:
    verdicts = {
        claim.id.removeprefix("pmoe2023/"): claim.rule.verdict(claim.values(small(claim.measurement.name)))
        for claim in pmoe2023.CLAIMS
        if claim.measurement.name == "pmoe2023/bounds"
    }
    differing = {"theorem4.5/neurons-ratio", "eq9/opposite-patterns"}
    assert {name for name, verdict in verdicts.items() if verdict == "differs"} == differing
    assert verdicts["table1/joint-total"] == "agrees in kind"
    assert verdicts["theorem4.2/samples-ratio"] == verdicts["theorem4.5/error-by-l"] == "agrees"


def test_a_hyperplane_separates_few_sets_and_not_many() -> None:
    data = pmoe2023_measures.hyperplanes((16, 256), samples=1000, trials=1, seed=5)
    verdicts = [BY_ID[f"pmoe2023/lemmaK.1/{sets}-pattern-sets"] for sets in (16, 256)]
    assert [claim.rule.verdict(claim.values(data)) for claim in verdicts] == ["differs", "agrees"]


def test_cells_count_epochs_and_operations() -> None:
    cells = (("joint", 40, 8, 6), ("separate", 40, 1, 2), ("cnn", 40, 1, 1))
    data = pmoe2023_measures.cells("digits", cells, trials=2, seed=1, epochs=1, test_samples=100)
    assert data["cell"].values.tolist() == ["joint, N=40, k=8, l=6", "separate, N=40, l=2", "cnn, N=40"]
    assert (data["epochs"] == 1).all()
    each = {"joint": 40 * 6 + 8 * 16 + 8 * 6**2, "separate": 40 * 2, "cnn": 40 * 16}
    np.testing.assert_allclose(data["operations"], [[20.0 * one] * 2 for one in each.values()])
    assert data["largest_gate"].sel(cell="cnn, N=40").isnull().all()


def test_mnist_is_read_from_the_folder_that_is_named(shared_data: Path) -> None:
    claim = BY_ID["pmoe2023/figure8/mnist-top-4"]
    needs = claim.measurement.needs
    folder = shared_data / "mnist-t10k"
    assert needs is not None and any(folder.glob(needs.pattern))
    data = imported(claim.measurement.function)(**{**claim.measurement.quick, "trials": 2, "root": str(folder)})
    assert claim.rule.verdict(claim.values(data)) == "agrees"


@pytest.mark.parametrize("erratum", [one for one in pmoe2023.ERRATA if one.check], ids=lambda one: one.id)
def test_an_erratum_holds(erratum: Any) -> None:
    found = checked(erratum)
    assert found is not None and found.holds, found
