"""The rule distribute of REWRITE: a sum of products with a difference is two sums; what cancels stays within the bounds, and what would not is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright.heuristics import quick_starts, starts
from tilewright.interp import run
from tilewright.ir import KernelBuilder, OptError, float32, log
from tilewright.ir.evaluation import SLACK, evaluate_error
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import proposals
from tilewright.opts.rewrites.distribute import distributed
from tilewright.targets import named

RANGE = (0.01, 1.0)


def divergences(n: int = 6, k: int = 8, d: int = 16, of: tuple[float, float] | None = RANGE, turned: bool = False) -> Kernel:
    """Σ p · (log p − log q), or the other way round."""
    kb = KernelBuilder("divergences")
    i, j, e = kb.axis("n", n), kb.axis("k", k), kb.axis("d", d)
    p, q = kb.input("p", (n, d), float32, range=of), kb.input("q", (k, d), float32, range=of)
    parts = log(p[i, e]), log(q[j, e])
    kl = kb.sum("kl", (i, j), e, p[i, e] * (parts[1] - parts[0] if turned else parts[0] - parts[1]))
    kb.store("y", float32, (n, k), (i, j), kl[i, j] * 2.0)
    return normalise(kb.build())


def distances(n: int = 6, k: int = 8, d: int = 16) -> Kernel:
    """What is read is exact, and so is the difference of what lies near: two sums would lose all of it."""
    kb = KernelBuilder("distances")
    i, j, e = kb.axis("n", n), kb.axis("k", k), kb.axis("d", d)
    p, q = kb.input("p", (n, d), float32, range=RANGE), kb.input("q", (k, d), float32, range=RANGE)
    kl = kb.sum("kl", (i, j), e, p[i, e] * (p[i, e] - q[j, e]))
    kb.store("y", float32, (n, k), (i, j), kl[i, j])
    return normalise(kb.build())


APART = ["REWRITE", "kl", {"rule": "distribute"}]
CASES: list[tuple[Kernel, list[Any]]] = [
    (divergences(), [APART]),
    (divergences(turned=True), [APART, ["UPCAST", "d.x1", 8], ["PARALLEL", "n.x1"], ["UPCAST", "k", 8], ["PARALLEL", "n"]]),
    (
        divergences(),
        [
            APART,
            ["REWRITE", "kl", {"rule": "hoist"}],
            ["UPCAST", "d.i1", 8],
            ["UPCAST", "n", 3],
            ["UPCAST", "k", 8],
            ["STAGE", "kl.i1", {"at": "n"}],
        ],
    ),
    (
        divergences(),
        [
            APART,
            ["REWRITE", "kl", {"rule": "operands", "along": "k"}],
            ["UPCAST", "k", 8],
            ["PARALLEL", "k"],
            ["STAGE", "kl.n", {"at": "k"}],
        ],
    ),
]


@pytest.mark.many
@pytest.mark.parametrize(("kernel", "listed"), CASES)
def test_results_do_not_depend_on_it(kernel: Kernel, listed: list[Any]) -> None:
    opts = parse(listed)
    assert "REASSOC" in apply(kernel, opts, named("avx2")).effects
    check_twin(kernel, opts, named("avx2"))
    check_floats(kernel, opts, named("cascadelake"))
    check_compiled(kernel, opts, threads=2)


def test_the_sums_of_one_have_the_axes_of_their_parts() -> None:
    made = distributed(divergences(), "kl").values
    assert [a.arg.name for a in made["kl.x1"].axes] == ["n.x1"] and [a.arg.name for a in made["kl"].axes] == ["n", "k"]


def test_what_cancels_stays_within_the_bound() -> None:
    kernel = divergences(2, 2, 1024)
    p = np.random.default_rng(0).uniform(*RANGE, (2, 1024)).astype(np.float32)
    inputs = {"p": p, "q": np.nextafter(p, np.float32(2.0))}
    want = evaluate_error(kernel, inputs)["y"]
    got = np.zeros((2, 2), np.float32)
    run(lower(apply(kernel, (opt("REWRITE", "kl", rule="distribute"),), named("avx2"))), {**inputs, "y": got})
    value, scale = want[0], want[1]
    assert np.all(np.abs(got - value) <= SLACK * np.finfo(np.float32).eps * scale)


@pytest.mark.parametrize("kernel", [distances(), divergences(of=None), divergences(d=1025)])
def test_what_would_lose_figures_or_make_nan_is_refused(kernel: Kernel) -> None:
    with pytest.raises(OptError, match="name a sum of up to 1024 products"):
        apply(kernel, (opt("REWRITE", "kl", rule="distribute"),), named("avx2"))
    assert not any(o.fields.get("rule") == "distribute" for more in proposals(apply(kernel, (), named("avx2"))) for o in more)


def test_it_is_refused_twice() -> None:
    with pytest.raises(OptError, match="rewritten by distribute already"):
        apply(divergences(), (opt("REWRITE", "kl", rule="distribute"), opt("REWRITE", "kl", rule="distribute")), named("avx2"))


def test_start_schedules_distribute_what_is_dear() -> None:
    target, kernel = named("znver4"), divergences(600, 400, 256)
    for found in (starts(kernel, target, 1)[0], quick_starts(kernel, target, 1)[0]):
        assert ("distribute", "kl") in {(str(o.fields.get("rule", o.op)), o.on) for o in found}
    assert ("distribute", "kl") in {
        (str(o.fields.get("rule", o.op)), o.on) for more in proposals(apply(divergences(), (), target)) for o in more
    }


def test_a_square_keeps_both_of_its_factors() -> None:
    """f · f is one expression twice; what is taken out of one of them is multiplied by the other one."""
    kb = KernelBuilder("square")
    i, j, b = kb.axis("n", 4), kb.axis("m", 5), kb.axis("n@b", 4)
    x, z = kb.input("x", (4, 5), float32, range=(0.5, 2.0)), kb.input("z", (4,), float32, range=(0.5, 2.0))
    f = log(x[b, j]) * z[b] + log(z[b])
    total = kb.sum("total", (j,), b, f * f)
    kb.store("y", float32, (4, 5), (i, j), x[i, j] - total[j])
    kernel = kb.build()
    with pytest.raises(OptError, match="distribute"):
        distributed(kernel, "total")
    assert not any(o.fields.get("rule") == "distribute" for s in starts(kernel, named("avx2"), 1) for o in s)
