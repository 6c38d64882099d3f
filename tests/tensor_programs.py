"""Hand-built Programs for tensor cores: a matmul tile by `mma` whose operands come through shared memory by `ldmatrix`."""

from __future__ import annotations

from dataclasses import dataclass

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

    def __init__(self, tile: Tile, b: Builder, phase: Phase) -> None:
        assert phase.thread is not None
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
                value = b.load(Mem("param", param, dtype, 0, 16), source, self.chunk, invariant=True)
                b.store(mem, self.place(row, chunk, width), value)

    def fragment_a(self, i: int, s: int) -> Val:
        """A's fragment of tile row `i` at step `s` of k: matrices are rows 0-7 and 8-15 of the first chunks, then of the next."""
        t, b = self.t, self.b
        row = self.plus(self.times(self.down, t.high * t.table.m), b.const(i * t.table.m), b.op("imod", self.lane, attr=16))
        chunk = self.plus(b.const(s * t.table.k // self.chunk), b.op("idiv", self.lane, attr=16))
        swizzle = t.mutant != "swizzle"
        return b.ldmatrix(self.a, self.place(row, chunk, t.deep, swizzle), t.table.elements("a"), t.mutant == "transposed")

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
            b.barrier()
            self.fill(self.a, 0, row.a, self.row0, loop.var, t.rows, t.deep, t.k)
            if t.turned:
                self.fill(self.bm, 1, row.b, self.col0, loop.var, self.outer, self.inner, t.k)
            else:
                self.fill(self.bm, 1, row.b, loop.var, self.col0, self.outer, self.inner, t.n)
            if t.mutant != "barrier":
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
                    b.store(Mem("param", 2, row.c, 8 * half * t.n, 2 * row.c.size), at, pair)


def matmul(tile: Tile) -> Program:
    """The Program of a tile; see `Tile`. `mutant` leaves something out or does it wrong."""
    row = tile.table
    shape = (tile.n, tile.k) if tile.turned else (tile.k, tile.n)
    params = (Param("A", row.a, (tile.m, tile.k), "in"), Param("B", row.b, shape, "in"), Param("C", row.c, (tile.m, tile.n), "out"))
    b = Builder()
    with b.phase(const(tile.m // tile.rows * (tile.n // tile.columns)), (), tile.threads) as phase:
        writer = Writer(tile, b, phase)
        writer.body()
    shared = writer.second + tile.deep * tile.columns * row.b.size
    generation = tile.generation if row.rules else ""
    return Program("tensor_matmul", params, (), [phase], shared=shared, align=16, generation=generation)
