"""The gate of two experts by one moment: against theorem 3 as printed, where its limit is w, and where it is not."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from moe_lab.core.config import ConfigError
from moe_lab.recovery import Inputs, MixtureSamples, MixtureTask
from moe_lab.recovery.activations import ACTIVATIONS
from moe_lab.recovery.gridlock import Spectral, figures, recover, train
from moe_lab.recovery.gridlock.gate_figures import GATES_ALONE, gate_cells
from moe_lab.recovery.gridlock.run import MixtureRun
from moe_lab.recovery.moments import gate_by_moments, nearer_to_second

LINEAR = ACTIVATIONS["identity"]


def cosines(samples: MixtureSamples, g: str = "identity", **given: bool) -> np.ndarray:
    found = gate_by_moments(samples.truth.regressors, samples.inputs, samples.y, ACTIVATIONS[g], **given)
    return (found * samples.truth.gates[:, 0]).sum(1).numpy()


@functools.cache
def many(samples: int = 50_000, **task) -> MixtureSamples:
    return MixtureTask(**{"gating": "orthogonal", **task}).sample(samples, trials=range(4), seed=5)


class TestTheMoment:
    def test_it_is_minus_theorem_3s(self):
        data = MixtureTask().sample(500, trials=range(3), seed=1)
        for t in range(3):
            x, y, (a_1, a_2) = data.x[t].numpy(), data.y[t].numpy(), data.truth.regressors[t].numpy()
            ratio = (y - x @ a_2) / (x @ (a_1 - a_2))
            wanted = -((ratio <= 0.5)[:, None] * x).mean(0)
            found = gate_by_moments(data.truth.regressors, data.inputs, data.y, LINEAR)[t]
            np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted), rtol=1e-10)
            centred = -(((ratio <= 0.5) - 0.5)[:, None] * x).mean(0)
            found = gate_by_moments(data.truth.regressors, data.inputs, data.y, LINEAR, centred=True)[t]
            np.testing.assert_allclose(found, centred / np.linalg.norm(centred), rtol=1e-10)

    def test_by_hand(self):
        """x = 1, 1, -1, -1; experts x and -x: y = 1 is nearer to 1, -1, -1, 1 of expert 1; a tie is one half."""
        x = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)[None, :, None]
        y = torch.tensor([[0.9, -0.2, -1.5, 0.0]], dtype=torch.float64)
        regressors = torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64)
        assert nearer_to_second(regressors, x, y, LINEAR).tolist() == [[0, 1, 0, 0.5]]
        inputs = Inputs(x, torch.zeros(1, 1, 1).double(), torch.ones(1, 1).double())
        assert gate_by_moments(regressors, inputs, y, LINEAR).item() == -1  # mean of 0, 1, 0, -1/2 is 1/8

    @pytest.mark.parametrize("g", sorted(ACTIVATIONS))
    @pytest.mark.parametrize("centred", [False, True])
    def test_its_limit_is_w_with_its_sign(self, g, centred):
        """A ReLU's ties, where both experts answer 0, count one half: as 0 they would bring cosines down to .6."""
        assert (cosines(many(activation=g), g, centred=centred) > 0.996).all()

    def test_swapped_experts_have_the_opposite_gate(self):
        data = many(2000)
        one = gate_by_moments(data.truth.regressors, data.inputs, data.y, LINEAR)
        other = gate_by_moments(data.truth.regressors.flip(1), data.inputs, data.y, LINEAR)
        assert ((one * other).sum(1) < -0.85).all()  # not -1: the mean of x is not quite 0
        centred = [
            gate_by_moments(a, data.inputs, data.y, LINEAR, centred=True)
            for a in (data.truth.regressors, data.truth.regressors.flip(1))
        ]
        torch.testing.assert_close(centred[0], -centred[1])

    def test_other_inputs_need_their_score(self):
        data = many(first_share=0.3)
        assert (cosines(data) > 0.995).all()
        as_if_gaussian = Inputs(data.x, torch.zeros_like(data.inputs.means[:, :1]), torch.ones(4, 1).double())
        plain = gate_by_moments(data.truth.regressors, as_if_gaussian, data.y, LINEAR)
        assert ((plain * data.truth.gates[:, 0]).sum(1) < 0.9).all()

    def test_gates_that_are_not_orthogonal_leave_a_bias_that_grows_with_sigma(self):
        """Appendix D.4 needs w orthogonal to the regressors, where theorem 3 does not say so."""
        worst = {
            (gating, sigma): np.degrees(np.arccos(cosines(many(gating=gating, noise=sigma), centred=True))).max()
            for gating in ("random", "orthogonal")
            for sigma in (0.1, 0.5)
        }
        assert worst["random", 0.5] > 8 > 6 > worst["random", 0.1]
        assert max(worst["orthogonal", 0.1], worst["orthogonal", 0.5]) < 6

    def test_k_is_two(self):
        data = MixtureTask(experts=3).sample(50, trials=[0], seed=0)
        with pytest.raises(ValueError, match=r"^gates by moments \(theorem 3\) need experts \(k\) = 2: got k=3$"):
            gate_by_moments(data.truth.regressors, data.inputs, data.y, LINEAR)
        with pytest.raises(ConfigError, match=r"need experts \(k\) = 2: got gate_step='moments', k=3$"):
            train(Spectral(gate_step="moments"), MixtureTask(experts=3))


class TestInARun:
    def test_the_gate_of_spectral(self):
        run = MixtureRun(model=Spectral(gate_step="moments", joint_iterations=0), task=MixtureTask(), trials=3, seed=2)
        samples, state = recover(run)
        wanted = gate_by_moments(state.regressors, samples.inputs, samples.y, LINEAR)
        torch.testing.assert_close(state.gates[:, 0], wanted)
        assert not state.gates[:, 1].any()

    def test_it_is_one_step_of_the_stream_and_em_can_follow(self):
        shots = list(train(Spectral(gate_step="centred-moments", joint_iterations=3), MixtureTask(), trials=2, seed=2))
        phases = [int(shot["phase"][0]) for shot in shots]
        assert (phases.count(1), phases.count(2)) == (1, 3)
        assert np.diff([shot.step for shot in shots]).tolist() == [1] * (len(shots) - 1)
        assert (shots[-1]["regressor_fit"] > 0.99).all()


class TestFigure:
    def test_theorem_3_on_a_fresh_seed(self):
        """What the package promises; the seed was used for nothing else."""
        data = figures.gates_by_moments(gating="random", trials=10, seed=33)
        assert data.gating_fit.dims == ("gating", "samples", "regressors", "algorithm", "trial")
        assert data.attrs["paper"] == "gridlock2019, theorem 3"
        mean = data.gating_fit.mean("trial").squeeze("gating")
        few, plenty = mean.sel(samples=2000, regressors="true"), mean.sel(samples=20000)
        at = {name: float(few.sel(algorithm=name)) for name in GATES_ALONE}
        assert 0.955 < at["moments"] < 0.98
        assert at["moments"] + 0.008 < at["centred-moments"] < at["spectral"]
        assert at["spectral"] > 0.984
        assert (plenty > 0.994).all()
        assert (data.regressor_fit.sel(regressors="true") > 1 - 1e-9).all()

    def test_true_regressors_are_the_true_ones(self):
        how = {"task": {"experts": 2}, "settings": {"samples": 300}, "iterations": None}
        (found,) = gate_cells([{"algorithm": "moments", "regressors": "true"}], trials=2, seed=4, **how)
        data = MixtureTask().sample(300, trials=range(2), seed=4)
        np.testing.assert_allclose(found["gating_fit"][0], np.abs(cosines(data)), rtol=1e-9)

    def test_tables_take_it_and_curves_do_not(self):
        data = figures.table2(2, 3, "random", ("moments", "spectral"), 300)
        assert (data.gating_fit.sel(algorithm="moments") != data.gating_fit.sel(algorithm="spectral")).all()
        with pytest.raises(ValueError, match=r"moments take one step and have no curve.*got methods="):
            figures.figure3(methods="moments")

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"methods": "joint-em"}, r"methods must be among moments, centred-moments, spectral: got .*joint-em"),
            ({"regressors": "wrong"}, r"regressors must be among estimated, true: got .*wrong"),
            ({"gating": "curved"}, r"gating.*got gating='curved'"),
            ({"samples": 19}, r"samples .n. must be at least dimension"),
            ({"first_share": 1.0}, r"first_share .p. must be less than 1"),
        ],
    )
    def test_wrong_input_is_one_sentence(self, given, says):
        with pytest.raises(ValueError, match=says) as raised:
            figures.gates_by_moments(**given)
        assert "\n" not in str(raised.value)
