"""Sums of products of narrow integers are made two neighbours at a time; lanes of several sums are combined together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checks import check_compiled, check_twin
from tilewright import targets
from tilewright.heuristics import starts
from tilewright.ir import DType, Kernel, KernelBuilder, cast, float32, int8, int16, int32, uint8, uint16
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, Program, statements

V3 = targets.named("avx2")


def fir(x: DType = int16, w: DType = int16, n: int = 24, k: int = 64, masked: bool = False) -> Kernel:
    """A filter: sums in int32."""
    kb = KernelBuilder("fir")
    i, l = kb.axis("n", n), kb.axis("k", k)
    a, b = kb.input("x", (n + k - 1,), x), kb.input("w", (k,), w)
    left = a.masked(i + l < n, i + l) if masked else a[i + l]
    total = kb.sum("total", (i,), l, cast(left, int32) * cast(b[l], int32))
    kb.store("y", int32, (n,), (i,), total[i])
    return kb.build()


def sums(n: int = 24, k: int = 64) -> Kernel:
    """Sums of rows."""
    kb = KernelBuilder("sums")
    i, l = kb.axis("n", n), kb.axis("k", k)
    x = kb.input("x", (n, k), float32)
    total = kb.sum("total", (i,), l, x[i, l])
    kb.store("y", float32, (n,), (i,), total[i])
    return kb.build()


def joined(program: Program) -> int:
    """Products of twice the lanes that a step makes."""
    loops = [s for p in program.phases for s in statements(p.body) if isinstance(s, For) and s.carried]
    each = [s for loop in loops for s in loop.body.stmts if isinstance(s, Instr) and s.op == "mul" and s.out is not None]
    return sum(s.result.lanes == 16 for s in each)


@pytest.mark.many
@pytest.mark.parametrize(("x", "w"), [(int16, int16), (int8, uint8)])
@pytest.mark.parametrize(("vectors", "copies"), [(16, 2), (32, 4), (16, 6)])
def test_neighbours_are_joined(x: DType, w: DType, vectors: int, copies: int) -> None:
    kernel, opts = fir(x, w), parse(f'[["UPCAST","k",{vectors}],["UPCAST","n",{copies}]]')
    assert joined(lower(apply(kernel, opts, V3))) == copies * vectors // 16
    check_twin(kernel, opts, V3)
    check_compiled(kernel, opts)


@pytest.mark.parametrize(
    ("kernel", "opts"),
    [
        (fir(uint16), '[["UPCAST","k",16]]'),  # does not fit 16 signed bits
        (fir(masked=True), '[["UPCAST","k",16]]'),
        (fir(), '[["UPCAST","k",8]]'),  # one vector has no neighbour
        (fir(), '[["UPCAST","n",8]]'),
    ],
)
def test_what_is_no_pair_stays(kernel: Kernel, opts: str) -> None:
    assert joined(lower(apply(kernel, parse(opts), V3))) == 0
    check_twin(kernel, parse(opts), V3)


def test_start_schedules_know_where_it_pays() -> None:
    first = starts(fir(n=1 << 16), V3)[0]
    assert any(o.op == "UPCAST" and o.on == "k" for o in first)
    plain = replace(V3, arch="aarch64")
    assert not V3.language.groups and not plain.adds_neighbours and joined(lower(apply(fir(), parse('[["UPCAST","k",16]]'), plain))) == 0


@pytest.mark.many
@pytest.mark.parametrize("copies", [4, 6, 8, 12])
def test_lanes_of_several_sums_are_combined_together(copies: int) -> None:
    kernel, opts = sums(), parse(f'[["UPCAST","k",8],["UPCAST","n",{copies}]]')
    check_twin(kernel, opts, V3)
    check_compiled(kernel, opts)
    program = lower(apply(kernel, opts, V3))
    shuffles = sum(isinstance(s, Instr) and s.op == "shuffle" for p in program.phases for s in statements(p.body))
    assert shuffles < 8 * copies * 3 // 4, "as many as one by one"
