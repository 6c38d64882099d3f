"""FUSE: reductions in one loop give what they give apart, compute once what they share, and say why they cannot."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import named_kernels
from tilewright.heuristics import quick_starts, starts
from tilewright.heuristics.model import estimate
from tilewright.ir import KernelBuilder, OptError, float32, int32, sqrt
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import actions
from tilewright.opts.opt import Opts
from tilewright.program.program import For, Instr, statements
from tilewright.targets import named

AVX2, AVX512, GPU = named("avx2"), named("cascadelake"), named("sm_90a")


def forces(n: int = 45, m: int = 29) -> Kernel:
    """Two components of a force on each of m points from n, and the potential, each over a site of its own."""
    kb = KernelBuilder("forces")
    i, sites = kb.axis("i", m), [kb.axis(f"j@{c}", n) for c in "xyp"]
    at, by = [kb.input(c, (m,), float32) for c in ("px", "py")], [kb.input(c, (n,), float32) for c in ("qx", "qy")]
    for c, j in zip("xyp", sites, strict=True):
        dx, dy = (q[j] - p[i] for p, q in zip(at, by, strict=True))
        r = 1.0 / sqrt(dx * dx + dy * dy + 0.1)
        v = kb.sum(f"s{c}", (i,), j, {"x": dx * r, "y": dy * r, "p": r}[c])
        kb.store(f"o{c}", float32, (m,), (i,), v[i] * 0.5)
    return kb.build()


def statistics(m: int = 6, n: int = 45) -> Kernel:
    """Of each row a sum, a sum of squares around the mean (which needs the first), the least and the largest, and a sum of integers."""
    kb = KernelBuilder("statistics")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, k = kb.input("x", (m, n), float32), kb.input("k", (m, n), int32, range=(-9, 9))
    total = kb.sum("total", (i,), j, x[i, j])
    d = x[i, j] - total[i] * (1.0 / n)
    spread = kb.sum("spread", (i,), j, d * d)
    least, most = kb.min("least", (i,), j, x[i, j]), kb.max("most", (i,), j, x[i, j])
    whole = kb.sum("whole", (i,), j, k[i, j])
    for v in (total, spread, least, most):
        kb.store(f"o_{v.name}", float32, (m,), (i,), v[i])
    kb.store("o_whole", float32, (m,), (i,), cast(whole[i], float32))
    return kb.build()


LISTS = [
    [["FUSE", "j"]],
    [["FUSE", "j"], ["UPCAST", "i", 8]],
    [["UPCAST", "j", 8], ["UNROLL", "j", 2], ["FUSE", "j"], ["PARALLEL", "i"]],
    [["TILE", "j", 8], ["MOVE", "j@x", {"before": "i"}], ["FUSE", "j"]],
    [["FUSE", "j"], ["UPCAST", "i", 4], ["TILE", "i", 16], ["STAGE", "qx", {"at": "i"}]],
]


def loops(kernel: Kernel, opts: Any) -> int:
    """Loops over j, without those over the blocks that sums are cut into."""
    over = [s for s in statements(lower(apply(kernel, opts, AVX2)).phases[0].body) if isinstance(s, For) and s.label.startswith("j")]
    return sum(not any(isinstance(inner, For) for inner in statements(s.body)) for s in over)


@pytest.mark.parametrize("opts", LISTS, ids=str)
def test_results_do_not_depend_on_it(opts: list[Any]) -> None:
    check_twin(forces(), parse(opts), AVX2)
    check_floats(forces(), parse(opts), AVX512)


def test_compiled() -> None:
    check_compiled(forces(100, 70), parse(LISTS[1]), None, threads=2)


def test_one_loop_with_one_root() -> None:
    def roots(opts: Any) -> int:
        body = lower(apply(forces(), opts, AVX2)).phases[0].body
        return sum(isinstance(s, Instr) and s.op == "sqrt" for s in statements(body))

    assert (loops(forces(), []), roots([])) == (3, 3)
    assert (loops(forces(), LISTS[0]), roots(LISTS[0])) == (1, 1)


def test_what_needs_another_stays_behind_it() -> None:
    """The least and the largest join the sum in front of the value that needs it."""
    s = apply(statistics(), [["FUSE", "n"]], AVX2)
    assert s.siblings == (("total", "least", "most", "whole"),)
    check_twin(statistics(), parse([["FUSE", "n"], ["UPCAST", "n", 8]]), AVX2)
    check_floats(statistics(), parse([["FUSE", "n"], ["UPCAST", "m", 2], ["UPCAST", "n", 16]]), AVX512)


@pytest.mark.parametrize("opts", [[["FUSE", "n"], ["GROUP", "n", 8]], [["FUSE", "n"], ["LOCAL", "m", 2], ["UPCAST", "n", 4]]], ids=str)
def test_threads_of_a_group(opts: list[Any]) -> None:
    check_twin(statistics(8, 64), parse(opts), GPU)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 0), (0, 4)])
def test_small_and_empty(m: int, n: int) -> None:
    kb = KernelBuilder("small")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    a, b = kb.sum("a", (i,), j, x[i, j]), kb.sum("b", (i,), j, x[i, j] * x[i, j])
    kb.store("y", float32, (m,), (i,), a[i] + b[i])
    check_twin(kb.build(), (opt("FUSE", "n"),), AVX2)


@pytest.mark.parametrize(
    ("kernel", "opts", "message"),
    [
        (forces(), [["FUSE", "i"]], "nothing is reduced over i"),
        (forces(), [["UPCAST", "j@x", 4], ["FUSE", "j"]], "are cut differently"),
        (named_kernels.make("softmax", {"m": 4, "n": 8}), [["FUSE", "n"]], "without needing each other"),
    ],
)
def test_refusals(kernel: Kernel, opts: list[Any], message: str) -> None:
    with pytest.raises(OptError, match=message):
        apply(kernel, opts, AVX2)


def test_start_schedules_actions_and_the_model_know_it() -> None:
    kernel = forces(2000, 2000)
    for found in (starts(kernel, AVX2), quick_starts(kernel, AVX2)):
        assert ("FUSE", "j") in {(o.op, o.on) for o in found[0]}
    assert (opt("FUSE", "j"),) in [_last(a) for a in actions(apply(kernel, [], AVX2))]
    base: Opts = (opt("UPCAST", "i", 8),)
    assert estimate(apply(kernel, (*base, opt("FUSE", "j")), AVX2)) < 0.6 * estimate(apply(kernel, base, AVX2))


def _last(found: Any) -> Opts:
    return tuple(found)[-1:]


def test_siblings_are_split_together() -> None:
    """SPLIT beside FUSE: all partial results in one loop of the first phase, each in a workspace of its own."""
    opts = [["SPLIT", "n", 4], ["FUSE", "n"], ["UPCAST", "n", 8]]
    kb = KernelBuilder("covariance")
    j, k = kb.axis("n", 300), kb.axis("n@y", 300)
    x, y = kb.input("x", (300,), float32), kb.input("y", (300,), float32)
    for v in (kb.sum("xy", (), j, x[j] * y[j]), kb.sum("yy", (), k, y[k] * y[k]), kb.max("top", (), j, x[j])):
        kb.store(f"o_{v.name}", float32, (), (), v[()])
    kernel = kb.build()
    s = apply(kernel, opts, AVX2)
    assert [len(p.siblings) for p in s.phases] == [1, 1]
    assert len({b.name for b in s.phases[0].kernel.outputs}) == 3
    for target in (AVX2, GPU):
        check_twin(kernel, parse(opts), target)
    check_compiled(kernel, parse(opts), None, threads=2)
    alone = apply(kernel, [["SPLIT", "n", 4]], AVX2)
    assert len(alone.phases[0].kernel.outputs) == 1
