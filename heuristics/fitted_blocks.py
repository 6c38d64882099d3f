"""Schedules made to the block sizes that a kernel's writer decided (`ir.kernel`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.kernel import Kernel
from ..opts.decided_blocks import extent_of, is_on
from ..opts.opt import Opt, Opts, opt

_CUTS = ("TILE", "HALO")
_COPIES = ("UPCAST", "UNROLL", "LOCAL", "GROUP")


def fitted(kernel: Kernel, wish: Opts, sizes: tuple[int, ...]) -> Opts:
    """A wish with the blocks cut as `sizes` says: other cuts of these axes are left out unless they fit inside, and copies in
    registers and threads take the nearest number that divides the block."""
    assert kernel.blocks is not None
    of = dict(zip(kernel.blocks.axes, sizes, strict=True))
    first = tuple(opt("TILE", a, n) for a, n in of.items() if n < extent_of(kernel, a))
    return (*first, *(f for o in wish if (f := _fitted(kernel, o, of)) is not None))


def inside_blocks(kernel: Kernel, opts: Opts) -> Opts:
    """The same with values that are kept at the loop over an axis's blocks kept at the loop inside a block: as long as there were no
    blocks, that was a step of the one loop."""
    assert kernel.blocks is not None
    cut = {o.on for o in opts if o.op == "TILE" and o.on in kernel.blocks.axes}
    return tuple(
        replace(o, arg=tuple({**o.fields, "at": f"{o.fields['at']}.t"}.items()))
        if o.op == "STAGE" and o.on in kernel.values and o.fields["at"] in cut
        else o
        for o in opts
    )


def _fitted(kernel: Kernel, o: Opt, of: Mapping[str, int]) -> Opt | None:
    axis = next((a for a in of if is_on(kernel, o, a)), None)
    if axis is None or not isinstance(o.arg, int) or of[axis] == extent_of(kernel, axis):
        return o if axis is None or o.op not in _CUTS else None
    size = of[axis]
    if o.op in _CUTS:
        return o if o.op == "TILE" and o.amount < size and size % o.amount == 0 else None
    if o.op in _COPIES and size % o.amount:
        near = min((d for d in range(1, size + 1) if size % d == 0), key=lambda d: (abs(d - o.amount), -d))
        return replace(o, arg=near) if near > 1 else None
    return o
