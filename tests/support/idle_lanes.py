"""Programs whose vectors have lanes that a mask leaves out (`lane_operations`), run natively and by the interpreter: they must agree in
every bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import guarded
import numpy as np
from lane_operations import TYPES, Rows, operations, ways_of
from tilewright.devices.cpu import c_compiler as cc
from tilewright.devices.cpu.engine import Code, compile_text
from tilewright.interp import Interpreter
from tilewright.ir.dtypes import DType, bool_, dtype, int64
from tilewright.ir.node import const, sym
from tilewright.program.abi import entry
from tilewright.program.builder import Builder
from tilewright.program.program import Block, Instr, Mem, Param, Program, Val, bodies, statements
from tilewright.renderers import Source, render
from tilewright.targets import Target

DATA, COUNTED = "data", "counted"
"""Masks that nobody knows while code is written: one that is read, and one that says how many lanes are on."""
Mask = tuple[bool, ...] | str


@dataclass
class Bench:
    """A Program, and what each row of an output is. `asked`: whether a mask is one that a run decides."""

    program: Program
    rows: dict[str, list[str]]
    lanes: int
    asked: bool

    def arrays(self, seed: int, on: Sequence[bool]) -> list[Any]:
        """Arrays for one run, the lanes of masks that are read among them."""
        out: list[Any] = []
        for p in self.program.params:
            size = p.shape[0]
            assert isinstance(size, int)
            if p.name == "x":
                out.append(draw(p.dtype, size, seed))
            elif p.name == "m":
                out.append(np.array(on, bool))
            else:
                out.append(np.full(size * p.dtype.size, 0xEE, np.uint8).view(p.dtype.np))
        return out


def draw(d: DType, n: int, seed: int) -> Any:
    """Numbers of a type, many of them awkward."""
    rng = np.random.default_rng(seed)
    if d.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if not d.is_float:
        some = rng.integers(np.iinfo(d.name).min, np.iinfo(d.name).max, n, d.name, endpoint=True)
        special: Any = np.array([0, 1, 2, 7, np.iinfo(d.name).max, np.iinfo(d.name).min], d.name)
    else:
        some = rng.choice([rng.normal(0, 3, n), rng.normal(0, 1000, n), 2.0 ** rng.uniform(-20, 20, n)])
        special = np.array([0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan, 1e-38, 3e38, 5e-324])
    with np.errstate(all="ignore"):
        return np.where(rng.random(n) < 0.25, rng.choice(special, n), some).astype(d.np)


def masks(lanes: int, few: bool) -> list[Mask]:
    """Masks of so many lanes: those of every length from the first lane on, and some with lanes elsewhere."""
    lengths = {0, 1, 2, 3, lanes // 2, lanes // 2 + 1, lanes - 1} if few else set(range(lanes + 1))
    found: list[Mask] = [tuple(i < n for i in range(lanes)) for n in sorted(lengths) if 0 <= n <= lanes]
    ends = [i in (0, lanes - 1) for i in range(lanes)]
    others = [
        [i % 2 == 1 for i in range(lanes)],
        ends,
        [not e for e in ends],
        [i >= lanes // 2 for i in range(lanes)],
        [i == lanes // 2 for i in range(lanes)],
    ]
    return [*dict.fromkeys([*found, *map(tuple, others)]), DATA, COUNTED]


def bench(d: DType, lanes: int, masks: Sequence[Mask], features: frozenset[str], chosen: Callable[[str, int], bool]) -> Bench:
    """The Program of all operations on a type, a phase each, under masks in turns. `chosen`: which of the things that are done with an
    operation's result, by number."""
    b, symbol = Builder(features=features), sym("n", 0, lanes)
    rows: dict[str, list[str]] = {name: [] for name in TYPES}
    phases, first = [], 0
    for i, (name, make) in enumerate(operations(d, features).items()):
        mask, ways = masks[i % len(masks)], ways_of(d, name)
        with b.phase(const(1), (symbol,)) as phase:
            if mask == COUNTED:
                on = b.op("lt", b.const(tuple(range(lanes)), int64, lanes), phase.vars[0])
            elif mask == DATA:
                on = b.load(Mem("param", 1, bool_), b.const(0), lanes)
            else:
                on = b.const(tuple(mask), bool_, lanes)
            shown = mask if isinstance(mask, str) else "".join("01"[x] for x in mask)
            r = Rows(b, d, lanes, on, b.const(0), first, f"{name} under {shown}", rows)
            for n, way in enumerate(ways.values()):
                if chosen(name, n):
                    way(r, make)
            first = r.first
        phases.append(phase)
    inputs = [Param("x", d, (first + 1,), "in"), Param("m", bool_, (lanes,), "in")]
    outputs = [Param(f"y_{name}", dtype(name), (max(1, len(rows[name])) * lanes,), "out") for name in TYPES]
    program = Program("idle_lanes", (*inputs, *outputs), (symbol,), phases, scratch=64 * lanes)
    return Bench(rounding(program, features), rows, lanes, not {DATA, COUNTED}.isdisjoint(masks))


def rounding(program: Program, features: frozenset[str]) -> Program:
    """A Program as a target without fma computes it: a product and a sum are rounded each."""
    if "fma" in features:
        return program
    for phase in program.phases:
        made = [s.out.id for s in statements(phase.body) if isinstance(s, Instr) and s.out is not None]
        _unfused(phase.body, iter(range(1_000_000 + max(made, default=0), 10_000_000)))
    return program


def _unfused(block: Block, fresh: Iterator[int]) -> None:
    stmts = list(block.stmts)
    block.stmts.clear()
    for s in stmts:
        for body in bodies(s):
            _unfused(body, fresh)
        if isinstance(s, Instr) and s.op == "fma" and s.result.dtype.is_float:
            out = s.result
            product = Val(next(fresh), out.dtype, out.lanes, out.depth)
            block.stmts += [Instr("mul", product, s.args[:2]), Instr("add", out, (product, s.args[2]))]
        else:
            block.stmts.append(s)


def built(source: Source) -> Code:
    """A source as LLVM, or the C compiler, makes code of it here."""
    names = _entries(source)
    if source.lang == "c":
        return Code([cc.compile_c(source.text, source.target, cc.find())], names)
    return Code([compile_text(source.text, source.target, native=True)], names)


def _entries(source: Source) -> tuple[str, ...]:
    """The names of the functions of its phases."""
    name = entry if source.lang == "c" else type(source.signature).entry
    return tuple(name(source.signature, i) for i in range(len(source.signature.items)))


def called(code: Code, name: str, x: Any, y: Any) -> Any:
    """What a function writes of two arrays into one of four float32."""
    out = guarded.array(np.full(4, 7, np.float32))
    x, y = guarded.array(x), guarded.array(y)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(code.address(name))(
        x.ctypes.data, y.ctypes.data, out.ctypes.data
    )
    return out


def run_native(code: Code, source: Source, arrays: Sequence[Any], vars: Sequence[int] = ()) -> None:
    """Run every phase on arrays between guard pages."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    given, names = dict(zip(source.signature.symbols, vars, strict=True)), _entries(source)
    work, scratch = (guarded.array(np.zeros(size, np.uint8), 64) for size in (source.signature.work, source.signature.scratch))
    syms = np.array([*given.values(), 0], np.int64)
    with guarded.copies(arrays) as inside:
        bufs = np.array([a.ctypes.data for a in (*inside, work)], np.uint64)
        for name, items in zip(names, source.signature.items, strict=True):
            kind(code.address(name))(bufs.ctypes.data, syms.ctypes.data, scratch.ctypes.data, 0, items.arg)
    assert not any(map(guarded.broken, (work, scratch))), "the workspace or scratch was left"


def differences(bench: Bench, target: Target, seed: int) -> list[str]:
    """Which rows a compiler and the interpreter do not agree on (any NaN equals any other)."""
    source, lanes = render(bench.program, target), bench.lanes
    code, interpreter, found = built(source), Interpreter(bench.program), []
    some = np.random.default_rng(seed).random(lanes) < 0.5
    lengths = range(0, lanes + 1, max(1, lanes // 8)) if bench.asked else [0]
    for n, on in [*((n, [i < n for i in range(lanes)]) for n in lengths), *([(lanes, some)] if bench.asked else [])]:
        got, want = bench.arrays(seed, on), bench.arrays(seed, on)
        run_native(code, source, got, [n])
        interpreter.run(want, [n])
        found += [f"{text} ({n} counted)" for text in rows_that_differ(bench, got, want)]
    code.close()
    return found


def rows_that_differ(bench: Bench, got: Sequence[Any], want: Sequence[Any]) -> list[str]:
    """Rows of two runs' outputs that differ."""
    outputs = [(p, a, b) for p, a, b in zip(bench.program.params, got, want, strict=True) if p.role == "out"]
    return [text for p, a, b in outputs for text in separate_rows(bench.rows[p.dtype.name], a, b)]


def separate_rows(rows: Sequence[str], got: Any, want: Any) -> Iterator[str]:
    """Rows of two arrays that differ in a bit; the sign of a zero does not count where zeros are compared."""
    bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[got.itemsize]
    equal, zero = got.view(bits) == want.view(bits), (got == 0) & (want == 0)
    if dtype(got.dtype.name).is_float:
        equal |= np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    for i, row in enumerate(rows):
        part = slice(i * len(got) // max(1, len(rows)), (i + 1) * len(got) // max(1, len(rows)))
        fine = equal[part] | (zero[part] if any(w in row for w in ("max", "min")) else False)
        if not fine.all():
            k = int(np.argmin(fine))
            yield f"{row}: lane {k} is {got[part][k]!r} and not {want[part][k]!r}"
