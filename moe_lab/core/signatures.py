"""Signatures and docstrings with the declared parameters, for `help` and for editors that complete.

What a parameter means, its symbol and its bounds are declared once, with `knob`, and which notebook explains a part of
the library, in the registry; nothing here is written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, TypeVar

from pydantic_core import PydanticUndefined

from moe_lab.core.knobs import Knob, ParameterSet, bounds_of
from moe_lab.registry import notebook_of

Function = TypeVar("Function", bound=Callable[..., Any])


def notebook_sentence(name: str) -> str:
    """Returns "See notebook 02, ..." for a part of the library that a notebook explains; "" for others."""
    notebook = notebook_of(name)
    return "" if notebook is None else f"See notebook {notebook.number}, {notebook.title}."


def with_notebook(thing: Function) -> Function:
    """Ends the docstring of a function or class with the notebook that explains it, if one does."""
    if thing.__doc__ and (sentence := notebook_sentence(f"{thing.__module__}.{thing.__qualname__}")):
        thing.__doc__ = f"{cleandoc(thing.__doc__).removesuffix(sentence).rstrip()}\n\n{sentence}"
    return thing


def parameter_line(config: type[ParameterSet], knob: Knob) -> str:
    """Returns a line on a parameter: "experts: k · experts (default 8; 1 to 1024)"."""
    about = [f"default {shown}"] if (shown := _default(knob.default)) else []
    about += [limits] if (limits := limits_of(config, knob)) else []
    label = knob.meaning if knob.symbol == knob.name else knob.label
    return f"{knob.name}: {label}" + (f" ({'; '.join(about)})" if about else "")


def limits_of(config: type[ParameterSet], knob: Knob) -> str:
    """Returns the allowed values of a knob: "2 to 1024", "more than 0", "one of digits, mnist"; "" for any."""
    if knob.choices:
        return "one of " + ", ".join(str(choice) for choice in knob.choices)
    if isinstance(knob.default, tuple):
        return "such as " + ", ".join(str(value) for value in knob.default)
    rules = bounds_of(config.model_fields[knob.name])
    if {"ge", "le"} <= set(rules):
        limits = [f"{_number(rules['ge'])} to {_number(rules['le'])}"]
    else:
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        limits = [f"{words[rule]} {_number(limit)}" for rule, limit in rules.items()]
    return " ".join([", ".join(limits), knob.unit]).strip()


def _number(limit: float) -> str:
    if limit >= 2**31 and math.log2(limit).is_integer():
        return f"2^{math.log2(limit):.0f}"
    return f"{limit:,.0f}" if 1e4 <= limit <= 1e9 else f"{limit:g}"


def describe(config: type[ParameterSet]) -> None:
    """Writes the parameters of a Config into its docstring and, with plain types, into its signature.

    The docstring ends with the notebook that explains it.
    """
    config.__signature__ = Signature(parameters_of(config))
    own, knobs = vars(config).get("__doc__"), config.knobs().values()
    if own and knobs:
        config.__doc__ = _with_list(own, "Parameters", config, knobs)
    if own:
        with_notebook(config)


def with_settings_of(run: type[ParameterSet]) -> Callable[[Function], Function]:
    """Adds the settings of a RunConfig to the signature and docstring of a function of (model, task, **settings).

    They are in its signature and docstring; the function itself stays as it is.
    """

    def described(function: Function) -> Function:
        usual = signature(function)
        own = [one for one in usual.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        settings = parameters_of(run, without=("model", "task"))
        setattr(function, "__signature__", usual.replace(parameters=[*own, *settings]))  # noqa: B010 - for mypy
        knobs = (knob for name, knob in run.knobs().items() if name not in ("model", "task"))
        function.__doc__ = _with_list(function.__doc__ or "", "Settings", run, knobs)
        return with_notebook(function)

    return described


def parameters_of(config: type[ParameterSet], without: Collection[str] = ()) -> list[Parameter]:
    """Returns the parameters of a Config as keyword-only parameters of a function, with their types and defaults."""
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.is_required() else field.default,
            annotation=field.annotation,
        )
        for name, field in config.model_fields.items()
        if name not in without
    ]


def _with_list(doc: str, title: str, config: type[ParameterSet], knobs: Iterable[Knob]) -> str:
    """A docstring with a further section at its end."""
    lines = "".join(f"      {parameter_line(config, knob)}\n" for knob in knobs)
    return f"{doc.rstrip()}\n\n    {title}:\n{lines}    "


def _default(value: Any) -> str:
    """A default as code; "" where there is none."""
    if value is ... or value is PydanticUndefined:
        return ""
    return str(value.code()) if hasattr(value, "code") else repr(value)
