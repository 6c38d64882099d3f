"""Options that do not depend on each other may stand in any order: the schedule, its hash and its Program are the
same. And `apply` is pure.

What does depend on its place: MOVE, which reorders the loops that are there; PARALLEL before or after PARALLEL and
TILE, which is the order of the grid; two TILEs of one axis where another option names one of the loops they make;
PADTO, which must come before its axis is cut. Options on one axis may need their order to be legal."""

from __future__ import annotations

import functools
import random
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from random_schedules import NAMES, draw, grow
from tilewright import targets
from tilewright.ir import OptError
from tilewright.lower import lower
from tilewright.opts import Opts, apply, dumps, nest_lines
from tilewright.opts.opt import Opt
from tilewright.opts.schedule import Scheduled
from tilewright.program.listing import show

CASES = 2
GPUS = ("sm_90a", "opencl-gpu")


def family(o: Opt) -> str:
    """The axis, whichever site or loop of it is named."""
    return o.on.split("@")[0].split(".")[0]


def free(a: Opt, b: Opt, opts: Opts) -> bool:
    """Whether two neighbours of a list commute wherever both orders are legal."""
    ops = {a.op, b.op}
    if "MOVE" in ops or ops == {"PARALLEL"} or ops == {"PARALLEL", "TILE"}:
        return False
    named = {o.fields[f] for o in opts for f in ("at", "before") if o.op in ("STAGE", "MOVE") and f in o.fields} | {
        o.on for o in opts if o.op == "MOVE"
    }
    return not (ops == {"TILE"} and family(a) == family(b) and any(".t" in str(loop) for loop in named))


def program(s: Scheduled) -> str:
    """The Program's text without the names of loops (`n.t` and `n.t2` say in which order tiles were written)."""
    return re.sub(r" \[[\w.@]+\]", "", show(lower(s, expand=False)))


@functools.cache
def cases(name: str) -> list[tuple[Any, Opts]]:
    """Random legal lists of a kernel, for processors and for GPUs."""
    rng = random.Random(f"commute {name}")
    out = []
    for i in range(CASES):
        case = draw(name, rng.randrange)
        out.append((case, case.opts))
        gpu = replace(case, target=targets.named(GPUS[i % len(GPUS)]))
        out.append((gpu, grow(gpu.kernel, gpu.target, [rng.randrange(1 << 20) for _ in range(rng.randrange(7))])))
    return out


@pytest.mark.many
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.covering(each=2)
def test_neighbours_that_do_not_depend_on_each_other_commute(name: str) -> None:
    shown = False
    for case, opts in cases(name):
        first = apply(case.kernel, opts, case.target)
        for i in range(len(opts) - 1):
            a, b = opts[i : i + 2]
            if not free(a, b, opts):
                continue
            swapped = (*opts[:i], b, a, *opts[i + 2 :])
            try:
                second = apply(case.kernel, swapped, case.target)
            except OptError as e:
                assert family(a) == family(b), f"{case.name}: {a} and {b} are of different axes, but in this order: {e}"
                continue
            assert second.hash == first.hash, f"{case.name}: {dumps(opts)} is another schedule than {dumps(swapped)}"
            if not shown:  # one Program a kernel: the hash stands for it, which test_apply.py holds
                shown = True
                assert program(second) == program(first), (
                    f"{case.name}: {dumps(opts)} and {dumps(swapped)} are one schedule and two Programs"
                )


@pytest.mark.many
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.covering(each=2)
def test_apply_gives_the_same_twice_and_changes_nothing(name: str) -> None:
    for case, opts in cases(name)[:2]:
        kernel = case.kernel
        before = (kernel.body, kernel.buffers, kernel.stores, kernel.symbols, repr(kernel), dumps(opts), repr(case.target))
        given = list(opts)
        first = apply(kernel, given, case.target)
        seen = (first.hash, first.order, nest_lines(first), first.effects, show(lower(first)))
        apply(kernel, opts[: len(opts) // 2], case.target)
        again = apply(kernel, opts, case.target)
        assert (again.hash, again.order, nest_lines(again), again.effects, show(lower(again))) == seen
        assert (first.hash, first.order, nest_lines(first), first.effects) == seen[:4]
        assert (kernel.body, kernel.buffers, kernel.stores, kernel.symbols, repr(kernel), dumps(opts), repr(case.target)) == before
        assert tuple(given) == opts and all(x is y for x, y in zip(kernel.body, before[0], strict=True))


@pytest.mark.slow
def test_there_is_something_to_swap() -> None:
    """The property is not empty: over all kernels, most lists have a pair that commutes, and the pairs are of many kinds."""
    pairs = {frozenset((a.op, b.op)) for name in NAMES[::5] for _, opts in cases(name) for a, b in pairwise(opts) if free(a, b, opts)}
    assert len(pairs) > 10
