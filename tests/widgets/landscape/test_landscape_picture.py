"""The landscape Lab's picture and captions show what the records hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.drawing import theme
from moe_lab.recovery.landscape.stuck import stuck_at
from moe_lab_widgets import LandscapeLab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.planes import shades
from moe_lab_widgets.labs.landscape import NAMES, errors_of, signs
from tests.widgets.cases import LANDSCAPE
from tests.widgets.labs import Make, done, drawn_as, fixtures, shown, words_of

make, ended = fixtures(LANDSCAPE)


# ---- maps ----


def test_a_map_is_darker_where_the_loss_is_larger_and_its_second_direction_goes_up() -> None:
    values = np.add.outer(np.arange(5.0), np.zeros(5))
    image = shades(values, 40).astype(int)
    assert image.shape == (40, 40, 4)
    assert image[0, 20, :3].sum() < image[-1, 20, :3].sum()
    assert (shades(np.ones((5, 5)), 10)[..., 3] == 255).all(), "a flat loss is a map, too"


def test_a_head_outside_the_map_points_there() -> None:
    places = [(0.5, -1), (1.2, 0), (-1.5, 1.2), (0, 1.1), (0.3, -2)]
    found = [[name for name, here in signs(torch.tensor(place)).items() if here] for place in places]
    assert found == [["disc"], ["right"], ["left"], ["up"], ["down"]]


# ---- what is drawn ----


@pytest.mark.parametrize("values", [{}, {"experts": 3, "penalty": 2.0}])
def test_paths_are_those_of_the_shown_trial(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values, shown=2))
    for name, words in NAMES.items():
        shots = lab.record.shots[name]
        places = np.array([shot["plane_place"][1, :2] for shot in shots])
        (path,), (head,) = (drawn_as(lab, 0, f"{words}: {what}") for what in ("the path so far", HEAD))
        np.testing.assert_allclose(np.transpose(path.get_data()), np.clip(places, -1, 1))
        np.testing.assert_allclose(head.get_xdata(), np.clip(places[-1:, 0], -1, 1))
        said = " ".join(words_of(lab, 0))
        assert f"error {shots[-1]['regressor_error'][1]:.2g};" in said and f"{words}, " in said
        assert "trial 2 of 2" in said


HEAD = "now; a triangle points outside"


def test_the_curves_are_the_records_and_verdicts_wait_for_the_end(make: Make) -> None:
    lab = done(make(trials=3))
    now, middle = lab.record, lab.records[len(lab.records) // 2]
    for name, words in NAMES.items():
        errors = np.array([shot["regressor_error"] for shot in now.shots[name]])
        x, y = drawn_as(lab, 1, f"{words}, median")[0].get_data()
        np.testing.assert_allclose(x, [shot.step for shot in now.shots[name]])
        np.testing.assert_allclose(y, np.median(errors, axis=1))
        assert len(drawn_as(lab, 1, f"{words}, a trial")[0].get_segments()) == 3
        judged = next(one for one in errors_of(MarkRecord(now)) if one.name == words)
        for mine, theirs in zip((judged.stuck, judged.falling), stuck_at(torch.as_tensor(errors)), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert judged.known and not any(one.known for one in errors_of(MarkRecord(middle)))
    lab.picture.show(middle)
    assert words_of(lab, 1).count("–") == 4, "stuck and falling, of both"
    shots = tuple(
        dataclasses.replace(shot, values={**shot.values, "regressor_error": np.array(errors)})
        for shot in now.shots["l2"]
        for errors in [(0.5, 0.5 * 0.98**shot.step + 0.06, 0.001)]
    )
    now = dataclasses.replace(now, shots={**now.shots, "l2": shots})
    lab.picture.show(now)
    assert words_of(lab, 1)[-7:-4] == ["1", "1", "1"], "before the ends of two curves"
    (stuck,), (falling,) = (drawn_as(lab, 1, f"ℓ₂, {what}") for what in ("stuck", "still falling"))
    assert (len(stuck.get_ydata()), len(falling.get_ydata())) == (1, 1)
    assert (stuck.get_color(), falling.get_markerfacecolor()) == (theme.FAILURE, theme.PAPER)
    assert "ℓ₂ in 1 (and still falling in 1)." in lab.caption(now)


def test_errors_beyond_the_axis_are_drawn_at_its_edge(make: Make) -> None:
    lab = done(make())
    for shot in lab.record.shots["L4"]:
        shot["regressor_error"][:] = 1e-9
    lab.picture.show(lab.record)
    assert set(drawn_as(lab, 1, "L₄, median")[0].get_ydata()) == {1e-5}


def test_captions_tell_start_way_and_end(ended: LandscapeLab) -> None:
    lab = ended
    records = lab.records
    assert lab.caption(records[0]).startswith("Both losses begin at the same random regressors")
    assert lab.caption(records[5]).startswith("L₄ has found the regressors in ")
    assert "stuck" not in lab.caption(records[5]) and " stuck" in lab.caption(records[-1])
    lab.scrub(0)
    shown(lab)
    assert "waits for its samples" in words_of(lab, 0)
