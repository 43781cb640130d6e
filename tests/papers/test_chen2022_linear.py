"""What is specific to chen2022's claims on linear experts and ensembles."""

from __future__ import annotations

import numpy as np
import pytest

from moe_lab.specialization import ClusterTask
from moe_lab.specialization.published import published
from moe_lab_papers.chen2022.linear_measures import FIGURE_1, ensembles, linear_mixture
from tests.papers.small import CLAIMS, turned, verdict


def test_without_random_noise_the_linear_mixture_is_exact_in_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = (FIGURE_1, 1, 2, 3, 4)
    noisy = linear_mixture(settings, trials=1, samples=2000)
    assert (noisy["test_accuracy"].sel(setting=["2", "4"]) < 1).all()
    setting = ClusterTask.setting
    monkeypatch.setattr(ClusterTask, "setting", lambda number: setting(number).replace(noise=0.0))
    assert (linear_mixture(settings[1:], trials=1, samples=2000) == 1).to_dataarray().all()


def test_an_ensemble_is_better_than_its_experts_and_not_than_the_bound() -> None:
    data = ensembles((1, 8), trials=2, samples=50)
    assert (data["ensemble"].sel(size=8) < data["single"]).all() and (data["ensemble"] >= 0.125 - 1e-9).all()
    assert (
        turned("chen2022/theorem4.1/ensemble", lambda found: found.assign(ensemble=found["ensemble"] / 4)) == "differs"
    )


@pytest.mark.parametrize("setting", [1, 2, 3, 4])
def test_a_balanced_linear_mixture_is_neither_a_nonlinear_one_nor_a_single_expert(setting: int) -> None:
    claim = CLAIMS[f"chen2022/table9/setting{setting}-linear"]
    beside = published("table 3")["test_accuracy"].sel(setting=setting)
    assert claim.rule.leaning(np.array([claim.published.value])) == "agrees"
    for model in ("moe-cubic", "single-linear"):
        assert claim.rule.leaning(np.array([float(beside.sel(model=model))])) == "differs"


def test_a_mixture_that_answers_by_chance_does_not_represent_the_labels() -> None:
    assert verdict("chen2022/section1/linear-represents") == "agrees"
    assert turned("chen2022/section1/linear-represents", lambda data: 0.5 * data) == "differs"
