"""WRN-pMoE: its counts, and its layer of experts against the definitions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from moe_lab.core.config import ConfigError
from moe_lab.vision import WRN, PatchWRN
from moe_lab.vision.patches.network import PatchLayer

# --- counts ---------------------------------------------------------------------------------------------------------

STEM = 3 * 9 * 16 + 16
GROUP_1 = 2 * 16 + (16 * 9 + 1) * 160 + 2 * 160 + (160 * 9 + 1) * 160 + (16 + 1) * 160
GROUP_2 = 2 * 160 + (160 * 9 + 1) * 320 + 2 * 320 + (320 * 9 + 1) * 320 + (160 + 1) * 320
GROUP_3 = 2 * 320 + (320 * 9 + 1) * 640 + 2 * 640 + (640 * 9 + 1) * 640 + (320 + 1) * 640
NARROWED = 2 * 320 + (320 * 9 + 1) * 640
END = 2 * 640  # the last batch norm


def test_wrn_has_the_parameters_of_its_layers() -> None:
    trunk = STEM + GROUP_1 + GROUP_2
    cifar, celeba = WRN.paper().count(), WRN.paper("celeba").count((3, 64, 64), 2)
    assert cifar.parameters == trunk + GROUP_3 + END + 641 * 10 == WRN.paper().parameters
    assert round(celeba.parameters / 1e6, 2) == 7.43 and f"{cifar.parameters / 1e6:.3f}" == "7.439"
    experts = 4 * 640 + 4 * 2 * 640 + (640 + 1) * 640
    patch = PatchWRN.paper().count()
    assert patch.parameters == trunk + NARROWED + experts + END + 641 * 10
    assert round(patch.parameters / 1e6, 2) == 3.96  # the paper has "an equal number"
    experts = 8 * 16 * 640 + 8 * 2 * 640 + (9 * 640 + 1) * 640
    patch = PatchWRN.paper("celeba").count((3, 64, 64), 2)
    assert patch.parameters == trunk + NARROWED + experts + END + 641 * 2


def test_multiplications_are_those_of_the_convolutions() -> None:
    full, half, fourth = 32 * 32, 16 * 16, 8 * 8
    trunk = 9 * (3 * 16 + 16 * 160 + 160 * 160) * full + 16 * 160 * full
    trunk += 9 * (160 * 320 + 320 * 320) * half + 160 * 320 * half
    third = (9 * (320 * 640 + 640 * 640) + 320 * 640) * fourth
    patch = (9 * 320 * 640 + 640 * 640 + 4 * 640) * fourth
    assert WRN.paper().count().macs == trunk + third + 6400
    assert PatchWRN.paper().count().macs == trunk + patch + 6400
    found = [WRN.paper().count().macs, PatchWRN.paper().count().macs]
    assert [round(each / 1e9, 3) for each in found] == [0.997, 0.774]
    celeba = WRN.paper().count((3, 64, 64), 2), PatchWRN.paper("celeba").count((3, 64, 64), 2)
    assert [round(each.macs / 1e9, 2) for each in celeba] == [3.99, 3.94]
    assert round(celeba[1].macs_skipping / 1e9, 2) == 3.11
    training = celeba[0].training_flops * 4000 * 50
    assert 4.7e15 < training < 4.8e15 < 6e15  # what the paper prints for 4,000 samples


def test_skipped_patches_are_counted_as_they_are_computed() -> None:
    model = PatchWRN(experts=4, patches_per_expert=5)
    network = model.build((1, 16, 16), 4).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.randn(1, 1, 16, 16))
    once = 64 * 64  # an expert's answer to unkept patches, together those of one cell
    assert counter.get_total_flops() // 2 == model.count((1, 16, 16), 4).macs_skipping + once


# --- the layer ------------------------------------------------------------------------------------------------------


def layer_of(**changes: Any) -> PatchLayer:
    """A layer of 3 experts on 12 channels in float64, with weights that make a difference."""
    torch.manual_seed(1)
    options: dict[str, Any] = {"channels": 12, "experts": 3, "patches_per_expert": 4, **changes}
    layer = PatchLayer(**options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    layer.seeded(5)
    return layer


def cells(side: int = 4) -> Tensor:
    return torch.randn(5, 12, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def by_hand(layer: PatchLayer, x: Tensor, over_kept: bool) -> Tensor:
    """Eq. 5 and the layers after it as plain loops, with batch statistics, for patches of one cell."""
    batch, channels, height, width = x.shape
    flat, weight = x.flatten(2), layer.gates.weight[:, :, 0, 0]
    outputs = []
    for s in range(layer.experts):
        z = torch.zeros_like(flat)
        for b in range(batch):
            scores = torch.stack([weight[s] @ flat[b, :, j] for j in range(height * width)])
            kept = scores.argsort(descending=True)[: layer.keep]
            total = scores[kept].exp().sum() if over_kept else scores.exp().sum()
            for j in kept:
                z[b, :, j] = flat[b, :, j] * scores[j].exp() / total
        own = slice(s * channels, (s + 1) * channels)
        z = normed(z, layer.norm.weight[own], layer.norm.bias[own]).clamp(min=0)
        share = channels // layer.experts
        rows = slice(s * share, (s + 1) * share)
        outputs.append(torch.einsum("oc,bcn->bon", layer.conv.weight[rows, :, 0, 0], z) + layer.conv.bias[rows, None])
    answer = normed(torch.cat(outputs, 1), layer.last.weight, layer.last.bias)
    return answer.clamp(min=0).mean(2)


def normed(z: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean, spread = z.mean((0, 2), keepdim=True), (z.var((0, 2), keepdim=True, unbiased=False) + 1e-3).sqrt()
    return (z - mean) / spread * weight[:, None] + bias[:, None]


@pytest.mark.parametrize("over_kept", [False, True])
def test_experts_answer_the_patches_that_their_gates_keep(over_kept: bool) -> None:
    layer, x = layer_of(over_kept=over_kept), cells()
    torch.testing.assert_close(layer(x), by_hand(layer, x, over_kept), rtol=0, atol=1e-10)


@pytest.mark.parametrize("gates", ["learned", "random"])
def test_sparse_equals_masked_in_training_and_evaluation(gates: str) -> None:
    sparse, x = layer_of(gates=gates), cells()
    masked = copy.deepcopy(sparse)
    masked.sparse = False
    masked.random = torch.Generator().manual_seed(5)
    for _ in range(2):  # the second time with moved averages
        found, wanted = sparse(x), masked(x)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
        for each in (found, wanted):
            each.square().sum().backward()
    for (name, a), (_, b) in zip(sparse.named_parameters(), masked.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-8, msg=name)
    for name in ("norm.running_mean", "norm.running_var", "last.running_mean", "last.running_var"):
        torch.testing.assert_close(sparse.get_buffer(name), masked.get_buffer(name), rtol=0, atol=1e-12)
    torch.testing.assert_close(sparse.eval()(x), masked.eval()(x), rtol=0, atol=1e-10)


def test_all_patches_with_constant_gates_are_no_gates_up_to_a_scale() -> None:
    constant, none = layer_of(patches_per_expert=16), layer_of(gates="none")
    with torch.no_grad():
        constant.gates.weight.zero_()  # a softmax of 1/16 everywhere
        for layer in (constant, none):
            layer.norm.eps = layer.last.eps = 1e-12  # epsilon is what keeps batch norm from removing it all
        none.load_state_dict({name: part for name, part in constant.state_dict().items() if "gates" not in name})
    torch.testing.assert_close(constant(cells()), none(cells()), rtol=0, atol=1e-8)


def test_gates_permute_with_the_patches() -> None:
    layer, x = layer_of(), cells()
    order = torch.randperm(16, generator=torch.Generator().manual_seed(3))
    moved = x.flatten(2)[:, :, order].view_as(x)
    first, second = layer.routed(x), layer.routed(moved)
    torch.testing.assert_close(second.gates, first.gates[:, :, order], rtol=0, atol=1e-12)
    assert torch.equal(second.kept, first.kept[:, :, order]) and (first.kept.sum(2) == 4).all()
    torch.testing.assert_close(layer(x), layer(moved), rtol=0, atol=1e-10)


def test_patches_of_several_cells_share_a_gate() -> None:
    layer, x = layer_of(side=2, patches_per_expert=1, gates="learned"), cells()
    routed = layer.routed(x)
    assert routed.gates.shape == (5, 3, 4)
    best = torch.einsum("kcij,ncij->nk", layer.gates.weight, x[:, :, :2, 2:])  # the second patch by hand
    torch.testing.assert_close(layer.gates(x).flatten(2)[:, :, 1], best, rtol=0, atol=1e-12)
    assert layer(x).shape == (5, 12)


def test_random_gates_are_new_in_each_step_and_the_same_in_each_evaluation() -> None:
    layer, x = layer_of(gates="random"), cells()
    assert not torch.equal(layer.routed(x).kept, layer.routed(x).kept)
    layer.eval()
    assert torch.equal(layer.routed(x).kept, layer.routed(x).kept)


def test_models_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"experts .k. must divide the 64 x width channels.*k=5"):
        PatchWRN(experts=5)
    with pytest.raises(ValueError, match=r"at most patches .n.: got l=65, n=64"):
        PatchWRN(patches_per_expert=65).count()
    with pytest.raises(ValueError, match="multiple of 4"):
        WRN().build((1, 18, 18), 4)
    with pytest.raises(ValueError, match="patch_side must divide"):
        PatchWRN(patch_side=3).count()
