"""Expression nodes: interning, promotion, folding, traversal, and what they refuse."""

from __future__ import annotations

import gc
import math
import pickle
import weakref

import numpy as np
import pytest
from checks import twin_of
from tilewright import targets
from tilewright.ir import (
    Buffer,
    Kernel,
    KernelBuilder,
    KernelError,
    Node,
    absolute,
    axis,
    bfloat16,
    bool_,
    cast,
    const,
    dtype,
    exp,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    maximum,
    minimum,
    sqrt,
    sym,
    where,
)
from tilewright.ir import index as ix
from tilewright.ir.buffer import load
from tilewright.ir.cost import cost
from tilewright.ir.evaluation import evaluate, evaluate_error
from tilewright.ir.kernel import kernel_text
from tilewright.ir.node import axes_of, make, walk
from tilewright.ir.node_text import LONGEST, order_key
from tilewright.ir.normal_form import canonical, loose
from tilewright.ir.operators import depth, substitute
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import render

I, J = axis("m", 4), axis("n", 8)
X = Buffer("x", float32, (4, 8))


def test_equal_expressions_are_one_object():
    assert X[I, J] + 1.0 is X[I, J] + 1.0
    assert exp(X[I, J]) is exp(X[I, J])
    assert axis("m", 4) is I and axis("m", 5) is not I


def test_constants_of_different_type_or_sign_are_different():
    values = [const(1), const(True), const(1.0), const(1, int32), const(1.0, float64), const(0.0), const(-0.0), const(0)]
    assert len({id(v) for v in values}) == len(values)
    assert math.copysign(1, const(-0.0).arg) == -1


def test_nodes_nobody_holds_are_freed():
    node = X[I, J] * 12345.5 + 1.0
    node._memo.clear()
    axes_of(node)
    alive = weakref.ref(node)
    del node
    gc.collect()
    assert alive() is None


def test_pickle_gives_the_same_object():
    node = where(I < 2, exp(X[I, J]), 0.0)
    assert pickle.loads(pickle.dumps(node)) is node
    assert pickle.loads(pickle.dumps(float16)) is float16


def test_sixteen_bit_floats_widen_before_arithmetic():
    for narrow in (float16, bfloat16):
        h = Buffer("h", narrow, (4,))[I]
        assert h.dtype is narrow
        assert (h + h).dtype is float32 and (h * 2.0).dtype is float32
        assert exp(h).dtype is float32 and maximum(h, 0.0).dtype is float32 and where(I < 1, h, 0.0).dtype is float32


def test_numbers_take_the_type_of_what_they_meet():
    d = Buffer("d", float64, (4,))[I]
    assert (d * 2).dtype is float64 and (1 / d).src[0] is const(1.0, float64)
    assert (I * 2 + 1).dtype is I.dtype
    assert (Buffer("q", int8, (4,))[I] + 3).dtype is int8


def test_mixed_types_are_refused_with_the_cure():
    with pytest.raises(KernelError, match="mul of float32 and float64: cast one of them"):
        X[I, J] * Buffer("d", float64, (4,))[I]
    with pytest.raises(KernelError, match=r"where\(\) of float32 and int32: cast one of them"):
        where(I < 1, X[I, J], const(1, int32))
    with pytest.raises(KernelError, match="exp of int32: cast it to a float type"):
        exp(const(1, int32))
    with pytest.raises(KernelError, match="meets an index: cast the index"):
        I + 0.5


def test_an_expression_has_no_truth_value():
    with pytest.raises(KernelError, match="has no truth value"):
        bool(X[I, J] < 1.0)
    with pytest.raises(KernelError, match="has no truth value"):
        if I < 3 and J < 2:
            pass


def test_casts():
    assert cast(X[I, J], float32) is X[I, J]
    assert cast(const(3), float32) is const(3.0, float32)
    assert cast(const(2.7), int32) is const(2, int32)
    assert X[I, J].cast(float16).op == "cast"


def test_logic_folds_constants():
    inside = I < 2
    assert (inside & const(True)) is inside and (inside & const(False)) is const(False)
    assert (inside | const(False)) is inside and (inside | const(True)) is const(True)
    assert (inside & inside) is inside
    assert ~const(True) is const(False)
    assert where(const(True), X[I, J], 0.0) is X[I, J]


def test_masked_loads():
    assert X.masked(const(True), I, J) is X[I, J]
    assert X.masked(const(False), I, J) is const(0.0, float32)
    node = X.masked(I < 2, I, J)
    assert node.arg == (X, True) and len(node.src) == 3
    # deciding the mask later has the same effect
    assert substitute(node, {I: const(1)}) is X[const(1), J]
    assert substitute(node, {I: const(3)}) is const(0.0, float32)


def test_wrong_number_of_indices():
    with pytest.raises(KernelError, match="x has 2 dimensions and was indexed with 1"):
        X[I]
    with pytest.raises(KernelError, match="x has 2 dimensions and was indexed with 3"):
        load(X, (I, J, J))


def test_bad_leaves():
    with pytest.raises(KernelError, match="extent -1 is negative"):
        axis("m", -1)
    with pytest.raises(KernelError, match=r"range \[5, 2\] must satisfy 0 <= lo <= hi"):
        sym("n", 5, 2)
    with pytest.raises(KernelError, match="is not a whole number"):
        const(1.5, int32)
    with pytest.raises(KernelError, match="unknown dtype 'float31'; use one of float64"):
        dtype("float31")


def test_a_constant_extent_is_an_int():
    assert axis("m", const(4)).arg.extent == 4
    assert axis("m", sym("s", 1, 4) * 1).arg.extent is sym("s", 1, 4)


def test_family_and_site():
    a = axis("n@max", 8)
    assert (a.arg.name, a.arg.family) == ("n@max", "n")


def test_walk_yields_operands_first_and_once():
    e = exp(X[I, J])
    root = e * e + e
    seen = list(walk(root))
    assert len(seen) == len(set(seen))
    place = {n: i for i, n in enumerate(seen)}
    assert all(place[s] < place[n] for n in seen for s in n.src)


def test_axes_of_an_expression():
    assert axes_of(X[I, J] + 1.0) == {I, J}
    assert axes_of(const(1.0)) == set()
    assert axes_of(X[I, const(0)], exp(X[const(0), J])) == {I, J}


def test_substitution_simplifies():
    k = axis("k", 2)
    assert substitute((I * 8 + J) // 8, {J: k * 4}) is I
    assert substitute(where(I < 2, X[I, J], 0.0), {I: const(0)}) is X[const(0), J]


def test_operators_keep_their_order_and_types():
    x = X[I, J]
    assert (x - 1.0).src == (x, const(1.0)) and (1.0 - x).src == (const(1.0), x)
    assert (x > 1.0) is (const(1.0) < x) and (x < 1.0).dtype is bool_
    assert (-x).op == "neg" and (-I) is I * -1
    assert (absolute(x).op, sqrt(x).op, x.eq(1.0).op, x.ne(1.0).op) == ("abs", "sqrt", "eq", "ne")


def test_text_is_readable():
    assert repr(exp(X[I, J] - 1.0)) == "exp((x[m, n] - 1))"
    assert repr(X.masked(I < 2, I, J)) == "(x[m, n] if (m < 2) else 0)"
    assert repr((I * 2 + 1) % 4) == "((m*2 + 1) % 4)"
    assert repr(make("arg", float32, (), "a.M")) == "$a.M"


def test_the_larger_of_a_number_and_its_negative_is_its_size():
    x = X[I, J]
    assert maximum(x, -x) is maximum(-x, x) is absolute(x)
    assert minimum(x, -x) is -absolute(x)
    n = Buffer("n", int32, (4,))[I]
    assert maximum(n, -n).op == "max", "the least integer has no size"


def test_axes_are_met_in_an_order_that_no_address_decides() -> None:
    """What depends on the order of axes must not depend on where nodes lie in memory: start schedules differed from process to process."""
    from tilewright.ir.dtypes import index
    from tilewright.ir.node import axis, ordered_axes

    made = [axis(f"a{k}", 7) for k in range(12)]
    for order in (made, made[::-1], made[5:] + made[:5]):
        assert ordered_axes(make("prod", index, (*order, made[3]))) == tuple(order)
    assert ordered_axes(made[2]) == (made[2],)


# Expressions whose text is very long, since what is shared is written out each time: they are shown in part, an


def test_what_is_shared_again_and_again_is_shown_in_part() -> None:
    kb = KernelBuilder("rounds")
    i = kb.axis("n", 8)
    v: Node = kb.input("x", (8,), float32)[i]
    for _ in range(200):  # its text would have 2 ** 200 terms
        v = v * v + v
    assert len(repr(v)) < LONGEST + 100 and repr(v).endswith("…")


def test_terms_that_begin_alike_for_long_are_told_apart() -> None:
    kb = KernelBuilder("places")
    i = kb.axis("n", 8)
    x = kb.input("a_rather_long_name_of_an_input_whose_elements_are_places_in_another", (2000, 8), int64)

    def smallest(last: int) -> Node:
        out = x[last, i]
        for k in range(300):
            out = ix.minmax("min", x[k, i], out)
        return out

    one, other = smallest(1000), smallest(1001)
    assert one is not other and repr(one) == repr(other)
    assert order_key(one) != order_key(other)
    assert ix.add(one, other) is ix.add(other, one)


# Expressions of thousands of operators one inside the other, and sums of many inputs: no stage recurses as deep


N = 64


def chain(length: int, inner: str = "x") -> Kernel:
    k = KernelBuilder("chain")
    i = k.axis("i", N)
    value: Node = k.input(inner, (N,), float32)[i]
    for at in range(length):
        value = [value + 0.25, value * 1.0625, exp(value - 4.0)][at % 3]
    k.store("y", float32, (N,), (i,), value)
    return k.build()


def total(inputs: list[str]) -> Kernel:
    k = KernelBuilder("total")
    i = k.axis("i", N)
    first, *rest = [k.input(name, (N,), float32)[i] for name in inputs]
    for x in rest:
        first = x + first
    k.store("y", float32, (N,), (i,), first)
    return k.build()


@pytest.mark.slow
def test_a_chain_of_1500() -> None:
    kernel = chain(1500)
    assert canonical(kernel).hash == canonical(chain(1500, "other")).hash != canonical(chain(1499)).hash
    assert set(loose(kernel)) == {"extents", "epilogue"}
    assert len(kernel_text(kernel)) > 1500 and cost(kernel).elementary == N * 500
    x = np.linspace(-1, 1, N, dtype=np.float32)
    want = evaluate(kernel, {"x": x})["y"]
    assert np.isfinite(want).all() and evaluate_error(kernel, {"x": x}) is not None
    target = targets.named("avx2")
    scheduled = apply(kernel, parse([["UPCAST", "i", 8]]), target)
    assert render(lower(scheduled), target).text.count("llvm.fma") > 500
    twin_of(lower(scheduled, expand=False), kernel, {})


def test_a_deep_expression_is_walked_without_recursion() -> None:
    kernel = chain(3000)
    (root,) = (s.expr for s in kernel.stores)
    (i,) = axes_of(root)
    assert depth(root) > 3000
    moved = substitute(root, {i: const(3)})
    assert axes_of(moved) == set() and depth(moved) == depth(root)
    assert repr(moved).count("exp(") == 1000


def test_lowering_in_parts_keeps_one_instruction_an_operator() -> None:
    """What is evaluated early is not evaluated again, and additions still fuse with products."""
    target = targets.named("avx2")
    text = render(lower(apply(total([f"x{n}" for n in range(200)]), (), target)), target).text
    assert text.count("fadd") == 199


def test_a_sum_of_many_inputs_has_one_name_in_any_order_of_parameters() -> None:
    names = [f"x{n}" for n in range(64)]
    assert canonical(total(names)).hash == canonical(total(names[::-1])).hash


def test_equal_operands_are_both_written() -> None:
    k = KernelBuilder("twice")
    i = k.axis("i", N)
    x = k.input("x", (N,), float32)[i]
    k.store("y", float32, (N,), (i,), x + x)
    assert "add float32 n1 n1" in canonical(k.build()).text
