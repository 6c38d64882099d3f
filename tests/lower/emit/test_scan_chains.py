"""Scans with what reads them in one loop: two and three scans along different axes, states in memory, and readers elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.ir import KernelBuilder, OptError, dtype, float32, int32
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.opts.loop_tree import Chain, Shared, Tree
from tilewright.program.program import Instr, statements

AVX2, OPENCL, SM80 = (targets.named(n) for n in ("avx2", "opencl-gpu", "sm_80"))


def integral(h: int = 11, w: int = 21, kind: str = "uint8") -> Kernel:
    """Sums along rows, then down the columns."""
    kb = KernelBuilder("integral")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), dtype(kind))
    row = kb.scan("add", "row", (i, j), j, cast(x[i, j], int32 if kind == "uint8" else float32))
    total = kb.scan("add", "total", (i, j), i, row[i, j])
    kb.store("y", total.dtype, (h, w), (i, j), total[i, j])
    return kb.build()


def volume() -> Kernel:
    """A running maximum of running sums along three axes, and what it is above the element; the last only where it is positive."""
    kb = KernelBuilder("volume")
    k, i, j = kb.axis("d", 5), kb.axis("h", 6), kb.axis("w", 13)
    x = kb.input("x", (5, 6, 13), float32)
    row = kb.scan("add", "row", (k, i, j), j, x[k, i, j])
    plane = kb.scan("max", "plane", (k, i, j), i, row[k, i, j] * 2.0)
    total = kb.scan("add", "total", (k, i, j), k, plane[k, i, j] - x[k, i, j])
    kb.store("y", float32, (5, 6, 13), (k, i, j), total[k, i, j] - row[k, i, j], mask=(i + j) % 2 < 1)
    kb.store("z", float32, (13, 5, 6), (k, i, j), plane[k, i, j], (j, k, i))
    return kb.build()


def exclusive() -> Kernel:
    """What came before, down the columns, and a recurrence of it."""
    kb = KernelBuilder("exclusive")
    i, j = kb.axis("m", 14), kb.axis("n", 19)
    x = kb.input("x", (14, 19), float32, range=(-0.9, 0.9))
    before = kb.scan("add", "before", (i, j), i, x.masked(i > 0, i - 1, j))
    rule = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])  # noqa: E731
    _, h = kb.associative_scan(("p", "h"), (i, j), i, (x[i, j], before[i, j]), (1.0, 0.0), rule)
    kb.store("y", float32, (14, 19), (i, j), h[i, j] + before[i, j])
    return kb.build()


def read_twice() -> Kernel:
    """A scan that another one and a sum over its rows read."""
    kb = KernelBuilder("read_twice")
    i, j, k = kb.axis("m", 7), kb.axis("n", 26), kb.axis("n@sum", 26)
    x = kb.input("x", (7, 26), float32)
    top = kb.scan("max", "top", (i, j), j, x[i, j])
    again = kb.scan("add", "again", (i, j), i, top[i, j])
    total = kb.sum("total", (i,), k, top[i, k])
    kb.store("y", float32, (7, 26), (i, j), again[i, j] - x[i, j])
    kb.store("s", float32, (7,), (i,), total[i])
    return kb.build()


def layers() -> Kernel:
    """Two outputs of layers that lie one above the other: what a layer weighs, which reads no scan, and what lies above its middle."""
    kb = KernelBuilder("layers")
    k, j = kb.axis("l", 9), kb.axis("w", 27)
    x, deep = kb.input("x", (9, 27), float32), kb.input("deep", (9,), float32)
    weight = kb.value("weight", (k, j), x[k, j] * x[k, j] + 1.0)
    above = kb.scan("add", "above", (k, j), k, weight[k, j] * deep[k])
    kb.store("rho", float32, (9, 27), (k, j), weight[k, j])
    kb.store("press", float32, (9, 27), (k, j), above[k, j] - weight[k, j] * (deep[k] * 0.5))
    return kb.build()


KERNELS: tuple[Callable[[], Kernel], ...] = (integral, volume, exclusive, read_twice, layers)
SCHEDULES: list[tuple[Callable[[], Kernel], list[Any]]] = [
    (integral, []),
    (integral, [["PADTO", "w", 24], ["UPCAST", "w", 8], ["UPCAST", "h", 4]]),
    (integral, [["MOVE", "w", {"before": "h"}], ["UPCAST", "h", 4]]),
    (integral, [["TILE", "w", 8], ["MOVE", "h", {"before": "w.t"}]]),
    (integral, [["PADTO", "w", 24], ["UPCAST", "w", 8], ["CACHE", "y", {"policy": "stream"}]]),
    (volume, [["PADTO", "w", 16], ["UPCAST", "w", 8], ["UPCAST", "h", 2], ["UPCAST", "d", 2]]),
    (volume, [["MOVE", "h", {"before": "d"}], ["MOVE", "w", {"before": "d"}]]),
    (exclusive, [["PADTO", "n", 24], ["UPCAST", "n", 8], ["UPCAST", "m", 4]]),
    (exclusive, [["TILE", "n", 8], ["UPCAST", "n", 4], ["PARALLEL", "n"], ["MOVE", "m", {"before": "n.t"}]]),
    (read_twice, [["UPCAST", "n", 4], ["UPCAST", "m", 2]]),
    (layers, [["UPCAST", "w", 8]]),
    (layers, [["UPCAST", "w", 8], ["TILE", "w", 16], ["MOVE", "l", {"before": "w.t"}], ["PARALLEL", "w"]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("make", "opts"), SCHEDULES, ids=lambda x: x.__name__ if callable(x) else None)
def test_schedules_equal_the_reference(make: Callable[[], Kernel], opts: list[Any]) -> None:
    kernel = make()
    check_twin(kernel, parse(opts), AVX2)
    if any(o[0] in ("CACHE", "PARALLEL") or len(opts) > 3 for o in opts):
        check_compiled(kernel, parse(opts), threads=2)


@pytest.mark.many
@pytest.mark.parametrize("target", [AVX2, OPENCL, SM80], ids=lambda t: t.name)
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
def test_random_schedules_equal_the_reference(make: Callable[[], Kernel], target: targets.Target) -> None:
    kernel = make()
    rng = random.Random(f"{make.__name__} {target.name}")
    for n in range(2 if target is AVX2 else 1):
        opts = grow(kernel, target, [rng.randrange(1 << 20) for _ in range(2 * n + 1)])
        check_twin(kernel, opts, target, None, n)
    check_floats(kernel, opts, target, None, 0)


def chains(items: tuple[Tree, ...]) -> list[list[str]]:
    """The nests of every chain."""
    found = [i.nests for i in items if isinstance(i, Chain)]
    return [[n.name for n in nests] for nests in found] + [c for i in items if isinstance(i, Shared) for c in chains(i.body)]


def test_scans_along_two_axes_and_their_store_are_one_pass() -> None:
    s = apply(integral(64, 512), parse([["UPCAST", "w", 8], ["UPCAST", "h", 4]]), AVX2)
    assert chains(s.tree.items) == [["row", "total", "y"]] and s.tree.registers == {"row", "total"}
    assert lower(s).scratch <= 512 * 4 + 64  # the sums so far of one row


def test_a_store_that_reads_what_the_scan_reads_runs_in_its_loop() -> None:
    s = apply(layers(), parse([["UPCAST", "w", 8], ["PARALLEL", "w"]]), AVX2)
    assert chains(s.tree.items) == [["above", "rho", "press"]] and s.tree.registers == {"above"}
    found = [x.args for p in lower(s).phases for x in statements(p.body) if isinstance(x, Instr) and x.op == "mul"]
    assert len(found) == len(set(found)), "what both stores and the scan compute is computed once"


def test_what_others_read_is_kept_for_them() -> None:
    s = apply(read_twice(), (), AVX2)
    assert chains(s.tree.items) == [["top", "again"]] and not {"top", "again"} & s.tree.registers


def test_copies_of_a_reader_that_has_others_keep_it_out_of_the_loop() -> None:
    kb = KernelBuilder("transposed")
    i, j = kb.axis("m", 8), kb.axis("n", 16)
    a, b = kb.axis("m@y", 8), kb.axis("n@y", 16)
    x = kb.input("x", (8, 16), float32)
    top = kb.scan("max", "top", (i, j), j, x[i, j])
    kb.store("y", float32, (8, 16), (a, b), top[a, b] - top[a, 15 - b])
    kernel = kb.build()
    assert chains(apply(kernel, (), AVX2).tree.items) == []
    check_twin(kernel, parse([["UPCAST", "n@y", 4]]), AVX2)


def test_lanes_along_a_scan_that_is_not_innermost_are_refused() -> None:
    with pytest.raises(OptError, match="as lanes unless its loops are innermost"):
        apply(integral(), parse([["UPCAST", "w", 4], ["MOVE", "w", {"before": "h"}]]), AVX2)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_rows_of_narrow_floats_keep_their_digits(kind: str) -> None:
    check_floats(integral(6, 16, kind), parse([["UPCAST", "w", 8], ["UPCAST", "h", 2]]), AVX2, None, 0)
