"""The table of operations: what must hold of every row, and that every language's own table has the rows it must."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from tilewright.interp import run
from tilewright.interp.generated_python import Coder
from tilewright.interp.interpreter import GroupCoder
from tilewright.ir.dtypes import bool_, float32, index, int32
from tilewright.ir.node import FUNCTIONS, const
from tilewright.program import ops
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, Mem, Param, Program
from tilewright.program.verify import verify
from tilewright.targets import languages

WRITERS = {"llvm": "llvm.renderer", "c": "cfamily.c", "opencl": "cfamily.opencl", "cuda": "cfamily.cuda", "hip": "cfamily.hip"}
"""Where each language's table is."""


def test_sets_are_what_their_names_say() -> None:
    assert {"load", "gather", "ldmatrix", "ldmatrix_t"} == ops.READS
    assert {"store", "scatter"} == ops.WRITES
    assert ops.ACCESSES == ops.READS | ops.WRITES
    assert {"load", "store"} == ops.CONSECUTIVE
    assert {"ldmatrix", "ldmatrix_t"} == ops.MATRIX_LOADS
    assert {"barrier", "shfl_xor", "mma", "ldmatrix", "ldmatrix_t"} == ops.SYNCS
    assert {"copy_async", "commit", "wait"} == ops.ASYNCS
    assert {"mbar_wait", "box_load", "wgmma", "cluster_barrier"} < ops.HOPPER
    assert ops.SYNCS | ops.ASYNCS | ops.HOPPER | {"prefetch"} == ops.FIXED
    assert {"lt", "le", "eq", "ne"} == ops.COMPARISONS
    assert {"const", "splat", "aligned", "apart"} == ops.FREE
    assert {"div", "sqrt", "quot"} == ops.DIVIDES
    assert {*FUNCTIONS, "trunc"} == ops.TWIN_ONLY


@pytest.mark.parametrize("op", ops.OPS.values(), ids=lambda op: op.name)
def test_a_row_agrees_with_itself(op: ops.Op) -> None:
    none = op.effect in ("write", "hint", "async") or op.name == "barrier"
    assert (op.dtype is None) == (none or (op.effect == "warpgroup" and op.name not in ("wgmma", "wgmma_result")))
    assert (op.attribute == "memory") == (op.effect in ("read", "write", "hint"))
    assert (op.hoists == "always") == (op.effect == "pure")
    assert not any(o.optional for o in op.operands[:-1]), "only the last operand may be left out"
    assert op.dtype != "same" or any(o.same for o in op.operands), "the result's type is that of an operand"
    if op.commutes:
        a, b = op.operands[:2]
        assert (a.kinds, a.lanes, a.same) == (b.kinds, b.lanes, b.same)


@pytest.mark.parametrize("lang", languages.declared())
def test_a_language_writes_exactly_the_operations_it_must(lang: str) -> None:
    table = import_module(f"tilewright.renderers.{WRITERS[lang]}").OPS
    said = languages.language(lang)
    some = [(said.groups, ops.GROUPED), (said.tensor_cores, ops.TENSOR), (said.async_copies, ops.COPYING), (said.warpgroups, ops.HOPPER)]
    assert set(table) == ops.RENDERED.union(*(names for has, names in some if has))


@pytest.mark.parametrize("coder", [Coder, GroupCoder])
def test_the_interpreter_knows_every_operation_that_computes(coder: type[Coder]) -> None:
    """Constants, accesses, barriers and shuffles are statements of its own; a prefetch does nothing."""
    assert set(coder.TABLE) == set(ops.OPS) - ops.ACCESSES - ops.FIXED - {"const"}


def test_the_builder_makes_what_the_table_says() -> None:
    b = Builder()
    with b.phase(const(4), (), 32) as phase:
        x = b.load(Mem("shared", 0, float32, align=4), phase.item, 4)
        assert b.op("lt", x, x).dtype is bool_
        whole = b.op("cast", x, dtype=int32)
        for name in ("add", "max", "and"):
            b.op(name, whole, b.const(3, int32))
        b.barrier()
        b.shfl_xor(b.extract(x, 1), 2)
        b.op("select", b.op("eq", whole, whole), x, b.op("neg", x))
    verify(Program("small", (), (), [phase], shared=256))


def test_a_shuffle_of_threads_wants_a_group() -> None:
    """In a phase of one thread there is nobody to exchange with."""
    from tilewright.ir.errors import InternalError

    b = Builder()
    with b.phase(const(4), ()) as phase:
        b.shfl_xor(phase.item, 1)
    with pytest.raises(InternalError, match="phase of one thread"):
        verify(Program("small", (), (), [phase]))


@pytest.mark.parametrize(
    "name", [n for n, op in ops.OPS.items() if len(op.operands) in (2, 3) and op.attribute == "none" and n != "select"]
)
def test_what_commutes_is_what_the_interpreter_says(name: str) -> None:
    """The first two operands change places: results are the same for all numbers, or differ for some."""
    dtype = float32 if ops.OPS[name].operands[0].kinds == "f" else int32
    b = Builder()
    with b.phase(const(1), ()) as phase:
        x, y = (b.load(Mem("param", i, dtype, align=4), phase.item, 8) for i in (0, 1))
        for at, (first, second) in enumerate(((x, y), (y, x))):
            rest = (b.const(3, dtype),) * (len(ops.OPS[name].operands) - 2)
            found = b.op(name, first, second, *rest)
            found = b.op("cast", found, dtype=int32) if found.dtype is bool_ else found
            b.store(Mem("param", 2, found.dtype, 8 * at, 4), phase.item, found)
    out = int32 if name in ops.COMPARISONS else dtype
    params = (Param("x", dtype, (8,), "in"), Param("y", dtype, (8,), "in"), Param("z", out, (16,), "out"))
    p = Program("both", params, (), [phase])
    verify(p)
    left, right, results = np.array([1, 2, 3, 4, 5, 6, 7, 8], dtype.np), np.array([8, 1, 3, 2, 7, 5, 1, 4], dtype.np), np.zeros(16, out.np)
    run(p, [left, right, results])
    assert bool((results[:8] == results[8:]).all()) == ops.OPS[name].commutes


@pytest.mark.parametrize("name", ["add", "neg", "select", "splat", "load", "prefetch", "barrier", "shfl_xor"])
def test_what_hoists_leaves_a_loop(name: str) -> None:
    """What a loop does not change stands in front of it, if the table says that the operation moves."""
    b = Builder()
    with b.phase(const(1), (), 32) as phase:
        x = phase.item
        with b.loop("i", b.const(0), b.const(4)):
            place = Mem("param", 0, index, align=8)
            emit = {
                "splat": lambda: b.splat(x, 4),
                "load": lambda: b.load(place, x, invariant=True),
                "prefetch": lambda: b.prefetch(place, x),
            }
            emit |= {"barrier": b.barrier, "shfl_xor": lambda: b.shfl_xor(x, 1), "select": lambda: b.op("select", b.op("lt", x, x), x, x)}
            emit.get(name, lambda: b.op(name, *[x] * len(ops.OPS[name].operands)))()
    outside = {s.op for s in phase.body.stmts if isinstance(s, Instr)}
    assert (name in outside) == (ops.OPS[name].hoists != "never")
