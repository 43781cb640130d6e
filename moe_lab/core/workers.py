"""Calls a function on other processes, or on what `joblib.parallel_config` names, such as a Dask or Ray cluster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from moe_lab.core.errors import OperationError
from moe_lab.core.installing import how_to_install
from moe_lab.core.sentences import brief

Result = TypeVar("Result")
ANSWER_SECONDS = 20
"""Time within which a Dask scheduler must answer."""


def processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def unordered(
    function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], jobs: int | None
) -> Generator[Result, None, None]:
    """Yields function(*call) for each of the calls, in the order in which the results are ready.

    Args:
      function: at the top of a module, so that other processes can import it.
      calls: the arguments of each call.
      jobs: processes; None leaves it to `joblib.parallel_config`.

    Raises:
      RuntimeError: a worker process ended unexpectedly.
    """
    import joblib  # here, because most work runs in this process

    tasks = (joblib.delayed(function)(*call) for call in calls)
    results = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)
    try:
        for result in results:  # noqa: UP028 - `yield from` would close it outside the block below
            yield result
    except BrokenExecutor as error:
        raise OperationError(
            "a worker process ended unexpectedly, perhaps for lack of memory (try a smaller batch or fewer jobs); "
            "what was finished before is done"
        ) from error
    finally:
        with warnings.catch_warnings():  # joblib warns when a consumer stops early, which is allowed
            warnings.filterwarnings("ignore", message=".*tasks", category=UserWarning)
            results.close()


@contextmanager
def on_cluster(address: str) -> Iterator[None]:
    """Routes joblib's work (jobs=None) to the workers of a Dask scheduler, if an address is given.

    Raises:
      RuntimeError: dask.distributed is not installed, or the scheduler does not answer.
    """
    if not address:
        yield
        return
    try:
        from dask.distributed import Client
    except ModuleNotFoundError as error:
        raise OperationError(f"a cluster needs dask.distributed: {how_to_install('cluster')}") from error
    import joblib

    try:
        client = Client(address, timeout=ANSWER_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise OperationError(f"no Dask scheduler answers at {brief(address)}: {brief(str(error), 150)}") from error
    with client, joblib.parallel_config("dask"):
        yield
