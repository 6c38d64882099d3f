"""EXIT: a reduction whose result is known computes no more elements.

Whether anything holds, and where it does first, is known at the first element for which it does. A loop in C breaks there. Here each
iteration is left out once the accumulators are final; the loop goes on, at a test an iteration."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ..analysis.saturating import Saturation, saturation
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..nests import Nest, flat, plain
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from ..schedule import Scheduled


def leavable(kernel: Kernel) -> list[str]:
    """The reductions that may be known before all elements are."""
    return [n.name for n in flat(plain(kernel)) if saturation(n) is not None]


def leaving(s: Scheduled, nest: Nest) -> Saturation | None:
    """When the accumulators of a reduction that is left early are final; None of others."""
    return saturation(nest) if nest.name in s.marked("EXIT") else None


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note a reduction that is left early."""
    found = leavable(b.kernel)
    if o.on not in found:
        raise OptError(
            f"{o}: EXIT names a reduction along one axis that finds the first place where something holds, or whether anything does "
            f"({', '.join(found) or f'{b.kernel.name} has none'})"
        )
    if b.target.kind == "gpu" or b.target.groups:
        raise OptError(f"{o}: threads of {b.target.name} go together; EXIT is for processors")
    b.mark(o)


def check(s: Scheduled) -> None:
    """Raise OptError where there is no loop to leave, or its elements do not come in order."""
    for name in s.marked("EXIT"):
        nest = next(n for n in s.nests if n.name == name)
        if len(s.together(nest)) > 1:
            raise OptError(f"EXIT({name}): it shares its loop with other reductions, which need all elements; leave out FUSE")
        if nest.fills:
            kept = ", ".join(sorted(nest.fills))
            raise OptError(f"EXIT({name}): it keeps {kept} on its way, all of which others read; keep that elsewhere, or compute it again")
        (axis,) = nest.reduce_axes
        if not _in_order(s, nest):
            raise OptError(f"EXIT({name}): {axis.arg.name} has no loop that goes through its elements in order; cut it otherwise")


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
        yield from ((opt("EXIT", name),) for name in leavable(near.kernel) if ("EXIT", name) not in near.taken)


EXIT = Option(
    name="EXIT",
    letter="X",
    on="tensor",
    arg=None,
    kind="serial",
    legend="early exit",
    docs=(
        Doc(
            "EXIT(reduction)",
            "Leave out the elements of a reduction once its result is known: of the first place where something holds, and of whether "
            "anything does ([below](#early-exits)).",
        ),
    ),
    golden={"exit": Golden("argmax", {"m": 4, "n": 64}, [["UPCAST", "n", 16], ["EXIT", "at"]])},
    act=act,
    check=check,
    propose=propose,
)
