"""Index arithmetic against Python, by enumerating every point of small axes."""

from __future__ import annotations

import itertools
import operator
import pickle
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright import targets
from tilewright.ir import (
    Kernel,
    KernelBuilder,
    KernelError,
    Node,
    absolute,
    axis,
    cast,
    clip,
    const,
    dtype,
    float32,
    floor,
    int64,
    maximum,
    minimum,
    sym,
    where,
)
from tilewright.ir import index as ix
from tilewright.ir.buffer import Buffer, load
from tilewright.ir.dtypes import index
from tilewright.ir.evaluation import evaluate
from tilewright.ir.integer_ranges import float_range
from tilewright.ir.node import make, walk
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import integer, substitute
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements

AXES = {"i": 3, "j": 4, "k": 5}
SYMBOL = (1, 4)
LEAVES = {name: axis(name, extent) for name, extent in AXES.items()} | {"s": sym("s", *SYMBOL)}
RANGES = {LEAVES[n]: range(e) for n, e in AXES.items()} | {LEAVES["s"]: range(SYMBOL[0], SYMBOL[1] + 1)}
POINTS = [dict(zip(RANGES, p)) for p in itertools.product(*RANGES.values())]

PYTHON = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}

small = st.integers(-9, 9)
name = st.sampled_from(sorted(LEAVES))
affine = st.tuples(st.just("add"), st.tuples(st.just("mul"), name, small), small)
leaf = st.one_of(small, name, affine)


def _grow(inner):
    scaled = st.tuples(st.just("mul"), inner, small)
    both = st.tuples(st.sampled_from(["add", "sub", "min", "max"]), inner, inner)
    divided = st.tuples(st.sampled_from(["div", "mod"]), inner, st.integers(1, 12))
    product = st.tuples(st.just("mul"), inner, inner)
    return st.one_of(both, both, scaled, divided, divided, product)


trees = st.recursive(leaf, _grow, max_leaves=6)


def build(tree) -> Node:
    """The expression, through the simplifying constructors."""
    if isinstance(tree, int):
        return const(tree)
    if isinstance(tree, str):
        return LEAVES[tree]
    op, a, b = tree
    if op == "div":
        return build(a) // b
    if op == "mod":
        return build(a) % b
    return ix.binary(op, build(a), build(b))


def python(tree, env):
    """Its value by Python's own arithmetic."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return env[LEAVES[tree]]
    op, a, b = tree
    return PYTHON[op](python(a, env), python(b, env))


@pytest.mark.slow
@given(trees)
@settings(max_examples=200, deadline=None)
def test_value_is_that_of_python_and_within_bounds(tree):
    node = build(tree)
    lo, hi = ix.bounds(node)
    for env in POINTS:
        want = python(tree, env)
        assert ix.evaluate(node, env) == want
        assert lo <= want <= hi


@given(trees, trees)
@settings(max_examples=100, deadline=None)
def test_a_function_of_symbols_is_evaluation(tree, other):
    symbols = {a: sym(n, 0, AXES[n] - 1) for n, a in LEAVES.items() if n in AXES}
    nodes = [substitute(build(t), dict(symbols)) for t in (tree, other)]
    found = ix.function(nodes, ["s", "k", "j", "i"])
    for env in POINTS:
        i, j, k, s = env.values()
        assert found(s, k, j, i) == (python(tree, env), python(other, env))


def test_a_function_of_other_symbols_is_refused():
    with pytest.raises(KernelError, match="no index of the symbols n"):
        ix.function([sym("m", 0, 9) + 1], ["n"])


@given(st.sampled_from(["lt", "le", "eq", "ne"]), trees, trees)
@settings(max_examples=100, deadline=None)
def test_comparison(op, a, b):
    node = ix.compare(op, build(a), build(b))
    for env in POINTS:
        want = PYTHON[op](python(a, env), python(b, env))
        if node.op == "const":
            assert node.arg is want
        else:
            assert node.op == op and PYTHON[op](*(ix.evaluate(s, env) for s in node.src)) is want


@given(trees, st.sampled_from(sorted(AXES)), trees)
@settings(max_examples=100, deadline=None)
def test_substitution_is_evaluation_in_another_environment(tree, site, replacement):
    """The replacement is wrapped into the axis' range: that is where simplifications that used the range hold."""
    extent = AXES[site]
    new = ("mod", replacement, extent)
    node = substitute(build(tree), {LEAVES[site]: build(new)})
    for env in POINTS:
        inner = {**env, LEAVES[site]: python(new, env)}
        assert ix.evaluate(node, env) == python(tree, inner)


@pytest.mark.slow
@given(trees, st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_quotient_and_remainder_recombine(tree, n):
    a = build(tree)
    q, r = a // n, a % n
    for env in POINTS:
        assert 0 <= ix.evaluate(r, env) < n
        assert ix.evaluate(q * n + r, env) == ix.evaluate(a, env)


@given(trees, trees, trees)
@settings(max_examples=100, deadline=None)
def test_sums_have_one_form(a, b, c):
    x, y, z = build(a), build(b), build(c)
    assert (x + y) + z is x + (y + z)
    assert x + y is y + x
    assert x - x is const(0)
    assert (x + y) - y is x


@given(trees, trees)
@settings(max_examples=60, deadline=None)
def test_products_distribute(a, b):
    x, y = build(a), build(b)
    assert x * y is y * x
    assert x * (y + 1) is x * y + x


@given(trees)
@settings(max_examples=50, deadline=None)
def test_pickled_nodes_come_back_as_themselves(tree):
    node = build(tree)
    assert pickle.loads(pickle.dumps(node)) is node


@given(trees, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_ceildiv(tree, n):
    node = ix.ceildiv(build(tree), n)
    for env in POINTS[::7]:
        assert ix.evaluate(node, env) == -(-python(tree, env) // n)


# exact forms: what schedules rely on ----------------------------------------------------------------------------------
def test_split_and_join_cancel():
    """x = 8·o + i with i < 8: x // 8 is o and x % 8 is i."""
    o, i = axis("o", 16), axis("x", 8)
    x = o * 8 + i
    assert x // 8 is o
    assert x % 8 is i
    assert (x // 8) * 8 + x % 8 is x


def test_common_factor_leaves_a_division():
    o = axis("o", 16)
    assert (o * 6 + 4) // 8 is (o * 3 + 2) // 4
    assert (o * 4) % 8 is (o % 2) * 4
    assert (o * 2 + 1) % 4 is not (o % 2) * 2


def test_nested_division_is_one():
    k = axis("n", 1000)
    assert (k // 3) // 5 is k // 15
    assert (k % 12) % 4 is k % 4


def test_intervals_decide_comparisons():
    i = axis("n", 8)
    assert (i < 8).arg is True
    assert (i >= 8).arg is False
    assert (i < 7).op == "lt"
    assert (i - i).eq(0).arg is True


def test_min_and_max_by_interval():
    i = axis("n", 8)
    assert ix.minmax("min", i, const(7)) is i
    assert ix.minmax("max", i, const(0)) is i
    assert ix.minmax("min", i, const(3)) is ix.minmax("min", const(3), i)


@pytest.mark.parametrize("n,why", [(0, "the divisor must be a positive int"), (1.5, "cast the index to a float type first")])
def test_division_by_what_is_no_divisor(n, why):
    with pytest.raises(KernelError, match=why):
        axis("n", 4) // n


def test_a_load_is_bounded_by_its_buffers_range():
    ids = Buffer("ids", dtype("int64"), (4,), range=(2, 6))
    i = axis("n", 4)
    assert ix.bounds(ids[i]) == (2, 6)
    assert ix.bounds(ids[i] * 2 + 1) == (5, 13)
    # masked off it is 0
    assert ix.bounds(load(ids, (i,), i < 2)) == (0, 6)


def test_a_narrow_integer_load_keeps_its_range_as_an_index():
    ids = Buffer("ids", dtype("int32"), (4,), range=(0, 9))
    i = axis("n", 4)
    assert ix.bounds(ids[i].cast(index)) == (0, 9)


def test_an_unknown_load_has_no_bounds():
    ids = Buffer("ids", dtype("int64"), (4,))
    lo, hi = ix.bounds(ids[axis("n", 4)])
    assert lo <= -(2**62) and hi >= 2**62
    # division must not fold on the artificial ends
    assert (ids[axis("n", 4)] // 8).op == "div"


def test_a_symbol_without_value_is_named():
    with pytest.raises(KernelError, match="give"):
        ix.evaluate(LEAVES["s"] * 2, {})


def test_where_is_bounded_by_both_sides():
    i = axis("n", 4)
    node = make("where", index, (i < 2, const(-3), i * 5))
    assert ix.bounds(node) == (-3, 15)


def test_operators_of_integers_have_intervals():
    """Every pair of small numbers lies in the interval of its result."""
    ranges = [(0, 3), (2, 7), (0, 12), (-5, 6), (4, 4), (1, 2)]
    operators = {
        "and": operator.and_, "or": operator.or_, "xor": operator.xor, "shr": operator.rshift,
        "floordiv": lambda a, b: a // b if b else 0, "remainder": lambda a, b: a % b if b else 0,
    }  # fmt: skip
    for (a, b), (c, d) in itertools.product(ranges, ranges):
        x, y = (Buffer("x", dtype("int64"), (), range=r)[()] for r in ((a, b), (c, d)))
        for op, f in operators.items():
            if op == "shr" and c < 0:
                continue
            lo, hi = ix.bounds(integer(op, x, y))
            seen = [f(p, q) for p in range(a, b + 1) for q in range(c, d + 1)]
            assert lo <= min(seen) and max(seen) <= hi, (op, a, b, c, d)
            assert min(a, c) < 0 or hi <= 15, "nothing is known"


@pytest.mark.parametrize(("step", "within", "n"), [(32, 32, 64), (8, 8, 64), (16, 4, 48), (6, 3, 12), (4, 4, 6), (5, 5, 10)])
def test_what_stays_inside_a_step_has_no_part_in_a_division(step: int, within: int, n: int) -> None:
    """Lanes of half a group of 64 are all in one group, whichever half it is."""
    block, lane = axis("block", 7), axis("lane", within)
    at = ix.linear({block: step, lane: 1}, 0)
    divided, left = ix.floordiv(at, n), ix.mod(at, n)
    for b, v in itertools.product(range(7), range(within)):
        env = {block: b, lane: v}
        assert (ix.evaluate(divided, env), ix.evaluate(left, env)) == divmod(step * b + v, n)
    if n % step == 0:
        assert divided is ix.floordiv(block, n // step) and ix.parts(left)[0][lane] == 1


def test_polynomials_of_data_are_not_multiplied_out():
    kb = KernelBuilder("determinants")
    i = kb.axis("n", 9)
    x = kb.input("x", (9, 4), "int64", range=(-1000, 1000))
    a, b, c, d = (x[i, k] for k in range(4))
    e = (a * b - c * d) * (a + b) * (c - 7)
    assert sum(len(n.src) - 1 for n in walk(e) if n.op == "prod") == 4
    kb.store("y", "int64", (9,), (i,), e)
    data = np.random.default_rng(0).integers(-1000, 1001, (9, 4))
    p, q, r, s = data.T
    for kernel in (kb.build(), normalise(kb.build())):
        assert (evaluate(kernel, {"x": data})["y"] == (p * q - r * s) * (p + q) * (r - 7)).all()
    assert ix.mul(ix.add(i, const(3)), ix.add(i, const(1))).op == "sum", "places are"


# Choices by a place that are remainders or extremes: the same numbers, and written as what they are.


N = 10
WRITTEN: list[tuple[Callable[[Node], Any], Callable[[Node], Node]]] = [
    (lambda i: where(i.eq(0), N - 1, i - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where(i > 0, i - 1, N - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where(i.ne(0), i - 1, N - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where(i - 1 < 0, i - 1 + N, i - 1), lambda i: ix.mod(i + (N - 1), N)),
    (lambda i: where((i + 1).eq(N), 0, i + 1), lambda i: ix.mod(i + 1, N)),
    (lambda i: where(i < 3, i + 7, i - 3), lambda i: ix.mod(i + 7, N)),
    (lambda i: where(i.eq(0), 0, i - 1), lambda i: ix.minmax("max", i - 1, const(0))),
    (lambda i: where(i.eq(0), 1, i - 1), lambda i: ix.minmax("max", i - 1, 1 - i)),
    (lambda i: where(i.eq(N - 1), N - 2, i + 1), lambda i: ix.minmax("min", i + 1, 2 * N - 3 - i)),
]


@pytest.mark.parametrize("case", range(len(WRITTEN)))
def test_borders_are_written_one_way(case: int) -> None:
    as_choice, as_border = WRITTEN[case]
    i = axis("i", N)
    assert as_choice(i) is as_border(i)


@pytest.mark.parametrize("make", [lambda i: where(i.eq(3), N - 1, i - 1), lambda i: where(i.eq(0), 5, i - 1)])
def test_other_choices_stay(make: Callable[[Node], Node]) -> None:
    assert make(axis("i", N)).op == "where"


COMPARED = {"lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne}
LINES = st.tuples(st.sampled_from([0, 1, -1]), st.integers(-11, 11))


@given(st.integers(2, 9), st.sampled_from(sorted(COMPARED)), st.tuples(LINES, LINES, LINES, LINES))
def test_a_choice_is_the_same_at_every_place(extent: int, op: str, lines: Any) -> None:
    i = axis("i", extent)
    left, right, a, b = (ix.add(ix.mul(i, const(slope)), const(c)) for slope, c in lines)
    cond = ix.compare(op, left, right)
    chosen = where(cond, a, b)
    if chosen.op == "where" or cond.op == "const":
        return
    for place in range(extent):
        at = {i: place}
        holds = COMPARED[op](ix.evaluate(left, at), ix.evaluate(right, at))
        assert ix.evaluate(chosen, at) == ix.evaluate(a if holds else b, at)


def test_wraps_of_wraps_are_one() -> None:
    i = axis("i", N)
    assert ix.mod(ix.mod(i + 1, N) + (N - 1), N) is i
    assert ix.mod(ix.mul(ix.mod(i + 1, 2 * N), const(3)) + 4, N) is ix.mod(ix.mul(i, const(3)) + 7, N)


def test_wraps_of_what_may_be_any_number_stay() -> None:
    """The largest number of 64 bits, wrapped and one more: the sum without the first wrap would not fit."""
    kb = KernelBuilder("wrapped")
    i = kb.axis("i", 4)
    p, x = kb.input("p", (4,), int64), kb.input("x", (7,), float32)
    kb.store("y", float32, (4,), (i,), x[(cast(p[i], index) % 7 + 1) % 7])
    places = np.array([2**63 - 1, -(2**63), 5, 6])
    got = evaluate(kb.build(), {"p": places, "x": np.arange(7, dtype=np.float32)}, {})["y"]
    assert got.tolist() == [(int(v) % 7 + 1) % 7 for v in places]


# Intervals of floats have all values that expressions take, and places computed of floats go by way of int32 wh


RANGES_FLOAT_RANGES: dict[str, tuple[Callable[[Node, Node], Node], tuple[float, float]]] = {
    "read": (lambda x, i: x, (-2.5, 4.0)),
    "clipped": (lambda x, i: clip(x * x * x, 0.0, 9.5), (0.0, 9.5)),
    "one side": (lambda x, i: maximum(x / 3.0, -1.0), (-1.0, inf)),
    "rounded": (lambda x, i: floor(x), (-3.0, 4.0)),
    "sum": (lambda x, i: x + 1.5, (-1.0, 5.5)),
    "difference": (lambda x, i: x - x, (-6.5, 6.5)),
    "product": (lambda x, i: x * -2.0, (-8.0, 5.0)),
    "size": (lambda x, i: absolute(x), (0.0, 4.0)),
    "choice": (lambda x, i: where(x > 0.0, minimum(x, 2.0), -7.0), (-7.0, 2.0)),
    "places": (lambda x, i: cast(i, "float32") * 0.5, (0.0, 31.5)),
    "unknown": (lambda x, i: x / x, (-inf, inf)),
}


def computed(f: Callable[[Node, Node], Node]) -> Kernel:
    kb = KernelBuilder("computed")
    i = kb.axis("n", 64)
    x = kb.input("x", (64,), dtype("float32"), range=(-2.5, 4.0))
    kb.store("y", dtype("float32"), (64,), (i,), f(x[i], i))
    return kb.build()


@pytest.mark.parametrize("name", RANGES_FLOAT_RANGES)
def test_intervals(name: str) -> None:
    f, wanted = RANGES_FLOAT_RANGES[name]
    kernel = computed(f)
    low, high = float_range(kernel.stores[0].expr)
    assert (low, high) == wanted
    x = np.linspace(-2.5, 4.0, 64).astype(np.float32)
    y = evaluate(kernel, {"x": x})["y"]
    y = y[np.isfinite(y)]
    assert (low <= y).all() and (y <= high).all()


def interpolated(limited: bool) -> Kernel:
    """A table of 20 numbers read between its elements, at places that floats say."""
    kb = KernelBuilder("interpolated")
    i = kb.axis("n", 37)
    t, at = kb.input("t", (20,), dtype("float32")), kb.input("at", (37,), dtype("float32"), range=(-4.0, 30.0))
    place = clip(at[i], 0.0, 18.0) if limited else at[i] / 2.0 + 2.0
    low = floor(place)
    p = cast(low, "int64") if limited else minimum(maximum(cast(low, "int64"), 0), 18)
    kb.store("y", dtype("float32"), (37,), (i,), t[p] + (t[p + 1] - t[p]) * (place - low))
    return kb.build()


@pytest.mark.parametrize(("limited", "through"), [(True, True), (False, False)])
def test_places_go_by_way_of_int32_where_they_are_known_to_fit(limited: bool, through: bool) -> None:
    kernel, opts, target = interpolated(limited), parse("Un8"), targets.named("haswell")
    found = [s for p in lower(apply(kernel, opts, target)).phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "cast"]
    turned = {str(s.out.dtype) for s in found if s.out is not None and s.out.lanes > 1 and s.args[0].dtype.is_float}
    assert turned == ({"int32"} if through else {"int64"})
    check_floats(kernel, opts, target)
    check_compiled(kernel, opts)
