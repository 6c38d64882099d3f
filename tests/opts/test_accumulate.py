"""The rule accumulate of REWRITE: how a sum over rows is added up makes no difference to results; what goes through the rows together."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_random_steps
from tilewright.heuristics import starts
from tilewright.heuristics.start.phase_schedules import accumulations, joined
from tilewright.heuristics.start.trials import Trials
from tilewright.ir import KernelBuilder, OptError, exp, float32, float64, int8, maximum, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import cast
from tilewright.opts import apply, parse
from tilewright.opts.loop_tree import Shared
from tilewright.opts.rewrites.accumulate import accumulable, accumulated
from tilewright.targets import named


def hinge(n: int = 13, d: int = 37) -> Kernel:
    """A row decides whether it is added."""
    kb = KernelBuilder("hinge")
    i, e, s, j = kb.axis("n", n), kb.axis("d@dot", d), kb.axis("n@grad", n), kb.axis("d", d)
    x, w = kb.input("x", (n, d), float32), kb.input("w", (d,), float32)
    label = kb.input("label", (n,), int8, range=(0, 1))
    dot = kb.sum("dot", (i,), e, x[i, e] * w[e])
    sign = cast(2 * label[i] - 1, float32)
    pull = kb.value("pull", (i,), where(sign * dot[i] < 1.0, sign, 0.0))
    grad = kb.sum("grad", (j,), s, pull[s] * x[s, j])
    kb.store("new", float32, (d,), (j,), w[j] * 0.5 + grad[j])
    return normalise(kb.build())


def norms(m: int = 7, n: int = 33) -> Kernel:
    """The gradients of a layer norm: of the rows, and two over the rows, whose axes have names of their own."""
    kb = KernelBuilder("norms")
    i, a, o = kb.axis("m", m), kb.axis("n@a", n), kb.axis("n@out", n)
    jg, ig, jb, ib = kb.axis("n@g", n), kb.axis("m@g", m), kb.axis("n@b", n), kb.axis("m@b", m)
    x, dy = kb.input("x", (m, n), float32), kb.input("dy", (m, n), float32)
    mean = kb.input("mean", (m,), float32)
    total = kb.sum("total", (i,), a, dy[i, a] * (x[i, a] - mean[i]))
    kb.store("dx", float32, (m, n), (i, o), dy[i, o] - total[i] * x[i, o])
    dg, db = kb.sum("sg", (jg,), ig, dy[ig, jg] * (x[ig, jg] - mean[ig])), kb.sum("sb", (jb,), ib, dy[ib, jb])
    kb.store("dg", float32, (n,), (jg,), dg[jg])
    kb.store("db", float32, (n,), (jb,), db[jb] * 2.0)
    return normalise(kb.build())


def classes(n: int = 9, k: int = 5, d: int = 21) -> Kernel:
    """Softmax regression in float64, a step of which adds to a matrix; what is left of each row is stored too."""
    kb = KernelBuilder("classes")
    i, c, e, ci, si, j = kb.axis("n", n), kb.axis("k@z", k), kb.axis("d@z", d), kb.axis("k", k), kb.axis("n@g", n), kb.axis("d", d)
    t = kb.axis("k@t", k)
    x, w = kb.input("x", (n, d), float64), kb.input("w", (k, d), float64, range=(-0.1, 0.1))
    z = kb.sum("z", (i, c), e, x[i, e] * w[c, e])
    total = kb.sum("total", (i,), t, exp(z[i, t]))
    p = kb.value("p", (i, c), exp(z[i, c]) / total[i])
    grad = kb.sum("grad", (ci, j), si, p[si, ci] * x[si, j])
    kb.store("most", float64, (n,), (i,), maximum(total[i], 1.0))
    kb.store("new", float64, (k, d), (ci, j), w[ci, j] - grad[ci, j])
    return normalise(kb.build())


def square(n: int = 12, combine: str | None = None) -> Kernel:
    """Both dimensions of a matrix are gone through along one axis, and the sums of rows may be added to those over the rows."""
    kb = KernelBuilder("square")
    i, e, s = kb.axis("i", n), kb.axis("e", n), kb.axis("s", n)
    x = kb.input("x", (n, n), float32)
    r = kb.sum("r", (i,), e, x[i, e])
    g, h = kb.sum("g", (i,), s, r[s] * x[s, i]), kb.sum("h", (e,), s, r[s] * x[s, e] * 0.5)
    kb.store("y", float32, (n,), (i,), r[i], combine=combine)
    kb.store("y" if combine else "z", float32, (n,), (i,), g[i], combine=combine)
    kb.store("w", float32, (n,), (e,), h[e])
    return normalise(kb.build())


def planes(n: int = 9, m: int = 21, q: int = 5) -> Kernel:
    """A sum over rows and over what is in each."""
    kb = KernelBuilder("planes")
    i, s, j, t, u = kb.axis("i", n), kb.axis("s", n), kb.axis("j", m), kb.axis("t", q), kb.axis("u", q)
    x, c = kb.input("x", (n, q, m), float32), kb.input("c", (q,), float32)
    r = kb.sum("r", (i,), u, x[i, u, 2] + c[u])
    g = kb.sum("g", (j,), (s, t), maximum(x[s, t, j], c[t]))
    kb.store("y", float32, (m,), (j,), g[j])
    kb.store("z", float32, (n,), (i,), r[i])
    return normalise(kb.build())


CASES: list[tuple[Kernel, list[Any]]] = [
    (hinge(), [["REWRITE", "grad", {"rule": "accumulate"}]]),
    (
        hinge(),
        [
            ["REWRITE", "grad", {"rule": "accumulate"}],
            ["UPCAST", "d@dot.a", 8],
            ["UPCAST", "d.w.a", 16],
            ["UPCAST", "n.a", 2],
            ["UPCAST", "d", 8],
        ],
    ),
    (hinge(32, 64), [["REWRITE", "grad", {"rule": "accumulate"}], ["UPCAST", "d.a", 16], ["PARALLEL", "d"]]),
    (
        norms(),
        [["REWRITE", "sg", {"rule": "accumulate"}], ["REWRITE", "sb", {"rule": "accumulate"}], ["UPCAST", "n.a", 8], ["UPCAST", "n", 8]],
    ),
    (norms(), [["REWRITE", "sb", {"rule": "accumulate"}], ["UPCAST", "m.a", 2], ["UPCAST", "n.a", 8]]),
    (
        norms(16, 48),
        [
            ["REWRITE", "sg", {"rule": "accumulate"}],
            ["REWRITE", "sb", {"rule": "accumulate"}],
            ["UPCAST", "n.a", 16],
            ["UPCAST", "n", 16],
            ["CACHE", "dx", {"policy": "stream"}],
        ],
    ),
    (classes(), [["REWRITE", "grad", {"rule": "accumulate"}], ["UPCAST", "d.a", 4], ["UPCAST", "d", 4]]),
    (square(), [["REWRITE", "g", {"rule": "accumulate"}]]),
    (square(), [["REWRITE", "h", {"rule": "accumulate"}], ["UPCAST", "e.a", 4]]),
    (square(), [["REWRITE", "g", {"rule": "accumulate"}], ["REWRITE", "h", {"rule": "accumulate"}]]),
    (square(combine="add"), [["REWRITE", "g", {"rule": "accumulate"}]]),
    (square(combine="max"), [["REWRITE", "h", {"rule": "accumulate"}]]),
    (planes(), [["REWRITE", "g", {"rule": "accumulate"}], ["UPCAST", "j.a", 8]]),
    (classes(), [["REWRITE", "grad", {"rule": "accumulate"}], ["UPCAST", "k.a", 5], ["UPCAST", "d.w.a", 8], ["PARALLEL", "k"]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("kernel", "listed"), CASES)
def test_results_do_not_depend_on_it(kernel: Kernel, listed: list[Any]) -> None:
    opts = parse(listed)
    check_floats(kernel, opts, named("avx2"))
    check_floats(kernel, opts, named("cascadelake"))
    check_compiled(kernel, opts, threads=2)


@pytest.mark.parametrize("make", [hinge, norms, classes, square, planes])
def test_random_steps_from_it_are_right(make: Any) -> None:
    kernel = make()
    check_random_steps(kernel, parse([["REWRITE", name, {"rule": "accumulate"}] for name in accumulable(kernel)]), named("avx2"))


def test_rows_are_gone_through_once() -> None:
    first, second = apply(hinge(), parse([["REWRITE", "grad", {"rule": "accumulate"}]]), named("avx2")).phases
    (loop,) = [item for item in first.tree.items if isinstance(item, Shared)]
    assert loop.part.axis.arg.name == "n.a" and [n.name for n in loop.nests] == ["dot", "grad.total"]
    assert "x" not in {b.name for b in second.kernel.inputs}


def test_sums_over_one_axis_and_what_is_stored_of_rows_come_in_one_loop() -> None:
    found = accumulated(norms(), ("sg", "sb"))
    assert found is not None
    rows, rest = found
    assert [s.buffer.name for s in rows.stores] == ["sg.total", "sb.total", "dx"]
    assert len({s.axes for s in rows.stores}) == 1
    assert [b.name for b in rest.inputs] == ["sg.total", "sb.total"] and [b.name for b in rest.outputs] == ["dg", "db"]


def test_totals_have_whole_lines_where_nothing_else_is_stored_along_them() -> None:
    made = accumulated(hinge(), ("grad",))
    assert made is not None
    assert [b.shape for b in made[0].outputs] == [(48,)]
    beside = accumulated(norms(), ("sb",))
    assert beside is not None
    assert [b.shape for b in beside[0].outputs] == [(33,), (7, 33)]


def test_only_sums_over_rows_that_others_read_are_taken() -> None:
    assert list(accumulable(hinge())) == ["grad"] and list(accumulable(norms())) == ["sg", "sb"]
    assert list(accumulable(classes())) == ["grad"]
    for name, where_ in (("dot", named("avx2")), ("grad", named("sm_90a"))):
        with pytest.raises(OptError, match="accumulate"):
            apply(hinge(), parse([["REWRITE", name, {"rule": "accumulate"}]]), where_)


def test_a_sum_inside_each_row_comes_first() -> None:
    assert apply(planes(), parse([["REWRITE", "g", {"rule": "accumulate"}]]), named("avx2")).effects == {"REASSOC"}
    assert not apply(square(), parse([["REWRITE", "g", {"rule": "accumulate"}]]), named("avx2")).effects


def test_a_start_schedule_of_large_rows_goes_through_them_once() -> None:
    assert any(o.fields.get("rule") == "accumulate" for o in starts(hinge(40000, 512), named("avx2"))[0])


def test_many_sums_of_one_axis_have_start_schedules_soon() -> None:
    kb = KernelBuilder("moments")
    i, j, z, cm, wm = kb.axis("b", 11), kb.axis("c", 3), kb.axis("w", 9), kb.axis("c@m", 3), kb.axis("w@m", 9)
    x = kb.input("x", (11, 3, 9), float32)
    mean = kb.sum("mean", (i,), (cm, wm), x[i, cm, wm])
    for t in range(6):
        b, w = kb.axis(f"b@{t}", 11), kb.axis(f"w@{t}", 9)
        kb.store(f"y{t}", float32, (3,), (j,), kb.sum(f"s{t}", (j,), (b, w), x[b, j, w] ** (t + 1))[j])
    kb.store("y", float32, (11, 3, 9), (i, j, z), x[i, j, z] - mean[i])
    kernel, target = normalise(kb.build()), named("avx2")
    asked = []
    found = list(
        joined(Trials(kernel, target), accumulations(Trials(kernel, target)), lambda k: asked.append(k) or starts(k, target, phase=True))
    )
    assert len(found) >= 1 and len(asked) == 2
    assert all(apply(kernel, o, target) for o in starts(kernel, target)[:2])
