"""Claims of pruning2024 read what is measured, and a rule turns when the data are made wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.pruning.initialization import BranchStart
from moe_lab.reproduce.claim import Claim, Measurement, imported
from moe_lab.reproduce.erratum import Erratum
from moe_lab.reproduce.pruning2024 import CLAIMS, ERRATA
from moe_lab.reproduce.pruning2024.criteria import tolerated
from moe_lab.reproduce.pruning2024.measures import V_MOE
from moe_lab.reproduce.report import checked

START = BranchStart(tasks=2, steps=5)
TINY: Mapping[str, Mapping[str, Any]] = {
    "figure3": {"trials": 1, "test_samples": 100},
    "figure7": {"trials": 1, "test_samples": 100},
    "criteria-planted-expert-choice": {"rho": (0.0, 0.5), "trials": 2, "fine_tuning_steps": 3},
    "criteria-planted-token-choice": {"rho": (0.0, 0.5), "trials": 1, "steps": 10, "fine_tuning_steps": 2},
    "criteria-pretrained-token-choice": {
        "rho": (0.0, 0.5),
        "trials": 1,
        "steps": 5,
        "fine_tuning_steps": 2,
        "start": START,
    },
    "efficiency": {"rho": (0.0, 0.5, 0.75), "neurons": 8, "dimension": 8, "samples": 1, "repeats": 1},
    "statements-planted": {"trials": 1, "test_samples": 100, "later_steps": 5},
    "statements-random": {"trials": 1, "test_samples": 100},
    "independence": {"trials": 1, "steps": 5},
    "gradients": {"trials": 3},
    "vision-models": {},
}
MEASUREMENTS = {claim.measurement.name.split("/")[1]: claim.measurement for claim in CLAIMS}
BY_ID = {claim.id.removeprefix("pruning2024/"): claim for claim in CLAIMS}


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


@pytest.mark.parametrize("erratum", [one for one in ERRATA if one.check], ids=lambda erratum: erratum.id)
def test_an_erratum_holds(erratum: Erratum) -> None:
    found = checked(erratum)
    assert found is not None and found.holds, found


# --- rules that turn -------------------------------------------------------------------------------------------------


def verdict(place: str, data: xr.Dataset) -> str:
    return BY_ID[place].rule.verdict(BY_ID[place].values(data))


def curves(**accuracy: tuple[float, ...]) -> xr.Dataset:
    """What `figures.criteria` would return of one trial, with these accuracies at rho = 0, .5 and .8."""
    values = np.array([[[[share]] * 2 for share in each] for each in accuracy.values()])
    return xr.Dataset(
        {
            "test_accuracy": (("criterion", "rho", "fine_tuned", "trial"), values),
            "unpruned_accuracy": (("trial",), [1.0]),
        },
        {
            "criterion": [name.replace("_", "-") for name in accuracy],
            "rho": [0.0, 0.5, 0.8],
            "fine_tuned": [False, True],
        },
    )


@pytest.mark.parametrize(
    ("accuracy", "rho"),
    [((1, 1, 1), 0.8), ((1, 0.99, 0.99), 0.8), ((1, 1, 0.98), 0.5), ((1, 0.9, 1), 0.0)],
    ids=["all", "within 1 %", "some", "a gap ends it"],
)
def test_what_is_tolerated(accuracy: tuple[float, ...], rho: float) -> None:
    assert tolerated(curves(router_norm_change=accuracy), "router-norm-change", True).item() == rho


def test_a_criterion_that_prunes_worse_is_told() -> None:
    good = curves(router_norm_change=(1, 1, 1), random=(1, 0.6, 0.5))
    assert verdict("figure1/experts-token-choice", good) == "agrees in kind"
    assert verdict("figure4a/random-token-choice", good) == "agrees in kind"
    bad = curves(router_norm_change=(1, 1, 0.9), random=(1, 1, 0.9))
    assert verdict("figure1/experts-token-choice", bad) == "differs"
    assert verdict("figure4b/experts-token-choice", bad) == "agrees in kind"
    assert verdict("figure4a/random-token-choice", bad) == "differs"


def no_large_router(data: xr.Dataset) -> xr.Dataset:
    return data.assign(violated=data["violated"] | True, large=data["large"] & False)


def swapped(data: xr.Dataset) -> xr.Dataset:
    """The components along o_1 and o_2 change places."""
    names = {"o1": "o2", "o2": "o1"}
    return data.assign_coords(pattern=[names.get(name, name) for name in data["pattern"].values])


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("figure3/large-routers", no_large_router),
        ("figure3/both-groups", no_large_router),
        ("figure3/large-router", swapped),
        ("figure3/large-neurons", swapped),
        ("figure7/large-router", swapped),
        ("lemma4.1/i-proficiency", lambda data: data.assign(state=0 * data["state"])),
        ("appendixC/router-gradient", lambda data: data.assign(router_gap=data["router_gap"] + 1e-6)),
        ("figure6/operations-linear", lambda data: data.assign(r_squared=0.9 * data["r_squared"])),
        ("figure1/parameters", lambda data: data.assign(parameter_share=0.9 * data["parameter_share"])),
    ],
)
def test_a_rule_turns_on_wrong_data(place: str, wrong: Callable[[xr.Dataset], xr.Dataset]) -> None:
    data = measured(BY_ID[place].measurement.name.split("/")[1])
    right = "agrees in kind" if place == "figure6/operations-linear" else "agrees"
    assert verdict(place, data) == right
    assert verdict(place, wrong(data)) != right


def test_experts_that_share_something_are_not_independent() -> None:
    data = measured("independence")
    assert float(data["gap"].sel(kind="expert-choice").max()) == 0
    assert float(data["gap"].drop_sel(kind="expert-choice").min()) > 1e-4


def test_the_vision_model_has_as_many_parameters_as_the_released_one() -> None:
    assert V_MOE.parameters == 284_083_978
