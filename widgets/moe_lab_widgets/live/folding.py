"""Shortens a JSON document whose parts repeat far from one another, which browsers' gzip does not see."""

from __future__ import annotations

import re
from functools import cache

LEAST = 80
"""Characters that a reference stands for at least: shorter ones are left to gzip."""
_SAMPLE = 32  # characters by which a repetition is found
_BEFORE = "`"  # stands before a reference, and nowhere else
_ESCAPED = re.compile(f"[{_BEFORE}\U00010000-\U0010ffff]")  # and what JavaScript counts as two characters


@cache  # a page is written for each of the values that it begins with
def folded(document: str) -> str:
    """Returns a JSON document with references to where the same text stood last, which `folding.js` unfolds.

    A reference is "`distance,length;" in hexadecimal digits: `length` characters from `distance` before its place in
    the whole text. References alike lie as far back as one another where one part of the document is like another, so
    that gzip shortens them, too.
    """
    text = _ESCAPED.sub(_in_escapes, document)
    last: dict[str, int] = {}
    parts, begin, place = [], 0, 0
    while place < len(text):
        sample = text[place : place + _SAMPLE]
        before = last.get(sample)
        length = 0 if before is None else _alike(text, before, place)
        if before is None or length < LEAST:
            last[sample] = place
            place += 1
            continue
        parts += [text[begin:place], f"{_BEFORE}{place - before:x},{length:x};"]
        for inside in range(place, place + length):
            last[text[inside : inside + _SAMPLE]] = inside
        begin = place = place + length
    return "".join([*parts, text[begin:]])


def _alike(text: str, before: int, place: int) -> int:
    """Returns how many characters from an earlier place are those from a place, up to that place."""
    most = min(place - before, len(text) - place)
    low, high = 0, most
    while low < high:
        length = (low + high + 1) // 2
        if text.startswith(text[before + low : before + length], place + low):
            low = length
        else:
            high = length - 1
    return low


def _in_escapes(found: re.Match[str]) -> str:
    """Returns a character as JSON's escapes of its UTF-16 units."""
    return re.sub("....", r"\\u\g<0>", found[0].encode("utf-16-be").hex())
