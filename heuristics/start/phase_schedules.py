"""Kernels that options make several phases of. Each phase is a kernel and has start schedules of its own, of which lists for the whole are joined.

Another order of contraction (the rule `factor`), the fold that a chain of reductions is (`FOLD`), operands that are computed once or in the panels
they are read from (`operands`, `PHASE`), and what is used again and again: computed once (`hoist`, `PHASE`), summed where it does not vary
(`distribute`), added up over rows in memory (`accumulate`) or at the places that keys say (`scatter`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from ...ir.body import Fold, Reduce, Value
from ...ir.buffer import loads
from ...ir.dtypes import bool_, index
from ...ir.kernel import Kernel
from ...ir.node import COSTLY_FLOATS, Node, walk
from ...ir.sums_by_key import sums_by_key
from ...opts.analysis.contractions import all_contractions, computed_contraction, products
from ...opts.analysis.structure import Contraction, contiguous, extent, lane_axis, nests
from ...opts.memory_limits import buffer_bytes
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.fold import foldable, folded
from ...opts.rewrites.accumulate import accumulable
from ...opts.rewrites.distribute import splits
from ...opts.rewrites.hoist import hoistable
from ...opts.rewrites.kernel_parts import needed
from ...opts.rewrites.operands import has_computed, operands
from ...opts.rewrites.operands import regrouped as is_regrouped
from ...opts.schedule import Scheduled
from ...targets import Target
from ..contraction_order import order_opts
from .contractions import best_contractions
from .start_rule import points
from .trials import Trials
from .weighted_folds import weighted

# joined ---------------------------------------------------------------------------------------------------------------
EACH = 3
"""Start schedules of a phase that are tried beside the first ones of the others."""

Starts = Callable[[Kernel], Sequence[Opts]]
"""A kernel → its start schedules, the likeliest first."""


def phase_starts(trials: Trials, starts: Starts) -> Iterator[Opts]:
    """Guesses with the sums in their cheapest order, if that is another than the one they are written in."""
    first = order_opts(trials.kernel)
    if first and trials.is_legal(first):
        yield from joined(trials, first, starts)


def joined(trials: Trials, first: Opts, starts: Starts) -> Iterator[Opts]:
    """The options `first`, which make phases, with the start schedules of each: the first of all, then another one of one phase."""
    each = [list(starts(p.kernel))[:EACH] for p in trials.apply(first).phases]
    best = [found[0] for found in each]
    yield together(first, best)
    for i, found in enumerate(each):
        yield from (together(first, [*best[:i], other, *best[i + 1 :]]) for other in found[1:])


def together(first: Opts, each: Sequence[Opts]) -> Opts:
    """One list of options for all phases."""
    return tuple(dict.fromkeys((*first, *chain.from_iterable(each))))


# chains of reductions that are folds -----------------------------------------------------------------------------------
def fold_first(kernel: Kernel, target: Target) -> Opts:
    """The option that makes a fold of a chain of reductions over a product, of which one is a weighted sum of rows; none for other
    kernels. (A place of an extreme is found as quickly once the products are in memory.)"""
    if target.kind == "gpu" or not (name := foldable(kernel)):
        return ()
    fold = next(item for item in folded(kernel, name).body if isinstance(item, Fold))
    return (opt("FOLD", name),) if weighted(fold) and _of_all_rows(fold) else ()


def _of_all_rows(fold: Fold) -> bool:
    """Whether every reduction of the block runs over all axes that the results share: others, such as the norm of each key, would be
    computed again for every row, and are better kept before."""
    family, rows = fold.axis.arg.family, set.intersection(*(set(fold.component(c).axes) for c in fold.components))
    before = [v for v in fold.block if isinstance(v.expr, Reduce) and all(a.arg.family != family for a in v.reduce_axes)]
    return all(rows & set(w.axes) <= set(v.axes) for v in before for w in before)


def online_starts(trials: Trials, starts: Starts) -> Iterator[Opts]:
    """The fold with its start schedules, the likeliest first."""
    first = fold_first(trials.kernel, trials.target)
    if first:
        yield from joined(trials, first, starts)


# operands that are computed -------------------------------------------------------------------------------------------
Found = tuple[Opts, Kernel, Contraction]
"""Options that make another kernel, that kernel, and a contraction of it."""

COSTLY = COSTLY_FLOATS | {"ref"}
"""What makes an operand too costly to be computed again for every block of the other one."""


MANY = 16
"""Operations that are as costly."""
AGAIN = 4
"""How often something is computed again, from which on it is kept."""
TILE_VECTORS = 2
"""Vectors of results side by side for which an element that they share is computed once."""
NARROW = 128
"""Elements of the lane axis that are too few to spread a product over work items by blocks of them."""


def regrouped(kernel: Kernel) -> Iterator[tuple[Opts, Kernel, Nest, Node]]:
    """Sums of products that have a computed operand, as sums of two operands: (options, the kernel that they make, the sum's
    nest there, its lane axis)."""
    for p in products(kernel):
        nest = next(n for n in nests(kernel) if n.name == p.value.name)
        lane = lane_axis(kernel, nest)
        if lane is not None and has_computed(p, lane) and not is_regrouped(kernel, p.value.name):
            new = operands(kernel, p.value.name, str(lane.arg.name))
            found = next(n for n in nests(new) if n.name == p.value.name)
            yield (opt("REWRITE", p.value.name, rule="operands", along=str(lane.arg.name)),), new, found, lane


def paired(kernel: Kernel) -> Iterator[Found]:
    """Those of `regrouped` that are contractions."""
    for first, new, nest, lane in regrouped(kernel):
        c = computed_contraction(new, nest, lane)
        if c is not None and (c.wide_value or c.tall_value):
            yield first, new, c


def phases_first(kernel: Kernel, target: Target) -> Iterator[Opts]:
    """Options that give a phase to what keeps the largest contraction from having a grid of its own, or is too costly to be computed
    again: reductions that do not run over all of its axes, and its computed operands."""
    if target.kind == "gpu":
        return
    found = all_contractions(kernel)
    if not found:
        return
    main = max(found, key=lambda c: points(c.nest))
    before, covered = set(_before(kernel, main.nest)), set[str]()
    phases: dict[str, Opts] = {}
    for first, new, nest, lane in regrouped(kernel):
        made = [v for v in (f"{nest.name}.m", f"{nest.name}.n") if v in new.values and _reused(nest, new.values[v])]
        costly = [v for v in made if _costly_operand(new.values[v]) or _kept(new.values[v], lane, target)]
        if costly and 2 * points(nest) >= points(main.nest):  # (all that are as large, such as two parts of one number)
            phases[nest.name] = (*first, *(opt("PHASE", v, apart=1) for v in costly))
            covered |= {item.name for v in costly for item in needed(new.body, (new.values[v].body,))}
    apart = tuple(opt("PHASE", name, apart=1) for name in kernel.values if name in before)
    if main.nest.name in phases:
        operands_first = tuple(o for one in phases.values() for o in one)
        if covered & before:  # what an operand is computed of may be a product of matrices itself
            yield (*apart, *operands_first)
        yield operands_first
    else:
        covered = set()
    if before - covered:
        yield apart


def _reused(nest: Nest, v: Value) -> bool:
    """Whether a sum reads each element of an operand for several results."""
    return any(extent(a) > 1 and a not in v.axes for a in nest.axes)


def _kept(v: Value, lane: Node, target: Target) -> bool:
    """Whether an operand is computed anew so often that it is better kept: for the rows beside few lanes, or, where lanes share its elements
    (each is computed by itself then), for blocks of many lanes; not where it is many times what it is read from, as windows are."""
    if lane in v.axes:
        return extent(lane) <= NARROW
    most = max((buffer_bytes(b.shape, 1) for b, _, _ in loads(v.body)), default=0)
    return extent(lane) >= AGAIN * TILE_VECTORS * target.lanes(v.dtype) and math.prod(map(extent, v.axes)) <= most


def _costly_operand(v: Value) -> bool:
    plain = [n for n in walk(v.body) if n.dtype is not index and n.op != "const"]
    return any(n.op in COSTLY for n in plain) or sum(n.op not in ("load", "cast", "axis") for n in plain) >= MANY


def _before(kernel: Kernel, main: Nest) -> list[str]:
    """Reductions that do not run over every axis of the nest `main`, and that do not need it themselves."""
    axes = {a for a in main.axes if extent(a) > 1}
    late, out = {main.name}, list[str]()
    for v in kernel.body:
        if not isinstance(v, Value) or v.name == main.name:
            continue
        if any(n.op == "ref" and n.arg in late for n in walk(v.body)):
            late.add(v.name)
        elif isinstance(v.expr, Reduce) and axes - set(v.axes) and all(extent(a) for a in v.axes):
            out.append(v.name)
    return out


def computed_starts(trials: Trials, starts: Starts) -> Iterator[Opts]:
    """Guesses for kernels with a contraction whose operand is computed, or that needs another reduction first; none for others."""
    kernel, target = trials.kernel, trials.target
    for first in phases_first(kernel, target):
        yield from joined(trials, first, starts)
    for first, new, c in paired(kernel) if target.kind != "gpu" else ():
        yield from ((*first, *opts) for opts in best_contractions(Trials(new, target, trials.threads), c))


# values that are in the way of others --------------------------------------------------------------------------------
# A function of what a reduction found is computed again in each row: of a column's sum, whose root scales all the
# elements below it. And a sum down the columns of a matrix keeps the sums along its rows, where both have one axis,
# from having lanes along the rows.


def phases_for_values(trials: Trials) -> Iterator[Opts]:
    """Options that keep every such function, and what it reads where others read that as well; those and sums across others.
    None where there is nothing."""
    if trials.target.kind == "gpu" or trials.target.groups or any(isinstance(item, Fold) for item in trials.kernel.body):
        return
    functions, across = functions_computed_again(trials.kernel), sums_across_lanes(trials.kernel)
    functions |= _also(trials.kernel, functions)
    for names in dict.fromkeys(map(frozenset, (functions, functions | across))):
        of_all = tuple(opt("PHASE", v.name, apart=1) for v in trials.kernel.body if v.name in names)
        if of_all and trials.is_legal(of_all):
            yield of_all


def sums_across_lanes(kernel: Kernel) -> set[str]:
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


def functions_computed_again(kernel: Kernel) -> set[str]:
    """The pointwise values that hold something costly, read reductions, and are computed again in each row of a nest."""
    points = {v.name: v for v in kernel.values.values() if isinstance(v.expr, Node) and v.dtype not in (index, bool_)}
    costly = {name for name, v in points.items() if _is_costly(v)}
    return {
        r
        for n in nests(kernel)
        if n.all_axes and extent(n.all_axes[0]) >= AGAIN
        for r in _read_in_any_row(kernel, n.all_axes[0], n.name) & costly
    }


def _is_costly(v: Value) -> bool:
    found = list(walk(v.body))
    return any(n.op in COSTLY_FLOATS and n.dtype.is_float for n in found) and any(n.op == "ref" for n in found)


def _read_in_any_row(kernel: Kernel, rows: Node, name: str) -> set[str]:
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


# what is used again and again -----------------------------------------------------------------------------------------
REUSED = 4
"""How often something is used at least, so that writing it and reading it again takes less time than computing it."""
BETTER = 0.9
"""How much of the first start schedule's time a schedule that hoists takes at most, to come before it."""
ABOUT, BETTER_BY_BOTH = 1.2, 0.75
"""How much of it the estimate may say where Programs are counted, and how much the geometric mean of both then."""


def hoisted(
    trials: Trials,
    found: Iterable[Opts],
    starts: Starts,
    most: int | None = None,
    part: bool = False,
    counted: bool = False,
    least: Callable[[Kernel], float] | None = None,
) -> Iterator[Opts]:
    """`found`, and up to `most` schedules that hoist: before the first one where the model takes them to be faster, else after it. `part`:
    this is one of the kernels of such a schedule, of which no more phases are made for values that are kept. `counted`: of the likeliest
    whose estimate is no more than about that of the first one, its Program is asked as well. `least`: the seconds by the estimate that no
    start schedule of a kernel comes below; those that hoist are left out then where these already say that they are no faster."""
    firsts = [
        first
        for first in (
            distributions(trials),
            hoists(trials),
            *(() if part else phases_for_values(trials)),
            accumulations(trials),
            scattered_sums(trials),
        )
        if first
    ]
    if not firsts:
        yield from found
        return
    rest = iter(found)
    head = next(rest, ())
    alone = trials.legal(head)
    limit = BETTER * trials.seconds(alone) if alone is not None else 0.0
    if least is not None:
        firsts = [first for first in firsts if not _reaches(limit, trials.apply(first).phases, least)]
    wishes = chain.from_iterable(islice(joined(trials, first, starts), most) for first in firsts)
    times = {o: trials.seconds(o) for w in wishes if (o := trials.legal(w)) is not None}
    ranked = sorted(times, key=lambda o: (times[o], str(o)))
    before = [o for o in ranked if times[o] < limit]
    if counted and alone is not None and ranked and limit <= times[ranked[0]] < ABOUT / BETTER * limit:
        asked = trials.ruler()
        before = ranked[:1] if asked(ranked[0]) < BETTER_BY_BOTH * asked(alone) else []
    yield from before
    yield head
    yield from (o for o in ranked if o not in before)
    yield from rest


def _reaches(limit: float, phases: Sequence[Scheduled], least: Callable[[Kernel], float]) -> bool:
    """Whether phases take so many seconds together. Those with most work are asked first, and no more than it takes."""
    total = 0.0
    for p in sorted(phases, key=lambda p: -max((points(n) for n in p.nests), default=0)):
        total += least(p.kernel)
        if total >= limit:
            return True
    return False


def distributions(trials: Trials) -> Opts:
    """Options that distribute sums of which a part that takes long is over fewer axes; none where there are none."""
    if trials.target.kind == "gpu" or trials.target.groups:
        return ()
    costly = [name for name, s in splits(trials.kernel).items() if any(n.op in COSTLY_FLOATS for n in walk(s.factor))]
    first = tuple(opt("REWRITE", name, rule="distribute") for name in costly)
    return first if first and trials.is_legal(first) else ()


def accumulations(trials: Trials) -> Opts:
    """Options that add up sums over rows in memory. (What is left has start schedules of its own, with those that cannot.)"""
    return _together(trials, "accumulate", accumulable)


def scattered_sums(trials: Trials) -> Opts:
    """Options that add up sums at the places that keys say."""
    return _together(trials, "scatter", sums_by_key)


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
