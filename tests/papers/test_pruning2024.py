"""What is specific to pruning2024: what a criterion tolerates, rules that turn on wrong data, and sizes of models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from moe_lab.pruning import figures
from moe_lab_papers.pruning2024.criteria import tolerated
from moe_lab_papers.pruning2024.measures import V_MOE
from tests.papers.small import CLAIMS, small, turned, verdict

COUNTED = "pruning2024/vision-models"


def curves(**accuracy: tuple[float, ...]) -> xr.Dataset:
    """What `figures.criteria` would return of one trial, with these accuracies at rho = 0, .5 and .8."""
    values = np.array([[[[share]] * 2 for share in shares] for shares in accuracy.values()])
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


GOOD, FAIR, POOR = (1, 1, 1), (1, 1, 0.9), (1, 0.6, 0.5)


@pytest.mark.parametrize(
    ("place", "other", "good", "fair"),
    [
        ("figure1/experts-token-choice", "random", "agrees in kind", "differs"),
        ("figure1/experts-expert-choice", "random", "agrees in kind", "differs"),
        ("figure1/experts-pretrained", "random", "agrees in kind", "differs"),
        ("figure4b/experts-token-choice", "random", "agrees in kind", "agrees in kind"),
        ("figure4a/random-token-choice", "random", "agrees in kind", "differs"),
        ("figure9a/outperforms", "importance_score", "agrees in kind", "differs"),
        ("figure9c/outperforms", "neuron_magnitude_change", "agrees in kind", "differs"),
    ],
)
def test_a_criterion_that_prunes_no_better_is_found(place: str, other: str, good: str, fair: str) -> None:
    ahead = curves(**{"router_norm_change": GOOD, other: POOR})
    equal = curves(**{"router_norm_change": FAIR, other: FAIR})
    assert verdict(f"pruning2024/{place}", ahead) == good
    assert verdict(f"pruning2024/{place}", equal) == fair


def test_a_criterion_must_outperform_the_better_of_two_norms() -> None:
    place = "pruning2024/figure9b/outperforms"
    ahead = curves(router_norm_change=GOOD, router_magnitude=FAIR, neuron_magnitude=POOR)
    assert verdict(place, ahead) == "agrees in kind"
    assert verdict(place, curves(router_norm_change=GOOD, router_magnitude=GOOD, neuron_magnitude=POOR)) == "differs"


def no_large_router(data: xr.Dataset) -> xr.Dataset:
    return data.assign(violated=data["violated"] | True, large=data["large"] & False)


def swapped(data: xr.Dataset) -> xr.Dataset:
    """Exchanges the components along o_1 and o_2."""
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
        ("figure1/parameters", lambda data: data.assign(parameter_share=0.9 * data["parameter_share"])),
    ],
)
def test_a_rule_turns_on_wrong_data(place: str, wrong: Callable[[xr.Dataset], xr.Dataset]) -> None:
    assert verdict(f"pruning2024/{place}") in ("agrees", "follows")
    assert turned(f"pruning2024/{place}", wrong) not in ("agrees", "follows")


@pytest.mark.parametrize(("alone", "found"), [((0.8, 0.85), "agrees in kind"), ((0.85, 0.8), "differs")])
def test_the_penultimate_mixture_is_compared_with_the_last(alone: tuple[float, float], found: str) -> None:
    data = xr.Dataset({"alone": (("trial", "block"), [alone])}, {"block": [1, 3]})
    assert verdict("pruning2024/section5.2.1/penultimate-v-moe", data) == found


def test_what_is_only_counted_follows() -> None:
    """Also where an architecture is built for it; times are measured."""
    counted = {claim.id for claim in CLAIMS.values() if claim.measurement.name in ("pruning2024/built", COUNTED)}
    assert len(counted) == 14 and all(CLAIMS[name].rule.follows for name in counted)
    assert not any(CLAIMS[f"pruning2024/figure10/{name}-time"].rule.follows for name in ("v-moe", "e3"))
    smaller = small("pruning2024/built").copy()
    smaller["bytes"] = smaller["bytes"] * xr.where(smaller["kept"] == 2, 1.2, 1)
    assert verdict("pruning2024/figure1/v-moe-memory") == "follows"
    assert verdict("pruning2024/figure1/v-moe-memory", smaller) != "follows"


def test_experts_that_share_something_are_not_independent() -> None:
    data = small("pruning2024/independence")
    assert float(data["gap"].sel(kind="expert-choice").max()) == 0
    assert float(data["gap"].drop_sel(kind="expert-choice").min()) > 1e-4


def test_the_vision_model_has_as_many_parameters_as_the_released_one() -> None:
    assert V_MOE.parameters == 284_083_978


def test_the_start_and_not_the_noise_of_batches_decides_which_experts_grow() -> None:
    """With other batches of twice as many samples the same of 40 experts grow large."""
    large = [figures.figure3(trials=2, seed=0, batch=batch, device="cpu")["large"].values for batch in (100, 200)]
    assert 5 <= large[0].sum() <= 10
    assert (large[0] != large[1]).sum() <= 1
