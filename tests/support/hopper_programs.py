"""Hand-built Programs of Hopper's units: a matrix product by TMA, mbarriers and wgmma, as lowering is to write it, with its variants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tilewright.ir.dtypes import DType, bool_, dtype, float32, int32
from tilewright.ir.node import const
from tilewright.program import hopper_calls as hc
from tilewright.program.builder import Builder
from tilewright.program.hopper import BoxLoad, BoxStore, MBar, SharedOperand, TensorMap, WarpgroupProduct
from tilewright.program.program import AsyncCopy, Mem, Param, Program, Val
from tilewright.targets.tensor_rows import wgmma_row

SUFFIX = {"bfloat16": "bf16", "float16": "f16", "float32": "tf32", "int8": "s8", "float8_e4m3": "e4m3"}


@dataclass(frozen=True)
class Gemm:
    """C (m, n) = A (m, k) · B. `b_along`: whether k or n is consecutive in B, which is (n, k) or (k, n). A group makes 64 · `consumers`
    rows and `columns` columns. `roles`: a producer and consumers, else all threads do everything. `a_registers`: A comes in fragments.
    `cluster`: groups that share their columns of B. `staged`: C goes through shared memory and TMA. `copied`
    (without roles, whole tiles): all threads copy the tiles, by copies of their own that a proxy_fence follows."""

    m: int
    n: int
    k: int
    type: str = "bfloat16"
    columns: int = 64
    slots: int = 3
    consumers: int = 1
    roles: bool = True
    b_along: str = "k"
    a_registers: bool = False
    cluster: int = 1
    staged: bool = False
    registers: bool = True
    copied: bool = False

    @property
    def a(self) -> DType:
        return dtype(self.type)

    @property
    def c(self) -> DType:
        return int32 if self.a.is_int else float32

    @property
    def deep(self) -> int:
        """Elements of k in 128 bytes: a tile's."""
        return 128 // self.a.size

    @property
    def rows(self) -> int:
        return 64 * self.consumers

    @property
    def a_bytes(self) -> int:
        return self.rows * 128

    @property
    def b_bytes(self) -> int:
        return self.columns * 128

    @property
    def slot_bytes(self) -> int:
        return self.a_bytes + self.b_bytes

    @property
    def tiles(self) -> tuple[int, int]:
        up = -(-self.m // self.rows)
        return -(-up // self.cluster) * self.cluster, -(-self.n // self.columns)


def gemm(g: Gemm) -> Program:
    """The Program of a `Gemm`."""
    return _Writer(g).program()


def operands(g: Gemm, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A, B as it is stored, C of NaN or zeros)."""
    rng = np.random.default_rng(seed)
    shape = (g.n, g.k) if g.b_along == "k" else (g.k, g.n)
    if g.a.is_int:
        a, b = rng.integers(-128, 127, (g.m, g.k)).astype(g.a.np), rng.integers(-128, 127, shape).astype(g.a.np)
        return a, b, np.zeros((g.m, g.n), np.int32)
    a, b = rng.standard_normal((g.m, g.k)).astype(g.a.np), rng.standard_normal(shape).astype(g.a.np)
    return a, b, np.full((g.m, g.n), np.nan, np.float32)


def worst(g: Gemm, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """The largest error of C, by the sum of the absolute products; NaN counts as 9."""
    x, y = a.astype(np.float64), (b.T if g.b_along == "k" else b).astype(np.float64)
    return float(np.nan_to_num(np.abs(c - x @ y) / (np.abs(x) @ np.abs(y) + 1e-30), nan=9.0).max())


class _Writer:
    def __init__(self, g: Gemm) -> None:
        self.g, self.b = g, Builder()
        rows = wgmma_row(SUFFIX[g.type], g.columns)
        self.row, size = rows, g.a.size
        self.staging = g.slots * g.slot_bytes
        tiles = self.staging + (g.rows * g.columns * 4 if g.staged else 0)
        # threads that read A by loads each tell when they are done; of a wgmma, which is one thing of 128 threads, one does
        arrivals = g.consumers * g.cluster * (128 if g.a_registers else 1)
        self.full, self.empty = MBar(tiles, g.slots, 1), MBar(tiles + 8 * g.slots, g.slots, arrivals)
        self.shared = tiles + 16 * g.slots
        across = g.b_along == "n"
        self.product = WarpgroupProduct(
            rows.name,
            SharedOperand(g.a_bytes, g.a, 1024, g.deep * 128 if across else 16, across),
            None if g.a_registers else SharedOperand(0, g.a),
        )
        part = g.columns // g.cluster
        b_dims, b_box = ((g.k, g.n), (g.deep, part)) if not across else ((g.n, g.k), (128 // size, g.deep))
        maps = [TensorMap(0, g.a, (g.k, g.m), (g.k,), (g.deep, g.rows)), TensorMap(1, g.a, b_dims, (b_dims[0],), b_box)]
        if g.staged:
            maps.append(TensorMap(2, g.c, (g.n, g.m), (g.n,), (g.columns, 64), 0))
        self.maps = tuple(maps)

    def program(self) -> Program:
        g, b = self.g, self.b
        threads = 128 * (g.consumers + g.roles)
        tiles = g.tiles
        with b.phase(const(tiles[0] * tiles[1]), (), threads, g.cluster) as phase:
            self.phase = phase
            assert phase.thread is not None
            self.thread: Val = phase.thread
            self.row0 = b.op("mul", b.op("imod", phase.item, attr=tiles[0]), b.const(g.rows))
            self.col0 = b.op("mul", b.op("idiv", phase.item, attr=tiles[0]), b.const(g.columns))
            self.rank = b.op("imod", phase.item, attr=g.cluster)
            with b.when(b.op("eq", self.thread, b.const(0))):
                hc.init(b, self.full)
                hc.init(b, self.empty)
            self.together()
            (self.in_roles if g.roles else self.all_in_one)()
            if g.cluster > 1:
                hc.cluster_barrier(b)
        shape = (g.n, g.k) if g.b_along == "k" else (g.k, g.n)
        params = (Param("A", g.a, (g.m, g.k), "in"), Param("B", g.a, shape, "in"), Param("C", g.c, (g.m, g.n), "out"))
        return Program("gemm", params, (), [phase], shared=self.shared, maps=self.maps, align=16)

    def together(self) -> None:
        if self.g.cluster > 1:
            hc.cluster_barrier(self.b)
        else:
            self.b.barrier()

    @property
    def blocks(self) -> Val:
        return self.b.const(-(-self.g.k // self.g.deep))

    def ring(self, block: Val) -> tuple[Val, Val]:
        """(slot, parity) of a block of k."""
        b, n = self.b, self.g.slots
        return b.op("imod", block, attr=n), b.op("imod", b.op("idiv", block, attr=n), attr=2)

    # the two ways ---------------------------------------------------------------------------------------------------------
    def in_roles(self) -> None:
        g, b = self.g, self.b
        registers = (0, 0) if not g.registers else (40, 232) if g.consumers == 2 else (40, 240)
        with b.roles() as roles:
            with b.role(roles, "producer", 0, 128, registers[0]):
                self.produce()
            with b.role(roles, "consumers", 128, 128 * g.consumers, registers[1]):
                warpgroup = b.op("sub", b.op("idiv", self.thread, attr=128), b.const(1))
                first = b.op("eq", b.op("imod", self.thread, attr=128), b.const(0))
                acc = b.const(0 if g.c.is_int else 0.0, g.c, self.row.elements("c"))
                with b.loop("k", b.const(0), self.blocks, 1, [acc]) as k:
                    slot, parity = self.ring(k.var)
                    hc.wait(b, self.full, slot, parity)
                    out = self.multiply(k.carried[0], slot, warpgroup)
                    hc.commit(b)
                    hc.finish(b)
                    self.release(slot, first)
                    k.yields = [out]
                self.write(hc.result(b, k.results[0]), warpgroup, first)

    def produce(self) -> None:
        """One thread fills the slots as they become empty."""
        b = self.b
        with b.when(b.op("eq", self.thread, b.const(0))), b.loop("k", b.const(0), self.blocks) as k:
            slot, parity = self.ring(k.var)
            hc.wait(b, self.empty, slot, b.op("sub", b.const(1), parity))
            self.fill(slot, k.var)

    def release(self, slot: Val, first: Val) -> None:
        """Give a slot back to all producers of the cluster."""
        g, b = self.g, self.b
        with b.when(b.const(True, bool_) if g.a_registers else first):
            for rank in range(g.cluster):
                hc.arrive(b, self.empty, slot, b.const(rank) if g.cluster > 1 else None)

    def all_in_one(self) -> None:
        g, b = self.g, self.b
        if g.copied:
            return self.by_copies()
        warpgroup = b.op("idiv", self.thread, attr=128)
        first = b.op("eq", self.thread, b.const(0))
        count = -(-g.k // g.deep)
        with b.when(first), b.loop("fill", b.const(0), b.const(min(g.slots, count))) as k:
            self.fill(k.var, k.var)
        acc = b.const(0 if g.c.is_int else 0.0, g.c, self.row.elements("c"))
        with b.loop("k", b.const(0), self.blocks, 1, [acc]) as k:
            slot, parity = self.ring(k.var)
            hc.wait(b, self.full, slot, parity)
            out = self.multiply(k.carried[0], slot, warpgroup, b.op("lt", b.const(0), k.var))
            hc.commit(b)
            hc.finish(b)
            b.barrier()
            later = b.op("add", k.var, b.const(g.slots))
            with b.when(b.op("and", first, b.op("lt", later, self.blocks))):
                self.fill(slot, later)
            k.yields = [out]
        self.write(hc.result(b, k.results[0]), warpgroup, b.op("eq", b.op("imod", self.thread, attr=128), b.const(0)))

    def by_copies(self) -> None:
        """One slot: every thread copies chunks of 16 bytes to where the swizzle has them."""
        g, b = self.g, self.b
        warpgroup = b.op("idiv", self.thread, attr=128)
        each, zero = 16 // g.a.size, b.const(0)
        with b.loop("k", zero, self.blocks, 1, [b.const(0.0, g.c, self.row.elements("c"))]) as k:
            for number, (base, rows, top) in enumerate(((0, g.rows, self.row0), (g.a_bytes, g.columns, self.col0))):
                for i in range(rows * 8 // (128 * g.consumers)):
                    chunk = b.op("add", self.thread, b.const(i * 128 * g.consumers))
                    row, place = b.op("idiv", chunk, attr=8), b_mod(b, chunk, 8)
                    moved = b.op("add", b.op("mul", row, b.const(8)), b.op("xor", place, b_mod(b, row, 8)))
                    at = b.op("add", b.op("mul", b.op("add", top, row), b.const(g.k)), b.op("mul", k.var, b.const(g.deep)))
                    source = b.op("add", at, b.op("mul", place, b.const(each)))
                    what = AsyncCopy(Mem("shared", base, g.a, align=16), Mem("param", number, g.a, align=16), each)
                    b.emit("copy_async", b.op("mul", moved, b.const(each)), source, attr=what)
            b.emit("commit")
            b.emit("wait", attr=0)
            hc.proxy_fence(b)
            b.barrier()
            out = self.multiply(k.carried[0], zero, warpgroup)
            hc.commit(b)
            hc.finish(b)
            b.barrier()
            k.yields = [out]
        self.write(hc.result(b, k.results[0]), warpgroup, b.op("eq", b_mod(b, self.thread, 128), b.const(0)))

    # parts ----------------------------------------------------------------------------------------------------------------
    def fill(self, slot: Val, block: Val) -> None:
        """Send for both tiles of a block."""
        g, b = self.g, self.b
        hc.expect(b, self.full, slot, b.const(g.slot_bytes))
        at = b.op("mul", slot, b.const(g.slot_bytes // g.a.size))
        k = b.op("mul", block, b.const(g.deep))
        hc.load(b, BoxLoad(0, 0, self.full), slot, at, [k, self.row0])
        cast = (1 << g.cluster) - 1 if g.cluster > 1 else 0
        wide = 128 // g.a.size
        if g.b_along == "k":
            part = g.columns // g.cluster
            mine = b.op("mul", self.rank, b.const(part))
            to = b.op("add", at, b.op("mul", mine, b.const(wide)))
            hc.load(b, BoxLoad(1, g.a_bytes, self.full, cast), slot, to, [k, b.op("add", self.col0, mine)])
            return
        each = g.columns // wide // g.cluster
        for i in range(each):
            x = b.op("add", b.op("mul", self.rank, b.const(each)), b.const(i))
            to = b.op("add", at, b.op("mul", x, b.const(wide * g.deep)))
            hc.load(b, BoxLoad(1, g.a_bytes, self.full, cast), slot, to, [b.op("add", self.col0, b.op("mul", x, b.const(wide))), k])

    def multiply(self, acc: Val, slot: Val, warpgroup: Val, add: Val | None = None) -> Val:
        """acc and the products of a slot."""
        g, b = self.g, self.b
        at = b.op("mul", slot, b.const(g.slot_bytes // g.a.size))
        rows = b.op("add", at, b.op("mul", warpgroup, b.const(64 * g.deep)))
        steps = range(g.deep // self.row.k)
        mine = [self.fragment(rows, i) for i in steps] if g.a_registers else []
        hc.fence(b)
        for i in steps:
            along = b.op("add", at, b.const(i * self.row.k * (64 if g.b_along == "n" else 1)))
            a = mine[i] if g.a_registers else b.op("add", rows, b.const(i * self.row.k))
            acc = hc.product(b, self.product, acc, a, along, add if i == 0 else None)
        return acc

    def fragment(self, start: Val, step: int) -> Val:
        """This thread's elements of A for a step of k, by loads from the swizzled tile."""
        b, lane = self.b, b_mod(self.b, self.thread, 32)
        g8, q = b.op("idiv", lane, attr=4), b.op("imod", lane, attr=4)
        warp = b.op("idiv", b_mod(b, self.thread, 128), attr=32)
        parts = []
        for far in range(2):
            for up in range(2):
                row = b.op("add", b.op("add", b.op("mul", warp, b.const(16)), g8), b.const(8 * up))
                chunk = b.op("xor", b.const(step * 2 + far), b_mod(b, row, 8))
                at = b.op("add", b.op("add", b.op("mul", row, b.const(64)), b.op("mul", chunk, b.const(8))), b.op("mul", q, b.const(2)))
                parts.append(b.load(Mem("shared", 0, self.g.a, align=4), b.op("add", start, at), 2))
        low, high = (b.shuffle(x, y, (0, 1, 2, 3)) for x, y in (parts[:2], parts[2:]))
        return b.shuffle(low, high, tuple(range(8)))

    def write(self, acc: Val, warpgroup: Val, first: Val) -> None:
        """C's rows and columns, masked or through shared memory."""
        g, b = self.g, self.b
        lane = b_mod(b, self.thread, 32)
        g8, q = b.op("idiv", lane, attr=4), b.op("imod", lane, attr=4)
        warp = b.op("idiv", b_mod(b, self.thread, 128), attr=32)
        top = b.op("add", b.op("mul", warp, b.const(16)), g8)
        for i in range(0, acc.lanes, 2):
            row, col = b.op("add", top, b.const(8 * (i // 2 % 2))), b.op("add", b.op("mul", q, b.const(2)), b.const(8 * (i // 4)))
            pair = b.shuffle(acc, acc, (i, i + 1))
            if g.staged:
                at = b.op("add", b.op("mul", b.op("add", row, b.op("mul", warpgroup, b.const(64))), b.const(g.columns)), col)
                b.store(Mem("shared", self.staging, g.c, align=8), at, pair)
                continue
            y = b.op("add", self.row0, b.op("add", row, b.op("mul", warpgroup, b.const(64))))
            x = b.op("add", self.col0, col)
            with b.when(b.op("and", b.op("lt", y, b.const(g.m)), b.op("lt", x, b.const(g.n)))):
                b.store(Mem("param", 2, g.c, align=8), b.op("add", b.op("mul", y, b.const(g.n)), x), pair)
        if g.staged:
            hc.proxy_fence(b)
            if g.roles:
                hc.meet(b, 128)
            else:
                b.barrier()
            with b.when(first):
                down = b.op("mul", warpgroup, b.const(64))
                hc.store(b, BoxStore(2, self.staging), b.op("mul", down, b.const(g.columns)), [self.col0, b.op("add", self.row0, down)])
                hc.stored(b)


def b_mod(b: Builder, x: Val, n: int) -> Val:
    """x modulo n."""
    return b.op("imod", x, attr=n)
