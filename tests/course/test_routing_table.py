"""Routing a table that can be read: against loops over its rows and columns, with its labels kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from moe_lab.course.routing_table import route
from moe_lab.exercises import TABLE

POWERS = pd.DataFrame(TABLE.T, index=["A", "B", "C"], columns=list("wxyz"))
SCORES = np.log(POWERS)


def shares(powers: pd.Series, chosen: list[str]) -> pd.Series:
    """What each of the chosen has of their sum; 0 for the others."""
    return powers.where(powers.index.isin(chosen), 0.0) / powers[chosen].sum()


def best(powers: pd.Series, count: int) -> list[str]:
    """The labels of the largest numbers; of equal ones the first."""
    return list(powers.sort_values(ascending=False, kind="stable").index[:count])


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_in_expert_choice_every_row_keeps_l_patches(kept):
    expected = POWERS.apply(lambda row: shares(row, best(row, kept)), axis=1)
    pd.testing.assert_frame_equal(route(SCORES, "expert-choice", l=kept), expected)


@pytest.mark.parametrize("top", [1, 2, 3])
def test_in_token_choice_every_column_goes_to_its_top_experts(top):
    expected = POWERS.apply(lambda column: shares(column, best(column, top)))
    pd.testing.assert_frame_equal(route(SCORES, "token-choice", top=top), expected)


def test_switch_chooses_with_noise_and_weighs_without():
    noise = np.zeros((3, 4))
    noise[2, 0] = 1
    for pushed, winners in ((None, "ABBB"), (noise, "CBBB"), (pd.DataFrame(noise), "CBBB")):
        gates = route(SCORES, "switch", noise=pushed)
        kept = [gates.index[gates[patch] > 0].tolist() for patch in gates]
        assert kept == [[winner] for winner in winners]
        softmax = POWERS / POWERS.sum()
        pd.testing.assert_frame_equal(gates, softmax.where(gates > 0, 0.0))


@pytest.mark.parametrize(
    ("rule", "settings", "said"),
    [
        ("expert-choice", {}, "l must be from 1 to the 4 patches: got l=None"),
        ("expert-choice", {"l": 5}, "l must be from 1 to the 4 patches: got l=5"),
        ("expert-choice", {"l": True}, "l must be from 1 to the 4 patches: got l=True"),
        ("token-choice", {"top": 0}, "top must be from 1 to the 3 experts: got top=0"),
        ("token-choice", {"l": 2}, "l belongs to expert-choice, not to token-choice: got l=2"),
        ("switch", {"noise": np.ones((2, 2))}, r"noise must be a table like scores: got noise=\(2, 2\)"),
        (
            "switch",
            {"noise": "loud"},
            r"noise must be an array of numbers: got noise='loud'",
        ),
        ("experts", {"l": 2}, "rule must be one of 'expert-choice', 'token-choice', 'switch': got rule='experts'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(rule, settings, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        route(SCORES, rule, **settings)


@pytest.mark.parametrize("scores", [SCORES.to_numpy(), SCORES * np.nan, pd.DataFrame({"w": ["high"]}), SCORES.iloc[:0]])
def test_what_is_no_table_of_scores_is_refused(scores):
    with pytest.raises(ValueError, match=r"scores must (be a DataFrame|hold (finite )?numbers|be a table)"):
        route(scores, "switch")
