"""The counted model: what it reads in a Program, and that better schedules get smaller numbers. Nothing here is timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import counted
from tilewright.heuristics.cache_sets import SetUse, set_use
from tilewright.heuristics.counted.cache_reuse import Reuse, sizes_of
from tilewright.heuristics.counted.counted_terms import several_terms
from tilewright.heuristics.counted.execution_units import share_of_one
from tilewright.heuristics.counted.linear_forms import Forms, LinearForm, Variable
from tilewright.heuristics.counted.program_loops import LoopNode, tree
from tilewright.ir import KernelBuilder, float32, int32, int64, where
from tilewright.ir.dtypes import index
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, Val, statements

TARGET = targets.named("cascadelake")


def cost(kernel: Kernel, opts: list[Any], threads: int = 1) -> float:
    return counted(apply(kernel, parse(opts), TARGET), threads)


def digit(op: str, by: int, terms: dict[Variable, float], const: float = 0.0) -> LinearForm:
    """The form of a quotient or remainder of an index."""
    a, out = (Val(i, index, 1, 0) for i in range(2))
    forms = Forms()
    forms.known[a] = LinearForm(terms, const)
    forms.made[out] = Instr(op, out, (a,), by)
    return forms.of(out)


def test_digits_of_indices() -> None:
    i, j = Variable(12, frozenset({0})), Variable(8, frozenset({1}))
    assert digit("idiv", 8, {i: 8.0, j: 1.0}).terms == {i: 1.0}
    assert digit("imod", 8, {i: 8.0, j: 1.0}).terms == {j: 1.0}
    ((quotient, step),) = digit("idiv", 3, {i: 1.0}).terms.items()
    assert (quotient.trips, step, quotient.roots) == (4, 1.0, i.roots)
    ((remainder, step),) = digit("imod", 3, {i: 1.0}).terms.items()
    assert (remainder.trips, step) == (3, 1.0)


def test_what_a_phase_reads_and_writes() -> None:
    """A matrix product without blocks touches three arrays, and fetches b again for every row where it does not fit."""
    program = lower(apply(named_kernels.make("matmul", {"m": 32, "n": 64, "k": 128}), (), TARGET))
    t = tree(program, program.phases[0], TARGET.vector_bytes)
    reuse = Reuse(t, sizes_of(program), 64.0, 2.0)
    a, b, c = 32 * 128 * 4, 128 * 64 * 4, 32 * 64 * 4
    assert reuse.whole() == a + b + c
    assert reuse.moved(t.root, a + b + c) == a + b + 2 * c
    assert reuse.moved(t.root, b / 2) >= 32 * b


def test_lines_of_one_set_push_each_other_out() -> None:
    """Sixteen rows side by side whose lines share a set are more than the first cache holds; a pitch that is no power of two spreads them."""
    far, spread = (reread([["UPCAST", "m", 16], ["UPCAST", "n", 16]], m=64, n=n) for n in (1024, 1040))
    assert far > 0 and spread == 0


def test_stored_rows_share_sets_with_those_that_are_read() -> None:
    """Four rows of a stencil read six, which begin a line before; with the four that are stored they are more than eight ways hold."""

    def refetched(rows: int, w: int) -> float:
        kb = KernelBuilder("rows")
        i, j = kb.axis("h", 64), kb.axis("w", w)
        x = kb.input("x", (66, w + 16), float32)
        terms = [x[i + a, j + b] for a in range(3) for b in (15, 16)]
        kb.store("y", float32, (64, w + 16), (i, j), sum(terms[1:], terms[0]), indices=(i, j + 16))
        program = lower(apply(kb.build(), parse([["UPCAST", "h", rows], ["UPCAST", "w", 16]]), TARGET))
        return Reuse(tree(program, program.phases[0], TARGET.vector_bytes), sizes_of(program), 64.0, 2.0).thrashed(8, 4096)

    assert refetched(4, 1008) > 0
    assert refetched(2, 1008) == 0 and refetched(4, 1040) == 0


def test_places_among_copies_are_no_more_than_there_are() -> None:
    """A histogram's copies are in the workspace, which says how large they are at most."""
    kb = KernelBuilder("counts")
    i = kb.axis("n", 1 << 16)
    x = kb.input("x", (1 << 16,), int32, range=(0, 255))
    kb.store("y", int32, (256,), (i,), 1, (cast((x[i] * 5) & 255, "int64"),), combine="add")
    plain, copies = (cost(kb.build(), opts) for opts in ([["UPCAST", "n", 8]], [["SPLIT", "y", {"n": 1, "copies": 8}], ["UPCAST", "n", 8]]))
    assert copies < 2 * plain


def test_terms_of_later_steps_take_registers() -> None:
    """Squares of differences are computed before they are added, which leaves fewer registers for sums than products do. Where each
    iteration adds one of them, no later one is begun."""

    def terms(squares: bool, steps: int) -> bool:
        kb = KernelBuilder("terms")
        i, j, k = kb.axis("m", 64), kb.axis("n", 64), kb.axis("k", 64)
        a, b = kb.input("a", (64, 64), float32), kb.input("b", (64, 64), float32)
        d = a[i, k] - b[k, j]
        total = kb.sum("total", (i, j), k, d * d if squares else a[i, k] * b[k, j])
        kb.store("y", float32, (64, 64), (i, j), total[i, j])
        unroll = [["UNROLL", "k", steps]] if steps > 1 else []
        program = lower(apply(kb.build(), parse([["UPCAST", "m", 4], ["UPCAST", "n", 16], *unroll]), TARGET))
        return any(map(several_terms, loops(tree(program, program.phases[0], TARGET.vector_bytes).root)))

    assert terms(True, 4)
    assert not terms(True, 1) and not terms(False, 4)


def loops(node: LoopNode) -> Iterator[LoopNode]:
    yield node
    for child in node.children:
        yield from loops(child)


def test_what_moves_otherwise_meets_a_set_now_and_then() -> None:
    """Eight rows that are read and eight that are written lie a page apart each, but what is read goes along with other loops."""
    program = lower(apply(named_kernels.make("transpose", {"m": 1024, "n": 1024}), parse([["UPCAST", "m", 8], ["UPCAST", "n", 8]]), TARGET))
    reuse = Reuse(tree(program, program.phases[0], TARGET.vector_bytes), sizes_of(program), 64.0, 2.0)
    assert reuse.thrashed(8, 4096) == 0 and reuse.thrashed(7, 4096) > 0


@pytest.mark.parametrize(
    ("run", "steps", "lines", "places"),
    [
        (64, [(4096, 100)], 100, 1),
        (64, [(4000, 100)], 100, 64),  # a pitch that is no power of two spreads them
        (256, [(1024, 100)], 400, 16),
        (32, [(32, 16), (8192, 10)], 80, 8),  # pieces that follow each other are one
        (4096, [(4096, 10)], 640, 64),
    ],
)
def test_sets_that_rows_meet(run: float, steps: list[tuple[float, float]], lines: float, places: float) -> None:
    assert set_use(run, steps, 64.0, 4096) == SetUse(lines, places)
    assert set_use(run, steps, 64.0, 4096).crowded(32 << 10, 4096) == (lines / places > 8)


DOWN, ALONG = ([["UPCAST", "n", 8], ["UPCAST", "m", 16], ["PARALLEL", a]] for a in "mn")


def test_rows_of_one_set_do_not_stay() -> None:
    """Half a line is read of each of 1024 rows: it is there for the other half only where rows are spread over the sets."""

    def moved(n: int) -> float:
        program = lower(apply(named_kernels.make("transpose", {"m": 1024, "n": n}), parse([["UPCAST", "n", 8], ["PARALLEL", "n"]]), TARGET))
        reuse = Reuse(tree(program, program.phases[0], TARGET.vector_bytes), sizes_of(program), 64.0, 2.0)
        return reuse.moved(reuse.tree.root, 0.8 * (1 << 20)) / n

    assert moved(1024) > 1.2 * moved(1000)


def reread(opts: list[Any], **shape: int) -> float:
    """Bytes that are fetched again for want of ways."""
    program = lower(apply(named_kernels.make("sum_rows", shape), parse(opts), TARGET))
    t = tree(program, program.phases[0], TARGET.vector_bytes)
    return Reuse(t, sizes_of(program), 64.0, 2.0).thrashed(8, 4096)


def test_passes_over_the_same_bytes_count_once() -> None:
    """A softmax goes over its row three times; what lies outside the cache moves once in and, written, twice."""
    program = lower(apply(named_kernels.make("softmax", {"m": 64, "n": 1024}), parse([["UPCAST", "n", 64]]), TARGET))
    t = tree(program, program.phases[0], TARGET.vector_bytes)
    reuse = Reuse(t, sizes_of(program), 64.0, 2.0)
    assert reuse.moved(t.root, 64 * 1024) == 3 * 64 * 1024 * 4


def test_what_data_chooses_is_fetched_again() -> None:
    def gather(rows: int) -> Kernel:
        kb = KernelBuilder("gather")
        i, j = kb.axis("n", 4096), kb.axis("d", 16)
        x, at = kb.input("x", (rows, 16), float32), kb.input("at", (4096,), int64, range=(0, rows - 1))
        kb.store("y", float32, (4096, 16), (i, j), x[at[i], j])
        return kb.build()

    few, many = (cost(gather(rows), [["UPCAST", "d", 16]]) for rows in (64, 1 << 20))
    assert many > 2 * few


PACKED = [["UPCAST", "m", 8], ["UPCAST", "n", 32], ["TILE", "n", 128], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]
BETTER: list[tuple[str, dict[str, int], list[Any], list[Any], float]] = [
    ("matmul", {"m": 256, "n": 256, "k": 256}, PACKED, [], 8.0),
    ("matmul", {"m": 256, "n": 256, "k": 256}, PACKED, [["UPCAST", "n", 32], *PACKED[2:]], 1.2),
    ("matmul", {"m": 256, "n": 256, "k": 256}, PACKED, [["UPCAST", "m", 16], ["UPCAST", "n", 64], *PACKED[2:]], 1.5),  # which spills
    ("sum_rows", {"m": 64, "n": 4096}, [["UPCAST", "n", 64]], [["UPCAST", "n", 16]], 1.3),  # one chain waits for itself
    ("transpose", {"m": 1024, "n": 1000}, ALONG, DOWN, 1.3),  # stores a page apart wait for each other
    ("max_pool2d", {}, [["UPCAST", "ow", 16]], [], 2.0),
]


@pytest.mark.parametrize(("name", "shape", "better", "worse", "factor"), BETTER, ids=[f"{i}-{b[0]}" for i, b in enumerate(BETTER)])
def test_a_better_schedule_costs_less(name: str, shape: dict[str, int], better: list[Any], worse: list[Any], factor: float) -> None:
    kernel = named_kernels.make(name, shape or None)
    assert cost(kernel, better) * factor <= cost(kernel, worse)


@pytest.mark.parametrize(("cpu", "pays"), [("znver4", False), ("sapphirerapids", True)])
def test_what_a_near_last_cache_keeps_is_not_stored_past_it(cpu: str, pays: bool) -> None:
    kernel, target = named_kernels.make("add", {"m": 512, "n": 768}), replace(TARGET, cpu=cpu)
    kept, past = (
        counted(apply(kernel, parse([["UPCAST", "n", 64], ["PARALLEL", "m"], *rest]), target))
        for rest in ([], [["CACHE", "y", {"policy": "stream"}]])
    )
    assert (past < kept) == pays


def test_threads_share_items() -> None:
    kernel = named_kernels.make("matmul", {"m": 512, "n": 512, "k": 512})
    assert 1.6 < cost(kernel, PACKED, 1) / cost(kernel, PACKED, 2) <= 2.0


def test_data_decides_how_long_a_loop_is() -> None:
    """Of one row the loop is half as long as the padded axis in the mean, of the longest of several that share what they read it is
    longer. Rows that share nothing have loops of their own."""

    def trips(opts: str, shared: bool = True) -> float:
        kb = KernelBuilder("padded")
        i, k = kb.axis("i", 64), kb.axis("k", 256)
        x, many = kb.input("x", (256,) if shared else (64, 256), float32), kb.input("many", (64,), "int32")
        term = x[k] if shared else x[i, k]
        kb.store("y", float32, (64,), (i,), kb.sum("total", (i,), k, where(k < cast(many[i], "int64"), term, 0.0))[i])
        program = lower(apply(kb.build(), parse(opts), TARGET))
        t = tree(program, program.phases[0], TARGET.vector_bytes)
        return sum(times for times, label in every(t.root, 1.0) if label == "k")

    def every(node: LoopNode, blocks: float) -> Iterator[tuple[float, str]]:
        """Iterations of the loops over k, in all blocks that a sum is cut into."""
        label = "" if node.loop is None else node.loop.label
        yield blocks * node.trips, label
        for c in node.children:
            yield from every(c, blocks * node.trips if label.startswith("k.b") else 1.0)

    one, two, sixteen = trips("Pi"), trips("Ui2 Pi"), trips("Ui16 Pi")
    assert 110 < one < 146 and 1.1 * one < two < 1.5 * one and 1.2 * two < sixteen < 256
    assert all(80 * n < trips(f"Ui{n} Pi", shared=False) < 128 * n for n in (2, 4, 16))


def test_notes_beside_an_extreme_count_as_what_they_become() -> None:
    """What is no number is noted by one test of two elements and what joins it: two instructions beside two minima."""
    kb = KernelBuilder("least")
    i, k = kb.axis("n", 64), kb.axis("k", 32)
    x = kb.input("x", (32, 64), float32)
    kb.store("y", float32, (64,), (i,), kb.min("least", (i,), k, x[k, i])[i])
    program = lower(apply(kb.build(), parse("Un8 Rk2"), targets.named("avx2")))
    made = {s.out: s for s in statements(program.phases[0].body) if isinstance(s, Instr) and s.out is not None}
    (loop,) = (s for s in statements(program.phases[0].body) if isinstance(s, For) and s.carried)
    notes = [s for s in loop.body.stmts if isinstance(s, Instr) and (s.op in ("ne", "or") or (s.op == "select" and s.result.dtype.is_int))]
    assert len(notes) == 5 and sum(share_of_one(made, s, masks=False) for s in notes) == 2
