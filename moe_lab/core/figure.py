"""A table or figure of a paper while it is computed: its settings, its sweep, and the attrs that reproduce it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from moe_lab.core import sweep
from moe_lab.core.config import require
from moe_lab.core.origins import call_of, origin
from moe_lab.core.store import Run

if TYPE_CHECKING:
    import xarray

_OF_SWEEP = ("store", "jobs")


@dataclass
class Figure:
    """The settings that all functions of a room's `figures` share. Each room derives its own class.

    Args:
      place: in the paper, such as "table 3".
      name: of the function that computes it.
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
    name: str
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

    def attrs(self, arguments: Mapping[str, Any], config: Any, device: str = "cpu", **more: Any) -> dict[str, Any]:
        """Returns the attrs of the result, whose call has these arguments besides those in `self.more`."""
        return origin(
            figure=self.place,
            call=call_of(self.name, {**arguments, **self.given}),
            config=config,
            seed=self.seed,
            device=device,
            paper=f"{self.paper}, {self.place}",
            **more,
        )
