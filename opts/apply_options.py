"""`apply`: a kernel and a list of options become a `Scheduled`, or an OptError that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..ir.body import Value
from ..ir.errors import KernelError, OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
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
    items = tuple(build(kernel, staged, b.held, lambda v, nest, by: _again(b, v, nest, by)))
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


def _again(b: ScheduleBuilder, v: Value, nest: Nest, by: tuple[Node, ...]) -> bool:
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
