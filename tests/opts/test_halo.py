"""PHASE and HALO: results do not depend on them, what a block needs is inferred exactly, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from chains import blur, blur_sums, bordered, chained, clamped, halved, same_axes
from checks import check_compiled, check_twin
from tilewright.ir import KernelBuilder, OptError, float32, sym
from tilewright.ir import index as ix
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.lower.pieces import Scope, pieces
from tilewright.opts import apply, opt, parse
from tilewright.opts.options.halo import tiled
from tilewright.opts.options.phase import phased
from tilewright.targets import named

Make = Callable[[int, int], Kernel]
SPREAD = [["PARALLEL", "y.h"], ["UPCAST", "x", 8]]
STRIPS = [["HALO", "y", 6], ["HALO", "y", {"n": 2, "roll": 1}]]
CASES: list[tuple[Make, list[Any]]] = [
    (blur, [["PHASE", "rows"], ["PARALLEL", "y"], ["PARALLEL", "y1"], ["UPCAST", "x1", 8]]),
    (blur, [["HALO", "y", 4], ["STAGE", "rows", {"at": "y.h"}], *SPREAD]),
    (blur, [["HALO", "y", 5], ["HALO", "x", 16], ["STAGE", "rows", {"at": "x.h"}], *SPREAD]),
    (blur_sums, [["HALO", "y", 6], ["HALO", "y", 2], *SPREAD]),
    (blur_sums, [["PHASE", "rows"], ["HALO", "y", 4], ["PARALLEL", "y1"], *SPREAD]),
    (clamped, [["HALO", "y", 5], ["STAGE", "one", {"at": "y.h"}], ["STAGE", "two", {"at": "y.h"}], *SPREAD]),
    (clamped, [["PHASE", "one"], ["PHASE", "two"], ["PARALLEL", "y"], ["UPCAST", "x", 8]]),
    (same_axes, [["HALO", "y", 3], ["STAGE", "one", {"at": "y.h"}], ["STAGE", "two", {"at": "y.h"}], *SPREAD]),
    (blur, [*STRIPS, ["STAGE", "rows", {"at": "y.h2"}], ["UPCAST", "x1", 8], ["UPCAST", "y1", 2], ["UPCAST", "y", 2], *SPREAD]),
    (blur, [["HALO", "y", {"n": 1, "roll": 1}], ["STAGE", "rows", {"at": "y.h"}], ["UPCAST", "x", 8]]),
    (blur_sums, [["HALO", "x", 8], ["PARALLEL", "x.h"], *STRIPS, *SPREAD[:1]]),
    (chained, [*STRIPS, ["STAGE", "one", {"at": "y.h2"}], ["STAGE", "two", {"at": "y.h2"}], ["UPCAST", "x", 8], ["UPCAST", "x1", 8]]),
    (bordered, [*STRIPS, ["STAGE", "two", {"at": "y.h2"}], ["UPCAST", "x2", 8], *SPREAD]),
    (bordered, [*STRIPS, ["STAGE", "one", {"at": "y.h2"}], ["UPCAST", "x1", 8], *SPREAD]),
    (halved, [["PHASE", "mean"], *STRIPS, ["STAGE", "v", {"at": "y.h2"}], *SPREAD]),
    (halved, [["PHASE", "mean"], ["HALO", "y", 3], ["STAGE", "v", {"at": "y.h"}], *SPREAD]),
]


@pytest.mark.many
@pytest.mark.parametrize(("make", "listed"), CASES, ids=[f"{m.__name__}-{i}" for i, (m, _) in enumerate(CASES)])
def test_results_do_not_depend_on_them(make: Make, listed: list[Any]) -> None:
    kernel, opts = make(12, 24), parse(listed)
    check_twin(kernel, opts, named("avx2"))
    check_compiled(kernel, opts, threads=2)


@pytest.mark.parametrize("target", ["sm_80", "opencl-gpu"])
@pytest.mark.parametrize("first", [["PHASE", "rows"], ["HALO", "y", 4]], ids=str)
def test_groups_of_threads(target: str, first: list[Any]) -> None:
    check_twin(blur_sums(8, 16), parse([first, ["LOCAL", "x", 8], ["LOCAL", "x1", 8]]), named(target))


def shape(kernel: Kernel, value: str) -> list[int]:
    """The extents of a value's axes."""
    return [a.arg.extent for a in kernel.values[value].axes]


def test_a_block_has_its_halo_and_no_more() -> None:
    assert shape(tiled(blur(12, 24), opt("HALO", "y", 4)), "rows") == [3, 6, 24]
    assert shape(tiled(blur(12, 24), opt("HALO", "y", 5)), "rows") == [3, 7, 24]
    assert shape(tiled(blur_sums(12, 24), opt("HALO", "y", 4)), "columns") == [3, 4, 24]
    assert shape(tiled(halved(12, 24), opt("HALO", "y", 3)), "v") == [4, 7, 24]
    assert shape(tiled(clamped(40, 24), opt("HALO", "y", 4)), "two") == [10, 6, 24]


def test_values_over_the_same_axes_have_tiles_of_their_own() -> None:
    kernel = tiled(same_axes(40, 24), opt("HALO", "y", 4))
    assert [shape(kernel, v) for v in ("one", "two")] == [[10, 12, 24], [10, 6, 24]]
    scheduled = apply(kernel, parse([["STAGE", "one", {"at": "y.h"}], ["STAGE", "two", {"at": "y.h"}], ["UPCAST", "x", 8]]), named("avx2"))
    assert [[p.axis.arg.family for p in scheduled.loops(n)] for n in scheduled.nests] == [
        ["y.h", y, "x"] for y in ("y.v1", "y.v0", "y")
    ]  # rows outside, whoever walks them


def test_what_a_block_needs_whole_is_not_cut() -> None:
    assert shape(tiled(blur(12, 24), opt("HALO", "y", 11)), "rows") == [2, 13, 24]
    assert shape(tiled(clamped(12, 24), opt("HALO", "y", 10)), "two") == [12, 24]
    assert shape(tiled(halved(12, 24), opt("HALO", "y", 3)), "mean") == []


def rings(kernel: Kernel, listed: list[Any]) -> dict[str, tuple[int, int, int]]:
    """(step, extent, slots) of each value that rolls."""
    return {v: (r.step, r.extent, r.slots) for v, r in apply(kernel, parse(listed), named("avx2")).phases[0].rings.items()}


def test_what_rolls_is_seen_from_the_expression() -> None:
    assert rings(blur(12, 24), [*STRIPS, ["STAGE", "rows", {"at": "y.h2"}]]) == {"rows": (2, 4, 4)}
    assert rings(blur_sums(12, 24), STRIPS) == {"rows": (2, 4, 4)}  # (of columns, blocks share nothing)
    both = [["STAGE", "one", {"at": "y.h2"}], ["STAGE", "two", {"at": "y.h2"}]]
    assert rings(chained(12, 24), [*STRIPS, *both]) == {"one": (2, 6, 8), "two": (2, 4, 4)}
    # what `two` fills on its way is wanted whole by others
    with pytest.raises(OptError, match="no value has the same elements"):
        rings(bordered(12, 24), [*STRIPS, *both])
    # every second row: four rows further from block to block
    kernel, listed = halved(12, 24), [["HALO", "y", 6], ["HALO", "y", {"n": 2, "roll": 1}], ["STAGE", "v", {"at": "y.h2"}]]
    assert rings(kernel, listed) == {"v": (4, 5, 8)}


def test_blocks_after_the_first_compute_what_is_new() -> None:
    """256 rows in blocks of 2 that keep 2 of 4: half the work, and two rows more."""
    scheduled = apply(blur(256, 24), parse([["HALO", "y", {"n": 2, "roll": 1}], ["STAGE", "rows", {"at": "y.h"}]]), named("avx2")).phases[0]
    assert scheduled.rings["rows"].computed == (256 + 2) / (128 * 4)
    rows = next(p for p in scheduled.loops(scheduled.nests[0]) if p.name == "y1")
    (piece,) = pieces(scheduled, Scope(), scheduled.nests[:1], rows)
    assert piece.between is not None
    block = next(p.var for p in scheduled.loops(scheduled.nests[0]) if p.name == "y.h")
    assert [ix.evaluate(piece.between[0], {block: b}) for b in (0, 1, 100)] == [0, 2, 2]


def test_phases_have_what_they_need_and_no_more() -> None:
    first, second = phased(clamped(12, 24), ("one",))
    assert [b.name for b in first.buffers] == ["a", "one.kept"] and not first.body
    assert [b.name for b in second.buffers] == ["one.kept", "out"] and [v.name for v in second.body] == ["two"]
    program = lower(apply(clamped(12, 24), parse([["PHASE", "one"], ["PHASE", "two"]]), named("avx2")))
    assert len(program.phases) == 3 and program.work >= 2 * 12 * 24 * 4  # each waits in a place of its own


REFUSED = [
    (blur, ["HALO", "y1", 4], "does not run over y1"),
    (blur, ["HALO", "y", 12], "smaller than the extent 12"),
    (blur, ["PHASE", "a"], r"name a value of the kernel \(rows\)"),
    (clamped, ["PHASE", "out"], r"name a value of the kernel \(one, two\)"),
    (halved, ["HALO", "y", 12], "smaller than the extent"),
]
KEEP = ["STAGE", "rows", {"at": "y.h2"}]
UNROLLED = [
    ([["HALO", "y", {"n": 6, "roll": 1}]], "no value has the same elements in two blocks"),
    ([["HALO", "y", {"n": 6, "roll": 1}], ["STAGE", "rows", {"at": "y.h"}], ["PARALLEL", "y.h"]], "stays a serial loop"),
    ([*STRIPS, KEEP, ["UPCAST", "y1", 4]], "steps of 4 do not divide both"),
    ([*STRIPS, KEEP, ["MOVE", "y1", {"before": "y.h2"}]], "runs inside y.h2"),
    ([*STRIPS, KEEP, ["MOVE", "y.h2", {"before": "y.h"}]], "another loop runs between"),
]


@pytest.mark.parametrize(("listed", "message"), UNROLLED, ids=[m for _, m in UNROLLED])
def test_what_does_not_roll(listed: list[Any], message: str) -> None:
    with pytest.raises(OptError, match=message):
        apply(blur(12, 24), parse(listed), named("avx2"))


@pytest.mark.parametrize(("make", "option", "message"), REFUSED, ids=lambda x: x if isinstance(x, str) else None)
def test_refusals(make: Make, option: list[Any], message: str) -> None:
    with pytest.raises(OptError, match=message):
        apply(make(12, 24), parse([option]), named("avx2"))


def test_an_option_for_no_phase_is_an_error() -> None:
    with pytest.raises(OptError, match="no phase has what it names"):
        apply(blur(12, 24), parse([["PHASE", "rows"], ["UPCAST", "z", 8]]), named("avx2"))


def test_blocks_stay_serial_where_a_value_is_needed_whole() -> None:
    with pytest.raises(OptError, match="mean does not run over it"):
        apply(halved(12, 24), parse([["HALO", "y", 3], ["PARALLEL", "y.h"]]), named("avx2"))


def test_symbols() -> None:
    kb = KernelBuilder("chain")
    n = sym("n", 1, 64)
    y1, x1, y, x = kb.axis("y1", 10), kb.axis("x1", n), kb.axis("y", 8), kb.axis("x", n)
    a = kb.input("a", (10, n), float32)
    v = kb.value("v", (y1, x1), a[y1, x1] * 2.0)
    kb.store("out", float32, (8, n), (y, x), v[y, x] + v[y + 2, x])
    kernel = kb.build()
    for listed in ([["HALO", "y", 3], ["STAGE", "v", {"at": "y.h"}]], [["PHASE", "v"], ["UPCAST", "x", 8]]):
        check_compiled(kernel, parse(listed), None, {"n": 21})
    with pytest.raises(OptError, match="symbolic extent"):
        apply(kernel, parse([["HALO", "x", 4]]), named("avx2"))
