"""Products in WebAssembly: a module of a few functions, assembled here, so that no tool is needed to build a page.

    multiply(x, y, z, m, k, n, xi, xk, yk, zi, zj)    z[i, j] = sum over q of x[i, q] y[q, j]   (float64)
    turned(...)                                       the same into a z whose columns do not lie side by side

x, y and z are addresses in bytes; xi, xk, yk, zi and zj are the bytes from a row (or of x and z from a column) to the
next.
    add(n, o, p, q) ...                               o[i] = p[i] + q[i]; add1: o[i] = p[i] + q
    maximum, kept                                     the larger of both; p[i] unless q[i] <= 0, else 0

Columns of y lie side by side. Four rows of z by four columns are summed at once, in eight registers of two
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

Code = list[int]

PARAMETERS = ("x", "y", "z", "m", "k", "n", "xi", "xk", "yk", "zi", "zj")
INTEGERS = ("i", "j", "q", "at", "row0", "row1", "row2", "row3", "into")
LOCALS = {name: number for number, name in enumerate((*PARAMETERS, *INTEGERS))}
SUMS = {(row, half): len(LOCALS) + 2 * row + half for row in range(4) for half in range(2)}
LEFT, FIRST, SECOND = (len(LOCALS) + len(SUMS) + number for number in range(3))
SUM = SECOND + 1  # one number
I32, F64, V128 = 0x7F, 0x7C, 0x7B
NUMBER = 8  # bytes


def unsigned(value: int) -> Code:
    """Returns a number as LEB128."""
    low, rest = value & 0x7F, value >> 7
    return [low | 0x80, *unsigned(rest)] if rest else [low]


def signed(value: int) -> Code:
    """Returns a number with a sign as LEB128."""
    low, rest = value & 0x7F, value >> 7
    done = (rest == 0 and not low & 0x40) or (rest == -1 and low & 0x40)
    return [low] if done else [low | 0x80, *signed(rest)]


def get(name: str | int) -> Code:
    return [0x20, *unsigned(LOCALS[name] if isinstance(name, str) else name)]


def put(name: str | int, *value: Code) -> Code:
    return [*joined(value), 0x21, *unsigned(LOCALS[name] if isinstance(name, str) else name)]


def joined(parts: Iterable[Code]) -> Code:
    return [byte for part in parts for byte in part]


def whole(value: int) -> Code:
    return [0x41, *signed(value)]


def plus(one: Code, other: Code) -> Code:
    return [*one, *other, 0x6A]


def times(one: Code, other: Code) -> Code:
    return [*one, *other, 0x6C]


def step(name: str | int, by: Code) -> Code:
    """Returns code that adds to a local."""
    return put(name, plus(get(name), by))


def while_at_most(name: str | int, ahead: int, most: str | int, *body: Code) -> Code:
    """Returns a loop that runs while name + ahead <= most."""
    leave = [*plus(get(name), whole(ahead)), *get(most), 0x4A, 0x0D, 1]  # i32.gt_s, br_if out of the block
    return [0x02, 0x40, 0x03, 0x40, *leave, *joined(body), 0x0C, 0, 0x0B, 0x0B]


def vector(*opcode: int) -> Code:
    return [0xFD, *opcode]


def at(address: Code, offset: int = 0) -> Code:
    """Returns an address followed by what loads two numbers there."""
    return [*address, *vector(0x00), 3, *unsigned(offset)]


ADD, MULTIPLY = vector(0xF0, 0x01), vector(0xF2, 0x01)
ZERO = vector(0x0C, *[0] * 16)
NOTHING = [0x44, *[0] * 8]  # f64.const 0


def place(turned: bool) -> Code:
    """Returns the address of the number of z in row i and column j."""
    across = times(get("j"), get("zj") if turned else whole(NUMBER))
    return plus(get("z"), plus(times(get("i"), get("zi")), across))


def block(rows: int, turned: bool) -> Code:
    """Returns code for some rows from i on, and four columns from j on."""
    names = [f"row{row}" for row in range(rows)]
    code = [put("row0", plus(get("x"), times(get("i"), get("xi"))))]
    code += [put(name, plus(get(before), get("xi"))) for before, name in pairwise(names)]
    code += [put("at", plus(get("y"), times(get("j"), whole(NUMBER))))]
    code += [put(SUMS[row, half], ZERO) for row in range(rows) for half in range(2)]
    inner = [put(FIRST, at(get("at"))), put(SECOND, at(get("at"), 2 * NUMBER))]
    for row, name in enumerate(names):
        inner += [put(LEFT, get(name), vector(0x0A), [3, 0])]  # v128.load64_splat
        for half, right in enumerate((FIRST, SECOND)):
            inner += [put(SUMS[row, half], get(SUMS[row, half]), get(LEFT), get(right), MULTIPLY, ADD)]
        inner += [step(name, get("xk"))]
    inner += [step("at", get("yk")), step("q", whole(1))]
    code += [put("q", whole(0)), while_at_most("q", 1, "k", *inner)]
    code += [put("into", place(turned))]
    for row in range(rows):
        if turned:
            code += [put("at", get("into"))]
            for half in range(2):
                for lane in range(2):  # v128.store64_lane
                    code += [get("at"), get(SUMS[row, half]), vector(0x5B), [3, 0, lane], step("at", get("zj"))]
        else:
            for half in range(2):
                code += [get("into"), get(SUMS[row, half]), vector(0x0B), [3, *unsigned(2 * NUMBER * half)]]
        code += [step("into", get("zi"))]
    return joined(code)


def single(turned: bool) -> Code:
    """Returns code for the number in row i and column j."""
    inner = [
        put(SUM, get(SUM), get("row0"), [0x2B, 3, 0], get("at"), [0x2B, 3, 0, 0xA2, 0xA0]),
        *(step("row0", get("xk")), step("at", get("yk")), step("q", whole(1))),
    ]
    code = [
        put("row0", plus(get("x"), times(get("i"), get("xi")))),
        put("at", plus(get("y"), times(get("j"), whole(NUMBER)))),
        put(SUM, NOTHING),
        put("q", whole(0)),
        while_at_most("q", 1, "k", *inner),
        place(turned),
        get(SUM),
        [0x39, 3, 0],
    ]
    return joined(code)


FLAG = 6  # a local of functions of rows
ROWWISE = {
    "add": (ADD, [0xA0]),
    "sub": (vector(0xF1, 0x01), [0xA1]),
    "mul": (MULTIPLY, [0xA2]),
    "div": (vector(0xF3, 0x01), [0xA3]),
    "maximum": (vector(0xF5, 0x01), [0xA5]),
    # le, andnot; le, kept in a local so that select finds its numbers in order
    "kept": ([*ZERO, *vector(0x4B), *vector(0x4F)], [*NOTHING, 0x65, 0x21, FLAG, *NOTHING, 0x20, FLAG, 0x45, 0x1B]),
}
"""Functions of rows of numbers: the instructions for two numbers and for one."""


def rowwise(both: Code, single_one: Code, scalar: bool) -> Code:
    """Returns code that does something with rows of n numbers, two at a time; `scalar`: q is one number."""
    n, o, p, q, i, spread = range(6)
    right = get(spread) if scalar else at(get(q))
    pair = [get(o), at(get(p)), right, both, vector(0x0B), [3, 0]]
    last = [get(o), get(p), [0x2B, 3, 0], get(q), [0x2B, 3, 0], [*single_one, 0x39, 3, 0]]
    moved = [o, p] if scalar else [o, p, q]
    code = [put(spread, get(q), vector(0x0A), [3, 0])] if scalar else []
    code += [
        put(i, whole(0)),
        while_at_most(i, 2, n, *pair, *(step(one, whole(2 * NUMBER)) for one in moved), step(i, whole(2))),
        while_at_most(i, 1, n, *last, *(step(one, whole(NUMBER)) for one in moved), step(i, whole(1))),
    ]
    return joined(code)


def section(number: int, *content: Sequence[int]) -> Code:
    body = [byte for part in content for byte in part]
    return [number, *unsigned(len(body)), *body]


def named(name: str) -> Code:
    return [len(name), *name.encode()]


def multiplication(turned: bool) -> Code:
    """Returns code that multiplies matrices."""
    return joined([
        put("j", whole(0)),
        while_at_most(
            "j", 4, "n",
            put("i", whole(0)),
            while_at_most("i", 4, "m", block(4, turned), step("i", whole(4))),
            while_at_most("i", 1, "m", block(1, turned), step("i", whole(1))),
            step("j", whole(4)),
        ),
        while_at_most(
            "j", 1, "n",
            put("i", whole(0)),
            while_at_most("i", 1, "m", single(turned), step("i", whole(1))),
            step("j", whole(1)),
        ),
    ])  # fmt: skip


def module() -> bytes:
    """Returns the module; it imports the memory `m` of `e`."""
    of_matrices = [3, len(INTEGERS), I32, SUM - len(LOCALS), V128, 1, F64]
    functions = [
        (name, 0, [*of_matrices, *multiplication(turned), 0x0B])
        for name, turned in {"multiply": False, "turned": True}.items()
    ]
    for name, (both, one) in ROWWISE.items():
        for scalar in (False, True):
            code = [3, 1, I32, 1, V128, 1, I32, *rowwise(both, one, scalar), 0x0B]
            functions.append((f"{name}1" if scalar else name, 1, code))
    count = [len(functions)]
    exports = joined([*named(name), 0, *unsigned(place)] for place, (name, _, _) in enumerate(functions))
    kinds = joined([0x60, len(some), *[I32] * len(some), 0] for some in (PARAMETERS, "nopq"))
    return bytes([
        *b"\0asm", 1, 0, 0, 0,
        *section(1, [2], kinds),
        *section(2, [1], named("e"), named("m"), [2, 0, 1]),
        *section(3, count, [kind for _, kind, _ in functions]),
        *section(7, count, exports),
        *section(10, count, joined([*unsigned(len(code)), *code] for _, _, code in functions)),
    ])  # fmt: skip
