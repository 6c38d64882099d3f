"""Sums over pairs in some order, bands and corners: loops go through what is reduced only."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from checks import check_compiled, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.ir import KernelBuilder, Node, float32, int32, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, statements

TARGET = targets.named("avx2")
N = 21
CONDITIONS: dict[str, Callable[[Node, Node], Node]] = {
    "above": lambda i, j: j > i,
    "up to": lambda i, j: j <= i,
    "band": lambda i, j: (j - i < 4) & (i - j <= 2),
    "steep": lambda i, j: 2 * j + 5 >= 3 * i,
    "nowhere": lambda i, j: (j > i + 30) & (j < i - 3),
}


def pairs(holds: Callable[[Node, Node], Node]) -> Kernel:
    """A sum, a maximum and a masked sum over pairs, and pairs that are counted."""
    kb = KernelBuilder("pairs")
    i, j, k, l, m = (kb.axis(x, N) for x in ("i", "j", "k", "l", "m"))
    x, w = kb.input("x", (N,), float32), kb.input("w", (N, N), float32)
    total = kb.sum("total", (i,), j, where(holds(i, j), x[i] * w[i, j], 0.0))
    most = kb.max("most", (i,), k, where(holds(i, k), w[i, k] + x[k], float("-inf")))
    some = kb.sum("some", (i,), l, w.masked(holds(i, l), l, i))
    count = kb.sum("count", (i,), m, where(holds(i, m), 1, 0))
    kb.store("y", float32, (N,), (i,), total[i] + some[i])
    kb.store("z", float32, (N,), (i,), most[i])
    kb.store("n", int32, (N,), (i,), count[i].cast(int32))
    return kb.build()


@pytest.mark.parametrize("opts", ["(none)", "Um8"])
def test_a_condition_over_another_axis_of_the_same_family_is_another(opts: str) -> None:
    kb = KernelBuilder("of_one_family")
    i, j, k = kb.axis("m", N), kb.axis("n", N), kb.axis("n@2", N)
    x = kb.input("x", (N, N), float32)
    total = kb.sum("total", (i,), (j, k), where(j < i, where(k < i, x[j, k], 5.0), 0.0))
    kb.store("y", float32, (N,), (i,), total[i])
    check_twin(kb.build(), parse(opts), TARGET)


@pytest.mark.many
@pytest.mark.parametrize("name", CONDITIONS)
def test_random_schedules_equal_the_reference(name: str) -> None:
    kernel = pairs(CONDITIONS[name])
    rng = random.Random(name)
    for n in range(2):
        opts = grow(kernel, TARGET, [rng.randrange(1 << 20) for _ in range(2 * n)], parse([["UPCAST", "i", 8]]) if n % 2 else ())
        check_twin(kernel, opts, TARGET, None, n)


def test_compiled_code_agrees() -> None:
    check_compiled(pairs(CONDITIONS["band"]), parse([["UPCAST", "i", 8]]), TARGET)


def test_loops_begin_where_something_is_added() -> None:
    kb = KernelBuilder("above")
    i, j = kb.axis("i", 64), kb.axis("j", 64)
    w = kb.input("w", (64, 64), float32)
    total = kb.sum("total", (i,), j, where(j > i, w[i, j], 0.0))
    kb.store("y", float32, (64,), (i,), total[i])
    program = lower(apply(kb.build(), parse([]), TARGET))
    loops = [s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.label == "j"]
    made = {s.out for p in program.phases for s in statements(p.body) if getattr(s, "op", "") == "const"}
    assert loops and any(loop.lo not in made for loop in loops)


def product(above: bool = False, m: int = 45, n: int = 45) -> Kernel:
    """A triangular matrix times a matrix."""
    kb = KernelBuilder("triangular_product")
    i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("k", m)
    a, x = kb.input("a", (m, m), float32), kb.input("x", (m, n), float32)
    total = kb.sum("total", (i, j), k, where(k >= i if above else k < i, a[i, k] * x[k, j], 0.0))
    kb.store("y", float32, (m, n), (i, j), total[i, j])
    return kb.build()


@pytest.mark.parametrize("opts", ["Um6 Un8 Rk4", "Um12 Un16 Rk4", "Um15 Un24 Rk2"])
def test_long_steps_are_left_out_too(opts: str) -> None:
    program = lower(apply(product(m=60, n=48), parse(opts), TARGET))
    loops = [s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.label == "k"]
    made = {s.out for p in program.phases for s in statements(p.body) if getattr(s, "op", "") == "const"}
    assert loops and all(loop.hi not in made or loop.lo not in made for loop in loops)


@pytest.mark.many
@pytest.mark.parametrize("opts", ["Um6 Un8 Rk4", "Um12 Un16 Rk4", "Um15 Un24 Rk2", "Um4 Un8 Tn8 Pn Rk4 Sx@n", "Um8 Un8 Tk16 Mk<m Rk2"])
@pytest.mark.parametrize("above", [False, True])
def test_triangular_products_equal_the_reference(opts: str, above: bool) -> None:
    check_twin(product(above), parse(opts), TARGET)
    check_compiled(product(above), parse(opts))
