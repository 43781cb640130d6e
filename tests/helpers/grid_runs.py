"""Runs for the tests of `sweep`: real functions of a real module, so that other processes can import them.

Every run appends the points that it computes to the file named by MOE_LAB_TEST_LOG, so that a test can count them.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch


def _log(points: list[dict[str, Any]]) -> None:
    if log := os.environ.get("MOE_LAB_TEST_LOG"):
        with open(log, "a") as file:
            file.writelines(f"{point['a']},{point['b']}\n" for point in points)


def product(points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    """a * b + trial / 10 + seed: a value that anyone can check."""
    _log(points)
    rows = np.array([point["a"] * point["b"] for point in points], dtype=float)
    return {"value": rows[:, None] + np.arange(trials) / 10 + seed}


def slow_product(points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    time.sleep(0.15)
    return product(points, trials=trials, seed=seed)


def scaled(factor: float, points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    return {"value": factor * product(points, trials=trials, seed=seed)["value"]}


def vectors(points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    """One value with an axis of its own after the trial: [a, b]."""
    pairs = np.array([[point["a"], point["b"]] for point in points], dtype=float)
    return {"pair": np.repeat(pairs[:, None], trials, axis=1), "success": np.ones((len(points), trials), dtype=bool)}


def fails_at_two(points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    if any(point["a"] == 2 for point in points):
        raise ValueError("a must not be 2")
    return product(points, trials=trials, seed=seed)


def dies_at_two(points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    """Its process ends without a word, as one that the system kills for memory does."""
    if any(point["a"] == 2 for point in points):
        time.sleep(0.5)
        os._exit(9)
    return product(points, trials=trials, seed=seed)


def threads(points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    """The process and its number of torch threads."""
    shape = (len(points), trials)
    return {"threads": np.full(shape, torch.get_num_threads()), "process": np.full(shape, os.getpid())}


def in_steps(points: list[dict[str, Any]], *, trials: int, seed: int) -> Iterator[dict[str, np.ndarray] | None]:
    """Signs of life, then half of the trials, then all of them."""
    values = product(points, trials=trials, seed=seed)["value"]
    for _ in range(3):
        yield None
    yield {"value": np.where(np.arange(trials) < trials // 2, values, np.nan)}
    yield {"value": values}


def endless(points: list[dict[str, Any]], *, trials: int, seed: int) -> Iterator[None]:
    """Never ends by itself; says in its log when it was closed."""
    try:
        while True:
            time.sleep(0.005)
            yield None
    finally:
        _log([{"a": "closed", "b": ""}])


def silent(points: list[dict[str, Any]], *, trials: int, seed: int) -> Iterator[None]:
    yield None


def wrong_shape(points: list[dict[str, Any]], *, trials: int, seed: int) -> dict[str, np.ndarray]:
    return {"value": np.zeros(trials)}


def no_mapping(points: list[dict[str, Any]], *, trials: int, seed: int) -> list[int]:
    return [1, 2, 3]


def slow(points, trials, seed):
    """Writes down each point that it computes, and takes its time."""
    for point in points:
        (Path(os.environ["MOE_LAB_TEST_COMPUTED"]) / f"{point['x']}-{uuid.uuid4()}").touch()
    time.sleep(0.05)
    return {"value": np.array([[float(point["x"])] * trials for point in points])}
