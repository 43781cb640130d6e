"""Accuracy after pruning: every criterion, every number of experts and both modes, one cell after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import xarray as xr

from moe_lab.core.config import require
from moe_lab.core.saliency import CRITERIA
from moe_lab_papers.pruning2024.vmoe.digits import Labelled
from moe_lab_papers.pruning2024.vmoe.model import VMoE
from moe_lab_papers.pruning2024.vmoe.pruning import expert_scores, kept_experts, without_others
from moe_lab_papers.pruning2024.vmoe.prunings import Prunings
from moe_lab_papers.pruning2024.vmoe.statistics import in_batches, predictions, routing_statistics

PAPER_CRITERIA = tuple(name for name in CRITERIA if name not in ("router-difference-norm", "token-count"))
"""The criteria that the paper compares (section 5.2.1)."""
MODES = ("silent", "rerouted")


class PruningTable:
    """The accuracy of a fine-tuned model after pruning, computed cell by cell.

    Args:
      before, after: the models before and after fine-tuning; `after` has all of its experts.
      test: on which accuracies are measured.
      validation: on which criteria count what experts receive.
      criteria: names in `saliency.CRITERIA`.
      pruned: how many experts of each mixture go; as many as possible when None.
      modes: "silent", "rerouted" or both.
      seed: of the random criterion.

    Attributes:
      data: accuracy(criterion, mode, pruned), NaN where not yet computed; score(criterion, block, expert) and
        rank(criterion, block, expert), 0 for the expert that goes last; received(block, expert), the share of the
        validation tokens; remaining(pruned), the share of the parameters that silent pruning leaves.

    Raises:
      ValueError: a wrong name or number, or images that do not fill whole groups.
      UndefinedCriterionError: a criterion cannot rank the experts of a block.
    """

    def __init__(
        self,
        before: VMoE,
        after: VMoE,
        test: Labelled,
        validation: Labelled,
        *,
        criteria: Sequence[str] = PAPER_CRITERIA,
        pruned: Sequence[int] | None = None,
        modes: Sequence[str] = MODES,
        seed: int = 0,
    ) -> None:
        config = after.config
        require(not config.kept, "the model after fine-tuning must have all of its experts", kept=config.kept)
        require(config.members == 1, "the table is that of a V-MoE", M=config.members)
        require(set(modes) <= set(MODES), "modes must be silent or rerouted", modes=list(modes))
        most = config.num_experts - config.num_selected_experts
        counts = range(most + 1) if pruned is None else pruned
        rule = "pruned must be numbers of experts, of which at least K stay"
        require(all(0 <= count <= most for count in counts), rule, pruned=list(counts), most=most)
        self.after, self.test = after, test
        statistics = routing_statistics(after, validation.images, seed)
        how = {"statistics": statistics, "seed": seed}
        scores = [expert_scores(before, after, name, **how) for name in criteria]  # type: ignore[arg-type]
        blocks = list(config.layers)
        self._scores = dict(zip(criteria, scores, strict=True))
        values = np.array([[found[block].numpy() for block in blocks] for found in scores])
        received = np.array([statistics[block].received[0].numpy() for block in blocks])
        axes = ("criterion", "block", "expert")
        shape = (len(criteria), len(modes), len(counts))
        self.data = xr.Dataset(
            {
                "accuracy": (("criterion", "mode", "pruned"), np.full(shape, np.nan), _named("test accuracy")),
                "score": (axes, values, _named("the criterion's score")),
                "rank": (axes, (-values).argsort(-1, kind="stable").argsort(-1), _named("rank, from 0 for the best")),
                "received": (axes[1:], received, _named("share of the tokens that the expert receives")),
                "remaining": ("pruned", [self._remaining(count) for count in counts], _named("parameters that stay")),
            },
            coords={
                "criterion": list(criteria),
                "mode": list(modes),
                "pruned": ("pruned", list(counts), _named("experts pruned from each mixture")),
                "block": blocks,
                "expert": np.arange(config.num_experts),
            },
        )

    def cells(self) -> Iterator[tuple[str, str, int]]:
        """Computes the cells one after the other, and yields the criterion, mode and number of each."""
        with torch.inference_mode():
            parts = [Prunings(self.after, images) for images in in_batches(self.after, self.test.images)]
            whole = self._accuracy(parts, self.after)
        accuracy, data = self.data["accuracy"].values, self.data
        for k, count in enumerate(data["pruned"].values.tolist()):
            for i, criterion in enumerate(data["criterion"].values.tolist()):
                kept = {b: kept_experts(self.after, b, s, count) for b, s in self._scores[criterion].items()}
                for j, mode in enumerate(data["mode"].values.tolist()):
                    if count == 0:
                        accuracy[i, j, k] = whole
                    else:
                        with torch.inference_mode():
                            accuracy[i, j, k] = self._accuracy(parts, without_others(self.after, kept, mode))
                    yield criterion, mode, count

    def complete(self) -> xr.Dataset:
        """Computes all cells and returns the data."""
        for _ in self.cells():
            pass
        return self.data

    def _accuracy(self, parts: Sequence[Prunings], model: VMoE) -> float:
        predicted = torch.cat([predictions(model, part.logits(model)) for part in parts])
        return float((predicted == self.test.labels).float().mean())

    def _remaining(self, count: int) -> float:
        config = self.after.config
        each = 2 * config.hidden_size * config.mlp_dim + config.hidden_size + config.mlp_dim
        whole = sum(parameter.numel() for parameter in self.after.parameters())
        return 1 - count * each * len(config.layers) / whole


def _named(meaning: str) -> dict[str, str]:
    return {"long_name": meaning}
