"""Claims of gridlock2019 read what is measured, and a rule turns when the data are made wrong."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.files import netcdf
from moe_lab.reproduce.claim import Claim, Measurement, imported
from moe_lab.reproduce.erratum import Erratum
from moe_lab.reproduce.gridlock2019 import CLAIMS, ERRATA
from moe_lab.reproduce.report import checked, png

FIGURE = {"trials": 2, "iterations": 3}
TINY: Mapping[str, Mapping[str, Any]] = {
    "table1": {"trials": 2, "samples": 400},
    "table1-em": {"trials": 2, "samples": 400},
    "table2": {"trials": 2, "samples": 400},
    "conditions": {"activations": ("identity", "sigmoid"), "noise": (0.1,)},
    "theorem1-tensor": {"trials": 2, "samples": 2000},
    "theorem2-gates": {"trials": 2, "samples": 300, "iterations": 4},
    "theorem3-moment": {"trials": 2, "samples": 2000},
    "theorem3-gates": {"trials": 2, "samples": (500, 20000), "regressors": ("true",), "gating": ("orthogonal",)},
    "figure3": {**FIGURE, "samples": 500, "d": 5},
    "figure4": {**FIGURE, "d": 4},
    "figure5": {**FIGURE, "samples": 800, "d": 4},
    "section4.3-stuck": {
        "trials": 2,
        "k": (3,),
        "d": 4,
        "samples": (400,),
        "spectral_iterations": 20,
        "joint_iterations": 20,
    },
    "figure6-diabetes": {"trials": 2, "iterations": 3},
    "figure6-airfoil": {"trials": 2, "iterations": 3},
    "figure6-concrete": {"trials": 2, "iterations": 3},
}
MEASUREMENTS = {claim.measurement.name.split("/")[1]: claim.measurement for claim in CLAIMS}
BY_ID = {claim.id.removeprefix("gridlock2019/"): claim for claim in CLAIMS}
AIRFOIL = Path(__file__).parents[3] / "shared" / "data" / "airfoil.csv.gz"


@cache
def measured(name: str) -> xr.Dataset:
    """A measurement with arguments that take no time."""
    one: Measurement = MEASUREMENTS[name]
    given = {**one.quick, **TINY[name], **({"seed": 2} if one.seeded else {})}
    if one.needs is not None:
        if name != "figure6-airfoil" or not AIRFOIL.is_file():
            pytest.skip(f"the test needs {one.needs.what}")
        given[one.needs.argument] = str(AIRFOIL)
    data: xr.Dataset = imported(one.function)(**given)
    return data


def test_every_measurement_has_a_tiny_version() -> None:
    assert set(MEASUREMENTS) == set(TINY)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_reads_finite_numbers(claim: Claim) -> None:
    values = claim.values(measured(claim.measurement.name.split("/")[1]))
    assert values.size >= 1 and np.isfinite(values).all()


@pytest.mark.parametrize("name", ["theorem2-gates", "conditions", "theorem1-tensor", "table2"])
def test_a_measurement_fits_into_a_file(name: str) -> None:
    assert len(netcdf(measured(name))) > 100


def test_a_picture_of_a_figure_is_drawn() -> None:
    assert png(MEASUREMENTS["figure6-diabetes"], measured("figure6-diabetes")).startswith(b"\x89PNG")


@pytest.mark.parametrize("erratum", [one for one in ERRATA if one.check], ids=lambda one: one.id)
def test_a_correction_holds(erratum: Erratum) -> None:
    found = checked(erratum)
    assert found is not None and found.holds, found


@pytest.mark.parametrize("gating", ["orthogonal", "random"])
def test_a_cell_agrees_within_one_published_deviation_and_no_farther(gating: str) -> None:
    claim = BY_ID[f"table2/{gating}-regressor-fit"]
    value, spread = claim.published.value, claim.published.spread
    assert value is not None and spread is not None
    assert claim.rule.verdict(np.array([value - 0.9 * spread, value])) == "agrees"
    assert claim.rule.verdict(np.full(3, value + 1.1 * spread)) == "differs"


def test_an_advantage_over_joint_em_would_be_seen() -> None:
    """The claim that differs agrees where joint EM's errors are made twice ours, so that its rule can be met."""
    claim, data = BY_ID["figure4/n5000-advantage"], measured("figure4").copy(deep=True)
    error = data["error"]
    error.loc[{"algorithm": "joint-em"}] = error.sel(algorithm="spectral+em") * 2
    assert claim.rule.verdict(claim.values(data)) == "agrees"
    error.loc[{"algorithm": "joint-em"}] = error.sel(algorithm="spectral+em")
    assert claim.rule.verdict(claim.values(data)) == "differs"


def test_the_normalised_moment_would_agree_with_the_other_sign() -> None:
    claim, data = BY_ID["theorem3/normalised-moment"], measured("theorem3-moment")
    assert claim.rule.verdict(claim.values(data)) == "differs"
    assert (claim.values(data) < -0.9).all()
    assert claim.rule.verdict(np.ones(3)) == "agrees"


def test_iterations_are_counted_from_the_last_that_is_far() -> None:
    data = measured("figure3").copy(deep=True)
    fit = xr.zeros_like(data["gates_alone"]) + 0.9
    fit.loc[{"gate_iteration": 0}] = 0.1
    fit.loc[{"gate_iteration": 2}] = 0.5
    assert BY_ID["figure3/a-gates-iterations"].values(data.assign(gates_alone=fit)).tolist() == [3, 3]


def test_a_sum_over_regressors_alone_is_told_from_one_with_gates() -> None:
    """With enough samples y's tensor leaves what is said of it, P3(y)'s does not."""
    call = imported(MEASUREMENTS["theorem1-tensor"].function)
    data = call(("identity",), trials=4, seed=3, samples=100_000)
    square = (data["z"] ** 2).median(("trial", "direction", "activation"))
    assert float(square.sel(label="P3(y)")) < 1 < float(square.sel(label="y"))
