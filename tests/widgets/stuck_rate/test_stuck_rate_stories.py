"""The numbers that the stuck-rate Lab's stories name, with constants that the Lab's other tests shorten."""

from __future__ import annotations

from typing import Any

import pytest

from moe_lab.recovery.gridlock.figures import stuck_rate, verdict
from moe_lab_widgets.labs import stuck_rate as of
from moe_lab_widgets.labs.stuck_rate_stories import STORIES
from tests.helpers.effort import THOROUGH

KNOWN = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}

NUMBERS: dict[str, list[tuple[int, int, int, int]]] = {
    "Longer inputs (d = 12)": [(3, 250, 50, 60), (6, 2000, 20, 90)],
    "Six oblique regressors": [(6, 2000, 90, 10)],
    "Gradient steps for the gates": [(5, 1000, 50, 90)],
}
"""k, n and the percentages of random and of spectral starts that find all regressors, for each story."""
DEAR = 5
"""k of cells that take seconds."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_stories_name_what_is_computed(story: Any) -> None:
    """Their cells alone, without the map around them; the dear ones if MOE_LAB_THOROUGH is set.

    One start in ten may end elsewhere: rounding, which differs with the place of arrays in memory, decides where a
    start near a border goes.
    """
    arguments = of.given_of({**KNOWN, **story.values})
    for k, n, *shares in NUMBERS[story.name]:
        assert any(f"{share} %" in story.what_to_see for share in shares) or shares[0] in (0, 100)
        if k >= DEAR and not THOROUGH:
            continue
        words = verdict(stuck_rate(**{**arguments, "k": k, "samples": n}))
        found = 100 * (words == "found").mean("trial").squeeze(["k", "samples"])
        assert found.sel(algorithm=list(arguments["methods"])).values.tolist() == pytest.approx(shares, abs=10.1)
        if story.values.get("iterations") == 20:
            assert not (words.sel(algorithm="joint-em") == "stuck").any()
