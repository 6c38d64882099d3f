"""Loops are cut at borders: inside, a clamp, wrap or mask is no more than the index that it keeps inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from checks import check_compiled, check_twin
from odd_borders import bordered_sum, borders, kept_neighbours
from tilewright import targets
from tilewright.ir import KernelBuilder, float32, sym
from tilewright.ir.functions import maximum, minimum, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.opts import apply, parse
from tilewright.opts.analysis import thresholds
from tilewright.program.program import For, Instr, statements

AVX2, V2, NEON = (targets.named(n) for n in ("avx2", "v2", "neon"))
KINDS = ("clamp", "wrap", "reflect", "zero", "other", "selected")
WIDE = [["UPCAST", "n", 8], ["PARALLEL", "m"]]


def program(kernel: Kernel, opts: Any, target: Any = AVX2) -> Program:
    return lower(apply(kernel, parse(opts), target))


def loops(p: Program, name: str) -> Iterator[For]:
    return (s for s in statements(p.phases[0].body) if isinstance(s, For) and s.label == name)


def gathered(of: Any) -> int:
    """Accesses that are no plain vectors or scalars: gathers, and what is masked."""
    found = (s for s in statements(of.body) if isinstance(s, Instr) and s.op in ("load", "gather", "store", "scatter"))
    return sum(s.op in ("gather", "scatter") or len(s.args) > (2 if s.op == "store" else 1) for s in found)


@pytest.mark.parametrize("kind", range(6), ids=KINDS)
def test_the_inside_has_whole_vectors_only(kind: int) -> None:
    p = program(borders(9, 67, kind, 3), WIDE)
    inside = list(loops(p, "n"))
    assert inside and not any(gathered(f) for f in inside)
    assert not any(s.op in ("min", "max", "imod", "select") for f in inside for s in statements(f.body) if isinstance(s, Instr))


@pytest.mark.parametrize("target", [V2, AVX2], ids=lambda t: t.name)
@pytest.mark.parametrize("kind", [0, 1, 2, 5], ids=[KINDS[k] for k in (0, 1, 2, 5)])
def test_borders_are_shuffled_together(kind: int, target: Any) -> None:
    found = [s for s in statements(program(borders(9, 64, kind, 3), WIDE, target).phases[0].body) if isinstance(s, Instr)]
    assert not any(s.op == "gather" for s in found) and any(s.op == "shuffle" for s in found)


@pytest.mark.parametrize("kind", range(4))
def test_sums_over_windows_too(kind: int) -> None:
    p = program(bordered_sum(6, 96, kind, 5), [["UPCAST", "n", 16], ["UPCAST", "m", 2]])
    whole = [f for f in loops(p, "n") if not gathered(f)]
    assert len(whole) == 1


def test_each_part_of_an_axis_has_its_own_expression() -> None:
    kb = KernelBuilder("halves")
    j = kb.axis("n", 64)
    a, b = kb.input("a", (64,), float32), kb.input("b", (64,), float32)
    kb.store("y", float32, (64,), (j,), where(j < 24, a[j], b[j]))
    p = program(kb.build(), [["UPCAST", "n", 8]])
    assert [sum(isinstance(s, Instr) and s.op == "load" for s in statements(f.body)) for f in loops(p, "n")] == [1, 1]


def test_an_axis_without_lanes_is_not_cut_at_a_clamp() -> None:
    kb = KernelBuilder("rows")
    i, j = kb.axis("m", 16), kb.axis("n", 64)
    x = kb.input("x", (16, 64), float32)
    kb.store("y", float32, (16, 64), (i, j), x[maximum(i - 1, 0), j] + x[minimum(i + 1, 15), j])
    assert len(list(loops(program(kb.build(), [["UPCAST", "n", 8]]), "m"))) == 1


def test_copies_that_no_clamp_touches_share_their_loads() -> None:
    """Four rows read six different ones, whatever their indices look like."""
    kb = KernelBuilder("rows")
    i, j = kb.axis("m", 16), kb.axis("n", 64)
    x = kb.input("x", (16, 64), float32)
    kb.store("y", float32, (16, 64), (i, j), x[maximum(i - 1, 0), j] + x[i, j] + x[minimum(i + 1, 15), j])
    p = program(kb.build(), [["UPCAST", "n", 8], ["UPCAST", "m", 4]])
    (f,) = loops(p, "n")
    assert sum(isinstance(s, Instr) and s.op == "load" for s in statements(f.body)) == 6


def test_a_loop_has_few_pieces_and_long_code_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KernelBuilder("many")
    j = kb.axis("n", 512)
    x = kb.input("x", (512,), float32)
    total = x[j]
    for k in range(1, 40):
        total = total + x[maximum(j - 8 * k, 0)]
    kb.store("y", float32, (512,), (j,), total)
    kernel = kb.build()
    assert 1 < len(list(loops(program(kernel, [["UPCAST", "n", 8]]), "n"))) <= 4
    monkeypatch.setattr(thresholds, "LONG", 10)
    assert len(list(loops(program(kernel, [["UPCAST", "n", 8]]), "n"))) == 1


def test_symbolic_extents_and_gpus_are_not_cut() -> None:
    kb = KernelBuilder("symbolic")
    n = sym("n", 1, 999)
    j = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    kb.store("y", float32, (n,), (j,), x[maximum(j - 1, 0)])
    assert len(list(loops(program(kb.build(), [["UPCAST", "n", 8]]), "n"))) == 1
    on_gpu = apply(borders(8, 64, 0, 1), parse([["UPCAST", "n", 4]]), targets.named("sm_80"))
    assert lower(on_gpu).phases[0].body.stmts


@pytest.mark.many
@pytest.mark.parametrize(("n", "target"), [(1, V2), (2, NEON), (3, AVX2), (13, AVX2), (41, V2)])
def test_small_and_odd_extents(n: int, target: Any) -> None:
    cut = [["PADTO", "n", 4], ["UPCAST", "n", 4], ["PARALLEL", "m"]]
    opts = parse(cut if n > 1 else [])
    for kind in range(6):
        check_twin(borders(3, n, kind, 4), parse([*cut, ["PARALLEL", "n"]]) if n > 1 else (), target)
        check_twin(bordered_sum(2, n, kind, 7), opts, target)
        check_twin(kept_neighbours(2, n, kind), opts, target)


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(6), ids=KINDS)
def test_compiled(kind: int) -> None:
    check_compiled(borders(5, 53, kind, 2), parse([["TILE", "n", 32], ["UPCAST", "n", 8], ["PARALLEL", "n"]]), threads=2)
