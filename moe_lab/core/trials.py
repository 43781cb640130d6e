"""The trial axis: one random stream per trial, and the device that computes.

Random numbers come from a NumPy generator named by (seed, trial, purpose). They are sampled on the host in float64,
then cast and moved. So trial i gets the same numbers alone or among a thousand, in float32 or float64, on any device;
and because each purpose has its own stream, N samples are the first N of any larger number.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch

from moe_lab.core.config import Config, Precision, RunConfig
from moe_lab.core.devices import AUTO, choose, device_label, warn_once
from moe_lab.core.errors import InputError

_OF_TWO = ("linalg.solve_ex", "linalg.lstsq")  # functions of two matrices
Step = TypeVar("Step")


def stream(seed: int, trial: int, purpose: str) -> np.random.Generator:
    """Returns the random stream of one trial for one purpose (such as "labels" or "noise").

    Raises:
      ValueError: the seed or the trial is negative.
      RuntimeError: raw numbers come from elsewhere (`numbers_from`).
    """
    if _SOURCE.get() is not None:
        raise RuntimeError(
            f"the numbers for {purpose!r} must be drawn as a `Draw`, so that they can come from elsewhere"
        )
    if seed < 0 or trial < 0:
        raise InputError(f"seed and trial must be at least 0: got seed={seed}, trial={trial}")
    key = (trial, zlib.crc32(purpose.encode()))
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(entropy=seed, spawn_key=key)))


class Draw(NamedTuple):
    """Raw random numbers of a trial, from the stream of a purpose: uniform in [0, 1), or of a standard distribution.

    Attributes:
      purpose: names the stream; with {} for a number where there are several.
      kind: "float32" are uniform numbers of 24 bits; "order" are successive random orders of 0, 1, ..., things - 1;
        "whole" are whole numbers below things, a power of two.
      several: how many streams, whose numbers are stacked along a further first axis; None for one.
      things: of an order, or below which whole numbers are; where the purpose has {}, it stands for them.
      block: for what each step draws anew, how many numbers a block has and how many of them a step: each block has a
        stream of its own, and {} in the purpose is its number. None: all steps draw on from one stream.
    """

    purpose: str
    shape: tuple[int, ...]
    kind: Literal["uniform", "float32", "normal", "gumbel", "order", "whole"] = "uniform"
    several: int | None = None
    things: int | None = None
    block: tuple[int, int] | None = None

    @property
    def purposes(self) -> list[str]:
        """The names of its streams."""
        if self.several is None:
            return [self.purpose.format(self.things)]
        return [self.purpose.format(one) for one in range(self.several)]

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """The shape of a trial's numbers."""
        return self.shape if self.several is None else (self.several, *self.shape)

    def of(self, *streams: np.random.Generator) -> np.ndarray:
        """Draws them from the streams of its purposes."""
        found = [self._of_one(random) for random in streams]
        return found[0] if self.several is None else np.stack(found)

    def _of_one(self, random: np.random.Generator) -> np.ndarray:
        if self.kind == "gumbel":
            return random.gumbel(size=self.shape)
        if self.kind == "float32":
            return random.random(self.shape, dtype=np.float32)
        if self.kind == "order":
            orders = -(-math.prod(self.shape) // (self.things or 1))
            both = np.concatenate([random.permutation(self.things or 1) for _ in range(orders)])
            return both[: math.prod(self.shape)].reshape(self.shape)
        if self.kind == "whole":
            return random.integers(self.things or 1, size=self.shape)
        return random.random(self.shape) if self.kind == "uniform" else random.standard_normal(self.shape)

    def by_trial(self, trials: Sequence[int], seed: int) -> torch.Tensor:
        """Draws them for some trials, (trial, *shape), as `drawn` does."""
        return drawn({self.purpose: self}, trials, seed)[self.purpose]


def drawn(wanted: Mapping[str, Draw], trials: Sequence[int], seed: int) -> dict[str, torch.Tensor]:
    """Draws raw numbers by name, (trial, *shape) in float64 on the CPU; those of one purpose follow one another.

    What is random is a pure function of such numbers, which can be computed wherever torch's operations can.
    """
    source = _SOURCE.get()
    if source is not None:
        return source(wanted, trials)
    purposes = dict.fromkeys(purpose for one in wanted.values() for purpose in one.purposes)
    by_trial = [{purpose: stream(seed, trial, purpose) for purpose in purposes} for trial in trials]
    found = {
        name: np.stack([one.of(*(streams[purpose] for purpose in one.purposes)) for streams in by_trial])
        for name, one in wanted.items()
    }
    return {name: torch.from_numpy(values) for name, values in found.items()}


Source = Callable[[Mapping[str, Draw], Sequence[int]], dict[str, torch.Tensor]]
Given = Callable[[str, float], torch.Tensor]
_SOURCE: ContextVar[Source | None] = ContextVar("where raw numbers come from", default=None)
_GIVEN: ContextVar[Given | None] = ContextVar("where the numbers of a Config come from", default=None)


@contextmanager
def numbers_from(source: Source, given: Given | None = None) -> Iterator[None]:
    """Has `drawn` take its numbers from elsewhere, for who records what is computed of them; `stream` is refused.

    Args:
      given: returns a Config's number, a scalar, for its name and its value (`tensor_of`).
    """
    tokens = _SOURCE.set(source), _GIVEN.set(given)
    try:
        yield
    finally:
        _SOURCE.reset(tokens[0])
        _GIVEN.reset(tokens[1])


def from_elsewhere() -> bool:
    """Whether raw numbers come from elsewhere (`numbers_from`), so that what is made of them must not be kept."""
    return _SOURCE.get() is not None


def one_of(uniform: torch.Tensor, count: int) -> torch.Tensor:
    """Returns integers 0 ... count-1, one for each number, so that fewer samples are a prefix of more samples."""
    return (uniform * count).long().clamp(max=count - 1)


def drawn_together(trials: Sequence[int]) -> list[Sequence[int]]:
    """Divides trials into those whose raw numbers are drawn together: one by one, which needs less memory.

    Where the numbers come from elsewhere, they are all together, so that what is done does not depend on how many.
    """
    return in_groups(trials, len(trials) if from_elsewhere() else 1)


def tensor_of(config: Config, name: str) -> torch.Tensor:
    """Returns a number of a Config as a scalar in float64, which may come from elsewhere (`numbers_from`)."""
    value, given = float(getattr(config, name)), _GIVEN.get()
    return torch.tensor(value, dtype=torch.float64) if given is None else given(name, value)


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Returns torch's dtype for "float32" or "float64".

    Raises:
      ValueError: float64 on MPS, which has none.
    """
    if precision == "float64" and device.type == "mps":
        raise InputError("precision must be 'float32' on an MPS device, which has no float64: got precision='float64'")
    return {"float32": torch.float32, "float64": torch.float64}[precision]


def device_and_dtype(run: RunConfig, numbers: float | None = None) -> tuple[torch.device, torch.dtype]:
    """Returns the device and the dtype of a run.

    A run that needs an operation which an MPS device lacks goes to the CPU, with a warning the first time.

    Args:
      numbers: that a step touches where it is not this run's alone (`RunConfig.numbers_per_step`).

    Raises:
      ValueError, RuntimeError: as `moe_lab.core.devices.choose` and `choose_dtype`.
    """
    touched = (run.numbers_per_step if numbers is None else numbers) if run.device == AUTO else 0.0
    device = choose(run.device, touched)
    if device.type == "mps" and (lacks := missing_operation(device, run.operations)):
        warn_once(f"the MPS device has no {lacks}, so that this run computes on the CPU")
        device = torch.device("cpu")
    return device, choose_dtype(run.precision, device)


def device_labels(runs: Iterable[RunConfig]) -> str:
    """Describes the devices of some runs, for results: "cpu", or "cpu and cuda (NVIDIA H100)"."""
    return " and ".join(sorted({device_label(device_and_dtype(run)[0]) for run in runs}))


@lru_cache
def missing_operation(device: torch.device, operations: tuple[str, ...]) -> str:
    """Returns the first function of torch that a device lacks, such as "linalg.eigh"; "" if it has all."""
    square = torch.eye(2, device=device)
    for name in operations:
        try:
            attrgetter(name)(torch)(*[square] * (2 if name in _OF_TWO else 1))
        except NotImplementedError:
            return name
    return ""


_WORTH_SHARING = 2e8  # operations per step from which several threads are faster than one


@contextmanager
def threads_for(operations: float, device: torch.device) -> Iterator[None]:
    """Lets steps compute as they do alone: small ones on the CPU on one torch thread, none in the caller's autocast.

    Restores the caller's number of threads. On two threads a step of these sizes costs 2 to 9 times the CPU time, most
    of it spent waiting. Autocast would replace the precision of the run by another.

    Args:
      operations: approximate number per step.
      device: where the steps run; the number of threads is set for the CPU alone.
    """
    threads = torch.get_num_threads()
    fewer = device.type == "cpu" and threads > 1 and operations < _WORTH_SHARING
    if fewer:
        torch.set_num_threads(1)
    try:
        with ExitStack() as stack:
            for kind in filter(torch.is_autocast_enabled, {device.type, "cpu"}):
                stack.enter_context(torch.autocast(kind, enabled=False))
            yield
    finally:
        if fewer:
            torch.set_num_threads(threads)


def on_one_thread(steps: Iterator[Step], device: torch.device) -> Iterator[Step]:
    """Iterates over small steps under `threads_for`, while the consumer keeps its own number of threads."""
    return each_within(steps, lambda: threads_for(0, device))


def each_within(steps: Iterator[Step], context: Callable[[], AbstractContextManager[Any]]) -> Iterator[Step]:
    """Runs each step inside a new `context`, which is left before the step is yielded."""
    end = object()
    while True:
        with context():  # not across the yield
            step = next(steps, end)
        if step is end:
            return
        yield step  # type: ignore[misc]


def in_groups(trials: Sequence[int], size: int) -> list[Sequence[int]]:
    """Divides trials into groups of at most `size`."""
    return [trials[begin : begin + size] for begin in range(0, len(trials), size)]
