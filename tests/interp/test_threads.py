"""Phases of several threads in the interpreter: they mean what one thread after another means, and every way to go wrong is named."""

from __future__ import annotations

import numpy as np
import pytest
from group_programs import iota, matmul, param, program, row_sums, scratch, shared
from tilewright.interp import run
from tilewright.interp.threads import MOST
from tilewright.ir import VerifyError
from tilewright.ir.dtypes import bfloat16, bool_, float16, float32, float64, index, int8, int32, int64, uint8, uint32
from tilewright.ir.evaluation import twin
from tilewright.ir.node import const
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program
from tilewright.targets.instructions import ROWS

N = 16


def at(b, phase):
    """The number of a thread among all of them."""
    if phase.thread is None:
        return phase.item
    return b.op("add", b.op("mul", phase.item, b.const(phase.threads)), phase.thread)


def both_ways(body, ins, outs, as_twin=False, **kw):
    """body(b, number) run by 16 workers of one thread, and by 4 groups of 4: the outputs of both."""
    results = []
    for items, threads in ((N, 1), (N // 4, 4), (1, N)):
        arrays = [np.array(x) for x in ins] + [np.zeros(n, np.uint32 if as_twin and t.is_float else t.np) for t, n in outs]
        kernel = program(lambda b, p: body(b, at(b, p)), [(dtype_of(x, as_twin), len(x)) for x in ins], outs, items, threads, **kw)
        run(kernel, arrays, twin=as_twin)
        results.append(arrays[len(ins) :])
    return results


def dtype_of(x, as_twin=False):
    if as_twin and x.dtype == np.uint32:
        return float32
    names = {"f": {2: float16, 4: float32, 8: float64}, "i": {1: int8, 4: int32, 8: int64}, "u": {1: uint8, 4: uint32}, "b": {1: bool_}}
    return names[x.dtype.kind][x.dtype.itemsize]


def same(body, ins, outs, **kw):
    one, *groups = both_ways(body, ins, outs, **kw)
    assert any(np.ravel(o).any() for o in one), "the body computes nothing but zeros"
    for group in groups:
        for a, c in zip(one, group, strict=True):
            assert a.tobytes() == c.tobytes()


F = np.array([0.0, -0.0, 1.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, 2.5, -0.5, 1e30, 7.0, -7.25, 100.0], "f")
I = np.array([2**31 - 1, -(2**31), 5, 100, -7, 7, 0, 1, -1, 12345, 64, -64, 3, 31, -100, 9], np.int32)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "div", "fma", "max", "min", "neg", "abs", "sqrt", "floor", "round", "exp", "log", "tanh", "erf"]
)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.covering
def test_floats(op, kind, lanes):
    t, a = dtype_of(F.astype(kind)), F.astype(kind)
    count = {"fma": 3, "add": 2, "sub": 2, "mul": 2, "div": 2, "max": 2, "min": 2}.get(op, 1)

    def body(b, i):
        i = b.op("mul", i, b.const(lanes))
        b.store(param(3, t), i, b.op(op, *[b.load(param(j, t), i, lanes) for j in range(count)]))

    inputs = [np.resize(x, N * lanes) for x in (a, np.roll(a, 5), np.roll(a, 3))]
    same(body, inputs, [(t, N * lanes)])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint32, np.int64])
@pytest.mark.parametrize("op", ["add", "mul", "max", "and", "xor", "shl", "shr", "not", "neg", "lt", "eq"])
@pytest.mark.covering
def test_integers(op, kind):
    t, a = dtype_of(I.astype(kind)), I.astype(kind)
    other = np.abs(np.roll(a, 2)) % 7 if op in ("shl", "shr") else np.roll(a, 2)

    def body(b, i):
        xs = [b.load(param(0, t), i)] + ([] if op in ("not", "neg") else [b.load(param(1, t), i)])
        b.store(param(2, bool_ if op in ("lt", "eq") else t), i, b.op(op, *xs))

    out = bool_ if op in ("lt", "eq") else t
    if op == "eq":
        other[::2] = a[::2]
    same(body, [a, other.astype(kind)], [(out, N)])


def test_conversions_and_what_all_threads_agree_on():
    def body(b, i):
        x = b.load(param(0), i)
        wide = b.op("cast", x, dtype=int32)
        half = b.op("cast", b.op("cast", x, dtype=bfloat16), dtype=float32)
        bits = b.op("bitcast", b.load(param(0), b.const(3)), dtype=uint32)  # one number for all threads
        b.store(param(1, int32), i, b.op("add", wide, b.op("cast", bits, dtype=int32)))
        b.store(param(2), i, b.op("add", half, b.op("cast", i, dtype=float32)))
        b.store(param(3, index), i, b.op("add", b.op("shl", b.const(3), b.const(63)), b.op("idiv", i, attr=3)))
        b.store(param(4, bool_), i, b.op("not", b.op("lt", b.const(3), b.op("imod", i, attr=5))))

    same(body, [np.linspace(-9, 9, N, dtype="f")], [(int32, N), (float32, N), (index, N), (bool_, N)])


def test_lanes():
    def body(b, i):
        i = b.op("mul", i, b.const(4))
        x, all_ = b.load(param(0), i, 4), b.load(param(0), b.const(8), 4)
        s = b.extract(x, 2)
        row = b.shuffle(x, all_, (7, 0, 5, 2))
        row = b.op("add", row, b.insert(all_, s, 1))
        row = b.op("add", row, b.shuffle(b.shuffle(all_, all_, (3,)), x, (0, 1, 2, 4)))
        on = b.op("lt", iota(b, 4), b.splat(b.op("imod", i, attr=3), 4))
        b.store(param(1), i, b.op("select", on, row, b.splat(s, 4)))
        b.store(param(2), i, b.gather(param(0), b.op("add", b.op("mul", iota(b, 4), b.const(3)), b.splat(b.op("idiv", i, attr=4), 4)), on))
        b.store(param(3), b.op("add", b.op("sub", b.const(3), iota(b, 4)), b.splat(i, 4)), x)

    same(body, [np.arange(1, 4 * N + 1, dtype="f")], [(float32, 4 * N)] * 3)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_matrix_instructions(row):
    """Operands that differ from thread to thread, and ones that are the same in all."""
    width = row.n * row.k

    def body(b, i):
        a, all_a = (b.load(param(0, row.a), b.op("mul", k, b.const(row.k)), row.k) for k in (i, b.const(3)))
        other, all_b = (b.load(param(1, row.b), b.op("mul", k, b.const(width)), width) for k in (i, b.const(2)))
        acc = b.dot(row.name, b.const(1, row.c, row.n), a, all_b)
        acc = b.dot(row.name, acc, all_a, other)
        b.store(param(2, row.c), b.op("mul", i, b.const(row.n)), b.op("add", acc, b.dot(row.name, b.const(0, row.c, row.n), all_a, all_b)))

    draws = np.random.default_rng(0).integers(0, 100, (2, N * width))
    ins = [draws[0, : N * row.k].astype(row.a.np), draws[1].astype(row.b.np)]
    one, *groups = ([*ins, np.zeros(N * row.n, row.c.np)] for _ in range(3))
    for arrays, (items, threads) in zip((one, *groups), ((N, 1), (4, 4), (1, N)), strict=True):
        types = [(row.a, len(ins[0])), (row.b, len(ins[1]))]
        run(program(lambda b, p: body(b, at(b, p)), types, [(row.c, N * row.n)], items, threads), arrays)
        assert one[2].any() and arrays[2].tobytes() == one[2].tobytes()


def test_masks_touch_nothing_where_they_are_off():
    def body(b, i):
        odd = b.op("eq", b.op("imod", i, attr=2), b.const(1))
        far = b.op("select", odd, i, b.const(10**6))
        x = b.load(param(0), far, 1, odd)
        i4 = b.op("mul", i, b.const(4))
        inside = b.op("lt", b.op("add", b.splat(i4, 4), iota(b, 4)), b.const(30))
        b.store(param(1), i4, b.op("add", b.load(param(0), i4, 4, inside), b.splat(x, 4)), inside)
        b.store(param(2), far, x, odd)
        with b.when(odd):
            b.store(param(2), b.op("sub", i, b.const(1)), b.load(param(0), far))

    same(body, [np.arange(1, 31, dtype="f")], [(float32, 30), (float32, N)])


def test_loops_and_branches_that_part_threads():
    def body(b, i):
        with b.loop(
            "outer", b.const(0), b.op("add", b.op("imod", i, attr=5), b.const(1)), 2, [b.const(0), b.const(1.0, float32, 2)]
        ) as outer:
            with b.loop("inner", outer.var, b.op("add", b.const(5), b.op("idiv", i, attr=4)), 1, [outer.carried[0]]) as inner:
                with b.when(b.op("lt", inner.var, b.op("imod", i, attr=3))):
                    b.store(param(0, index), b.op("add", b.op("mul", i, b.const(4)), b.op("imod", inner.var, attr=4)), inner.carried[0])
                inner.yields = [b.op("add", inner.carried[0], b.op("mul", inner.var, i))]
            outer.yields = [inner.results[0], b.op("add", outer.carried[1], outer.carried[1])]
        b.store(param(1, index), i, outer.results[0])
        b.store(param(2), b.op("mul", i, b.const(2)), outer.results[1])

    same(body, [], [(index, 4 * N), (index, N), (float32, 2 * N)])


def test_twin():
    def body(b, i):
        x, y = b.load(param(0), i), b.load(param(1), b.const(2))
        e = b.op("exp", b.op("sub", x, b.op("max", x, y)))
        z = b.op("div", b.op("fma", e, y, b.const(2.5, float32)), b.op("neg", x))
        b.store(param(2), i, b.op("select", b.op("lt", x, y), z, b.op("sqrt", b.op("cast", i, dtype=float32))))
        b.store(param(3, int32), i, b.op("cast", x, dtype=int32))

    same(body, [twin.draw((N,), 0), twin.draw((N,), 1)], [(float32, N), (int32, N)], as_twin=True)


def test_scratch_is_a_threads_own():
    def body(b, i):
        with b.loop("fill", b.const(0), b.const(4)) as fill:
            b.store(scratch(64), fill.var, b.op("cast", b.op("mul", i, fill.var), dtype=float32))
        b.store(param(0), i, b.load(scratch(64), b.op("imod", i, attr=4)))

    same(body, [], [(float32, N)], scratch=80)


def test_more_groups_than_run_side_by_side():
    def body(b, p):
        b.store(shared(0, dtype=index), p.thread, b.op("mul", p.item, p.thread))
        b.barrier()
        b.store(param(0, index), at(b, p), b.load(shared(0, dtype=index), b.op("xor", p.thread, b.const(1))))

    items = 3 * MOST // 8 + 5
    y = np.zeros(items * 8, np.int64)
    run(program(body, [], [(index, len(y))], items, shared=64), [y], items=lambda n: reversed(range(n)))
    np.testing.assert_array_equal(y.reshape(items, 8), np.arange(items)[:, None] * (np.arange(8) ^ 1))


def test_matmul_through_shared_memory():
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(-8, 9, (32, 24)).astype("f"), rng.integers(-8, 9, (24, 32)).astype("f"), np.zeros((32, 32), "f")
    run(matmul(barriers=True), [a, b, c])
    np.testing.assert_array_equal(c, a @ b)
    x, y, z = twin.draw((32, 24), 0), twin.draw((24, 32), 1), np.zeros((32, 32), np.uint32)
    run(matmul(barriers=True, pad=1), [x, y, z], twin=True)
    np.testing.assert_array_equal(z, x @ y)


@pytest.mark.parametrize("threads,warp", [(64, 32), (32, 32), (16, 4)])
def test_row_sums_by_shuffles(threads, warp):
    x, y = np.random.default_rng(0).integers(-9, 9, (3, 200)).astype("f"), np.zeros(3, "f")
    run(row_sums(threads=threads, warp=warp, barriers=True), [x, y], warp=warp)
    np.testing.assert_array_equal(y, x.sum(1))


def test_a_phase_of_groups_after_one_of_workers():
    b, work, phases = Builder(), Mem("work", 64, float32), []
    for threads in (1, 4, 1):
        with b.phase(const(8 // threads), (), threads) as phase:
            i = at(b, phase)
            if not phases:
                b.store(work, i, b.op("cast", i, dtype=float32))
            elif threads == 4:
                other = b.op("sub", b.const(7), i)
                b.store(param(0), i, b.load(work, other))
            else:
                b.store(param(1), i, b.load(param(0), b.op("xor", i, b.const(1))))
        phases.append(phase)
    y, z = np.zeros(8, "f"), np.zeros(8, "f")
    run(Program("p", (Param("y", float32, (8,), "out"), Param("z", float32, (8,), "out")), (), phases, work=128), [y, z])
    assert list(z) == [6, 7, 4, 5, 2, 3, 0, 1]


# findings ---------------------------------------------------------------------------------------------------------
def fails(message, body, items=1, threads=8, outs=((float32, 64),), warp=4, **kw):
    arrays = [np.ones(64, "f"), *(np.zeros(n, t.np) for t, n in outs)]
    with pytest.raises(VerifyError, match=message):
        run(program(body, [(float32, 64)], outs, items, threads, **kw), arrays, warp=warp)


def one(b):
    return b.const(1.0, float32)


def test_read_with_no_barrier_after_a_write():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        b.store(param(1), p.thread, b.load(shared(), b.op("xor", p.thread, b.const(2))))

    fails(
        r"shared@0\[2\] is read with no barrier since thread 2 of item 0 wrote it by `store shared@0:float32\[%thread\] = 1`, "
        r"in `%\d: float32 = load shared@0:float32\[%\d\]` \(phase 0, item 0, thread 0\)",
        body,
        shared=32,
    )


def test_write_with_no_barrier_after_a_read():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        b.barrier()
        x = b.load(shared(), b.op("xor", p.thread, b.const(1)))
        b.store(shared(), p.thread, x)

    fails(r"shared@0\[0\] is written with no barrier since thread 1 of item 0 read it by `%\d: float32 = load shared", body, shared=32)


def test_the_reader_that_is_not_the_writer_is_found_among_many():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        b.barrier()
        x = b.load(shared(), b.const(5))  # everybody, thread 5 too
        x = b.op("add", x, b.load(shared(), p.thread))  # the last reader of element 5 is thread 5
        with b.when(b.op("eq", p.thread, b.const(5))):
            b.store(shared(), b.const(5), x)

    fails(r"shared@0\[5\] is written with no barrier since thread [0-467] of item 0 read it", body, shared=32)


def test_write_with_no_barrier_after_a_write():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        b.store(shared(), b.op("xor", p.thread, b.const(4)), one(b))

    fails(r"shared@0\[4\] is written with no barrier since thread 4 of item 0 wrote it by `store", body, shared=32)


def test_two_threads_write_at_once():
    fails(
        r"y0\[1\] is written by thread 2 of item 0 and thread 3 of item 0 at once, in `store y0\[%\d\] = 1 if %\d`",
        lambda b, p: b.store(param(1), b.op("idiv", p.thread, attr=2), one(b), b.op("lt", b.const(1), p.thread)),
        threads=4,
    )


def test_a_barrier_does_not_order_different_groups():
    def body(b, p):
        b.store(param(1), p.thread, one(b))
        b.barrier()

    fails(r"y0\[0\] is written by two items of one phase: thread 0 of item 0 and thread 0 of item 1 at once", body, items=2)


def test_groups_that_are_not_side_by_side_still_meet():
    items = MOST // 8 + 3
    fails(
        r"y0\[7\] is written by two items of one phase \(thread 0 of item 7, by `store y0\[%item\] = 1 if %\d`\).*item 258, thread 1",
        lambda b, p: [
            b.store(param(1), p.item, one(b), b.op("eq", p.thread, b.const(0))),
            b.store(param(1), b.const(7), one(b), b.op("eq", at(b, p), b.const((items - 1) * 8 + 1))),
        ],
        items=items,
        outs=((float32, items),),
    )


def test_one_group_reads_what_another_writes():
    def body(b, p):
        b.store(param(1), at(b, p), one(b))
        b.barrier()
        with b.when(b.op("eq", p.item, b.const(1))):
            b.store(param(1), at(b, p), b.load(param(1), p.thread))

    fails(r"y0\[0\] was written by another item of this phase \(thread 0 of item 0, by `store", body, items=2)


def test_one_group_writes_what_another_reads():
    b = Builder()
    phases = []
    for i in range(2):
        with b.phase(const(2), (), 4) as p:
            if i == 0:
                b.store(param(0), at(b, p), one(b))
            else:
                with b.when(b.op("eq", p.item, b.const(0))):
                    b.store(param(1), p.thread, b.load(param(0), p.thread))
                with b.when(b.op("eq", p.item, b.const(1))):
                    b.store(param(0), p.thread, one(b))
        phases.append(p)
    arrays = [np.zeros(8, "f"), np.zeros(8, "f")]
    kernel = Program("p", (Param("y", float32, (8,), "out"), Param("z", float32, (8,), "out")), (), phases)
    with pytest.raises(
        VerifyError, match=r"y\[0\] is read by another item of this phase \(thread 0 of item 0, by `.*load y.*phase 1, item 1, thread 0"
    ):
        run(kernel, arrays)


def test_barriers_order_parameters_in_a_group():
    def body(b, p):
        b.store(param(1), at(b, p), one(b))
        b.barrier()
        other = b.op("add", b.op("mul", p.item, b.const(8)), b.op("xor", p.thread, b.const(1)))
        x = b.load(param(1), other)
        b.barrier()
        b.store(param(1), at(b, p), b.op("add", x, x))

    y = np.zeros(64, "f")
    run(program(body, [(float32, 64)], [(float32, 64)], 4), [np.ones(64, "f"), y])
    assert list(y) == [2] * 32 + [0] * 32


def test_a_barrier_inside_a_branch_that_one_group_takes():
    def body(b, p):
        b.store(shared(dtype=index), p.thread, at(b, p))
        with b.when(b.op("lt", p.item, b.const(2))):
            b.barrier()
            b.store(param(1, index), at(b, p), b.load(shared(dtype=index), b.op("xor", p.thread, b.const(1))))

    y = np.zeros(64, np.int64)
    run(program(body, [(float32, 64)], [(index, 64)], 4, shared=64), [np.ones(64, "f"), y])
    np.testing.assert_array_equal(y[:16], np.arange(16) ^ 1)

    def late(b, p):
        body(b, p)
        b.store(param(1, index), at(b, p), b.load(shared(dtype=index), b.op("xor", p.thread, b.const(1))))

    fails(r"shared@0\[1\] is read with no barrier since thread 1 of item 2 wrote it", late, items=4, outs=((index, 64),), shared=64)


def test_never_written_shared_memory_and_scratch():
    fails(
        r"shared@0\[1\] is read before it is written, in .*thread 0\)",
        lambda b, p: [
            b.store(shared(), b.const(0), one(b), b.op("eq", p.thread, b.const(0))),
            b.barrier(),
            b.load(shared(0, 1), b.const(0)),
        ],
        shared=32,
    )

    def own(b, p):
        with b.when(b.op("lt", p.thread, b.const(5))):
            b.store(scratch(), b.const(0), one(b))
        b.load(scratch(), b.const(0))

    fails(r"scratch@0\[0\] is read before it is written, in .*thread 5\)", own, scratch=16)


def test_shared_memory_does_not_last_from_group_to_group():
    def body(b, p):
        with b.when(b.op("ne", p.item, b.const(MOST // 8))):
            b.store(shared(), p.thread, one(b))
        b.barrier()
        b.store(param(1), at(b, p), b.load(shared(), p.thread))

    items = MOST // 8 + 1  # the last one runs where another has run before
    fails(
        rf"shared@0\[0\] is read before it is written.*item {MOST // 8}, thread 0",
        body,
        items=items,
        outs=((float32, items * 8),),
        shared=32,
    )


@pytest.mark.parametrize(
    "mem,name,size", [(shared(), "shared@0", 7), (scratch(), "scratch@0", 7), (param(1), "y0", 7), (param(1, offset=-1), "y0", 7)]
)
def test_out_of_bounds(mem, name, size):
    k = -1 if mem.offset else 7
    fails(rf"{name}\[{k}\] is outside its 7 elements, in `store.*thread {k % 8 if k > 0 else 0}\)",
          lambda b, p: b.store(mem, p.thread, one(b)), outs=((float32, 7),), shared=28, scratch=28)  # fmt: skip


def test_input_past_its_end_and_written():
    fails(r"x0\[64\] is outside its 64 elements.*thread 7", lambda b, p: b.load(param(0, offset=57), p.thread))
    fails(r"x0\[64\] is outside its 64 elements.*thread 0", lambda b, p: b.load(param(0), b.const(64)))
    fails("x0 is an input and cannot be written", lambda b, p: b.store(param(0), p.thread, one(b)))


def test_pieces_of_shared_memory_end_where_the_next_begins():
    def body(b, p):
        b.store(shared(16), b.const(0), one(b), b.op("eq", p.thread, b.const(0)))
        b.store(shared(0), p.thread, one(b))

    fails(r"shared@0\[4\] is outside its 4 elements", body, shared=48)


def test_alignment_claims():
    def body(b, p):
        b.store(shared(align=16), b.op("mul", p.thread, b.const(3)), b.const(1.0, float32, 4), b.op("eq", b.splat(p.thread, 4), b.const(2)))

    fails(r"shared@0\[6\] is not aligned to 16 bytes.*thread 2", body, shared=256)


def test_parameters_begin_where_the_program_says():
    raw = np.zeros(40, "f")
    start = (-raw.ctypes.data % 16) // 4 + 1
    y = raw[start : start + 32]
    body = lambda b, p: b.store(param(0, align=16), b.op("mul", p.thread, b.const(4)), b.const(2.0, float32, 4))  # noqa: E731
    run(program(body, [], [(float32, 32)], align=16), [y])
    assert (y == 2).all()
    with pytest.raises(VerifyError, match=r"y0\[0\] is not aligned to 16 bytes"):
        run(program(body, [], [(float32, 32)]), [y])


def test_divergent_barriers():
    def some(b, p):
        with b.when(b.op("lt", p.thread, b.const(5))):
            b.barrier()

    fails(r"only 5 of the group's 8 threads arrive at the barrier, threads 5 to 7 do not, in `barrier` \(phase 0, item 0, thread 0\)", some)

    def different(b, p):
        with b.when(b.op("ne", p.thread, b.const(2))):
            b.barrier()
        with b.when(b.op("eq", p.thread, b.const(2))):
            b.barrier()

    fails("only 7 of the group's 8 threads arrive at the barrier, thread 2 does not", different)

    def often(b, p):
        with b.loop("k", b.const(0), b.op("add", p.thread, b.const(1))):
            b.barrier()

    fails(r"only 7 of the group's 8 threads arrive at the barrier, thread 0 does not", often)


def test_shuffles():
    fails("a shuffle over 4 threads leaves the warp of 4", lambda b, p: b.shfl_xor(b.op("cast", p.thread, dtype=float32), 4))
    fails("thread 4 asks thread 6, and the group has 6", lambda b, p: b.shfl_xor(b.op("cast", p.thread, dtype=float32), 2), threads=6)

    def some(b, p):
        with b.when(b.op("ne", p.thread, b.const(6))):
            b.shfl_xor(b.op("cast", p.thread, dtype=float32), 1)

    fails("thread 6 does not come to a shuffle that others of its warp come to", some)

    def whole_warps(b, p):
        x = b.op("cast", p.thread, dtype=float32)
        with b.when(b.op("lt", p.thread, b.const(4))):
            b.store(param(0), p.thread, b.shfl_xor(x, 3))

    y = np.zeros(4, "f")
    run(program(whole_warps, [], [(float32, 4)]), [y], warp=4)
    assert list(y) == [3, 2, 1, 0]


def test_a_loop_that_would_not_run():
    def body(b, p):
        with b.loop("k", b.const(0), b.op("sub", p.thread, b.const(1))):
            b.load(param(0), b.const(0))

    fails(r"loop k from 0 to -1 would run zero times; guard it with an If \(phase 0, item 0, thread 0\)", body)


def test_a_barrier_in_a_phase_of_one_thread():
    with pytest.raises(VerifyError, match="a barrier stands in a phase of one thread"):
        run(program(lambda b, p: b.barrier(), [], [(float32, 1)], threads=1), [np.zeros(1, "f")])
