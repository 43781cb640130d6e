"""The landscape Lab's picture and captions show what the records hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.recovery.landscape.planes import flat, plane
from moe_lab.recovery.landscape.stuck import stuck_at
from moe_lab_widgets import LandscapeLab
from moe_lab_widgets.landscape.panels.errors import height_of
from moe_lab_widgets.landscape.panels.maps import _marker, shades
from moe_lab_widgets.landscape.record import METHODS
from tests.widgets.cases import LANDSCAPE
from tests.widgets.labs import Make, done, fixtures, shown

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
    assert [_marker(np.array(place)) for place in places] == ["o", ">", "<", "^", "v"]


# ---- what is drawn ----


@pytest.mark.parametrize("values", [{}, {"experts": 3, "penalty": 2.0}])
def test_paths_are_those_of_the_shown_trial(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values, shown=2))
    record, maps = lab.record, lab.picture.maps
    for method in METHODS:
        shots = record.shots(method)
        chosen = plane(record.runs[METHODS.index(method)], 1)
        points = flat(method, *(np.stack([shot[name][1] for shot in shots]) for name in ("rows", "gates")))
        apart = (points - chosen.origin) @ np.stack((chosen.first, chosen.second), axis=1) / chosen.half
        np.testing.assert_allclose(np.transpose(maps.path[method].get_data()), np.clip(apart, -1, 1))
        np.testing.assert_allclose(maps.head[method].get_xdata(), np.clip(apart[-1:, 0], -1, 1))
        assert f"error {shots[-1]['regressor_error'][1]:.2g};" in " ".join(maps.state[method].words)


def test_the_curves_are_the_records_and_verdicts_wait_for_the_end(make: Make) -> None:
    lab = done(make(trials=3))
    record, panel = lab.record, lab.picture.errors
    for method in METHODS:
        errors = np.array([shot["regressor_error"] for shot in record.shots(method)])
        x, y = panel.thick[method].get_data()
        np.testing.assert_allclose(x, np.linspace(0, 1, len(errors)))
        np.testing.assert_allclose(y, height_of(np.median(errors, axis=1)))
        assert len(panel.trials[method].thin.get_segments()) == 3
        for mine, theirs in zip(record.verdicts(method), stuck_at(errors), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        middle = lab.records[len(lab.records) // 2]
        assert not middle.finished(method) and not any(one.any() for one in middle.verdicts(method))
        assert panel._row(middle, method)[1:] == ["–", "–"]
    for shot in record.second:
        shot["regressor_error"][:] = (0.5, 0.5 * 0.98**shot.step + 0.06, 0.001)
    lab.picture.show(record)
    assert panel.counts.words[3:] == ["1", "1", "1"]
    assert len(panel.stuck["l2"].get_ydata()) == 1 and len(panel.falling["l2"].get_ydata()) == 1
    assert "stuck: " in lab.caption(record) and "1 still falling" in lab.caption(record)


def test_the_error_s_axis() -> None:
    np.testing.assert_allclose(height_of(np.array([1e-9, 1e-5, 1e-4, 1, 2])), [0, 0, 0.2, 1, 1])


def test_pinned_medians_keep_their_numbers_over_runs(make: Make) -> None:
    lab = done(make())
    lab.pin()
    assert len(lab.picture.errors.shown_pins) == 3
    kept = lab.picture.errors.pins[0].values.copy()
    done(lab, noise=0.5)
    np.testing.assert_array_equal(lab.picture.errors.pins[0].values, kept)


def test_captions_tell_start_way_and_end(ended: LandscapeLab) -> None:
    lab = ended
    records = lab.records
    assert lab.caption(records[0]).startswith("Start: both losses begin at the same random regressors")
    assert lab.caption(records[5]).startswith(f"Step {records[5].step} of 100: L₄ has found the regressors in ")
    assert "stuck" not in lab.caption(records[5]) and "; stuck: " in lab.caption(records[-1])
    lab.scrub(0)
    shown(lab)
    assert " ".join(lab.picture.maps.state["l2"].words) == "waits for its samples"
