"""Start schedules for kernels with constant inputs: what a start schedule packs in each call, or reads as it lies, is packed once."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.kernel import Kernel
from ...opts.analysis.structure import contractions
from ...opts.opt import Opts, opt
from ...opts.plans import ONCE
from ...targets import Target
from .contractions import Blocks, contraction

TILES = ((8, 3), (6, 4), (4, 4), (8, 2), (14, 2), (4, 6))
"""Rows × vectors in registers of a schedule whose panel holds the whole reduce axis: nothing is packed in a call, so
no block has to be reused."""
LOOKED_AT = 8


def constant_starts(kernel: Kernel, target: Target, threads: int, starts: Sequence[Opts]) -> list[Opts]:
    """Guesses, perhaps illegal, that pack constant inputs once: the first of `starts` so changed, and sums of products over whole panels."""
    found = [packed_once(kernel, o, target) for o in starts[:LOOKED_AT]]
    for c in contractions(kernel):
        if c.wide.constant:
            for mr, nv in TILES:
                for rows in (0, 1):
                    whole = contraction(kernel, target, threads, c, Blocks(mr, nv, nb=0, rows=rows, pack=0, unroll=2))
                    found.append(packed_once(kernel, whole, target))
    return [o for o in found if any(x.op == "STAGE" and x.fields["at"] == ONCE for x in o)]


def packed_once(kernel: Kernel, opts: Opts, target: Target) -> Opts:
    """`opts` with every constant input of a sum of products packed before the first call; `opts` itself where that
    changes nothing. What follows may be illegal."""
    if target.lang not in ("llvm", "c") or any(o.op == "SPLIT" for o in opts):
        return opts
    names = [b.name for b in kernel.inputs if b.constant and any(b in (c.wide, c.tall) for c in contractions(kernel))]
    # instructions that take a panel come after it
    out = tuple(
        opt("STAGE", o.on, at=ONCE, **({"pad": o.fields["pad"]} if o.fields["pad"] else {})) if o.op == "STAGE" and o.on in names else o
        for o in opts
    )
    staged = {o.on for o in out if o.op == "STAGE"}
    return (*out, *(opt("STAGE", n, at=ONCE) for n in names if n not in staged))
