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

from moe_lab.config import require
from moe_lab.vision.vmoe import routing
from moe_lab.vision.vmoe.config import VMoEConfig
from moe_lab.vision.vmoe.layers import Attention, Dense, LayerNorm, MapHead, Mlp, Positions, patches
from moe_lab.vision.vmoe.named import named
from moe_lab.vision.vmoe.routing import Assignment


class Output(NamedTuple):
    """What a model computes of a batch.

    Attributes:
      logits: (N, classes), in E3 (N M, classes) with the M members of an image after each other.
      routed: the assignment of tokens in each block with a mixture.
      loss: the sum over blocks of the weighted importance and load losses.
    """

    logits: Float[Tensor, "rows classes"]
    routed: dict[int, Assignment]
    loss: Tensor


class Router(nn.Module):
    """The router of a mixture, one for each member in E3."""

    def __init__(self, config: VMoEConfig, experts: int) -> None:
        super().__init__()
        outputs = (experts,) if config.ensemble_size is None else (config.members, experts // config.members)
        self.dense = Dense((config.hidden_size,), outputs, bias=False)


class Moe(nn.Module):
    """A mixture of experts in the place of a block's MLP."""

    def __init__(self, config: VMoEConfig, block: int) -> None:
        super().__init__()
        routes, kept = config.routes_in(block), config.kept_in(block)
        self.config, self.experts = config, len(kept)
        self.Router = Router(config, len(routes))
        self.Mlp = Mlp(config.hidden_size, config.mlp_dim, experts=len(kept))
        columns = [kept.index(expert) if expert in kept else -1 for expert in routes]
        self._columns = tuple(columns)

    def forward(
        self, x: Float[Tensor, "N T D"], noise: Generator | None = None
    ) -> tuple[Float[Tensor, "N T D"], Assignment, Tensor]:
        """Returns the mixture's output, who was routed where, and the balancing loss."""
        grouped = self._grouped(x)
        gates, loss = self._gates(grouped, noise)
        assigned = self._assigned(gates)
        buffers = routing.buffers_of(assigned, torch.tensor(self._columns, device=x.device), self.experts)
        inputs = self._rounded(routing.dispatch(grouped, buffers))
        outputs = routing.combine(self._rounded(self.Mlp(inputs)), buffers, assigned.gates)
        return self._ungrouped(outputs, x.shape), assigned, loss

    def assigned(self, x: Float[Tensor, "N T D"]) -> Assignment:
        """Computes who is routed where, and nothing else."""
        return self._assigned(self._gates(self._grouped(x), None)[0])

    def answers(self, x: Float[Tensor, "rows D"]) -> Float[Tensor, "E_kept rows D"]:
        """Computes what every expert would make of every token."""
        inputs = self._rounded(x).expand(self.experts, -1, -1)
        return self._rounded(self.Mlp(inputs))

    def _assigned(self, gates: Float[Tensor, "G S E"]) -> Assignment:
        return routing.assign(gates, self.config.num_selected_experts, self.capacity, self.config.batch_priority)

    @property
    def capacity(self) -> int:
        """C, the places of an expert for the tokens of a group."""
        config = self.config
        if config.capacity is not None:
            return config.capacity
        tokens, factor = config.group_size * config.num_selected_experts, config.capacity_factor
        rounding, multiple = config.capacity_ceil_or_round, config.capacity_multiple_of
        return routing.capacity_of(tokens, len(self._columns), factor or 0, rounding, multiple)

    def _gates(self, x: Float[Tensor, "G S D"], noise: Generator | None) -> tuple[Float[Tensor, "G S E"], Tensor]:
        config = self.config
        logits = routing.router_logits(x, self.Router.dense.kernel)
        gates = logits.softmax(-1)
        loss = config.importance_loss_weight * routing.importance_loss(gates).mean()
        if noise is not None and config.noise_std > 0:
            spread = config.noise_std / logits.shape[-1]
            drawn = torch.randn(logits.shape, generator=noise).to(logits)
            noisy = logits + spread * drawn
            gates = noisy.softmax(-1)
            load = routing.load_loss(logits, noisy, spread, config.num_selected_experts).mean()
            loss = loss + config.load_loss_weight * load
        return routing.block_diagonal(gates), loss

    def _grouped(self, x: Float[Tensor, "N T D"]) -> Float[Tensor, "G S D"]:
        """Tokens in groups; in E3 the copies of a token come after each other."""
        count, tokens, size = x.shape
        rule = "the tokens of a batch must fill whole groups: choose the number of images or group_size (S) so"
        fits = count * tokens % self.config.group_size == 0
        require(fits, rule, images=count // self.config.members, tokens=count * tokens, S=self.config.group_size)
        if self.config.members > 1:
            x = x.view(-1, self.config.members, tokens, size).transpose(1, 2)
        return x.reshape(-1, self.config.group_size, size)

    def _ungrouped(self, x: Float[Tensor, "G S D"], shape: torch.Size) -> Float[Tensor, "N T D"]:
        if self.config.members > 1:
            x = x.view(-1, shape[1], self.config.members, shape[2]).transpose(1, 2)
        return x.reshape(shape)

    def _rounded(self, x: Tensor) -> Tensor:
        return x.bfloat16().to(x.dtype) if self.config.bfloat16 else x


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
        self, x: Float[Tensor, "N T D"], noise: Generator | None = None
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


class VMoE(nn.Module):
    """A V-MoE, or with `ensemble_size` an E3.

    `model(images)` maps (N, height, width, channels) to logits (N, classes), in E3 (N M, classes) with the M members of
    an image after each other; the prediction of the ensemble is the mean of their softmax. Parameters have the names of
    the released checkpoints, with dots for slashes. There is no dropout.

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

    def run(self, images: Float[Tensor, "N height width C"], noise: Generator | None = None) -> Output:
        """Computes the logits, and with them how tokens were routed and the balancing loss.

        Args:
          images: (N, height, width, channels).
          noise: the random numbers that are added to router logits in training; None for inference.

        Raises:
          ValueError: as in `forward`.
        """
        return self.resume(self.embed(images), 0, noise)

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

    def resume(self, x: Float[Tensor, "N T D"], block: int, noise: Generator | None = None) -> Output:
        """Computes the rest from the tokens that enter a block."""
        routed, loss = {}, x.new_zeros(())
        for number in range(block, self.config.num_layers):
            if number == min(self.config.layers, default=-1) and self.config.members > 1:
                x = x.repeat_interleave(self.config.members, dim=0)
            x, assigned, balance = self.block(number).mixed(self.block(number).attend(x), noise)
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
        from moe_lab.vision.vmoe.checkpoints import from_released  # here, because it makes models

        return from_released(cls, prefix, config)

    def save(self, path: Path | str) -> None:
        """Writes the weights as safetensors, with the config among the metadata.

        Raises:
          RuntimeError: the file cannot be written.
        """
        from moe_lab.vision.vmoe.checkpoints import save

        save(self, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads a model that `save` wrote.

        Raises:
          ValueError: the file is damaged, or was not written by `save`.
          FileNotFoundError: there is no such file.
        """
        from moe_lab.vision.vmoe.checkpoints import load

        return load(cls, path)

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
