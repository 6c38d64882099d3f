"""Hand-built Programs and a minimal way to run them: LLVM's MCJIT called through ctypes on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import guarded
import llvmlite.binding as llvm
import numpy as np
from tilewright import targets
from tilewright.ir.dtypes import DType, bfloat16, float32, int64
from tilewright.ir.dtypes import dtype as dtype_of
from tilewright.ir.node import const, sym
from tilewright.lower.arithmetic.elementary import expand
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program, Val
from tilewright.renderers import Source, render
from tilewright.targets import Target


def engine(source: Source) -> Any:
    """An MCJIT engine for the host holding `source`; the module is verified first."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    module = llvm.parse_assembly(source.text)
    module.verify()
    jit = llvm.create_mcjit_compiler(module, machine)
    jit.finalize_object()
    return jit


DISTINCT = tuple({t.features: t for t in (t for t in map(targets.named, targets.NAMES) if t.lang == "llvm")}.values())
"""One target for each set of instructions."""


def compile_for(target: Target, source: Source) -> tuple[str, bytes]:
    """(assembly, object) of `source` for any target, as a machine of that kind would build it."""
    machine, module = _machine_and_module(target, source)
    return machine.emit_assembly(module), machine.emit_object(module)


def object_for(target: Target, source: Source) -> bytes:
    """The object of `compile_for`, in half the time."""
    machine, module = _machine_and_module(target, source)
    return bytes(machine.emit_object(module))


def _machine_and_module(target: Target, source: Source) -> tuple[Any, Any]:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(opt=2, codemodel="default")
    module = llvm.parse_assembly(source.text)
    module.verify()
    return machine, module


def undefined(obj: bytes) -> list[str]:
    """The names that a 64-bit little-endian ELF object leaves to the linker."""

    def number(at: int, size: int) -> int:
        return int.from_bytes(obj[at : at + size], "little")

    headers, size, count = number(40, 8), number(58, 2), number(60, 2)
    sections = [
        (number(h + 4, 4), number(h + 24, 8), number(h + 32, 8), number(h + 40, 4)) for h in range(headers, headers + size * count, size)
    ]
    names = []
    for kind, start, length, link in sections:
        if kind == 2:  # the symbol table; an entry is 24 bytes, the first one empty
            strings = sections[link][1]
            for entry in range(start + 24, start + length, 24):
                if number(entry + 6, 2) == 0:
                    first = strings + number(entry, 4)
                    names.append(obj[first : obj.index(b"\0", first)].decode())
    return names


def run(program: Program, arrays: Sequence[Any], vars: Sequence[int] = (), target: Target | None = None, items: int | None = None) -> None:
    """Render for the host (or a lesser `target`) and run every phase on the arrays, in place."""
    jit = engine(render(program, target or targets.host()))
    work, scratch = arenas = [guarded.array(np.zeros(size, np.uint8), 64) for size in (program.work, program.scratch)]
    syms = guarded.array(np.array(vars or [0], np.int64))
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    with guarded.copies(arrays) as inside:
        bufs = guarded.array(np.array([a.ctypes.data for a in (*inside, work)], np.uint64))
        for i, phase in enumerate(program.phases):
            entry = kind(jit.get_function_address(program.signature.entry(i)))
            entry(bufs.ctypes.data, syms.ctypes.data, scratch.ctypes.data, 0, int(phase.items.arg) if items is None else items)
    assert not any(map(guarded.broken, arenas)), "the workspace or scratch was left"


def param(i: int, dtype: DType, offset: int = 0, nt: bool = False, align: int = 0) -> Mem:
    """Memory of the i-th parameter."""
    return Mem("param", i, dtype, offset, align or dtype.size, nt)


def elementwise(
    ins: Sequence[str], out: str, lanes: int, n: int, body: Callable[..., Val], features: frozenset[str] = frozenset()
) -> Program:
    """y[i] = body(builder, x0[i], x1[i], …) over n elements, a multiple of `lanes`; an item is one vector. `features`: the target's."""
    types = [dtype_of(t) for t in ins]
    params = (*(Param(f"x{i}", t, (n,), "in") for i, t in enumerate(types)), Param("y", dtype_of(out), (n,), "out"))
    b = Builder(features=features)
    with b.phase(const(n // lanes), ()) as phase:
        at = b.op("mul", phase.item, b.const(lanes))
        xs = [b.load(param(i, t), at, lanes) for i, t in enumerate(types)]
        b.store(param(len(types), dtype_of(out)), at, body(b, *xs))
    return Program("elementwise", params, (), [phase])


def apply(body: Callable[..., Val], arrays: Sequence[Any], out: str, lanes: int = 8, target: Target | None = None) -> Any:
    """Run `elementwise` on arrays of one length (padded to whole vectors); returns the result."""
    n = len(arrays[0])
    padded = [np.concatenate([a, np.ones(-n % lanes, a.dtype)]) for a in arrays]
    y = np.zeros(len(padded[0]), dtype_of(out).np)
    names = [a.dtype.name for a in arrays]
    features = (target or targets.host()).features
    run(elementwise(names, out, lanes, len(y), body, features), [*padded, y], target=target)
    return y[:n]


def matmul(m: int, n: int, k: int, rows: int = 8, vectors: int = 2, lanes: int = 16) -> Program:
    """C[m,n] = A[m,k] B[k,n] in register tiles of rows × (vectors · lanes). An item is a panel of B, packed into scratch."""
    width = vectors * lanes
    params = (Param("A", float32, (m, k), "in"), Param("B", float32, (k, n), "in"), Param("C", float32, (m, n), "out"))
    panel = [Mem("scratch", 0, float32, v * lanes, 64) for v in range(vectors)]
    b = Builder()
    with b.phase(const(n // width), ()) as phase:
        j = b.op("mul", phase.item, b.const(width))
        with b.loop("pack", b.const(0), b.const(k)) as pack:
            src = b.op("add", b.op("mul", pack.var, b.const(n)), j)
            dst = b.op("mul", pack.var, b.const(width))
            for v in range(vectors):
                b.store(panel[v], dst, b.load(param(1, float32, v * lanes), src, lanes))
        with b.loop("m", b.const(0), b.const(m), rows) as tile:
            row = b.op("mul", tile.var, b.const(k))
            with b.loop("k", b.const(0), b.const(k), 1, [b.const(0.0, float32, lanes)] * (rows * vectors)) as inner:
                at, dst = b.op("add", row, inner.var), b.op("mul", inner.var, b.const(width))
                ys = [b.load(mem, dst, lanes) for mem in panel]
                xs = [b.load(param(0, float32, r * k), at) for r in range(rows)]
                inner.yields = [b.op("fma", xs[r], ys[v], inner.carried[r * vectors + v]) for r in range(rows) for v in range(vectors)]
            out = b.op("add", b.op("mul", tile.var, b.const(n)), j)
            for r in range(rows):
                for v in range(vectors):
                    b.store(param(2, float32, r * n + v * lanes), out, inner.results[r * vectors + v])
    return Program("matmul", params, (), [phase], scratch=4 * k * width)


def grouped_sum(shuffles: bool) -> Program:
    """y[group] = Σ of 4·48 elements by 48 threads: four a thread, exchanged by shuffles or through shared memory,
    then added by thread 0."""
    threads, each = 48, 4
    params = (Param("x", float32, (3 * threads * each,), "in"), Param("y", float32, (3,), "out"))
    shared = Mem("shared", 64, float32, 0, 4)
    b = Builder()
    with b.phase(const(3), (), threads) as phase:
        assert phase.thread is not None
        number = b.op("add", b.op("mul", phase.item, b.const(threads)), phase.thread)
        x = b.load(param(0, float32, align=16), b.op("mul", number, b.const(each)), each)
        total = b.op("add", b.op("add", b.extract(x, 0), b.extract(x, 1)), b.op("add", b.extract(x, 2), b.extract(x, 3)))
        if shuffles:
            for distance in (8, 4, 2, 1):
                total = b.op("add", total, b.shfl_xor(total, distance))
        b.store(shared, phase.thread, total)
        b.barrier()
        with b.when(b.op("lt", phase.thread, b.const(1))):
            with b.loop(
                "warp" if shuffles else "thread", b.const(0), b.const(threads), 16 if shuffles else 1, [b.const(0.0, float32)]
            ) as loop:
                loop.yields = [b.op("add", loop.carried[0], b.load(shared, loop.var))]
            b.store(param(1, float32), phase.item, loop.results[0])
    return Program("grouped_sum", params, (), [phase], shared=64 + 4 * threads, align=16)


def masked_sum() -> Program:
    """y[0] = Σ x over a symbolic length: masked partial sums of items in the workspace, then a phase that adds them up."""
    n = sym("n", 1, 1000)
    work = Mem("work", 0, float32, align=4)
    b = Builder()
    with b.phase(const(4), (n,)) as partial:
        at = b.op("add", b.op("mul", partial.item, b.const(8)), b.const(tuple(range(8)), int64, 8))
        mask = b.op("lt", at, partial.vars[0])
        x = b.load(param(0, float32), b.op("mul", partial.item, b.const(8)), 8, mask)
        total = b.extract(x, 0)
        for lane in range(1, 8):
            total = b.op("add", total, b.extract(x, lane))
        b.store(work, partial.item, total)
    with b.phase(const(1), (n,)) as final:
        with b.loop("i", b.const(0), b.const(4), 1, [b.const(0.0, float32)]) as loop:
            loop.yields = [b.op("add", loop.carried[0], b.load(work, loop.var))]
        with b.when(b.op("lt", b.const(0), final.vars[0])):
            b.store(param(1, float32), b.const(0), loop.results[0])
    return Program("masked_sum", (Param("x", float32, (n,), "in"), Param("y", float32, (1,), "out")), (n,), [partial, final], work=64)


def exp_half() -> Program:
    """y = exp(x) from float16 to bfloat16, four elements an item."""

    def body(b: Builder, x: Val) -> Val:
        return b.op("cast", expand(b, "exp", b.op("cast", x, dtype=float32)), dtype=bfloat16)

    return elementwise(["float16"], "bfloat16", 4, 16, body)
