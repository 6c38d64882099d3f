"""OWN: what it takes and refuses, that results do not depend on it, and the start schedules and actions that have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import interp, named_kernels
from tilewright.heuristics import starts
from tilewright.heuristics.model import estimate
from tilewright.ir import KernelBuilder, OptError, float32, int32, sym
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.lower import lower
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import actions
from tilewright.program.program import If, Instr, statements
from tilewright.targets import named

TARGET = named("cascadelake")
SHAPE = {"v": 23, "n": 31, "d": 29}


def histogram(bins: int, points: int, combine: str = "add") -> Kernel:
    """y[at[i]] += x[i], of one dimension."""
    kb = KernelBuilder("histogram")
    i = kb.axis("i", points)
    x, at = kb.input("x", (points,), float32), kb.input("at", (points,), int32, range=(0, bins - 1))
    kb.store("y", float32, (bins,), (i,), x[i], indices=(at[i],), combine=combine)
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 16, 22])
@pytest.mark.parametrize(
    "rest",
    [
        [],
        [["UPCAST", "d", 16], ["UPCAST", "n", 4]],
        [["UPCAST", "d", 16]],
        [["PARALLEL", "d"], ["UPCAST", "d", 5]],
        [["MOVE", "d", {"before": "n"}]],
    ],
    ids=str,
)
@pytest.mark.covering
def test_results_do_not_depend_on_it(rows: int, rest: list[Any]) -> None:
    kernel = named_kernels.make("embedding_grad", SHAPE)
    opts = parse([["OWN", "dtable", rows], *rest])
    check_twin(kernel, opts, named("avx2"))
    check_floats(kernel, opts, TARGET)
    check_compiled(kernel, opts, None, threads=2)


@pytest.mark.parametrize("combine", ["add", "max", "min"])
def test_other_scatters(combine: str) -> None:
    kernel = histogram(37, 100, combine)
    for rows in (4, 16):
        check_compiled(kernel, parse([["OWN", "y", rows]]), None, threads=2)


@pytest.mark.parametrize("n", [0, 1, 31])
def test_any_number_of_points(n: int) -> None:
    kernel = named_kernels.make("embedding_grad", {"v": 23, "n": sym("n", 0, 64), "d": 29})
    check_compiled(kernel, parse([["OWN", "dtable", 8], ["UPCAST", "d", 16]]), None, {"n": n}, threads=2)


def test_rows_are_added_in_the_order_of_the_points() -> None:
    """Bit for bit what the plain scatter gives, where sums depend on the order."""
    kernel = named_kernels.make("embedding_grad", {"v": 4, "n": 200, "d": 16})
    rng = np.random.default_rng(1)
    dy = (rng.standard_normal((200, 16)) * 10.0 ** rng.integers(-6, 6, (200, 1))).astype(np.float32)
    found = []
    for opts in ([], [["OWN", "dtable", 2]], [["OWN", "dtable", 1], ["UPCAST", "d", 16]]):
        out = {"dtable": np.full((4, 16), np.nan, np.float32), "dy": dy, "ids": rng.integers(0, 4, 200)}
        rng = np.random.default_rng(1)
        out["ids"] = rng.integers(0, 4, 200)
        interp.run(lower(apply(kernel, opts, TARGET)), out)
        found.append(out["dtable"].tobytes())
    assert found[0] == found[1] == found[2]


def test_one_comparison_a_point_outside_the_loops_over_its_row() -> None:
    program = lower(
        apply(named_kernels.make("embedding_grad", {"v": 64, "n": 8, "d": 128}), [["OWN", "dtable", 16], ["UPCAST", "d", 16]], TARGET)
    )
    tests = [s for s in statements(program.phases[0].body) if isinstance(s, If)]
    assert len(tests) == 1 and any(isinstance(s, Instr) and s.op == "store" for s in statements(tests[0].body))
    # whole vectors at the row's address
    assert not any(isinstance(s, Instr) and s.op in ("scatter", "gather") for s in statements(program.phases[0].body))


@pytest.mark.parametrize(
    ("name", "opts", "message"),
    [
        ("matmul", [["OWN", "c", 8]], "OWN takes the output of a kernel that does nothing but scatter"),
        ("embedding_grad", [["OWN", "dy", 8]], "OWN takes the output of a kernel that does nothing but scatter"),
        ("embedding_grad", [["OWN", "dtable", 23]], "a block must be smaller than the 23 rows of dtable"),
        ("embedding_grad", [["OWN", "dtable", 0]], "the amount must be a positive int"),
        ("embedding_grad", [["OWN", "dtable", 8], ["OWN", "dtable", 4]], "the output has owners already"),
        ("embedding_grad", [["OWN", "dtable", 8], ["UPCAST", "n.own", 3]], "make the blocks of OWN larger instead"),
        ("embedding_grad", [["OWN", "dtable", 8], ["PARALLEL", "n"]], "dtable.init does not run over it"),
    ],
)
def test_what_is_refused(name: str, opts: list[Any], message: str) -> None:
    with pytest.raises(OptError, match=message):
        apply(named_kernels.make(name, SHAPE if name == "embedding_grad" else None), opts, TARGET)


def test_rows_that_each_element_chooses_are_refused() -> None:
    """y[at[i, j], j] += x[i, j]: no point belongs to one item. And y[0, j] += x[i, j] has no rows to share out."""
    for single in (False, True):
        kb = KernelBuilder("columns")
        i, j = kb.axis("i", 9), kb.axis("j", 32)
        x, at = kb.input("x", (9, 32), float32), kb.input("at", (9, 32), int32, range=(0, 15))
        kb.store("y", float32, (16, 32), (i, j), x[i, j], indices=(const(0) if single else at[i, j], j), combine="add")
        kernel = kb.build()
        with pytest.raises(OptError, match="nothing but scatter"):
            apply(kernel, [["OWN", "y", 4]], TARGET)
        assert not any(o.op == "OWN" for more in actions(apply(kernel, (), TARGET)) for o in more)
        for opts in starts(kernel, TARGET, 2)[:2]:
            check_compiled(kernel, opts, None, threads=2)


def test_rows_without_elements_have_start_schedules() -> None:
    kb = KernelBuilder("empty")
    i, j = kb.axis("i", 9), kb.axis("j", 0)
    x, at = kb.input("x", (9, 0), float32), kb.input("at", (9,), int32, range=(0, 63))
    kb.store("y", float32, (64, 0), (i, j), x[i, j], indices=(at[i], j), combine="add")
    assert starts(kb.build(), TARGET, 2)


def test_gpus_are_refused() -> None:
    with pytest.raises(OptError, match="OWN is for processors"):
        apply(named_kernels.make("embedding_grad", SHAPE), [["OWN", "dtable", 8]], named("sm_90a"))


def test_start_schedules_of_large_tables_have_blocks_that_fit_the_second_cache() -> None:
    kernel = named_kernels.make("embedding_grad", {"v": 8192, "n": 16384, "d": 1024})
    for threads in (1, 2):
        first = starts(kernel, TARGET, threads)[0]
        (own,) = [o for o in first if o.op == "OWN"]
        assert own.amount * 1024 * 4 <= TARGET.l2
        plain = apply(kernel, [o for o in first if o.op != "OWN"], TARGET)
        assert estimate(apply(kernel, first, TARGET), threads) < estimate(plain, threads)


def test_searches_can_reach_it() -> None:
    kernel = named_kernels.make("embedding_grad", {"v": 8192, "n": 64, "d": 64})
    found = {o.amount for more in actions(apply(kernel, (), TARGET)) for o in more if o.op == "OWN"}
    assert {64, 4096} <= found
    again = actions(apply(kernel, [["OWN", "dtable", 64]], TARGET))
    assert again and not any(o.op == "OWN" for more in again for o in more)


def test_rows_are_cleared_without_masks_and_past_the_caches_where_asked() -> None:
    kernel = named_kernels.make("embedding_grad", {"v": 1000, "n": 64, "d": 64}, "float32")
    for nt in ((), (opt("CACHE", "dtable", policy="stream"),)):
        p = lower(apply(kernel, (opt("OWN", "dtable", 64), opt("UPCAST", "d", 32), *nt), named("avx2")))
        found = list(statements(p.phases[0].body))
        stores = [s for s in found if isinstance(s, Instr) and s.op == "store"]
        assert stores and not any(len(s.args) == 3 for s in stores)
        assert any(s.attr.nt for s in stores) == bool(nt)
        rows = [s for s in found if isinstance(s, If) and sum(isinstance(x, Instr) and x.op == "store" for x in statements(s.body)) >= 4]
        assert rows, "one branch for a row, not one for a vector"
