"""What is specific to pruning2024: what a criterion tolerates, rules that turn on wrong data, and sizes of models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from moe_lab.pruning import figures
from moe_lab_papers.pruning2024.criteria import tolerated
from moe_lab_papers.pruning2024.measures import V_MOE
from moe_lab_papers.ranges import half_to_double
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
        ("figure1/experts-pretrained", "random", "in kind", "differs"),
        ("figure4b/experts-pretrained", "random", "in kind", "in kind"),
        ("figure4a/random-pretrained", "random", "in kind", "differs"),
        ("figure9a/outperforms", "importance_score", "in kind", "differs"),
        ("figure9c/outperforms", "neuron_magnitude_change", "in kind", "differs"),
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
    assert verdict(place, ahead) == "in kind"
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
    """What the paper shows without a number agrees in kind at most."""
    good = ("agrees", "follows") if CLAIMS[f"pruning2024/{place}"].rule.agrees else ("in kind",)
    assert verdict(f"pruning2024/{place}") in good
    assert turned(f"pruning2024/{place}", wrong) not in good


@pytest.mark.parametrize(("alone", "found"), [((0.8, 0.85), "in kind"), ((0.85, 0.8), "differs")])
def test_the_penultimate_mixture_is_compared_with_the_last(alone: tuple[float, float], found: str) -> None:
    data = xr.Dataset({"alone": (("trial", "block"), [alone])}, {"block": [1, 3]})
    assert verdict("pruning2024/section5.2.1/penultimate-v-moe", data) == found


def test_what_is_only_counted_follows() -> None:
    """Also where an architecture is built for it; times are measured."""
    counted = {claim.id for claim in CLAIMS.values() if claim.measurement.name in ("pruning2024/built", COUNTED)}
    assert len(counted) == 9 and all(CLAIMS[name].rule.follows for name in counted)
    assert not any(CLAIMS[f"pruning2024/figure10/{name}-time"].rule.follows for name in ("v-moe", "e3"))
    smaller = small("pruning2024/built").copy()
    smaller["operations"] = smaller["operations"] * xr.where(smaller["kept"] == 2, 1.6, 1)
    assert verdict("pruning2024/figure6/v-moe-built-operations") == "in kind"
    assert verdict("pruning2024/figure6/v-moe-built-operations", smaller) == "differs"


def test_no_range_of_a_saving_is_made_for_what_is_measured() -> None:
    """From half to twice the published saving, for every model and quantity; and the layer's agree with none."""
    names = ("pruning2024/built", COUNTED, "pruning2024/v-moe-time", "pruning2024/e3-time")
    savings = [claim for claim in CLAIMS.values() if claim.measurement.name in names]
    for claim in (*savings, CLAIMS["pruning2024/figure1/time-saved"]):
        assert claim.published.value is not None
        assert claim.rule.in_kind == half_to_double(claim.published.value), claim.id
    assert len(savings) == 11 and not any("memory-saved" in name or "operations-saved" in name for name in CLAIMS)


def test_operations_on_imagenet_rest_on_what_the_paper_states() -> None:
    """Appendix A has 577 tokens, section 5.2.1 has 42 % of the experts: 20 of 48."""
    assert "577 tokens of appendix A" in CLAIMS["pruning2024/figure10/imagenet-operations"].reason
    assert round(20 / 48, 2) == 0.42


def test_lemma_4_2_is_not_judged_where_its_proof_assumes_a_margin() -> None:
    for name in ("i-proficiency", "ii-norm-change"):
        random = CLAIMS[f"pruning2024/lemma4.2/{name}-random-start"]
        assert random.not_comparable.startswith("the proof's assumption is not met")
        assert not CLAIMS[f"pruning2024/lemma4.2/{name}"].not_comparable


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
