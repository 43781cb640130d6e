"""The numbers that pruning2024 states, and which of them can be studied on synthetic data."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr

ERRATA = {
    "equation 6": "the denominator has g_j^(i), where g_i^(s) is meant, as the softmax is over the tokens of expert s",
    "appendix C": "the definition of p_1 uses the gate G^(s,0) at step 0, where step t is meant",
    "section 4.2": "a pattern's probability of O(1/d) contradicts the experiment's n=100 tokens of d=200 patterns",
    "section 5.1": "the number of neurons, both step sizes, the batch and the number of steps are not stated",
}
"""Where the paper contradicts itself, or is silent."""


@dataclass(frozen=True)
class Statement:
    """A number that the paper gives.

    Attributes:
      place: where it stands.
      value: as a share where the unit is empty.
      unit: of the value.
      words: what it is.
      function: of `figures`, that shows the same (synthetic data) or the like (in kind); "" where nothing here can.
      in_kind: whether the paper has it of a vision model, so that `function` can only show the like of it.
    """

    place: str
    value: float
    unit: str
    words: str
    function: str = ""
    in_kind: bool = False


_TUNED = "within 1 % of the unpruned accuracy, fine-tuned after pruning"
_BARE = "within 1 % of the unpruned accuracy, without fine-tuning after pruning, the penultimate MoE layer left whole"
_SIMILAR = 'told as "similar results" of CIFAR-10'
STATEMENTS = {
    "synthetic/patterns": Statement("section 5.1", 200, "patterns", "d", "figure3"),
    "synthetic/tokens": Statement("section 5.1", 100, "tokens", "n", "figure3"),
    "synthetic/experts": Statement("section 5.1", 20, "experts", "k, half of them vote +", "figure3"),
    "synthetic/top": Statement("section 5.1", 5, "tokens", "l, tokens that an expert keeps", "figure3"),
    "synthetic/router-variance": Statement("section 5.1", 1e-8, "", "of the first routers", "figure3"),
    "synthetic/neuron-variance": Statement("section 5.1", 1e-4, "", "of the first neurons", "figure3"),
    "synthetic/large-routers": Statement(
        "section 5.1, figure 3a",
        4,
        "routers",
        "named as large: 4 and 5 of the + group, 11 and 20 of the - group",
        "figure3",
    ),
    "lemma-4.1/norm-change": Statement(
        "lemma 4.1 (iv)", 1.5, "log l", "which Delta of an important expert exceeds", "figure3"
    ),
    "cifar-10/tuned/experts": Statement("section 1, figure 1", 0.75, "", f"experts pruned, {_TUNED}", "criteria", True),
    "cifar-10/tuned/model": Statement(
        "section 1, figure 1", 0.60, "", f"parameters pruned, {_TUNED}", "criteria", True
    ),
    "cifar-10/bare/experts": Statement(
        "section 5.2.1, figure 4b", 0.50, "", f"experts pruned, {_BARE}", "criteria", True
    ),
    "cifar-10/bare/model": Statement(
        "section 5.2.1, figure 4b", 0.35, "", f"parameters pruned, {_BARE}", "criteria", True
    ),
    "cifar-100/experts": Statement("section 5.2.1", 0.50, "", f"experts pruned, {_SIMILAR}"),
    "cifar-100/model": Statement("section 5.2.1", 0.41, "", f"parameters pruned, {_SIMILAR}"),
    "imagenet/experts": Statement("section 5.2.1", 0.42, "", f"experts pruned, {_SIMILAR}"),
    "imagenet/model": Statement("section 5.2.1", 0.35, "", f"parameters pruned, {_SIMILAR}"),
    "e3-cifar/experts": Statement(
        "section B.2, figure 8", 0.75, "", "experts pruned from E3, both CIFAR sets, within 1 %"
    ),
    "e3-cifar/model": Statement(
        "section B.2, figure 8", 0.45, "", "parameters pruned from E3, both CIFAR sets, within 1 %"
    ),
    "cifar-10/operations": Statement(
        "figure 6", 0.40, "", "FLOPs of an image saved, falling linearly", "efficiency", True
    ),
    "cifar-10/time": Statement(
        "section 1, figure 10a", 0.40, "", "inference time saved, falling linearly", "efficiency", True
    ),
    "imagenet/operations": Statement(
        "section 5.2.1", 0.14, "", "FLOPs and time saved at 1 % less accuracy", "efficiency", True
    ),
    "e3-cifar-100/operations": Statement(
        "section 5.2.1", 0.15, "", "FLOPs and time of E3 saved at 1 % less accuracy", "efficiency", True
    ),
    "v-moe/parameters": Statement("appendix A", 979e6, "parameters", "of the V-MoE, roughly"),
    "e3/parameters": Statement("appendix A", 167e6, "parameters", "of the E3, roughly"),
}


def published() -> xr.Dataset:
    """Returns the numbers that the paper states, by name.

    Returns:
      value, unit, place, words, function and in_kind over `statement`: see `Statement`. The names are such as
      "cifar-10/tuned/experts".
    """
    columns = {
        name: ("statement", [getattr(one, name) for one in STATEMENTS.values()]) for name in Statement.__annotations__
    }
    return xr.Dataset(columns, {"statement": list(STATEMENTS)}, {"paper": "pruning2024"})
