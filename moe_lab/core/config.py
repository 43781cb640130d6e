"""Configs: immutable sets of parameters, each with a symbol, bounds and a meaning, declared once with `knob`.

Sliders, CLI help, the glossary and error messages are generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, ValidationError

from moe_lab.core.errors import InputError
from moe_lab.core.knobs import ParameterSet, knob
from moe_lab.core.scalars import python_of
from moe_lab.core.sentences import MOST, brief, sentence, shown, symbols_in, together
from moe_lab.core.signatures import describe
from moe_lab.core.words import with_article

Precision = Literal["float32", "float64"]


class ConfigError(InputError):
    """A Config was given invalid values.

    The message has a sentence for each violated rule, with the values received. Where they would be longer than `MOST`
    characters together, it has the first ones and says how many more there are.

    Attributes:
      unknown: the first keyword that names no parameter; "" where there is none.
      known: the symbols of the parameters that there are.
    """

    unknown: str = ""
    known: Mapping[str, str] = {}


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


class Config(ParameterSet):
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
            super().__init__(**{name: python_of(value) for name, value in values.items()})
        except ValidationError as error:
            problems = error.errors()
            wrong = ConfigError(together(list(dict.fromkeys(sentence(type(self), problem) for problem in problems))))
            wrong.unknown = next((str(one["loc"][0]) for one in problems if one["type"] == "extra_forbidden"), "")
            wrong.known = symbols_in(type(self))
            raise wrong from None

    def __setattr__(self, name: str, value: Any) -> None:
        rule = f"{with_article(type(self).__name__)} is immutable; make a copy with .replace({brief(name)}=...)"
        raise ConfigError(f"{rule}: got {brief(name)}={shown(value, 100)}")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        describe(cls)

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
    def call_name(cls) -> str:
        return cls.function

    @property
    def numbers_per_step(self) -> float:
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
        """Returns the call of `function` that performs this run."""
        return f"{self.function}({', '.join([self.model.code(), self.task.code(), *self._settings()])})"

    def constructor_code(self) -> str:
        """Returns the Python expression that makes this RunConfig."""
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
        """Returns the run as plain values for files; `kind` names the class of its model, task and other parts."""
        plain = self.model_dump(mode="json", serialize_as_any=True)  # also what subclasses declare
        parts = {name: part for name in plain if isinstance(part := getattr(self, name), Config)}
        return plain | {name: {"kind": type(part).__name__, **plain[name]} for name, part in parts.items()}


def _code(value: Any) -> str:
    """Returns the value as Python code, a path as a string."""
    if isinstance(value, Config):
        return value.code()
    return repr(str(value) if isinstance(value, PurePath) else value)
