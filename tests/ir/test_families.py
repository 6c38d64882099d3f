"""Axes of one family that meet in one nest are of two families in the normal form."""

from __future__ import annotations

import numpy as np
from tilewright.ir import KernelBuilder, exp, float32, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.normal_form.axis_rules import separate_families
from tilewright.opts import apply, parse
from tilewright.targets import named


def flock(n: int = 12) -> Kernel:
    """Two sums over all pairs of one set, and what is made of them."""
    kb = KernelBuilder("flock")
    i, j, k = kb.axis("n", n), kb.axis("n@many", n), kb.axis("n@middle", n)
    x = kb.input("x", (n,), float32)
    many = kb.sum("many", (i,), j, where((x[i] - x[j]) ** 2 < 1.0, 1.0, 0.0))
    middle = kb.sum("middle", (i,), k, x[k] - x[i])
    kb.store("y", float32, (n,), (i,), middle[i] / many[i])
    return kb.build()


def families(kernel: Kernel) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for a in kernel.axes:
        out.setdefault(a.arg.family, set()).add(a.arg.name)
    return out


def test_rows_and_columns_of_all_pairs_are_two_families() -> None:
    assert families(separate_families(flock())) == {"n": {"n"}, "n2": {"n2@many", "n2@middle"}}
    x = np.random.default_rng(0).normal(size=12).astype(np.float32)
    (a,), (b,) = (evaluate(k, {"x": x}).values() for k in (flock(), normalise(flock())))
    np.testing.assert_allclose(a, b)


def test_lanes_of_rows_are_not_copies_of_columns() -> None:
    s = apply(normalise(flock()), parse([["UPCAST", "n", 4], ["PARALLEL", "n"], ["FUSE", "n2"]]), named("avx2"))
    assert {p.axis.arg.family for n in s.nests for p in s.registers(n)} == {"n"}
    assert [p.axis.arg.family for p in s.grid] == ["n"]


def test_what_references_tie_stays_together() -> None:
    kb = KernelBuilder("attention")
    i, j, t, o = kb.axis("s", 8), kb.axis("s@dot", 8), kb.axis("s@total", 8), kb.axis("s@out", 8)
    x = kb.input("x", (8,), float32)
    p = kb.value("p", (i, j), exp(x[i] * x[j]))
    total = kb.sum("total", (i,), t, p[i, t])
    kb.store("y", float32, (8, 8), (i, o), p[i, o] / total[i])
    assert families(separate_families(kb.build())) == {"s": {"s"}, "s2": {"s2@dot", "s2@total", "s2@out"}}


def test_sites_that_do_not_meet_stay_one_family_and_names_are_free() -> None:
    kb = KernelBuilder("softmax")
    i, a, b, o = kb.axis("m", 4), kb.axis("n@max", 8), kb.axis("n@sum", 8), kb.axis("n", 8)
    x = kb.input("x", (4, 8), float32)
    top = kb.max("top", (i,), a, x[i, a])
    total = kb.sum("total", (i,), b, exp(x[i, b] - top[i]))
    kb.store("y", float32, (4, 8), (i, o), exp(x[i, o] - top[i]) / total[i])
    kernel = kb.build()
    assert separate_families(kernel) is kernel
    kb = KernelBuilder("taken")
    i, j = kb.axis("n", 8), kb.axis("n@sum", 8)
    n2 = kb.input("n2", (8,), float32)
    kb.store("y", float32, (8,), (i,), kb.sum("n3", (i,), j, n2[i] * n2[j])[i])
    assert families(separate_families(kb.build())) == {"n": {"n"}, "n4": {"n4@sum"}}
