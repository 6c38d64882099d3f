"""Start schedules whose code takes too long to compile: the same with fewer copies in registers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..log import logger
from .compile import render

if TYPE_CHECKING:
    from ..devices import Device
    from ..opts.opt import Opt
    from ..targets import Target
    from .artefacts import Artefacts
    from .built import Rendered

log = logger("plan")

MOST = 3_000_000
"""Characters of source. LLVM takes about 1.7 s for a million on a core of a Zen 5, so this is five seconds; a schedule that was measured
may have more."""


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


def in_time(kernel: Kernel, code: Rendered, device: Device, store: Artefacts) -> Rendered:
    """The source of a start schedule of a kernel in normal form, with fewer copies as long as it has more than `MOST` characters and
    copies that can go."""
    while (much := len(code.source.text) / MOST) > 1:
        fewer = code.opts
        while much > 1 and (half := halved(kernel, fewer, device.target)) is not None:
            fewer, much = half, much / 2
        if fewer == code.opts:
            break
        log.debug("%s: %d characters are too many for a start schedule; it gets fewer copies", kernel.name, len(code.source.text))
        try:
            code = render(kernel, fewer, device, store)
        except OptError:
            break
    return code
