"""Start schedules of kernels in which something that takes long is used again and again: it is computed once, by a phase of its own (the rule `hoist`), or
summed there (`distribute`). And of those in which rows are gone through again for a sum over them (`accumulate`),
or all keys for each place (`scatter`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from ...ir.body import Fold, Value
from ...ir.dtypes import bool_, index
from ...ir.kernel import Kernel
from ...ir.keyed import keyed
from ...ir.node import DEAR, Node, walk
from ...opts.analysis.structure import contiguous, extent, nests
from ...opts.opt import Opts, opt
from ...opts.rewrites.accumulate import accumulable
from ...opts.rewrites.distribute import splits
from ...opts.rewrites.hoist import hoistable
from ..model import estimate
from .legal import Trials
from .phased import Starts, joined
from .program_time import ruler

# kept -------------------------------------------------------------------------------------------------------
# Start schedules with phases (`PHASE`) for values that are in the way of others.
#
# A function of what a reduction found is computed again in each row: of a column's sum, whose root scales all the
# elements below it. And a sum down the columns of a matrix keeps the sums along its rows, where both have one axis,
# from having lanes along the rows.


AGAIN = 4
"""Rows that compute a function again, from which on it is kept."""


def kept(trials: Trials) -> Iterator[Opts]:
    """Options that keep every such function, and what it reads where others read that as well; those and sums across others.
    None where there is nothing."""
    if trials.target.kind == "gpu" or trials.target.groups or any(isinstance(item, Fold) for item in trials.kernel.body):
        return
    functions, turned = again(trials.kernel), across(trials.kernel)
    functions |= _also(trials.kernel, functions)
    for names in dict.fromkeys(map(frozenset, (functions, functions | turned))):
        of_all = tuple(opt("PHASE", v.name, apart=1) for v in trials.kernel.body if v.name in names)
        if of_all and trials.is_legal(of_all):
            yield of_all


def across(kernel: Kernel) -> set[str]:
    """The reductions whose lanes are along an axis of their results that is no lane of another nest over it."""
    found = [n for n in nests(kernel) if n.kind in ("reduce", "store")]
    lanes = {n: next(iter(contiguous(kernel, n)), None) for n in found}
    out = set[str]()
    for n in found:
        lane = lanes[n]
        if n.kind == "reduce" and lane is not None and lane in n.axes and n.name in kernel.values:
            others = [lanes[m] for m in found if m is not n and lane in m.axes]
            if any(other is not None and other is not lane and extent(other) >= AGAIN for other in others):
                out.add(n.name)
    return out


def again(kernel: Kernel) -> set[str]:
    """The pointwise values that hold something dear, read reductions, and are computed again in each row of a nest."""
    points = {v.name: v for v in kernel.values.values() if isinstance(v.expr, Node) and v.dtype not in (index, bool_)}
    dear = {name for name, v in points.items() if _dear(v)}
    return {r for n in nests(kernel) if n.all_axes and extent(n.all_axes[0]) >= AGAIN for r in _apart(kernel, n.all_axes[0], n.name) & dear}


def _dear(v: Value) -> bool:
    found = list(walk(v.body))
    return any(n.op in DEAR and n.dtype.is_float for n in found) and any(n.op == "ref" for n in found)


def _apart(kernel: Kernel, rows: Node, name: str) -> set[str]:
    """The values that a nest reads, whatever its row is."""
    roots = [v.body for v in kernel.values.values() if v.name == name and not isinstance(v.body, tuple)]
    roots += [s.expr for s in kernel.stores if s.buffer.name == name]
    return {n.arg for n in walk(*roots) if n.op == "ref" and n.src and rows not in walk(*n.src)}


def _also(kernel: Kernel, names: set[str]) -> set[str]:
    """What the values `names` read that something else reads as well."""
    mine = {n.arg for name in names for n in walk(kernel.values[name].body) if n.op == "ref"}
    others = [v.body for v in kernel.values.values() if v.name not in names and not isinstance(v.body, tuple)]
    others += [r for s in kernel.stores for r in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))]
    return mine & {n.arg for n in walk(*others) if n.op == "ref"}


# hoisted ----------------------------------------------------------------------------------------------------
REUSED = 4
"""How often something is used at least, so that writing it and reading it again takes less time than computing it."""
BETTER = 0.9
"""How much of the first start schedule's time a schedule that hoists takes at most, to come before it."""
ABOUT, BETTER_BY_BOTH = 1.2, 0.75
"""How much of it the estimate may say where Programs are counted, and how much the geometric mean of both then."""


def hoisted(
    trials: Trials, threads: int, found: Iterable[Opts], starts: Starts, most: int | None = None, part: bool = False, counted: bool = False
) -> Iterator[Opts]:
    """`found`, and up to `most` schedules that hoist: before the first one where the model takes them to be faster, else after it. `part`:
    this is one of the kernels of such a schedule, of which no more phases are made for values that are kept. `counted`: of the likeliest
    whose estimate is no more than about that of the first one, its Program is asked as well."""
    firsts = [
        first for first in (two_sums(trials), hoists(trials), *(() if part else kept(trials)), pushes(trials), by_keys(trials)) if first
    ]
    if not firsts:
        yield from found
        return
    wishes = chain.from_iterable(islice(joined(trials, first, starts), most) for first in firsts)
    times = {o: estimate(trials.apply(o), threads) for w in wishes if (o := trials.legal(w)) is not None}
    rest = iter(found)
    head = next(rest, ())
    alone = trials.legal(head)
    limit = BETTER * estimate(trials.apply(alone), threads) if alone is not None else 0.0
    ranked = sorted(times, key=lambda o: (times[o], str(o)))
    before = [o for o in ranked if times[o] < limit]
    if counted and alone is not None and ranked and limit <= times[ranked[0]] < ABOUT / BETTER * limit:
        asked = ruler(trials, threads)
        before = ranked[:1] if asked(ranked[0]) < BETTER_BY_BOTH * asked(alone) else []
    yield from before
    yield head
    yield from (o for o in ranked if o not in before)
    yield from rest


def two_sums(trials: Trials) -> Opts:
    """Options that distribute sums of which a part that takes long is over fewer axes; none where there are none."""
    if trials.target.kind == "gpu" or trials.target.groups:
        return ()
    dear = [name for name, s in splits(trials.kernel).items() if any(n.op in DEAR for n in walk(s.factor))]
    first = tuple(opt("REWRITE", name, rule="distribute") for name in dear)
    return first if first and trials.is_legal(first) else ()


def pushes(trials: Trials) -> Opts:
    """Options that add up sums over rows in memory. (What is left has start schedules of its own, with those that cannot.)"""
    return _together(trials, "accumulate", accumulable)


def by_keys(trials: Trials) -> Opts:
    """Options that add up sums at the places that keys say."""
    return _together(trials, "scatter", keyed)


def _together(trials: Trials, rule: str, found: Callable[[Kernel], Iterable[str]]) -> Opts:
    """An option for each value that is found: as many as can be together."""
    if trials.target.kind == "gpu" or trials.target.groups:
        return ()
    out: Opts = ()
    for name in found(trials.kernel):
        more = (*out, opt("REWRITE", name, rule=rule))
        if trials.is_legal(more):
            out = more
    return out


def hoists(trials: Trials) -> Opts:
    """Options that take out everything that is used often; none where nothing is."""
    if trials.target.kind == "gpu" or trials.target.groups:
        return ()
    found = hoistable(trials.kernel)
    first = tuple(opt("REWRITE", name, rule="hoist") for name, parts in found.items() if any(x.reuse >= REUSED for x in parts))
    return first if first and trials.is_legal(first) else ()
