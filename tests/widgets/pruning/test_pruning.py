"""The rules of the pruning Lab's settings, its view-only knobs, and its messages."""

from __future__ import annotations

import ast
import threading
from typing import Any

import numpy as np
import pytest

from moe_lab.pruning.tuning import PruningChoice, Tuning
from moe_lab_widgets import PruningLab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.labs.pruning_record import CHUNK, OFFERED, code
from moe_lab_widgets.labs.pruning_seen import Outcome, outcome
from tests.widgets.cases import PRUNING
from tests.widgets.labs import Make, done, fixtures, move, pixels
from tests.widgets.pruning.test_pruning_picture import line

make, _ = fixtures(PRUNING)
DEFAULTS, SMALL = PRUNING.defaults, PRUNING.small


def test_a_look_draws_no_axes_again(make: Make) -> None:
    lab = done(make())
    background = lab.picture.background()
    for looks in ({"rho": 0.4}, {"criterion": "random"}, {"fine_tune": True}, {"shown": 2}):
        done(lab, **looks)
    assert lab.picture.background() is background, "the figure with its axes costs 80 ms"


def results(lab: PruningLab) -> int:
    """Returns of how many criteria, values of rho and steps fine-tuning is known."""
    return int(np.isfinite(lab.record.of()["tuned_accuracy"]).any(0).sum())


def outcome_of(lab: PruningLab) -> Outcome:
    return outcome(MarkRecord(lab.record.seen_with(lab.values)))


def test_fine_tuning_is_there_before_it_is_asked_for_where_one_serves_all(make: Make) -> None:
    lab = done(make())
    each = (len(OFFERED) - 1) * SMALL["experts"] // 2  # token counts rank none where experts choose
    assert results(lab) == each * SMALL["tuning_steps"] // CHUNK
    move(lab, "tuning_steps", 40)
    done(lab)
    assert results(lab) == each * 4 and lab.records[-1].step == SMALL["steps"]


def test_coupled_layers_are_tuned_on_the_worker_and_only_those_that_are_looked_at(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, advance = set(), Tuning.advance

    def noted(tuning: Tuning, choice: PruningChoice) -> Any:
        threads.add(threading.current_thread())
        return advance(tuning, choice)

    monkeypatch.setattr(Tuning, "advance", noted)
    lab = done(make(loss="hinge"))
    assert results(lab) == 0 and not threads
    move(lab, "fine_tune", True)
    done(lab)
    assert threading.main_thread() not in threads and len(threads) == 1
    half, pieces = SMALL["experts"] // 2, SMALL["tuning_steps"] // CHUNK
    assert results(lab) == half * pieces
    move(lab, "criterion", "random")
    done(lab)
    assert results(lab) == 2 * half * pieces
    move(lab, "criterion", "router-norm-change")
    assert results(done(lab)) == 2 * half * pieces, "what is known is not computed again"
    assert outcome_of(lab).steps == 20


def test_an_undefined_criterion_is_explained_and_no_slider_dies(make: Make) -> None:
    lab = done(make(top=1))
    assert "The change of the routers is undefined where no router has moved" in lab.controls.message.value
    assert "so norm change cannot order the experts" in lab.caption(lab.record)
    assert outcome_of(lab).plain.isnan().all()
    for rho in (0.5, 0.0):
        before = pixels(lab)
        move(lab, "rho", rho)
        done(lab)
        assert not np.array_equal(pixels(lab), before)
    move(lab, "criterion", "neuron-magnitude-change")
    done(lab)
    assert lab.controls.message.value == "" and outcome_of(lab).plain.isfinite().all()
    move(lab, "criterion", "token-count")
    assert "Experts receive equally many tokens, so token count cannot order" in done(lab).caption(lab.record)
    assert "let tokens choose" in lab.controls.message.value
    move(lab, "criterion", "router-difference-norm")
    done(lab)
    assert "undefined" in lab.controls.message.value
    move(lab, "top", 2)
    done(lab)
    assert lab.controls.message.value == ""


def test_divergence_is_said_and_leaves_a_picture(make: Make) -> None:
    lab = done(make(trials=3))
    lab.record.of().diverged[[0, 2]] = True
    for value in lab.record.of().values.values():
        value[[0, 2]] = np.nan
    assert "The loss became infinite in trials 1, 3" in lab.trouble(lab.record)
    lab.picture.show(lab.record)
    assert np.isfinite(line(lab, "norm change").get_ydata()).all()
    assert "accuracy is –" not in lab.caption(lab.record)
    lab.record.of()["pruned_accuracy"][:] = np.nan
    lab.picture.show(lab.record)
    assert "accuracy is – (at random –, worst trial –)" in lab.caption(lab.record)


def test_code_is_short_where_values_are_the_defaults() -> None:
    lines = code(DEFAULTS).splitlines()
    assert lines[0] == "from moe_lab.pruning import TokenMoE, TokenRun, TokenTask, fine_tune"
    assert "run = TokenRun(model=TokenMoE(), task=TokenTask(), test_samples=200)" in lines
    assert "kept = tuned.kept('router-norm-change', 0.8)" in lines
    for start in ("planted", "random", "pre-trained"):
        ast.parse(code({**DEFAULTS, "start": start, "criterion": "reversed-norm-change", "fine_tune": True}))


def test_data_of_a_run_that_is_not_trained_yet_hold_what_there_is(make: Make) -> None:
    lab = PruningLab(**SMALL, playing=False)
    try:
        assert lab.wait(60) and len(lab.records) == 1
        data = lab.data(lab.records)
        assert "norm_change" in data and "kept" not in data
    finally:
        lab.close()


def norm_change(before: np.ndarray, after: np.ndarray) -> Any:
    return np.linalg.norm(after, axis=1) - np.linalg.norm(before, axis=1)


def test_a_function_of_ones_own_prunes_as_the_criterion_that_it_is(make: Make) -> None:
    lab = done(make(score=norm_change))
    last = lab.record.of()
    assert lab.values["criterion"] == "own" and list(last.coords["criterion"]) == [*OFFERED, "own"]
    for name in ("rank", "pruned_accuracy", "undefined"):
        np.testing.assert_array_equal(last[name][:, 0], last[name][:, -1], err_msg=name)
    assert "pruned by my function." in lab.caption(lab.record)
    done(lab, fine_tune=True, tuning_steps=10)
    tuned = lab.record.of()["tuned_accuracy"]
    assert np.isfinite(tuned).any()
    names: dict[str, Any] = {"norm_change": norm_change}
    exec(lab.code(lab.values), names)
    np.testing.assert_array_equal(names["tuned"].accuracy(names["kept"]), outcome_of(lab).plain)
    link = lab.link("https://example.org")
    assert "PruningLab(score=norm_change" in link.code and "'own'" not in link.code
    assert link.lacks.endswith("This page has no score of your own. It runs with the library's.")
    assert "own=score" in link.address and "criterion" not in link.address


def test_code_can_name_a_function_without_a_name(make: Make) -> None:
    lab = make(score=lambda before, after: norm_change(before, after), playing=False)
    code = lab.code(lab.values)
    assert "tuned.kept(of_routers(score), " in code and "PruningLab(score=score" in lab.link().code
    ast.parse(code)


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (3, "score must be a function of two arguments, the routers before and after training: got 3"),
        (abs, "score must be a function of two arguments"),
        (lambda before, after: after, r"a finite number for each expert, shape \(4,\): got shape=\(4, 6\)"),
        (lambda before, after: None, r"a finite number for each expert, shape \(4,\): got"),
        (lambda before, after: np.full(len(after), np.nan), "a finite number for each expert, shape"),
    ],
)
def test_what_is_no_score_is_refused_in_words(score: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PruningLab(score=score)
