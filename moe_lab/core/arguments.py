"""Checks the arguments of public functions against their type hints, so that a wrong one is refused in a sentence."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from moe_lab.core.config import Config, ConfigError, symbols_of
from moe_lab.core.errors import InputError
from moe_lab.core.sentences import WORDS, class_given, no_parameter, shown
from moe_lab.core.signatures import with_notebook
from moe_lab.core.words import with_article

Function = TypeVar("Function", bound=Callable[..., Any])


def checked(function: Function) -> Function:
    """Makes a function refuse arguments that do not fit its type hints before it does anything.

    The function gets what it was given, unchanged. Bounds are its own business, as are keywords that it hands on. Its
    docstring ends with the notebook that explains it, if one does.

    Raises:
      ValueError: (when it is called) an argument is of a wrong type, or a keyword names no parameter.
    """
    signature = inspect.signature(function)
    kinds = {part.kind for part in signature.parameters.values()}
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [
        name for name, part in signature.parameters.items() if part.kind not in several and name not in ("self", "cls")
    ]

    @functools.cache  # made at the first call: most functions are never called
    def model() -> type[BaseModel]:
        hints = get_type_hints(function, localns=_Modules(function.__globals__))
        fields: dict[str, Any] = {f"of_{name}": (hints.get(name, Any), None) for name in named}
        how = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
        return create_model(function.__name__, __config__=how, **fields)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        unknown = [] if inspect.Parameter.VAR_KEYWORD in kinds else [name for name in kwargs if name not in named]
        if unknown:
            symbols = symbols_of(named, function.__module__.rpartition(".")[0])
            raise InputError(no_parameter(function.__name__, unknown[0], symbols))
        values = signature.bind_partial(*args, **kwargs).arguments
        _check(model(), {f"of_{name}": value for name, value in values.items() if name in named})
        signature.bind(*args, **kwargs)  # a required argument may be missing
        try:
            return function(*args, **kwargs)
        except ConfigError as error:
            if error.unknown not in kwargs:
                raise
            # A keyword handed on: it was given to this function, so that its own parameters may be meant too.
            own = symbols_of(named, function.__module__.rpartition(".")[0])
            wrong = ConfigError(no_parameter(function.__name__, error.unknown, {**own, **error.known}))
            wrong.unknown, wrong.known = error.unknown, {**own, **error.known}
            raise wrong from None

    return with_notebook(cast(Function, call))


class _Modules(dict[str, Any]):
    """Modules by their names, for hints such as xarray.Dataset where xarray is imported for type checkers alone."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, name: str) -> Any:
        if name in self._known or importlib.util.find_spec(name) is None:
            raise KeyError(name)
        return importlib.import_module(name)


def _converted(value: Any, fitting: Any) -> bool:
    """Whether pydantic converted an argument: a mapping to a Config, or a value to a number or text."""
    if isinstance(fitting, Config) or isinstance(value, bytes):
        return not isinstance(value, Config)
    return isinstance(value, str) and isinstance(fitting, int | float)


def _check(model: type[BaseModel], values: Mapping[str, Any]) -> None:
    """Raises a ValueError for the first value that does not fit."""
    plain = {field: value.tolist() if hasattr(value, "tolist") else value for field, value in values.items()}  # arrays
    try:
        fitting = model.model_validate(plain)
    except ValidationError as error:
        wrong = str(error.errors(include_url=False)[0]["loc"][0])
    else:
        wrong = next((field for field, value in values.items() if _converted(value, getattr(fitting, field))), "")
    if wrong:
        name, hint = wrong.removeprefix("of_"), model.model_fields[wrong].annotation
        rule = class_given(values[wrong], hint) or f"must be {_wanted(hint)}"
        raise InputError(f"{name} {rule}: got {name}={shown(values[wrong])}")


_KINDS = {**WORDS, NoneType: ("None", "None"), Any: ("anything", "anything")}


def _wanted(hint: Any, plural: bool = False) -> str:
    """Returns a type hint in words."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(_wanted(part, plural) for part in parts))
    if kind is Literal:
        return f"one of {', '.join(map(repr, parts))}"
    if hint in _KINDS:
        return _KINDS[hint][plural]
    if kind is Callable:
        return "functions" if plural else "a function"
    name = getattr(kind, "__name__", str(kind))
    if issubclass(kind, Mapping) and (parts or kind is Mapping):  # a Dataset is a mapping too
        words = "mappings" if plural else "a mapping"
        return f"{words} to {_wanted(parts[1], True)}" if parts else words
    if kind is Iterable or issubclass(kind, Sequence):
        words = "sequences" if plural else "a sequence"
        return f"{words} of {_wanted(parts[0], True)}" if parts else words
    return f"{name}s" if plural else with_article(name)
