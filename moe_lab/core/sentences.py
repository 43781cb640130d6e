"""Sentences for wrong values: the rule, and the value received."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from moe_lab.core.knobs import ParameterSet, titled

MOST = 300
"""Characters that a message should have."""


_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxother = 160, 60
_SHORT.maxlist = _SHORT.maxtuple = 12


def shown(value: Any, most: int = 200) -> str:
    """Returns a value as messages quote it: on one line, a long one cut, its type where its repr raises."""
    return brief(" ".join(_SHORT.repr(value).split()), most)


def brief(text: str, most: int = 60) -> str:
    """Returns text on one line, the middle of a long one left out."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return line if len(line) <= most else f"{line[: most // 2]}...{line[3 - most // 2 :]}"


def no_parameter(owner: str, name: str, known: Mapping[str, str]) -> str:
    """Returns the sentence for a keyword that names no parameter.

    Where it is the symbol of one or nearly its name, the sentence asks whether that one was meant. Else it lists those
    that there are; of very many, those in the middle are left out.

    Args:
      owner: what was called.
      known: the symbol of each parameter, "" where it has none.
    """
    start = f"{owner} has no parameter {shown(name, 60)}: "
    meant = [one for one, symbol in known.items() if symbol == name] or difflib.get_close_matches(name, known, 1, 0.8)
    if meant:
        return f"{start}did you mean {' or '.join(titled(one, known[one]) for one in meant)}?"
    start += "it takes "
    return start + brief(", ".join(known), MOST - len(start))


def symbols_in(cls: type[ParameterSet]) -> dict[str, str]:
    """Returns the symbol of each parameter of a Config; "" where it has none."""
    knobs = cls.knobs()
    return {name: knobs[name].symbol if name in knobs else "" for name in cls.model_fields}


def not_measured(name: object, known: Sequence[str]) -> str:
    """Returns the sentence for a name that is not among those of measured values, with the nearest or all of these."""
    start = f"{shown(name, 60)} is not measured: "
    meant = difflib.get_close_matches(str(name), known, 1, 0.7)
    if meant:
        return f"{start}did you mean {meant[0]}?"
    start += "measured are "
    return start + brief(", ".join(known), MOST - len(start))


WORDS: Mapping[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    bool: ("True or False", "True or False"),
    Path: ("a path", "paths"),
}
"""Singular and plural of what types are called in messages."""
_SEQUENCE = ("a sequence of values", "sequences")
# Singular and plural of the type that a pydantic error asks for:
_TYPES = {
    "int_from_float": WORDS[int],
    "int_parsing": WORDS[int],
    "int_parsing_size": WORDS[int],
    "int_type": WORDS[int],
    "float_parsing": WORDS[float],
    "float_type": WORDS[float],
    "string_type": WORDS[str],
    "bool_type": WORDS[bool],
    "bool_parsing": WORDS[bool],
    "tuple_type": _SEQUENCE,
    "list_type": _SEQUENCE,
    "path_type": WORDS[Path],
    "string_unicode": ("text that can be written as Unicode", "texts that can be written as Unicode"),
}
_NOT_STRING = {bool: "bool_type", int: "int_type", float: "float_type"}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def together(sentences: Sequence[str]) -> str:
    """Returns the sentences as a message of at most `MOST` characters: the first that fit, and how many are left."""
    kept = len(sentences)
    while kept > 1 and len("; ".join(sentences[:kept]) + _more(len(sentences) - kept)) > MOST:
        kept -= 1
    more = _more(len(sentences) - kept)
    return brief("; ".join(sentences[:kept]), MOST - len(more)) + more


def _more(left: int) -> str:
    return f"; and {left} more" if left else ""


def sentence(cls: type[ParameterSet], problem: ErrorDetails) -> str:
    """Returns one sentence for a pydantic error: the rule and the value received."""
    kind, context = problem["type"], problem.get("ctx") or {}
    if kind == "value_error":
        return str(context.get("error", problem["msg"]))
    name = str(problem["loc"][0]) if problem["loc"] else cls.__name__
    knobs = cls.knobs()
    if kind == "extra_forbidden":
        return no_parameter(cls.call_name(), name, symbols_in(cls))
    declared = knobs.get(name)
    title, symbol = (declared.title, declared.symbol or name) if declared else (name, name)
    annotation = cls.model_fields[name].annotation if name in cls.model_fields else None
    if kind == "missing" and not _is_fixed_tuple(annotation):
        return f"{cls.__name__} needs {title}"
    return f"{title} {_rule(problem, annotation)}: got {symbol}={shown(problem['input'])}"


def _rule(problem: ErrorDetails, annotation: Any) -> str:
    """Returns the rule that a value with this annotation violates, such as "must be at least 1"."""
    kind, value, context = problem["type"], problem["input"], problem.get("ctx") or {}
    if kind == "string_unicode":  # pydantic reports the encoding even if the parameter is not a string
        types = (annotation, *get_args(annotation))
        kind = next((_NOT_STRING[accepted] for accepted in types if accepted in _NOT_STRING), kind)
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"must be {words} {context[key]:g}"
    if kind == "finite_number" or (isinstance(value, float) and not math.isfinite(value)):
        return "must be a finite number"
    if kind in _TYPES:
        singular, plural = _TYPES[kind]
        return f"must be {singular}" if len(problem["loc"]) == 1 else f"must hold {plural} only"
    if kind in ("literal_error", "enum"):
        return f"must be one of {context['expected']}"
    if kind in ("model_type", "model_attributes_type"):
        return class_given(value, annotation) or f"must be {_names(annotation)}"
    if kind in ("missing", "too_long") and _is_fixed_tuple(annotation):
        return f"must hold {len(get_args(annotation))} values"
    return f"is not valid ({problem['msg']})"


def _names(annotation: Any) -> str:
    return " or ".join(accepted.__name__ for accepted in get_args(annotation) or (annotation,))


def class_given(value: Any, annotation: Any) -> str:
    """Returns the rule for a class in the place of its instance, as JointMoE for JointMoE(); "" for other values."""
    accepted = tuple(kind for kind in get_args(annotation) or (annotation,) if isinstance(kind, type))
    if isinstance(value, type) and issubclass(value, BaseModel) and issubclass(value, accepted):
        return f"must be an instance, {value.__name__}(), not the class"
    return ""


def _is_fixed_tuple(annotation: Any) -> bool:
    return get_origin(annotation) is tuple and Ellipsis not in get_args(annotation)
