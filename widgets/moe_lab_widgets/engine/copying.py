"""How a run of a Config is begun, and the code that makes it without a Lab."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moe_lab.config import RunConfig
from moe_lab.devices import AUTO
from moe_lab.training import Snapshot
from moe_lab_widgets.engine.knobs import arguments


def started(run: RunConfig) -> Iterator[Snapshot]:
    """Begins a run, by the function of its room."""
    module, function = home(run)
    begun: Iterator[Snapshot] = getattr(importlib.import_module(module), f"{function}_run")(run)
    return begun


def home(run: RunConfig) -> tuple[str, str]:
    """Returns the first package above a Config that exports the function that performs it, and the function."""
    parts = type(run).__module__.split(".")[:-1]
    while len(parts) > 1:
        if hasattr(importlib.import_module(".".join(parts)), f"{run.function}_run"):
            return ".".join(parts), run.function
        parts.pop()
    raise TypeError(f"no package exports {run.function}_run for {type(run).__name__}")


Measures = Mapping[str, str] | Callable[[RunConfig], Mapping[str, str]]


def code_of(runs: Mapping[str, RunConfig], measures: Measures) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab.

    Args:
      runs: on one task; each name becomes a variable.
      measures: what is printed of each run, by the word before it, or a function that returns it for a run; the first
        one is drawn.
    """
    runs = {name.replace(" ", "_"): run for name, run in runs.items()}
    first: Any = next(iter(runs.values()))
    of = measures if callable(measures) else lambda run: measures
    module, function = home(first)
    made = sorted({type(part).__name__ for run in runs.values() for part in (run.model, run.task)})
    each = [settings_of(run).items() for run in runs.values()]
    shared = dict(item for item in each[0] if all(item in items for items in each))
    width = max(map(len, runs))
    lines = [
        f"from {module} import {', '.join([*made, function])}",
        "from moe_lab.plots import curves",
        "from moe_lab.training import collect",
        "",
        f"task = {first.task.code()}",
        f"settings = dict({arguments(shared)})",
        *(
            f"{name} = collect({function}({', '.join((run.model.code(), 'task', '**settings', *_more(run, shared)))}))"
            for name, run in runs.items()
        ),
        f"runs = dict({', '.join(f'{name}={name}' for name in runs)})",
        f"{', '.join(runs)}{',' * (len(runs) == 1)} = (run.isel(step=-1) for run in runs.values())",
    ]
    for name, run in runs.items():
        said = ", ".join(f'{f"{word!r}, " if word else ""}{name}["{one}"].values' for one, word in of(run).items())
        lines.append(f'print("{name:{width}}", {said})')
    return "\n".join([*lines, f'curves(runs, "{next(iter(of(first)))}")'])


def _more(run: RunConfig, shared: Mapping[str, Any]) -> list[str]:
    """Returns the settings of a run that it does not share with others, as arguments."""
    more = {name: value for name, value in settings_of(run).items() if name not in shared}
    return [arguments(more)] if more else []


def settings_of(run: RunConfig) -> dict[str, Any]:
    """Returns the settings of a run, besides model and task, that differ from the defaults."""
    fields = {name: field for name, field in type(run).model_fields.items() if name not in ("model", "task")}
    given = {name: getattr(run, name) for name in fields}
    return {name: one for name, one in given.items() if one != fields[name].default and (name, one) != ("device", AUTO)}


def own_code(train: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Returns the call of a function of one's own."""
    name = train.__name__
    here = train.__module__ == "__main__"
    begin = f"# {name} is the function in your notebook" if here else f"from {train.__module__} import {name}"
    return f"{begin}\nrecords = list({name}({arguments(given)}))\nprint(records[-1])"
