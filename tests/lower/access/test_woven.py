"""Groups of two to four neighbours: picked from whole vectors, woven into whole vectors, and nothing outside of them touched."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import kernels, targets
from tilewright.ir import Kernel, KernelBuilder, dtype, where
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, statements

CASCADE = targets.named("cascadelake")


def mixed(step: int, n: int = 32, kind: str = "float32", rows: int = 2) -> Kernel:
    """Every component from itself, the first of its group and a factor of the group."""
    kb = KernelBuilder("mixed")
    r, i, c = kb.axis("m", rows), kb.axis("n", n), kb.axis("c", step)
    x, w = kb.input("x", (rows, n, step), dtype(kind)), kb.input("w", (n,), dtype(kind))
    last = x[r, i, step - 1]
    kb.store("y", dtype(kind), (rows, n, step), (r, i, c), where(c.eq(0), x[r, i, 0] * w[i], x[r, i, c] + last * w[i]))
    return kb.build()


def ops(kernel: Kernel, opts: list[Any], target: targets.Target = CASCADE) -> list[str]:
    program = lower(apply(kernel, parse(opts), target))
    return [s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]


def ways(step: int) -> list[list[Any]]:
    near = ["UPCAST", "c", step]
    return [
        [near, ["UPCAST", "n", 16]],
        [near, ["UPCAST", "n", 32], ["UPCAST", "m", 2], ["PARALLEL", "n"]],
        [near, ["UPCAST", "n", 8], ["CACHE", "y", {"policy": "stream"}]],
    ]


@pytest.mark.parametrize("step", [2, 3, 4])
def test_what_is_woven_is_right(step: int) -> None:
    for opts in ways(step):
        check_twin(mixed(step), parse(opts), CASCADE)
    check_floats(mixed(step, kind="float16"), parse(ways(step)[0]), targets.named("avx2"))
    check_floats(mixed(step, kind="float64"), parse(ways(step)[0]), targets.named("neon"))


@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_ragged_end(step: int) -> None:
    """The last step writes what exists and no more, with vectors whose masks are constants."""
    kernel = mixed(step, n=27)
    assert {"scatter", "gather"}.isdisjoint(ops(kernel, [["UPCAST", "c", step], ["UPCAST", "n", 8]])[:40])
    check_twin(kernel, parse([["UPCAST", "c", step], ["UPCAST", "n", 8]]), CASCADE)
    check_compiled(kernel, parse([["UPCAST", "c", step], ["UPCAST", "n", 8]]), targets.host())


@pytest.mark.parametrize(("step", "shuffles"), [(2, 4), (3, 18), (4, 16)])
def test_whole_vectors_only(step: int, shuffles: int) -> None:
    found = ops(mixed(step, rows=1), [["UPCAST", "c", step], ["UPCAST", "n", 16]])
    assert {"gather", "scatter", "insert", "extract"}.isdisjoint(found)
    assert found.count("store") == step and found.count("load") == step + 1  # components share their loads
    assert found.count("shuffle") == shuffles


def test_odd_rows_are_no_groups() -> None:
    """Pairs that begin at an odd place in every other row may end past the buffer: they are read as what is strided."""
    kb = KernelBuilder("odd")
    r, i = kb.axis("m", 2), kb.axis("n", 16)
    x = kb.input("x", (2, 31), dtype("float32"))
    kb.store("y", dtype("float32"), (2, 16), (r, i), x[r, 2 * i])
    check_compiled(kb.build(), parse([["UPCAST", "n", 16]]), targets.host())


def test_components_apart_are_scattered() -> None:
    """Without all neighbours in registers nothing can be woven."""
    kernel = mixed(4)
    opts = [["UPCAST", "c", 2], ["UPCAST", "n", 16]]
    check_twin(kernel, parse(opts), CASCADE)


def test_a_row_before_the_first_does_not_take_the_place_of_the_last_one() -> None:
    """Row -1 of the second channel, which does not exist, has the index of the last row of the first."""
    kernel = kernels.make("conv2d_dx", {"n": 2, "c": 4, "h": 5, "w": 7, "oc": 6, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "groups": 2})
    opts = parse("PADh4 Uh4 Uc2 Uphase_h2 Uw4 Uphase_w2")
    check_twin(kernel, opts, CASCADE)
    check_twin(kernel, opts, targets.named("avx2"))


def test_what_is_known_of_a_bool() -> None:
    b = Builder()
    with b.phase(apply(mixed(2), (), CASCADE).kernel.axes[0], ()):
        both = b.const((True, False), dtype("bool"), 2)
        assert b.known(both) == (True, False)
        assert b.known(b.const(True, dtype("bool"))) is True
        assert b.known(b.op("lt", b.const(1), b.const(2))) is None


@pytest.mark.slow
def test_every_way_compiled() -> None:
    for step, n in product((2, 3, 4), (32, 27)):
        for opts in ways(step):
            check_compiled(mixed(step, n), parse(opts), targets.host())


def test_groups_of_two_vectors_have_their_lanes_across() -> None:
    """Sixteen words of each point, computed of what the point reads: lanes are points, with vectors of eight too."""
    kb = KernelBuilder("words")
    i = kb.axis("n", 24)
    x = kb.input("x", (24,), dtype("uint32"))
    v = [x[i] * (2 * k + 1) + k for k in range(16)]
    for k in range(16):
        for _ in range(3):
            v[k] = (v[k] << 7) ^ (v[(k + 1) % 16] >> 5)
    for k in range(16):
        kb.store("y", dtype("uint32"), (24, 16), (i,), v[k], (i, k))
    kernel, opts = kb.build(), parse([["UPCAST", "part", 16], ["UPCAST", "n", 8]])
    s = apply(kernel, opts, targets.named("haswell"))
    (nest,) = s.nests
    lane = s.lanes(nest).lane
    assert lane is not None and lane.axis.arg.family == "n" and s.lanes(nest).width == 8
    check_twin(kernel, opts, targets.named("haswell"))
    check_compiled(kernel, opts)
