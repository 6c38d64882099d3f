"""Block sizes that a kernel's writer decided (`ir.kernel`): whether a schedule keeps to them."""

from __future__ import annotations

import weakref
from dataclasses import replace

from ..ir import index as ix
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from .opt import Opt, Opts
from .registry import OPTIONS

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
        max((o.amount for o in opts if OPTIONS[o.op].cuts and is_on(kernel, o, a)), default=extent_of(kernel, a))
        for a in kernel.blocks.axes
    )


def allowed_sizes(kernel: Kernel) -> tuple[tuple[int, ...], ...]:
    """The sizes that were decided, none larger than its axis."""
    assert kernel.blocks is not None
    extents = [extent_of(kernel, a) for a in kernel.blocks.axes]
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
            whole = extent_of(kernel, a)
            ways = " or ".join("no TILE" if n == whole else f"TILE({a}, {n})" for n in sizes[:8])
            raise OptError(f"{kernel.name} is written in tiles whose blocks of {a} are decided: give {ways}")
    sizes_text = ", ".join(f"{a} {n}" for a, n in zip(kernel.blocks.axes, found, strict=True))
    raise OptError(f"{kernel.name} is written in tiles, and does not allow these block sizes together: {sizes_text}")


def is_on(kernel: Kernel, o: Opt, axis: str) -> bool:
    """Whether an option names an axis, or the one site that its family has."""
    return o.on == axis or (len(kernel.families.get(axis, ())) == 1 and o.on == kernel.families[axis][0].arg.name)


def extent_of(kernel: Kernel, axis: str) -> int:
    """The extent of a family of axes; the largest of a symbolic one."""
    return ix.upper(kernel.families[axis][0].arg.extent)
