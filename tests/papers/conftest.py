"""A ledger of a few claims about squares, which take no time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from joblib.externals.loky import get_reusable_executor

from moe_lab_papers import ledger
from moe_lab_papers.claim import Claim, Measurement, Needs, Published, Rule
from moe_lab_papers.ranges import at_least, near

HELPERS = Path(__file__).parents[1] / "helpers"


def squares(name: str = "chen2022/squares", **changes: Any) -> Measurement:
    """A measurement of squares in three pieces."""
    given: dict[str, Any] = {
        "quick": {"numbers": (1, 2, 3), "trials": 3},
        "full": {"numbers": (1, 2, 3, 4), "trials": 5},
        "seconds": (3.0, 8.0),
        "split": ("numbers", "number"),
        "device": True,
    }
    return Measurement(name=name, function="measure_runs:squares", **{**given, **changes})


def claim(identity: str, measurement: Measurement, rule: Rule, number: int = 2, **changes: Any) -> Claim:
    """That a square is what it is."""
    return Claim(
        id=identity,
        where="table 0",
        statement=f"{number} squared is {number**2}",
        published=Published(value=number**2, spread=0.5),
        measurement=measurement,
        read=lambda data: data["square"].sel(number=number),
        rule=rule,
        **changes,
    )


@pytest.fixture(scope="module")
def helpers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Lets this process and its workers import tests/helpers; the file in which they note what they measure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HELPERS))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")]))
        log = tmp_path_factory.mktemp("measured") / "log.txt"
        patch.setenv("MOE_LAB_TEST_LOG", str(log))
        get_reusable_executor().shutdown(wait=True)  # workers of earlier tests know neither
        yield log


@pytest.fixture
def computed(helpers: Path) -> Callable[[], Counter[str]]:
    """How often each number was squared since the test began, in any process."""

    def noted() -> Counter[str]:
        return Counter(helpers.read_text().split()) if helpers.exists() else Counter()

    before = noted()
    return lambda: noted() - before


@pytest.fixture
def few(helpers: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Claim, ...]:
    """Four claims in place of the papers': one of each verdict."""
    sizes: dict[str, Any] = {"seconds": (3.0, 4500.0), "paper": {"trials": 8}}
    drawn = squares(picture="measure_runs:picture", sees="Squares rise.", **sizes)
    needy = squares("pmoe2023/digits", needs=Needs(what="a file of digits", argument="root", pattern="*.digits"))
    made = (
        claim(identity="pmoe2023/digits/two", measurement=needy, rule=Rule(agrees=near(4, 0.5))),
        claim(identity="chen2022/squares/two", measurement=drawn, rule=Rule(agrees=near(4, 0.5))),
        claim(
            identity="chen2022/squares/three",
            measurement=drawn,
            rule=Rule(agrees=near(4, 0.5), in_kind=at_least(8)),
            number=3,
            reason="three is larger",
        ),
        claim(
            identity="chen2022/squares/one",
            measurement=drawn,
            rule=Rule(agrees=near(4, 0.5)),
            number=1,
            reason="one is smaller",
        ),
    )
    monkeypatch.setattr(ledger, "claims", lambda: made)
    return made
