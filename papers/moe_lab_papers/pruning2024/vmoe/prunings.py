"""Many prunings of one model on the same images: what they share is computed once."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab_papers.pruning2024.vmoe.model import VMoE
from moe_lab_papers.pruning2024.vmoe.statistics import own_columns, received_gates


class Prunings:
    """Computes the logits of a V-MoE and of its prunings.

    All up to the first mixture is the same for them, and so is what an expert of it answers to each token. In the last
    block, where the head reads the first token alone, experts answer that token alone.

    Args:
      model: a V-MoE with all of its experts, not an E3.
      images: that fill whole groups.
    """

    def __init__(self, model: VMoE, images: Float[Tensor, "N height width C"]) -> None:
        self.first, self.last = min(model.config.layers), model.config.num_layers - 1
        x = model.embed(images)
        for number in range(self.first):
            x = model.block(number).mixed(model.block(number).attend(x))[0]
        block = model.block(self.first)
        self.tokens = block.attend(x)
        self.inputs = block.LayerNorm_1(self.tokens)
        self.answers = block.Moe.answers(self.inputs.flatten(0, 1))

    def logits(self, model: VMoE) -> Float[Tensor, "N classes"]:
        """Computes what `pruned(images)` gives, up to rounding.

        Args:
          model: the model, or a pruning of it.
        """
        answers = self.answers[list(model.config.kept_in(self.first))]
        x = self.tokens + _weighted(model, self.first, self.inputs, answers).view_as(self.tokens)
        for number in range(self.first + 1, self.last + 1):
            block = model.block(number)
            x = block.attend(x)
            alone = number == self.last and number in model.config.layers and model.config.classifier in ("token", "0")
            x = self._first_token(model, x) if alone else block.mixed(x)[0]
        return model.classify(x)

    def _first_token(self, model: VMoE, x: Float[Tensor, "N T D"]) -> Float[Tensor, "N 1 D"]:
        """The first token of each image after the last block; all tokens take part in its routing."""
        block = model.block(self.last)
        y = block.LayerNorm_1(x)
        return x[:, :1] + _weighted(model, self.last, y, block.Moe.answers(y[:, 0]), x.shape[1])[:, None]


def _weighted(
    model: VMoE, number: int, inputs: Float[Tensor, "N T D"], answers: Float[Tensor, "E_kept rows D"], every: int = 1
) -> Float[Tensor, "rows D"]:
    """Sums the experts' outputs on every n-th token, weighted by the gates with which they receive it."""
    assigned = model.block(number).Moe.assigned(inputs)
    gates = received_gates(assigned, len(model.config.routes_in(number)))[::every, own_columns(model, number)]
    return torch.einsum("te,etd->td", gates, answers)
