"""A hand-built Program of two products in a chain, as attention has them: what the first gives goes into the second out of registers, and
the second's accumulator is scaled between two steps."""

from __future__ import annotations

import numpy as np
from tilewright.ir.dtypes import bfloat16, float32
from tilewright.ir.node import const
from tilewright.program import hopper_calls as hc
from tilewright.program.builder import Builder
from tilewright.program.hopper import BoxLoad, MBar, SharedOperand, TensorMap, WarpgroupProduct
from tilewright.program.program import Mem, Param, Program, Val

TILE, BYTES = 64, 8192
"""Rows and columns of every tile, and its bytes."""
SCALE, DECAY = 0.125, 0.5


def chain(steps: int) -> Program:
    """O (64, 64) = Σ over tiles j of DECAY^(steps − 1 − j) · bf16(SCALE · Q · K_jᵀ) · V_j; Q (64, 64), K and V (64 · steps, 64)."""
    b, thread = Builder(), None
    bar = MBar(3 * BYTES, 2, 1)
    q_k = WarpgroupProduct("wgmma.m64n64k16.bf16", SharedOperand(BYTES, bfloat16), SharedOperand(0, bfloat16))
    p_v = WarpgroupProduct("wgmma.m64n64k16.bf16", SharedOperand(2 * BYTES, bfloat16, 1024, BYTES, True))
    with b.phase(const(1), (), 128) as phase:
        thread = phase.thread
        assert thread is not None
        zero, first = b.const(0), b.op("eq", thread, b.const(0))
        with b.when(first):
            hc.init(b, bar)
        b.barrier()
        with b.when(first):
            hc.expect(b, bar, zero, b.const(BYTES))
            hc.load(b, BoxLoad(0, 0, bar), zero, zero, [zero, zero])
        hc.wait(b, bar, zero, zero)
        none = b.const(0.0, float32, 32)
        with b.loop("keys", zero, b.const(steps), 1, [none]) as j:
            top = b.op("mul", j.var, b.const(TILE))
            with b.when(first):
                hc.expect(b, bar, b.const(1), b.const(2 * BYTES))
                for number in (1, 2):
                    hc.load(b, BoxLoad(number, number * BYTES, bar), b.const(1), zero, [zero, top])
            hc.wait(b, bar, b.const(1), b.op("imod", j.var, attr=2))
            hc.fence(b)
            s = none
            for i in range(4):
                at = b.const(16 * i)
                s = hc.product(b, q_k, s, at, at)
            hc.commit(b)
            hc.finish(b)
            s = hc.result(b, s)
            p = b.op("cast", b.op("mul", s, b.const(SCALE, float32)), dtype=bfloat16)
            o = b.op("mul", j.carried[0], b.const(DECAY, float32))
            parts = [b.shuffle(p, p, tuple(range(8 * i, 8 * i + 8))) for i in range(4)]
            hc.fence(b)
            for i, part in enumerate(parts):
                o = hc.product(b, p_v, o, part, b.const(1024 * i))
            hc.commit(b)
            hc.finish(b)
            j.yields = [hc.result(b, o)]
            b.barrier()
        _write(b, thread, j.results[0])
    params = tuple(Param(n, bfloat16, (TILE * (1 if n == "Q" else steps), TILE), "in") for n in "QKV")
    maps = tuple(TensorMap(i, bfloat16, (TILE, p.shape[0]), (TILE,), (TILE, TILE)) for i, p in enumerate(params))
    out = Param("O", float32, (TILE, TILE), "out")
    return Program("chain", (*params, out), (), [phase], shared=3 * BYTES + 16, maps=maps, align=16)


def _write(b: Builder, thread: Val, o: Val) -> None:
    lane = b.op("imod", thread, attr=32)
    top = b.op("add", b.op("mul", b.op("idiv", thread, attr=32), b.const(16)), b.op("idiv", lane, attr=4))
    left = b.op("mul", b.op("imod", lane, attr=4), b.const(2))
    for i in range(0, 32, 2):
        row, col = b.op("add", top, b.const(8 * (i // 2 % 2))), b.op("add", left, b.const(8 * (i // 4)))
        b.store(Mem("param", 3, float32, align=8), b.op("add", b.op("mul", row, b.const(TILE)), col), b.shuffle(o, o, (i, i + 1)))


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """O in float64, with the first product rounded to bfloat16."""
    out = np.zeros((TILE, TILE))
    for j in range(0, len(k), TILE):
        p = (q.astype(np.float64) @ k[j : j + TILE].astype(np.float64).T * SCALE).astype(np.float32).astype(bfloat16.np)
        out = DECAY * out + p.astype(np.float64) @ v[j : j + TILE].astype(np.float64)
    return out
