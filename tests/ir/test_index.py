"""Index arithmetic against Python, by enumerating every point of small axes."""

import itertools
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright.ir import KernelBuilder, KernelError, axis, const, dtype, sym
from tilewright.ir import index as ix
from tilewright.ir.buffer import Buffer, load
from tilewright.ir.dtypes import index
from tilewright.ir.evaluation import evaluate
from tilewright.ir.node import Node, make, walk
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import integer, substitute

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
