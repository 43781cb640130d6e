"""The claims of chen2022: readers on tiny runs of their measurements, rules on the paper's own numbers."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.files import netcdf
from moe_lab.reproduce.chen2022 import CLAIMS, measures
from moe_lab.reproduce.chen2022.figures import matching_centers, second_signal
from moe_lab.reproduce.claim import VERDICTS, Claim, Measurement, imported
from moe_lab.specialization.published import published

MEASUREMENTS = {claim.measurement.name: claim.measurement for claim in CLAIMS}
TINY: dict[str, Any] = {"samples": 40, "test_samples": 40, "trials": 2, "steps": 3}
OWN: dict[str, dict[str, Any]] = {  # arguments of functions that are not of the room's figures
    "single_functions": {"trials": 2, "samples": 10},
    "smooth_routing": {"trials": 6, "tries": 3, "experts": (2, 3)},
    "mixture_theorem": {"trials": 2, "samples": 40, "steps": 3},
    "exploration": {"trials": 2, "samples": 40},
    "figure_1": {"trials": 2, "samples": 40, "shown": 40},
}


@cache
def measured(name: str) -> xr.Dataset:
    """A tiny run of the measurement, through a file as the runner has it."""
    measurement = MEASUREMENTS[name]
    function = measurement.function.split(":")[1]
    given = measurement.arguments("quick") | OWN.get(function, TINY)
    if function == "dispatch_table":
        del given["trials"]
    device = {"device": "cpu"} if measurement.device else {}
    data = imported(measurement.function)(**given, **device, seed=0)
    with xr.open_dataset(io.BytesIO(netcdf(data)), engine="h5netcdf") as file:
        return file.load()


def claim_of(name: str) -> Claim:
    (found,) = [claim for claim in CLAIMS if claim.id == f"chen2022/{name}"]
    return found


@pytest.mark.parametrize("name", list(MEASUREMENTS))
def test_every_reader_gives_numbers(name: str) -> None:
    for claim in (one for one in CLAIMS if one.measurement.name == name):
        values = claim.values(measured(name))
        assert values.ndim == 1 and np.isfinite(values).all(), claim.id
        assert claim.rule.verdict(values) in VERDICTS


def test_a_reader_gives_a_number_for_every_trial() -> None:
    for name in ("table1/setting2-nonlinear", "figure4/no-centers", "theorem4.2/router", "figure1/linear-does-not"):
        claim = claim_of(name)
        assert claim.values(measured(claim.measurement.name)).shape == (2,)


def test_both_budgets_give_the_same_arguments() -> None:
    for one in MEASUREMENTS.values():
        assert one.quick.keys() == one.full.keys() and one.seconds[0] <= one.seconds[1], one.name
        assert one.split is None or one.split[0] in one.quick
    quick, full = (sum(one.takes(budget) for one in MEASUREMENTS.values()) for budget in ("quick", "full"))
    assert quick <= 160 and full <= 1500


def test_at_full_size_mixtures_are_those_of_the_paper() -> None:
    for one in MEASUREMENTS.values():
        if "table3-nonlinear" in one.name or "table3-linear" in one.name:
            assert one.full["samples"] == 16000 and one.full["trials"] == 10


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
            claim = claim_of(f"table{1 if setting < 3 else 3}/setting{setting}-{kind}{measure}{objective}")
            assert claim.rule.verdict(claim.values(same)) in ("agrees", "agrees in kind"), claim.id
            assert claim.rule.verdict(claim.values(swapped)) == "differs", claim.id


def test_published_single_experts_fail_as_published() -> None:
    same = as_published({"single-cubic": "single-cubic", "single-linear": "single-linear"})
    better = as_published({"single-cubic": "moe-cubic", "single-linear": "moe-linear"})
    for setting in (1, 2, 3, 4):
        for kind, verdict in (("linear", "agrees"), ("nonlinear", "agrees in kind")):
            claim = claim_of(f"table{1 if setting < 3 else 3}/setting{setting}-single-{kind}")
            assert claim.rule.verdict(claim.values(same)) == verdict
            assert claim.rule.verdict(claim.values(better)) == "differs"


def test_dispatch_rules_tell_the_published_tables_apart() -> None:
    from moe_lab.reproduce.chen2022.tables import _entropy_of

    divided, mixed = claim_of("table4/one-cluster-or-nothing"), claim_of("table6/clusters-mixed")
    for place, verdicts in (("table 4", ("agrees", "differs")), ("table 5", ("agrees", "differs"))):
        entropy = np.array([_entropy_of(place)])
        assert (divided.rule.verdict(entropy), mixed.rule.verdict(entropy)) == verdicts
    entropy = np.array([_entropy_of("table 6")])
    assert (divided.rule.verdict(entropy), mixed.rule.verdict(entropy)) == ("differs", "agrees")


def products(centers: list[list[float]], signals: list[list[float]]) -> xr.Dataset:
    made = {
        name: (("step", "trial", "expert", "cluster"), np.array([[values]]))
        for name, values in (("router_center", centers), ("expert_feature", signals))
    }
    return xr.Dataset(made)


def test_what_is_read_of_inner_products_by_hand() -> None:
    data = products([[4.0, 1, 0], [0, 0.5, 0.2], [0, 1, 3]], [[2.0, 1, 0], [8, 1, 0], [1, 4, 3]])
    assert second_signal(data).tolist() == [0.5]
    assert matching_centers(data).tolist() == [0.5]  # the second router points nowhere, the third elsewhere


def test_theorem_4_1_is_tight_and_holds() -> None:
    data = measures.single_functions(trials=3, samples=50, seed=7)
    assert float(data["test_error"].min()) >= 0.125 and float(data["least_wrong"].min()) >= 1
    assert data["tight_error"].values.tolist() == [0.125] * 7
    assert data["tight_drawn"].values == pytest.approx(0.125)
    claim = claim_of("theorem4.1/any-function")
    assert claim.rule.verdict(claim.values(data)) == "agrees"
    assert claim.rule.verdict(claim.values(data) * 0 + 0.12) == "differs"


def test_smooth_routing_stays_below_its_bounds() -> None:
    data = measures.smooth_routing(trials=8, tries=20, experts=(2, 5), seed=3)
    for name in ("lemma5.1/bound", "remarkc.2/wider-noise-smoother", "lemmac.3/close-scores", "lemmac.4/never-routed"):
        claim = claim_of(name)
        assert claim.rule.verdict(claim.values(data)) == "agrees", name
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
    data = measured("chen2022/figure1")
    best = int(data["trial_entropy"].sel(model="moe-cubic").argmin("trial"))
    assert f"trial={best}" in data.attrs["call"]
    assert float(data["dispatch_entropy"].sel(model="moe-cubic")) == float(data["trial_entropy"][1, best])
    picture: Measurement = MEASUREMENTS["chen2022/figure1"]
    figure, content = imported(picture.picture)(data), io.BytesIO()
    figure.savefig(content, format="png")
    assert content.getvalue().startswith(b"\x89PNG")
