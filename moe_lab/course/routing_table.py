"""Routes a table of scores that can be read: one row an expert, one column a patch, in the scores and in the gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from moe_lab.core import routing
from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.numbers import finite_array

if TYPE_CHECKING:
    import pandas

Rule = Literal["expert-choice", "token-choice", "switch"]


@checked
def route(
    scores: pandas.DataFrame,
    rule: Rule,
    *,
    l: int | None = None,  # noqa: E741 the papers' name
    top: int | None = None,
    noise: Any = None,
) -> pandas.DataFrame:
    """Computes the gates of one sample from a table of scores, one row an expert and one column a patch.

    >>> import numpy as np, pandas as pd
    >>> scores = np.log(pd.DataFrame([[6, 3, 1], [2, 1, 2]], index=["A", "B"], columns=["cat", "sat", "mat"]))
    >>> route(scores, "expert-choice", l=2).round(2)
        cat   sat  mat
    A  0.67  0.33  0.0
    B  0.50  0.00  0.5
    >>> route(scores, "token-choice", top=1)
       cat  sat  mat
    A  1.0  1.0  0.0
    B  0.0  0.0  1.0

    Args:
      scores: g, of every expert (row) for every patch (column).
      rule: who chooses: "expert-choice" (each expert keeps l patches), "token-choice" (each patch goes to its top
        experts) or "switch" (each patch goes to one expert).
      l: the patches that each expert keeps; for expert-choice.
      top: the experts that each patch goes to; for token-choice.
      noise: is added to the scores before switch chooses; a table like scores, none when None.

    Returns:
      The gates, with the rows and columns of scores; 0 where a patch does not go to an expert.

    Raises:
      ValueError: scores or noise is no table of finite numbers, a setting is missing or belongs to another rule, or it
        is larger than the table.

    References: pmoe2023, eq. 4; pruning2024, section 3; chen2022, section 3.
    """
    import pandas as pd  # Labs import this module before their first picture

    settings = {"expert-choice": ("l", l), "token-choice": ("top", top), "switch": ("noise", noise)}
    for owner, (name, value) in settings.items():
        require(owner == rule or value is None, f"{name} belongs to {owner}, not to {rule}", **{name: value})
    values = torch.from_numpy(_numbers(scores, "scores"))
    if rule == "expert-choice":
        count = _count("l", l, "patches", values.shape[1])
        gates = routing.expert_choice(values[None, :, None], count)[1][0, :, 0]
    elif rule == "token-choice":
        gates = routing.token_choice(values.T, _count("top", top, "experts", values.shape[0]))[1].T
    else:
        pushed = torch.zeros_like(values) if noise is None else torch.from_numpy(_numbers(noise, "noise"))
        require(pushed.shape == values.shape, "noise must be a table like scores", noise=tuple(pushed.shape))
        gates = routing.switch(values.T, pushed.T)[1].T
    return pd.DataFrame(gates.numpy(), index=scores.index, columns=scores.columns)


def _count(name: str, count: int | None, of: str, most: int) -> int:
    known = count is not None and not isinstance(count, bool) and 1 <= count <= most
    require(known, f"{name} must be from 1 to the {most} {of}", **{name: count})
    return int(count or 0)


def _numbers(table: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    numbers, rule = finite_array(name, table), f"{name} must be a table (experts, patches)"
    require(numbers.ndim == 2 and numbers.size > 0, rule, shape=numbers.shape)
    return numbers
