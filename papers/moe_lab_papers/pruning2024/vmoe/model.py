"""V-MoE and E3: vision transformers with sparse mixtures of experts, computed as in the reference implementation.

    y = sum_{e in top K} p_e(x) MLP_e(x),   p = softmax of x W over all experts         (Riquelme et al., 2021, eq. 1)

The gates of the selected experts are not normalized again. Each expert takes at most C tokens of a group, and a token
that finds no place gets nothing from that expert. Groups span images, so an image's logits depend on its batch.

Shapes: N images, T tokens, D dimensions, E experts, M members, G groups of S tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from moe_lab.core.config import require
from moe_lab.core.signatures import with_notebook
from moe_lab_papers.pruning2024.vmoe import checkpoints
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig
from moe_lab_papers.pruning2024.vmoe.layers import Attention, Dense, LayerNorm, MapHead, Mlp, Positions, patches
from moe_lab_papers.pruning2024.vmoe.mixture import Moe
from moe_lab_papers.pruning2024.vmoe.named import named
from moe_lab_papers.pruning2024.vmoe.routing import Assignment


class Output(NamedTuple):
    """The result of a model on a batch.

    Attributes:
      logits: (N, classes), in E3 (N M, classes) with the M members of an image after each other.
      routed: the assignment of tokens in each block with a mixture.
      loss: the sum over blocks of the weighted importance and load losses.
    """

    logits: Float[Tensor, "rows classes"]
    routed: dict[int, Assignment]
    loss: Tensor


class Block(nn.Module):
    """Attention, then an MLP or a mixture, both added to their inputs."""

    def __init__(self, config: VMoEConfig, block: int) -> None:
        super().__init__()
        self.LayerNorm_0, self.LayerNorm_1 = LayerNorm(config.hidden_size), LayerNorm(config.hidden_size)
        self.SelfAttention = Attention(config.hidden_size, config.num_heads)
        self.sparse = block in config.layers
        if self.sparse:
            self.Moe = Moe(config, block)
        else:
            self.Mlp = Mlp(config.hidden_size, config.mlp_dim)

    def attend(self, x: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        y = self.LayerNorm_0(x)
        return x + self.SelfAttention(y, y)

    def mixed(
        self, x: Float[Tensor, "N T D"], noise: Tensor | None = None
    ) -> tuple[Float[Tensor, "N T D"], Assignment | None, Tensor | float]:
        """Computes the block after its attention; who was routed where, if there is a mixture; the balancing loss."""
        y = self.LayerNorm_1(x)
        if not self.sparse:
            return x + self.Mlp(y), None, 0.0
        outputs, assigned, loss = self.Moe(y, noise)
        return x + outputs, assigned, loss


class Encoder(nn.Module):
    """The position embedding, the blocks, and the normalization after them."""

    def __init__(self, config: VMoEConfig) -> None:
        super().__init__()
        self.posembed_input = Positions(config.positions, config.hidden_size)
        for block in range(config.num_layers):
            self.add_module(f"encoderblock_{block}", Block(config, block))
        self.encoder_norm = LayerNorm(config.hidden_size)


@with_notebook
class VMoE(nn.Module):
    """A V-MoE, or with `ensemble_size` an E3.

    `model(images)` maps (N, height, width, channels) to logits (N, classes), in E3 (N M, classes) with the M members of
    an image after each other; the prediction of the ensemble is the mean of their softmax. Parameters have the names of
    the released checkpoints, with dots for slashes. There is no dropout.

    Logits are those of the reference implementation up to rounding, about a millionth of the largest number on the way.
    With `bfloat16` such a difference may round a number the other way: then single logits are up to .002 apart, in the
    reference between two ways to run it too. `model.double()` computes in float64.

    Args:
      config: a `VMoEConfig`, a name ("b16", "e3-s32"), or a mapping in the layout of the released configs.
      seed: of the initial weights.

    Raises:
      ConfigError: the config is wrong.
    """

    def __init__(self, config: VMoEConfig | Mapping[str, Any] | str = "b16", seed: int = 0) -> None:
        super().__init__()
        self.config = config = named(config)
        size = config.hidden_size
        self.embedding = Dense((*config.patch_size, config.channels), (size,))
        if config.classifier == "token":
            self.cls = nn.Parameter(torch.zeros(1, 1, size))
        self.Encoder = Encoder(config)
        if config.classifier == "map":
            self.MapHead = MapHead(size, config.num_heads, config.mlp_dim)
        if config.representation_size is not None:
            self.pre_logits = Dense((size,), (config.representation_size,))
        if config.num_classes:
            self.head = Dense((config.representation_size or size,), (config.num_classes,))
        if not self.embedding.kernel.is_meta:
            self._draw(Generator().manual_seed(seed))

    def forward(self, images: Float[Tensor, "N height width C"]) -> Float[Tensor, "rows classes"]:
        """Computes the logits.

        Raises:
          ValueError: the images have another size than the position embedding, or do not fill whole groups.
        """
        return self.run(images).logits

    def run(self, images: Float[Tensor, "N height width C"], noise: Mapping[int, Tensor] | None = None) -> Output:
        """Computes the logits, and with them how tokens were routed and the balancing loss.

        Args:
          images: (N, height, width, channels).
          noise: what is added to the router logits of each block in training, see `noise`; None for inference.

        Raises:
          ValueError: as in `forward`.
        """
        return self.resume(self.embed(images), 0, noise)

    def noise(self, images: int, generator: Generator) -> dict[int, Tensor]:
        """Draws the noise of a training step for so many images, by block, before it is scaled by noise_std.

        It is drawn on the host, the same for every device.
        """
        return {number: mixture.noise(images, generator) for number, mixture in self.mixtures().items()}

    def embed(self, images: Float[Tensor, "N height width C"]) -> Float[Tensor, "N T D"]:
        """Computes the tokens that enter the first block."""
        rule, same = "images must have the channels of the model", images.shape[-1] == self.config.channels
        require(same, rule, shape=tuple(images.shape), channels=self.config.channels)
        x = self.embedding(patches(images, self.config.patch_size))
        if self.config.classifier == "token":
            x = torch.cat((self.cls.expand(len(x), -1, -1), x), dim=1)
        rule = "images must have the size of the model's position embedding"
        require(x.shape[1] == self.config.positions, rule, shape=tuple(images.shape), T=self.config.positions)
        return self.Encoder.posembed_input(x)

    def resume(self, x: Float[Tensor, "N T D"], block: int, noise: Mapping[int, Tensor] | None = None) -> Output:
        """Computes the rest from the tokens that enter a block."""
        routed, loss = {}, x.new_zeros(())
        for number in range(block, self.config.num_layers):
            if number == min(self.config.layers, default=-1) and self.config.members > 1:
                x = x.repeat_interleave(self.config.members, dim=0)
            drawn = None if noise is None else noise.get(number)
            x, assigned, balance = self.block(number).mixed(self.block(number).attend(x), drawn)
            if assigned is not None:
                routed[number], loss = assigned, loss + balance
        return Output(self.classify(x), routed, loss)

    def block(self, number: int) -> Block:
        """Returns an encoder block."""
        block: Block = self.Encoder.get_submodule(f"encoderblock_{number}")  # type: ignore[assignment]
        return block

    def mixtures(self) -> dict[int, Moe]:
        """Returns the mixtures by block."""
        return {number: self.block(number).Moe for number in sorted(self.config.layers)}

    @classmethod
    def from_checkpoint(cls, prefix: Path | str, config: VMoEConfig | Mapping[str, Any] | str) -> Self:
        """Reads a checkpoint in the format of the released ones.

        With a name or a mapping, the size of the images follows from the checkpoint's position embedding; with a name
        also the classes and the width of the representation.

        Args:
          prefix: of the files: PREFIX.index, PREFIX.data-00000-of-00001 ...
          config: a name ("b16", "e3-s32"), a mapping in the layout of the released configs, or a `VMoEConfig`.

        Raises:
          ValueError: the files are damaged, or do not hold the parameters of this model.
          FileNotFoundError: a file is missing.
        """
        return checkpoints.from_released(cls, prefix, config)

    def save(self, path: Path | str) -> None:
        """Writes the weights as safetensors, with the config among the metadata.

        Raises:
          RuntimeError: the file cannot be written.
        """
        checkpoints.save(self, self.config, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads a model that `save` wrote.

        Raises:
          ValueError: the file is damaged, or was not written by `save`.
          FileNotFoundError: there is no such file.
        """
        return checkpoints.load(cls, path)

    def classify(self, x: Float[Tensor, "rows T D"]) -> Float[Tensor, "rows classes"]:
        """Computes the logits from the tokens that leave the last block."""
        x = self.Encoder.encoder_norm(x)
        pooled = x.mean(1) if self.config.classifier == "gap" else x[:, 0]
        pooled = self.MapHead(x) if self.config.classifier == "map" else pooled
        if self.config.representation_size is not None:
            pooled = self.pre_logits(pooled).tanh()
        return self.head(pooled) if self.config.num_classes else pooled

    def _draw(self, generator: Generator) -> None:
        """Draws the weights as the reference does, though not the same numbers."""
        alike = not self.config.split_rngs
        for name, module in self.named_modules():
            if isinstance(module, Dense) and name != "head":
                lecun = name in ("embedding", "pre_logits") or name.endswith("Router.dense")
                module.draw(generator, "lecun" if lecun else "xavier", alike)
        positions = self.Encoder.posembed_input.pos_embedding
        positions.data.copy_(0.02 * torch.randn(positions.shape, generator=generator))
        if self.config.classifier == "map":
            bound = (6 / (1 + self.config.hidden_size)) ** 0.5
            self.MapHead.probe.data.copy_((2 * torch.rand(self.MapHead.probe.shape, generator=generator) - 1) * bound)
        if self.config.num_classes:
            nn.init.constant_(self.head.get_parameter("bias"), self.config.head_bias_init)
