"""The table of scores: its routing against plain loops, its words, and what it refuses."""

from __future__ import annotations

import html

import numpy as np
import pytest

from moe_lab.exercises.routing import TABLE
from moe_lab_widgets import RoutingTable
from moe_lab_widgets.by_hand.fates import as_html, in_words
from tests.helpers.living import living_widgets
from tests.solutions import routing


def by_loops(powers: np.ndarray, kept: int, picked: int) -> list[np.ndarray]:
    """Gates of expert choice, token choice and switch without noise, entry by entry; ties go to the lowest index."""
    experts, patches = powers.shape
    choice, token, switch = (np.zeros((experts, patches)) for _ in range(3))
    for s in range(experts):
        best = sorted(range(patches), key=lambda j: (-powers[s, j], j))[:kept]
        for j in best:
            choice[s, j] = powers[s, j] / sum(powers[s, i] for i in best)
    for j in range(patches):
        order = sorted(range(experts), key=lambda s: (-powers[s, j], s))
        for s in order[:picked]:
            token[s, j] = powers[s, j] / sum(powers[i, j] for i in order[:picked])
        switch[order[0], j] = powers[order[0], j] / powers[:, j].sum()
    return [choice, token, switch]


def test_every_setting_gives_the_gates_of_plain_loops() -> None:
    table, random = RoutingTable(TABLE.T), np.random.default_rng(0)
    for _ in range(20):
        for row in table.entries:
            for one in row:
                one.value = int(random.integers(1, 10))
        table.kept.value, table.picked.value = int(random.integers(1, 5)), int(random.integers(1, 4))
        for fate, expected in zip(
            table.fates, by_loops(table.powers, table.kept.value, table.picked.value), strict=True
        ):
            np.testing.assert_allclose(fate.gates, expected, atol=1e-12)
        assert [shown.value for shown in table.tables] == [as_html(fate) for fate in table.fates]
        assert table.sentence in table.words.value
    table.reset()
    np.testing.assert_array_equal(table.powers, TABLE.T)


def test_it_says_who_is_dropped_and_who_is_idle() -> None:
    table = RoutingTable(TABLE.T)
    assert table.sentence == (
        "Expert choice drops patch 4. Token choice leaves expert 3 idle. Switch leaves expert 3 idle."
    )
    table.kept.value = 4
    assert table.sentence.startswith("Expert choice uses every patch and gives all experts equally many.")
    table.kept.value = 1
    assert "drops patches 3 and 4" in table.sentence
    text = table.tables[0].value
    assert text.count("× dropped") == 2 and text.count("1 patch<") == 3
    table.picked.value = 3
    assert in_words(table.fates[1:2]) == "Token choice uses every patch and gives all experts equally many."


def test_noise_wakes_the_idle_expert_and_a_seed_repeats_it() -> None:
    table = RoutingTable(TABLE.T)
    table.noise.value = 3.0
    first = table.fates[2].gates
    woken = []
    for seed in range(12):
        table.seed.value = seed
        woken.append((table.fates[2].gates[2] > 0).any())
    assert any(woken) and not all(woken)
    table.seed.value = 0
    np.testing.assert_array_equal(table.fates[2].gates, first)


def test_it_keeps_a_picture_and_frees_its_widgets() -> None:
    before = living_widgets()
    table = RoutingTable(TABLE.T)
    assert table.png().startswith(b"\x89PNG")
    table.close()
    assert living_widgets() == before


@pytest.mark.parametrize(
    ("powers", "rule"),
    [
        ([1, 2], r"the axes \(experts, patches\): got shape=\(2,\)"),
        ([[1, 2]], r"two to 4 experts .* got shape=\(1, 2\)"),
        (np.ones((2, 9)), "two to 6 patches"),
        ([[1, 2], [3, 10]], "whole numbers from 1 to 9"),
        ([[1, 2], [3, 1.5]], "whole numbers from 1 to 9"),
        ([[1, 2], [3, np.nan]], "whole numbers from 1 to 9"),
    ],
)
def test_what_is_no_table_is_refused(powers: object, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        RoutingTable(powers)  # type: ignore[arg-type]


def test_functions_of_a_learner_route_in_place_of_the_library_and_a_menu_goes_back() -> None:
    solved = routing.top_l, routing.token_choice, routing.switch
    table, library = RoutingTable(TABLE.T, *solved), RoutingTable(TABLE.T)
    for turn in range(4):
        for one in (table, library):
            for row, numbers in zip(one.entries, np.random.default_rng(turn).integers(1, 10, (3, 4)), strict=True):
                for cell, number in zip(row, numbers, strict=True):
                    cell.value = int(number)
            one.kept.value, one.picked.value, one.noise.value = 1 + turn % 3, 1 + turn % 2, 0.5 * turn
        for mine, theirs in zip(table.fates, library.fates, strict=True):
            np.testing.assert_allclose(mine.gates, theirs.gates, atol=1e-12)
            assert mine.name.startswith(f"{theirs.name}, by your ")
    assert "by your top_l" in table.tables[0].value
    assert table.routed_by is not None and library.routed_by is None
    table.routed_by.value = "the library"
    assert [fate.name for fate in table.fates] == [fate.name for fate in library.fates]


def test_what_a_function_of_a_learner_gets_wrong_is_said() -> None:
    def top_l(scores: np.ndarray, count: int) -> np.ndarray:
        if count > 2:
            raise ZeroDivisionError("no idea")
        return routing.top_l(scores, count)

    table = RoutingTable(TABLE.T, top_l)
    shown = table.tables[0].value
    table.kept.value = 3
    assert "top_l must run before it can be tried: ZeroDivisionError: no idea" in html.unescape(table.words.value)
    assert table.tables[0].value == shown
    table.kept.value = 1
    assert table.sentence in table.words.value

    def unsolved(*given: object) -> None:
        return None

    for name, rule in (("top_l", "top_l must"), ("switch", "switch must"), ("gate", "called as their exercises are")):
        unsolved.__name__ = name
        with pytest.raises(ValueError, match=rule):
            RoutingTable(TABLE.T, unsolved)
