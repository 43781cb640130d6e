"""Operations of a pruned model, against torch's counter; test_prune compares parameters and bytes in every family."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from moe_lab_hub import prune_experts
from tests.hub.cases import inputs, tiny


@pytest.mark.parametrize("tie", [False, True])
def test_operations_by_hand_and_by_torchs_counter(tie):
    """Two for each parameter that a token meets; what the counter has besides are the attention's scores.

    With batches, silent operations are those of the tokens that these experts receive in the whole model.
    """
    model, given = tiny("mixtral", tie_word_embeddings=tie), inputs("mixtral")
    model.set_experts_implementation("eager")
    attention, router, expert, norms, words = 4 * 16 * 16, 8 * 16, 3 * 12 * 16, 5 * 16, 48 * 16
    whole = 2 * (attention + router + 2 * expert) + norms + words
    last = ["model.layers.1.mlp"]  # silent experts change what later layers receive, and there is none
    for mode, layers in (("rerouted", None), ("silent", last)):
        pruned = prune_experts(model, criterion="reap", mode=mode, layers=layers, batches=[given])
        operations = pruned.costs.operations
        assert operations.sel(way="whole") == 2 * whole
        assert operations.sel(way="rerouted") == 2 * (whole - (router if layers is None else router // 2))
        assert pruned.costs.active_parameters.sel(way="whole") == whole + (0 if tie else words)
        saved = counted(model, given) - counted(pruned.model, given)
        assert (
            saved == pytest.approx(float(operations.sel(way="whole") - operations.sel(way=mode)), abs=1.01)
            and saved > 0
        )
    silent = prune_experts(model, criterion="random", mode="silent").costs.operations
    assert silent.sel(way="silent") == 2 * (whole - 2 * expert)  # an even router sends half of its pairs to them


def counted(model: torch.nn.Module, given: dict[str, torch.Tensor]) -> float:
    """Operations of a token."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**given)
    return counter.get_total_flops() / given["input_ids"].numel()
