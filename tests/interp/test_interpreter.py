"""The interpreter: what each operation means, and that every kind of bad access is named."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tilewright.interp import Interpreter, ops, run
from tilewright.interp.ops import caster
from tilewright.ir import VerifyError
from tilewright.ir.dtypes import bfloat16, bool_, float16, float32, float64, index, int8, int32, int64, uint8, uint32, uint64
from tilewright.ir.evaluation import twin
from tilewright.ir.node import const, sym
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program


def param(i, dtype=float32, offset=0, **kw):
    return Mem("param", i, dtype, offset, **kw)


def program(body, ins, outs, items=1, symbols=(), **kw):
    """A Program of one phase over flat parameters [(dtype, count)]; body(builder, phase)."""
    params = [Param(f"x{i}", d, (n,), "in") for i, (d, n) in enumerate(ins)]
    params += [Param(f"y{i}", d, (n,), "out") for i, (d, n) in enumerate(outs)]
    b = Builder(expand=False)
    with b.phase(const(items) if isinstance(items, int) else items, symbols) as phase:
        body(b, phase)
    return Program("test", tuple(params), tuple(symbols), [phase], **kw)


def apply(op, *args, out=None, lanes=1, **kw):
    """One operation on loaded scalars or vectors."""
    arrays = [np.atleast_1d(a) for a in args]
    n = max(a.size for a in arrays)
    types = [
        {
            "f": {2: float16, 4: float32, 8: float64},
            "i": {1: int8, 4: int32, 8: int64},
            "u": {1: uint8, 4: uint32, 8: uint64},
            "b": {1: bool_},
        }[a.dtype.kind][a.dtype.itemsize]
        for a in arrays
    ]
    result = out or types[-1]

    def body(b, phase):
        xs = [b.load(param(i, t), b.const(0), n) for i, t in enumerate(types)]
        b.store(param(len(xs), result), b.const(0), b.op(op, *xs, dtype=result, **kw))

    y = np.zeros(n, result.np)
    run(program(body, [(t, n) for t in types], [(result, n)]), [*arrays, y])
    return y


F = [0.0, -0.0, 1.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-40, 0.5, 2.5, -0.5, 1e30, 7.0, -7.25, 100.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "op,f", [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("max", np.maximum), ("min", np.minimum)]
)
@pytest.mark.covering
def test_float_arithmetic(op, f, dtype):
    a, b = np.array(F, dtype), np.roll(np.array(F, dtype), 5)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply(op, a, b), f(a, b))
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(apply(op, x, y)[0], f(x, y))


@pytest.mark.parametrize("op,f", [("neg", np.negative), ("abs", np.abs), ("floor", np.floor), ("round", np.rint), ("sqrt", np.sqrt)])
def test_float_unary(op, f):
    a = np.array(F, np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply(op, a), f(a))
        np.testing.assert_array_equal(apply(op, a[4]), f(a[4:5]))


@pytest.mark.parametrize("op,f", [("exp", np.exp), ("log", np.log), ("tanh", np.tanh), ("erf", np.vectorize(math.erf))])
def test_elementary_functions_are_rounded_from_float64(op, f):
    a = np.array([0.1, 1.5, 3.25, 80.0], np.float32)
    np.testing.assert_array_equal(apply(op, a), f(a.astype(float)).astype(np.float32))


@pytest.mark.parametrize("op,f", [("lt", np.less), ("le", np.less_equal), ("eq", np.equal), ("ne", np.not_equal)])
def test_comparisons(op, f):
    a, b = np.array(F, np.float32), np.roll(np.array(F, np.float32), 3)
    np.testing.assert_array_equal(apply(op, a, b, out=bool_), f(a, b))
    for x, y in ((-1, 1), (2, 2)):
        assert apply(op, np.int64(x), np.int64(y), out=bool_)[0] == f(x, y)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_wrap(dtype):
    info = np.iinfo(dtype)
    a, b = np.array([info.max, info.min, 5, 100], dtype), np.array([info.max, 1, 7, 3], dtype)
    with np.errstate(over="ignore"):
        for op, f in (
            ("add", np.add),
            ("sub", np.subtract),
            ("mul", np.multiply),
            ("max", np.maximum),
            ("and", np.bitwise_and),
            ("or", np.bitwise_or),
            ("xor", np.bitwise_xor),
        ):
            np.testing.assert_array_equal(apply(op, a, b), f(a, b))
        np.testing.assert_array_equal(apply("shl", a, np.full(4, 3, dtype)), a << dtype(3))
        np.testing.assert_array_equal(apply("shr", a, np.full(4, 2, dtype)), a >> dtype(2))
        if info.bits < 64:
            assert apply("add", a[0], b[0])[0] == a[0] + b[0]
    np.testing.assert_array_equal(apply("not", a), ~a)


def test_scalar_shift_of_an_index_wraps():
    assert apply("shl", np.int64(3), np.int64(63))[0] == np.int64(-(2**63))


def test_floor_division():
    for a in (-7, 7, -8, 0):
        assert apply("idiv", np.int64(a), attr=4)[0] == a // 4 and apply("imod", np.int64(a), attr=4)[0] == a % 4
    np.testing.assert_array_equal(apply("idiv", np.arange(-4, 4), attr=3), np.arange(-4, 4) // 3)


def exact(a, b, c, dtype):
    """a·b + c rounded once, from rational arithmetic."""
    want = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = dtype(float(want)) if dtype is np.float64 else np.float32(float(want))
    around = [near, np.nextafter(near, dtype(-np.inf)), np.nextafter(near, dtype(np.inf))]
    best = min(abs(Fraction(float(x)) - want) for x in around)
    tied = [x for x in around if abs(Fraction(float(x)) - want) == best]
    bits = np.uint32 if dtype is np.float32 else np.uint64
    return next(x for x in tied if len(tied) == 1 or not int(x.view(bits)) & 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype):
    rng = np.random.default_rng(0)
    digits = 24 if dtype is np.float32 else 53
    a, b = (rng.standard_normal(200).astype(dtype) for _ in range(2))
    c = rng.standard_normal(200).astype(dtype)
    c[:60] = -(a * b)[:60]  # what is left is the product's rounding error
    # sums just off half way between two numbers, by less than float64 can hold beside float32's bits
    a[60:80], b[60:80], c[60:80] = dtype(1 + 2.0 ** (1 - digits)), dtype(2.0**-digits), dtype(1)
    a[80:100], b[80:100], c[80:100] = dtype(1 - 2.0**-digits), dtype(2.0**-digits), dtype(1)
    a[100:110], b[100:110], c[100:110] = dtype(1), dtype(2.0**-digits), dtype(1)
    want = np.array([exact(*t, dtype) for t in zip(a, b, c, strict=True)])
    np.testing.assert_array_equal(apply("fma", a, b, c), want)
    for i in (0, 5, 61, 81, 101, 150):
        assert apply("fma", a[i], b[i], c[i])[0] == want[i]


def test_fma_of_float64_lanes_is_that_of_many_threads():
    some = [0.0, -0.0, 1.0, 1 + 2**-52, -(2.0**53), 1e300, 2.0**-1022, -5e-324, np.inf, np.nan]
    a, b, c = (x.ravel() for x in np.meshgrid(some, some, some))
    with np.errstate(all="ignore"):
        want = ops.fma64(a, b, c)
    got = ops.fma64_lanes(a, b, c)
    assert got[7] == ops.fma64_scalar(a[7], b[7], c[7])
    same = (got.view(np.int64) == want.view(np.int64)) | (np.isnan(got) & np.isnan(want))
    assert same.all() and np.isfinite(want).sum() > 200


def test_fma_of_special_numbers():
    a, b, c = np.array([np.inf, 0, 1, 3e38], "f"), np.array([1, np.inf, np.nan, 10], "f"), np.array([-np.inf, 1, 1, -3e38], "f")
    np.testing.assert_array_equal(apply("fma", a, b, c), [np.nan, np.nan, np.nan, np.inf])
    np.testing.assert_array_equal(
        apply("fma", np.float32(2.0**-100), np.float32(2.0**-48), np.float32(2.0**-149)), np.float32(2.0**-148 + 2.0**-149)
    )


def test_conversions():
    np.testing.assert_array_equal(apply("cast", np.array([1.9, -1.9, 300.0], "f"), out=int32), [1, -1, 300])
    np.testing.assert_array_equal(apply("cast", np.array([300, -1], np.int32), out=int8), np.array([300, -1]).astype(np.int8))
    np.testing.assert_array_equal(apply("cast", np.array([1 + 2**-8, 1 + 3 * 2**-8], "f"), out=bfloat16).astype("f"), [1, 1 + 2**-6])
    np.testing.assert_array_equal(apply("cast", np.array([True, False]), out=float32), [1, 0])
    np.testing.assert_array_equal(apply("cast", np.float16(1.5), out=float32), [1.5])
    assert apply("cast", np.int64((1 << 53) + 1), out=float32)[0] == np.float32(1 << 53)
    # an index is a Python int there, and wraps all the same
    assert apply("cast", np.uint64((1 << 63) + 5), out=index)[0] == -(1 << 63) + 5
    assert caster(uint64, index, 1, True)(np.uint64((1 << 64) - 1)) == -1
    np.testing.assert_array_equal(apply("bitcast", np.array([1.0, -2.0], "f"), out=uint32), [0x3F800000, 0xC0000000])
    assert apply("bitcast", np.float64(1.0), out=int64)[0] == 0x3FF << 52
    assert apply("bitcast", np.int64(-(2**63)), out=float64)[0] == 0 and np.signbit(apply("bitcast", np.int64(-(2**63)), out=float64)[0])


def test_lanes():
    def body(b, phase):
        x = b.load(param(0), b.const(0), 4)
        y = b.load(param(0), b.const(4), 4)
        b.store(param(1), b.const(0), b.shuffle(x, y, (7, 0, 5, 2)))
        b.store(param(1), b.const(4), b.insert(x, b.extract(y, 1), 2))
        b.store(param(1), b.const(8), b.splat(b.extract(x, 3), 4))
        b.store(param(1), b.const(12), b.op("select", b.const((True, False, True, False), bool_, 4), x, y))

    x, y = np.arange(8, dtype="f"), np.zeros(16, "f")
    run(program(body, [(float32, 8)], [(float32, 16)]), [x, y])
    np.testing.assert_array_equal(y, [7, 0, 5, 2, 0, 1, 5, 3, 3, 3, 3, 3, 0, 5, 2, 7])


def test_masked_lanes_touch_nothing():
    def body(b, phase):
        on = b.const((False, True, True, False), bool_, 4)
        at = b.const((-100, 2, 0, 100), index, 4)
        b.store(param(2), b.const(0), b.load(param(0), b.const(-1), 4, on))
        b.store(param(2), b.const(4), b.gather(param(0), at, on))
        b.store(param(1), b.const(-1), b.const(9.0, float32, 4), on)
        b.store(param(2), b.const(8), b.load(param(0), b.const(99), 1, b.const(False, bool_)))
        b.store(param(1), b.const(99), b.const(5.0, float32), b.const(False, bool_))
        b.store(param(2), b.const((-5, 9, 10, -5), index, 4), b.const(3.0, float32, 4), on)

    kernel = program(body, [(float32, 3)], [(float32, 2), (float32, 11)])
    y, z = np.zeros(2, "f"), np.full(11, -1, "f")
    run(kernel, [np.array([1, 2, 3], "f"), y, z])
    np.testing.assert_array_equal(y, [9, 9])
    np.testing.assert_array_equal(z, [0, 1, 2, 0, 0, 3, 1, 0, 0, 3, 3])


def sums(rows, n, carried=True):
    def body(b, phase):
        at = b.op("mul", phase.item, b.const(n))
        with b.loop("n", b.const(0), b.const(n), 2, [b.const(0.0, float32), b.const(1.0, float32)]) as loop:
            x = b.load(param(0), b.op("add", at, loop.var))
            loop.yields = [b.op("add", loop.carried[0], x), b.op("add", loop.carried[0], loop.carried[1])]
        b.store(param(1), phase.item, loop.results[0])
        b.store(param(1, offset=rows), phase.item, loop.results[1])

    return program(body, [(float32, rows * n)], [(float32, 2 * rows)], rows)


def test_carried_values_change_together():
    x, y = np.arange(12, dtype="f"), np.zeros(6, "f")
    run(sums(3, 4), [x, y], items=lambda n: reversed(range(n)))
    want = x.reshape(3, 4)[:, ::2].sum(1)
    np.testing.assert_array_equal(y[:3], want)
    np.testing.assert_array_equal(y[3:], 1 + x.reshape(3, 4)[:, 0])


def test_only_chosen_items_run():
    y = np.full(6, -1, "f")
    run(sums(3, 4), [np.arange(12, dtype="f"), y], items=lambda n: [1])
    assert list(y >= 0) == [False, True, False, False, True, False]


def test_symbols_and_arrays_by_name():
    n = sym("n", 1, 10)

    def body(b, phase):
        b.store(param(1), phase.item, b.op("mul", b.load(param(0), phase.item), b.op("cast", phase.vars[0], dtype=float32)))

    params = (Param("x", float32, (n,), "in"), Param("y", float32, (n,), "out"))
    kernel = program(body, [], [], n, (n,))
    kernel.params = params
    y = np.zeros(3, "f")
    run(kernel, {"y": y, "x": np.array([1, 2, 3], "f")}, (3,))
    np.testing.assert_array_equal(y, [3, 6, 9])
    with pytest.raises(VerifyError, match=r"takes 1 symbols \(n\), not 0"):
        run(kernel, [y, y])
    with pytest.raises(VerifyError, match="no array for x"):
        run(kernel, {"y": y}, (3,))
    with pytest.raises(VerifyError, match="parameter x: give a C-contiguous float32 array of 3 elements"):
        run(kernel, [np.zeros(4, "f"), y], (3,))


def test_loops_nest_deeper_than_python_allows():
    def body(b, phase):
        def nest(depth, total, carry):
            if depth == 0:
                return b.op("add", carry, b.op("cast", total, dtype=float32))
            with b.loop(f"l{depth}", b.const(0), b.const(2 if depth % 8 == 0 else 1), 1, [carry]) as loop:
                loop.yields = [nest(depth - 1, b.op("add", b.op("mul", total, b.const(2)), loop.var), loop.carried[0])]
            return loop.results[0]

        b.store(param(0), b.const(0), nest(40, b.const(0), b.const(0.0, float32)))

    y = np.zeros(1, "f")
    run(program(body, [], [(float32, 1)]), [y])
    bits = [2.0 ** (d - 1) for d in range(8, 41, 8)]
    assert y[0] == sum(bits) * 16


def test_if():
    def body(b, phase):
        with b.when(b.op("lt", phase.item, b.const(2))):
            b.store(param(0), phase.item, b.const(1.0, float32))

    y = np.zeros(4, "f")
    run(program(body, [], [(float32, 4)], 4), [y])
    assert list(y) == [1, 1, 0, 0]


def two_phases(swap=False):
    """Phase 0 writes the workspace, phase 1 reads what another item wrote."""
    b = Builder()
    work = Mem("work", 64, float32, align=4)
    with b.phase(const(4), ()) as first:
        b.store(work, first.item, b.load(param(0), first.item))
    b2 = Builder()
    with b2.phase(const(4), ()) as second:
        b2.store(param(1), second.item, b2.load(work, b2.op("sub", b2.const(3), second.item)))
    params = (Param("x", float32, (4,), "in"), Param("y", float32, (4,), "out"))
    return Program("two", params, (), [second, first] if swap else [first, second], work=128)


def test_workspace_lasts_across_phases():
    x, y = np.arange(4, dtype="f"), np.zeros(4, "f")
    run(two_phases(), [x, y])
    np.testing.assert_array_equal(y, x[::-1])


# violations -------------------------------------------------------------------------------------------------------
def fails(body, message, ins=((float32, 4),), outs=((float32, 4),), items=1, **kw):
    arrays = [np.ones(n, d.np) for d, n in (*ins, *outs)]
    with pytest.raises(VerifyError, match=message):
        run(program(body, ins, outs, items, **kw), arrays)


def test_load_past_the_end_names_the_statement():
    fails(
        lambda b, p: b.store(param(1), p.item, b.load(param(0, offset=1), p.item)),
        r"x0\[4\] is outside its 4 elements, in `%\d: float32 = load x0\[%item \+ 1\]` \(phase 0, item 3\)",
        items=4,
    )


def test_vector_load_past_either_end():
    fails(lambda b, p: b.store(param(1), b.const(0), b.load(param(0), b.const(1), 4)), r"x0\[4\] is outside its 4 elements")
    fails(lambda b, p: b.store(param(1), b.const(0), b.load(param(0), b.const(-1), 4)), r"x0\[-1\] is outside its 4 elements")


def test_store_and_gather_past_the_end():
    fails(lambda b, p: b.store(param(1), b.const(2), b.const(1.0, float32, 4)), r"y0\[4\] is outside its 4 elements, in `store y0\[2\] = ")
    fails(lambda b, p: b.store(param(1), b.const(0), b.gather(param(0), b.const((0, -2), index, 2))), r"x0\[-2\] is outside")
    fails(lambda b, p: b.store(param(1), b.const((0, 5), index, 2), b.const(1.0, float32, 2)), r"y0\[5\] is outside")


def test_reading_scratch_nobody_wrote():
    scratch = Mem("scratch", 0, float32, align=4)

    def body(b, p):
        b.store(scratch, b.const(0), b.const(1.0, float32, 2))
        b.store(param(1), b.const(0), b.load(scratch, b.const(0), 4))

    fails(body, r"scratch@0\[2\] is read before it is written", scratch=64)


def test_scratch_does_not_last_from_item_to_item():
    scratch = Mem("scratch", 0, float32, align=4)

    def body(b, p):
        with b.when(b.op("eq", p.item, b.const(0))):
            b.store(scratch, b.const(0), b.const(1.0, float32))
        b.store(param(1), p.item, b.load(scratch, b.const(0)))

    fails(body, r"scratch@0\[0\] is read before it is written.*item 1", items=4, scratch=64)


def test_pieces_of_scratch_end_where_the_next_begins():
    low, high = Mem("scratch", 0, float32, align=4), Mem("scratch", 64, float32, align=4)

    def body(b, p):
        b.store(high, b.const(0), b.const(1.0, float32))
        b.store(low, b.const(14), b.const(1.0, float32, 4))

    fails(body, r"scratch@0\[16\] is outside its 16 elements", scratch=128)


def test_scratch_past_the_arena():
    fails(
        lambda b, p: b.store(Mem("scratch", 0, float32), b.const(16), b.const(1.0, float32)),
        r"scratch@0\[16\] is outside its 16 elements",
        scratch=64,
    )


def test_reading_an_output_nobody_wrote():
    fails(lambda b, p: b.store(param(1), b.const(0), b.load(param(1), b.const(1))), r"y0\[1\] is read before it is written")


def test_reading_the_workspace_before_its_phase():
    with pytest.raises(VerifyError, match=r"work@64\[3\] is read before it is written.*phase 0, item 0"):
        run(two_phases(swap=True), [np.zeros(4, "f"), np.zeros(4, "f")])


def test_two_items_write_one_element():
    fails(
        lambda b, p: b.store(param(1), b.op("idiv", p.item, attr=2), b.const(1.0, float32)),
        r"y0\[0\] is written by two items of one phase.*item 1",
        items=4,
    )


def test_one_item_reads_what_another_writes():
    def body(b, p):
        b.store(param(1), p.item, b.const(1.0, float32))
        with b.when(b.op("eq", p.item, b.const(1))):
            b.store(param(1), p.item, b.load(param(1), b.const(0)))

    fails(body, r"y0\[0\] was written by another item of this phase", items=2)


def test_writing_an_input():
    fails(lambda b, p: b.store(param(0), b.const(0), b.const(1.0, float32)), "x0 is an input and cannot be written")


def off_by_one_element(n):
    """A float32 array of n elements that starts 4 bytes after a multiple of 64."""
    raw = np.zeros(n + 32, "f")
    start = (-raw.ctypes.data % 64) // 4 + 1
    return raw[start : start + n]


def test_alignment_claims():
    kernel = program(lambda b, p: b.store(param(1, align=16), b.const(3), b.const(1.0, float32, 4)), [(float32, 4)], [(float32, 8)])
    run(kernel, [np.zeros(4, "f"), off_by_one_element(8)])
    with pytest.raises(VerifyError, match=r"y0\[3\] is not aligned to 16 bytes"):
        run(kernel, [np.zeros(4, "f"), off_by_one_element(9)[1:]])
    fails(
        lambda b, p: b.store(Mem("scratch", 0, float32, align=16), b.const(1), b.const(1.0, float32, 4)),
        r"scratch@0\[1\] is not aligned to 16 bytes",
        scratch=64,
    )


def test_aligned_asks_for_the_real_address():
    kernel = program(lambda b, p: b.store(param(0), b.const(0), b.op("cast", b.aligned(0, 64), dtype=float32)), [], [(float32, 1)])
    a, c = off_by_one_element(1), off_by_one_element(16)[15:]
    run(kernel, [a])
    run(kernel, [c])
    assert a[0] == 0 and c[0] == 1


def test_a_masked_access_is_aligned_where_its_first_lane_is():
    def body(at):
        def go(b, p):
            tile, on = Mem("scratch", 0, float32, align=16), b.const((False, True, True, False), bool_, 4)
            b.store(tile, b.const(at), b.const(2.0, float32, 4), on)
            b.store(param(1), b.const(0), b.load(tile, b.const(at), 4, on))

        return go

    y = np.zeros(4, "f")
    run(program(body(4), [(float32, 4)], [(float32, 4)], scratch=64), [y, y.copy()])
    fails(body(3), r"scratch@0\[3\] is not aligned to 16 bytes", scratch=64)


def test_phases_may_reuse_val_numbers():
    builders = [Builder(), Builder()]
    phases = []
    for i, b in enumerate(builders):
        with b.phase(const(1), ()) as phase:
            b.store(param(0), b.const(i), b.const(float(i + 5), float32))
        phases.append(phase)
    y = np.zeros(2, "f")
    run(Program("p", (Param("y", float32, (2,), "out"),), (), phases), [y])
    assert list(y) == [5, 6]


# twin -------------------------------------------------------------------------------------------------------------
def test_twin_operations():
    def body(b, p):
        x, y = b.load(param(0), b.const(0), 4), b.load(param(1), b.const(0), 4)
        e = b.op("exp", b.op("sub", x, b.op("max", x, y)))
        z = b.op("div", b.op("fma", e, y, b.const(2.5, float32, 4)), b.op("neg", x))
        b.store(param(2), b.const(0), b.op("select", b.op("lt", x, y), z, b.op("sqrt", y)))
        b.store(param(3, int32), b.const(0), b.op("cast", x, dtype=int32))

    x, y = twin.draw((4,), 0), twin.draw((4,), 1)
    z, i = np.zeros(4, np.uint32), np.zeros(4, np.int32)
    run(program(body, [(float32, 4), (float32, 4)], [(float32, 4), (int32, 4)]), [x, y, z, i], twin=True)
    with np.errstate(over="ignore"):
        e = twin.exp(x - np.maximum(x, y))
        want = (e * y + twin.const(2.5)) * twin.hashed("div", np.uint32(0) - x)
    np.testing.assert_array_equal(z, np.where(x < y, want, twin.hashed("sqrt", y)))
    np.testing.assert_array_equal(i, x.view(np.int32))


def test_twin_scratch_of_sixteen_bit_floats_holds_whole_words():
    scratch = Mem("scratch", 0, float16, align=2)

    def body(b, p):
        b.store(scratch, b.const(1), b.op("cast", b.load(param(0), b.const(0)), dtype=float16))
        b.store(param(1), b.const(0), b.op("cast", b.load(scratch, b.const(1)), dtype=float32))

    x, y = twin.draw((1,), 0), np.zeros(1, np.uint32)
    run(program(body, [(float32, 1)], [(float32, 1)], scratch=64), [x, y], twin=True)
    assert x == y


def test_twin_refuses_expanded_functions():
    kernel = program(
        lambda b, p: b.store(param(1, uint32), b.const(0), b.op("bitcast", b.load(param(0), b.const(0)), dtype=uint32)),
        [(float32, 1)],
        [(uint32, 1)],
    )
    with pytest.raises(VerifyError, match="lower with expand=False"):
        Interpreter(kernel, twin=True)


def test_an_interpreter_runs_many_times():
    machine = Interpreter(sums(2, 2))
    for k in range(3):
        y = np.zeros(4, "f")
        machine.run([np.full(4, k, "f"), y])
        np.testing.assert_array_equal(y[:2], [k, k])
