"""A mixture of experts in the place of a block's MLP: the router, the experts, and who is computed by whom.

Shapes: N images, T tokens, D dimensions, E experts, G groups of S tokens.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from moe_lab.core.config import require
from moe_lab_papers.pruning2024.vmoe import routing
from moe_lab_papers.pruning2024.vmoe.config import VMoEConfig
from moe_lab_papers.pruning2024.vmoe.layers import Dense, Mlp
from moe_lab_papers.pruning2024.vmoe.routing import Assignment


class Router(nn.Module):
    """The router of a mixture, one for each member in E3."""

    def __init__(self, config: VMoEConfig, experts: int) -> None:
        super().__init__()
        outputs = (experts,) if config.ensemble_size is None else (config.members, experts // config.members)
        self.dense = Dense((config.hidden_size,), outputs, bias=False)


class Moe(nn.Module):
    """A mixture of experts in the place of a block's MLP."""

    _columns: Tensor  # (E,) the position of each expert among those left, -1 if it was pruned

    def __init__(self, config: VMoEConfig, block: int) -> None:
        super().__init__()
        routes, kept = config.routes_in(block), config.kept_in(block)
        self.config, self.experts = config, len(kept)
        self.Router = Router(config, len(routes))
        self.Mlp = Mlp(config.hidden_size, config.mlp_dim, experts=len(kept))
        columns = [kept.index(expert) if expert in kept else -1 for expert in routes]
        # On the CPU also where the parameters have no storage: it is no part of a checkpoint, which would replace it.
        self.register_buffer("_columns", torch.tensor(columns, device="cpu"), persistent=False)

    def noise(self, images: int, generator: Generator) -> Float[Tensor, "G M each own"]:
        """Draws standard normal noise on the host for the router logits of so many images."""
        config, members = self.config, self.config.members
        groups = images * members * config.positions // config.group_size
        own = len(self._columns) // members
        return torch.randn(groups, members, config.group_size // members, own, generator=generator)

    def forward(
        self, x: Float[Tensor, "N T D"], noise: Float[Tensor, "G M each own"] | None = None
    ) -> tuple[Float[Tensor, "N T D"], Assignment, Tensor]:
        """Returns the mixture's output, who was routed where, and the balancing loss."""
        grouped = self._grouped(x)
        gates, loss = self._gates(grouped, noise)
        assigned = self._assigned(gates)
        buffers = routing.buffers_of(assigned, self._columns.to(x.device), self.experts)
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

    def _gates(
        self, x: Float[Tensor, "G S D"], noise: Float[Tensor, "G M each own"] | None
    ) -> tuple[Float[Tensor, "G S E"], Tensor]:
        config = self.config
        logits = routing.router_logits(x, self.Router.dense.kernel)
        gates = logits.softmax(-1)
        loss = config.importance_loss_weight * routing.importance_loss(gates).mean()
        if noise is not None and config.noise_std > 0:
            spread = config.noise_std / logits.shape[-1]
            noisy = logits + spread * noise.to(logits)
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
