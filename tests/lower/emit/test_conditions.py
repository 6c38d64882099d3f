"""Reductions, scans and scatters of conditions, however they are scheduled."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow, shared_axis
from tilewright import targets
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, OptError, bool_, cast, dtype, exp, float32, int32, sym, uint8, where
from tilewright.ir.body import Combine, Fold
from tilewright.ir.kernel import Kernel
from tilewright.ir.online.rewrite import online
from tilewright.lower import lower
from tilewright.opts import apply, opt
from tilewright.plan import best
from tilewright.program.program import Instr, statements
from tilewright.renderers import render

AVX2, AVX512, OPENCL, SM80 = (targets.named(n) for n in ("avx2", "cascadelake", "opencl-gpu", "sm_80"))


def rows_and_columns(m: int = 7, n: int = 37, of: str = "float32") -> Kernel:
    """Of rows and columns: whether any is above 0, whether all are, whether an odd number is, and how many are."""
    kb = KernelBuilder("rows_and_columns")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), dtype(of))
    a, b, c = (kb.axis(f"n@{s}", n) for s in "abc")
    p, q = kb.axis("m@p", m), kb.axis("m@q", m)
    some, every = kb.max("some", (i,), a, x[i, a] > 0), kb.min("every", (j,), p, x[p, j] >= 0)
    odd, many = kb.reduce("xor", "odd", (i,), b, x[i, b].ne(1)), kb.sum("many", (j,), q, x[q, j] > 0)
    none = kb.max("none", (i,), c, (x[i, c] > 2) & (c > i))
    kb.store("rows", uint8, (m,), (i,), cast(some[i], uint8) + cast(odd[i], uint8) * 2)
    kb.store("z", bool_, (m,), (i,), ~none[i])
    kb.store("columns", int32, (n,), (j,), where(every[j], many[j], -1))
    return kb.build()


def whole(m: int = 5, n: int = 23, of: str = "uint8") -> Kernel:
    """Whether any byte of an image is 255, and all of them are below the limit of their row."""
    kb = KernelBuilder("whole")
    i, j, p, q, x = kb.axis("m", m), kb.axis("n", n), kb.axis("m@2", m), kb.axis("n@2", n), kb.input("x", (m, n), dtype(of))
    limit = kb.input("limit", (m,), dtype(of))
    some, every = kb.max("some", (), (i, j), x[i, j].eq(5)), kb.min("every", (), (q, p), x[p, q] <= limit[p])
    kb.store("y", bool_, (2,), (kb.axis("k", 2),), where(kb.axis("k", 2).eq(0), cast(some[()], int32), cast(every[()], int32)).ne(0))
    return kb.build()


def running(m: int = 6, n: int = 21, of: str = "float32") -> Kernel:
    """Whether anything above 1 came before, whether all in a column were below so far, and the number of each that is."""
    kb = KernelBuilder("running")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), dtype(of))
    seen, fine = kb.scan("max", "seen", (i, j), j, x[i, j] > 1), kb.scan("min", "fine", (i, j), i, x[i, j] < 1)
    rank = kb.scan("add", "rank", (i, j), j, x[i, j] > 0)
    (found,) = kb.associative_scan(("found",), (i, j), j, (x[i, j] > 1,), (False,), lambda a, b: (a[0] | b[0],))
    kb.store("y", int32, (m, n), (i, j), where(seen[i, j] & ~fine[i, j], rank[i, j], 0))
    kb.store("z", bool_, (m, n), (i, j), found[i, j])
    return kb.build()


def scattered(n: int = 61, k: int = 7, of: str = "float32") -> Kernel:
    """Which classes have an element above 1, and all of theirs above 0."""
    kb = KernelBuilder("scattered")
    i, x, at = kb.axis("n", n), kb.input("x", (n,), dtype(of)), kb.input("at", (n,), int32, range=(0, k - 1))
    kb.store("some", bool_, (k,), (i,), x[i] > 1, (at[i],), combine="max")
    kb.store("every", bool_, (k,), (i,), x[i] > 0, (at[i],), combine="min", mask=x[i].ne(1))
    return kb.build()


KERNELS = (rows_and_columns, whole, running, scattered)
TYPES = ("float32", "uint8", "float64", "int16", "bfloat16", "int64")


@pytest.mark.slow
@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
def test_random_schedules_equal_the_reference(make: Callable[..., Kernel], of: str) -> None:
    rng = random.Random(f"{make.__name__} {of}")
    for n in range(4):
        sizes = [rng.choice((1, 2, 7, 16, 31, 40)) for _ in range(2)]
        kernel, target = make(*sizes, of=of), rng.choice((AVX2, AVX512))
        opts = grow(kernel, target, [rng.randrange(1 << 20) for _ in range(n)])
        check_twin(kernel, opts, target, None, n)
        check_floats(kernel, opts, target, None, n)
    host = targets.host()
    opts = grow(kernel, host, [rng.randrange(1 << 20) for _ in range(3)])
    check_compiled(kernel, opts, host, None, 2, 0)


@pytest.mark.many
@pytest.mark.parametrize("target", [OPENCL, SM80], ids=lambda t: t.name)
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
def test_groups_of_threads(make: Callable[..., Kernel], target: targets.Target) -> None:
    rng = random.Random(f"{make.__name__} {target.name}")
    for kernel in (make(), make(of="uint8")):
        opts = shared_axis(kernel, target, rng.randrange)
        for found in (opts, starts(kernel, target, 1)[0]):
            try:
                check_twin(kernel, found, target)
            except OptError:
                continue
            assert render(lower(apply(kernel, found, target)), target).text


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cpu:c"])
@pytest.mark.parametrize("of", ["float32", "uint8", "float64"])
def test_callers_get_what_numpy_gives(device: str, of: str) -> None:
    x = np.random.default_rng(1).integers(0, 3, (9, 53)).astype(of) - (of != "uint8")
    x[3], x[:, 5] = 0, 1
    rows, none, columns = best(rows_and_columns(9, 53, of), device=device)(x)
    np.testing.assert_array_equal(rows, (x > 0).any(axis=1) + 2 * np.bitwise_xor.reduce(x != 1, axis=1))
    np.testing.assert_array_equal(none, ~((x > 2) & (np.arange(53) > np.arange(9)[:, None])).any(axis=1))
    np.testing.assert_array_equal(columns, np.where((x >= 0).all(axis=0), (x > 0).sum(axis=0), -1))


def test_of_none_any_is_false_and_all_is_true() -> None:
    kb = KernelBuilder("none")
    n = sym("n", 0, 9)
    i, j, k, x = kb.axis("m", 4), kb.axis("n", n), kb.axis("n@2", n), kb.input("x", (4, n), float32)
    some, every = kb.max("some", (i,), j, x[i, j] > 0.0), kb.min("every", (i,), k, x[i, k] > 0.0)
    kb.store("y", bool_, (4,), (i,), some[i])
    kb.store("z", bool_, (4,), (i,), every[i])
    kernel = kb.build()
    check_twin(kernel, (), AVX2, {"n": 0})
    check_compiled(kernel, (), None, {"n": 0})


def test_vectors_are_combined_as_they_were_compared() -> None:
    """In the loop, what was compared is selected and joined, and nothing is converted."""
    kb = KernelBuilder("some")
    i, j, x = kb.axis("m", 64), kb.axis("n", 512), kb.input("x", (64, 512), uint8)
    some = kb.max("some", (i,), j, x[i, j] > 3)
    kb.store("y", uint8, (64,), (i,), some[i])
    program = lower(apply(kb.build(), (opt("UPCAST", "n", 32),), AVX2))
    wide = [s for s in statements(program.phases[0].body) if isinstance(s, Instr) and s.out is not None and s.out.lanes == 32]
    assert {s.op for s in wide} >= {"lt", "select", "or"} and not {s.op for s in wide} & {"cast", "ne", "max"}


@pytest.mark.many
@pytest.mark.parametrize(("combine", "size"), [("max", 0), ("min", 0), ("min", 8)])
def test_beside_sums_that_run_in_tiles(combine: Combine, size: int) -> None:
    """A row of attention where any (all) of its scores are above a limit: all of it is one loop over the keys."""
    kb = KernelBuilder("chosen")
    i, d, e = kb.axis("m", 6), kb.axis("d", 8), kb.axis("e", 8)
    a, b, c, f, g = (kb.axis(f"n@{site}", 32) for site in "abcfg")
    q, k, v = kb.input("q", (6, 8), float32), kb.input("k", (32, 8), float32), kb.input("v", (32, 8), float32)
    scores = kb.sum("scores", (i, a), d, q[i, d] * k[a, d])
    top = kb.max("top", (i,), b, scores[i, b])
    total = kb.sum("total", (i,), c, exp(scores[i, c] - top[i]))
    out = kb.sum("out", (i, e), f, exp(scores[i, f] - top[i]) * v[f, e])
    holds = kb.reduce(combine, "holds", (i,), g, scores[i, g] > (3.0 if combine == "max" else -5.0))
    kb.store("y", float32, (6, 8), (i, e), where(holds[i], out[i, e] / total[i], 0.0))
    found = online(kb.build())
    assert isinstance(found, Kernel)
    (fold,) = [item for item in found.body if isinstance(item, Fold)]
    assert fold.components[-1] == "holds" and fold.monoid.identity[-1].arg == (0 if combine == "max" else -1)
    opts = (opt("TILE", fold.axis.arg.name, size),) if size else ()
    check_floats(found, opts, AVX2)
    check_compiled(found, opts)
