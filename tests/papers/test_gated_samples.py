"""What is specific to gated2019's claims on samples: the powers of d, T and n, and batches that do worse."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers.gated2019.sample_measures import split_samples
from tests.papers.small import CLAIMS, verdict


def test_more_samples_a_step_leave_less_error() -> None:
    few, many = (split_samples((10,), (10,), trials=6, each=each)["by_dimension"] for each in (100, 1600))
    assert float((few / many).median()) == pytest.approx(4, rel=0.4)


@pytest.mark.parametrize(("place", "axis"), [("dimension", "dimension"), ("steps", "steps")])
def test_a_power_is_read_and_another_power_differs(place: str, axis: str) -> None:
    name, values = f"by_{axis}", np.array([10.0, 20.0, 40.0])
    for power, found in ((0.5, "agrees"), (1.0, "differs"), (0.0, "differs")):
        data = xr.Dataset({name: ((axis, "trial"), 3 * values[:, None] ** power)}, {axis: values})
        assert CLAIMS[f"gated2019/theorem4/{place}"].values(data) == pytest.approx(power)
        assert verdict(f"gated2019/theorem4/{place}", data) == found


def test_batches_that_fail_or_scatter_are_told_from_those_that_do_not() -> None:
    def ends(small: list[float], large: list[float]) -> xr.Dataset:
        errors = np.array([small, large])[:, None]
        return xr.Dataset({"regressor_error": (("batch", "step", "trial"), errors)}, {"batch": [128, 1024]})

    places = [f"gated2019/section4/{name}" for name in ("large-batches-needed", "small-batches-similar")]
    assert [verdict(place, ends([0.0, 0.4], [0.0, 0.0])) for place in places] == ["in kind", "differs"]
    assert [verdict(place, ends([0.0, 0.001], [0.0, 0.0])) for place in places] == ["differs", "agrees"]
    vary = "gated2019/section4/small-batches-vary"
    assert verdict(vary, ends([0.0, 0.004], [0.0, 0.001])) == "in kind"
    assert verdict(vary, ends([0.0, 0.001], [0.0, 0.001])) == "differs"
