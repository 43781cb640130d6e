"""What a page keeps: styles, shapes, words, colours and pixel tiles, each sent once and named by its number.

A body is a sequence of chunks, little endian; numbers count up from 0 in order of arrival::

    1 style    stroke rgba, fill rgba, width u16/64, cap<<4|join u8, dashes n u8, offset u16/64, dashes u16/64 * n,
               clip box i16 * 4 (-1: none), clip shape u16 (NOTHING: none)
    2 shape    a path: points n u16, has codes u8, bits after the point u8, xy i16 * 2n, codes u8 * n
    3 tile     w u8, h u8, colours n u8, colour u16 * n, index u8 * w*h; n = 0: colour u16 * w*h
    5 reset    bits after the point of places u8: forget everything
    6 colours  n u16, rgba * n
    7 name     length u16, UTF-8 JSON: what a pointer over it shows
    9 stamp    w u16, h u16, coverage u8 * w*h
    4 frame    record u32, length u32, operations (see renderer.py)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from matplotlib.path import Path
from numpy.typing import NDArray

NOTHING = 0xFFFF
FULL = 60_000
"""The number of things of one kind at which they must be sent anew."""


class Resources:
    """The things that a page has been sent, and those it must be sent before the next frame.

    Args:
      bits: binary digits after the point of places; 16-bit numbers bound a picture to 2^(15 - bits) pixels.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._styles: dict[bytes, int] = {}
        self._shapes: dict[bytes, int] = {}
        self._names: dict[bytes, int] = {}
        self._stamps: dict[bytes, int] = {}
        self._tiles: dict[bytes, int] = {}
        self._colours: dict[int, int] = {}
        self._news = bytearray(struct.pack("<BB", 5, bits))

    def news(self) -> bytes:
        """Returns the chunks that the page lacks, and takes them as sent."""
        news, self._news = bytes(self._news), bytearray()
        return news

    @property
    def full(self) -> bool:
        kinds = (self._styles, self._shapes, self._names, self._stamps, self._tiles)
        return max(len(self._colours), *(len(kind) for kind in kinds)) > FULL

    def style(self, body: bytes) -> int:
        return self._number(self._styles, 1, body)

    def shape(self, path: bytes) -> int:
        return self._number(self._shapes, 2, path)

    def name(self, words: Mapping[str, Any]) -> int:
        text = json.dumps(words, ensure_ascii=False, separators=(",", ":")).encode()
        return self._number(self._names, 7, struct.pack("<H", len(text)) + text)

    def stamp(self, coverage: NDArray[np.uint8]) -> int:
        """Returns (height, width) the ink of a word, 0 to 255."""
        return self._number(self._stamps, 9, struct.pack("<HH", *coverage.shape[::-1]) + coverage.tobytes())

    def colours(self, rgba: NDArray[np.uint32]) -> NDArray[np.uint16]:
        """Returns the numbers of colours, each 4 bytes RGBA as one integer."""
        table = self._colours
        fresh = [colour for colour in dict.fromkeys(rgba.tolist()) if colour not in table]
        if fresh:
            for colour in fresh:
                table[colour] = len(table)
            self._news += struct.pack(f"<BH{len(fresh)}I", 6, len(fresh), *fresh)
        return np.array([table[colour] for colour in rgba.tolist()], dtype="<u2")

    def tiles(self, tiles: Sequence[NDArray[np.uint32]]) -> list[int]:
        """Returns the numbers of tiles: (height, width) pixels, at most 255 each way, RGBA as one integer."""
        keys = [blake2b(tile.tobytes(), digest_size=12, key=struct.pack("<HH", *tile.shape)).digest() for tile in tiles]
        fresh = {key: tile for key, tile in zip(keys, tiles, strict=True) if key not in self._tiles}
        if fresh:
            pixels = np.concatenate([tile.ravel() for tile in fresh.values()])
            distinct = np.unique(pixels)
            numbers = self.colours(distinct)[np.searchsorted(distinct, pixels)]
            parts = np.split(numbers, np.cumsum([tile.size for tile in fresh.values()])[:-1])
            for (key, tile), part in zip(fresh.items(), parts, strict=True):
                self._tiles[key] = len(self._tiles)
                self._news += self._tile(tile.shape, part)
        return [self._tiles[key] for key in keys]

    def _tile(self, shape: tuple[int, ...], pixels: NDArray[np.uint16]) -> bytes:
        own = np.flatnonzero(np.bincount(pixels)).astype("<u2")
        few = len(own) < 256
        body = pixels.tobytes()
        if few:
            place = np.zeros(len(self._colours), np.uint8)
            place[own] = np.arange(len(own))
            body = own.tobytes() + place[pixels].tobytes()
        return struct.pack("<BBBB", 3, shape[1], shape[0], len(own) if few else 0) + body

    def _number(self, table: dict[bytes, int], kind: int, body: bytes) -> int:
        number = table.get(body)
        if number is None:
            number = table[body] = len(table)
            self._news.append(kind)
            self._news += body
        return number


def path_bytes(vertices: NDArray[np.float64], codes: NDArray[np.uint8], bits: int) -> bytes:
    """Returns a path as bytes; places outside the 16-bit range are moved to its edge."""
    plain = bool(codes[0] == Path.MOVETO and (codes[1:] == Path.LINETO).all())
    places = np.clip(np.rint(vertices * (1 << bits)), -32768, 32767).astype("<i2")
    head = struct.pack("<HBB", len(places), not plain, bits)
    return head + places.tobytes() + (b"" if plain else codes.tobytes())
