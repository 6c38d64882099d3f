"""Start schedules whose code takes too long to compile: the same with fewer copies in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..heuristics.fewer_copies import halved
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..log import logger
from .compile import render

if TYPE_CHECKING:
    from ..devices import Device
    from .artefacts import Artefacts
    from .built import Rendered

log = logger("plan")

MOST = 3_000_000
"""Characters of source. LLVM takes about 1.7 s for a million on a core of a Zen 5, so this is five seconds; a schedule that was measured
may have more."""


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
