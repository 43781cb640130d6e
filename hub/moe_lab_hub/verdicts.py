"""Whether a choice of experts is better than chance: its losses on texts against those of random choices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from moe_lab.core.trials import stream

BETTER, UNCLEAR, WORSE = "better than chance", "not told apart from chance", "worse than chance"
RESAMPLES, SURE = 2000, 0.95
"""Times that the texts are drawn again; how sure a verdict is."""
ENOUGH_DRAWS = 39
"""Random choices below which no verdict is so sure: to be the best of 40, or the worst, is a chance of 1 in 20."""


@dataclass(frozen=True)
class Verdict:
    """A choice of experts against random ones that keep as many in each layer.

    Attributes:
      difference: of its loss from the mean loss of the random choices; negative where it is better.
      low, high: the 95 % interval of that difference, from resampling the texts.
      at_least: how many of the random choices are at least as good.
      words: `BETTER`, `WORSE`, or `UNCLEAR`.
      enough: about how many texts would tell it apart, where the texts alone leave that open; None where random
        choices differ from one another by as much, so that no number would.
    """

    difference: float
    low: float
    high: float
    at_least: int
    words: str
    enough: int | None = None


def judged(own: Float[np.ndarray, " N"], chance: Float[np.ndarray, "R N"], seed: int = 0) -> Verdict:
    """Compares the losses of a choice on N texts with those of R random choices on the same texts.

    A random choice is itself better or worse than another, so that any choice differs from their mean on enough texts.
    A choice is told apart from chance if two things hold. It is better than all random choices but a fortieth of them,
    or worse: of choices that are random themselves at most one in 20 is either, whatever their losses are. And the 95 %
    interval of its difference from their mean leaves out 0, so that further texts would say the same.

    Args:
      seed: of the resampling, which draws the texts in pairs.
    """
    count, texts = chance.shape
    drawn = stream(seed, 0, "hub/verdict").integers(texts, size=(RESAMPLES, texts))
    apart = own - chance.mean(0)
    low, high = np.quantile(apart[drawn].mean(1), ((1 - SURE) / 2, (1 + SURE) / 2))
    at_least = int((chance.mean(1) <= own.mean()).sum())
    no_better = int((chance.mean(1) >= own.mean()).sum())
    few = math.floor((1 - SURE) / 2 * (count + 1) + 1e-9) - 1
    rare = BETTER if at_least <= few else WORSE if no_better <= few else UNCLEAR
    words = rare if (high < 0 if rare == BETTER else low > 0) else UNCLEAR
    enough = None
    if words == UNCLEAR != rare and apart.mean():
        enough = math.ceil(texts * ((high - low) / 2 / apart.mean()) ** 2)
    return Verdict(float(apart.mean()), float(low), float(high), at_least, words, enough and max(enough, texts + 1))
