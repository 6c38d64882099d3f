"""Block sizes that a kernel's writer decided (`ir.blocks`): whether a schedule keeps to them, and schedules made to."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from .opt import Opt, Opts, opt

_CUTS = ("TILE", "HALO")
_COPIES = ("UPCAST", "UNROLL", "LOCAL", "GROUP")
_PLAIN: weakref.WeakKeyDictionary[Kernel, Kernel] = weakref.WeakKeyDictionary()


def undecided(kernel: Kernel) -> Kernel:
    """The same kernel whose blocks may have any size; the same object for the same kernel."""
    if kernel.blocks is None:
        return kernel
    if kernel not in _PLAIN:
        _PLAIN[kernel] = replace(kernel, blocks=None)
    return _PLAIN[kernel]


def block_sizes(kernel: Kernel, opts: Opts) -> tuple[int, ...]:
    """The sizes of the blocks into which options cut the axes that were decided; the extent of one that is not cut."""
    assert kernel.blocks is not None
    return tuple(
        max((o.amount for o in opts if o.op in _CUTS and _on(kernel, o, a)), default=_extent(kernel, a)) for a in kernel.blocks.axes
    )


def allowed_sizes(kernel: Kernel) -> tuple[tuple[int, ...], ...]:
    """The sizes that were decided, none larger than its axis."""
    assert kernel.blocks is not None
    extents = [_extent(kernel, a) for a in kernel.blocks.axes]
    return tuple(dict.fromkeys(tuple(map(min, s, extents)) for s in kernel.blocks.sizes))


def check_blocks(kernel: Kernel, opts: Opts) -> None:
    """Raise OptError where a schedule's blocks are not as the kernel says. No options at all are a schedule of every kernel."""
    if kernel.blocks is None or not opts:
        return
    found, allowed = block_sizes(kernel, opts), allowed_sizes(kernel)
    if found in allowed:
        return
    for k, a in enumerate(kernel.blocks.axes):
        sizes = sorted({s[k] for s in allowed})
        if found[k] not in sizes:
            whole = _extent(kernel, a)
            ways = " or ".join("no TILE" if n == whole else f"TILE({a}, {n})" for n in sizes[:8])
            raise OptError(f"{kernel.name} is written in tiles whose blocks of {a} are decided: give {ways}")
    sizes_text = ", ".join(f"{a} {n}" for a, n in zip(kernel.blocks.axes, found, strict=True))
    raise OptError(f"{kernel.name} is written in tiles, and does not allow these block sizes together: {sizes_text}")


def fitted(kernel: Kernel, wish: Opts, sizes: tuple[int, ...]) -> Opts:
    """A wish with the blocks cut as `sizes` says: other cuts of these axes are left out unless they fit inside, and copies in
    registers and threads take the nearest number that divides the block."""
    assert kernel.blocks is not None
    of = dict(zip(kernel.blocks.axes, sizes, strict=True))
    first = tuple(opt("TILE", a, n) for a, n in of.items() if n < _extent(kernel, a))
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
    axis = next((a for a in of if _on(kernel, o, a)), None)
    if axis is None or not isinstance(o.arg, int) or of[axis] == _extent(kernel, axis):
        return o if axis is None or o.op not in _CUTS else None
    size = of[axis]
    if o.op in _CUTS:
        return o if o.op == "TILE" and o.amount < size and size % o.amount == 0 else None
    if o.op in _COPIES and size % o.amount:
        near = min((d for d in range(1, size + 1) if size % d == 0), key=lambda d: (abs(d - o.amount), -d))
        return replace(o, arg=near) if near > 1 else None
    return o


def _on(kernel: Kernel, o: Opt, axis: str) -> bool:
    return o.on == axis or (len(kernel.families.get(axis, ())) == 1 and o.on == kernel.families[axis][0].arg.name)


def _extent(kernel: Kernel, axis: str) -> int:
    return ix.upper(kernel.families[axis][0].arg.extent)
