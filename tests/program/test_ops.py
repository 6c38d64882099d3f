"""The table of operations: what must hold of every row, and that every language's own table has the rows it must."""

from __future__ import annotations

from importlib import import_module

import pytest
from tilewright.interp.code import Coder
from tilewright.interp.group_code import GroupCoder
from tilewright.ir.dtypes import bool_, float32, int32
from tilewright.ir.node import const
from tilewright.program import ops
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Program
from tilewright.program.verify import verify
from tilewright.targets import languages

WRITERS = {"llvm": "llvm.renderer", "c": "cfamily.c", "opencl": "cfamily.opencl", "cuda": "cfamily.cuda"}
"""Where each language's table is."""


def test_sets_are_what_their_names_say() -> None:
    assert {"load", "gather"} == ops.READS
    assert {"store", "scatter"} == ops.WRITES
    assert ops.ACCESSES == ops.READS | ops.WRITES
    assert {"load", "store"} == ops.CONSECUTIVE
    assert {"barrier", "shfl_xor"} == ops.SYNCS
    assert {"barrier", "shfl_xor", "prefetch"} == ops.FIXED
    assert {"lt", "le", "eq", "ne"} == ops.COMPARISONS
    assert {"const", "splat", "aligned"} == ops.FREE
    assert {"div", "sqrt"} == ops.DIVIDES
    assert {"exp", "log", "tanh", "erf"} == ops.TWIN_ONLY


@pytest.mark.parametrize("op", ops.OPS.values(), ids=lambda op: op.name)
def test_a_row_agrees_with_itself(op: ops.Op) -> None:
    assert (op.dtype is None) == (op.effect in ("write", "hint") or op.name == "barrier")
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
    groups = languages.language(lang).groups
    assert set(table) == ops.RENDERED | (ops.GROUPED if groups else set())


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
