"""EARLY_EXIT: a reduction whose result is known computes no more elements.

Whether anything holds, and where it does first, is known at the first element for which it does. A loop in C breaks there. Here each
iteration is left out once the accumulators are final; the loop goes on, at a test an iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.body import Reduce
from ...ir.dtypes import DType, bool_
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, const
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..nests import Nest, flat, plain
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from ..schedule import Scheduled


@dataclass(frozen=True, slots=True)
class EarlyExit:
    """An accumulator is final when it compares so (`lt` or `eq`) with a constant."""

    op: str
    bound: Node


def exit_of(nest: Nest) -> EarlyExit | None:
    """When the accumulators of a reduction are final; None where each element may change them. Elements come in order."""
    if nest.value is None or not isinstance(nest.value.expr, Reduce) or len(nest.reduce_axes) != 1 or not nest.expr.dtype.is_int:
        return None
    e, combine = nest.expr, nest.value.expr.combine
    if combine == "min" and (limit := _place(e, nest.reduce_axes[0])) is not None:
        return EarlyExit("lt", limit)
    both = _chosen_constants(e)
    if both is None or combine not in _LAST:
        return None
    last = next((x for x in both if _LAST[combine](int(x.arg), sorted(int(y.arg) for y in both))), None)
    return None if last is None else EarlyExit("eq", last)


_LAST = {
    "max": lambda x, both: x == both[-1],
    "min": lambda x, both: x == both[0],
    "or": lambda x, both: x == -1 or (x == both[-1] and both[0] == 0),
    "and": lambda x, both: x == 0,
}
"""Whether an element of two is what nothing changes any more."""


def _place(e: Node, axis: Node) -> Node | None:
    """The constant of `where(condition, place along the axis, constant)`, if it is no smaller than any place."""
    if e.op != "where":
        return None
    extent = axis.arg.extent
    for at, limit in (e.src[1:], e.src[:0:-1]):
        while at.op == "cast" and isinstance(extent, int) and _can_hold(at.dtype, extent - 1):
            at = at.src[0]
        if at is axis and limit.op == "const" and isinstance(extent, int) and limit.arg >= extent - 1:
            return limit
    return None


def _can_hold(dtype: DType, number: int) -> bool:
    """Whether a type of whole numbers has one that is not negative."""
    return dtype.is_int and number < 1 << (8 * dtype.size - (dtype.kind == "i"))


def _chosen_constants(e: Node) -> tuple[Node, Node] | None:
    """The constants between which a condition chooses."""
    if e.op == "where" and all(x.op == "const" for x in e.src[1:]):
        return e.src[1], e.src[2]
    if e.op == "cast" and e.src[0].dtype is bool_:
        return const(1, e.dtype), const(0, e.dtype)
    return None


def early_exits(kernel: Kernel) -> list[str]:
    """The reductions that may be known before all elements are."""
    return [n.name for n in flat(plain(kernel)) if exit_of(n) is not None]


def early_exit(s: Scheduled, nest: Nest) -> EarlyExit | None:
    """When the accumulators of a reduction that is left early are final; None of others."""
    return exit_of(nest) if nest.name in s.marked(EARLY_EXIT.name) else None


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note a reduction that is left early."""
    found = early_exits(b.kernel)
    if o.on not in found:
        raise OptError(
            f"{o}: EARLY_EXIT names a reduction along one axis that finds the first place where something holds, or whether anything does "
            f"({', '.join(found) or f'{b.kernel.name} has none'})"
        )
    if b.target.kind == "gpu" or b.target.groups:
        raise OptError(f"{o}: threads of {b.target.name} go together; EARLY_EXIT is for processors")
    b.mark(o)


def check(s: Scheduled) -> None:
    """Raise OptError where there is no loop to leave, or its elements do not come in order."""
    for name in s.marked(EARLY_EXIT.name):
        nest = next(n for n in s.nests if n.name == name)
        if len(s.together(nest)) > 1:
            raise OptError(f"EARLY_EXIT({name}): it shares its loop with other reductions, which need all elements; leave out FUSE")
        if nest.fills:
            kept = ", ".join(sorted(nest.fills))
            raise OptError(
                f"EARLY_EXIT({name}): it keeps {kept} on its way, all of which others read; keep that elsewhere, or compute it again"
            )
        (axis,) = nest.reduce_axes
        if not _in_order(s, nest):
            raise OptError(f"EARLY_EXIT({name}): {axis.arg.name} has no loop that goes through its elements in order; cut it otherwise")


def _in_order(s: Scheduled, nest: Nest) -> bool:
    """Whether the reduce axis has a loop, and later iterations have later elements."""
    (axis,) = nest.reduce_axes
    parts = [p for p in s.parts(axis) if p.loop or p.register]
    loops = [p for p in parts if p.loop]
    run = [p for p in s.loops(nest) if p.axis is axis]
    return bool(loops) and parts[: len(loops)] == loops == run


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Each reduction that may be known early."""
    if near.target.kind != "gpu" and not near.target.groups:
        yield from ((opt("EARLY_EXIT", name),) for name in early_exits(near.kernel) if ("EARLY_EXIT", name) not in near.taken)


EARLY_EXIT = Option(
    name="EARLY_EXIT",
    letter="X",
    on="tensor",
    arg=None,
    kind="serial",
    legend="early exit",
    docs=(
        Doc(
            "EARLY_EXIT(reduction)",
            "Leave out the elements of a reduction once its result is known: of the first place where something holds, and of whether "
            "anything does ([below](#early-exits)).",
        ),
    ),
    golden={"early_exit": Golden("argmax", {"m": 4, "n": 64}, [["UPCAST", "n", 16], ["EARLY_EXIT", "at"]])},
    act=act,
    check=check,
    propose=propose,
)
