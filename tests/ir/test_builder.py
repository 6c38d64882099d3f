"""Elements of values under a mask: 0 where it does not hold, wherever the index is then."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow, shared_axis
from tilewright import targets
from tilewright.ir import KernelBuilder, KernelError, bfloat16, bool_, cast, const, dtype, exp, float32, int32, int64, maximum, sym, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import MASKED, walk
from tilewright.ir.normal_form import canonical
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import render

AVX2, OPENCL, SM80 = (targets.named(n) for n in ("avx2", "opencl-gpu", "sm_80"))


def before(m: int = 6, n: int = 19, of: str = "float32") -> Kernel:
    """Each state of a running sum less the one before, down the columns, and the largest so far before the last two along rows."""
    kb = KernelBuilder("before")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), dtype(of))
    s, top = kb.scan("add", "s", (i, j), i, x[i, j]), kb.scan("max", "top", (i, j), j, x[i, j])
    kb.store("y", s.dtype, (m, n), (i, j), s[i, j] - s.masked(i > 0, i - 1, j))
    kb.store("z", top.dtype, (m, n), (i, j), top.masked(j >= 2, i, j - 2))
    return kb.build()


def blurred(m: int = 7, n: int = 23, of: str = "float32") -> Kernel:
    """A kept value and its four neighbours, where there are such; of whole numbers squares, of others exponentials."""
    kb = KernelBuilder("blurred")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), dtype(of))
    v = kb.value("v", (i, j), x[i, j] * x[i, j])
    near = v.masked(i > 0, i - 1, j) + v.masked(i + 1 < m, i + 1, j) + v.masked(j > 0, i, j - 1) + v.masked(j + 1 < n, i, j + 1)
    kb.store("y", v.dtype, (m, n), (i, j), v[i, j] + near)
    return kb.build()


def looked_up(m: int = 9, n: int = 17, of: str = "float32") -> Kernel:
    """The sum of the row that data names, which may be none; and whether any of it is above 1."""
    kb = KernelBuilder("looked_up")
    i, j, k, a = kb.axis("m", m), kb.axis("n", n), kb.axis("n@2", n), kb.axis("m@at", m)
    x, at = kb.input("x", (m, n), dtype(of)), kb.input("at", (m,), int32, range=(-1, m))
    total, some = kb.sum("total", (i,), j, x[i, j]), kb.max("some", (i,), k, x[i, k] > 1)
    there = (at[a] >= 0) & (at[a] < m)
    kb.store("y", total.dtype, (m,), (a,), total.masked(there, at[a]))
    kb.store("z", bool_, (m,), (a,), some.masked(there, at[a]) | ~some.masked(a.eq(0), a - 1 + 1))
    return kb.build()


KERNELS = (before, blurred, looked_up)


def test_the_reference_is_numpys() -> None:
    x = np.random.default_rng(0).standard_normal((6, 19)).astype(np.float32)
    got, wide = evaluate(before(), {"x": x}), x.astype(np.float64)
    np.testing.assert_allclose(got["y"], wide, rtol=1e-9, atol=1e-12)
    want = np.zeros_like(wide)
    want[:, 2:] = np.maximum.accumulate(wide, axis=1)[:, :-2]
    np.testing.assert_array_equal(got["z"], want)
    padded = np.pad(wide[:5, :8] ** 2, 1)
    near = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    np.testing.assert_allclose(evaluate(blurred(5, 8), {"x": x[:5, :8]})["y"], padded[1:-1, 1:-1] + near, rtol=1e-9)
    at = np.array([5, -1, 0, 6, 2, 2], np.int32)
    got = evaluate(looked_up(6, 19), {"x": x, "at": at})
    np.testing.assert_allclose(got["y"], [0.0 if k in (-1, 6) else wide[k].sum() for k in at], rtol=1e-9)
    some = (x > 1).any(axis=1)
    np.testing.assert_array_equal(got["z"], [(k not in (-1, 6) and some[k]) or not (n == 0 and some[0]) for n, k in enumerate(at)])


@pytest.mark.slow
@pytest.mark.parametrize("of", ["float32", "int32", "bfloat16", "int64"])
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
def test_random_schedules_equal_the_reference(make: Callable[..., Kernel], of: str) -> None:
    rng = random.Random(f"{make.__name__} {of}")
    for n in range(4):
        k = make(rng.choice((1, 2, 7, 16)), rng.choice((1, 2, 3, 19, 32)), of)
        opts = grow(k, AVX2, [rng.randrange(1 << 20) for _ in range(n + 1)])
        check_twin(k, opts, AVX2, None, n)
        check_floats(k, opts, AVX2, None, n)
    k = make(of=of)
    check_compiled(k, grow(k, targets.host(), [rng.randrange(1 << 20) for _ in range(3)]), None, None, 2)
    for target in (OPENCL, SM80):
        opts = shared_axis(k, target, rng.randrange)
        check_twin(k, opts, target)
        assert render(lower(apply(k, opts, target)), target).text


@pytest.mark.parametrize("opts", [[["STAGE", "v", {"at": "m"}]], [["HALO", "m", 4], ["PARALLEL", "m.h"], ["STAGE", "v", {"at": "m.h"}]]])
def test_kept_values_have_halos(opts: Any) -> None:
    check_twin(blurred(), parse(opts), AVX2)
    check_compiled(blurred(), parse(opts))


def test_a_size_that_is_a_symbol() -> None:
    n = sym("n", 0, 40)
    k = before(4, n)  # type: ignore[arg-type]
    for size in (0, 1, 2, 29):
        check_twin(k, (), AVX2, {"n": size})


def one(write: Callable[..., Any], out: Any = float32) -> Kernel:
    kb = KernelBuilder("k")
    i, j, x = kb.axis("m", 8), kb.axis("n", 9), kb.input("x", (8, 9), float32)
    s = kb.scan("add", "s", (i, j), j, x[i, j])
    kb.store("y", out, (8, 9), (i, j), write(kb, s, i, j, x))
    return kb.build()


def test_it_is_the_kernel_that_is_written_with_a_clamp() -> None:
    made = one(lambda kb, s, i, j, x: exp(s.masked((j > 0) & (x[i, j] > 0.0), i, j - 1)))
    by_hand = one(lambda kb, s, i, j, x: exp(where((j > 0) & (x[i, j] > 0.0), s[i, maximum(j - 1, 0)], 0.0)))
    assert canonical(made).hash == canonical(by_hand).hash
    assert not any(n.op == MASKED for n in walk(*made.expressions()))


def test_masks_that_are_known() -> None:
    always = one(lambda kb, s, i, j, x: s.masked(const(True), i, j))
    assert always.stores[0].expr.op == "ref"
    assert one(lambda kb, s, i, j, x: s.masked(const(False), i, j - 7)).stores[0].expr.arg == 0.0


def test_values_that_are_places() -> None:
    """An int64 value under a mask is an index as good as any."""
    kb = KernelBuilder("k")
    i, x, at = kb.axis("n", 9), kb.input("x", (9,), float32), kb.input("at", (9,), int64, range=(0, 8))
    place = kb.value("place", (i,), at[8 - i])
    kb.store("y", float32, (9,), (i,), x.masked(i > 0, place.masked(i > 0, i - 1)) * cast(place.masked(i < 8, i + 1) + 1, float32))
    data, places = np.arange(1.0, 10.0, dtype=np.float32), np.random.default_rng(0).integers(0, 9, 9)
    turned = places[::-1]
    want = np.concatenate([[0.0], data[turned[:-1]]]) * (np.concatenate([turned[1:], [0]]) + 1)
    np.testing.assert_array_equal(evaluate(kb.build(), {"x": data, "at": places})["y"], want)
    check_compiled(kb.build(), ())


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "outside where it holds": (
        lambda kb, s, i, j, x: s.masked(j > 1, i, j - 3),
        r"reads outside of s: in dimension 1.*where its mask holds and is -1",
    ),
    "outside without": (lambda kb, s, i, j, x: s[i, j - 3], r"or read it by s.masked\(condition, ...\), or keep the index inside"),
    "too few": (lambda kb, s, i, j, x: s.masked(j > 1, i), "value s has 2 axes and was indexed with 1"),
    "a number": (lambda kb, s, i, j, x: s.masked(x[i, j], i, j), "the mask of s is x.m, n., which is float32 and not a condition"),
    "a flag": (lambda kb, s, i, j, x: s.masked(j == 0, i, j), "the mask of s: False is a Python bool"),
    "a float": (lambda kb, s, i, j, x: s.masked(j > 0, i, x[i, j]), "s is indexed with x.m, n., which is float32"),
    "in a rule": (
        lambda kb, s, i, j, x: kb.associative_scan(
            ("p",), (i, j), j, (x[i, j],), (0.0,), lambda a, b: (a[0] + s.masked(a[0] > 0.0, 0, 0),)
        )[0],
        r"the rule uses \(s.0, 0. if",
    ),
    "another kernel's": (
        lambda kb, s, i, j, x: KernelBuilder("other").value("alien", (i, j), x[i, j]).masked(i > 0, i, j),
        "refers to alien, which is not an earlier value",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    with pytest.raises(KernelError, match=WRONG[name][1]):
        one(WRONG[name][0])


def test_text() -> None:
    kb = KernelBuilder("k")
    i = kb.axis("m", 8)
    v = kb.value("v", (i,), cast(i, float32))
    assert repr(v.masked(i > 0, i - 1)) == "(v[(m + -1)] if (0 < m) else 0)"


# Components that are stored one by one become one store.


def apart(step: int = 2, count: int = 2, first: int = 0, dtype: object = float32) -> Kernel:
    kb = KernelBuilder("apart")
    i, j = kb.axis("m", 3), kb.axis("n", 4)
    x = kb.input("x", (3, 8), float32)
    for c in reversed(range(count)):
        kb.store("y", dtype, (3, 4 * step), (i, j), x[i, 2 * j + c % 2] + float(c), (i, step * j + first + c))
    return kb.build()


def together() -> Kernel:
    kb = KernelBuilder("together")
    i, j, c = kb.axis("m", 3), kb.axis("n", 4), kb.axis("part", 2)
    x = kb.input("x", (3, 8), float32)
    kb.store("y", float32, (3, 8), (i, j, c), where(c.eq(0), x[i, 2 * j] + 0.0, x[i, 2 * j + 1] + 1.0), (i, 2 * j + c))
    return kb.build()


def test_both_ways_of_writing_are_one_kernel() -> None:
    made = apart()
    assert [a.arg.name for a in made.stores[0].axes] == ["m", "n", "part"] and len(made.stores) == 1
    assert canonical(made).hash == canonical(together()).hash


def test_what_is_rounded_is_rounded_once() -> None:
    assert apart(dtype=bfloat16).stores[0].expr.src[0].dtype is float32


@pytest.mark.parametrize(("step", "count", "first"), [(3, 2, 0), (17, 17, 0), (4, 2, 1), (4, 2, 2)], ids=str)
def test_parts_that_are_no_whole_groups_stay_apart(step: int, count: int, first: int) -> None:
    assert len(apart(step, count, first).stores) == count
