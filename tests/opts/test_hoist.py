"""The rule hoist of REWRITE: where something dear is computed makes no difference to results; what is taken out, and what is left where it is."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import named_kernels
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, OptError, cos, exp, float32, log, sin, sqrt
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import FUNCTIONS, walk
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import proposals
from tilewright.opts.rewrites.hoist import hoistable, hoisted
from tilewright.targets import named


def divergences(n: int = 6, k: int = 8, d: int = 16) -> Kernel:
    """Both logarithms lack an axis of the sum."""
    kb = KernelBuilder("divergences")
    i, j, e = kb.axis("n", n), kb.axis("k", k), kb.axis("d", d)
    p, q = kb.input("p", (n, d), float32, range=(0.01, 1.0)), kb.input("q", (d, k), float32, range=(0.01, 1.0))
    kl = kb.sum("kl", (i, j), e, p[i, e] * (log(p[i, e]) - log(q[e, j])))
    kb.store("y", float32, (n, k), (i, j), kl[i, j])
    return normalise(kb.build())


def turned(n: int = 23, j: int = 8) -> Kernel:
    """Points turned by an angle that their frame has: two stores to one output, of which each needs the same functions."""
    kb = KernelBuilder("turned")
    f, i = kb.axis("n", n), kb.axis("j", j)
    angle, x = kb.input("angle", (n,), float32), kb.input("x", (n, j, 2), float32)
    c, s = kb.value("c", (f,), cos(angle[f])), kb.value("s", (f,), sin(angle[f]))
    kb.store("y", float32, (n, j), (f, i), c[f] * x[f, i, 0] - s[f] * x[f, i, 1])
    kb.store("z", float32, (n, j), (f, i), s[f] * x[f, i, 0] + c[f] * x[f, i, 1])
    return normalise(kb.build())


def weighted(n: int = 5, d: int = 16) -> Kernel:
    """A root of a sum is no function of inputs; an exponential of a column is, as a table of the places is."""
    kb = KernelBuilder("weighted")
    i, a, b = kb.axis("n", n), kb.axis("d@sum", d), kb.axis("d", d)
    x, w = kb.input("x", (n, d), float32), kb.input("w", (d,), float32)
    total = kb.sum("total", (i,), a, x[i, a] * x[i, a] * exp(w[a]))
    kb.store("y", float32, (n, d), (i, b), x[i, b] / sqrt(total[i] + 1.0) * sin(b.cast(float32)))
    return normalise(kb.build())


CASES: list[tuple[Kernel, list[Any]]] = [
    (divergences(), [["REWRITE", "kl", {"rule": "hoist"}]]),
    (
        divergences(),
        [
            ["REWRITE", "kl", {"rule": "hoist"}],
            ["UPCAST", "d.i1", 8],
            ["PARALLEL", "d.i2"],
            ["UPCAST", "k", 8],
            ["STAGE", "kl.i2", {"at": "n"}],
        ],
    ),
    (divergences(), [["REWRITE", "kl", {"rule": "hoist"}], ["UPCAST", "n", 3], ["UPCAST", "d", 8], ["PARALLEL", "n"], ["SPLIT", "d", 2]]),
    (divergences(), [["REWRITE", "kl", {"rule": "operands", "along": "k"}], ["REWRITE", "kl", {"rule": "hoist"}], ["UPCAST", "k", 8]]),
    (
        turned(),
        [
            ["REWRITE", "y", {"rule": "hoist"}],
            ["REWRITE", "z", {"rule": "hoist"}],
            ["UPCAST", "n.i1", 8],
            ["UPCAST", "j", 8],
            ["PARALLEL", "n"],
        ],
    ),
    (turned(), [["REWRITE", "z", {"rule": "hoist"}], ["PARALLEL", "n.i1"], ["UPCAST", "n", 8]]),
    (
        weighted(),
        [
            ["REWRITE", "total", {"rule": "hoist"}],
            ["REWRITE", "y", {"rule": "hoist"}],
            ["PHASE", "total", {"apart": 1}],
            ["UPCAST", "d@sum.i1", 8],
            ["UPCAST", "d", 8],
        ],
    ),
]


@pytest.mark.many
@pytest.mark.parametrize(("kernel", "listed"), CASES)
def test_results_do_not_depend_on_it(kernel: Kernel, listed: list[Any]) -> None:
    opts = parse(listed)
    check_twin(kernel, opts, named("avx2"))
    check_floats(kernel, opts, named("cascadelake"))
    check_compiled(kernel, opts, threads=2)


def test_what_is_over_the_same_axes_is_computed_together_and_once() -> None:
    *phases, rest = hoisted(turned(), ("y", "z"))
    assert [[b.name for b in k.outputs] for k in phases] == [["y.i1", "y.i2"]]
    assert not any(n.op in FUNCTIONS for s in rest.stores for n in walk(s.expr)) and not rest.body
    first = hoisted(divergences(), ("kl",))
    assert [tuple(a.arg.name for a in k.axes) for k in first[:-1]] == [("n.i1", "d.i1"), ("d.i2", "k.i2")]  # as the inputs lie
    assert not any(n.op == "log" for v in first[-1].values.values() for n in walk(v.body))


def test_what_needs_a_sum_or_varies_along_every_axis_stays() -> None:
    found = hoistable(weighted())
    assert {name: [x.expr.op for x in parts] for name, parts in found.items()} == {"total": ["exp"], "y": ["sin"]}
    assert not hoistable(named_kernels.make("softmax", {"m": 4, "n": 8}, "float32"))


@pytest.mark.parametrize(("name", "why"), [("p", "name a reduction or an output"), ("y", "does not vary along all axes.*kl")])
def test_refusals(name: str, why: str) -> None:
    with pytest.raises(OptError, match=why):
        apply(divergences(), (opt("REWRITE", name, rule="hoist"),), named("avx2"))


def test_it_is_refused_twice() -> None:
    with pytest.raises(OptError, match="rewritten by hoist already"):
        apply(divergences(), (opt("REWRITE", "kl", rule="hoist"), opt("REWRITE", "kl", rule="hoist")), named("avx2"))


def test_start_schedules_and_proposals_hoist_what_is_used_often() -> None:
    target = named("znver4")
    for kernel, names in ((divergences(150, 50, 130), {"kl"}), (turned(1500, 25), {"y", "z"})):
        for found in (starts(kernel, target, 1)[0], quick_starts(kernel, target, 1)[0]):
            assert {o.on for o in found if o.fields.get("rule") in ("hoist", "distribute")} == names
    assert not any(o.fields.get("rule") == "hoist" for listed in starts(turned(1500, 3), target, 1) for o in listed)  # (used three times)
    assert ("hoist", "kl") in {
        (str(o.fields.get("rule", o.op)), o.on) for more in proposals(apply(divergences(), (), target)) for o in more
    }
