"""Barriers go where threads would meet in one element, and nowhere else: each of them can be shown to be needed."""

from __future__ import annotations

import numpy as np
import pytest
from group_mutants import blocks, checked, found, place_of
from group_programs import matmul, param, program, row_sums, scratch, shared
from tilewright.interp import run
from tilewright.ir import OptError, VerifyError
from tilewright.ir.dtypes import bool_, float32
from tilewright.lower.passes.barriers import place
from tilewright.program.listing import show
from tilewright.program.program import For, If, Instr, statements


def lines(p, warp=4):
    """Barriers, accesses and headers of a Program after `place`, one a line."""
    place(p.phases[0], warp)
    out = []

    def walk(block, indent):
        for s in block.stmts:
            if isinstance(s, (For, If)):
                out.append(indent + (f"for {s.label}" if isinstance(s, For) else "if"))
                walk(s.body, indent + "  ")
            elif s.op == "barrier":
                out.append(indent + "barrier")
            elif s.op in ("load", "store") and s.attr.space != "scratch":
                out.append(f"{indent}{s.op} {s.attr.space}{s.attr.base}")

    walk(p.phases[0].body, "")
    return out


def barriers(p):
    return sum(isinstance(s, Instr) and s.op == "barrier" for s in statements(p.phases[0].body))


def of(body, threads=8, items=1, **kw):
    return program(body, [(float32, 4096)], [(float32, 4096), (float32, 4096)], items, threads, shared=4096, **kw)


def one(b):
    return b.const(1.0, float32)


def other(b, p, k=1):
    return b.op("xor", p.thread, b.const(k))


# the kernels there are -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [{}, {"pad": 1}, {"block": 16, "copies": 2, "deep": 4}])
def test_a_staged_matmul_has_two_barriers_in_its_outer_loop(shape):
    p = matmul(**shape)
    place(p.phases[0])
    (outer,) = [s for s in p.phases[0].body.stmts if isinstance(s, For)]
    kinds = [s.op if isinstance(s, Instr) else "loop" for s in outer.body.stmts if isinstance(s, For) or s.op in ("barrier", "store")]
    stores = kinds.count("store")
    assert kinds == ["barrier", *["store"] * stores, "barrier", "loop"] and stores
    assert barriers(p) == 2
    assert checked(p) == ""


def test_a_loop_that_runs_once_has_no_next_iteration():
    p = matmul(deep=24)
    place(p.phases[0])
    assert barriers(p) == 1 and checked(p) == ""


@pytest.mark.parametrize("make,count", [(matmul, 2), (row_sums, 1)])
def test_each_barrier_is_needed(make, count):
    for n in range(count):
        p = make()
        place(p.phases[0])
        block, s = found(p, "barrier")[n]
        del block.stmts[place_of(block, s)]
        assert "no barrier since" in checked(p)


def test_a_program_that_has_its_barriers_gets_no_more():
    for p in (matmul(barriers=True), row_sums(barriers=True)):
        text = show(p)
        place(p.phases[0])
        assert show(p) == text


def test_phases_of_one_thread_are_left_alone():
    p = program(
        lambda b, p: [b.store(param(1), b.const(0), one(b)), b.load(param(1), b.const(0))], [(float32, 1)], [(float32, 1)], threads=1
    )
    text = show(p)
    place(p.phases[0])
    assert show(p) == text


def test_a_tree_of_halves_in_shared_memory():
    def body(b, p):
        b.store(shared(), p.thread, b.load(param(0), p.thread))
        half = p_threads // 2
        while half:
            with b.when(b.op("lt", p.thread, b.const(half))):
                b.store(shared(), p.thread, b.op("add", b.load(shared(), p.thread), b.load(shared(0, half), p.thread)))
            half //= 2
        b.store(param(1), p.thread, b.load(shared(), b.const(0)))

    p_threads = 16
    p = of(body, p_threads)
    place(p.phases[0])
    assert barriers(p) == 5  # one before each of the four halves, one before all read the sum
    x, y, z = np.arange(4096, dtype="f"), np.zeros(4096, "f"), np.zeros(4096, "f")
    run(p, [x, y, z])
    assert (y[:16] == 120).all()


# hazards ------------------------------------------------------------------------------------------------------------
def test_each_kind_of_hazard():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        x = b.load(shared(), other(b, p))  # read after write
        b.store(shared(), p.thread, x)  # write after read
        b.store(shared(), other(b, p), x)  # write after write

    assert lines(of(body)) == ["store shared0", "barrier", "load shared0", "barrier", "store shared0", "barrier", "store shared0"]


def test_different_pieces_do_not_disturb_one_another():
    def body(b, p):
        b.store(shared(0), p.thread, one(b))
        b.store(shared(64), p.thread, one(b))
        x = b.load(shared(0), other(b, p))
        y = b.load(shared(64), other(b, p))
        b.store(param(1), p.thread, b.op("add", x, y))

    assert lines(of(body)) == ["store shared0", "store shared64", "barrier", "load shared0", "load shared64", "store param1"]


def test_what_a_thread_reads_back_itself_needs_none():
    def body(b, p):
        at = b.op("add", b.op("mul", p.item, b.const(8)), p.thread)
        with b.loop("k", b.const(0), b.const(4)):
            b.store(param(1), at, one(b))
            b.store(param(1), at, b.op("add", b.load(param(1), at), one(b)))
        rest = b.op("imod", p.thread, attr=4)
        square = b.op("add", b.op("mul", b.op("idiv", p.thread, attr=4), b.const(32)), b.op("mul", rest, b.const(2)))
        with b.loop("rows", b.const(0), b.const(4)) as rows, b.loop("half", b.const(0), b.const(2)) as half:
            place_ = b.op("add", b.op("add", square, b.op("mul", rows.var, b.const(8))), half.var)
            b.store(shared(), place_, one(b))
            b.store(shared(), place_, b.load(shared(), place_))
        b.store(shared(0, 48), p.thread, one(b))

    p = of(body, items=2)
    place(p.phases[0])
    assert barriers(p) == 1  # before the last store, which reaches into other threads' rows


def test_vectors_reach_further_than_their_first_element():
    def body(lanes):
        def go(b, p):
            b.store(shared(), b.op("mul", p.thread, b.const(4)), b.const(1.0, float32, lanes))
            b.load(shared(0, 4), b.op("mul", p.thread, b.const(4)))
            b.load(shared(), b.op("mul", p.thread, b.const(4)), lanes)

        return go

    assert barriers_of(body(4)) == 1 and barriers_of(body(5)) == 1

    def own(b, p):
        at = b.op("mul", p.thread, b.const(4))
        b.store(shared(), at, b.const(1.0, float32, 4))
        b.load(shared(0, 3), at)

    assert barriers_of(own) == 0


def barriers_of(body, **kw):
    p = of(body, **kw)
    place(p.phases[0], 4)
    return barriers(p)


def test_swizzled_rows():
    def body(wrong):
        def go(b, p):
            row, column = b.op("idiv", p.thread, attr=8), b.op("imod", p.thread, attr=8)
            with b.loop("step", b.const(0), b.const(4)) as step:
                r = b.op("add", b.op("mul", step.var, b.const(2)), row)
                at = b.op("add", b.op("mul", r, b.const(8)), b.op("xor", column, b.op("imod", r, attr=8 if not wrong else 3)))
                b.store(shared(), b.op("idiv", at, attr=2) if wrong else at, one(b))
                b.load(shared(), at)

        return go

    assert barriers_of(body(False), threads=16) == 0
    assert barriers_of(body(True), threads=16) == 2


def test_guards_say_who_takes_part():
    def body(split):
        def go(b, p):
            with b.when(b.op("lt", p.thread, b.const(4))):
                b.store(shared(), p.thread, one(b))
            with b.when(b.op("lt", p.thread, b.const(split))):
                b.load(shared(), p.thread)
            b.load(shared(), p.thread, 1, b.op("lt", p.thread, b.const(split)))
            b.load(shared(), p.thread, 1, b.op("lt", b.const(7), p.thread))

        return go

    assert barriers_of(body(4)) == 0

    def across(b, p):
        with b.when(b.op("lt", p.thread, b.const(4))):
            b.store(shared(), b.op("sub", b.const(3), p.thread), one(b))
        b.load(shared(), p.thread, 1, b.op("lt", p.thread, b.const(4)))

    assert barriers_of(across) == 1


def test_outputs_that_are_never_read_are_left_alone():
    def body(b, p):
        with b.loop("k", b.const(0), b.const(3)) as k:
            b.store(param(1), b.op("add", k.var, p.thread), one(b))

    assert barriers_of(body) == 0


# loops --------------------------------------------------------------------------------------------------------------
def test_hazards_with_the_next_iteration():
    def body(b, p):
        with b.loop("k", b.const(0), b.const(3)):
            b.load(shared(), other(b, p))
            b.store(shared(), p.thread, one(b))

    assert lines(of(body)) == ["for k", "  barrier", "  load shared0", "  barrier", "  store shared0"]


def test_one_barrier_for_this_iteration_and_the_next():
    """Going round, one place breaks both hazards; the latest place for the first of them would leave the second."""

    def body(b, p):
        with b.loop("k", b.const(1), b.const(4)) as k:
            row = b.op("mul", k.var, b.const(8))
            mine, others = b.op("add", row, p.thread), b.op("add", row, other(b, p))
            b.store(shared(0), mine, one(b))
            b.load(shared(256, -8), others)  # what the iteration before stored
            b.load(shared(0), others)
            b.store(shared(256), mine, one(b))

    assert lines(of(body)) == ["for k", "  store shared0", "  barrier", "  load shared256", "  load shared0", "  store shared256"]


def test_a_hazard_with_what_came_before_a_loop_puts_the_barrier_in_front_of_it():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        with b.loop("k", b.const(0), b.const(8)) as k, b.loop("j", b.const(0), b.const(2)):
            b.load(shared(), k.var)
        b.store(shared(), p.thread, one(b))

    assert lines(of(body)) == ["store shared0", "barrier", "for k", "  for j", "    load shared0", "barrier", "store shared0"]


def test_a_barrier_in_the_loop_serves_its_entry_too():
    def body(b, p):
        b.load(shared(), other(b, p))
        with b.loop("k", b.const(0), b.const(8)):
            b.store(shared(), p.thread, one(b))
            b.load(shared(), other(b, p))
        b.load(shared(), p.thread)

    assert lines(of(body)) == ["load shared0", "for k", "  barrier", "  store shared0", "  barrier", "  load shared0", "load shared0"]


def test_the_loops_variable_tells_iterations_apart():
    def body(stride, reach, trips=4):
        def go(b, p):
            with b.loop("k", b.const(0), b.const(trips)) as k:
                at = b.op("add", b.op("mul", k.var, b.const(stride)), p.thread)
                b.store(shared(), at, one(b))
                b.load(shared(0, reach), at)

        return go

    assert barriers_of(body(8, 0)) == 0  # each iteration has a row of its own
    assert barriers_of(body(4, 0)) == 1  # rows overlap: the next iteration writes another thread's element
    assert barriers_of(body(8, 8)) == 0  # reads what it writes itself in the next iteration
    assert barriers_of(body(8, 9)) == 1  # reads what another thread writes in the next iteration
    assert barriers_of(body(64, 0, 10**9)) == 0  # too long to be listed: the remainders tell
    assert barriers_of(body(6, 0, 10**9)) == 1


def test_symbolic_bounds():
    def body(b, p):
        with b.loop("k", b.const(0), b.op("min", b.op("mul", p.item, b.const(3)), b.const(100))) as k:
            b.store(shared(), b.op("add", b.op("mul", k.var, b.const(16)), p.thread), one(b))
            b.load(shared(), b.op("add", b.op("mul", k.var, b.const(16)), p.thread))

    assert barriers_of(body) == 0


def test_carried_values_that_differ_from_thread_to_thread():
    def body(b, p):
        with b.loop("k", b.const(0), b.const(3), 1, [p.thread, b.const(0)]) as k:
            b.store(shared(), p.thread, one(b))
            k.yields = [b.op("add", k.carried[0], b.const(1)), b.op("add", k.carried[1], b.const(1))]
        with b.when(b.op("lt", k.results[1], b.const(5))):  # the same in all threads
            b.store(shared(), p.thread, b.load(shared(), other(b, p)))

    assert lines(of(body)) == ["for k", "  store shared0", "barrier", "if", "  load shared0", "  barrier", "  store shared0"]

    def apart(b, p):
        with b.loop("k", b.const(0), b.const(3), 1, [p.thread]) as k:
            k.yields = [b.op("add", k.carried[0], b.const(1))]
        with b.when(b.op("lt", k.results[0], b.const(5))):
            b.store(shared(), p.thread, b.load(shared(), other(b, p)))

    with pytest.raises(OptError, match="code that not all of them run"):
        place(of(apart).phases[0])


# branches -----------------------------------------------------------------------------------------------------------
def test_barriers_stand_in_branches_that_all_threads_take():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        with b.when(b.op("lt", p.item, b.const(2))):
            b.load(shared(), other(b, p))
            b.store(shared(), p.thread, one(b))
        b.load(shared(), other(b, p))

    assert lines(of(body)) == [
        "store shared0",
        "barrier",
        "if",
        "  load shared0",
        "  barrier",
        "  store shared0",
        "barrier",
        "load shared0",
    ]


def test_a_branch_that_only_some_take_is_one_statement():
    def body(b, p):
        b.store(shared(), p.thread, one(b))
        with b.when(b.op("lt", p.thread, b.const(2))), b.loop("k", b.const(0), b.const(3)) as k:
            b.store(param(1), p.thread, b.load(shared(), k.var))
        b.store(shared(), p.thread, one(b))

    assert lines(of(body)) == [
        "store shared0",
        "barrier",
        "if",
        "  for k",
        "    load shared0",
        "    store param1",
        "barrier",
        "store shared0",
    ]


def test_a_barrier_that_would_stand_where_not_all_threads_come_by():
    def in_branch(b, p):
        with b.when(b.op("lt", p.thread, b.const(2))):
            b.store(shared(), p.thread, one(b))
            b.load(shared(), other(b, p))

    def in_loop(b, p):
        with b.loop("k", p.thread, b.const(9)) as k:
            b.store(shared(), b.op("imod", b.op("add", k.var, p.thread), attr=16), one(b))
        b.load(shared(), p.thread)

    def by_memory(b, p):
        b.store(scratch(dtype=bool_), b.const(0), b.op("lt", p.thread, b.const(2)))
        with b.when(b.load(scratch(dtype=bool_), b.const(0))):
            b.store(shared(), p.thread, one(b))
            b.load(shared(), other(b, p))

    for body in (in_branch, in_loop, by_memory):
        with pytest.raises(OptError, match=r"not all of them run.*touch one element; choose amounts"):
            place(of(body, scratch=16).phases[0])


def test_memory_that_all_threads_fill_alike_tells_all_the_same():
    def body(b, p):
        b.store(scratch(dtype=bool_), b.const(0), b.op("lt", p.item, b.const(2)))
        with b.when(b.load(scratch(dtype=bool_), b.const(0))):
            b.store(shared(), p.thread, one(b))
            b.load(shared(), other(b, p))

    assert lines(of(body, scratch=16)) == ["if", "  store shared0", "  barrier", "  load shared0"]


def test_barriers_and_shuffles_in_branches_are_refused():
    def barrier(b, p):
        with b.when(b.op("lt", p.thread, b.const(2))):
            b.barrier()

    def shuffle(few):
        def go(b, p):
            with b.when(b.op("lt", p.thread, b.const(few))):
                b.shfl_xor(b.op("cast", p.thread, dtype=float32), 1)

        return go

    with pytest.raises(OptError, match="a barrier stands in code that not all threads of the group run"):
        place(of(barrier).phases[0])
    with pytest.raises(OptError, match="a shuffle stands in code that not all threads of the group run"):
        place(of(shuffle(2)).phases[0], 4)
    place(of(shuffle(4)).phases[0], 4)  # whole warps


# drawn at random ------------------------------------------------------------------------------------------------------
def drawn(rng):
    """A Program of nested loops and branches over a few pieces of shared memory, with addresses of all kinds."""

    def address(b, p, vars_):
        kind = rng.integers(6)
        at = p.thread
        if kind == 1:
            at = other(b, p, int(rng.integers(1, 4)))
        elif kind == 2:
            at = b.op("idiv", p.thread, attr=2)
        elif kind == 3 and vars_:
            at = b.op("imod", b.op("add", p.thread, vars_[rng.integers(len(vars_))]), attr=8)
        elif kind >= 4 and vars_:
            at = b.op("add", p.thread, b.op("mul", vars_[rng.integers(len(vars_))], b.const(int(rng.choice([4, 8])))))
        return at

    def stmts(b, p, depth, vars_):
        for _ in range(rng.integers(1, 4)):
            kind = rng.integers(8)
            if kind < 2 and depth < 3:
                with b.loop("k", b.const(0), b.const(int(rng.integers(1, 4)))) as k:
                    stmts(b, p, depth + 1, [*vars_, k.var])
            elif kind == 2 and depth < 3:
                cond = b.op("lt", p.item if rng.integers(2) else p.thread, b.const(int(rng.integers(1, 8))))
                with b.when(cond):
                    stmts(b, p, depth + 1, vars_)
            else:
                mem, at = shared(256 * int(rng.integers(2))), address(b, p, vars_)
                if rng.integers(2):
                    b.load(mem, at)
                else:  # the element's own thread writes, so that stores do not race with themselves
                    b.store(mem, at, one(b), b.op("eq", b.op("imod", at, attr=8), p.thread))

    def body(b, p):
        for base in (0, 256):
            for k in range(4):  # all is written once, in order
                b.store(shared(base, 8 * k), p.thread, one(b))
        b.barrier()
        stmts(b, p, 0, [])

    return of(body, items=2)


@pytest.mark.slow
def test_any_program_with_its_barriers_has_no_race_and_needs_each():
    counts = {"placed": 0, "refused": 0, "needed": 0, "spare": 0}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = drawn(rng)
        before = show(p)
        arrays = [np.zeros(4096, "f") for _ in range(3)]
        try:
            place(p.phases[0], 4)
        except OptError:
            counts["refused"] += 1
            continue
        run(p, arrays, warp=4)
        placed = [(b, s) for b in blocks(p) for s in b.stmts if isinstance(s, Instr) and s.op == "barrier"][1:]
        counts["placed"] += len(placed)
        assert before.count("barrier") == 1
        for block, s in placed:
            at = place_of(block, s)
            del block.stmts[at]
            try:
                run(p, arrays, warp=4)
                counts["spare"] += 1
            except VerifyError:
                counts["needed"] += 1
            block.stmts.insert(at, s)
    assert counts["placed"] > 150 and counts["refused"] < 40
    # a few guard what only another number of iterations would do
    assert counts["spare"] < counts["needed"] / 20, counts
