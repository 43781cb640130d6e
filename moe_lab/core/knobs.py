"""Parameters with a symbol, bounds and a meaning: what a slider, a table of symbols and an error read of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from moe_lab.core.scalars import python_of

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


def titled(name: str, symbol: str) -> str:
    """Returns a parameter's name with its symbol, as in "patches_per_expert (l)"."""
    return f"{name} ({symbol})" if symbol not in ("", name) else name


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

    def __post_init__(self) -> None:
        for name in ("default", "low", "high", "slider", "choices"):
            object.__setattr__(self, name, python_of(getattr(self, name)))

    @property
    def label(self) -> str:
        """The label of a slider: symbol and meaning, as in "l · patches each expert keeps"."""
        return f"{self.symbol} · {self.meaning}" if self.symbol else self.meaning

    @property
    def title(self) -> str:
        """The name in error messages, as in "patches_per_expert (l)"."""
        return titled(self.name, self.symbol)

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
      default: the default value.
      symbol: the paper's symbol, such as "l".
      meaning: a few words, shown after the symbol on a slider.
      ge, le, gt, lt: bounds (>=, <=, >, <).
      unit: the unit of measurement; empty for counts and ratios.
      slider: (low, high, step) of its slider, within the bounds.
      choices: the allowed values, if they can be listed.
    """
    about: dict[str, Any] = {"symbol": symbol, "unit": unit, "slider": slider, "choices": choices}
    return Field(default, description=meaning, ge=ge, le=le, gt=gt, lt=lt, json_schema_extra={"knob": about})


def bounds_of(field: Any) -> dict[str, float]:
    """Returns the declared bounds of a field: "ge" (at least), "gt" (more than), "le" (at most), "lt" (less than)."""
    return {
        rule: limit
        for constraint in field.metadata
        for rule in ("ge", "gt", "le", "lt")
        if (limit := getattr(constraint, rule, None)) is not None
    }


def _about(field: Any) -> Mapping[str, Any] | None:
    extra = field.json_schema_extra
    return extra.get("knob") if isinstance(extra, Mapping) else None


def _knob_of(name: str, field: Any) -> Knob:
    about, bounds = _about(field) or {}, bounds_of(field)
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


_FOR_THE_LIBRARY = frozenset({*dir(BaseModel), "call_name", "is_template"})
"""What every model has from pydantic, and what the library alone asks of its own."""


class _ShortHelp(ModelMetaclass):
    """Leaves out of `help` and of completion what is of no use to users. It can be used all the same."""

    def __dir__(self) -> list[str]:
        known = _FOR_THE_LIBRARY | self.__dict__.get("__class_vars__", set())
        return [name for name in super().__dir__() if name not in known and not name.startswith("__")]


class ParameterSet(BaseModel, metaclass=_ShortHelp):
    """A set of parameters, some of them declared with `knob`. See `Config`, which adds what happens to wrong values."""

    @classmethod
    def knobs(cls) -> dict[str, Knob]:
        """Returns the declared parameters by name, in the order of declaration."""
        return {name: _knob_of(name, field) for name, field in cls.model_fields.items() if _about(field) is not None}

    @classmethod
    def call_name(cls) -> str:
        """Returns the name of the function or class that a user calls with these values."""
        return cls.__name__
