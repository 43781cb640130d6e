"""A table or figure of a paper while it is computed: its settings, its sweep, and the attrs that reproduce it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from moe_lab.core import sweep
from moe_lab.core.config import require
from moe_lab.core.origins import as_tuple, call_of, origin
from moe_lab.core.store import Run

if TYPE_CHECKING:
    import xarray

_OF_SWEEP = ("store", "jobs")
Function = TypeVar("Function", bound=Callable[..., Any])


def reproducible(*, first: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Makes the Dataset that a function returns say by which call it is made again; see `call_with`.

    Args:
      first: the parameters that come first in the call, such as the axes of a grid.
    """

    def recorded(function: Function) -> Function:
        @wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            data = function(*args, **kwargs)
            settled = data.attrs.pop("settled", {})
            data.attrs["call"] = call_with(function, args, kwargs, settled, first)
            return data

        return cast(Function, made)

    return recorded


def call_with(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    settled: Mapping[str, Any] | None = None,
    first: Sequence[str] = (),
) -> str:
    """Returns the call of a function with some arguments, its defaults included, as Python code.

    Left out are arguments that are None, and store and jobs, on which no result depends. What a parameter takes one or
    several of comes as a tuple.

    Args:
      settled: values by name that the function computes with in place of those given.
      first: the parameters that come first; the others follow in the order of the signature.
    """
    bound = signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    named, further = {}, {}
    for name, parameter in bound.signature.parameters.items():
        value = bound.arguments[name]
        if parameter.kind is Parameter.VAR_KEYWORD:
            further = {key: one for key, one in value.items() if key not in _OF_SWEEP and key not in (settled or {})}
        else:
            named[name] = as_tuple(value) if "Sequence[" in str(parameter.annotation) and value is not None else value
    ordered = {name: named[name] for name in first} | named
    return call_of(function.__name__, {**ordered, **(settled or {}), **further})


@dataclass
class Figure:
    """The settings that all functions of a room's `figures` share. Each room derives its own class.

    Args:
      place: in the paper, such as "table 3".
      trials, seed: of every grid point.
      more: the caller's other parameters: of the room's configs, and store and jobs of the sweep.

    Raises:
      ValueError: a parameter that the figure sets itself.
    """

    paper: ClassVar[str]  # its key
    # Parameters that the figures of the paper set themselves:
    taken: ClassVar[Sequence[str]] = (
        "model",
        "task",
        "samples",
        "trials",
        "first_trial",
        "seed",
        "measure",
        "record_every",
    )
    place: str
    trials: int
    seed: int
    more: Mapping[str, Any]

    def __post_init__(self) -> None:
        taken = [name for name in self.more if name in self.taken]
        require(not taken, "a figure sets these itself", settings=taken)

    @property
    def given(self) -> dict[str, Any]:
        """The caller's parameters without store and jobs, on which no result depends."""
        return {name: value for name, value in self.more.items() if name not in _OF_SWEEP}

    def sweep(self, run: Run, axes: Mapping[str, Sequence[Any]], **how: Any) -> xarray.Dataset:
        """Runs every grid point with the figure's trials, seed, store and jobs; see `moe_lab.core.sweep.sweep`."""
        of_sweep = {name: value for name, value in self.more.items() if name in _OF_SWEEP}
        *_, finished = sweep.sweep(run, axes, trials=self.trials, seed=self.seed, **how, **of_sweep)
        return finished

    def about(self, config: Any, device: str = "cpu", **more: Any) -> dict[str, Any]:
        """Returns the attrs of the result without its call, which `reproducible` writes.

        Args:
          more: further attrs; "settled" is for `reproducible`, see `call_with`.
        """
        paper = f"{self.paper}, {self.place}"
        return origin(figure=self.place, call="", config=config, seed=self.seed, device=device, paper=paper, **more)
