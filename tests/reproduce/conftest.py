"""A ledger of a few claims about squares, which take no time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joblib.externals.loky import get_reusable_executor

from moe_lab.reproduce import ledger
from moe_lab.reproduce.claim import Claim, Measurement, Needs, Published, Rule, at_least, near

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


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process and its workers import tests/helpers."""
    monkeypatch.syspath_prepend(str(HELPERS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")]))
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test do not know the folder


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """How often each number was squared since the test began, in any process."""
    log = tmp_path / "log.txt"
    monkeypatch.setenv("MOE_LAB_TEST_LOG", str(log))
    return lambda: Counter(log.read_text().split()) if log.exists() else Counter()


@pytest.fixture
def few(helpers: None, monkeypatch: pytest.MonkeyPatch) -> tuple[Claim, ...]:
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
