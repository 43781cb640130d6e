"""Lab: sliders -> a run -> a live picture. What every Lab stands on.

A Lab in one screen::

    class MyLab(Lab):
        title = "What moves"
        knobs = (*pick(PatternTask, "patches", "noise"), *pick(JointMoE, "experts", learning_rate=2.0))
        stories = (Story("Too noisy", {"noise": 1.5}, "Watch the accuracy stay at 50 %."),)

        def start(self, values):                  # checks at once; a ValueError's sentence is shown beside the picture
            task, model = given(PatternTask, values), given(JointMoE, values)
            return train(model, task, seed=values["seed"])     # an iterator of records; many records = an agile slider
        def make_picture(self, values):               # once; later runs call picture.begin(values)
            return MyPicture(values, scale=self.scale)
        def caption(self, record):                    # the sentence below the picture
            return f"Step {record.step}: accuracy {...} %."
        def code(self, values):                       # the exact call that makes this run without a Lab
            return f"train({given(JointMoE, values).code()}, ...)"

A record is a `Snapshot`, or anything plain that a picture can read (a Snapshot a model: see `parts`). `values` holds
every knob by name, and `seed`. `pick(Config, "name", ..., name=default)` makes knobs of a Config's declared parameters
(all with a slider when none is named), `given(Config, values)` makes the Config. The Lab's own knob is a `Knob(...)`
with a slider range or choices. `start` runs on a worker thread: it must not touch widgets. Optional hooks:
`parts(record)`, `data(records)`, `trouble(record)`, `progress(record)`, `device(record)`; class attributes `budget`,
`most_records`, `frames`, `fast_frames`, `up_to`. Knobs named in the class attribute `looks` change nothing of a run,
only how it is looked at: moving one calls `picture.look({name: value})`, draws the record at hand again and starts
nothing, unless `more(record)` gives records that the ended run should still add.

In use: `lab = MyLab(noise=.5)`; `lab` as the last line of a cell shows it. `lab.set(noise=1)`, `play()`, `pause()`,
`step()`, `reset()`, `scrub(i)`, `pin()`, `unpin()`, `save_picture(path)`, `save_data(path)`, `close()`; `wait()`
returns when the run has ended and raises its error again. `lab.values`, `.records`, `.record` (on show), `.error`,
`.playing`, `.finished`. With MOE_LAB_HEADLESS=1 it trains inside the cell, within a budget of seconds, and errors reach
the cell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from moe_lab.config import Config, Knob
from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.files import dataset_bytes, write_whole
from moe_lab_widgets.engine.wiring import Wiring

AnyConfig = TypeVar("AnyConfig", bound=Config)


@dataclass(frozen=True)
class Story:
    """A preset: knob values (the others take their defaults) and a sentence on what to see."""

    name: str
    values: Mapping[str, Any]
    what_to_see: str


def pick(config: type[Config], *names: str, **defaults: Any) -> tuple[Knob, ...]:
    """Knobs of a Config for a Lab: those named (and those given a default here), or all that have a slider.

    Raises:
      ValueError: the Config declares no such knob.
    """
    declared = config.knobs()
    unknown = [name for name in (*names, *defaults) if name not in declared]
    if unknown:
        raise ValueError(
            f"a picked knob must be one of {config.__name__}'s ({', '.join(declared)}): got {unknown[0]!r}"
        )
    chosen = names or [name for name, knob in declared.items() if knob.slider or knob.choices]
    return tuple(
        dataclasses.replace(declared[name], default=defaults.get(name, declared[name].default))
        for name in dict.fromkeys((*chosen, *defaults))
    )


def given(config: type[AnyConfig], values: Mapping[str, Any]) -> AnyConfig:
    """The Config made of those values that it declares."""
    declared = config.knobs()
    return config(**{name: value for name, value in values.items() if name in declared})


def model_axis(names: Sequence[str], sets: Sequence[xr.Dataset]) -> xr.Dataset:
    """Datasets of several models along a `model` axis, with the call that makes each."""
    models = xr.DataArray(list(names), dims="model", name="model")
    joined = xr.concat(sets, models, join="outer", combine_attrs="drop_conflicts")
    return joined.assign_attrs({f"call_{name}": one.attrs["call"] for name, one in zip(names, sets, strict=True)})


class Lab(Wiring):
    """See the module's text for how to make one.

    Args:
      playing: whether the run goes on by itself.
      projector: a picture half as large again, for a lecture hall.
      values: starting values of knobs, and `seed`.

    Raises:
      ValueError: a value names no knob.
    """

    # ---- what a Lab writes ----

    def start(self, values: dict[str, Any]) -> Iterator[Any]:
        """Checks the values and returns the run, an iterator of records."""
        raise NotImplementedError(f"{type(self).__name__} must write start(values)")

    def make_picture(self, values: dict[str, Any]) -> Any:
        """The Picture, made once."""
        raise NotImplementedError(f"{type(self).__name__} must write make_picture(values)")

    def caption(self, record: Any) -> str:
        """One sentence that says what the picture shows."""
        raise NotImplementedError(f"{type(self).__name__} must write caption(record)")

    def code(self, values: dict[str, Any]) -> str:
        """The exact Python that makes this run."""
        raise NotImplementedError(f"{type(self).__name__} must write code(values)")

    def parts(self, record: Any) -> dict[str, Snapshot]:
        """The Snapshots in a record, by model name."""
        return {"run": record} if isinstance(record, Snapshot) else {}

    def data(self, records: Sequence[Any]) -> xr.Dataset:
        """What "save data" writes: all values of all records, with a `model` axis where there are several parts."""
        names = list(self.parts(records[-1]))
        if not names:
            raise ValueError(f"{type(self).__name__} must write parts(record) or data(records) to save its data")
        sets = [collect(part for r in records if (part := self.parts(r).get(name)) is not None) for name in names]
        if len(sets) == 1:
            return sets[0]
        return xr.concat(
            sets, xr.DataArray(names, dims="model", name="model"), join="outer", combine_attrs="drop_conflicts"
        )

    def more(self, record: Any) -> Iterator[Any] | None:
        """Further records of a run that has ended with `record`, where a knob in `looks` asks for them; None for none.

        Called on the worker thread, as `start` is. A run that has not ended must read `self.values` itself.
        """
        return None

    def trouble(self, record: Any) -> str:
        """What went wrong in this record, in words; empty when nothing did."""
        for name, part in self.parts(record).items():
            if np.any(part.diverged):
                which = [str(i + 1) for i in np.flatnonzero(part.diverged)]
                trials = f"trial{'s' if len(which) > 1 else ''} {', '.join(which)}"
                whose = "" if name == "run" else f" of {name}"
                return f"The loss{whose} became infinite in {trials}: try a smaller learning rate."
        return ""

    def progress(self, record: Any) -> str:
        """The step, in words."""
        step = getattr(record, "step", None)
        step = max((part.step for part in self.parts(record).values()), default=None) if step is None else step
        return "" if step is None else f"step {step}"

    def device(self, record: Any) -> str:
        """The device that trains, in words."""
        names = [str(part.origin["device"]) for part in self.parts(record).values() if "device" in part.origin]
        return names[0] if names else "cpu"

    # ---- reading ----

    @property
    def records(self) -> list[Any]:
        """What the present run has recorded."""
        return self._runner.records.all()

    @property
    def error(self) -> Exception | None:
        """What stopped the present run."""
        return self._runner.error

    @property
    def playing(self) -> bool:
        return self._runner.playing

    @property
    def finished(self) -> bool:
        """Whether the present run came to its end."""
        return self._runner.finished

    # ---- doing ----

    def set(self, **values: Any) -> None:
        """Moves knobs (and the seed) together, and starts the run again.

        Raises:
          ValueError: there is no such knob, or its widget cannot take the value.
        """
        self._check_names(values)
        self._move(values)

    def play(self) -> None:
        """Lets the run go on (from the start, when it had ended)."""
        if self._runner.finished:
            self._runner.restart()
        self._set_playing(True)

    def pause(self) -> None:
        """Holds the run at its next record."""
        self._set_playing(False)

    def step(self) -> None:
        """Takes one record from the run and holds it."""
        self.controls.show_playing(False)
        self._runner.step()

    def reset(self) -> None:
        """Starts again at step 0 with the same values."""
        self._runner.restart()

    def scrub(self, index: int | None) -> None:
        """Shows the index-th record; None, or the last one, follows the run again."""
        last = len(self.records) - 1
        if index is not None:
            self._show_time(min(index, last), last)
        self._runner.scrub(None if index is None or index >= last else index)

    def pin(self) -> None:
        """Keeps the present curves in the picture, to compare with what comes."""
        self._pin(True)

    def unpin(self) -> None:
        """Takes the kept curves away."""
        self._pin(False)

    def save_picture(self, path: str | Path) -> Path:
        """Writes the picture with its caption as PNG, whole or not at all."""
        path = Path(path)
        return write_whole(path if path.suffix == ".png" else path.with_name(f"{path.name}.png"), self.png())

    def save_data(self, path: str | Path) -> Path:
        """Writes everything recorded, as netCDF (.nc) or JSON (.json), whole or not at all."""
        path = Path(path)
        path = path if path.suffix in (".nc", ".json") else path.with_name(path.name + ".nc")
        records = self.records
        if not records:
            raise ValueError("there is nothing to save yet: the run has recorded nothing")
        return write_whole(path, dataset_bytes(self.data(records), path.suffix))

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the run has ended, is held or has failed; raises a stored error again. False: time ran out."""
        return self._runner.wait(timeout)
