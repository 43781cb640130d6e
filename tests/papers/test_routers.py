"""What is specific to the claims on routing and balancing: the least Switch loss, and how their numbers are read."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab.registry import CLAIMED, PAPERS, TOPICS
from moe_lab_papers.routers import CLAIMS, balancing, choosing, measures
from tests.papers.small import small, verdict


def test_the_least_switch_loss_is_that_of_a_loop() -> None:
    """Against plain loops over the same draws, to 1e-12; and the draw that is kept has an uneven load."""
    found = measures.least_switch_loss(trials=2, tries=500, seed=3)
    for trial in range(2):
        scores = measures.stream(3, trial, "switch loss").standard_normal((500, 2, 6))
        losses = []
        for draw in np.exp(scores):
            gates = draw / draw.sum(0)
            share = [sum(gates[:, sample].argmax() == expert for sample in range(6)) / 6 for expert in range(2)]
            losses.append(2 * sum(f * row.mean() for f, row in zip(share, gates, strict=True)))
        assert float(found["least"][trial]) == pytest.approx(min(losses), abs=1e-12)
    assert bool((found["least"] < 1).all()) and float(abs(found["load"] - 0.5).min()) > 0.1


def as_measured(accuracy: dict[str, list[float]], violation: dict[str, list[float]]) -> xr.Dataset:
    """Ways to balance at the strengths .01, .1 and 1, as if two trials had been alike."""
    axes = {"balancing": list(accuracy), "strength": [0.01, 0.1, 1.0], "trial": [0, 1]}
    found = {
        name: (list(axes), np.repeat(np.array(list(rows.values()))[..., None], 2, axis=2))
        for name, rows in (("test_accuracy", accuracy), ("maximal_violation", violation))
    }
    return xr.Dataset(found, axes)


def test_ways_to_balance_are_compared_each_at_its_best_strength() -> None:
    right = {"none": [0.8] * 3, "switch": [0.9, 0.99, 0.95], "importance": [0.9, 0.97, 0.9], "bias": [0.8, 0.9, 0.98]}
    uneven = {"none": [6.0] * 3, "switch": [4.0, 0.5, 0.3], "importance": [3.0, 0.1, 0.1], "bias": [2.0, 0.9, 0.1]}
    data = as_measured(right, uneven)
    read = {claim.id.removeprefix("routers/"): claim.values(data) for claim in CLAIMS if claim.measurement.name == _C}
    assert read["wang2024/better-models"] == pytest.approx([-0.01, -0.01])  # .98 at 1 against .99 at .1
    assert read["wang2024/better-balance"] == pytest.approx([0.2])  # .1 against .5
    assert read["shazeer2017/no-loss-much-worse"] == pytest.approx([0.17, 0.17])
    assert read["switch2021/published-weight"] == pytest.approx([5, 5])
    as_the_papers_say = as_measured({**right, "bias": [0.8, 0.9, 0.995]}, {**uneven, "switch": [0.9, 0.5, 0.3]})
    for name in ("wang2024/better-models", "wang2024/better-balance", "switch2021/published-weight"):
        assert verdict(f"routers/{name}", as_the_papers_say) == "in kind", name
    assert verdict("routers/wang2024/better-models", data) == "differs"


_C = balancing.collapse.measurement.name


def test_divisions_and_routings_are_told_apart() -> None:
    finer, shared = small(balancing.finer.measurement.name), small(balancing.shared.measurement.name)
    assert finer["experts"].values.tolist() == [8, 32] and finer["experts_per_sample"].values.tolist() == [1, 4]
    assert shared["experts"].values.tolist() == [16, 15] and shared["shared"].values.tolist() == [0, 1]
    for data in (finer, shared):
        assert len({*data["parameters"].values}) == len({*data["active_filters"].values}) == 1
    data = small(choosing.one_place.measurement.name)
    right = data["test_accuracy"].squeeze("capacity_factor", drop=True)
    best = max(float(right.sel(model=name).mean()) for name in ("token choice", "expert choice"))
    (soft,) = (claim for claim in CLAIMS if claim.id == "routers/softmoe2024/ahead-of-both")
    assert soft.values(data) == pytest.approx(right.sel(model="soft MoE").values - best)


GENERAL = ["routers/switch2021/uniform-is-least", "routers/nguyen2024/fewer-samples"]
"""Statements that are not about the papers' own models and data."""


def test_a_topic_is_no_paper_and_other_models_are_not_comparable() -> None:
    assert list(CLAIMED) == [*PAPERS, *TOPICS] and "routers" not in PAPERS
    assert [claim.id for claim in CLAIMS if claim.rule.agrees is not None] == ["routers/switch2021/uniform-is-least"]
    assert [claim.id for claim in CLAIMS if not claim.not_comparable] == GENERAL
    assert all((claim.reason or claim.not_comparable) and claim.where for claim in CLAIMS)
