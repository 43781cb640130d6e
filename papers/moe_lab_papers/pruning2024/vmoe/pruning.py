"""Pruning the experts of a V-MoE or E3, layer by layer and in E3 member by member (pruning2024, section 5.2).

There are two ways. "silent" is the paper's: all routers stay, so that gates do not change; pruned experts answer 0 and
their buffers go, so memory, operations and time fall. "rerouted" is what tools for language models do: routers of
pruned experts go too, tokens choose among the others, and the capacity grows in proportion; memory falls alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.saliency import CRITERIA, NEED_TOKENS, Criterion, ExpertWeights, Statistics, ranks
from moe_lab.core.trials import stream
from moe_lab_papers.pruning2024.vmoe.config import Pruning
from moe_lab_papers.pruning2024.vmoe.model import VMoE
from moe_lab_papers.pruning2024.vmoe.statistics import own_columns, routing_statistics


@dataclass(frozen=True)
class Pruned:
    """A pruned model.

    Attributes:
      model: the new model.
      kept: the numbers of the experts that each block has kept.
      scores: (experts,) the criterion's scores of the experts that each block had before.
    """

    model: VMoE
    kept: dict[int, tuple[int, ...]]
    scores: dict[int, Tensor]


def prune(
    before: VMoE,
    after: VMoE,
    criterion: str | Criterion,
    experts_to_prune: int,
    layers: Collection[int] | None = None,
    mode: Pruning = "silent",
    *,
    images: Float[Tensor, "N height width C"] | None = None,
    seed: int = 0,
    together: bool = False,
) -> Pruned:
    """Prunes the experts with the smallest scores from a fine-tuned model, which does not change.

    Args:
      before: the model before fine-tuning.
      after: the fine-tuned model; if it was pruned before, the experts it has left are pruned further.
      criterion: a name in `saliency.CRITERIA`, or a function like those.
      experts_to_prune: how many experts of each mixture go; in E3, of each member.
      together: whether the experts of all blocks are ranked together, and so many of all of them go, instead of so many
        of each, as in the paper (section 5.2); see `kept_of_all`.
      layers: the blocks to prune; all with a mixture when None.
      mode: "silent" or "rerouted".
      images: for criteria that need to know what experts receive; they must fill whole groups.
      seed: of the random criterion.

    Raises:
      ValueError: fewer than K experts would stay, a block has no mixture, the models do not fit together, or images are
        missing.
      UndefinedCriterionError: the criterion cannot rank the experts of a block.
    """
    scores = expert_scores(before, after, criterion, images=images, seed=seed, layers=layers)
    if together:
        kept = kept_of_all(after, scores, experts_to_prune)
    else:
        kept = {block: kept_experts(after, block, values, experts_to_prune) for block, values in scores.items()}
    return Pruned(without_others(after, kept, mode), kept, scores)


def expert_scores(
    before: VMoE,
    after: VMoE,
    criterion: str | Criterion,
    *,
    images: Float[Tensor, "N height width C"] | None = None,
    seed: int = 0,
    layers: Collection[int] | None = None,
    statistics: Mapping[int, Statistics] | None = None,
) -> dict[int, Tensor]:
    """Computes a criterion's scores of the experts that each block has, in float64.

    Args:
      before, after, criterion, images, seed, layers: as in `prune`.
      statistics: of the images, where they are known already.

    Raises:
      ValueError, UndefinedCriterionError: as in `prune`.
    """
    known = callable(criterion) or criterion in CRITERIA
    require(known, f"a criterion must be one of {', '.join(CRITERIA)}", criterion=criterion)
    score = criterion if callable(criterion) else CRITERIA[criterion]
    mixtures = sorted(after.config.layers)
    blocks = mixtures if layers is None else sorted(set(layers))
    rule = "layers must be blocks with a mixture"
    require(bool(blocks) and set(blocks) <= set(mixtures), rule, layers=blocks, mixtures=mixtures)
    if statistics is None:
        counted = callable(criterion) or criterion not in NEED_TOKENS
        require(counted or images is not None, f"the criterion {criterion!r} needs images", images=None)
        statistics = without_images(after, seed) if images is None else routing_statistics(after, images, seed)
    return {
        block: score(weights_of(before, block, after), weights_of(after, block, after), statistics[block])[0]
        for block in blocks
    }


def weights_of(model: VMoE, block: int, like: VMoE) -> ExpertWeights:
    """Returns the routers and neurons of the experts that another model has in a block, (1, experts, ...), in float64.

    Raises:
      ValueError: the model lacks some of these experts, or they have another size.
    """
    rule = "the models before and after must have mixtures in the same blocks, of the same sizes"
    sizes = [(other.config.layers, other.config.hidden_size, other.config.mlp_dim) for other in (model, like)]
    require(sizes[0] == sizes[1], rule, before=sizes[0], after=sizes[1])
    has, wanted = model.config.kept_in(block), like.config.kept_in(block)
    require(set(wanted) <= set(has), "the model before must have the experts of the one after", block=block,
            before=has, after=wanted)  # fmt: skip
    rows = [has.index(expert) for expert in wanted]
    columns = [own_columns(model, block)[row] for row in rows]
    mixture = model.mixtures()[block]
    routers = mixture.Router.dense.kernel.detach().flatten(1).double()
    neurons = mixture.Mlp.Dense_0.kernel.detach()[rows].double()
    return ExpertWeights(routers.T[columns][None], neurons[None])


def without_images(model: VMoE, seed: int) -> dict[int, Statistics]:
    """Returns statistics for criteria that need no images: random numbers, and NaN for all counts."""
    found = {}
    for block in model.config.layers:
        own = list(model.config.kept_in(block))
        chance = stream(seed, block, "criterion/random").random(model.config.num_experts)[own]
        nothing = torch.full((1, len(own)), torch.nan, dtype=torch.float64)
        found[block] = Statistics(nothing, nothing, nothing, torch.from_numpy(chance)[None])
    return found


def kept_experts(model: VMoE, block: int, scores: Float[Tensor, " experts"], prune: int) -> tuple[int, ...]:
    """Selects the experts with the largest scores of a block, in E3 of each member; ties keep the lower number.

    Raises:
      ValueError: fewer than K experts would stay.
    """
    top = model.config.num_selected_experts
    kept: list[int] = []
    for numbers, own in _members(model, block):
        left = len(own) - prune
        rule = "at least 0 experts of each mixture must be pruned and at least K kept, in E3 of each member"
        require(prune >= 0 and left >= top, rule, block=block, pruned=prune, experts=len(own), K=top)
        kept += numbers[ranks(scores[own]) < left].tolist()
    return tuple(sorted(kept))


def _members(model: VMoE, block: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The experts that each member has in a block: their numbers, and their places among the block's."""
    config = model.config
    numbers, each = torch.tensor(config.kept_in(block)), config.num_experts // config.members
    for member in range(config.members):
        own = torch.nonzero(numbers // each == member)[:, 0]
        yield numbers[own], own


def kept_of_all(model: VMoE, scores: Mapping[int, Float[Tensor, " experts"]], prune: int) -> dict[int, tuple[int, ...]]:
    """Selects the experts with the largest scores of all blocks together, and by block at least K (in E3, a member).

    Scores of different blocks are compared as they are. Ties keep the earlier block, and the lower number.

    Args:
      scores: of the experts that each block has, as `expert_scores` returns them.
      prune: how many experts of all blocks together go.

    Raises:
      ValueError: more would go than the blocks can spare.
    """
    kept = {block: set(model.config.kept_in(block)) for block in scores}
    spare = []
    for block, values in scores.items():
        for numbers, own in _members(model, block):
            mine = values[own]
            by_rank = zip(ranks(mine).tolist(), mine.tolist(), numbers.tolist(), strict=True)
            spare += [(s, -block, -n) for rank, s, n in by_rank if rank >= model.config.num_selected_experts]
    rule = "at least 0 experts must be pruned and at least K of each mixture kept, in E3 of each member"
    require(0 <= prune <= len(spare), rule, pruned=prune, spare=len(spare), K=model.config.num_selected_experts)
    for _, block, expert in sorted(spare)[:prune]:
        kept[-block].remove(-expert)
    return {block: tuple(sorted(experts)) for block, experts in kept.items()}


def without_others(model: VMoE, kept: Mapping[int, Sequence[int]], mode: Pruning) -> VMoE:
    """Makes a model with some of the experts.

    Args:
      model: it is left as it is.
      kept: the numbers of the experts that stay, by block; the other blocks keep all they have.
      mode: "silent" or "rerouted".

    Raises:
      ValueError: the model was pruned in the other mode, or a block does not have these experts.
    """
    config = model.config
    rule = "a pruned model can be pruned further in the same mode only"
    require(not config.kept or config.pruning == mode, rule, before=config.pruning, mode=mode)
    experts = tuple(tuple(sorted(kept.get(block, config.kept_in(block)))) for block in config.layers)
    for block, own in zip(config.layers, experts, strict=True):
        has = config.kept_in(block)
        require(set(own) <= set(has), "a block can keep only experts that it has", block=block, kept=own, has=has)
    smaller = config.replace(pruning=mode, kept=experts)
    weights = dict(model.state_dict())
    for block in config.layers:
        place = f"Encoder.encoderblock_{block}.Moe"
        rows = [config.kept_in(block).index(expert) for expert in smaller.kept_in(block)]
        columns = [config.routes_in(block).index(expert) for expert in smaller.routes_in(block)]
        for name in ("Dense_0.kernel", "Dense_0.bias", "Dense_1.kernel", "Dense_1.bias"):
            weights[f"{place}.Mlp.{name}"] = weights[f"{place}.Mlp.{name}"][rows]
        router = weights[f"{place}.Router.dense.kernel"]
        chosen = router.flatten(1)[:, columns]
        weights[f"{place}.Router.dense.kernel"] = chosen.view(*router.shape[:-1], -1)
    with torch.device("meta"):
        new = VMoE(smaller)
    new.load_state_dict({name: value.clone() for name, value in weights.items()}, assign=True)
    return new
