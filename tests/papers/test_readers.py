"""Readers take the numbers that their words say."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers.readers import LAST, at, difference, over_mean, ratio, reader

VALUES = np.arange(12.0).reshape(2, 3, 2)  # (class, samples, trial)
DATA = xr.Dataset(
    {"accuracy": (("class", "samples", "trial"), VALUES / 10)}, {"class": ["o1", "o2"], "samples": [10, 20, 40]}
)


@pytest.mark.parametrize(
    ("read", "values", "words"),
    [
        (at("accuracy", class_="o2", samples=20), VALUES[1, 1] / 10, "accuracy at class = o2, samples = 20"),
        (
            at("accuracy", samples=LAST, lowest="class"),
            VALUES[0, 2] / 10,
            "accuracy at samples = last, lowest over class",
        ),
        (
            at("accuracy", samples=slice(20, None), highest=("class", "samples")),
            VALUES[1, 2] / 10,
            "accuracy at samples = slice(20, None, None), highest over class and samples",
        ),
        (
            at("accuracy", class_=["o1"], samples=10, sum="class", per=0.1),
            VALUES[0, 0],
            "accuracy at class = ['o1'], samples = 10, sum over class",
        ),
        (at("accuracy", mean="samples", median="class"), VALUES.mean(1).mean(0) / 10, None),
        (
            difference("accuracy", class_=("o2", "o1"), samples=10),
            [0.6, 0.6],
            "accuracy at class = o2, samples = 10 less accuracy at class = o1, samples = 10",
        ),
        (ratio("accuracy", samples=(40, 20), class_="o2"), VALUES[1, 2] / VALUES[1, 1], None),
        (
            over_mean("accuracy", error=True, samples=(10, 20), class_="o1"),
            (1 - VALUES[0, 0] / 10) / (1 - VALUES[0, 1] / 10).mean(),
            "1 less accuracy at samples = 10, class = o1 over the mean of accuracy at samples = 20, class = o1",
        ),
    ],
)
def test_a_reader_takes_what_its_words_say(read: object, values: np.ndarray, words: str | None) -> None:
    np.testing.assert_allclose(read(DATA), values)
    assert words is None or read.words == words


def test_a_function_of_a_dataset_becomes_a_reader() -> None:
    @reader
    def lead(data: xr.Dataset, first: str, *, samples: int) -> xr.DataArray:
        return data["accuracy"].sel({"class": first, "samples": samples}) - 1

    read = lead("o1", samples=20)
    assert read.words == "lead(o1, samples = 20)"
    np.testing.assert_allclose(read(DATA), VALUES[0, 1] / 10 - 1)


@pytest.mark.parametrize("labels", [{}, {"class_": ("o1", "o2"), "samples": (10, 20)}, {"samples": (10, 20, 40)}])
def test_a_comparison_has_one_pair(labels: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="one label must be a pair"):
        difference("accuracy", **labels)
