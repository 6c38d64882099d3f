"""`apply`: a kernel and a list of options become a `Scheduled`, or an OptError that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ..ir import index as ix
from ..ir.body import Value
from ..ir.errors import KernelError, OptError
from ..ir.kernel import Kernel
from ..ir.node import Node, axis, const
from ..ir.operators import substitute
from ..ir.rewriter import Rewriter
from ..targets import Target
from . import registry
from .addition_order import check_kept, check_order
from .builder import ScheduleBuilder
from .legality import check_blocks, check_scheduled, undecided
from .nests import Nest, build
from .opt import Opt, Opts, parse
from .registry import Rewriting
from .schedule import Scheduled
from .thread_axes import default_grid, thread_axes


def apply(
    kernel: Kernel, opts: Iterable[Opt] | Sequence[object], target: Target, made: Callable[[Kernel, Opts, Target], Scheduled] | None = None
) -> Scheduled:
    """The schedule that `opts` describe; OptError where an option is illegal. Pure: equal arguments, equal result. `made` gives the schedules
    of the kernels that options make of this one (it may remember them: lists of options share phases)."""
    listed = parse(tuple(opts))
    foreign = next((o for o in listed if o.op not in registry.OPTIONS), None)
    if foreign is not None:
        raise OptError(f"{foreign}: {foreign.op} gives a parameter of a source its value (tune source); a kernel has none")
    check_blocks(kernel, listed)
    options = registry.used(listed)
    for option in sorted(options, key=lambda x: registry.order(x, kernel, listed)):
        if option.rewrite is not None:
            mine = tuple(o for o in listed if o.op == option.name)
            try:
                found = option.rewrite(
                    Rewriting(undecided(kernel), listed, mine, target, _fixed(made or apply) if kernel.fixed else made or apply)
                )
            except KernelError as e:  # what would come out is no kernel: that is the option's refusal, and no fault of `kernel`
                raise OptError(f"{mine[0]}: what it makes of {kernel.name} is no kernel: {e}") from e
            check_order(found)
            check_kept(kernel, (p.kernel for p in found.phases))
            return found
    b = ScheduleBuilder(kernel, target)
    registry.act(b, listed)
    if target.kind == "gpu":
        default_grid(b)
    staged = {n: fill for n, (_, fill) in b.value_stages.items() if n not in b.held}
    items = tuple(build(kernel, staged, b.held, lambda v, nest, by: _is_recomputed(b, v, nest, by)))
    out = Scheduled(
        kernel, listed, target, b.plans, tuple(b.order), items,
        kept={n: kernel.values[n] for n in staged},
        value_stages={n: at for n, (at, _) in b.value_stages.items()},
        held=frozenset(b.held), nt=frozenset(b.nt), prefetched=frozenset(b.prefetched), marks=b.marks, effects=frozenset(b.effects),
        threads=thread_axes(b, items), swizzle=b.swizzle, launch=b.launch, dots=b.dots, tensors=b.tensors,
    )  # fmt: skip
    for option in options:
        if option.finish is not None:
            out = option.finish(out, b)
    check_scheduled(out)
    for option in options:
        if option.check is not None:
            option.check(out)
    check_order(out)
    return out


def _fixed(made: Callable[[Kernel, Opts, Target], Scheduled]) -> Callable[[Kernel, Opts, Target], Scheduled]:
    """Schedules of what options make of a kernel with fixed numerics: that has them too."""
    return lambda kernel, opts, target: made(kernel if kernel.fixed else replace(kernel, fixed=True), opts, target)


def _is_recomputed(b: ScheduleBuilder, v: Value, nest: Nest, by: tuple[Node, ...]) -> bool:
    """Whether loops of `nest` that `v` does not depend on run inside the loop where `v` is kept (and none around it),
    so that `v` is better computed by a nest of its own. (Axes of threads are every nest's, so `v` stays with its reader under those;
    and on a GPU those of the grid are.)"""
    at = b.value_stages[v.name][0]
    others = [p for a in nest.all_axes if a not in by for p in b.plans[a].parts if p.kind != "grid" or b.target.simt]
    mine = {p.name for a in v.axes for p in (b.plans[a].fold, *b.plans[a].parts) if p is not None and p.loop}
    if at != "grid" and (at not in mine or at not in b.order):
        return False
    place = -1 if at == "grid" else b.order.index(at)
    inside = [p for p in others if p.loop]
    return bool(inside) and all(p.kind == "serial" for p in others if not p.register) and all(b.order.index(p.name) > place for p in inside)


# phases ---------------------------------------------------------------------------------------------------------------
#
# The phases of a schedule: what runs one after the other, and where an extent may be empty, instead of each other.
#
# A loop of a Program runs at least once. So a symbolic extent that may be 0 gets phases of its own, in which its axes
# have the constant extent 0; the grid of either is empty where the other applies.


def phases(scheduled: Scheduled, positive: frozenset[Node] = frozenset(), gate: Node = const(1)) -> Iterator[tuple[Scheduled, Node]]:  # noqa: B008
    """The schedules whose phases make up the Program, each with a factor of its grid: 1 or 0."""
    sometimes = [e for e in doubtful(scheduled.kernel) if e not in positive]
    full = gate
    for e in sometimes:
        full = ix.mul(full, some(e))
    for sub in scheduled.phases or (scheduled,):
        yield sub, full
    for e in sometimes:
        bare = _empty_schedule(scheduled.kernel, e, scheduled.target)
        yield from phases(bare, positive, ix.mul(gate, none(e)))
        positive, gate = positive | {e}, ix.mul(gate, some(e))


def plain(scheduled: Scheduled) -> Scheduled:
    """The same kernel on the same target without options."""
    return apply(scheduled.kernel, (), scheduled.target)


@lru_cache(maxsize=32)
def _empty_schedule(kernel: Kernel, extent: Node, target: Target) -> Scheduled:
    """The schedule without options of a kernel whose `extent` is 0: it does not depend on the options of the others."""
    return apply(emptied(kernel, extent), (), target)


def doubtful(kernel: Kernel) -> list[Node]:
    """The symbolic extents of loops that may be 0, in the order they appear."""
    found = [a.arg.extent for a in kernel.axes]
    found += [d for s in kernel.stores if s.combine for d in s.buffer.shape]  # a scatter's output is cleared over its own axes
    return [e for e in dict.fromkeys(found) if isinstance(e, Node) and ix.bounds(e)[0] <= 0]


def some(extent: Node) -> Node:
    """1 where `extent` is positive, else 0: a factor for grids."""
    return ix.minmax("min", extent, const(1))


def none(extent: Node) -> Node:
    """1 where `extent` is 0, else 0."""
    return ix.add(const(1), some(extent), -1)


def emptied(kernel: Kernel, extent: Node) -> Kernel:
    """`kernel` with every axis of that extent empty, and buffers shaped accordingly."""
    return _Emptied(kernel, extent).run()


def _size(n: Node) -> int | Node:
    return int(n.arg) if n.op == "const" else n


class _Emptied(Rewriter):
    def __init__(self, kernel: Kernel, extent: Node) -> None:
        super().__init__(kernel)
        self.extent = extent
        table = {extent: const(0)}
        self.buffers = {
            b: replace(b, shape=tuple(_size(substitute(d, table)) if isinstance(d, Node) else d for d in b.shape)) for b in kernel.buffers
        }

    def node(self, n: Node) -> Node | None:
        if n.op == "axis" and n.arg.extent is self.extent:
            return axis(n.arg.name, 0, n.arg.family)
        return None

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(self.go(a) for a in axes)

    def along(self, axis: Node) -> Node:
        return self.go(axis)
