"""What the landscape Lab's picture and captions say is what the records hold, and its planes are what they claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from moe_lab.recovery.em import State
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.gru import CONVENTIONS, GRU
from moe_lab.recovery.landscape.run import PAPER_TASK, L2Loss, L4Loss, LossRun
from moe_lab.recovery.landscape.stuck import stuck_at
from moe_lab.recovery.landscape.training import descend_run
from moe_lab.recovery.measures import regressor_fit
from moe_lab_widgets import LandscapeLab
from moe_lab_widgets.landscape import planes, settings
from moe_lab_widgets.landscape.panels import gru
from moe_lab_widgets.landscape.panels.errors import height_of
from moe_lab_widgets.landscape.panels.maps import EDGE, _marker, shades
from moe_lab_widgets.landscape.planes import SAMPLES, SIDE, flat, lengths, plane
from moe_lab_widgets.landscape.record import METHODS
from moe_lab_widgets.landscape.settings import BETAS, UNITS
from tests.widgets.labs import making
from tests.widgets.landscape.small import FEW, SMALL, Make, done, make, shown

__all__ = ["make"]


@pytest.fixture(scope="module")
def ended() -> Iterator[LandscapeLab]:
    """One run that has ended, for tests that only look at it."""
    with pytest.MonkeyPatch.context() as patch, making(LandscapeLab, SMALL) as make:
        patch.setattr(settings, "RECORDS", FEW)
        yield done(make())


def _run(model: L4Loss | L2Loss, **task: Any) -> LossRun:
    return LossRun(model=model, task=PAPER_TASK.replace(**task), trials=1, seed=5)


# ---- planes ----


@pytest.mark.parametrize("experts", [2, 3])
def test_l4_is_least_where_a_star_stands(experts: int) -> None:
    run = _run(L4Loss(penalty=2.0), experts=experts)
    seen, truth = plane(run, 0), run.task.parameters([0], 5)
    shares = losses.shares_of(truth.gates)
    assert len(seen.true) == 4 and len(seen.false) == 0
    for u, v in seen.true:
        rows = torch.as_tensor(seen.origin + u * seen.first + v * seen.second).reshape(1, experts, -1)
        value, slope = losses.l4_population(rows, truth.regressors, shares, run.model.weights)
        assert float(slope.abs().max()) < 1e-9, "not a stationary point"
        assert float(value) <= seen.values.min() + 1e-9
        assert float(regressor_fit(losses.read(rows), truth.regressors)[0]) == pytest.approx(1)


def test_l4_s_path_ends_at_a_star_of_the_plane_that_its_start_chose() -> None:
    run = LossRun(model=L4Loss(population=True), task=PAPER_TASK, trials=6, seed=0, record_every=1200)
    *_, last = descend_run(run)
    for trial in range(6):
        chosen = plane(run, trial)
        end = chosen.seen(flat("L4", last["rows"][[trial]], last["gates"][[trial]]))[0]
        assert end[2] < 0.02
        assert np.linalg.norm(chosen.true - end[:2], axis=1).min() < 0.02


@pytest.mark.parametrize("gating", ["orthogonal", "random"])
def test_l2_s_stars_are_the_truth_and_its_crosses_the_exchange(gating: str) -> None:
    run = _run(L2Loss(), gating=gating)
    seen, truth = plane(run, 0), run.task.parameters([0], 5)
    regressors, gate = truth.regressors[0].numpy(), truth.gates[0, 0].numpy()
    apart = regressors[0] - regressors[1]
    for marks, one, other in ((seen.true, apart, gate), (seen.false, gate, apart)):
        for u, v in marks:
            point = (seen.origin + u * seen.first + v * seen.second).reshape(3, -1)
            difference = point[0] - point[1]
            np.testing.assert_allclose(point[0] + point[1], regressors[0] + regressors[1], atol=1e-12)
            cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in ((difference, one), (point[2], other))]
            assert np.abs(cosines) == pytest.approx([1, 1]) and cosines[0] * cosines[1] > 0
            assert np.linalg.norm(difference) == pytest.approx(np.linalg.norm(apart))


def test_l2_s_other_valley_has_no_minimum() -> None:
    """In population, on the line where gate and a_1 - a_2 are exchanged: the shorter the gate, the less the loss."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    u, v = np.meshgrid(nodes, nodes)  # x along a_1* - a_2* and along the gate
    true = np.tanh(v / 2) * u / np.sqrt(2)
    beyond, apart = [], []
    for gate in (2.0, 1.0, 0.5, 0.2, 0.1, 0.05):
        found = np.tanh(gate * u / 2) * v / 2
        apart.append(weights @ (found * true) @ weights / (weights @ found**2 @ weights))  # the best length
        beyond.append(weights @ (apart[-1] * found - true) ** 2 @ weights / weights.sum() ** 2)
    assert (np.diff(beyond) < 0).all() and (np.diff(apart) > 0).all()
    assert beyond[-1] == pytest.approx(0.00137, abs=1e-5) and apart[-1] > 20


def test_l2_s_map_is_the_loss_of_the_library() -> None:
    run = _run(L2Loss())
    seen = plane(run, 0)
    drawn = run.task.sample(SAMPLES, trials=[0], seed=5, split="surface")
    ticks = np.linspace(-seen.half, seen.half, SIDE)
    for row, column in ((0, 3), (14, 20), (28, 28)):
        point = torch.as_tensor(seen.origin + ticks[column] * seen.first + ticks[row] * seen.second).reshape(1, 3, -1)
        state = State(point[:, :2], torch.cat((point[:, 2:], torch.zeros_like(point[:, :1])), dim=1))
        value = losses.l2(state, drawn.x, drawn.y, run.task.g).value
        assert seen.values[row, column] == pytest.approx(float(value[0]))


def test_only_what_changes_the_map_makes_a_new_one() -> None:
    run = _run(L4Loss())
    assert plane(run, 0) is plane(run.replace(model=L4Loss(rate=0.05, steps=300), batch=64), 0)
    assert plane(run, 0) is not plane(run.replace(model=L4Loss(ridge=0.5)), 0)


def test_lengths_are_those_of_the_minimiser_and_0_where_delta_is_too_large() -> None:
    truth = PAPER_TASK.parameters([0, 1], 0)
    weights = losses.Weights(0.01, 1.0, 1.0)
    expected = np.linalg.norm(losses.minimiser(truth, weights), axis=2)
    np.testing.assert_allclose(lengths(truth, weights), expected)
    assert (lengths(truth, weights._replace(ridge=2.0)) == 0).all()


def test_coordinates_and_the_distance_from_a_plane() -> None:
    first, second = np.eye(4)[:2]
    flat_ = planes.Plane(np.ones(4), first, second, 1.0, np.zeros((0, 2)), np.zeros((0, 2)), np.eye(2))
    np.testing.assert_allclose(flat_.seen(np.array([[2.0, 3.0, 4.0, 5.0]])), [[1, 2, 5]])


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
        assert f"error {shots[-1]['regressor_error'][1]:.2g};" in maps.words[method]


def test_the_curves_are_the_records_and_verdicts_wait_for_the_end(make: Make) -> None:
    lab = done(make(trials=3))
    record, panel = lab.record, lab.picture.errors
    for method in METHODS:
        errors = np.array([shot["regressor_error"] for shot in record.shots(method)])
        x, y = panel.thick[method].get_data()
        np.testing.assert_allclose(x, np.linspace(0, 1, len(errors)))
        np.testing.assert_allclose(y, height_of(np.median(errors, axis=1)))
        assert len(panel.thin[method].get_segments()) == 3
        for mine, theirs in zip(record.verdicts(method), stuck_at(errors), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        middle = lab.records[len(lab.records) // 2]
        assert not middle.ended(method) and not any(one.any() for one in middle.verdicts(method))
        assert panel._row(middle, method)[1:] == ["–", "–"]
    for shot in record.second:
        shot["regressor_error"][:] = (0.5, 0.5 * 0.98**shot.step + 0.06, 0.001)
    lab.picture.draw(record)
    assert panel.words[1] == ["1", "1", "1"]
    assert len(panel.stuck["l2"].get_ydata()) == 1 and len(panel.falling["l2"].get_ydata()) == 1
    assert "stuck: " in lab.caption(record) and "1 still falling" in lab.caption(record)


def test_the_error_s_axis() -> None:
    np.testing.assert_allclose(height_of(np.array([1e-9, 1e-5, 1e-4, 1, 2])), [0, 0, 0.2, 1, 1])


def test_the_gru_panel_is_the_library_s_mixture(ended: LandscapeLab) -> None:
    lab = ended
    lab.set(sharpness=10.0)
    shown(lab)
    gates, seed = lab.picture.gates, lab.values["seed"]
    for name in CONVENTIONS:
        found = gru.gaps(seed)[name]
        np.testing.assert_allclose(gates.thick[name].get_ydata(), gru.height_of(np.median(found, axis=0)))
    assert gates.table.shape == (3, UNITS)
    np.testing.assert_allclose(gates.table.sum(0), 1)
    lab.set(sharpness=BETAS[-1])
    shown(lab)
    sharp = gates.table
    assert np.minimum(sharp, 1 - sharp).max() < 0.05, "each unit has one expert"
    torch_, paper = (np.median(gru.gaps(seed)[name], axis=0) for name in CONVENTIONS)
    assert torch_[-1] < 1e-6 < 0.1 < paper[-1] and GRU.random(2, 2).convention == CONVENTIONS[0]


def test_pinned_medians_stay_until_they_are_taken_away(make: Make) -> None:
    lab = done(make())
    lab.pin()
    shown(lab)
    assert len(lab.picture.errors.shown_pins) == 3
    kept = lab.picture.errors.pins[0][2].copy()
    lab.set(noise=0.5)
    done(lab)
    np.testing.assert_array_equal(lab.picture.errors.pins[0][2], kept)
    lab.unpin()
    shown(lab)
    assert not lab.picture.errors.shown_pins and not lab.picture.errors.pins


def test_captions_tell_start_way_and_end(ended: LandscapeLab) -> None:
    lab = ended
    records = lab.records
    assert lab.caption(records[0]).startswith("Start: both losses begin at the same random regressors")
    assert lab.caption(records[5]).startswith(f"Step {records[5].step} of 100: L₄ has found the regressors in ")
    assert "stuck" not in lab.caption(records[5]) and "; stuck: " in lab.caption(records[-1])
    lab.scrub(0)
    shown(lab)
    assert lab.picture.maps.words["l2"] == "waits for its samples"


def test_a_projector_s_picture_is_half_as_large_again(tmp_path: Path, make: Make) -> None:
    lab = done(make(projector=True))
    with Image.open(lab.save_picture(tmp_path / "large")) as image:
        assert image.size == (1650, 720) and EDGE * 1.5 == 357
    assert lab.values == {**lab.values, **SMALL}
