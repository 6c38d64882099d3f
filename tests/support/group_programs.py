"""Hand-built Programs whose phases have groups of threads: what lowering makes of LOCAL, GROUP and STAGE, small enough to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.dtypes import DType, float32, index
from tilewright.ir.node import const
from tilewright.program.builder import Builder
from tilewright.program.program import AsyncCopy, Mem, Param, Phase, Program, Val

Ends = Sequence[tuple[DType, int]]


def param(i: int, dtype: DType = float32, offset: int = 0, align: int = 1) -> Mem:
    """Memory of the i-th parameter."""
    return Mem("param", i, dtype, offset, align)


def shared(base: int = 0, offset: int = 0, dtype: DType = float32, align: int = 1) -> Mem:
    """A piece of the group's memory."""
    return Mem("shared", base, dtype, offset, align)


def scratch(base: int = 0, dtype: DType = float32) -> Mem:
    """A piece of a thread's own memory."""
    return Mem("scratch", base, dtype)


def program(
    body: Callable[[Builder, Phase], None], ins: Ends = (), outs: Ends = (), items: int = 1, threads: int = 8, **kw: int
) -> Program:
    """A Program of one phase over flat parameters [(dtype, count)]; body(builder, phase)."""
    params = [Param(f"x{i}", d, (n,), "in") for i, (d, n) in enumerate(ins)]
    params += [Param(f"y{i}", d, (n,), "out") for i, (d, n) in enumerate(outs)]
    b = Builder(expand=False)
    with b.phase(const(items), (), threads) as phase:
        body(b, phase)
    return Program("test", tuple(params), (), [phase], **kw)


def matmul(
    m: int = 32,
    n: int = 32,
    k: int = 24,
    block: int = 16,
    deep: int = 8,
    copies: int = 4,
    pad: int = 0,
    barriers: bool = False,
    stored: int | None = None,
) -> Program:
    """C[m,n] = A[m,k] B[k,n]: a group makes a block × block tile, a thread copies × copies of it; tiles of A and B, `deep` along k, go
    through shared memory (rows of A `deep + pad` apart, unless they are `stored` otherwise by mistake). Blocks must divide; barriers only
    where asked for."""
    side = block // copies
    threads, pitch = side * side, deep + pad
    b, A, B = Builder(expand=False), shared(0), shared(4 * block * pitch)

    def times(v: Val, c: int) -> Val:
        return b.op("mul", v, b.const(c))

    with b.phase(const((m // block) * (n // block)), (), threads) as phase:
        t = phase.thread
        assert t is not None
        top, left = times(b.op("idiv", phase.item, attr=n // block), block), times(b.op("imod", phase.item, attr=n // block), block)
        row, column = times(b.op("idiv", t, attr=side), copies), times(b.op("imod", t, attr=side), copies)
        with b.loop("k.t", b.const(0), b.const(k), deep, [b.const(0.0, float32)] * copies**2) as outer:
            fills = []
            for step in range(block * deep // threads):
                at = b.op("add", t, b.const(step * threads))
                r, c = b.op("idiv", at, attr=deep), b.op("imod", at, attr=deep)
                source = b.op("add", times(b.op("add", top, r), k), b.op("add", outer.var, c))
                fills.append((A, b.op("add", times(r, stored or pitch), c), b.load(param(0), source, invariant=True)))
                r, c = b.op("idiv", at, attr=block), b.op("imod", at, attr=block)
                source = b.op("add", times(b.op("add", outer.var, r), n), b.op("add", left, c))
                fills.append((B, at, b.load(param(1), source, invariant=True)))
            if barriers:
                b.barrier()
            for mem, at, v in fills:
                b.store(mem, at, v)
            if barriers:
                b.barrier()
            with b.loop("k", b.const(0), b.const(deep), 1, outer.carried) as inner:
                xs = [b.load(shared(A.base, i * pitch), b.op("add", times(row, pitch), inner.var)) for i in range(copies)]
                ys = [b.load(shared(B.base, j), b.op("add", times(inner.var, block), column)) for j in range(copies)]
                inner.yields = [b.op("fma", xs[i], ys[j], inner.carried[i * copies + j]) for i in range(copies) for j in range(copies)]
            outer.yields = inner.results
        at = b.op("add", times(b.op("add", top, row), n), b.op("add", left, column))
        for i in range(copies):
            for j in range(copies):
                b.store(param(2, offset=i * n + j), at, outer.results[i * copies + j])
    params = (Param("A", float32, (m, k), "in"), Param("B", float32, (k, n), "in"), Param("C", float32, (m, n), "out"))
    return Program("matmul", params, (), [phase], shared=4 * (block * pitch + deep * block))


def row_sums(m: int = 3, n: int = 200, threads: int = 64, warp: int = 32, barriers: bool = False) -> Program:
    """y[m] = Σ x[m,n]: a group sums a row; the warps' sums by shuffles, then one of each warp in shared memory, summed by all."""
    b, held, warps = Builder(expand=False), shared(0), threads // warp
    with b.phase(const(m), (), threads) as phase:
        t = phase.thread
        assert t is not None
        steps = -(-n // threads)
        with b.loop("n", b.const(0), b.const(steps), 1, [b.const(0.0, float32)]) as loop:
            at = b.op("add", b.op("mul", loop.var, b.const(threads)), t)
            x = b.load(param(0), b.op("add", b.op("mul", phase.item, b.const(n)), at), 1, b.op("lt", at, b.const(n)))
            loop.yields = [b.op("add", loop.carried[0], x)]
        total, distance = loop.results[0], warp // 2
        while distance:
            total = b.op("add", total, b.shfl_xor(total, distance))
            distance //= 2
        with b.when(b.op("eq", b.op("imod", t, attr=warp), b.const(0))):
            b.store(held, b.op("idiv", t, attr=warp), total)
        if barriers:
            b.barrier()
        total = b.const(0.0, float32)
        for w in range(warps):
            total = b.op("add", total, b.load(shared(0, w), b.const(0)))
        with b.when(b.op("eq", t, b.const(0))):
            b.store(param(1), phase.item, total)
    return Program("row_sums", (Param("x", float32, (m, n), "in"), Param("y", float32, (m,), "out")), (), [phase], shared=4 * warps)


THREADS, WIDE, STEPS = 32, 4, 6
"""Of `ring`: threads, elements that each copies at once, and steps."""
TILE = THREADS * WIDE


def ring(depth: int = 3, wait: int | None = None, slots: int | None = None, ahead: int | None = None, mask: bool = False) -> Program:
    """y[t] = Σ over steps of x[step, (t + 1) % threads] of tiles of 32 × 4 elements that go through a ring of `depth` slots in shared
    memory, a neighbour reading what a thread has copied; faults by the other arguments. `mask`: the second half of a tile is zeros."""
    slots = depth if slots is None else slots
    ahead = depth - 1 if ahead is None else ahead
    b = Builder(expand=False)

    def fill(step: Val) -> None:
        slot = b.op("mul", b.op("imod", step, attr=slots), b.const(TILE))
        at = b.op("mul", thread, b.const(WIDE))
        to = shared(0, align=16)
        copy = AsyncCopy(to, param(0, align=16), WIDE)
        source = b.op("add", b.op("mul", step, b.const(TILE)), at)
        b.copy_async(copy, b.op("add", slot, at), source, b.op("lt", thread, b.const(THREADS // 2)) if mask else None)

    with b.phase(const(1), (), THREADS) as phase:
        thread = phase.thread
        assert thread is not None
        for j in range(depth - 1):
            fill(b.const(j))
            b.commit()
        with b.loop("k", b.const(0), b.const(STEPS), 1, [b.const(0.0, float32)]) as loop:
            b.wait(depth - 2 if wait is None else wait)
            b.barrier()
            later = b.op("add", loop.var, b.const(ahead))
            with b.when(b.op("lt", later, b.const(STEPS))):
                fill(later)
            b.commit()
            slot = b.op("mul", b.op("imod", loop.var, attr=slots), b.const(TILE))
            other = b.op("mul", b.op("imod", b.op("add", thread, b.const(1)), attr=THREADS), b.const(WIDE))
            v = b.load(shared(0, align=16), b.op("add", slot, other), WIDE)
            total = loop.carried[0]
            for i in range(WIDE):
                total = b.op("add", total, b.extract(v, i))
            loop.yields = [total]
        b.store(param(1), thread, loop.results[0])
    params = (Param("x", float32, (STEPS * TILE,), "in"), Param("y", float32, (THREADS,), "out"))
    return Program("ring", params, (), [phase], shared=slots * TILE * 4, align=16)


def iota(b: Builder, lanes: int) -> Val:
    """(0, 1, 2, …)."""
    return b.const(tuple(range(lanes)), index, lanes)
