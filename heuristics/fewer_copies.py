"""A schedule with fewer copies in registers, where its code would take too long to compile."""

from __future__ import annotations

from dataclasses import replace

from ..ir.kernel import Kernel
from ..opts.opt import Opt
from ..targets import Target


def halved(kernel: Kernel, opts: tuple[Opt, ...], target: Target) -> tuple[Opt, ...] | None:
    """The options with half of the copies along the axis that has most; None where none has more than a vector's."""
    lanes = max(target.lanes(b.dtype.compute) for b in kernel.outputs)
    wide = [o for o in opts if o.op == "UPCAST" and isinstance(o.arg, int) and o.arg % 2 == 0 and o.arg // 2 >= lanes]
    if target.kind != "cpu" or not wide:
        return None
    most = max(wide, key=lambda o: o.arg if isinstance(o.arg, int) else 0)
    assert isinstance(most.arg, int)
    half = most.arg // 2
    return tuple(replace(o, arg=half) if o is most else o for o in opts)
