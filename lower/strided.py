"""Loads of every second, third or fourth element (a window that moves by more than one): whole vectors, and shuffles
that pick from them."""

from __future__ import annotations

from ..ir.node import Node
from ..opts.strides import picks
from ..program.program import Mem, Val
from .indices import Indices

LEAST = 4
"""Lanes of the shortest vector worth it."""


def strided_read(ev: Indices, mem: Mem, base: Node, offset: int, step: int, invariant: bool) -> Val | None:
    """A vector of the elements `step` apart from base + offset on, reading nothing past the last of them; None where
    it is better gathered."""
    if not picks(step) or ev.width < LEAST or ev.low.sched.target.kind == "gpu":
        return None
    b, width = ev.b, ev.width
    # the last vector ends with the last element that is wanted
    starts = [*(i * width for i in range(step - 1)), (width - 1) * (step - 1)]
    vectors = [b.load(ev.low.at(mem, base, offset + s, width), ev.low.scalar(base), width, None, invariant) for s in starts]
    wanted = [i * step for i in range(width)]
    found = vectors[0]
    for n, (start, v) in enumerate(zip(starts[1:], vectors[1:]), 1):
        here = [w // width == n for w in wanted]
        before = [w % width if n == 1 else i for i, w in enumerate(wanted)]
        found = b.shuffle(found, v, tuple(width + w - start if now else at for w, now, at in zip(wanted, here, before)))
    return found
