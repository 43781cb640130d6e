"""Rounding is not fine-tuning: two models are compared as the narrower of their types holds them."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch

from moe_lab.core.saliency import UndefinedCriterionError
from moe_lab_hub import plan_checkpoint, prune_experts
from moe_lab_hub.rounding import alike, exchangeable, of_difference, of_norms, stored_type
from tests.hub.cases import tiny

KINDS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
CHANGES = ("router-norm-change", "router-difference-norm", "neuron-magnitude-change")


def numbers(seed: int = 0, scale: float = 0.02) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(64, 48, generator=draw) * scale


@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
@pytest.mark.parametrize("scale", [1e-5, 0.02, 300.0])
def test_one_number_in_two_types_has_not_moved(first, second, scale):
    """Also where it was loaded in a wider type than it is stored in, and where float16 runs out of small numbers."""
    one = numbers(scale=scale)
    for wide in (False, True):
        pair = [one.to(kind).to(torch.float32) if wide else one.to(kind) for kind in (first, second)]
        found = alike(*pair)
        assert not found.moved and found.before.dtype == torch.float64
        changed = alike(pair[0], (1.03 * one).to(second))
        assert (changed.before != changed.after).float().mean() > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_change_in_one_type_is_seen(kind):
    old = numbers().to(kind)
    new = old.clone()
    new[3, 5] = torch.nextafter(old[3, 5].double(), torch.tensor(torch.inf, dtype=torch.float64)).to(kind)
    if kind != torch.float64:
        new[3, 5] = old[3, 5] * (1 + torch.finfo(kind).eps)
    for loaded in (kind, torch.float64):
        found = alike(old.to(loaded), new.to(loaded))
        assert (found.before != found.after).nonzero().tolist() == [[3, 5]] and not found.rounded


def test_numbers_set_by_hand_tell_no_type():
    """Each fits bfloat16 as well; what was fine-tuned from them in float32 must not be rounded away."""
    for one in (torch.zeros(8, 8), torch.ones(8, 8), torch.eye(8), torch.arange(64.0).view(8, 8) / 8):
        assert stored_type(one) == torch.float32
        assert alike(one, one + 1e-4).moved
    for kind in KINDS:
        assert stored_type(numbers().to(kind)) == kind
        assert stored_type(numbers().to(kind).to(torch.float64)) == (torch.float64 if kind == torch.float32 else kind)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_the_variance_is_that_of_many_roundings(kind):
    """By trial: vectors whose numbers are moved by less than rounding undoes, and rounded."""
    draw = torch.Generator().manual_seed(1)
    trials, size = 4000, 48
    old, new = (numbers(seed)[:1, :size].double() for seed in (2, 3))
    for function, measure in (
        (of_norms, lambda a, b: torch.linalg.vector_norm(b, dim=1) - torch.linalg.vector_norm(a, dim=1)),
        (of_difference, lambda a, b: torch.linalg.vector_norm(b - a, dim=1)),
    ):
        noise = torch.randn(2, trials, size, generator=draw, dtype=torch.float64)
        rough = [one * (1 + 0.05 * part) for one, part in zip((old, new), noise, strict=True)]
        stored = [one.to(kind).double() for one in rough]
        error = measure(*stored) - measure(*rough)
        variance = function(*stored, kind).mean()
        assert float(error.var() / variance) == pytest.approx(1, abs=0.1)  # 4000 trials: 2 % at one deviation


def test_who_could_change_places():
    scores = torch.tensor([5.0, 3.0, 2.99, 2.98, 1.0], dtype=torch.float64)
    stays = torch.tensor([True, True, False, False, False])
    for deviation, count in ((0.001, 0), (0.02, 1), (2.0, 2)):
        assert exchangeable(scores, torch.full((5,), deviation**2, dtype=torch.float64), stays) == count
    assert exchangeable(scores, torch.ones(5, dtype=torch.float64), torch.ones(5, dtype=torch.bool)) == 0


# --- in models --------------------------------------------------------------------------------------------------------


def asked(after: Any, before: Any, criterion: Any, folder: Any) -> list[Any]:
    """What to call, in memory and on disk."""
    if not (folder / "after").exists():
        after.save_pretrained(folder / "after")
        before.save_pretrained(folder / "before")
    return [
        lambda: prune_experts(after, before, criterion),
        lambda: plan_checkpoint(folder / "after", folder / "before", criterion),
    ]


@pytest.mark.parametrize("criterion", CHANGES)
@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(KINDS[1:], 2)))
@pytest.mark.parametrize("loaded", [False, True])
def test_a_model_in_two_types_has_not_changed(criterion, first, second, loaded, tmp_path):
    before, after = (tiny("mixtral").to(kind) for kind in (first, second))
    if loaded:
        before, after = before.float(), after.float()
    for ask in asked(after, before, criterion, tmp_path):
        with pytest.raises(UndefinedCriterionError, match=r"s that are equal once rounded to b?float16 in mod"):
            ask()


def moved(size: float) -> tuple[Any, Any]:
    """A tiny Mixtral before and after a change of this size, relative to each number."""
    before = tiny("mixtral")
    after = copy.deepcopy(before)
    draw = torch.Generator().manual_seed(5)
    for tensor in after.parameters():
        tensor.data *= 1 + size * torch.randn(tensor.shape, generator=draw)
    return before, after


@pytest.mark.parametrize("criterion", CHANGES)
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("both", [False, True])
def test_how_many_could_change_places_is_told(criterion, kind, both, tmp_path):
    """A change far below rounding ranks nothing. One that is far above ranks as in float32 all that is not told."""
    before, after = moved(torch.finfo(kind).eps / 20)  # one number in twenty is rounded elsewhere
    pair = after.to(kind), before.to(kind) if both else before
    for ask in asked(*pair, criterion, tmp_path / "small"):
        with pytest.warns(UserWarning, match=r"hides which experts should stay: [678] of 8 kept could chang"):
            found = ask()
        assert len(found.notes) == 1
    before, after = moved(0.3)
    wanted = prune_experts(after, before, criterion)
    pair = copy.deepcopy(after).to(kind), copy.deepcopy(before).to(kind) if both else before
    for ask in asked(*pair, criterion, tmp_path / "large"):
        found = ask()
        assert found.kept == wanted.kept and found.notes == ()


def test_ties_are_told():
    """Of equal scores the lower number stays, and the user learns of it."""
    before, after = tiny("mixtral"), tiny("mixtral")
    for layer in after.model.layers:
        layer.mlp.gate.weight.data[5] *= 2
    with pytest.warns(UserWarning, match=r"^rounding to float32 hides .*: 6 of 8 kept could change places"):
        pruned = prune_experts(after, before)
    assert set(pruned.kept.values()) == {(0, 1, 2, 5)}


def test_a_function_sees_both_models_in_the_narrower_type():
    before, after = moved(0.3)
    seen: list[Any] = []

    def function(old: Any, new: Any, known: Any) -> torch.Tensor:
        seen.append((old, new))
        return known.chance

    assert prune_experts(after, before.to(torch.bfloat16), function).notes == ()
    for layer, (old, new) in enumerate(seen):
        for model, experts in ((before, old), (after, new)):
            block = model.model.layers[layer].mlp
            assert torch.equal(experts.own_routers[0], block.gate.weight.bfloat16().double())
            assert torch.equal(experts.neurons[0], block.experts.gate_up_proj.bfloat16().double().mT)
