"""Measurements for tests, where worker processes can import them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr


def squares(
    numbers: Sequence[int] = (1, 2, 3), trials: int = 3, seed: int = 0, wait: float = 0.0, device: str = "cpu"
) -> xr.Dataset:
    """number^2 + trial / 10 + seed, and a note of each call in the file that MOE_LAB_TEST_LOG names."""
    time.sleep(wait)
    values = np.array(numbers)[:, None] ** 2 + np.arange(trials) / 10 + seed
    if log := os.environ.get("MOE_LAB_TEST_LOG"):
        with Path(log).open("a") as file:
            file.write("".join(f"{number} " for number in numbers))
    return xr.Dataset({"square": (("number", "trial"), values), "rest": 1.0}, {"number": list(numbers)})


def broken(trials: int = 1, seed: int = 0) -> xr.Dataset:
    raise ArithmeticError(f"{trials} trials of seed {seed} went wrong")


def picture(data: xr.Dataset) -> object:
    """The squares as a figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 2))
    figure.subplots().plot(data["number"], data["square"].mean("trial"))
    return figure
