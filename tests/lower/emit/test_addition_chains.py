"""How long chains of additions are, and what that does to errors."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from checks import check_twin
from tilewright import best, targets
from tilewright.ir import KernelBuilder
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.lower.emit.addition_chains import PARTIAL, PRODUCT, SUM, Longest, levels
from tilewright.opts import apply, parse
from tilewright.program.program import For, Program, statements

TERMS = 5003
"""A prime: no block divides it."""


@pytest.mark.parametrize("most", [SUM, SUM.above(), PARTIAL, PRODUCT, PRODUCT.above()])
@pytest.mark.parametrize("steps", [1, 3, 4, 16])
@pytest.mark.covering
def test_no_chain_is_longer_than_it_may_be(most: Longest, steps: int) -> None:
    for trips in [*range(1, 700), 7625, 114_375, 1 << 20]:
        sizes, last = levels(trips, steps, most)
        if not sizes:
            assert last == steps * trips <= most.alone
            continue
        assert steps * sizes[-1] <= max(most.first, steps) and last <= most.last
        for outer, inner in pairwise(sizes):
            assert outer % inner == 0 and 1 < outer // inner <= most.others
        assert last == -(-trips // sizes[0])


def sums(rows: bool) -> Kernel:
    """x (16, TERMS) or x (TERMS, 16) → y (16)."""
    kb = KernelBuilder("sums")
    i, j = kb.axis("m", 16), kb.axis("n", TERMS)
    x = kb.input("x", (16, TERMS) if rows else (TERMS, 16), "float32")
    kb.store("y", "float32", (16,), (i,), kb.sum("total", (i,), j, x[i, j] if rows else x[j, i])[i])
    return kb.build()


SCHEDULES = [
    (True, s) for s in ("", "Rn4", "Rn48", "Un16", "Un64", "Tn256", "Tn256 Mn<m", "Mn<m", "Kn7", "Um4 Rn4 Tn512 Mn<m", "Un8 Tn64 Mn<m")
]
SCHEDULES += [(False, s) for s in ("", "Um16", "Um16 Rn4", "Mn<m", "Um8 Rn2 Mn<m", "Tn128 Mn<m", "Tn1000 Tn100 Mn<m", "Kn7 Um16")]


@pytest.mark.parametrize(("rows", "opts"), SCHEDULES)
def test_errors_are_those_of_pairwise_sums(rows: bool, opts: str) -> None:
    kernel, ours, numpys = sums(rows), [], []
    run = best(kernel, opts=opts or (), threads=1)
    for seed in range(8):
        x = np.random.default_rng(seed).random((16, TERMS), dtype=np.float32)
        exact = x.astype(np.float64).sum(axis=1)
        ours.append(np.abs(np.asarray(run(x if rows else np.ascontiguousarray(x.T))) - exact))
        numpys.append(np.abs(np.array([r.sum() for r in x]) - exact))
    assert np.median(ours) <= 2 * np.median(numpys)


def loops(program: Program) -> list[str]:
    return [s.label for p in program.phases for s in statements(p.body) if isinstance(s, For)]


def test_short_sums_products_and_integers_have_the_loops_that_they_had() -> None:
    def labels(dtype: str, k: int, opts: str, product: bool = False) -> list[str]:
        kb = KernelBuilder("some")
        i, j, n = kb.axis("m", 8), kb.axis("n", 16), kb.axis("k", k)
        a, b = kb.input("a", (8, k), dtype), kb.input("b", (k, 16), dtype)
        total = kb.sum("total", (i, j), n, a[i, n] * b[n, j]) if product else kb.sum("total", (i,), n, a[i, n])
        kb.store("c", total.dtype, (8, 16), (i, j), total[i, j] if product else total[i])
        return loops(lower(apply(kb.build(), parse(opts or "(none)"), targets.named("znver5"))))

    assert not any(".b" in x for x in labels("float32", 16, ""))
    assert any(".b" in x for x in labels("float32", 17, ""))
    assert not any(".b" in x for x in labels("float32", 384, "", product=True))
    assert any(".b" in x for x in labels("float32", 385, "", product=True))
    assert not any(".b" in x for x in labels("int32", 5000, ""))


@pytest.mark.parametrize("target", ["avx2", "opencl-cpu", "opencl-gpu", "sm_80"])
@pytest.mark.parametrize("opts", ["Mn<m", "Rn2 Tn100 Mn<m", "Um3 Mn<m"])
@pytest.mark.covering
def test_every_language_adds_up_what_it_keeps_in_memory(target: str, opts: str) -> None:
    kb = KernelBuilder("sums")
    i, j = kb.axis("m", 6), kb.axis("n", 307)
    x = kb.input("x", (6, 307), "float32")
    kb.store("y", "float32", (6,), (i,), kb.sum("total", (i,), j, x[i, j])[i])
    kernel = kb.build()
    check_twin(kernel, parse(opts), targets.named(target))


@pytest.mark.parametrize("target", ["x86-64-v2", "avx2", "znver5"])
@pytest.mark.parametrize("opts", ["Um16 Mn<m", "Um32 Rn2 Mn<m", "Um16 Tn10 Mn<m", "Um4 Un2 Mn<m"])
@pytest.mark.covering
def test_copies_past_the_extent_begin_with_zeros_too(target: str, opts: str) -> None:
    for m, n in product((52, 103, 115), (33, 307)):
        kb = KernelBuilder("sums")
        i, j, k = kb.axis("m", m), kb.axis("n", n), kb.axis("rows", 3)
        x = kb.input("x", (n, m), "float32")
        kb.store("y", "float32", (3, m), (k, i), x[k, i] * kb.sum("total", (i,), j, x[j, i])[i])
        check_twin(kb.build(), parse(opts), targets.named(target))
