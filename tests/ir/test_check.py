"""What a malformed kernel is told."""

import pytest
from tilewright.ir import KernelBuilder, KernelError, float32
from tilewright.ir.body import Store, Value
from tilewright.ir.buffer import Buffer
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import axis, const, ref

I, J = axis("m", 4), axis("n", 8)
X, Y = Buffer("x", float32, (4, 8)), Buffer("y", float32, (4,), "out")


def kernel(body, stores, buffers=(X, Y)):
    return Kernel("k", tuple(body), tuple(stores), tuple(buffers))


def test_no_store():
    with pytest.raises(KernelError, match="kernel k stores nothing"):
        kernel([], [])


def test_an_axis_that_is_not_bound():
    with pytest.raises(KernelError, match="value v of kernel k uses n, which it does not bind"):
        kernel([Value("v", (I,), X[I, J], float32)], [Store(Y, (I,), ref("v", (I,), float32), (I,))])
    with pytest.raises(KernelError, match="store to y of kernel k uses n"):
        kernel([], [Store(Y, (I,), X[I, J], (I,))])


def test_references():
    with pytest.raises(KernelError, match="refers to v, which is not an earlier value"):
        kernel([], [Store(Y, (I,), ref("v", (I,), float32), (I,))])
    with pytest.raises(KernelError, match="v has 1 axes and was indexed with 2"):
        kernel([Value("v", (I,), const(1.0), float32)], [Store(Y, (I,), ref("v", (I, I), float32), (I,))])
    with pytest.raises(KernelError, match="loads from x, which is not its parameter"):
        kernel([], [Store(Y, (I,), X[I, const(0)], (I,))], (Y,))


def test_names_are_unique():
    v = Value("y", (I,), const(1.0), float32)
    with pytest.raises(KernelError, match=r"y is defined more than once \(an output and a value\): give one of them another name"):
        kernel([v], [Store(Y, (I,), ref("y", (I,), float32), (I,))])


def test_an_output_and_what_is_stored_there_have_two_names():
    for name in ("sum", "scan"):
        kb = KernelBuilder("k")
        i, j = kb.axis("m", 4), kb.axis("n", 5)
        x = kb.input("x", (4, 5), float32)
        made = kb.sum("y", (i,), j, x[i, j]) if name == "sum" else kb.scan("add", "y", (i, j), j, x[i, j])
        at = (i,) if name == "sum" else (i, j)
        kb.store("y", float32, tuple(a.arg.extent for a in at), at, made[at])
        kind = {"sum": "reduction", "scan": "scan"}[name]
        with pytest.raises(KernelError, match=rf"y is defined more than once \(an output and a {kind}\)"):
            kb.build()


def test_a_family_has_one_extent():
    other = axis("m@b", 5)
    v = Value("v", (other,), const(1.0), float32)
    with pytest.raises(KernelError, match=r"family m have different extents: .*m@b 5.*name those of another extent otherwise, such as m2"):
        kernel([v], [Store(Y, (I,), const(1.0), (I,))])


def test_store_dimensions_and_combine():
    with pytest.raises(KernelError, match="store to y: 2 indices for 1 dimensions"):
        kernel([], [Store(Y, (I, I), const(1.0), (I,))])
    with pytest.raises(KernelError, match="unknown combine 'nor'"):
        kernel([], [Store(Y, (I,), const(1.0), (I,), "nor")])


def test_builder_messages():
    kb = KernelBuilder("k")
    i = kb.axis("m", 4)
    with pytest.raises(KernelError, match="unknown combine 'avg'; use one of add, mul, max, min"):
        kb.reduce("avg", "v", (), i, const(1.0))
    with pytest.raises(KernelError, match="the mask of y is 1, which is float32 and not a condition"):
        kb.store("y", float32, (4,), (i,), const(1.0), mask=const(1.0))
    v = kb.value("v", (i,), const(1.0))
    with pytest.raises(KernelError, match="value v has 1 axes and was indexed with 2"):
        v[i, i]


def test_scan_axis_must_be_an_axis_of_the_value():
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 4), kb.axis("n", 8)
    x = kb.input("x", (4, 8), float32)
    s = kb.scan("add", "s", (i,), j, x[i, j])
    kb.store("y", float32, (4,), (i,), s[i])
    with pytest.raises(KernelError, match="scan s: its axis must be one of the value's axes"):
        kb.build()


def test_fold_components_need_identities_and_merges():
    kb = KernelBuilder("k")
    i, j = kb.axis("m", 4), kb.axis("n@max", 8)
    x = kb.input("x", (4, 8), float32)
    top = kb.block_reduce("max", "top", (i,), j, x[i, j])
    kb.fold("f", kb.axis("n", 8), (top,), (top,), (0.0,), ())
    kb.store("y", float32, (4,), (i,), top[i])
    with pytest.raises(KernelError, match="fold f: 1 components need as many identities and merges"):
        kb.build()
