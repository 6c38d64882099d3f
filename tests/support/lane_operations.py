"""Operations on vectors of which a mask leaves lanes out, and everything that is done with what comes out of them.

Each operation has operands of its own, loaded for it alone, for each thing that is done with its result: what a compiler does not see
through where a value is used twice, it sees through here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from every_op import EVERY
from tilewright.ir.dtypes import DType, bool_, dtype, float32, int32
from tilewright.lower.arithmetic.elementary import NAMES as FUNCTIONS
from tilewright.lower.arithmetic.elementary import expand
from tilewright.lower.emit.partial_results import across
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Val

TYPES = (*EVERY, "float8_e4m3", "float8_e5m2")
OUTPUT = 2
"""The first output among the parameters, of which there is one of each type."""


@dataclass
class Rows:
    """What gives operands, and each result a row of the output of its type. `first`: the next elements of the input that nobody has read."""

    b: Builder
    d: DType
    lanes: int
    mask: Val
    at: Val
    first: int
    what: str
    rows: dict[str, list[str]]

    def operand(self) -> Val:
        """Elements under the mask, as they are computed with."""
        x = self.b.load(Mem("param", 0, self.d, self.first, self.d.size), self.at, self.lanes, self.mask)
        self.first += self.lanes
        return self.b.op("cast", x, dtype=self.d.compute) if self.d.narrow else x

    def number(self, value: float, like: Val) -> Val:
        return self.b.const(value, like.dtype, like.lanes)

    def other(self, x: Val, value: float) -> Val:
        """`x` where the mask holds, else a number."""
        return self.b.op("select", self.mask, x, self.number(value, x))

    def put(self, name: str, v: Val, mask: Val | None = None) -> None:
        b, rows = self.b, self.rows
        if self.d.narrow and v.dtype is float32:
            v = b.op("cast", v, dtype=self.d)
        found = rows[v.dtype.name]
        mem = Mem("param", OUTPUT + TYPES.index(v.dtype.name), v.dtype, len(found) * self.lanes, v.dtype.size)
        b.store(mem, b.const(0), v, mask)
        found.append(f"{self.what}, {name}")


Make = Callable[[Rows], Val]


def operations(d: DType, features: frozenset[str]) -> dict[str, Make]:
    """Every operation on elements of a type, by name."""
    c = d.compute

    def plain(op: str, count: int, attr: Any = None) -> Make:
        return lambda r: r.b.op(op, *(r.operand() for _ in range(count)), attr=attr)

    if d.kind == "b":
        return {**{op: plain(op, 2) for op in ("and", "or", "xor", "eq", "ne")}, "not": plain("not", 1)}
    out = {op: plain(op, 2) for op in ("add", "sub", "mul", "max", "min")}
    out |= {op: plain(op, 1) for op in ("neg", "abs")}
    out["fma"] = plain("fma", 3)
    for op in ("lt", "le", "eq", "ne"):
        out[f"select {op}"] = lambda r, op=op: r.b.op("select", r.b.op(op, r.operand(), r.operand()), r.operand(), r.operand())
    if not d.is_float:
        out |= {op: plain(op, 2) for op in ("and", "or", "xor", "quot")}
        out |= {op: plain(op, 1) for op in ("not", "popcount", "clz")}
        out |= {f"{op} {n}": plain(op, 1, n) for op in ("idiv", "imod") for n in (1, 7, 16)}
        out["rest"] = lambda r: _rest(r, "quot")
        for op in ("shl", "shr"):
            out[op] = lambda r, op=op: r.b.op(op, x := r.operand(), r.b.op("and", r.operand(), r.number(8 * d.size - 1, x)))
        return out
    out |= {op: plain(op, 1) for op in ("sqrt", "floor", "round")}
    out["div"] = plain("div", 2)
    out["inverse"] = lambda r: r.b.op("div", r.number(1, x := r.operand()), x)
    out["inverse root"] = lambda r: r.b.op("div", r.number(1, x := r.operand()), r.b.op("sqrt", x))
    out["rest"] = lambda r: _rest(r, "div")
    for op in ("add", "sub", "mul", "max"):
        out[f"div by {op}"] = lambda r, op=op: r.b.op("div", r.operand(), _unsigned(r, r.b.op(op, r.operand(), r.operand())))
        out[f"div of {op}"] = lambda r, op=op: r.b.op("div", r.b.op(op, r.operand(), r.operand()), r.operand())
    for op in ("abs", "sqrt", "neg"):
        out[f"div by {op}"] = lambda r, op=op: r.b.op("div", r.operand(), r.b.op(op, r.operand()))
    out["quotient's root"] = lambda r: r.b.op("sqrt", r.b.op("div", r.operand(), r.operand()))
    out["times infinity"] = lambda r: r.b.op("mul", x := r.operand(), r.number(np.inf, x))
    out["less infinity"] = lambda r: r.b.op("sub", r.b.op("mul", x := r.operand(), y := r.number(np.inf, x)), y)
    if "avx512" in features:
        out["scale2"] = _scaled
    out |= {f: lambda r, f=f: expand(r.b, f, r.operand()) for f in sorted(FUNCTIONS)}
    out["log of a quotient"] = lambda r: expand(r.b, "log", r.b.op("div", r.operand(), r.operand()))
    out["0 times exp"] = lambda r: r.b.op("mul", r.operand(), expand(r.b, "exp", r.operand()))
    assert c.is_float
    return out


def _scaled(r: Rows) -> Val:
    """By whole numbers: 0 times two to an infinite power is not defined."""
    power = r.b.op("floor", x := r.operand())
    power = r.b.op("max", r.b.op("min", power, r.number(5000, x)), r.number(-5000, x))
    return r.b.op("scale2", r.operand(), power)


def _rest(r: Rows, op: str) -> Val:
    x, y = r.operand(), r.operand()
    q = r.b.op(op, x, y)
    q = r.b.op("floor", q) if op == "div" else q
    return r.b.op("sub", x, r.b.op("mul", q, y))


def _least(d: DType) -> float:
    return -np.inf if d.is_float else int(np.iinfo(d.name).min)


def _place(r: Rows, make: Make) -> None:
    """Where the largest is, as argmax finds it."""
    b = r.b
    x = make(r)
    x, at = r.other(x, _least(x.dtype)), b.const(tuple(range(r.lanes)), int32, r.lanes)
    while x.lanes > 1:
        half = x.lanes // 2
        parts = [(b.shuffle(v, v, tuple(range(half))), b.shuffle(v, v, tuple(range(half, 2 * half)))) for v in (x, at)]
        (x, y), (at, place) = parts if half > 1 else [(b.extract(v, 0), b.extract(v, 1)) for v in (x, at)]
        better = b.op("lt", x, y)
        x, at = b.op("select", better, y, x), b.op("select", better, place, at)
    r.put("place of the largest", b.splat(at, r.lanes))


def _scan(r: Rows, make: Make) -> None:
    b, n = r.b, r.lanes
    x = r.other(make(r), 0)
    zero, distance = r.number(0, x), 1
    while distance < n:
        shifted = b.shuffle(x, x, tuple((i - distance) % n for i in range(n)))
        x = b.op("add", x, b.op("select", b.const(tuple(i >= distance for i in range(n)), bool_, n), shifted, zero))
        distance *= 2
    r.put("scanned", x)


def _loop(r: Rows, make: Make) -> None:
    b, before = r.b, r.at
    some = r.number(0, make(r))
    with b.loop("l", b.const(0), b.const(2), 1, [some]) as loop:
        r.at = loop.var
        loop.yields = [b.op("add", loop.carried[0], r.other(make(r), 0))]
    r.at = before
    r.put("in a loop", loop.results[0])


def _cast(to: str) -> Callable[[Rows, Make], None]:
    def way(r: Rows, make: Make) -> None:
        x, b = r.other(make(r), 0), r.b
        if x.dtype.is_float and dtype(to).is_int:  # beyond an integer's range the result is not defined
            x = b.op("select", b.op("lt", b.op("abs", x), r.number(100, x)), b.op("abs", x), r.number(0, x))
        r.put(f"as {to}", b.op("cast", x, dtype=dtype(to)))

    return way


def _reduced(op: str) -> Callable[[Rows, Make], None]:
    def way(r: Rows, make: Make) -> None:
        x = make(r)
        none = {"add": 0, "mul": 1, "max": _least(x.dtype)}[op]
        r.put(f"{op} of lanes", r.b.splat(across(r.b, [r.other(x, none)], op)[0], r.lanes))

    return way


def _staged(r: Rows, make: Make) -> None:
    x, b = r.other(make(r), 0), r.b
    if r.d.narrow:
        x = b.op("cast", x, dtype=r.d)
    mem = Mem("scratch", 0, x.dtype, 0, x.dtype.size)
    b.store(mem, b.const(0), x)
    r.put("staged", b.load(mem, b.const(0), r.lanes))


Way = Callable[[Rows, Make], None]
BOOLS: dict[str, Way] = {
    "as it is": lambda r, make: r.put("as it is", make(r)),
    "or nothing": lambda r, make: r.put("or nothing", r.other(make(r), 0)),
    "or true": lambda r, make: r.put("or true", r.other(make(r), 1)),
    "stored": lambda r, make: r.put("stored", make(r), r.mask),
    "every": lambda r, make: r.put("every", r.b.splat(r.b.every(make(r)), r.lanes)),
    "as numbers": _cast("int32"),
}
NUMBERS: dict[str, Way] = {
    **{name: BOOLS[name] for name in ("as it is", "or nothing", "stored")},
    "or one": lambda r, make: r.put("or one", r.other(make(r), 1)),
    "not a number": lambda r, make: r.put("not a number", r.b.op("ne", x := make(r), x)),
    "nor a number": lambda r, make: r.put("nor a number", r.b.op("ne", x := r.other(make(r), 0), x)),
    "sum": _reduced("add"),
    "product": _reduced("mul"),
    "largest": _reduced("max"),
    "place": _place,
    "scanned": _scan,
    "staged": _staged,
    "in a loop": _loop,
    "added": lambda r, make: r.put("added", r.b.op("add", r.other(make(r), 0), r.other(make(r), 0))),
    "times": lambda r, make: r.put("times", r.b.op("mul", r.other(make(r), 0), r.operand())),
    "divided by": lambda r, make: r.put("divided by", _quotient(r, r.operand(), make(r))),
    "turned": lambda r, make: r.put("turned", _turned(r, r.other(make(r), 0))),
    "as int32": _cast("int32"),
    "as float32": _cast("float32"),
    "as float16": _cast("float16"),
    "as uint8": _cast("uint8"),
}
"""What is done with a result, by name."""
FEW = ("as it is", "or nothing", "stored", "sum", "largest", "scanned")
"""What is done with the result of a function, which is many instructions."""


def _quotient(r: Rows, x: Val, y: Val) -> Val:
    return r.other(r.b.op("div", x, _unsigned(r, y)) if x.dtype.is_float else r.b.op("quot", x, y), 0)


def _unsigned(r: Rows, y: Val) -> Val:
    """A float whose zeros have no sign: of two zeros, extremes are either."""
    return r.b.op("add", y, r.number(0.0, y))


def _turned(r: Rows, x: Val) -> Val:
    return r.b.shuffle(x, x, tuple(reversed(range(r.lanes))))


def dangerous(operation: str) -> bool:
    """Whether an operation makes NaN, infinities or faults of zeros."""
    return operation in FUNCTIONS or any(word in operation for word in ("div", "quot", "rest", "inverse", "root", "infinity", "log", "exp"))


def ways_of(d: DType, operation: str) -> dict[str, Way]:
    """What is done with an operation's result."""
    if d.kind == "b":
        return BOOLS
    return {way: NUMBERS[way] for way in FEW} if operation in FUNCTIONS else NUMBERS
