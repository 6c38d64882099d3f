"""Hand-built Programs for tensor cores: a matmul tile by `mma` whose operands come through shared memory by `ldmatrix`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tilewright.ir.dtypes import DType
from tilewright.ir.node import const
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Phase, Program, Val
from tilewright.targets.tensor_rows import BY_NAME, TensorRow

WARP = 32


@dataclass(frozen=True)
class Tile:
    """C (m, n) = A (m, k) · B (k, n, or n, k where `turned`) by one row of the table, in groups of `down` × `across` warps; a warp makes
    `high` × `wide` tiles of the row, and shared memory holds `deep` of k. Rows of 16-byte chunks change places by XOR with the row."""

    row: str
    m: int = 64
    n: int = 32
    k: int = 64
    down: int = 2
    across: int = 1
    high: int = 2
    wide: int = 4
    deep: int = 32
    turned: bool = False
    swizzle: bool = True
    barriers: bool = True
    generation: str = "hopper"
    mutant: str = ""

    @property
    def table(self) -> TensorRow:
        return BY_NAME[self.row]

    @property
    def rows(self) -> int:
        """Of C, a group."""
        return self.down * self.high * self.table.m

    @property
    def columns(self) -> int:
        return self.across * self.wide * self.table.n

    @property
    def threads(self) -> int:
        return WARP * self.down * self.across


class Writer:
    """Writes one phase of a `Tile`."""

    def __init__(self, tile: Tile, b: Builder, phase: Phase, first: int = 0) -> None:
        """`first`: the number of the parameter A; B and C come after it."""
        assert phase.thread is not None
        self.first = first
        self.t, self.b, self.thread = tile, b, phase.thread
        c = tile.n // tile.columns
        self.row0 = b.op("mul", b.op("idiv", phase.item, attr=c), b.const(tile.rows))
        self.col0 = b.op("mul", b.op("imod", phase.item, attr=c), b.const(tile.columns))
        self.lane = b.op("imod", phase.thread, attr=WARP)
        warp = b.op("idiv", phase.thread, attr=WARP)
        self.down, self.across = b.op("idiv", warp, attr=tile.across), b.op("imod", warp, attr=tile.across)
        size = tile.table.a.size
        self.chunk = 16 // size
        self.a = Mem("shared", 0, tile.table.a, 0, 16)
        self.second = tile.rows * tile.deep * size
        self.bm = Mem("shared", self.second, tile.table.b, 0, 16)
        # what lies in a row of B's tile
        self.inner, self.outer = (tile.deep, tile.columns) if tile.turned else (tile.columns, tile.deep)

    def plus(self, *xs: Val) -> Val:
        out = xs[0]
        for x in xs[1:]:
            out = self.b.op("add", out, x)
        return out

    def times(self, x: Val, k: int) -> Val:
        return self.b.op("mul", x, self.b.const(k))

    def place(self, row: Val, chunk: Val, width: int, swizzle: bool = True) -> Val:
        """The element where a chunk of a row of `width` elements begins."""
        chunks = width // self.chunk
        if self.t.swizzle and swizzle and chunks > 1:
            chunk = self.b.op("xor", chunk, self.b.op("and", row, self.b.const(chunks - 1)))
        return self.plus(self.times(row, width), self.times(chunk, self.chunk))

    def fill(self, mem: Mem, param: int, dtype: DType, first: Val, col: Val, rows: int, width: int, pitch: int) -> None:
        """Copies rows × width elements from (first, col) of a parameter."""
        b, chunks = self.b, width // self.chunk
        for i in range(-(-rows * chunks // self.t.threads)):
            number = self.plus(self.thread, b.const(i * self.t.threads))
            row, chunk = b.op("idiv", number, attr=chunks), b.op("imod", number, attr=chunks)
            source = self.plus(self.times(self.plus(first, row), pitch), col, self.times(chunk, self.chunk))
            with b.when(b.op("lt", number, b.const(rows * chunks))):
                value = b.load(Mem("param", self.first + param, dtype, 0, 16), source, self.chunk, invariant=True)
                b.store(mem, self.place(row, chunk, width), value)

    def fragment_a(self, i: int, s: int) -> Val:
        """A's fragment of tile row `i` at step `s` of k: matrices are rows 0-7 and 8-15 of the first chunks, then of the next."""
        t, b = self.t, self.b
        row = self.plus(self.times(self.down, t.high * t.table.m), b.const(i * t.table.m), b.op("imod", self.lane, attr=16))
        chunk = self.plus(b.const(s * t.table.k // self.chunk), b.op("idiv", self.lane, attr=16))
        at = self.place(row, chunk, t.deep, t.mutant != "swizzle")
        if t.mutant in ("stride", "element"):
            # rows that are thought to be a chunk, or an element, closer to each other than they are
            at = b.op("sub", at, b.op("mul", row, b.const(self.chunk if t.mutant == "stride" else 1)))
        return b.ldmatrix(self.a, at, t.table.elements("a"), t.mutant == "transposed")

    def fragment_b(self, j: int, s: int) -> Val:
        """B's fragment: two matrices. Rows of k are transposed on the way (16-bit types), rows of n are not."""
        t, b = self.t, self.b
        n0 = self.plus(self.times(self.across, t.wide * t.table.n), b.const(j * t.table.n))
        eight, matrix = b.op("imod", self.lane, attr=8), b.op("imod", b.op("idiv", self.lane, attr=8), attr=2)
        if t.turned:
            row, chunk = self.plus(n0, eight), self.plus(b.const(s * t.table.k // self.chunk), matrix)
        else:
            row = self.plus(b.const(s * t.table.k), self.times(matrix, 8), eight)
            chunk = b.op("idiv", n0, attr=self.chunk)
        return b.ldmatrix(self.bm, self.place(row, chunk, self.inner), t.table.elements("b"), not t.turned)

    def body(self) -> None:
        t, b, row = self.t, self.b, self.t.table
        zero = b.const(0, row.c, row.elements("c"))
        with b.loop("k", b.const(0), b.const(t.k), t.deep, [zero] * (t.high * t.wide)) as loop:
            if t.barriers:
                b.barrier()
            self.fill(self.a, 0, row.a, self.row0, loop.var, t.rows, t.deep, t.k)
            if t.turned:
                self.fill(self.bm, 1, row.b, self.col0, loop.var, self.outer, self.inner, t.k)
            else:
                self.fill(self.bm, 1, row.b, loop.var, self.col0, self.outer, self.inner, t.n)
            if t.barriers and t.mutant != "barrier":
                b.barrier()
            acc = list(loop.carried)
            for s in range(t.deep // row.k):
                fa = [self.fragment_a(i, s) for i in range(t.high)]
                fb = [self.fragment_b(j, s) for j in range(t.wide)]
                for i in range(t.high):
                    for j in range(t.wide):
                        acc[i * t.wide + j] = self.multiply(acc[i * t.wide + j], fa[i], fb[j])
            loop.yields = acc
        self.store(loop.results)

    def multiply(self, acc: Val, a: Val, b: Val) -> Val:
        if self.t.mutant != "lane":
            return self.b.mma(self.t.row, acc, a, b)
        with self.b.when(self.b.op("lt", self.lane, self.b.const(31))):
            self.b.mma(self.t.row, acc, a, b)
        return acc

    def store(self, results: list[Val]) -> None:
        t, b, row = self.t, self.b, self.t.table
        g, q = b.op("idiv", self.lane, attr=4), b.op("imod", self.lane, attr=4)
        for i in range(t.high):
            for j in range(t.wide):
                r = self.plus(self.row0, self.times(self.down, t.high * row.m), b.const(i * row.m), g)
                c = self.plus(self.col0, self.times(self.across, t.wide * row.n), b.const(j * row.n), self.times(q, 2))
                at = self.plus(self.times(r, t.n), c)
                for half in range(2):
                    pair = b.shuffle(results[i * t.wide + j], results[i * t.wide + j], (2 * half, 2 * half + 1))
                    b.store(Mem("param", self.first + 2, row.c, 8 * half * t.n, 2 * row.c.size), at, pair)


def matmul(*tiles: Tile) -> Program:
    """The Program of some tiles of one generation, a phase each, with parameters A0, B0, C0, A1 …; see `Tile`. `mutant` leaves something
    out or does it wrong."""
    b, phases, params, shared = Builder(), [], [], 0
    for i, tile in enumerate(tiles):
        row = tile.table
        shape = (tile.n, tile.k) if tile.turned else (tile.k, tile.n)
        params += [Param(f"A{i}", row.a, (tile.m, tile.k), "in"), Param(f"B{i}", row.b, shape, "in")]
        params += [Param(f"C{i}", row.c, (tile.m, tile.n), "out")]
        with b.phase(const(tile.m // tile.rows * (tile.n // tile.columns)), (), tile.threads) as phase:
            writer = Writer(tile, b, phase, 3 * i)
            writer.body()
        phases.append(phase)
        shared = max(shared, writer.second + tile.deep * tile.columns * row.b.size)
    return Program("tensor_matmul", tuple(params), (), phases, shared=shared, align=16, generation=tiles[0].generation)


def operands(tile: Tile, rng: np.random.Generator, how: str = "small") -> list[Any]:
    """A, B and an empty C: small whole numbers, of which sums are exact; `near` one; or any `bits`."""
    row, shapes = tile.table, ((tile.m, tile.k), (tile.n, tile.k) if tile.turned else (tile.k, tile.n))
    out = []
    for dtype, shape in zip((row.a, row.b), shapes, strict=True):
        if how == "bits":
            size = 8 * dtype.size
            out.append(rng.integers(0, 2**size, shape, np.uint64).astype(f"uint{size}").view(dtype.np))
        elif how == "near" and dtype.is_float:
            out.append(rng.standard_normal(shape).astype(dtype.np))
        else:
            out.append(rng.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype.np))
    return [*out, np.zeros((tile.m, tile.n), row.c.np)]


def product(tile: Tile, arrays: Sequence[Any]) -> Any:
    """A · B in float64."""
    a, b = (np.asarray(x, np.float64) for x in arrays[:2])
    return a @ (b.T if tile.turned else b)
