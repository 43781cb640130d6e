"""Claims of gated2019 read what is measured, and a rule turns when the data are made wrong."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.files import netcdf
from moe_lab.reproduce.claim import Claim, Measurement, imported
from moe_lab.reproduce.erratum import Erratum
from moe_lab.reproduce.gated2019 import CLAIMS, ERRATA
from moe_lab.reproduce.gated2019.measures import landscape, log_descent
from moe_lab.reproduce.report import checked, png

TINY: Mapping[str, Mapping[str, Any]] = {
    "figure2a": {"trials": 2, "steps": 30, "batch": 64},
    "figure2b": {"trials": 2, "steps": 4, "regressor_steps": 5, "batch": 64},
    "figure3": {"trials": 2, "steps": 4, "regressor_steps": 5, "batch": 64},
    "figure4": {"trials": 2, "steps": 20, "every": 5},
    "section2-gru": {"cells": 2, "samples": 64},
    "eq8": {"trials": 2, "samples": 3200},
    "lemma1-tensor": {"trials": 2, "samples": 2000},
    "theorem1-landscape": {"trials": 2, "steps": 20},
    "theorem2-fixed": {"trials": 1, "steps": 20},
    "theorem3-descent": {"trials": 2},
    "conditions": {"activations": ("identity", "sigmoid"), "noise": (0.1,)},
    "printed-identity": {},
    "printed-relu": {},
}
MEASUREMENTS = {claim.measurement.name.split("/")[1]: claim.measurement for claim in CLAIMS}
BY_ID = {claim.id.removeprefix("gated2019/"): claim for claim in CLAIMS}


@cache
def measured(name: str) -> xr.Dataset:
    """A measurement with arguments that take no time."""
    one: Measurement = MEASUREMENTS[name]
    data: xr.Dataset = imported(one.function)(**{**one.quick, **TINY[name], **({"seed": 2} if one.seeded else {})})
    return data


def test_every_measurement_has_a_tiny_version() -> None:
    assert set(MEASUREMENTS) == set(TINY)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_reads_finite_numbers(claim: Claim) -> None:
    values = claim.values(measured(claim.measurement.name.split("/")[1]))
    assert values.size >= 1 and np.isfinite(values).all()


@pytest.mark.parametrize("name", ["theorem1-landscape", "theorem3-descent", "eq8", "printed-relu"])
def test_a_measurement_fits_into_a_file(name: str) -> None:
    assert len(netcdf(measured(name))) > 100


def test_a_picture_of_a_figure_is_drawn() -> None:
    assert png(MEASUREMENTS["figure2a"], measured("figure2a")).startswith(b"\x89PNG")


@pytest.mark.parametrize("erratum", [one for one in ERRATA if one.check], ids=lambda one: one.id)
def test_a_correction_holds(erratum: Erratum) -> None:
    found = checked(erratum)
    assert found is not None and found.holds, found


def test_both_grus_are_told_apart() -> None:
    told = {name: BY_ID[f"section2/{name}"] for name in ("gru", "gru-torch")}
    data = measured("section2-gru")
    assert {name: one.rule.verdict(one.values(data)) for name, one in told.items()} == {
        "gru": "differs",
        "gru-torch": "agrees in kind",
    }


def test_the_landscape_claim_turns_when_descents_stop_early() -> None:
    claim = BY_ID["theorem1/landscape"]
    assert claim.rule.verdict(claim.values(measured("theorem1-landscape"))) == "differs"  # after 20 steps
    data = landscape((2,), trials=3, seed=2, steps=2000)
    assert claim.rule.verdict(claim.values(data)) == "agrees"
    scale = BY_ID["theorem1/scale"]
    assert scale.rule.verdict(scale.values(data)) == "agrees"
    assert scale.rule.verdict(scale.values(data.assign(scale=1.4 * data["scale"]))) == "differs"


def test_a_plateau_would_be_seen() -> None:
    """Errors that rest at .5 for 100 steps and then fall to 0, against errors that fall steadily."""
    step, claim = np.arange(0, 500, 10), BY_ID["figure2/a-plateau"]
    falls, rests = (
        np.exp(-step / 40),
        np.where(step < 200, np.maximum(0.5, np.exp(-step / 40)), 0.5 * 0.9 ** (step - 200)),
    )
    error = np.stack([falls, rests], axis=1)[None]
    data = xr.Dataset({"regressor_error": (("loss", "step", "trial"), error)}, {"loss": ["L4"], "step": step})
    assert claim.values(data).tolist() == [0, 1]


def test_the_error_rate_is_the_slope_of_the_logarithms() -> None:
    count = np.array([1000, 4000, 16000])
    data = xr.Dataset(
        {"error": (("samples", "trial"), 3 * count[:, None] ** np.array([-0.5, -1.0]))}, {"samples": count}
    )
    assert BY_ID["theorem4/rate"].values(data) == pytest.approx([-0.5, -1.0])


def test_descents_say_what_their_docstrings_do() -> None:
    data = log_descent((1000,), trials=2, seed=2)
    assert set(data) == {"contraction", "error", "slope", "from_em"} and data["error"].dims == ("samples", "trial")
    assert 0 < float(data["contraction"].max()) < 1 and float(data["from_em"].max()) < 1e-12
