"""A schedule of other sizes as a kernel has room for it.

A block of 64 cuts nothing from an axis of 7: there the block is the whole axis, and the option is left out. Likewise 16 copies become 4. So
a schedule that is good for large shapes need not be given up for the sake of a small one."""

from __future__ import annotations

from dataclasses import replace

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..targets import Target
from .apply_options import apply
from .opt import Opt
from .registry import OPTIONS


def _within(kernel: Kernel, o: Opt) -> Opt | None:
    """An option as a kernel has room for it: None for a block that is no smaller than its axis, for a single copy, and on an axis of one
    element."""
    extent = _extent(kernel, str(o.on))
    if extent is None:
        return o
    if extent == 1 or (OPTIONS[o.op].cuts and o.amount >= extent):
        return None
    if not OPTIONS[o.op].copies or o.amount <= extent:
        return o
    amount = o.amount
    while amount > extent:
        amount //= 2
    return replace(o, arg=amount) if amount > 1 else None


def _extent(kernel: Kernel, name: str) -> int | None:
    """The largest extent of the axes that an option's place names, whichever nest or phase it means; None of what is no axis."""
    families = kernel.families
    family = name if name in families else name.split("@")[0].split(".")[0]
    if family not in families:
        return None
    return max((ix.upper(a.arg.extent) for a in families[family]), default=1)


def fitted(kernel: Kernel, opts: tuple[Opt, ...], target: Target) -> tuple[Opt, ...]:
    """A schedule of other sizes as a kernel in normal form has it: the same where it is legal, else without what has no room, and then
    without whatever is illegal at its turn."""
    if _legal(kernel, opts, target):
        return opts
    there = tuple(f for o in opts if (f := _within(kernel, o)) is not None)
    if _legal(kernel, there, target):
        return there
    kept: tuple[Opt, ...] = ()
    waiting: tuple[Opt, ...] = ()  # what stands at the front may be legal together only: block sizes that a writer decided
    for o in there:
        if _legal(kernel, (*kept, o), target):
            kept = (*kept, o)
        elif not kept:
            waiting = (*waiting, o)
            if _legal(kernel, waiting, target):
                kept = waiting
    return kept


_EACH = 1 << 20
"""Steps more than there are vectors: one is a step."""


def fits(kernel: Kernel, opts: tuple[Opt, ...], target: Target) -> list[tuple[Opt, ...]]:
    """What a schedule of other sizes may be on a kernel in normal form: as `fitted` has it, and with copies that share an axis evenly
    (9 rows are 5 and 4 with copies for 8, and not 8 and 1), of the axes that an output's rows do not lie along, and of all, there in whole
    vectors and in a step less or some more: where too much work is for nothing, a number of copies is not legal."""
    lanes, stored = target.lanes(kernel.outputs[0].dtype), {a.arg.family for s in kernel.stores for a in s.axes}
    rows = {a.arg.family for s in kernel.stores for a in s.indices[-1:] if a.op == "axis"}
    found = [fitted(kernel, opts, target)]
    for along in (None, 0, -1, 1, -2, 2, _EACH):
        even: dict[str, tuple[int, int]] = {}
        for o in opts:
            extent = _extent(kernel, str(o.on)) if OPTIONS[o.op].kind == "upcast" and o.on in stored else None
            if extent is not None and (along is not None or o.on not in rows):
                step = lanes if o.on in rows and o.amount % lanes == 0 and extent >= lanes else 1
                steps, passes = -(-extent // step), -(-extent // o.amount)
                passes = min(steps, max(1, passes + (along or 0))) if o.on in rows else passes
                even[str(o.on)] = o.amount, step * -(-steps // passes)
        made: list[Opt] = []
        for o in opts:
            was, now = even.get(str(o.on), (1, 1))
            if was != now and OPTIONS[o.op].kind == "upcast":
                made += [replace(o, arg=now)] if now > 1 else []
            else:  # a block has as many groups of copies as before
                made.append(replace(o, arg=o.amount // was * now) if was != now and OPTIONS[o.op].cuts and o.amount % was == 0 else o)
        found.append(fitted(kernel, tuple(made), target))
        if along == 0 and all(o in found[-1] for o in made if OPTIONS[o.op].kind == "upcast" and o.on in rows):
            break
    return list(dict.fromkeys(found))


def _legal(kernel: Kernel, opts: tuple[Opt, ...], target: Target) -> bool:
    try:
        apply(kernel, opts, target)
    except OptError:
        return False
    return True
