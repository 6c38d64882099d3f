"""Chains of stencils whose borders wrap: blocks have an interval of each value, of which some lies at the other end."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_twin
from tilewright.heuristics import starts
from tilewright.heuristics.model import estimate
from tilewright.heuristics.start import quick_starts
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.functions import where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.opts import apply, opt, parse
from tilewright.opts.options.cache import has_streams
from tilewright.opts.options.halo import tiled
from tilewright.targets import named

AVX2 = named("avx2")


def torus(h: int, w: int, values: int = 2, kind: str = "wrap") -> Kernel:
    """A five-point average again and again, over borders that wrap, or that are read where a choice says."""
    kb = KernelBuilder("torus")
    y, x = kb.axis("y", h), kb.axis("x", w)
    of: Any = kb.input("a", (h, w), float32)

    def beside(i: Node, n: int) -> tuple[Node, Node]:
        if kind == "wrap":
            return (i + n - 1) % n, (i + 1) % n
        if kind == "choice":
            return where(i.eq(0), n - 1, i - 1), where(i.eq(n - 1), 0, i + 1)
        return where(i.eq(0), n // 2, i - 1), where(i.eq(n - 1), n // 2, i + 1)  # from the middle: neither a wrap nor a clamp

    for k in range(values + 1):
        near = of[y, x] + sum((of[r, x] for r in beside(y, h)), 0.0) + sum((of[y, c] for c in beside(x, w)), 0.0)
        if k < values:
            of = kb.value(f"v{k}", (y, x), 0.2 * near)
    kb.store("out", float32, (h, w), (y, x), near)
    return kb.build()


STRIPS = [["HALO", "y", 6], ["PARALLEL", "y.h"], ["HALO", "y", {"n": 2, "roll": 1}]]
KEPT = [["STAGE", "v0", {"at": "y.h2"}], ["STAGE", "v1", {"at": "y.h2"}]]
SCHEDULES = [
    [["HALO", "y", 4], ["STAGE", "v0", {"at": "y.h"}], ["STAGE", "v1", {"at": "y.h"}], ["PARALLEL", "y.h"], ["UPCAST", "x", 8]],
    [["HALO", "y", 5], ["HALO", "x", 7], ["STAGE", "v1", {"at": "x.h"}], ["PARALLEL", "y.h"]],
    [*STRIPS, *KEPT, ["UPCAST", "x", 8]],
    [["UPCAST", "x", 8], ["UPCAST", "y", 4], ["PARALLEL", "y"]],
]


@pytest.mark.many
@pytest.mark.parametrize("kind", ["wrap", "choice"])
@pytest.mark.parametrize("listed", SCHEDULES, ids=range(len(SCHEDULES)))
@pytest.mark.covering
def test_results_do_not_depend_on_blocks(kind: str, listed: Any) -> None:
    kernel, opts = torus(18, 21, kind=kind), parse(listed)
    check_twin(kernel, opts, AVX2)
    check_compiled(kernel, opts, threads=2)


def test_a_chosen_place_of_a_chosen_place() -> None:
    """Once more as scalars, along an axis without lanes."""
    check_twin(torus(18, 21, kind="middle"), parse(SCHEDULES[-1]), AVX2)


@pytest.mark.parametrize("kind", ["wrap", "choice"])
def test_a_block_of_a_torus_has_its_halo_and_no_more(kind: str) -> None:
    kernel = tiled(torus(40, 24, kind=kind), opt("HALO", "y", 4))
    assert [[a.arg.extent for a in kernel.values[v].axes] for v in ("v0", "v1")] == [[10, 8, 24], [10, 6, 24]]
    rings = apply(torus(18, 21, kind=kind), parse([*STRIPS, *KEPT]), AVX2).phases[0].rings
    assert {v: (r.step, r.extent) for v, r in rings.items()} == {"v0": (2, 6), "v1": (2, 4)}


def test_start_schedules_keep_what_blocks_of_a_torus_share() -> None:
    """And all of their nests have lanes; those of quick start schedules too."""
    for find in (starts, quick_starts):
        scheduled = apply(torus(1024, 1024), find(torus(1024, 1024), AVX2)[0], AVX2)
        assert {"STAGE", "HALO"} <= {o.op for o in scheduled.opts}
        assert all(p.lanes(n).lane is not None for p in scheduled.phases or (scheduled,) for n in p.nests)


def test_rows_that_begin_anywhere_are_not_stored_past_the_caches() -> None:
    """Only vectors that are known to be aligned are, and of several rows in turns they are pieces of lines."""

    def seconds(w: int, *listed: Any) -> float:
        return estimate(apply(torus(2048, w, 0), parse(listed), AVX2), 1)

    tall = [["UPCAST", "x", 16], ["UPCAST", "y", 4]]
    past = ["CACHE", "out", {"policy": "stream"}]
    assert seconds(2048, *tall, past) < seconds(2048, *tall)
    assert seconds(2056, *tall, past) > 1.5 * seconds(2056, *tall)
    assert seconds(2049, *tall[:1], past) == seconds(2049, *tall[:1])
    for w in (2049, 2056):
        first = starts(torus(2048, w), AVX2)[0]
        assert not has_streams(first) or (w == 2056 and not any(o.op == "UPCAST" and "y" in str(o.on) for o in first))
