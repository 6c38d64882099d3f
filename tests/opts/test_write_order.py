"""Several stores that combine into one output: what they mean under any schedule, and which axes stay with one worker."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import GROUPS, TARGETS, grow, pick_target
from scattered_kernels import Drawn
from thorough import amount
from tilewright import targets
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, OptError
from tilewright.ir.evaluation import evaluate
from tilewright.ir.evaluation.algebra import UFUNC
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.measure.checking.exact_sums import drift
from tilewright.opts import Opts, apply
from tilewright.opts.analysis.write_order import kernel_ordered
from tilewright.opts.opt import opt
from tilewright.program.program import For, Instr, statements

AVX2 = targets.named("avx2")


def edges(many: int = 37, places: int = 11, combine: Any = "add", of: str = "float32", diagonal: bool = True) -> Kernel:
    """A symmetric sparse matrix times a vector: each entry counts at both of its ends, and the diagonal lies apart."""
    kb = KernelBuilder("edges")
    e, i = kb.axis("e", many), kb.axis("i", places)
    row, column = (kb.input(n, (many,), "int32", range=(0, places - 1)) for n in ("row", "column"))
    a, x = kb.input("a", (many,), of), kb.input("x", (places,), of)
    p, q = cast(row[e], "int64"), cast(column[e], "int64")
    kb.store("y", of, (places,), (e,), a[e] * x[q], (p,), combine=combine)
    kb.store("y", of, (places,), (e,), a[e] * x[p], (q,), combine=combine)
    if diagonal:
        d = kb.input("d", (places,), of)
        kb.store("y", of, (places,), (i,), d[i] * x[i], combine=combine)
    return kb.build()


@pytest.mark.parametrize("combine", ["add", "max", "min", "and", "or", "xor"])
def test_the_meaning_is_numpys(combine: str) -> None:
    rng = np.random.default_rng(7)
    of = "int32" if combine in ("and", "or", "xor") else "float64"
    kernel = edges(combine=combine, of=of)
    at = {n: rng.integers(0, 11, 37, "int32") for n in ("row", "column")}
    a, x, d = (rng.integers(-9, 9, n).astype(of) for n in (37, 11, 11))
    start = {"and": -1, "max": -np.inf, "min": np.inf}.get(combine, 0)
    want = np.full(11, start, of)
    for places, value in ((at["row"], a * x[at["column"]]), (at["column"], a * x[at["row"]]), (np.arange(11), d * x)):
        UFUNC[combine].at(want, places, value)
    np.testing.assert_array_equal(evaluate(kernel, {**at, "a": a, "x": x, "d": d})["y"], want)


def schedule(kernel: Kernel, target: Any, dice: random.Random) -> Opts:
    start: Opts = ()
    if dice.random() < 0.4:
        start = (opt("SPLIT", "y", n=dice.choice((1, 2, 3, 4)), copies=dice.choice((1, 2, 3, 4))),)
        try:
            apply(kernel, start, target)
        except OptError:
            start = ()
    return grow(kernel, target, [dice.randrange(1 << 20) for _ in range(dice.randrange(8))], start)


@pytest.mark.slow
def test_any_schedule_means_what_the_kernel_says(request: pytest.FixtureRequest) -> None:
    for n in range(amount(request, 40, 400)):
        drawn, dice = Drawn(n), random.Random(f"schedule {n}")
        kernel = drawn.kernel()
        target = pick_target(dice.randrange, False, (*TARGETS, *GROUPS))
        opts = schedule(kernel, target, dice)
        try:
            check_twin(kernel, opts, target, drawn.vars)
            with np.errstate(all="ignore"):
                check_floats(kernel, opts, target, drawn.vars)
        except OptError:
            continue  # some legal schedules cannot be lowered; that is said, and nothing is run
        except Exception as e:
            raise AssertionError(f"kernel {n} for {target.name} with {opts}") from e


@pytest.mark.slow
def test_any_schedule_compiled(request: pytest.FixtureRequest) -> None:
    for n in range(amount(request, 12, 200)):
        drawn, dice = Drawn(n), random.Random(f"compiled {n}")
        kernel = drawn.kernel()
        opts = schedule(kernel, targets.host(), dice)
        try:
            check_compiled(kernel, opts, vars=drawn.vars, threads=1 + n % 2)
        except OptError:
            continue
        except Exception as e:
            raise AssertionError(f"kernel {n} with {opts}") from e


def both_ways(n: int = 9) -> Kernel:
    """A matrix plus its transpose: each axis is the index of one dimension in one store, and of the other in the other."""
    kb = KernelBuilder("both_ways")
    i, j = kb.axis("i", n), kb.axis("j", n)
    x = kb.input("x", (n, n), "float32")
    kb.store("y", "float32", (n, n), (i, j), x[i, j], combine="add")
    kb.store("y", "float32", (n, n), (i, j), x[i, j], (j, i), combine="add")
    return kb.build()


def rows(table: bool = True) -> Kernel:
    """Rows of a table that are added to in two columns each; or that are the same in both stores."""
    kb = KernelBuilder("rows")
    i, j = kb.axis("i", 8), kb.axis("j", 13)
    at, to = kb.input("at", (8, 13), "int32", range=(0, 4)), kb.input("to", (8, 13), "int32", range=(0, 4))
    x = kb.input("x", (8, 13), "float32")
    row = i if table else cast(kb.input("row", (8,), "int32", range=(0, 7))[i], "int64")
    kb.store("y", "float32", (8, 5), (i, j), x[i, j], (i, cast(at[i, j], "int64")), combine="add")
    kb.store("y", "float32", (8, 5), (i, j), x[i, j], (row, cast(to[i, j], "int64")), combine="add")
    return kb.build()


@pytest.mark.parametrize(("kernel", "serial"), [(both_ways(), "ij"), (rows(), "j"), (rows(False), "ij"), (edges(), "ei")], ids=str)
def test_axes_along_which_no_writes_meet_may_be_shared(kernel: Kernel, serial: str) -> None:
    assert "".join(sorted(a.arg.name for a in kernel_ordered(kernel))) == serial
    for target, shared in ((AVX2, "PARALLEL"), (targets.named("sm_80"), "LOCAL")):
        for a in kernel.axes:
            o = opt(shared, a.arg.name) if shared == "PARALLEL" else opt(shared, a.arg.name, 4)
            if a.arg.name in serial:
                with pytest.raises(OptError, match=r"writes of y can meet along it|does not run over it"):
                    apply(kernel, (o,), target)
            else:
                check_twin(kernel, (o,), target)
                check_compiled(kernel, (opt("PARALLEL", a.arg.name),), threads=2)
        check_twin(kernel, (), target)


def test_a_loop_of_one_body_and_one_clearing() -> None:
    """What the points share is read once, and the output is cleared once, before the first of them."""
    body = list(statements(lower(apply(edges(diagonal=False), (), AVX2)).phases[0].body))
    assert [s.label for s in body if isinstance(s, For)] == ["y.0", "e"]
    loads = [s for s in body if isinstance(s, Instr) and s.op == "load"]
    assert len(loads) == 3 + 2 + 2  # a, row and column; two places of x; two of y


def test_parts_of_an_output_that_a_step_owns_are_cleared_by_it() -> None:
    body = statements(lower(apply(rows(), (opt("UPCAST", "y.1", 5),), AVX2)).phases[0].body)
    assert [s.label for s in body if isinstance(s, For)] == ["i", "j"]
    check_twin(rows(False), (), AVX2)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("fields", [{"n": 3}, {"copies": 2}, {"n": 2, "copies": 3}], ids=str)
def test_copies_are_of_all_stores_over_the_same_points(fields: dict[str, int], diagonal: bool) -> None:
    """The diagonal, over axes of its own, is added where the copies are."""
    kernel = edges(diagonal=diagonal)
    for combine in ("add", "max"):
        kernel = edges(combine=combine, diagonal=diagonal)
        opts = (opt("SPLIT", "y", **fields),)
        check_twin(kernel, opts, AVX2)
        check_compiled(kernel, opts, threads=2)
    s = apply(kernel, opts, AVX2)
    assert len(s.phases[0].kernel.stores) == 2 and len(s.phases[0].kernel.outputs) == 1
    assert len(s.phases[1].kernel.stores) == 1 + diagonal


def test_copies_have_reasons_not_to_be() -> None:
    kb = KernelBuilder("apart")
    e, f = kb.axis("e", 9), kb.axis("f", 9)
    at = kb.input("at", (9,), "int32", range=(0, 4))
    for a in (e, f):
        kb.store("y", "int32", (5,), (a,), 1, (cast(at[a], "int64"),), combine="add")
    with pytest.raises(OptError, match="by stores over the same points"):
        apply(kb.build(), (opt("SPLIT", "y", copies=2),), AVX2)
    with pytest.raises(OptError, match="by one store"):
        apply(edges(), (opt("OWN", "y", 4),), AVX2)


@pytest.mark.slow
def test_start_schedules() -> None:
    """Start schedules of a long list of edges are legal, and have copies for two threads."""
    kernel = edges(1 << 20, 1 << 10)
    for found in (starts(kernel, AVX2, 2), quick_starts(kernel, AVX2, 2)):
        assert any(o.op == "SPLIT" for o in found[0])
    small = edges()
    for opts in starts(small, AVX2, 1)[:5]:
        check_twin(small, opts, AVX2)


def test_terms_of_all_stores_count() -> None:
    """Roundings of a sum grow with all that may come together in one element."""
    assert drift(edges(100, 11, diagonal=False), {}) == pytest.approx(200**0.5)
