"""A parameter's symbol, bounds and meaning, declared once.

Sliders, CLI help, the glossary and every error sentence read the declarations made here with `knob`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails


class ConfigError(ValueError):
    """A Config was given values that break a rule. The message is a sentence a rule, with the values received."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One declared parameter, with what is needed to draw its slider and to explain a wrong value.

    Attributes:
      low, high: bounds that a value must keep.
      slider: (low, high, step) of the range to offer live, usually narrower than the bounds.
      choices: the allowed values, where they are few.
    """

    name: str
    meaning: str
    default: Any
    symbol: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    slider: tuple[float, float, float] | None = None
    choices: tuple[Any, ...] | None = None

    @property
    def label(self) -> str:
        """The label of a slider: symbol and meaning, as in "l, patches each expert keeps"."""
        return f"{self.symbol}, {self.meaning}" if self.symbol else self.meaning

    @property
    def title(self) -> str:
        """The name in error messages, as in "patches_per_expert (l)"."""
        return f"{self.name} ({self.symbol})" if self.symbol not in ("", self.name) else self.name

    @property
    def whole(self) -> bool:
        return isinstance(self.default, int) and not isinstance(self.default, bool)


def knob(
    default: Any,
    *,
    symbol: str = "",
    meaning: str,
    ge: float | None = None,
    le: float | None = None,
    gt: float | None = None,
    lt: float | None = None,
    unit: str = "",
    slider: tuple[float, float, float] | None = None,
    choices: tuple[Any, ...] | None = None,
) -> Any:
    """Declares a parameter of a `Config`.

    Args:
      default: its value when none is given.
      symbol: the paper's symbol, as "l".
      meaning: a few words that follow the symbol on a slider.
      ge, le, gt, lt: bounds (>=, <=, >, <).
      unit: what it is measured in; empty for counts and ratios.
      slider: (low, high, step) to offer live, inside the bounds.
      choices: the allowed values, where they are few.
    """
    about: dict[str, Any] = {"symbol": symbol, "unit": unit, "slider": slider, "choices": choices}
    return Field(default, description=meaning, ge=ge, le=le, gt=gt, lt=lt, json_schema_extra={"knob": about})


def require(holds: bool, rule: str, **received: Any) -> None:
    """Raises a ValueError that states the rule and the values received, unless the rule holds."""
    if not holds:
        values = ", ".join(f"{name}={value!r}" for name, value in received.items())
        raise ValueError(f"{rule}: got {values}")


class Config(BaseModel):
    """An immutable set of declared parameters, checked when it is made.

    Raises:
      ConfigError: a value breaks its bounds, a name is unknown, or a cross-check fails.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            sentences = dict.fromkeys(_sentence(type(self), problem) for problem in error.errors())
            raise ConfigError("; ".join(sentences)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        raise ConfigError(f"a {kind} cannot be changed, make another with .replace({name}=...): got {name}={value!r}")

    @classmethod
    def knobs(cls) -> dict[str, Knob]:
        """The declared parameters by name, in the order of declaration."""
        return {name: _knob_of(name, field) for name, field in cls.model_fields.items() if _about(field) is not None}

    def replace(self, **changes: Any) -> Self:
        """A copy with some values changed, checked like a new one."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    def code(self) -> str:
        """The Python expression that makes this Config, naming only what differs from the defaults."""
        given = (
            f"{name}={_code(value)}"
            for name, field in type(self).model_fields.items()
            if (value := getattr(self, name)) != field.default
        )
        return f"{type(self).__name__}({', '.join(given)})"


class RunConfig(Config):
    """Everything that a room's `train` needs to know: a model, a task, and settings, which each room declares."""

    model: Config
    task: Config

    def code(self) -> str:
        """The call of `train` that makes this run."""
        given = [
            f"{name}={_code(getattr(self, name))}"
            for name, field in type(self).model_fields.items()
            if name not in ("model", "task") and getattr(self, name) != field.default
        ]
        return f"train({', '.join([self.model.code(), self.task.code(), *given])})"

    def record(self) -> dict[str, Any]:
        """The run as plain values for files; `kind` names the class of its model, of its task and of any other part."""
        plain = self.model_dump(mode="json")
        parts = {name: part for name in plain if isinstance(part := getattr(self, name), Config)}
        return plain | {name: {"kind": type(part).__name__, **plain[name]} for name, part in parts.items()}


def _code(value: Any) -> str:
    """The value as a reader would type it: a path as text."""
    if isinstance(value, Config):
        return value.code()
    return repr(str(value) if isinstance(value, PurePath) else value)


def _about(field: Any) -> Mapping[str, Any] | None:
    extra = field.json_schema_extra
    return extra.get("knob") if isinstance(extra, Mapping) else None


def _knob_of(name: str, field: Any) -> Knob:
    about = _about(field) or {}
    bounds: dict[str, float] = {}
    for constraint in field.metadata:
        for key in ("ge", "gt", "le", "lt"):
            if getattr(constraint, key, None) is not None:
                bounds[key] = getattr(constraint, key)
    return Knob(
        name=name,
        symbol=about.get("symbol", ""),
        meaning=field.description or "",
        default=field.default,
        low=bounds.get("ge", bounds.get("gt")),
        high=bounds.get("le", bounds.get("lt")),
        unit=about.get("unit", ""),
        slider=about.get("slider"),
        choices=about.get("choices"),
    )


_WHOLE, _NUMBER = ("a whole number", "whole numbers"), ("a number", "numbers")
_TRUTH, _SEQUENCE = ("True or False", "True or False"), ("a sequence of values", "sequences")
_KINDS = {
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_type": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "string_type": ("text", "texts"),
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "tuple_type": _SEQUENCE,
    "list_type": _SEQUENCE,
    "path_type": ("a path", "paths"),
    "string_unicode": ("text that can be written as Unicode", "texts that can be written as Unicode"),
}
_NO_TEXT = {bool: "bool_type", int: "int_type", float: "float_type"}
_RULES = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def _sentence(cls: type[Config], problem: ErrorDetails) -> str:
    """One clear sentence for one pydantic problem: the rule and the value received."""
    kind, context = problem["type"], problem.get("ctx") or {}
    if kind == "value_error":
        return str(context.get("error", problem["msg"]))
    name = str(problem["loc"][0]) if problem["loc"] else cls.__name__
    knobs = cls.knobs()
    if kind == "extra_forbidden":
        return f"{cls.__name__} has no parameter {name!r}: it takes {', '.join(cls.model_fields)}"
    title = knobs[name].title if name in knobs else name
    short = knobs[name].symbol if name in knobs and knobs[name].symbol else name
    value = problem["input"]
    annotation = cls.model_fields[name].annotation if name in cls.model_fields else None
    if kind == "string_unicode":  # pydantic reads text before it asks whether text is wanted
        kind = next((_NO_TEXT[one] for one in (annotation, *get_args(annotation)) if one in _NO_TEXT), kind)
    if kind in _RULES:
        words, key = _RULES[kind]
        rule = f"must be {words} {context[key]:g}"
    elif kind == "finite_number" or (isinstance(value, float) and not math.isfinite(value)):
        rule = "must be a finite number"
    elif kind in _KINDS:
        one, many = _KINDS[kind]
        rule = f"must be {one}" if len(problem["loc"]) == 1 else f"must hold {many} only"
    elif kind in ("literal_error", "enum"):
        rule = f"must be one of {context['expected']}"
    elif kind in ("model_type", "model_attributes_type"):
        rule = "must be " + " or ".join(kind.__name__ for kind in get_args(annotation) or (annotation,) if kind)
    elif kind in ("missing", "too_long") and get_origin(annotation) is tuple and Ellipsis not in get_args(annotation):
        rule = f"must hold {len(get_args(annotation))} values"  # pydantic counts the places that are missing
    elif kind == "missing":
        return f"{cls.__name__} needs {title}"
    else:
        rule = f"is not valid ({problem['msg']})"
    return f"{title} {rule}: got {short}={value!r}"
