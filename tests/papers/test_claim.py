"""Rules judge as they say, and what cannot be judged is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from moe_lab_papers.claim import Published, Rule, sentence
from moe_lab_papers.ranges import at_least, at_most, near


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.9, 1.1], "agrees"),
        ([0.5, 1.3], "agrees"),  # the closed end of the range
        ([0.5, 0.7], "in kind"),
        ([0.4, 0.4], "differs"),
        ([math.nan, 1.0], "differs"),
        ([math.inf, 1.0], "differs"),
    ],
)
def test_a_rule_judges_the_mean_of_the_trials(values: list[float], verdict: str) -> None:
    assert Rule(agrees=(0.9, 1.1), in_kind=(0.5, 10.0)).leaning(np.array(values)) == verdict


@pytest.mark.parametrize(("of", "number"), [("mean", 2.0), ("median", 1.0), ("lowest", 0.0), ("highest", 5.0)])
def test_a_rule_judges_the_number_that_it_names(of: str, number: float) -> None:
    rule = Rule(agrees=(number, number), of=of)
    assert rule.leaning(np.array([0.0, 1.0, 5.0])) == "agrees"
    assert of in rule.words
    others = {"mean", "median", "lowest", "highest"} - {of}
    assert all(
        Rule(agrees=(number, number), of=other).leaning(np.array([0.0, 1.0, 5.0])) == "differs" for other in others
    )


def test_without_a_number_to_meet_a_claim_agrees_in_kind_at_most() -> None:
    rule = Rule(in_kind=at_least(0.5))
    assert rule.leaning(np.array([0.7])) == "in kind"
    assert rule.leaning(np.array([0.3])) == "differs"


@pytest.mark.parametrize(
    ("bounds", "words"),
    [((0.5, 1.0), "between 0.5 and 1"), ((2.0, 2.0), "2"), (at_least(2), "at least 2"), (at_most(0.1), "at most 0.1")],
)
def test_a_range_in_words(bounds: tuple[float, float], words: str) -> None:
    assert Rule(agrees=bounds).words == f"agrees if the mean over trials is {words}"


def test_near_is_symmetric() -> None:
    assert near(4, 0.5) == (3.5, 4.5)


def test_what_is_published_in_words() -> None:
    assert Published(value=0.93, spread=0.03).words == "0.93 ± 0.03"
    assert Published(relation="rises").words == "rises"
    assert Published(value=4, relation="of 20").words == "4 (of 20)"


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="a rule needs a range"):
        Rule()
    with pytest.raises(ValueError, match="from low to high"):
        Rule(agrees=(1, 0))
    with pytest.raises(ValueError, match="a rule judges one of mean, median, lowest, highest"):
        Rule(agrees=(0, 1), of="mode")
    with pytest.raises(ValueError, match="a paper publishes a value or a relation"):
        Published()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("the gates are found", "The gates are found."),
        ("l* patches suffice.", "l* patches suffice."),
        ("k experts", "k experts."),
        ("a router", "A router."),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_with_a_symbol(words: str, expected: str) -> None:
    assert sentence(words) == expected
