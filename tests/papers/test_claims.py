"""What holds for the claims and errata of every paper."""

from __future__ import annotations

import inspect
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.findings import Finding
from moe_lab.registry import CLAIMED, PAPERS
from moe_lab_papers import ledger
from moe_lab_papers.claim import Budget, Claim, Measurement, imported
from moe_lab_papers.erratum import Erratum
from moe_lab_papers.readers import Reader
from moe_lab_papers.report import checked, png
from moe_lab_papers.runner import Order, pieces
from tests.papers.small import CLAIMS, MEASUREMENTS, SMALL, claims_of, small

ERRATA = ledger.errata()
OWN_TESTS = {
    "pruning2024/figure10c/time-linear",
    "pruning2024/figure10g/time-linear",
    "chen2022/table5/own-cluster",
    "pmoe2023/figure4/joint-samples",
    "pmoe2023/figure4/mnist-joint-samples",
    "pmoe2023/figure4/mnist-separate-samples",
    *(
        f"pmoe2023/figure4/mnist-authors-{kind}-samples-{cnn}"
        for kind in ("joint", "separate")
        for cnn in ("cnn", "cnn-4")
    ),
    "pmoe2023/figure5/power-of-l",
    "pmoe2023/figure5/mnist-power-of-l",
    "pruning2024/figure9a/outperforms",
    "pruning2024/figure9b/outperforms",
    "pruning2024/figure9c/outperforms",
    "gated2019/figure2/a-plateau",
    "gated2019/theorem2/deviation",
    "gated2019/theorem4/dimension",
    "gated2019/theorem4/fresh-samples",
    "gated2019/lemma4/deviation",
}
"""Read from whole curves, which a small run does not have; see the paper's own tests."""


def test_every_paper_has_claims_and_errata_with_ids_of_their_own() -> None:
    assert len(CLAIMS) >= 60
    assert {claim.paper for claim in CLAIMS.values()} == set(CLAIMED) and {one.paper for one in ERRATA} == set(PAPERS)
    claims, errata = [claim.id for claim in ledger.claims()], [erratum.id for erratum in ERRATA]
    calls = {id(claim.measurement): claim.measurement.name for claim in ledger.claims()}
    for names in (claims, errata, calls.values()):
        assert [name for name, count in Counter(names).items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z0-9]+(/[A-Za-z0-9.+-]+){2,}", identity) for identity in claims)
    assert all(re.fullmatch(r"[a-z0-9]+(/[A-Za-z0-9.+-]+)+", identity) for identity in errata)


@pytest.mark.parametrize("paper", list(CLAIMED))
def test_a_claim_states_what_and_where_and_the_published_number_meets_its_rule(paper: str) -> None:
    for claim in (claim for claim in CLAIMS.values() if claim.paper == paper):
        assert claim.where and len(claim.statement.split()) >= 4 and not claim.statement.endswith("."), claim.id
        assert claim.measurement.name.split("/")[0] == paper, claim.id
        assert claim.reason or claim.not_comparable or claim.rule.agrees is not None, f"{claim.id}: why in kind only?"
        assert claim.published.value is not None or claim.rule.agrees is None, f"{claim.id} agrees with no number"
        assert isinstance(claim.read, Reader) and claim.read.words, f"{claim.id}: which number is read?"
        strict = claim.published.bound == "less than"
        if claim.published.value is not None and not strict:
            assert claim.rule.leaning(np.array([claim.published.value])) != "differs", claim.id
        for bounds in (claim.rule.agrees, claim.rule.in_kind):
            assert bounds is None or np.isfinite(bounds).any(), f"nothing can break the rule of {claim.id}"


@pytest.mark.parametrize("measurement", MEASUREMENTS.values(), ids=lambda measurement: measurement.name)
def test_all_budgets_bind_to_the_function(measurement: Measurement, tmp_path: Path) -> None:
    signature = inspect.signature(imported(measurement.function))
    if measurement.needs is not None:
        for pattern in (measurement.needs.pattern, *measurement.needs.others):
            (tmp_path / pattern.replace("*", "x").replace("?", "x")).touch()
    for budget in get_args(Budget):
        parts = pieces(measurement, Order(budget, 0, "cpu", tmp_path, data=tmp_path))
        assert parts
        for piece in parts:
            signature.bind(**piece.arguments)
    assert measurement.quick.keys() == measurement.full.keys() or measurement.split is None
    assert 0 < measurement.seconds[0] <= measurement.seconds[1] <= measurement.duration("paper")
    assert measurement.paper.keys() <= measurement.full.keys()
    for name, value in measurement.paper.items():
        assert value != measurement.full[name], "the paper's budget states what differs"
    assert not measurement.picture or len(measurement.sees.split()) >= 4


def test_the_budgets_take_eight_minutes_and_an_hour_on_two_cores() -> None:
    """By the seconds that the measurements state; `moe-lab reproduce` reports how long it took."""
    free = [measurement for measurement in MEASUREMENTS.values() if measurement.needs is None]
    assert sum(measurement.seconds[0] for measurement in free) / 2 <= 480
    assert sum(measurement.seconds[1] for measurement in free) / 2 <= 4200


def changed(data: xr.Dataset, claim: Claim) -> Iterator[xr.Dataset]:
    """Datasets of the same shape with other values: constants, one variable scaled, and noise."""
    names = [name for name, values in data.data_vars.items() if values.dtype.kind in "fbi" and "shown" not in str(name)]

    def filled(name: Hashable, values: Any) -> xr.DataArray:
        array = data[name].astype(float) * 0 + values
        return array > 0.5 if data[name].dtype.kind == "b" else array

    ends = [end for bounds in (claim.rule.agrees, claim.rule.in_kind) if bounds for end in bounds if np.isfinite(end)]
    for value in (0.0, 1.0, -100.0, 100.0, *ends, np.mean(ends), 1e6 * np.mean(ends)):
        yield data.assign({name: filled(name, value) for name in names})
    for name in names:
        for factor in (-1.0, 1e-3, 1e3):
            yield data.assign({name: filled(name, factor * data[name])})
    for seed in range(100):
        noise = np.random.default_rng(seed)
        yield data.assign({name: filled(name, noise.uniform(-1, 1, data[name].shape)) for name in names})


def judged(claim: Claim, data: xr.Dataset) -> str:
    try:
        return claim.rule.leaning(claim.values(data))
    except ValueError:  # nothing is left to read, say
        return "unreadable"


@pytest.mark.parametrize("name", list(SMALL))
def test_claims_read_their_measurement_and_their_verdicts_turn_with_the_data(name: str) -> None:
    data = small(name)
    assert claims_of(name)
    for claim in (claim for claim in claims_of(name) if claim.id not in OWN_TESTS):
        values = claim.values(data)
        assert values.size and np.isfinite(values).all(), claim.id
        verdict = claim.rule.leaning(values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such data have no logarithms, say
            others = (judged(claim, other) for other in changed(data, claim))
            assert any(other not in ("unreadable", verdict) for other in others), f"{claim.id} is always {verdict!r}"


def test_every_measurement_has_a_small_run() -> None:
    assert set(SMALL) == set(MEASUREMENTS)


@pytest.mark.parametrize(
    "name",
    [
        "pmoe2023/figure8-digits",
        "pmoe2023/figure9-digits",
        "chen2022/figure1",
        "pruning2024/figure3",
        "gridlock2019/figure6-airfoil",
        "gated2019/figure2a",
    ],
)
def test_a_picture_is_drawn_from_what_was_kept(name: str) -> None:
    assert png(MEASUREMENTS[name], small(name)).startswith(b"\x89PNG")
    assert all(callable(imported(measurement.picture)) for measurement in MEASUREMENTS.values() if measurement.picture)


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.id)
def test_an_erratum_is_stated_and_its_check_holds(erratum: Erratum) -> None:
    assert erratum.printed and erratum.instead and erratum.evidence and erratum.where
    found = checked(erratum)
    assert found is None or (isinstance(found, Finding) and found.holds), found


def test_most_errata_are_checked() -> None:
    assert sum(erratum.check is not None for erratum in ERRATA) >= len(ERRATA) / 2


def test_what_was_measured_on_other_data_or_models_is_not_comparable() -> None:
    other = {
        "pmoe2023": ("figure4-digits", "figure5-digits", "figure6-digits", "figure7-digits", "figure8-digits"),
        "chen2022": ("table2-digits-jittered", "table2-digits-reversed"),
        "pruning2024": ("tiny-v-moe", "criteria-pretrained-token-choice", "efficiency"),
        "gridlock2019": ("section4.3-stuck",),
    }
    found = [claim for paper, names in other.items() for name in names for claim in claims_of(f"{paper}/{name}")]
    assert len(found) > 25
    for claim in (*found, CLAIMS["pmoe2023/finding1/spurious-separate"], CLAIMS["pmoe2023/table1/joint-total"]):
        assert claim.not_comparable, claim.id


def test_a_name_is_an_id_or_its_beginning() -> None:
    first, *_ = every = ledger.claims()
    assert ledger.chosen([first.id]) == (first,)
    assert ledger.chosen([first.paper]) == tuple(claim for claim in every if claim.paper == first.paper)
    assert ledger.chosen([f"{first.paper}/"]) == ledger.chosen([first.paper])
    assert ledger.chosen() == every
    with pytest.raises(ValueError, match="got name='gated'"):
        ledger.chosen(["gated"])


def test_no_paper_imports_another() -> None:
    for paper in CLAIMED:
        for path in (Path(ledger.__file__).parent / paper).glob("*.py"):
            text = path.read_text()
            assert not [other for other in CLAIMED if other != paper and f"moe_lab_papers.{other}" in text], path
