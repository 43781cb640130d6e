"""The pictures of the loss landscapes: what is drawn is what was measured, and can be read."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from moe_lab.recovery.landscape import plots

STEPS = np.array([0, 50, 100])


def attrs(place: str) -> dict[str, str]:
    return {"figure": place, "paper": f"gated2019, {place}", "call": "made()"}


def compared() -> xr.Dataset:
    """Four starts: L4 recovers from all, l2 is stuck in two and still falls in one."""
    four = np.array([0.9, 0.1, 4e-4])[:, None] * np.array([1, 1.1, 0.9, 0.5])
    two = np.array([[0.9] * 4, [0.6, 0.5, 0.5, 0.1], [0.5, 0.5, 0.3, 0.001]])
    lost, falling = np.array([True, True, False, False]), np.array([False, False, True, False])
    both = ("loss", "trial")
    return xr.Dataset(
        {
            "regressor_error": (("loss", "step", "trial"), np.stack([four, two])),
            "stuck": (both, np.stack([0 * lost, lost]).astype(bool)),
            "still_falling": (both, np.stack([0 * falling, falling]).astype(bool)),
            "excess": ("trial", [0.002, 0.003, 0.004, 0.0]),
            "gate_to_gate": ("trial", [0.0, 0.01, 0.2, 1.0]),
            "gate_to_regressors": ("trial", [1.0, 0.99, 0.8, 0.0]),
        },
        {"loss": ["L4", "l2"], "step": STEPS},
        attrs("figure 2 (a)"),
    )


def sources() -> xr.Dataset:
    values = np.array([0.003, 0.5, 0.002])[:, None, None] * np.array([1, 1.5])
    values = np.broadcast_to(values, (3, 3, 2))
    coords = {"regressors": ["L4", "l2", "true"], "step": STEPS}
    return xr.Dataset({"gating_error": (("regressors", "step", "trial"), values)}, coords, attrs("figure 2 (b)"))


def random() -> xr.Dataset:
    values = np.array([0.9, 0.1, 0.001])[:, None] * np.array([1, 0.5])
    return xr.Dataset(
        {"regressor_error": (("step", "trial"), values), "gating_error": (("gate_step", "trial"), 2 * values / 2.5)},
        {"step": STEPS, "gate_step": [0, 1, 2]},
        attrs("figure 3"),
    )


def small() -> xr.Dataset:
    values = np.array([0.9, 0.1, 0.001])[:, None] * np.array([[[1, 0.5]], [[0.7, 0.2]]])
    coords = {"batch": [128, 1024], "step": STEPS}
    return xr.Dataset({"regressor_error": (("batch", "step", "trial"), values)}, coords, attrs("figure 4"))


def hill() -> xr.Dataset:
    side = np.linspace(-1, 1, 9)
    values = side[:, None] ** 2 + (side**2 - 0.25) ** 2 + 3
    data = xr.Dataset({"surface": (("v", "u"), values, {"long_name": "l2 on 8192 samples"})}, {"u": side, "v": side})
    data["u"].attrs["long_name"] = data["v"].attrs["long_name"] = "along a direction"
    for name, path in (("path_u", [0.9, 0.6, 0.5]), ("path_v", [0.9, 0.3, 0.0]), ("off", [0.0, 0.3, 0.1])):
        data[name] = "step", path
    data["regressor_error"] = "step", [0.9, 0.6, 0.5]
    for name, marks in (("mark_u", [0.9, 0.5, -0.5]), ("mark_v", [0.9, 0, 0])):
        data[name] = "mark", marks
    return data.assign_coords(step=STEPS, mark=["start", "end", "solution"]).assign_attrs(attrs("loss surface"))


def cells() -> xr.Dataset:
    values = np.array([[0.05, 1e-3, 0.0], [0.1, 0.2, 0.2]])[..., None] * np.array([1, 1.5, 0.5])
    coords = {"convention": ["torch", "paper"], "sharpness": [1.0, 10.0, math.inf]}
    return xr.Dataset({"median": (("convention", "sharpness", "cell"), values)}, coords, attrs("section 2"))


def drawn(axes, gid: str) -> list:
    return [line for line in axes.lines if line.get_gid() == gid]


class TestL4AgainstL2:
    def test_curves_are_the_trials_and_thick_is_the_one_in_the_middle(self):
        axes = plots.picture(compared()).axes[0]
        assert len(drawn(axes, "trials")) == 8
        four, two = drawn(axes, "middle")
        for line, loss in ((four, "L4"), (two, "l2")):
            errors = compared().regressor_error.sel(loss=loss).transpose("trial", "step").values
            (trial,) = {int(one) for one in np.flatnonzero((errors == line.get_ydata()).all(1))[:1]}
            assert (errors[:, -1] < errors[trial, -1]).sum() <= 2 <= (errors[:, -1] <= errors[trial, -1]).sum()
        assert four.get_linestyle() == "-" and two.get_linestyle() == "--"

    def test_stuck_and_still_falling_starts_have_marks_of_their_own(self):
        axes = plots.picture(compared()).axes[1]
        assert [len(line.get_ydata()) for line in drawn(axes, "stuck")] == [0, 2]
        assert [len(line.get_ydata()) for line in drawn(axes, "still falling")] == [0, 1]
        assert [len(line.get_ydata()) for line in drawn(axes, "recovered")] == [4, 1]
        assert {text.get_text() for text in axes.texts} == {"0 of 4 stuck", "2 of 4 stuck"}

    def test_where_the_gates_point(self):
        axes = plots.picture(compared()).axes[2]
        (lost,), (good,) = drawn(axes, "stuck"), drawn(axes, "recovered")
        assert lost.get_xdata().tolist() == [0.0, 0.01, 0.2] and good.get_ydata().tolist() == [0.0]
        assert any("0.0030 larger" in text.get_text() for text in axes.texts)

    def test_caption_counts(self):
        words = plots.caption(compared())
        assert "L₄ is stuck in 0" in words and "ℓ₂ in 2" in words and "0 and 1 still falling" in words


def test_a_diverged_trial_is_not_the_one_in_the_middle():
    data = random()
    data["regressor_error"] = data.regressor_error.where(data.regressor_error["trial"] == 0)
    (middle,) = drawn(plots.picture(data).axes[0], "middle")
    np.testing.assert_allclose(middle.get_ydata(), data.regressor_error[:, 0])


def test_the_path_lies_on_the_surface():
    axes = plots.picture(hill()).axes[0]
    (path,) = drawn(axes, "path")
    assert path.get_xdata().tolist() == [0.9, 0.6, 0.5]
    for name, at in (("start", (0.9, 0.9)), ("end", (0.5, 0.0)), ("solution", (-0.5, 0.0))):
        (mark,) = drawn(axes, name)
        assert (mark.get_xdata()[0], mark.get_ydata()[0]) == at
    assert "away from every solution" in plots.caption(hill())
    assert "0.30 off" in "".join(text.get_text() for text in plots.picture(hill()).texts)


def test_cells_end_at_binary_gates():
    axes = plots.picture(cells()).axes[0]
    torch_, paper = drawn(axes, "median")
    np.testing.assert_allclose(torch_.get_ydata(), [0.05, 1e-3, 0])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10", "binary"]
    assert paper.get_linestyle() == "--"
    assert "from 0.05 to 0" in plots.caption(cells())
