"""The pruning Lab's picture and captions show what the records hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D

from moe_lab.drawing import theme
from moe_lab_widgets import PruningLab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.sheet import Sheet, integer
from moe_lab_widgets.drawing.strips import BLOCKS, columns
from moe_lab_widgets.drawing.words import short
from moe_lab_widgets.labs import pruning_seen as seen
from moe_lab_widgets.labs.pruning import LOW, NOTABLE
from moe_lab_widgets.labs.pruning_knobs import NAMES
from moe_lab_widgets.labs.pruning_record import OFFERED
from tests.widgets.cases import PRUNING
from tests.widgets.labs import Make, done, fixtures, pixels

make, _ = fixtures(PRUNING)
RANKED = [name for name in OFFERED if name != "token-count"]
"""Where experts choose, all receive equally many tokens."""
MARK = {"●", "✖", "■"}


def sheets(lab: Any, panel: int) -> list[Sheet]:
    return [one for one in lab.picture.placed[panel].content if isinstance(one, Sheet)]


def words(lab: Any, panel: int) -> list[str]:
    return [word for sheet in sheets(lab, panel) for word in sheet.words]


def boxes(lab: Any, panel: int, sheet: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns left, top, right, bottom of the boxes of a panel's bars, and their colours."""
    drawn = [one for one in sheets(lab, panel) if one.edges][sheet]
    return np.array(drawn.edges)[:, :4], np.array(drawn.fills)


def line(lab: Any, label: str) -> Line2D:
    (found,) = [one for one in lab.picture.placed[1].content if isinstance(one, Line2D) and one.get_label() == label]
    return found


def look(lab: Any) -> MarkRecord:
    """Returns the record on show, as the view-only knobs show it."""
    return MarkRecord(lab.record.seen_with(lab.values))


def trial_of(lab: Any, which: Callable[[MarkRecord], Any], trial: int = 0) -> np.ndarray:
    """Returns (expert,) of a trial."""
    return np.asarray(which(look(lab))[trial])


def plain(lab: Any, criterion: str) -> np.ndarray:
    """Returns (trial, rho) accuracies after pruning."""
    return lab.record.of()["pruned_accuracy"][:, list(OFFERED).index(criterion)]


# ---- panel 1 ----


@pytest.mark.parametrize("values", [{}, {"shown": 2}, {"experts": 20, "patterns": 160}, {"important": 1}])
def test_bars_are_the_changes_of_the_trial_on_show(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    trial = lab.values["shown"] - 1
    change, kept = lab.record.of()["norm_change"][trial], trial_of(lab, seen.kept, trial)
    count, ax = len(change), lab.picture.placed[0].axes[0]
    (_, top, _, bottom), fills = boxes(lab, 0)[0][:count].T, boxes(lab, 0)[1]
    high = 448 * ax.get_position().height * 480 / 448  # of the Axes, in pixels
    unit = high / (ax.get_ylim()[1] - ax.get_ylim()[0]) / 5.5  # of a change of 1; an axis ends at 5.5
    np.testing.assert_allclose(bottom - top, np.abs(change) * unit, atol=1e-6)
    written = [float(word) for word in words(lab, 0) if re.fullmatch(r"\d\.\d", word)]
    np.testing.assert_allclose(written, change[change >= NOTABLE], atol=0.051)
    own = np.where(kept, np.repeat(theme.CLASSES, count // 2), theme.REFERENCE)
    expected = [integer(colour) for colour in own]
    np.testing.assert_array_equal(fills[count : 2 * count], expected, "the end of every bar, however low")
    np.testing.assert_array_equal(fills[2 * count : 3 * count] > 0, kept, "only those that stay have a chip")
    assert sheets(lab, 0)[0].parts[1] == "expert 2, votes +" and len(set(columns(count))) == count


def test_bars_grow_while_it_trains_and_nothing_is_pruned_yet(make: Make) -> None:
    lab = done(make())
    heights = []
    for index in (0, 10, 20):
        lab.scrub(index)
        lab.wait(20)
        (_, top, _, bottom), fills = boxes(lab, 0)[0][:8].T, boxes(lab, 0)[1]
        heights.append((bottom - top).max())
        assert not fills[2 * 8 : 4 * 8].any(), "no chips, no scores"
        assert "in training: nothing is pruned yet" in words(lab, 1)
        x, y = line(lab, "not pruned").get_data()
        assert list(x) == [0] and y[0] == np.median(lab.record.of()["test_accuracy"])
        assert words(lab, 2).count("100 %") >= 2, "memory and operations"
    assert 0 == heights[0] < heights[1] < heights[2]


def test_a_change_beyond_the_axis_ends_at_its_edge_with_a_mark(make: Make) -> None:
    lab = done(make())
    lab.record.of().values["norm_change"][0, 3] = 12.0
    lab.picture.show(lab.record)
    assert boxes(lab, 0)[0][3, 1] == pytest.approx(86, abs=0.01), "the top of the Axes"
    assert "▲12.0" in words(lab, 0)


def test_the_lower_bars_are_the_criterion_s_scores(make: Make) -> None:
    lab = done(make(rho=0.5))
    for criterion in RANKED:
        done(lab, criterion=criterion)
        edges, fills = (one[24:32] for one in boxes(lab, 0))
        if criterion == "router-norm-change":
            assert not fills.any() and "norm change = Δ, as drawn above (the largest stay)" in words(lab, 0)
            continue
        shown, kept = edges[:, 3] - edges[:, 1], trial_of(lab, seen.kept)
        assert shown.min() > 0 and shown.max() == pytest.approx(67, abs=1)
        scores = lab.record.of()["score"][0, list(OFFERED).index(criterion)]
        np.testing.assert_array_equal(np.argsort(shown), np.argsort(scores))
        assert any(word.startswith(f"{NAMES[criterion]} = ") for word in words(lab, 0))
        for side in (slice(0, 4), slice(4, 8)):
            assert kept[side].sum() == 2 and shown[side][kept[side]].min() >= shown[side][~kept[side]].max()


def test_carriers_have_their_pattern_and_a_cross_where_their_class_is_lost(make: Make) -> None:
    lab = done(make(criterion="reversed-norm-change", rho=0.75))
    lost = trial_of(lab, seen.lost)
    assert lost.any(), "the test needs a class that is lost"
    assert words(lab, 0).count("✖") == lost.sum()
    done(lab, criterion="router-norm-change")
    said, carriers = words(lab, 0), trial_of(lab, seen.carriers)
    counted = [carriers[:4].sum(), carriers[4:].sum()]
    assert "✖" not in said and [said.count(name) for name in theme.CLASS_NAMES] == counted


# ---- panels 2 and 3 ----


@pytest.mark.parametrize("fine_tune", [False, True])
def test_the_curves_are_medians_over_the_trials(make: Make, fine_tune: bool) -> None:
    lab = done(make(trials=3, criterion="router-magnitude", fine_tune=fine_tune, steps=15, rho=0.5))
    values = {name: np.asarray(seen.on_show(look(lab))[:, list(OFFERED).index(name)]) for name in RANKED}
    for name in RANKED:
        x, y = line(lab, NAMES[name]).get_data()
        np.testing.assert_allclose(x, [0, 0.25, 0.5, 0.75])
        np.testing.assert_allclose(y, np.median(values[name], axis=0))
    if fine_tune:
        before = line(lab, "router norm, without fine-tuning").get_ydata()
        np.testing.assert_allclose(before, np.median(plain(lab, "router-magnitude"), axis=0))
    for name, kind in (("random", "at random"), ("router-magnitude", "by the criterion")):
        ends = np.maximum([values[name][:, 2].min(), values[name][:, 2].max()], LOW)
        np.testing.assert_allclose(line(lab, f"ρ, range of the trials {kind}").get_ydata(), ends)
    assert any("fine-tuned 20 steps" in word for word in words(lab, 1)) == fine_tune


def test_the_chosen_criterion_chance_and_the_best_other_are_inked_and_named_and_no_names_touch(make: Make) -> None:
    lab = done(make())
    for chosen in RANKED:
        done(lab, criterion=chosen)
        medians = {name: np.median(plain(lab, name), axis=0).mean() for name in RANKED}
        others = [name for name in RANKED if name not in (chosen, "random")]
        firm = [name for name in RANKED if line(lab, NAMES[name]).get_color() == theme.INK]
        assert {chosen, "random"} <= set(firm) and len(firm) == (2 if chosen == "random" else 3)
        for name in set(firm) - {chosen, "random"}:
            assert medians[name] == max(medians[other] for other in others)
        (names,) = [one for one in sheets(lab, 1) if MARK & {word[:1] for word in one.words}]
        assert {word[2:] for word in names.words if word} == {NAMES[name] for name in firm}
        assert names.words[-1] == f"● {NAMES[chosen]}", "the mark of its line"
        inks, places = names.words_at(1.0)
        (x, y), tall = places.T, [ink.shape[0] for ink in inks]
        there = np.array([bool(word) for word in names.words])
        assert (np.diff(np.sort(y[there])) >= min(tall)).all() and (x > 938 - 152).all()


def test_between_two_values_rho_is_the_lower_one(make: Make) -> None:
    lab = done(make(rho=0.7))
    assert "ρ = 0.70: 2 of 4 in each half" in words(lab, 1), "and not 3"


@pytest.mark.parametrize("values", [{}, {"routing": "token-choice", "top": 2}])
def test_the_blocks_are_shares(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(rho=0.75, criterion="importance-score", **values))
    found = seen.outcome(look(lab))
    shares = np.array([np.median(found.plain), float(found.memory), float(found.operations)])
    edges, fills = boxes(lab, 2, sheet=1)
    inked = np.where(fills > 0, edges[:, 2] - edges[:, 0], 0).reshape(3, BLOCKS)
    np.testing.assert_allclose(inked.sum(1) / inked.max() / BLOCKS, shares, atol=0.1 / BLOCKS)
    said = words(lab, 2)
    assert all(short(share) in said for share in shares) and ("routers stay" in said) == bool(values)


def test_the_axis_of_changes_stays_but_for_longer_steps(make: Make) -> None:
    lab = done(make())
    ticks = lab.picture.placed[0].axes[0].get_yticks()
    done(lab, steps=20)
    np.testing.assert_array_equal(lab.picture.placed[0].axes[0].get_yticks(), ticks)
    done(lab, steps=120)
    assert len(lab.picture.placed[0].axes[0].get_yticks()) > len(ticks), "eta_r T = 12"


def test_no_words_leave_their_panel(make: Make) -> None:
    lab = done(make(trials=10, fine_tune=True, loss="hinge", rho=0.95))
    lab.record.of().values["norm_change"][9, ::2] = 4.0
    lab.pin()
    count = 0
    for criterion in OFFERED:
        for rho in (0.0, 0.95):
            lab.picture.set_view(
                {"rho": rho, "criterion": criterion, "fine_tune": True, "tuning_steps": 200, "shown": 10}
            )
            lab.picture.show(lab.record)
            for number, placed in enumerate(lab.picture.placed):
                for sheet in sheets(lab, number):
                    inks, places = sheet.words_at(1.0)
                    for said, ink, (left, _) in zip(sheet.words, inks, places, strict=True):
                        assert placed.span[0] <= left and left + ink.shape[1] <= placed.span[1], said
                        count += 1
    assert count > 100


# ---- captions ----


def test_captions_tell_start_training_and_pruning(make: Make) -> None:
    lab = done(make(trials=3))
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("This is the checkpoint, whose routers have not moved. Its accuracy is ")
    growing = [(record.of(), said) for record, said in zip(lab.records, captions, strict=True) if record.step]
    for now, said in growing:
        if np.isnan(now["undefined"]).all():
            grown = int((now["norm_change"][0] >= 1.5 * np.log(5)).sum())
            routers = {0: "no router has", 1: "1 router has"}.get(grown, f"{grown} of 8 routers have")
            assert said.startswith(f"Trial 1: {routers} grown past 1.5 log l = 2.41")
    median = short(np.median(seen.outcome(look(lab)).plain))
    assert captions[-1].startswith(f"6 of 8 experts are pruned by norm change. The accuracy is {median} (at random")
    chance = plain(lab, "random")[:, 3]
    assert f"(at random {short(np.median(chance))}, worst trial {short(chance.min())})" in captions[-1]
    assert "Memory and FLOPs fall to 25 %." in captions[-1]
    assert captions[-1] in lab.screen.caption.value
    done(lab, rho=0.0)
    assert lab.caption(lab.record).startswith("Nothing is pruned: all 8 experts are left, and the accuracy is ")
    done(lab, rho=0.5, criterion="random")
    assert "pruned at random." in lab.caption(lab.record) and "(at random" not in lab.caption(lab.record)
    done(lab, fine_tune=True)
    found = np.asarray(seen.outcome(look(lab)).tuned)
    tuned = f"after 20 steps of fine-tuning {short(np.median(found))} (worst trial {short(found.min())})"
    assert tuned in lab.caption(lab.record)
    done(lab, rho=0.0)
    assert "0 of 8 experts are pruned" in lab.caption(lab.record) and "emory" not in lab.caption(lab.record)


def test_the_caption_says_that_no_router_has_grown_yet_and_that_none_moves_with_one_token(make: Make) -> None:
    lab = done(make())
    early = lab.caption(lab.records[1])
    assert early.startswith("Trial 1: no router has grown past 1.5 log l = 2.41 yet. The accuracy is ")
    lab = done(make(top=1))
    assert lab.caption(lab.records[1]).startswith("No router moves when l = 1. The accuracy is ")


def test_a_failure_is_said_with_its_experts(make: Make) -> None:
    lab = done(make(criterion="reversed-norm-change", rho=0.75))
    lost = np.flatnonzero(trial_of(lab, seen.lost))
    ones, twos = lost[lost < 4], lost[lost >= 4]
    assert len(ones) and len(twos)
    said = lab.caption(lab.record)
    for experts, pattern in ((ones, "o₁"), (twos, "o₂")):
        numbers = " and ".join(", ".join(str(expert + 1) for expert in experts).rsplit(", ", 1))
        assert re.search(rf"experts? {numbers}, which (alone carries|carry) {pattern}", said)
    assert said.count("In trial 1 reversed Δ removed") == 1
    lab.record.of()["proficiency"][0, :4] = 0
    assert "In trial 1 no expert that votes + carries o₁, against the assumption." in lab.caption(lab.record)


def test_routers_that_stay_cost_memory_and_the_caption_says_both(make: Make) -> None:
    lab = done(make(routing="token-choice", top=2, rho=0.75))
    found = seen.outcome(look(lab))
    assert f"Memory falls to {short(float(found.memory))}, FLOPs to {short(float(found.operations))}." in lab.caption(
        lab.record
    )
    assert found.memory > 0.25


# ---- time, pins, colours ----


def test_scrubbing_shows_an_earlier_record_as_it_was(make: Make) -> None:
    lab = done(make(fine_tune=True))
    now = pixels(lab)
    known = [np.isfinite(record.of()["tuned_accuracy"]).any() for record in lab.records]
    index = known.index(True)  # the first ten steps of fine-tuning
    lab.scrub(index)
    lab.wait(20)
    assert "after 10 steps of fine-tuning" in lab.caption(lab.record)
    assert not np.array_equal(pixels(lab), now)
    lab.scrub(None)
    lab.wait(20)
    np.testing.assert_array_equal(pixels(lab), now)


def test_a_pinned_curve_keeps_its_numbers(make: Make) -> None:
    lab = done(make())
    lab.pin()
    kept = np.median(plain(lab, "router-norm-change"), axis=0)
    for values in ({"criterion": "random"}, {"top": 3}):
        done(lab, **values)
        np.testing.assert_array_equal(line(lab, "norm change, pinned").get_ydata(), kept)
        assert "thin: pinned" in words(lab, 1)


def test_the_trial_on_show_is_one_that_there_is(make: Make) -> None:
    lab: PruningLab = done(make())
    lab.picture.set_view({**{name: lab.values[name] for name in PRUNING.views}, "shown": 9})
    lab.picture.show(lab.record)
    assert any(word.startswith("trial 2 of 2") for word in words(lab, 0))
