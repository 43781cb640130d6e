"""Configs: immutable sets of parameters, each with a symbol, bounds and a meaning, declared once with `knob`.

Sliders, CLI help, the glossary and error messages are generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from moe_lab.core.errors import InputError
from moe_lab.core.sentences import MOST, brief, sentence, shown, titled, together
from moe_lab.core.signatures import bounds_of, describe
from moe_lab.core.words import a

Precision = Literal["float32", "float64"]


class ConfigError(InputError):
    """A Config was given invalid values.

    The message has a sentence for each violated rule, with the values received. Where they would be longer than `MOST`
    characters together, it has the first ones and says how many more there are.
    """


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


def require(holds: bool, rule: str, **received: Any) -> None:
    """Raises a ValueError with the rule and the values received, cut to `MOST`, unless the condition holds."""
    if not holds:
        said = ""
        for most in (200, 100, 40):
            values = ", ".join(f"{name}={shown(value, most)}" for name, value in received.items())
            said = f"{rule}: got {values}"
            if len(said) <= MOST:
                break
        raise InputError(said)


def symbols_of(names: Iterable[str], package: str) -> dict[str, str]:
    """Returns for each name the symbol that it has as a knob of a Config in a package; "" where it has none."""
    symbols = {name: "" for name in names}
    kinds: list[type[Config]] = [Config]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith(f"{package}."):
            symbols |= {name: knob.symbol for name, knob in kind.knobs().items() if name in symbols and knob.symbol}
    return symbols


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


class Config(BaseModel):
    """An immutable set of declared parameters, validated on construction.

    Attributes:
      template: set by a class from which others are made; no list or glossary has it.

    Raises:
      ConfigError: a value is out of bounds, a name is unknown, or a cross-check fails.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    template: ClassVar[bool] = False

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            sentences = dict.fromkeys(sentence(type(self), problem) for problem in error.errors())
            raise ConfigError(together(list(sentences))) from None

    def __setattr__(self, name: str, value: Any) -> None:
        rule = f"{a(type(self).__name__)} is immutable; make a copy with .replace({brief(name)}=...)"
        raise ConfigError(f"{rule}: got {brief(name)}={shown(value, 100)}")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        describe(cls)

    @classmethod
    def knobs(cls) -> dict[str, Knob]:
        """Returns the declared parameters by name, in the order of declaration."""
        return {name: _knob_of(name, field) for name, field in cls.model_fields.items() if _about(field) is not None}

    @classmethod
    def called(cls) -> str:
        """The name of what a user calls to give these values."""
        return cls.__name__

    @classmethod
    def is_template(cls) -> bool:
        """Whether this very class, not one of its bases, is only there to be derived from."""
        return bool(vars(cls).get("template", False))

    def replace(self, /, **changes: Any) -> Self:
        """Returns a copy with some values changed, validated like a new Config."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    def code(self) -> str:
        """Returns a Python expression for this Config, with the parameters that differ from their defaults."""
        arguments = (
            f"{name}={_code(value)}"
            for name, field in type(self).model_fields.items()
            if (value := getattr(self, name)) != field.default
        )
        return f"{type(self).__name__}({', '.join(arguments)})"


class RunConfig(Config):
    """Everything that a room's `train` needs to know: a model, a task, and settings, to which each room adds its own.

    Attributes:
      function: the name of the function that performs the run.
      operations: functions of torch that not every MPS device has; without them a run goes to the CPU.
    """

    model: Config
    task: Config
    trials: int = knob(5, meaning="independent trials", ge=1, le=10**6, slider=(1, 20, 1))
    first_trial: int = knob(0, meaning="number of the first trial", ge=0, le=2**31)
    seed: int = knob(0, symbol="seed", meaning="seed of all random streams", ge=0, le=2**63, slider=(0, 99, 1))
    record_every: int = knob(10, meaning="steps from one Snapshot to the next", ge=1, le=10**9)
    device: str = knob("auto", meaning="where to compute: auto, cpu, cuda, cuda:N or mps")
    precision: Precision = knob("float32", meaning="float32 or float64")

    function: ClassVar[str] = "train"
    operations: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def called(cls) -> str:
        return cls.function

    @property
    def numbers(self) -> float:
        """Numbers that a step of all trials reads and computes: device="auto" is a GPU where they are many."""
        return 0.0

    @property
    def number_bytes(self) -> int:
        """Bytes of a number."""
        return {"float32": 4, "float64": 8}[self.precision]

    @property
    def trial_numbers(self) -> list[int]:
        """The numbers of the trials, which name their random streams."""
        return list(range(self.first_trial, self.first_trial + self.trials))

    def code(self) -> str:
        """The call of `function` that performs this run."""
        return f"{self.function}({', '.join([self.model.code(), self.task.code(), *self._settings()])})"

    def constructor_code(self) -> str:
        """The Python expression that makes this RunConfig."""
        given = [f"model={self.model.code()}", f"task={self.task.code()}", *self._settings()]
        return f"{type(self).__name__}({', '.join(given)})"

    def _settings(self) -> list[str]:
        """Code of the settings that differ from the defaults: the room's own first."""
        shared, fields = RunConfig.model_fields, type(self).model_fields
        names = [*(name for name in fields if name not in shared), *shared]
        return [
            f"{name}={_code(getattr(self, name))}"
            for name in names
            if name not in ("model", "task") and getattr(self, name) != fields[name].default
        ]

    def record(self) -> dict[str, Any]:
        """The run as plain values for files; `kind` names the class of its model, of its task and of any other part."""
        plain = self.model_dump(mode="json", serialize_as_any=True)  # also what subclasses declare
        parts = {name: part for name in plain if isinstance(part := getattr(self, name), Config)}
        return plain | {name: {"kind": type(part).__name__, **plain[name]} for name, part in parts.items()}


def _code(value: Any) -> str:
    """Returns the value as Python code, a path as a string."""
    if isinstance(value, Config):
        return value.code()
    return repr(str(value) if isinstance(value, PurePath) else value)
