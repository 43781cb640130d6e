"""The form in which claims are written: what is derived, what stands once, and mistakes that are found on loading."""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.findings import Finding, judged
from moe_lab_papers.claim import Needs, Rule
from moe_lab_papers.paper import Measured, Paper, budgets, says
from moe_lab_papers.ranges import at_least, at_most, factor_of_two, near, plus_minus, share_from, up_to
from moe_lab_papers.readers import at


def squares(numbers: tuple[int, ...], trials: int, seed: int = 0, *, power: int = 2) -> xr.Dataset:
    """Squares with noise."""
    noise = np.random.default_rng(seed).standard_normal((len(numbers), trials))
    values = np.array(numbers)[:, None] ** power + noise
    return xr.Dataset({"square": (("number", "trial"), values)}, {"number": list(numbers)})


def on_device(root: str, device: str = "cpu", **settings: int) -> xr.Dataset:
    """Takes any setting, and nothing is random."""
    return xr.Dataset({"square": len(root) + sum(settings.values())}, attrs={"device": device})


def measured(**changes: object) -> Measured:
    return Paper("gated2019", picture="x:picture").measure(
        "squares",
        squares,
        **{"seconds": (1, 2), "numbers": (1, 2), "trials": budgets(3, 5, paper=40), **changes},  # type: ignore[arg-type]
    )


def test_what_a_call_needs_is_seen_from_its_signature() -> None:
    one = measured().measurement
    assert (one.name, one.function) == ("gated2019/squares", f"{__name__}:squares")
    assert (one.seeded, one.device, one.picture, one.split) == (True, False, "", None)
    needs = Needs(what="files", argument="root", pattern="*")
    other = Paper("gated2019", picture="x:picture").measure(
        "files", on_device, seconds=(1, 2), sees="what is there to see", needs=needs, split="size", size=(3, 4)
    )
    two = other.measurement
    assert (two.seeded, two.device, two.picture) == (False, True, "x:picture")
    assert (two.split, two.needs) == (("size", "size"), needs)


def test_an_argument_is_the_same_in_all_budgets_or_has_one_for_each() -> None:
    one = measured(power=budgets(full=3)).measurement
    assert one.arguments("quick") == {"numbers": (1, 2), "trials": 3}
    assert one.arguments("full") == {"numbers": (1, 2), "trials": 5, "power": 3}
    assert one.arguments("paper") == {"numbers": (1, 2), "trials": 40, "power": 3}
    assert list(one.arguments("full")) == ["numbers", "trials", "power"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"number": 3}, TypeError, "unexpected keyword argument 'number'"),
        ({"numbers": budgets(full=(1, 2))}, TypeError, "missing a required argument: 'numbers'"),
        ({"trials": budgets(3)}, TypeError, "missing a required argument: 'trials'"),
        ({"split": "samples"}, ValueError, "a measurement is split along an argument"),
        ({"needs": Needs(what="files", argument="root", pattern="*")}, TypeError, "'root'"),
    ],
)
def test_wrong_and_missing_arguments_are_found_on_loading(
    changes: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        measured(**changes)


def test_claims_keep_their_order_and_take_what_they_do_not_state_from_the_call() -> None:
    call = measured(where="table 1", unit="squares", reason="too small", not_comparable="other numbers")
    said = says(4).agrees(plus_minus(0.5))
    call.claim("table1/two", "two squared is four", at("square", number=2), said)
    own = {"not_comparable": "", "where": "table 2", "unit": ""}
    call.claim("table1/other", "two squared is four", at("square", number=2), said, "", **own)
    first, second = call.paper.claims
    assert (first.id, first.where, first.unit) == ("gated2019/table1/two", "table 1", "squares")
    assert (first.reason, first.not_comparable) == ("too small", "other numbers")
    assert (second.where, second.unit, second.reason, second.not_comparable) == ("table 2", "", "", "")
    assert first.measurement is second.measurement and first.published is said.published
    assert first.values(squares((1, 2), 3)).shape == (3,)


def test_a_call_of_another_file_takes_claims_of_this_one() -> None:
    call, paper = measured(where="table 1"), Paper("gated2019")
    paper.again(call).claim("table1/two", "two squared is four", at("square", number=2), says(4).agrees(near(4, 1)))
    assert call.paper.claims == [] and paper.claims[0].where == "table 1"
    assert paper.claims[0].measurement is call.measurement


@pytest.mark.parametrize(
    ("id", "where"),
    [("figure4/x", "figure 4"), ("lemmaE.2/x", "lemma E.2"), ("section5.2.1/x", "section 5.2.1"), ("eq8/x", "eq 8")],
)
def test_the_place_is_that_in_the_id(id: str, where: str) -> None:
    call = measured()
    call.claim(id, "two squared is four", at("square", number=2), says("it is").in_kind(near(4, 1)))
    assert call.paper.claims[0].where == where


def test_what_a_paper_says_has_a_number_words_or_both() -> None:
    assert says(0.6, "of all", bound="at most").words == "at most 0.6 (of all)"
    assert says("rises").value is None and says("rises").words == "rises"
    assert says(0.9, spread=0.04).words == "0.9 ± 0.04"


def test_ranges_follow_from_the_published_number() -> None:
    said = says(0.6)
    assert said.agrees(plus_minus(0.05)).rule == Rule(agrees=near(0.6, 0.05))
    both = said.agrees(plus_minus(relative=0.1), factor_of_two(without=1)).rule
    assert both.agrees == near(0.6, 0.1 * 0.6) and both.in_kind == pytest.approx((0.2, 0.8))
    assert said.in_kind(at_most, of="highest").rule == Rule(in_kind=(-math.inf, 0.6), of="highest")
    assert said.follows(at_least).rule == Rule(agrees=(0.6, math.inf), follows=True)
    assert said.in_kind(share_from(0.5)).rule == Rule(in_kind=share_from(0.5))
    assert says("rises").in_kind(up_to(2)).rule == Rule(in_kind=(0, 2))
    with pytest.raises(ValueError, match="needs one: 'rises' has none"):
        says("rises").in_kind(at_least)
    with pytest.raises(ValueError, match="a rule judges one of mean, median, lowest, highest"):
        said.agrees(near(0, 1), of="most")


def test_an_erratum_stands_above_the_function_that_checks_it() -> None:
    paper = Paper("gated2019")

    @paper.erratum("eq1-sign", "eq. 1", printed="+", instead="-", evidence="it is negative")
    def sign() -> Finding:
        return Finding("eq. 1", judged(True, True), "It is -1.", {})

    paper.erratum("eq2-index", "eq. 2", printed="i", instead="j", evidence="the sum is over j")
    first, second = paper.errata
    assert (first.id, first.printed, first.instead, first.check) == ("gated2019/eq1-sign", "+", "-", sign)
    assert (second.id, second.where, second.evidence, second.check) == (
        "gated2019/eq2-index",
        "eq. 2",
        "the sum is over j",
        None,
    )
    assert sign().holds
