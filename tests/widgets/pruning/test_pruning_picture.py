"""The pruning Lab's picture and captions show what the records hold."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from moe_lab import theme
from moe_lab_widgets import PruningLab
from moe_lab_widgets.pruning.panels.bars import NOTABLE, Bars
from moe_lab_widgets.pruning.panels.blocks import BLOCKS, Blocks, short
from moe_lab_widgets.pruning.panels.drops import DROP, GAP, NEAR, beside_drops, crossing
from moe_lab_widgets.pruning.record import outcome, view_of
from moe_lab_widgets.pruning.settings import NAMES, OFFERED
from tests.widgets.cases import PRUNING
from tests.widgets.labs import Make, colours, done, fixtures, pixels

make, _ = fixtures(PRUNING)
RANKED = [name for name in OFFERED if name != "token-count"]
"""Where experts choose, all receive equally many tokens."""


def _at(lab: PruningLab, x: float, y: float) -> tuple[int, ...]:
    """The colour at a place of the live picture."""
    return tuple(int(one) for one in pixels(lab)[round(y), round(x)])


def _colour(name: str) -> tuple[int, ...]:
    return tuple(int(one) for one in theme.rgba(name)[:3])


# ---- panel 1 ----


@pytest.mark.parametrize("values", [{}, {"shown": 2}, {"experts": 20, "patterns": 160}, {"important": 1}])
def test_bars_are_the_changes_of_the_trial_on_show(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    bars, trial = lab.picture.bars, lab.values["shown"] - 1
    change = lab.record.shot["norm_change"][trial]
    np.testing.assert_allclose(bars.heights, change / bars._most * (Bars.ZERO - Bars.TOP), atol=1e-9)
    written = [float(word) for word in bars.sheet.words if re.fullmatch(r"\d\.\d", word)]
    np.testing.assert_allclose(written, change[change >= NOTABLE], atol=0.051)
    kept = lab.record.pruned.kept["router-norm-change"][lab.picture.view.count(len(change) // 2), trial].numpy()
    np.testing.assert_array_equal(bars.kept, kept)
    half = len(change) // 2
    for expert in range(len(change)):  # every bar's cap is there, however low, in its class's colour or grey
        expected = _colour(theme.CLASSES[expert // half] if kept[expert] else theme.REFERENCE)
        assert _at(lab, bars._x(expert), bars.ZERO - bars.heights[expert] - 1) == expected
        chip = _at(lab, bars._x(expert) - min(bars._slot - 2, 21) / 2 + 2, Bars.CHIPS + 2)
        assert chip == (_colour(theme.CLASSES[expert // half]) if kept[expert] else _colour(theme.PAPER))


def test_bars_grow_while_it_trains_and_nothing_is_pruned_yet(make: Make) -> None:
    lab = done(make())
    heights = []
    for index in (0, 10, 20):
        lab.scrub(index)
        lab.wait(20)
        assert lab.record.step == index and lab.picture.bars.kept is None
        heights.append(lab.picture.bars.heights.max())
        assert "in training: nothing is pruned yet" in lab.picture.curves.sheet.words
        x, y = lab.picture.curves.chosen.get_data()
        assert list(x) == [0] and 0 <= y[0] <= 1
        assert lab.picture.blocks.shares[1:] == (1.0, 1.0)
    assert 0 == heights[0] < heights[1] < heights[2]


def test_a_change_beyond_the_axis_ends_at_its_edge_with_a_mark(make: Make) -> None:
    lab = done(make())
    lab.record.shot.values["norm_change"][0, 3] = 12.0
    lab.picture.show(lab.record)
    assert lab.picture.bars.heights[3] == Bars.ZERO - Bars.TOP
    assert "▲12.0" in lab.picture.bars.sheet.words


def test_the_lower_bars_are_the_criterion_s_scores(make: Make) -> None:
    lab = done(make(rho=0.5))
    for criterion in RANKED:
        done(lab, criterion=criterion)
        scores = lab.record.pruned.scores[criterion][0]
        shown = lab.picture.bars.scored
        assert shown is not None and shown.min() >= 0 and shown.max() == pytest.approx(1)
        np.testing.assert_array_equal(np.argsort(shown), np.argsort(scores))
        for side in (slice(0, 4), slice(4, 8)):
            kept = lab.picture.bars.kept[side]
            assert kept.sum() == 2 and shown[side][kept].min() >= shown[side][~kept].max()


def test_carriers_have_their_tile_and_a_cross_where_their_class_is_lost(make: Make) -> None:
    lab = done(make(criterion="reversed-norm-change", rho=0.75))
    lost = lab.record.lost(view_of(lab.values), 0)
    assert lost, "the test needs a class that is lost"
    used = {tuple(colour) for colour in pixels(lab)[300:318, :556].reshape(-1, 3)}
    assert _colour(theme.FAILURE) in used
    assert lab.picture.bars.sheet.words.count("✖") == sum(len(experts) for _, experts in lost)
    done(lab, criterion="router-norm-change")
    used = {tuple(colour) for colour in pixels(lab)[300:318, :556].reshape(-1, 3)}
    assert _colour(theme.FAILURE) not in used and _colour(theme.CLASSES[0]) in used


def test_the_theory_s_line_is_named_where_no_bar_stands(make: Make) -> None:
    lab = done(make(experts=20, patterns=200, top=3))
    bars, line = lab.picture.bars, f"1.5 log l = {1.5 * np.log(3):.2f}"
    assert f"theory: {line}" in bars.sheet.words
    lab.record.shot.values["norm_change"][0, ::3] = 4.0
    lab.picture.show(lab.record)
    assert f"theory: {line}" not in bars.sheet.words
    assert any(word.endswith(f"dashed: {line}") for word in bars.sheet.words)


# ---- panels 2 and 3 ----


@pytest.mark.parametrize("fine_tune", [False, True])
def test_the_curves_are_medians_over_the_trials(make: Make, fine_tune: bool) -> None:
    lab = done(make(trials=3, criterion="router-magnitude", fine_tune=fine_tune, steps=15, rho=0.5))
    curves, pruned = lab.picture.curves, lab.record.pruned
    values = {name: one[1] for name, one in pruned.after(lab.picture.view, lab.record.results).items()}
    values = values if fine_tune else pruned.plain
    for name in RANKED:
        line = curves.chosen if name == "router-magnitude" else curves.others[name]
        x, y = line.get_data()
        np.testing.assert_allclose(x, [0, 0.25, 0.5, 0.75])
        np.testing.assert_allclose(y, np.median(values[name], axis=1))
    assert len(curves.others["router-magnitude"].get_xdata()) == 0, "the chosen one is drawn once"
    before = curves.before.get_ydata()
    assert len(before) == (4 if fine_tune else 0)
    if fine_tune:
        np.testing.assert_allclose(before, np.median(pruned.plain["router-magnitude"], axis=1))
    assert list(curves.rule.get_xdata()) == [0.5, 0.5]
    ends = {round(float(part[0][0]), 3): sorted((part[0][1], part[1][1])) for part in curves.ranges.get_segments()}
    for name, place in (("router-magnitude", 0.482), ("random", 0.518)):
        spread = values[name][2].min(), values[name][2].max()
        if spread[1] - spread[0] > 0.004:
            np.testing.assert_allclose(ends[place], np.maximum(spread, curves.LOW))
    assert any("fine-tuned 20 steps" in word for word in curves.sheet.words) == fine_tune


def test_every_line_is_named_and_no_name_lies_on_another(make: Make) -> None:
    lab = done(make())
    curves = lab.picture.curves
    spots = list(curves.names.values())
    assert set(curves.names) == set(RANKED) and all(NAMES[name] in curves.sheet.words for name in RANKED)
    assert not any(one.meets(other) for i, one in enumerate(spots) for other in spots[:i])
    assert all(curves.TOP - 2 <= spot.y <= curves.TOP + curves.HEIGHT and spot.right <= 938 for spot in spots)
    at_end = [name for name, spot in curves.names.items() if spot.left == curves.LABELS]
    assert len(curves.leaders.get_segments()) == len(at_end) and lab.values["criterion"] in at_end


def test_a_grey_line_that_falls_is_named_where_it_falls(make: Make) -> None:
    lab = done(make())
    curves, named = lab.picture.curves, 0
    low, high = curves.axes.get_xlim()
    for name, spot in curves.names.items():
        if name == lab.values["criterion"]:
            continue
        x, y = (np.asarray(part, dtype=float) for part in curves.others[name].get_data())
        fallen = np.flatnonzero(y <= y[0] - DROP)
        assert (spot.left == curves.LABELS) == (not len(fallen)), name
        if len(fallen):
            named += 1
            first = curves.LEFT + (x[fallen[0] - 1] - low) / (high - low) * curves.WIDTH
            last = curves.LEFT + (x[fallen[0]] + NEAR - low) / (high - low) * curves.WIDTH
            assert first - GAP <= spot.left - GAP <= last or first <= spot.right + GAP <= last + GAP, name
    assert named >= 2, "the test has something to look at"


def test_names_of_lines_that_fall_together_stand_apart() -> None:
    x = np.arange(10) / 10
    cliffs = {name: np.where(x < at, 1.0, 0.5) for name, at in (("a", 0.2), ("b", 0.2), ("c", 0.2), ("d", 0.8))}
    curves = {name: (x, y) for name, y in {**cliffs, "flat": np.ones(10)}.items()}
    words = {**dict.fromkeys(cliffs, "neuron change"), "flat": "flat"}
    spots = beside_drops(curves, words, (600.0, 100.0, 200.0, 300.0), (0.0, 1.0, 0.4, 1.02), 800.0)
    assert set(spots) == set(cliffs), "what does not fall is named elsewhere"
    placed = list(spots.values())
    assert not any(one.meets(other) for i, one in enumerate(placed) for other in placed[:i])
    assert spots["d"].right < 600 + 0.8 * 200, "on the left, where the right has no room"
    assert np.isnan(crossing(x, np.ones(10), 0.9)) and crossing(x, cliffs["a"], 0.75) == pytest.approx(0.15)


def test_between_two_values_rho_is_the_lower_one(make: Make) -> None:
    lab = done(make(rho=0.5))
    left = list(lab.picture.curves.rule.get_xdata())
    done(lab, rho=0.7)
    assert list(lab.picture.curves.rule.get_xdata()) == left, "2 of 4 go, and not 3"
    assert "ρ = 0.7: 2 of 4 in each half" in lab.picture.curves.sheet.words


@pytest.mark.parametrize("values", [{}, {"routing": "token-choice", "top": 2}])
def test_the_blocks_are_shares(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(rho=0.75, criterion="importance-score", **values))
    found = outcome(lab.record, view_of(lab.values))
    blocks = lab.picture.blocks
    expected = np.median(found.plain), found.memory, found.operations
    np.testing.assert_allclose(blocks.shares, expected)
    step = Blocks.SIZE + Blocks.GAP
    for top, share in zip(Blocks.TOPS, blocks.shares, strict=True):
        inked = 0
        for block in range(BLOCKS):
            row, column = divmod(block, BLOCKS // 2)
            colour = _at(lab, Blocks.LEFT + column * step + 1, top + 46 + row * step + 5)
            inked += colour == _colour(theme.INK)
        assert abs(inked / BLOCKS - share) <= 1 / BLOCKS
        assert short(share) in blocks.sheet.words
    assert ("routers stay" in blocks.sheet.words) == bool(values)


def test_short_is_never_all_or_nothing_of_what_is_not() -> None:
    assert short(1.0) == "100 %" and short(0.997) == "99.7 %" and short(0.004) == "0.4 %" and short(0.0) == "0 %"
    assert short(0.235) == "24 %" and short(float("nan")) == "–"


def test_limits_stay_while_it_trains_and_whatever_is_looked_at(make: Make) -> None:
    lab = make()
    axes, most = lab.picture.curves.axes, []
    before = axes.get_xlim(), axes.get_ylim()
    for looks in ({}, {"rho": 0.1, "criterion": "random"}, {"fine_tune": True}):
        done(lab, **looks)
        most.append(lab.picture.bars._most)
        assert (axes.get_xlim(), axes.get_ylim()) == before
    assert set(most) == {5.5}
    done(lab, steps=120)
    assert lab.picture.bars._most == 8.0, "longer steps: eta_r T = 12"


def test_no_words_leave_their_panel(make: Make) -> None:
    lab = done(make(trials=10, fine_tune=True, loss="hinge", rho=0.95))
    lab.record.shot.values["norm_change"][9, ::2] = 4.0
    lab.pin()
    said: list[str] = []
    for criterion in OFFERED:
        for rho in (0.0, 0.95):
            lab.picture.set_view(
                {"rho": rho, "criterion": criterion, "fine_tune": True, "tuning_steps": 200, "shown": 10}
            )
            lab.picture.show(lab.record)
            for panel in (lab.picture.bars, lab.picture.curves, lab.picture.blocks):
                inks, places = panel.sheet.words_at(1.0)
                said += panel.sheet.words
                for words, ink, (left, _) in zip(panel.sheet.words, inks, places, strict=True):
                    assert panel.span[0] <= left and left + ink.shape[1] <= panel.span[1], words
    assert len(said) > 100 and any("dashed:" in words for words in said)


# ---- captions ----


def test_captions_tell_start_training_and_pruning(make: Make) -> None:
    lab = done(make(trials=3))
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("Step 0: the checkpoint, whose routers have not moved; accuracy ")
    grown = int((lab.records[20].changes(0) >= 1.5 * np.log(5)).sum())
    assert f"Step 20 of 30: in trial 1 {grown or 0} of 8 routers have grown by 1.5 log l = 2.41" in captions[20]
    found = outcome(lab.record, view_of(lab.values))
    assert captions[-1].startswith(f"6 of 8 experts pruned by norm change: accuracy {short(np.median(found.plain))}")
    chance = lab.record.pruned.plain["random"][3]
    assert f"(random: {short(np.median(chance))}, worst {short(chance.min())})" in captions[-1]
    assert "memory and FLOPs fall to 25 %." in captions[-1]
    assert captions[-1] in lab.screen.caption.value
    done(lab, rho=0.0)
    assert lab.caption(lab.record).startswith("Nothing is pruned: all 8 experts, accuracy ")
    done(lab, rho=0.5, criterion="random")
    assert "pruned by random" in lab.caption(lab.record) and "(random" not in lab.caption(lab.record)
    done(lab, fine_tune=True)
    found = outcome(lab.record, view_of(lab.values))
    tuned = f"after 20 steps of fine-tuning {short(np.median(found.tuned))}, worst {short(found.tuned.min())}"
    assert tuned in lab.caption(lab.record)
    done(lab, rho=0.0)
    assert "0 of 8 experts pruned" in lab.caption(lab.record) and "memory" not in lab.caption(lab.record)


def test_a_failure_is_said_with_its_experts(make: Make) -> None:
    lab = done(make(criterion="reversed-norm-change", rho=0.75))
    (first, ones), (second, twos) = lab.record.lost(view_of(lab.values), 0)
    assert (first, second) == (0, 1)
    said = lab.caption(lab.record)
    for experts, pattern in ((ones, "o₁"), (twos, "o₂")):
        numbers = " and ".join(str(expert + 1) for expert in experts)
        assert re.search(rf"experts? {numbers}, which (alone carries|carry) {pattern}", said)
    assert said.count("In trial 1 reversed removed") == 1
    lab.record.shot.values["proficiency"][0, :4] = 0
    assert "In trial 1 no expert that votes + carries o₁, against the assumption." in lab.caption(lab.record)


def test_routers_that_stay_cost_memory_and_the_caption_says_both(make: Make) -> None:
    lab = done(make(routing="token-choice", top=2, rho=0.75))
    found = outcome(lab.record, view_of(lab.values))
    assert f"memory falls to {short(found.memory)}, FLOPs to {short(found.operations)}." in lab.caption(lab.record)
    assert found.memory > 0.25


# ---- stories, time, pins, sizes ----


def test_scrubbing_shows_an_earlier_record_as_it_was(make: Make) -> None:
    lab = done(make(fine_tune=True))
    now = pixels(lab)
    known = [len(record.results) for record in lab.records]
    index = known.index(len(RANKED))  # the first ten steps of fine-tuning
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
    kept = np.median(lab.record.pruned.plain["router-norm-change"], axis=1)
    for values in ({"criterion": "random"}, {"top": 3}):
        done(lab, **values)
        (pin,) = lab.picture.curves.shown_pins
        np.testing.assert_array_equal(pin.get_ydata(), kept)


def test_failure_is_only_where_something_failed_and_no_expert_wears_its_colour(make: Make) -> None:
    lab = done(make(rho=0.5))
    assert not colours(lab) & {_colour(theme.FAILURE), *(_colour(style.colour) for style in theme.EXPERTS)}
