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
        if hasattr(importlib.import_module(".".join(parts)), run.function):
            return ".".join(parts), run.function
        parts.pop()
    raise TypeError(f"no package exports {run.function} for {type(run).__name__}")


def code_of(runs: Mapping[str, RunConfig], measures: Mapping[str, str]) -> str:
    """Returns Python that runs as it is pasted and computes the numbers of the Lab.

    Args:
      runs: on one task, with the same settings; each name becomes a variable, or a key where it cannot be one.
      measures: what is printed of each run, by the word before it; the first one of variables is drawn.
    """
    if not all(map(str.isidentifier, runs)):
        return _code_of_table(runs, measures)
    first: Any = next(iter(runs.values()))
    module, function = home(first)
    made = sorted({type(part).__name__ for run in runs.values() for part in (run.model, run.task)})
    width = max(map(len, runs))
    lines = [
        f"from {module} import {', '.join([*made, function])}",
        "from moe_lab.plots import curves",
        "from moe_lab.training import collect",
        "",
        f"task = {first.task.code()}",
        f"settings = dict({arguments(settings_of(first))})",
        *(f"{name} = collect({function}({run.model.code()}, task, **settings))" for name, run in runs.items()),
        f"runs = dict({', '.join(f'{name}={name}' for name in runs)})",
        f"{', '.join(runs)}{',' * (len(runs) == 1)} = (run.isel(step=-1) for run in runs.values())",
    ]
    for name in runs:
        said = ", ".join(f'{f"{word!r}, " if word else ""}{name}["{one}"].values' for one, word in measures.items())
        lines.append(f'print("{name:{width}}", {said})')
    return "\n".join([*lines, f'curves(runs, "{next(iter(measures))}")'])


def _code_of_table(runs: Mapping[str, RunConfig], measures: Mapping[str, str]) -> str:
    """Returns code that keeps the last Snapshot of every run by its name."""
    first: Any = next(iter(runs.values()))
    module, function = home(first)
    made = sorted({type(part).__name__ for run in runs.values() for part in (run.model, run.task)})
    said = ", ".join(f'"{word}", snapshot["{one}"]' if word else f'snapshot["{one}"]' for one, word in measures.items())
    lines = [
        f"from {module} import {', '.join([*made, function])}",
        "from moe_lab.training import final",
        "",
        f"task = {first.task.code()}",
        f"settings = dict({arguments(settings_of(first))})",
        "models = {",
        *(f"    {name!r}: {run.model.code()}," for name, run in runs.items()),
        "}",
        f"last = {{name: final({function}(model, task, **settings)) for name, model in models.items()}}",
        "for name, snapshot in last.items():",
        f'    print(f"{{name:{max(map(len, runs))}}}", {said})',
    ]
    return "\n".join(lines)


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
