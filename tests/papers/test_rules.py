"""Rules can fail: they are open at one end only where the paper states an inequality, and turn on changed data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers import ledger
from moe_lab_papers.claim import Claim, Published, Rule
from moe_lab_papers.ranges import Range, half_to_double, nearer, share_from, up_to
from moe_lab_papers.spread import TRIALS, interval
from tests.papers.measured import UNREADABLE, datasets, first_call

CLAIMS = ledger.claims()
_ALIKE = "it says that two numbers are alike, as they are in data without information"
_BOUND = "a bound that is far above what is measured, so that only another order of magnitude would break it"
_TIE = "it says that one is at least as good, as it is where all are alike; the other one ahead would turn it"
CANNOT_TURN: dict[str, str] = {
    "pmoe2023/theorem4.2/separate-by-patches": _ALIKE,
    "pmoe2023/algorithm1/router-samples": _ALIKE,
    "pruning2024/figure1/lost-v-moe": _TIE,
    "gridlock2019/table2/same-in-both-settings": _ALIKE,
    "gridlock2019/theorem2/kappa": _BOUND,
    "routers/stmoe2022/no-loss-of-quality": _TIE,
}
"""By id: why no change of its data gives a worse verdict."""
ONLY_SCALED_OR_SHUFFLED: dict[str, str] = {
    "pmoe2023/theorem4.5/joint-by-patches": _ALIKE,
    "pruning2024/section5.2.1/token-count-pretrained": _TIE,
    "gated2019/figure2/b-l4-as-true": _ALIKE,
    "routers/shazeer2017/few-experts": "an entropy of 0 is that of one expert",
}
"""By id: why it passes on data without information."""
_SPREAD = "its published deviation is as large as the entropy, or a tenth of a nat is more"
_RANDOM = "the statistic is random where the theorem holds, as far as the trials' number says"
WIDE: dict[str, str] = {
    **{
        f"chen2022/table{1 if setting < 3 else 3}/setting{setting}-nonlinear-entropy{objective}": _SPREAD
        for objective in ("", "-authors")
        for setting in (1, 2, 3, 4)
    },
    "chen2022/table4/initial-dispatch": "the largest of eight sampling errors",
    "gridlock2019/table2/same-in-both-settings": "the published difference is the largest that counts as none",
    "gridlock2019/theorem1/tensor": _RANDOM,
    "gated2019/theorem5/eq8": _RANDOM,
    "gated2019/theorem5/eq8-random-gates": _RANDOM,
    "gated2019/lemma1/tensor": _RANDOM,
}
"""By id: why half or twice the published number agrees as well."""


EXACT: dict[str, str] = {
    "gated2019/section2/gru-torch": "an identity, up to rounding, in each of some random cells",
    "chen2022/lemmae.1/routers-sum-to-zero": "an identity, up to rounding, of the worst of all trainings",
}
"""By id: why what is measured with a seed has no interval, or one of no width that trials do not make."""


WORSE = {"agrees": 0, "follows": 0, "in kind": 1, "differs": 2}


def numbers(data: xr.Dataset) -> list[str]:
    return [str(name) for name, values in data.data_vars.items() if values.dtype.kind in "fbiu"]


def every(data: xr.Dataset, change: Callable[[np.ndarray], np.ndarray | float]) -> xr.Dataset:
    """Changes every variable of numbers; what is true or false stays so."""

    def changed(values: xr.DataArray) -> xr.DataArray:
        result = np.broadcast_to(change(values.values.astype(float)), values.shape)
        return values.copy(data=result > 0.5 if values.dtype.kind == "b" else result)

    return data.assign({name: changed(data[name]) for name in numbers(data)})


def in_another_order(values: np.ndarray, seed: int) -> np.ndarray:
    """Exchanges the numbers of settings, models and trials; missing ones stay where they are."""
    there = np.isfinite(values)
    shuffled = values.copy()
    shuffled[there] = np.random.default_rng(seed).permutation(values[there])
    return shuffled


def rank(claim: Claim, data: xr.Dataset) -> int:
    """How bad the verdict on some data is."""
    try:
        return WORSE[claim.rule.leaning(claim.values(data))]
    except UNREADABLE:
        return WORSE["differs"]


def flat(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """Data without information: the same number everywhere, the mean of each variable, 0 or 1."""
    yield every(data, lambda array: float(np.mean(array[np.isfinite(array)] if np.isfinite(array).any() else 0)))
    yield every(data, lambda _: 0.0)
    yield every(data, lambda _: 1.0)


def turns(claim: Claim, data: xr.Dataset) -> bool:
    """Whether a claim fails where its number or all data are halved or doubled, or in most of nine other orders."""
    values, found = claim.values(data), rank(claim, data)
    read = [WORSE[claim.rule.leaning(factor * values)] for factor in (0.5, 2)]
    scaled = [rank(claim, every(data, partial(np.multiply, factor))) for factor in (0.5, 2)]
    orders = (every(data, partial(in_another_order, seed=seed)) for seed in range(9))
    return max(read + scaled) > found or float(np.median([rank(claim, other) for other in orders])) > found


def measured_claims() -> Iterator[tuple[Claim, xr.Dataset]]:
    for claim in CLAIMS:
        if claim.measurement.name in datasets():
            yield claim, datasets()[claim.measurement.name]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.RankWarning")
def test_every_claim_that_passes_fails_on_changed_data() -> None:
    """On data without information, or else on scaled or shuffled data; one that differs has shown that it can."""
    without, rigid = [], []
    for claim, data in measured_claims():
        found = rank(claim, data)
        if found < WORSE["differs"] and all(rank(claim, other) <= found for other in flat(data)):
            without.append(claim.id)
            rigid += [] if turns(claim, data) else [claim.id]
    assert set(without) == {*CANNOT_TURN, *ONLY_SCALED_OR_SHUFFLED}
    assert rigid == list(CANNOT_TURN)


def test_the_kept_results_are_those_of_the_claims(tmp_path: Path) -> None:
    for name in ("train-images-idx3-ubyte", "airfoil.csv.gz"):
        (tmp_path / name).touch()
    names = {measurement.name: measurement for measurement in ledger.measurements(CLAIMS)}
    for name, data in datasets().items():
        called = first_call(names[name], None if names[name].needs is None else tmp_path)
        assert data.attrs["measured_by"] == called, f"measure {name} again: tests/papers/measured.py"
    for claim, data in measured_claims():
        assert claim.values(data).size, f"{claim.id} finds no number in its kept results"
    assert {name for name, measurement in names.items() if measurement.needs is None} <= set(datasets())


def test_a_published_number_does_not_agree_with_its_half_and_its_double() -> None:
    """Unless the paper states an inequality, or the number is 0."""
    wide = []
    for claim in CLAIMS:
        value = claim.published.value
        if not value or claim.published.bound:
            continue
        if any(claim.rule.leaning(np.array([part * value])) in ("agrees", "follows") for part in (0.5, 2.0)):
            wide.append(claim.id)
    assert wide == list(WIDE)


def test_a_rule_is_open_only_where_the_paper_states_an_inequality() -> None:
    def open_ends(bounds: Range | None) -> set[str]:
        low, high = bounds or (0.0, 0.0)
        return ({"at least"} if math.isinf(high) else set()) | ({"at most", "less than"} if math.isinf(low) else set())

    for claim in CLAIMS:
        ends = open_ends(claim.rule.agrees) | open_ends(claim.rule.in_kind)
        if claim.published.value is not None:
            assert not ends or claim.published.bound in ends, f"{claim.id}: {claim.rule.words}"


def test_what_follows_is_counted_apart() -> None:
    rule = Rule(agrees=(0.9, 1.1), in_kind=(0.5, 2.0), follows=True)
    assert [rule.leaning(np.array([number])) for number in (1.0, 0.6, 3.0)] == ["follows", "in kind", "differs"]
    assert rule.words == "follows if the mean over trials is between 0.9 and 1.1, in kind if it is between 0.5 and 2"
    with pytest.raises(ValueError, match="what follows has a range"):
        Rule(in_kind=(0, 1), follows=True)


def test_ranges_by_hand() -> None:
    assert half_to_double(0.6, without=1) == pytest.approx((0.2, 0.8))  # a saving of .4: from .2 to .8
    assert half_to_double(-2) == (-4, -1)
    assert nearer(0.9, 0.5) == pytest.approx(0.7)
    assert share_from(0.9) == pytest.approx((0.9, 1)) and up_to(0.1) == (0, 0.1)


def test_a_bound_in_words() -> None:
    assert Published(value=0.95, bound="at least", relation="of all").words == "at least 0.95 (of all)"
    with pytest.raises(ValueError, match="a bound needs its number"):
        Published(relation="rises", bound="at most")


def test_what_is_random_is_measured_in_several_trials() -> None:
    """A number of a single training, such as the one that is shown, has no interval, or a false one of no width."""
    without = set()
    for claim, data in measured_claims():
        if not claim.measurement.seeded or claim.rule.follows:
            continue
        found, read = interval(claim, data), claim.read(data)
        of_trials = isinstance(read, xr.DataArray) and not set(TRIALS).isdisjoint(read.dims)
        several = of_trials or (isinstance(read, np.ndarray) and read.size > 1)
        if found is None or (found.low == found.high and not several):
            without.add(claim.id)
    assert without == set(EXACT)
