"""A GRU cell as a hierarchical mixture: exact where gates are binary in torch's convention, and not elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from moe_lab.recovery.landscape.gru import GRU, gap_by_sharpness


def drawn(units: int = 7, inputs: int = 5, batch: int = 200):
    draw = np.random.default_rng(0)
    return torch.as_tensor(draw.standard_normal((batch, inputs))), torch.as_tensor(draw.uniform(-1, 1, (batch, units)))


def torch_cell(bias: bool = True) -> torch.nn.GRUCell:
    cell = torch.nn.GRUCell(5, 7, bias=bias, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for part in cell.parameters():
            part.copy_(torch.randn(part.shape, generator=generator, dtype=part.dtype))
    return cell


@pytest.mark.parametrize("bias", [True, False])
def test_a_soft_cell_is_that_of_torch(bias):
    cell, (x, h) = torch_cell(bias), drawn()
    with torch.no_grad():
        torch.testing.assert_close(GRU.from_torch(cell).step(x, h), cell(x, h), rtol=0, atol=1e-12)


def test_binary_gates_are_where_the_gates_of_torch_go():
    """torch's cell with its gates' weights times 1e9 has gates of 0 and 1, and is the mixture."""
    cell, (x, h) = torch_cell(), drawn()
    binary = GRU.from_torch(cell, math.inf)
    with torch.no_grad():
        for part in cell.parameters():
            part[: 2 * cell.hidden_size] *= 1e9
        torch.testing.assert_close(binary.mixture(x, h).state, cell(x, h), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_eq_5_is_exact_for_binary_gates_in_the_convention_of_torch(seed):
    cell, (x, h) = GRU.random(7, 5, seed=seed, scale=2.0).replace(sharpness=math.inf), drawn()
    assert float(cell.gap(x, h).max()) < 1e-12
    mixture = cell.mixture(x, h)
    assert set(mixture.update.unique().tolist()) == set(mixture.reset.unique().tolist()) == {0.0, 1.0}


def test_the_state_bias_belongs_to_the_recalling_expert():
    """Outside it, as in the paper, where there are no biases, eq. 5 would miss torch's cell."""
    cell, (x, h) = GRU.random(7, 5).replace(sharpness=math.inf), drawn()
    mixture = cell.mixture(x, h)
    moved = mixture._replace(forget=torch.tanh(cell.candidate.of_input(x) + cell.candidate.state_bias))
    assert float((moved.state - cell.step(x, h)).abs().max()) > 0.1
    torch.testing.assert_close(mixture.forget, torch.tanh(cell.candidate.of_input(x)))


class TestConventionOfThePaper:
    def test_eq_5_is_false_in_general(self):
        cell, (x, h) = GRU.random(7, 5, convention="paper").replace(sharpness=math.inf), drawn()
        assert float(cell.gap(x, h).max()) > 0.1

    def test_eq_5_is_exact_for_diagonal_weights(self):
        cell, (x, h) = GRU.random(7, 5, convention="paper").replace(sharpness=math.inf), drawn()
        diagonal = replace(cell.candidate, states=torch.diag(cell.candidate.states.diagonal()))
        assert float(cell.replace(candidate=diagonal).gap(x, h).max()) < 1e-12

    def test_eq_5_is_exact_where_all_resets_are_alike(self):
        cell, (x, h) = GRU.random(7, 5, convention="paper").replace(sharpness=math.inf), drawn()
        first, bias = cell.reset, cell.reset.input_bias[:1].expand(7)
        alike = replace(first, inputs=first.inputs[:1].expand(7, 5), states=first.states[:1].expand(7, 7))
        same = cell.replace(reset=replace(alike, input_bias=bias, state_bias=torch.zeros(7).double()))
        assert len(same.mixture(x, h).reset.unique()) == 2
        assert float(same.gap(x, h).max()) < 1e-12

    def test_unit_one_depends_on_the_resets_of_others(self):
        """W (r * h): what eq. 5, whose unit i knows r_i alone, cannot have."""
        cell, (x, h) = GRU.random(2, 1, convention="paper"), drawn(2, 1)
        shifted = replace(cell.reset, input_bias=cell.reset.input_bias + torch.tensor([0.0, 5.0]))
        assert (cell.replace(reset=shifted).step(x, h) - cell.step(x, h))[:, 0].abs().min() > 0
        late = cell.replace(convention="torch")
        assert (late.replace(reset=shifted).step(x, h) - late.step(x, h))[:, 0].abs().max() == 0


class TestSharpness:
    def test_the_typical_gap_closes_in_the_convention_of_torch_only(self):
        sharpness = (1.0, 10.0, 100.0, math.inf)
        cells = {name: GRU.random(8, 6, convention=name) for name in ("torch", "paper")}
        medians = {name: np.median(gap_by_sharpness(cell, sharpness), axis=1) for name, cell in cells.items()}
        assert medians["torch"][0] > 0.02
        assert medians["torch"][1] < medians["torch"][0] / 10
        assert medians["torch"][-1] < 1e-12
        assert (np.diff(medians["paper"]) > 0).all()

    def test_weights_of_the_experts_sum_to_one(self):
        cell, (x, h) = GRU.random(7, 5), drawn()
        weights = cell.mixture(x, h).weights
        torch.testing.assert_close(weights.sum(2), torch.ones(200, 7).double())
        assert (weights > 0).all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: GRU.random(2, 2).replace(convention="mine"), "convention must be 'torch' or 'paper'.*'mine'"),
        (lambda: GRU.random(2, 2).replace(sharpness=0.0), r"sharpness .beta. must be greater than 0: got beta=0.0"),
        (lambda: GRU.random(0, 2), r"units .m. and inputs .d. must be at least 1: got m=0"),
        (lambda: GRU.random(2, 2).replace(reset=GRU.random(3, 2).reset), r"same shape .m, d.: .*reset=.3, 2."),
        (lambda: gap_by_sharpness(GRU.random(2, 2), samples=0), "samples must be at least 1"),
    ],
)
def test_refusals(make, says):
    with pytest.raises(ValueError, match=says):
        make()
