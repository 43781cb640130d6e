"""PruningLab driven as a student drives it: every knob, looks that train nothing, wrong values, its code and data."""

from __future__ import annotations

import ast
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.config import ConfigError
from moe_lab_widgets import PruningLab
from moe_lab_widgets.pruning import settings as of
from moe_lab_widgets.pruning.record import outcome
from moe_lab_widgets.pruning.settings import KNOBS, code, recipe, record_every, run_of
from tests.widgets.labs import check_that_closing_leaves_nothing, making, move, pixels
from tests.widgets.pruning.small import DEFAULTS, SMALL, Make, done, frames, make, view_of

__all__ = ["make"]
QUIET = os.environ.get("MOE_LAB_TIMING", "") not in ("", "0")

VIEW = [knob.name for knob in KNOBS if knob.view_only]


# ---- knobs ----


@pytest.fixture(scope="module")
def moved() -> Iterator[PruningLab]:
    """One Lab whose knobs are moved one after the other."""
    with making(PruningLab, SMALL) as make:
        yield done(make())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("steps", 50, "steps=50"), ("router_learning_rate", 0.03, "router_learning_rate=0.03"), ("top", 3, "top=3"),
        ("experts", 10, "experts=10"), ("others_norm", 5.0, "others_norm=5.0"), ("important", 1, "important=1"),
        ("others_neurons", 0.1, "others_neurons=0.1"), ("tokens", 60, "tokens=60"), ("patterns", 140, "patterns=140"),
        ("trials", 3, "trials=3"), ("seed", 4, "seed=4"), ("loss", "hinge", "loss='hinge'"),
        ("routing", "token-choice", "routing='token-choice'"), ("start", "random", "start=RandomStart()"),
    ],
)  # fmt: skip
def test_every_knob_of_the_training_reaches_the_run_and_the_picture(
    moved: PruningLab, name: str, value: Any, words: str
) -> None:
    lab, before = moved, pixels(moved)
    move(lab, name, value)
    done(lab)
    assert lab.values[name] == value
    assert words in lab.record.run.code() and words in lab.code(lab.values)
    assert lab.record.shot["norm_change"].shape == (lab.values["trials"], lab.values["experts"])
    assert lab.records[0].step == 0 and lab.record.step == lab.values["steps"]
    assert not np.array_equal(pixels(lab), before), "the picture did not change"


@pytest.mark.parametrize(
    ("name", "value"),
    [("rho", 0.5), ("criterion", "importance-score"), ("fine_tune", True), ("tuning_steps", 10), ("shown", 2)],
)
def test_a_look_changes_the_picture_and_trains_nothing(make: Make, name: str, value: Any) -> None:
    lab = done(make(fine_tune=name == "tuning_steps", loss="linear"))
    before, pruned, records, seconds = pixels(lab), lab.record.pruned, len(lab.records), lab._runner.seconds
    move(lab, name, value)
    done(lab)
    assert lab.values[name] == value
    assert lab.record.pruned is pruned and len(lab.records) == records and lab._runner.seconds == seconds
    assert not np.array_equal(pixels(lab), before), "the picture did not change"


def test_every_knob_of_the_lab_is_moved_by_those_tests() -> None:
    trained = test_every_knob_of_the_training_reaches_the_run_and_the_picture.pytestmark[0].args[1]
    looked = test_a_look_changes_the_picture_and_trains_nothing.pytestmark[0].args[1]
    assert {name for name, *_ in trained} == {knob.name for knob in KNOBS} - set(VIEW) | {"seed"}
    assert {name for name, _ in looked} == set(VIEW)


def test_no_label_is_too_wide_for_three_sliders_in_a_row() -> None:
    assert max(len(knob.label) for knob in KNOBS) <= 19
    assert len({knob.label for knob in KNOBS}) == len(KNOBS)


def test_both_ends_of_every_slider_run_or_say_which_rule_they_break(make: Make) -> None:
    lab = make(steps=10)
    for knob, value in ((one, end) for one in KNOBS if one.slider for end in one.slider[:2]):
        lab.set(**{**DEFAULTS, **SMALL, "steps": 10, knob.name: value})
        if (knob.name, value) in (("important", 5), ("experts", 4)):
            with pytest.raises(ConfigError, match="important experts must leave at least one other in each half"):
                lab.wait(60)
            continue
        done(lab)
        said = lab.controls.message.value
        assert lab.error is None and (said == "" or (knob.name == "top" and "no router has moved" in said))
        assert np.isfinite(lab.record.shot["test_accuracy"]).all()


def test_records_are_never_dear() -> None:
    assert record_every(run_of(DEFAULTS)) == 2
    dear = run_of({**DEFAULTS, "patterns": 300, "tokens": 10, "top": 10, "trials": 10})
    assert record_every(dear) == 1
    assert record_every(run_of({**DEFAULTS, **recipe("random", "expert-choice"), "start": "random"})) == 5


def test_knobs_follow_the_checkpoint_and_the_routing_where_nobody_has_moved_them(make: Make) -> None:
    lab = make(**{name: DEFAULTS[name] for name in ("router_learning_rate", "steps")}, trials=1)
    move(lab, "routing", "token-choice")
    done(lab)
    assert {name: lab.values[name] for name in ("top", "steps", "others_neurons")} == {
        "top": 2, "steps": 200, "others_neurons": 0.02,
    }  # fmt: skip
    lab.set(steps=20)
    move(lab, "routing", "expert-choice")
    done(lab)
    assert lab.values["top"] == 5 and lab.values["steps"] == 20, "what a hand has moved stays"
    move(lab, "start", "random")
    done(lab)
    assert lab.values["router_learning_rate"] == 0.01 and lab.values["steps"] == 20
    assert PruningLab(playing=False, routing="token-choice").values["top"] == 2
    assert PruningLab(playing=False, routing="token-choice", top=3).values["top"] == 3


def test_sliders_that_change_nothing_are_greyed_out(make: Make) -> None:
    lab, planted = done(make()), ("important", "others_norm", "others_neurons")
    assert not any(widget.disabled for widget in lab.controls.knobs.values())
    move(lab, "start", "random")
    assert all(lab.controls.knobs[name].disabled for name in planted)
    shown = []
    for norm in (3.0, 15.0):
        move(lab, "others_norm", norm)
        shown.append(done(lab).record.shot["norm_change"])
    np.testing.assert_array_equal(*shown)  # they change nothing indeed
    move(lab, "start", "planted")
    assert not any(lab.controls.knobs[name].disabled for name in planted)


def test_only_trials_that_there_are_can_be_shown(make: Make) -> None:
    lab = done(make(trials=3, shown=3))
    move(lab, "shown", 9)  # as the End key does
    assert lab.controls.knobs["shown"].value == lab.values["shown"] == 3
    move(lab, "trials", 2)
    done(lab)
    assert lab.controls.knobs["shown"].value == lab.values["shown"] == 2
    move(lab, "trials", 1)
    done(lab)
    assert lab.controls.knobs["shown"].disabled
    move(lab, "trials", 4)
    done(lab)
    move(lab, "shown", 4)
    assert lab.values["shown"] == 4 and not lab.controls.knobs["shown"].disabled


# ---- looks ----


def test_rho_drags_are_answered_within_50_ms(make: Make) -> None:
    lab = done(make(**{name: DEFAULTS[name] for name in ("experts", "patterns", "tokens", "trials")}, steps=10))
    spent = []
    for name, values in {
        "rho": (0.1, 0.4, 0.7),
        "criterion": ("random", *of.OFFERED),
        "fine_tune": (True, False),
    }.items():
        for value in values:
            begun = time.thread_time()
            lab.picture.set_view({**{view: lab.values[view] for view in VIEW}, name: value})
            lab.picture.draw(lab.record)
            spent.append(time.thread_time() - begun)
    assert np.median(spent) <= (0.05 if QUIET else 0.1), "from the look to the encoded picture, CPU seconds"


def test_training_and_fine_tuning_of_the_defaults_take_a_second_of_cpu() -> None:
    frames(steps=10)
    begun = time.thread_time()
    records, _ = frames()
    spent = time.thread_time() - begun
    assert records[-1].results
    assert spent <= (1.0 if QUIET else 3.0), f"{spent:.2f} s"


def test_fine_tuning_is_there_before_it_is_asked_for_where_one_serves_all(make: Make) -> None:
    lab = done(make())
    assert len(lab.record.results) == len(of.OFFERED) * SMALL["tuning_steps"] // of.CHUNK
    move(lab, "tuning_steps", 40)
    done(lab)
    assert len(lab.record.results) == len(of.OFFERED) * 4 and lab.records[-1].step == SMALL["steps"]


def test_coupled_layers_are_tuned_on_the_worker_and_only_those_that_are_looked_at(make: Make) -> None:
    lab = done(make(loss="hinge"))
    assert len(lab.record.results) == 0
    threads = set()
    work = lab._live_run._tuning._tune
    lab._live_run._tuning._tune = lambda *piece: (threads.add(threading.current_thread()), work(*piece))
    begun = time.thread_time()
    move(lab, "fine_tune", True)
    assert time.thread_time() - begun < 0.05, "the callback does not do it, nor anything else that takes long"
    done(lab)
    assert threading.main_thread() not in threads and len(threads) == 1
    half, pieces = SMALL["experts"] // 2, SMALL["tuning_steps"] // of.CHUNK
    assert len(lab.record.results) == half * pieces
    assert {name for name, _, _ in lab.record.results} == {"router-norm-change"}
    move(lab, "criterion", "random")
    done(lab)
    assert len(lab.record.results) == 2 * half * pieces
    move(lab, "criterion", "router-norm-change")
    assert len(done(lab).record.results) == 2 * half * pieces, "what is known is not computed again"
    found = outcome(lab.record, view_of(lab.values))
    assert found is not None and found.steps == 20
    tuned = lab.record.pruned.tuned
    again = tuned.accuracy(tuned.kept("router-norm-change", 0.8), 20)
    np.testing.assert_allclose(found.tuned, again.numpy(), atol=1e-6)


# ---- wrong values ----


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"experts": 7}, "experts (k) must be even, because half of them vote -: got k=7"),
        (
            {"routing": "token-choice", "top": 9},
            "top (l) must be at most experts (k) where tokens choose: got l=9, k=8",
        ),
        ({"tokens": 10, "top": 12}, "top (l) must be at most tokens (n) where experts choose: got l=12, n=10"),
        ({"important": 4}, "important experts must leave at least one other in each half of the experts (k)"),
        ({"start": "pre-trained", "experts": 6}, "experts (k) must be at least two a pre-training task"),
        ({"rho": 1.0}, "rho, the share of experts pruned, must be at least 0 and less than 1: got rho=1.0"),
        ({"tuning_steps": 15}, "tuning_steps (T') must be a positive multiple of 10: got T=15"),
    ],
)
def test_a_wrong_combination_is_said_in_a_sentence_and_the_last_good_picture_stays(
    make: Make, values: dict[str, Any], sentence: str
) -> None:
    lab = done(make())
    good, shown = lab.picture.image.value, lab.record
    before = {name: lab.values[name] for name in values}
    lab.set(**values)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        lab.wait(20)
    assert sentence in lab.controls.message.value.replace("&#x27;", "'")
    assert lab.picture.image.value == good and lab.record is shown
    lab.set(**before)
    done(lab)
    assert lab.controls.message.value == "" and lab.error is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"expert": 3}, "PruningLab has no knob 'expert'"),
        ({"criterion": "size"}, "criterion must be one of 'router-norm-change', 'random'"),
        ({"start": "warm"}, "start must be one of 'planted', 'random', 'pre-trained': got start='warm'"),
        ({"rho": float("nan")}, "rho (ρ) must be a finite number: got rho=nan"),
        ({"top": 2.5}, "top (l) must be a whole number: got top=2.5"),
    ],
)
def test_a_value_that_no_widget_can_hold_is_refused_in_words(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        PruningLab(**values)


def test_an_undefined_criterion_is_explained_and_no_slider_dies(make: Make) -> None:
    lab = done(make(top=1))
    assert "The change of the routers is undefined where no router has moved" in lab.controls.message.value
    assert "so norm change cannot order the experts" in lab.caption(lab.record)
    assert all(np.isnan(share) for share in lab.picture.blocks.shares)
    for rho in (0.5, 0.0):
        before = pixels(lab)
        move(lab, "rho", rho)
        done(lab)
        assert not np.array_equal(pixels(lab), before)
    move(lab, "criterion", "neuron-magnitude-change")
    done(lab)
    assert lab.controls.message.value == "" and not np.isnan(lab.picture.blocks.shares[0])
    move(lab, "criterion", "router-difference-norm")
    done(lab)
    assert "undefined" in lab.controls.message.value
    move(lab, "top", 2)
    done(lab)
    assert lab.controls.message.value == ""


def test_divergence_is_said_and_leaves_a_picture(make: Make) -> None:
    lab = done(make(trials=3))
    lab.record.shot.diverged[[0, 2]] = True
    for value in lab.record.shot.values.values():
        value[[0, 2]] = np.nan
    assert "The loss became infinite in trials 1, 3" in lab.trouble(lab.record)
    for name, values in lab.record.pruned.plain.items():
        values[:, [0, 2]] = np.nan
        lab.record.pruned.scores[name][[0, 2]] = np.nan
    lab.picture.draw(lab.record)
    assert np.isfinite(lab.picture.curves.chosen.get_ydata()).all() and lab.picture.bars.scored is None
    assert "accuracy –" not in lab.caption(lab.record)
    for values in lab.record.pruned.plain.values():
        values[:] = np.nan
    lab.picture.draw(lab.record)
    assert "accuracy – (random: –, worst –)" in lab.caption(lab.record)
    assert np.isnan(lab.picture.blocks.shares[0])


# ---- code, data, and the rest around it ----


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"criterion": "router-magnitude", "rho": 0.5, "fine_tune": True, "seed": 4},
        {"criterion": "reversed-norm-change", "start": "random", "rho": 0.25, "fine_tune": True},
        {"routing": "token-choice", "top": 2, "fine_tune": True, "rho": 0.6},
        {"loss": "hinge", "fine_tune": True, "criterion": "random", "rho": 0.4},
        {"start": "pre-trained", "rho": 0.7},
    ],
)
def test_copied_code_gives_the_lab_s_numbers(
    make: Make, capsys: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    lab = done(make(**values))
    names: dict[str, Any] = {}
    exec(lab.code(lab.values), names)
    found = outcome(lab.record, view_of(lab.values))
    assert found is not None and (found.steps > 0) == bool(values.get("fine_tune"))
    assert "fine-tun" in lab.code(lab.values).rpartition("tuned = ")[2] or not values.get("fine_tune")
    np.testing.assert_allclose(names["accuracy"].numpy(), found.tuned, atol=1e-6)
    kept = lab.record.kept(view_of(lab.values), 0)
    np.testing.assert_array_equal(names["kept"][0].numpy(), kept)
    assert "before pruning" in capsys.readouterr().out


def test_code_is_short_where_values_are_the_defaults() -> None:
    lines = code(DEFAULTS).splitlines()
    assert lines[0] == "from moe_lab.pruning import Run, TokenMoE, TokenTask, fine_tune"
    assert "run = Run(model=TokenMoE(), task=TokenTask(), test_samples=200, device='cpu')" in lines
    assert "kept = tuned.kept('router-norm-change', 0.8)" in lines
    for start in ("planted", "random", "pre-trained"):
        ast.parse(code({**DEFAULTS, "start": start, "criterion": "reversed-norm-change", "fine_tune": True}))


def test_a_look_renews_the_code_at_once(make: Make) -> None:
    lab = done(make())
    move(lab, "rho", 0.35)
    assert ", 0.35)" in lab.controls.code.value
    move(lab, "fine_tune", True)
    assert "steps=20" in lab.controls.code.value


@pytest.mark.parametrize("suffix", ["nc", "json"])
def test_saved_data_hold_the_training_and_every_criterion(make: Make, tmp_path: Path, suffix: str) -> None:
    lab = done(make())
    path = lab.save_data(tmp_path / f"run.{suffix}")
    assert path.stat().st_size > 1000
    if suffix == "nc":
        with xr.open_dataset(path) as data:
            assert list(data["criterion"].values) == list(of.OFFERED)
            np.testing.assert_allclose(data["rho"], [0, 0.25, 0.5, 0.75])
            np.testing.assert_array_equal(data["step"], sorted({record.step for record in lab.records}))
            own = data.sel(criterion="random")
            np.testing.assert_allclose(own["pruned_accuracy"], lab.record.pruned.plain["random"])
            np.testing.assert_array_equal(own["kept"].astype(bool), lab.record.pruned.kept["random"].numpy())
            assert data.attrs["tuning_steps"] == 20 and np.isfinite(data["tuned_accuracy"]).all()
            assert data.attrs["code"] == lab.code(lab.values)
            np.testing.assert_allclose(data["norm_change"].isel(step=-1), lab.record.shot["norm_change"])


def test_data_of_a_run_that_is_not_trained_yet_hold_what_there_is(make: Make) -> None:
    lab = PruningLab(**SMALL, playing=False)
    try:
        assert lab.wait(60) and len(lab.records) == 1
        data = lab.data(lab.records)
        assert "norm_change" in data and "kept" not in data
    finally:
        lab.close()


def test_headless_it_trains_inside_the_cell_and_errors_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    lab = PruningLab(**SMALL)
    try:
        assert lab.finished and lab.record.pruned is not None
        with pytest.raises(ConfigError, match="got k=7"):
            lab.set(experts=7)
        lab.set(experts=8)
        assert lab.finished and lab.error is None
        pruned = lab.record.pruned
        lab.set(rho=0.25, fine_tune=True)
        assert lab.record.pruned is pruned and "after 20 steps of fine-tuning" in lab.caption(lab.record)
    finally:
        lab.close()


def test_closing_leaves_no_thread_and_no_widget() -> None:
    check_that_closing_leaves_nothing(PruningLab, SMALL)


def test_fifty_random_moves_leave_a_lab_that_works(make: Make) -> None:
    draw = np.random.default_rng(3)
    lab = make()
    for _ in range(50):
        name = str(draw.choice([knob.name for knob in KNOBS]))
        widget = lab.controls.knobs[name]
        if hasattr(widget, "options"):
            widget.value = draw.choice(widget.options)
        elif hasattr(widget, "max"):
            places = round((widget.max - widget.min) / widget.step)
            most = min(places, 3) if name in ("experts", "trials", "patterns", "steps") else places
            widget.value = min(widget.min + widget.step * draw.integers(0, most + 1), widget.max)
        else:
            widget.value = not widget.value
        if draw.random() < 0.2:
            time.sleep(0.05)
    lab.set(**{**DEFAULTS, **SMALL})
    done(lab)
    assert lab.error is None and lab.controls.message.value == ""
    assert lab.record.step == SMALL["steps"] and lab.record.pruned is not None
