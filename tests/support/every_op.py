"""One Program with every operation on every type, to compare two renderers bit for bit. A phase a type; each result
is a row of an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tilewright.ir import dtypes
from tilewright.ir.dtypes import DType, bool_, dtype, int32, int64
from tilewright.ir.node import const
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Phase, Program, Val

FLOATS, INTS, UINTS, HALVES = (
    ("float32", "float64"),
    ("int64", "int32", "int16", "int8"),
    ("uint64", "uint32", "uint16", "uint8"),
    ("float16", "bfloat16"),
)
TYPES = (*FLOATS, *INTS, *UINTS)
EVERY = (*TYPES, *HALVES, "bool")


@dataclass
class Bench:
    """The Program, its arrays in order, and what each row of an output is."""

    program: Program
    arrays: list[Any]
    rows: dict[str, list[str]] = field(default_factory=dict)

    def outputs(self) -> dict[str, Any]:
        """Output arrays by name."""
        return {p.name: a for p, a in zip(self.program.params, self.arrays, strict=True) if p.role == "out"}


def values(name: str, n: int, seed: int) -> Any:
    """Numbers of a type, awkward ones among them."""
    rng = np.random.default_rng(seed)
    if name in FLOATS:
        info = np.finfo(name)
        special = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            2.5,
            0.49999997,
            -2.5,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            info.tiny,
            info.smallest_subnormal,
            2.0**23 + 1,
        ]
        return rng.permutation(np.concatenate([special, rng.normal(0, 100, n)])[:n]).astype(name)
    info = np.iinfo(name)
    special = np.array([0, 1, 2, 7, info.max, info.min, info.max - 1], name)
    return rng.permutation(np.concatenate([special, rng.integers(info.min, info.max, n, name, endpoint=True)])[:n])


class _Rows:
    """Gives each result a row of the output of its type."""

    def __init__(self, b: Builder, at: Val, n: int) -> None:
        self.b, self.at, self.n = b, at, n
        self.rows: dict[str, list[str]] = {name: [] for name in EVERY}
        self.what = ""

    def put(self, name: str, v: Val, mask: Val | None = None) -> None:
        rows = self.rows[v.dtype.name]
        self.b.store(Mem("param", OUTPUT + EVERY.index(v.dtype.name), v.dtype, len(rows) * self.n, v.dtype.size), self.at, v, mask)
        rows.append(f"{self.what}: {name}")


OUTPUT = 2 * len(TYPES) + 1
"""The first output among the parameters: two inputs of each type and one of bools come before."""


def bench(lanes: int, types: Sequence[str] = TYPES, items: int = 13, fma: bool = True) -> Bench:
    """Everything on vectors of `lanes`, `items` of them. `fma`: with fma of floats, where all that are compared round it once."""
    n = lanes * items
    b = Builder()
    phases: list[Phase] = []
    rows: dict[str, list[str]] = {name: [] for name in EVERY}
    for name in types:
        with b.phase(const(items), ()) as phase:
            out = _Rows(b, b.op("mul", phase.item, b.const(lanes)), n)
            out.rows = rows
            out.what = f"{name}x{lanes}"
            _operations(out, dtype(name), phase, lanes, fma)
        phases.append(phase)
    arrays = [values(name, n, seed + 2 * i) for i, name in enumerate(TYPES) for seed in (0, 1)]
    arrays.append(np.random.default_rng(9).integers(0, 2, n).astype(bool))
    params = [Param(f"{'ab'[i % 2]}_{TYPES[i // 2]}", dtype(TYPES[i // 2]), (n,), "in") for i in range(2 * len(TYPES))]
    params.append(Param("m", bool_, (n,), "in"))
    for name in EVERY:
        size = max(1, len(rows[name])) * n
        params.append(Param(f"y_{name}", dtype(name), (size,), "out"))
        arrays.append(np.full(size * dtype(name).size, 0xFF, np.uint8).view(dtype(name).np))
    return Bench(Program("every op", tuple(params), (), phases), arrays, rows)


def _operations(out: _Rows, d: DType, phase: Phase, lanes: int, fma: bool) -> None:
    b, at = out.b, out.at
    i = 2 * TYPES.index(d.name)
    x, y = (b.load(Mem("param", i + k, d, align=d.size), at, lanes) for k in (0, 1))
    m = b.load(Mem("param", OUTPUT - 1, bool_), at, lanes)
    two = b.const(2, d, lanes)
    for op in ("add", "sub", "mul", "max", "min", *(("div",) if d.is_float else ("and", "or", "xor"))):
        out.put(op, b.op(op, x, y))
    for op in ("neg", "abs", *(("sqrt", "floor", "round") if d.is_float else ("not",))):
        out.put(op, b.op(op, x))
    out.put("add 2", b.op("add", x, two))
    if not d.is_float or fma:
        out.put("fma", b.op("fma", x, y, two))
    for op in ("lt", "le", "eq", "ne"):
        c = b.op(op, x, y)
        out.put(op, c)
        out.put(f"select {op}", b.op("select", c, x, y))
    less, same = b.op("lt", x, y), b.op("eq", x, y)
    out.put("logic", b.op("xor", b.op("not", b.op("or", less, same)), b.op("and", m, b.op("ne", x, y))))
    out.put("select of bools", b.op("select", m, less, same))
    out.put("select by one", b.op("select", b.op("lt", phase.item, b.const(5)), x, y))
    if not d.is_float:
        _integers(out, d, x, y)
    _conversions(out, d, x, lanes)
    _lanes(out, d, x, m, lanes)
    _memory(out, d, x, m, phase, lanes, i)


def _integers(out: _Rows, d: DType, x: Val, y: Val) -> None:
    b = out.b
    amount = b.op("and", y, b.const(8 * d.size - 1, d, y.lanes))
    out.put("shl", b.op("shl", x, amount))
    out.put("shr", b.op("shr", x, amount))
    out.put("popcount", b.op("popcount", x))
    out.put("clz", b.op("clz", x))
    out.put("clz of few", b.op("clz", b.op("and", y, b.const(3, d, y.lanes))))
    out.put("quot", b.op("quot", x, y))
    out.put("quot by few", b.op("quot", x, b.op("sub", b.op("and", y, b.const(3, d, y.lanes)), b.const(1, d, y.lanes))))
    for n in (1, 7, 16, 100):
        out.put(f"idiv {n}", b.op("idiv", x, attr=n))
        out.put(f"imod {n}", b.op("imod", x, attr=n))


def _conversions(out: _Rows, d: DType, x: Val, lanes: int) -> None:
    b = out.b
    for name in EVERY:
        to = dtype(name)
        source = x
        if d.is_float and to.is_int:  # beyond the integer's range the result is not defined
            zero, top = b.const(0, d, lanes), b.const(100, d, lanes)
            source = b.op("select", b.op("lt", b.op("abs", x), top), b.op("abs", x) if to.kind == "u" else x, zero)
        if name != d.name:
            out.put(f"cast to {name}", b.op("cast", source, dtype=to))
    for name in HALVES:
        out.put(f"through {name}", b.op("cast", b.op("cast", x, dtype=dtype(name)), dtype=dtypes.float32))
    for name in TYPES:
        if name != d.name and dtype(name).size == d.size and not dtype(name).is_float:
            out.put(f"bits as {name}", b.op("bitcast", x, dtype=dtype(name)))
    if d.name in ("int32", "uint32", "int64", "uint64"):  # bits of numbers, since NaN has many
        to = dtype("float32" if d.size == 4 else "float64")
        small = b.op("and", x, b.const((1 << (8 * d.size - 3)) - 1, d, lanes))
        out.put("bits as a float", b.op("bitcast", small, dtype=to))


def _lanes(out: _Rows, d: DType, x: Val, m: Val, lanes: int) -> None:
    b = out.b
    if lanes == 1:
        return
    turned = tuple(range(lanes - 1, -1, -1))
    out.put("reversed", b.shuffle(x, x, turned))
    out.put("mixed", b.shuffle(x, b.shuffle(x, x, turned), tuple((3 * i + 1) % (2 * lanes) for i in range(lanes))))
    out.put("mask mixed", b.shuffle(m, m, tuple((5 * i + 2) % lanes for i in range(lanes))))
    out.put("inserted", b.insert(b.insert(x, b.extract(x, lanes - 1), 0), b.const(3, d), lanes // 2))
    out.put("mask inserted", b.insert(m, b.extract(m, 1), 0))
    out.put("splat", b.splat(b.extract(x, 1), lanes))
    out.put("half", b.splat(b.extract(b.shuffle(x, x, tuple(range(lanes // 2, lanes))), 0), lanes))
    out.put("lane numbers", b.op("add", x, b.const(tuple(range(lanes)), d, lanes)))
    out.put("mask of constants", b.op("and", m, b.const(tuple(k % 3 == 0 for k in range(lanes)), bool_, lanes)))


def _memory(out: _Rows, d: DType, x: Val, m: Val, phase: Phase, lanes: int, i: int) -> None:
    b, at = out.b, out.at
    here = Mem("param", i + 1, d, align=d.size)
    few = b.op("lt", phase.item, b.const(4))
    out.put("load if one", b.load(here, at, lanes, few if lanes == 1 else b.splat(few, lanes)))
    out.put("masked load", b.load(here, at, lanes, m))
    out.put("store", x, m)
    out.put("store if one", x, few if lanes == 1 else b.splat(few, lanes))
    if lanes == 1:
        return
    numbers = b.const(tuple((7 * k + 3) % lanes for k in range(lanes)), int64, lanes)
    where = b.op("add", numbers, b.splat(at, lanes))
    out.put("gather", b.gather(here, where))
    far = b.op("select", m, where, b.const(1 << 40, int64, lanes))
    out.put("masked gather", b.gather(here, far, m))
    rows = out.rows[d.name]
    wide = b.op("cast", b.op("cast", numbers, dtype=int32), dtype=int64)
    b.store(Mem("param", OUTPUT + EVERY.index(d.name), d, len(rows) * out.n, d.size), b.op("add", wide, b.splat(at, lanes)), x)
    rows.append(f"{out.what}: scatter")


def differences(got: Bench, want: Bench) -> list[str]:
    """Which rows differ in a bit (any NaN equals any other)."""
    found = []
    for (name, a), (_, b) in zip(got.outputs().items(), want.outputs().items(), strict=True):
        t, rows = name.removeprefix("y_"), got.rows[name.removeprefix("y_")]
        bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.itemsize]
        equal = a.view(bits) == b.view(bits)
        if dtype(t).is_float:
            equal |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
        for row, fine in zip(rows, equal.reshape(max(1, len(rows)), -1), strict=False):
            if not fine.all():
                k = int(np.argmin(fine)) + rows.index(row) * fine.size
                found.append(f"{row}: {a[k]!r} is not {b[k]!r}, {int((~fine).sum())} of {fine.size}")
    return found


Run = Callable[[Program, Sequence[Any]], None]
