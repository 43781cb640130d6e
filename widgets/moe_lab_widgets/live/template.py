"""Makes one document for all values of some knobs out of recordings at a few of them.

Two recordings differ in numbers alone: sizes, strides, offsets, and factors of operations. How each depends on the
knobs is found from recordings in which one knob moves at a time, and checked on recordings in which all have moved: the
checks must hold, or the Lab is refused.

A number is a sum of terms; a term is a factor times powers of knobs and of their logarithms. What is found knob by knob
is put together as a product, as a sum, as a product of sums or the other way round, or as a constant and a product.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from moe_lab_widgets.live.operations import NotRecordedError, number_in_json

Powers = tuple[tuple[str, float], ...]
"""A knob and its power, for each knob of a term; "log knob" for its logarithm."""
Terms = dict[Powers, float]
"""Factors of a sum's terms."""
Record = Callable[[Mapping[str, Any]], Any]
Together = Callable[[Sequence[Terms], float], Terms | None]
"""Returns the terms of several parts, and of a number's value at first; None where there are none."""

POWERS = (1.0, -1.0, 2.0, -0.5, 0.5, 3.0, -2.0)
PAIRS = ((0, 1), (0, -1), (-1, -1))
"""What is added to a knob in both factors of a product, as in numbers of pairs: v (v + 1), v (v - 1), (v - 1)^2."""
CLOSE = 1e-9


@dataclass(frozen=True)
class Fitted:
    """A knob whose value is a number, and the values at which it is recorded.

    Attributes:
      values: where all knobs are at first, where it goes alone, and another one for the checks.
      size: whether it may be a size, so that operations depend on it.
    """

    name: str
    values: tuple[float, float, float]
    size: bool = True

    @property
    def base(self) -> float:
        return self.values[0]


def template(record: Record, knobs: Sequence[Fitted], fixed: Mapping[str, Any]) -> Any:
    """Returns a document in which a number that depends on knobs is a formula: {"formula": [[factor, powers], ...]}.

    Args:
      record: records a document for the values of all knobs.
      fixed: the values of all others.

    Raises:
      NotRecordedError: operations depend on a knob, or a number does in no way that is known.
    """
    start = {**fixed, **{one.name: one.base for one in knobs}}
    names, documents = ["first"], [record(start)]
    others = {knob.name: knob.values[1] for knob in knobs if not knob.size or any(value % 1 for value in knob.values)}
    still = others if documents[0] == record({**start, **others}) else {}  # what is no size seldom matters
    for knob in knobs:
        names.append(f"{knob.name} = {knob.values[1]}")
        moved_alone = {**start, knob.name: knob.values[1]}
        documents.append(documents[0] if knob.name in still else record(moved_alone))
    turns = ((2, 2), (1, 2), (2, 1))
    moved = [{**start, **{one.name: one.values[turn[at % 2]] for at, one in enumerate(knobs)}} for turn in turns]
    names += ["all moved"] * len(moved)
    documents += map(record, moved)

    known: dict[tuple[float, ...], Any] = {}

    def fitted(path: str, values: list[float]) -> Any:
        key = tuple(values)
        if key not in known:
            terms = _terms(knobs, values, moved)
            if terms is None:
                raise NotRecordedError(f"a number depends on the knobs in a way that is not known: {path} is {values}")
            known[key] = {"formula": [[factor, [list(one) for one in powers]] for powers, factor in terms.items()]}
        return known[key]

    return _merged(documents, names, "", fitted)


def _merged(values: list[Any], names: list[str], path: str, fitted: Callable[[str, list[float]], Any]) -> Any:
    """Returns what documents have in common, with formulas for numbers that differ."""
    first = values[0]
    if all(one == first and type(one) is type(first) for one in values):
        return first
    if isinstance(first, dict):
        _same([list(one) for one in values], names, path)
        return {name: _merged([one[name] for one in values], names, f"{path}.{name}", fitted) for name in first}
    if isinstance(first, list):
        _same([len(one) if isinstance(one, list) else one for one in values], names, path)
        return [
            _merged(list(own), names, f"{path}[{place}]", fitted) for place, own in enumerate(zip(*values, strict=True))
        ]
    if any(isinstance(one, (str, bool)) or one is None for one in values):
        _same(values, names, path)
    return fitted(path, [float(one) for one in values])


def _same(values: list[Any], names: list[str], path: str) -> None:
    for value, name in zip(values, names, strict=True):
        if value != values[0]:
            raise NotRecordedError(f"operations depend on knobs: {path} is {values[0]} at first, {value} for {name}")


# ---- how a number depends on the knobs ----


def _terms(knobs: Sequence[Fitted], values: list[float], checks: Sequence[Mapping[str, Any]]) -> Terms | None:
    """Returns the terms of a number, from its values at first, for each knob alone, and where it is checked."""
    first, own, wanted = values[0], values[1 : 1 + len(knobs)], values[1 + len(knobs) :]
    parts = [list(_alone(knob, first, value)) for knob, value in zip(knobs, own, strict=True) if value != first]
    for some in product(*parts):
        for together in _together(some, first):
            if all(_close(value_of(together, at), value) for at, value in zip(checks, wanted, strict=True)):
                return together
    return None


def _alone(knob: Fitted, first: float, other: float) -> Iterator[Terms]:
    """Yields functions of one knob that have these two values: c v^p, c (v + p) (v + q), a + b v^p, a + b log v."""
    at = knob.values[:2]
    powers = [power for power in POWERS if power >= 1 or min(at) > 0]
    for power in powers:
        if at[0] and _close(first / at[0] ** power * at[1] ** power, other):
            yield {((knob.name, power),): first / at[0] ** power}
    for one, other_one in PAIRS:
        begin, end = ((value + one) * (value + other_one) for value in at)
        if begin and _close(first / begin * end, other):
            terms = {2.0: 1, 1.0: one + other_one, 0.0: one * other_one}
            yield {
                ((knob.name, power),) if power else (): factor * first / begin
                for power, factor in terms.items()
                if factor
            }
    shapes: list[tuple[Powers, float, float]] = [
        (((knob.name, power),), at[0] ** power, at[1] ** power) for power in powers
    ]
    if min(at) > 0:
        shapes.append((((f"log {knob.name}", 1.0),), math.log(at[0]), math.log(at[1])))
    for shape, begin, end in shapes:
        slope = (other - first) / (end - begin)
        yield {(): _whole(first - slope * begin), shape: _whole(slope)}


def _together(parts: Sequence[Terms], first: float) -> Iterator[Terms]:
    """Yields the ways to put together what depends on one knob each."""
    for groups in sorted(_partitions(list(parts)), key=lambda some: -len(some)):
        ways: list[tuple[Together, Together]] = [(_product, _sum)]
        if len(groups) < len(parts):
            ways += [(_sum, _product), (_sum, _raised), (_product, _raised)]
        for of_groups, of_parts in ways:
            within = [made for group in groups if (made := of_parts(group, first)) is not None]
            together = of_groups(within, first) if len(within) == len(groups) else None
            if together is not None:
                yield together


def _partitions(things: list[Terms]) -> Iterator[list[list[Terms]]]:
    """Yields the ways to divide things into groups."""
    if not things:
        yield []
        return
    one, *others = things
    for groups in _partitions(others):
        yield [[one], *groups]
        for place, group in enumerate(groups):
            yield [*groups[:place], [one, *group], *groups[place + 1 :]]


def _product(parts: Sequence[Terms], first: float) -> Terms | None:
    """Returns first times each part over its value at first."""
    if not first:
        return parts[0] if len(parts) == 1 else None
    made: Terms = {(): 1 / first ** (len(parts) - 1)}
    for part in parts:
        made = {
            tuple(sorted((*powers, *more))): factor * further
            for powers, factor in made.items()
            for more, further in part.items()
        }
    return {powers: _whole(factor) for powers, factor in made.items() if abs(factor) > CLOSE * abs(first) * 1e-6}


def _raised(parts: Sequence[Terms], first: float) -> Terms | None:
    """Returns a constant that all parts have, plus the product of what is left of them."""
    constant = parts[0].get((), 0.0)
    if any(part.get((), 0.0) != constant for part in parts):
        return None
    made = _product([{powers: factor for powers, factor in part.items() if powers} for part in parts], first - constant)
    return None if made is None else {(): constant, **made}


def _sum(parts: Sequence[Terms], first: float) -> Terms:
    """Returns first plus what each part adds to it."""
    made: Terms = {(): -(len(parts) - 1) * first}
    for part in parts:
        for powers, factor in part.items():
            made[powers] = made.get(powers, 0.0) + factor
    return {powers: _whole(factor) for powers, factor in made.items() if factor}


def value_of(terms: Terms, values: Mapping[str, Any]) -> float:
    """Computes a sum of terms."""
    total = 0.0
    for powers, factor in terms.items():
        for name, power in powers:
            value = float(values[name.removeprefix("log ")])
            factor *= (math.log(value) if name.startswith("log ") else value) ** power
        total += factor
    return total


def _whole(value: float) -> float:
    """Returns a number without what rounding has added to a whole or half number."""
    near = round(2 * value) / 2
    return near if abs(value - near) < CLOSE * max(1.0, abs(value)) else value


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))


# ---- smaller ----


class Packer:
    """Keeps what several documents have in common once, in lists; a document has the numbers of it.

    What repeats compresses well, so that numbers are counted from others near them. An operation is a list of the
    number of its name, its arguments, its results and, if there are any, its named arguments; their places are counted
    from the last result before it. The buffer of a place is counted from that of the place before.

    Attributes:
      formulas, places, programs, constants, names: the lists. A formula is {"f": number}, a place is {"p": number}: a
        list of buffer, offset, sizes and, where numbers do not lie in order, strides. Of constants it has long ones:
        those of small whole numbers, such as images, as a text with a letter for each (`lettered`).
    """

    def __init__(self) -> None:
        self.formulas: dict[str, int] = {}
        self.places: dict[str, int] = {}
        self.programs: dict[str, int] = {}
        self.constants: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self._near = 0  # the place from which others are counted
        self._met: dict[int, tuple[Any, dict[str, int]]] = {}  # formulas themselves, by identity: most stand often

    def packed(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a document with numbers in place of what the lists have."""
        programs = {
            name: _number(
                self.programs,
                {"operations": self._operations(some["operations"]), "own": self._buffers(some["own"])},
            )
            for name, some in document["programs"].items()
        }
        rest = {name: self._packed(one) for name, one in document.items() if name not in ("programs", "buffers")}
        return {**rest, "programs": programs, "buffers": self._buffers(document["buffers"])}

    def _operations(self, operations: list[Any]) -> list[Any]:
        """Returns operations with the numbers of their names, and their places counted from the last result before."""
        found = []
        for name, given, named, results in operations:
            parts = [self._packed(part) for part in (given, results, *([named] if named else []))]
            found.append([self.names.setdefault(name, len(self.names)), *parts])
            self._near += next((one["p"] for one in reversed(parts[1]) if one), 0)
        self._near = 0
        return found

    def _buffers(self, buffers: list[Any]) -> list[Any]:
        """Returns buffers, those of long constants with the number of theirs."""
        return [
            [{"c": _number(self.constants, one)} if isinstance(one, list) else self._packed(one) for one in about]
            for about in buffers
        ]

    @property
    def lists(self) -> dict[str, Any]:
        """The lists, by name."""
        names = ("formulas", "places", "programs", "constants")
        found = {name: [json.loads(one) for one in getattr(self, name)] for name in names}
        buffers = [buffer for buffer, *_ in found["places"]]
        places = [
            [buffer - before, *rest] for before, (buffer, *rest) in zip([0, *buffers], found["places"], strict=False)
        ]
        constants = [lettered(one) for one in found["constants"]]
        return {**found, "places": places, "constants": constants, "names": list(self.names)}

    def _packed(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._packed(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "formula" in value:
            if id(value) not in self._met:
                self._met[id(value)] = value, {"f": _number(self.formulas, value["formula"])}
            return self._met[id(value)][1]
        packed = {name: self._packed(one) for name, one in value.items()}
        if "buffer" not in value:
            return packed
        buffer, offset, sizes, strides = (packed[name] for name in ("buffer", "offset", "sizes", "strides"))
        place = [buffer, offset, sizes] if _usual(value) else [buffer, offset, sizes, strides]
        return {"p": _number(self.places, place) - self._near}


FIRST_LETTER, MOST_LETTERS = ord("#"), 25
"""The letter of 0, and how many there are before one that HTML or JSON reads as something else."""


def lettered(numbers: list[Any]) -> list[Any] | str:
    """Returns numbers as a text, if all are whole and small."""
    if all(type(one) is int and 0 <= one < MOST_LETTERS for one in numbers):
        return "".join(chr(FIRST_LETTER + one) for one in numbers)
    return numbers


def _number(known: dict[str, int], value: Any) -> int:
    return known.setdefault(in_json(value), len(known))


def _usual(place: Mapping[str, Any]) -> bool:
    """Whether a place's numbers lie in order: each stride is the product of the sizes that follow."""
    after: Terms = {(): 1.0}
    for size, stride in zip(reversed(place["sizes"]), reversed(place["strides"]), strict=True):
        if _terms_of(stride) != after:
            return False
        after = {
            tuple(sorted((*powers, *more))): factor * further
            for powers, factor in after.items()
            for more, further in _terms_of(size).items()
        }
    return True


def _terms_of(value: Any) -> Terms:
    """Returns a number, or a formula, as terms; powers of one knob are not added up."""
    if not isinstance(value, dict):
        return {(): float(value)}
    return {tuple(sorted((name, power) for name, power in powers)): factor for factor, powers in value["formula"]}


def in_json(value: Any) -> str:
    """Returns a document as JSON, as short as it can be."""
    return json.dumps(_short(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else number_in_json(value)
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, (list, tuple)) else value
