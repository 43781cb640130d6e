"""What is specific to chen2022: rules on the paper's own tables, and the measures behind its theorems and figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.specialization.published import published
from moe_lab_papers.chen2022 import measures, tables
from moe_lab_papers.chen2022.errata import least_linear_loss
from moe_lab_papers.chen2022.figures import matching_centers, second_signal
from moe_lab_papers.chen2022.tables import entropy_of
from tests.papers.small import CLAIMS, MEASUREMENTS, small, verdict


def as_published(models: dict[str, str]) -> xr.Dataset:
    """Table 3 as if it had been measured, each model with the numbers of another."""
    theirs = published("table 3")[["test_accuracy", "dispatch_entropy"]]
    return theirs.sel(model=list(models.values())).assign_coords(model=list(models)).expand_dims(trial=3, axis=-1)


@pytest.mark.parametrize("objective", ["", "-authors"])
@pytest.mark.parametrize("setting", [1, 2, 3, 4])
def test_the_papers_own_numbers_agree_and_others_do_not(setting: int, objective: str) -> None:
    same = as_published({"moe-cubic": "moe-cubic", "moe-linear": "moe-linear"})
    swapped = as_published({"moe-cubic": "moe-linear", "moe-linear": "moe-cubic"})
    for kind in ("nonlinear", "linear"):
        for measure in ("", "-entropy"):
            name = f"chen2022/table{1 if setting < 3 else 3}/setting{setting}-{kind}{measure}{objective}"
            assert verdict(name, same) == "agrees", name
            assert verdict(name, swapped) == "differs", name


@pytest.mark.parametrize("setting", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["linear", "nonlinear"])
def test_published_single_experts_fail_as_published(setting: int, kind: str) -> None:
    name = f"chen2022/table{1 if setting < 3 else 3}/setting{setting}-single-{kind}"
    same = as_published({"single-cubic": "single-cubic", "single-linear": "single-linear"})
    better = as_published({"single-cubic": "moe-cubic", "single-linear": "moe-linear"})
    assert verdict(name, same) == "agrees"
    assert verdict(name, better) == verdict(name, xr.full_like(same, 0.5)) == "differs"


@pytest.mark.parametrize(("table", "setting"), [("table 7", 3), ("table 8", 1), ("table 8", 2)])
def test_every_activation_is_held_to_its_own_number(table: str, setting: int) -> None:
    theirs = published(table)[["test_accuracy"]].rename(model="activation").expand_dims(trial=1, axis=-1)
    data = theirs.assign_coords(activation=[name.removeprefix("single-") for name in theirs["activation"].values])
    names = [f"chen2022/{table.replace(' ', '')}/setting{setting}-{name}" for name in ("relu", "celu", "gelu", "tanh")]
    for name in names:
        assert verdict(name, data) == "agrees", name
        assert verdict(name, data + 0.04) == verdict(name, data - 0.04) == "in kind", name
        assert verdict(name, xr.full_like(data, 0.9)) == verdict(name, xr.full_like(data, 0.5)) == "differs", name


def test_table_7_trains_on_its_own_ranges() -> None:
    """(1, 2) for alpha and gamma, as its caption and the authors' code say, in every budget."""
    measurement = MEASUREMENTS["chen2022/table7"]
    for budget in ("quick", "full", "paper"):
        given = measurement.arguments(budget)
        assert given["feature"] == given["feature_noise"] == (1.0, 2.0)
    assert "feature" not in MEASUREMENTS["chen2022/table8"].arguments("quick")


def test_a_linear_loss_below_the_least_of_setting_3_is_not_of_setting_3() -> None:
    """By hand where alpha = gamma = 1: scores 2w and 0, so that the least mean loss is log(2)/2 as w grows."""
    assert least_linear_loss((1.0, 1.0)) == pytest.approx(np.log(2) / 2, abs=1e-4)
    assert least_linear_loss((1.0, 2.0)) == pytest.approx(0.375, abs=5e-4)
    assert least_linear_loss((0.5, 2.0)) == pytest.approx(0.409, abs=5e-4)


@pytest.mark.parametrize("setting", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["nonlinear", "nonlinear-entropy", "linear", "linear-entropy"])
def test_one_number_has_one_tolerance(setting: int, kind: str) -> None:
    """Algorithm 1 and the authors' objective are held to the same mean within one published deviation.

    By it the authors' cubic entropies of one seed, .284, .479, .135 and .266, miss the published ones.
    """
    name = f"chen2022/table{1 if setting < 3 else 3}/setting{setting}-{kind}"
    rule, theirs = CLAIMS[name].rule, CLAIMS[f"{name}-authors"].rule
    assert rule == theirs and rule.of == "mean"
    if kind == "nonlinear-entropy":
        measured = (0.284, 0.479, 0.135, 0.266)[setting - 1]
        assert theirs.of_number(measured) == "in kind"
    both = [CLAIMS[one].measurement for one in (name, f"{name}-authors")]
    assert both[1].full["one_data_set"] is False and "one_data_set" not in both[0].full  # algorithm 1 has its own


def test_tables_7_and_8_train_on_enough_samples_in_every_budget() -> None:
    for table in ("table7", "table8"):
        assert MEASUREMENTS[f"chen2022/{table}"].quick["samples"] >= 2000
        assert MEASUREMENTS[f"chen2022/{table}"].quick["trials"] > 1


def test_no_entropy_below_0_and_no_share_above_1_agrees() -> None:
    for claim in CLAIMS.values():
        if (
            claim.measurement.name.startswith(("chen2022/table3-n", "chen2022/table3-l"))
            and claim.unit != "experts"
            and claim.rule.agrees
        ):
            low, high = claim.rule.agrees
            assert low >= 0 and high <= (np.log(4) if claim.unit == "nats" else 1) + 1e-9, claim.id


@pytest.mark.parametrize(
    ("seconds", "found"), [((1.0, 5.0), "in kind"), ((1.0, 1.5), "differs"), ((1.0, 20.0), "differs")]
)
def test_soft_routing_takes_more_time(seconds: tuple[float, float], found: str) -> None:
    """The median of three turns; the last is disturbed."""
    turns = np.outer(seconds, (1.0, 1.0, 1.0))
    turns[1, 2] *= 100
    data = xr.Dataset({"seconds": (("experts_per_sample", "repeat"), turns)}, {"experts_per_sample": [1, 8]})
    assert verdict("chen2022/section3.2/soft-routing-time", data) == found


@pytest.mark.parametrize(("table", "divided"), [("table 4", True), ("table 5", True), ("table 6", False)])
def test_dispatch_rules_tell_the_published_tables_apart(table: str, divided: bool) -> None:
    data = xr.Dataset({"dispatch_entropy": entropy_of(table)})
    assert verdict("chen2022/table4/one-cluster-or-nothing", data) == ("agrees" if divided else "differs")
    assert verdict("chen2022/table6/clusters-mixed", data) == ("differs" if divided else "agrees")


@pytest.mark.parametrize(
    ("table", "experts", "own"),
    [("table 4", "agrees", "agrees"), ("table 5", "agrees", "agrees"), ("table 6", "differs", "differs")],
)
def test_table_5_is_read_from_its_counts(table: str, experts: str, own: str) -> None:
    """By hand, table 5: 3979 + 4 + 3971 + 6 + 1304 + 4005 + 2711 of 16,000 samples, and five experts with over 800."""
    data = published(table)[["final_dispatch"]]
    mixtures = data.rename(final_dispatch="dispatch").expand_dims(setting=[1], model=["moe-cubic"], trial=2)
    assert verdict("chen2022/table5/experts-in-use", mixtures) == experts
    assert verdict("chen2022/table5/own-cluster", data) == own
    assert verdict("chen2022/table5/experts-in-use", xr.ones_like(mixtures)) == "differs"
    assert verdict("chen2022/table5/own-cluster", xr.ones_like(data)) == "differs"
    if table == "table 5":
        assert tables.own_share(data["final_dispatch"]) == 15980 / 16000
        assert tables.in_use(data["final_dispatch"]) == 5


def test_at_full_size_mixtures_are_those_of_the_paper() -> None:
    mixtures = [
        one for name, one in MEASUREMENTS.items() if name.startswith(("chen2022/table3-n", "chen2022/table3-l"))
    ]
    assert len(mixtures) == 4
    assert all(mixture.full["samples"] == 16000 and mixture.full["trials"] == 10 for mixture in mixtures)


def test_a_reader_gives_a_number_for_every_trial() -> None:
    for name in ("table1/setting2-nonlinear", "figure4/no-centers", "theorem4.2/router", "figure1/linear-does-not"):
        claim = CLAIMS[f"chen2022/{name}"]
        assert claim.values(small(claim.measurement.name)).shape == (2,), name


def test_inner_products_are_read_as_by_hand() -> None:
    centers, signals = [[4.0, 1, 0], [0, 0.5, 0.2], [0, 1, 3]], [[2.0, 1, 0], [8, 1, 0], [1, 4, 3]]
    dims = ("step", "trial", "expert", "cluster")
    data = xr.Dataset({"router_center": (dims, [[centers]]), "expert_feature": (dims, [[signals]])})
    assert second_signal()(data).tolist() == [0.5]
    assert matching_centers()(data).tolist() == [0.5]  # the second router points nowhere, the third elsewhere


def test_theorem_4_1_is_tight_and_holds() -> None:
    data = measures.single_functions(trials=3, samples=50, seed=7)
    assert float(data["test_error"].min()) >= 0.125 and float(data["least_wrong"].min()) >= 1
    assert data["tight_error"].values.tolist() == [0.125] * 7
    assert data["tight_drawn"].values == pytest.approx(0.125)
    assert verdict("chen2022/theorem4.1/any-function", data) == "agrees"
    assert verdict("chen2022/theorem4.1/any-function", xr.full_like(data, 0.12, dtype=float)) == "differs"


def test_smooth_routing_stays_below_its_bounds() -> None:
    data = measures.smooth_routing(trials=8, tries=20, experts=(2, 5), seed=3)
    for name in ("lemma5.1/bound", "remarkc.2/wider-noise-smoother", "lemmac.4/never-routed"):
        assert verdict(f"chen2022/{name}", data) == "agrees", name
    assert float(data["bound"].sel(noise="uniform 4", experts=5)) == 25 / 4


def test_the_exploration_stage_ends_after_ten_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    trained = measures._trained

    def watched(*given: Any) -> Any:
        taken.append(given[-1])
        return trained(*given)

    monkeypatch.setattr(measures, "_trained", watched)
    data = measures.exploration(trials=2, samples=400, seed=0, device="cpu")
    assert taken == [10]  # sqrt(.01) / .01
    assert bool((data["own_error"] < data["other_error"]).all()) and bool((data["foretold"] > 0.25).all())


def test_figure_1_shows_the_trial_that_divides_best() -> None:
    data = small("chen2022/figure1")
    best = int(data["trial_entropy"].sel(model="moe-cubic").argmin("trial"))
    assert f"trial={best}" in data.attrs["call"]
    np.testing.assert_equal(
        float(data["dispatch_entropy"].sel(model="moe-cubic")), float(data["trial_entropy"][1, best])
    )
