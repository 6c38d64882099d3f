"""Start schedules for contractions over windows, as convolutions are: the axis that is consecutive in the output slides over
one operand, bounds and all.

Lanes go along the other operand's rows instead (the output channels): its panel is packed once for each worker, while
elements of the window are broadcast, each to as many products as the window has steps. The register tile then follows
the output's shape without waste (Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD
Architectures", 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir import index as ix
from ...ir.buffer import Buffer
from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.analysis.structure import Contraction, extent, shared_axes
from ...opts.opt import Opt, Opts, opt
from ...targets import Target

SHORT = 4
"""Steps of a window that are spelled out."""


def window_guesses(kernel: Kernel, target: Target, threads: int, c: Contraction) -> Iterator[Opts]:
    """Schedules, perhaps illegal ones; none where nothing slides."""
    rows = max(c.rows, key=extent, default=None)
    lanes = target.lanes(c.nest.expr.dtype)
    if c.plain or rows is None or extent(rows) < lanes or target.kind == "gpu":
        return
    width = extent(c.lane)
    steps = [opt("UNROLL", a.arg.name, extent(a)) for a in c.reduce[-1:] if 1 < extent(a) <= SHORT]
    free = [a for a in shared_axes(kernel) if a is not c.lane and a is not rows]
    for vectors, most in ((1, 14), (2, 8), (2, 13), (1, 28)) if target.registers >= 32 else ((2, 4), (1, 8)):
        if vectors * lanes > extent(rows) or vectors * (most + 1) >= target.registers - (2 if steps else 0):
            continue  # (spelled out steps take some registers more)
        copies = _even(width, most)
        out: list[Opt] = [opt("UPCAST", rows.arg.name, vectors * lanes)]
        out += [opt("UPCAST", c.lane.arg.name, copies)] if copies > 1 else []
        out += steps
        yield (*out, *_grid(free, threads, rows.arg.name, c))
        if _elements(c.tall) > _elements(c.wide):
            yield (*out, *_by_rows(rows, vectors * lanes, threads, c))


def _grid(free: list[Node], threads: int, rows: str, c: Contraction) -> list[Opt]:
    """Work items that are few enough to pack a panel each, and where both operands are staged."""
    out: list[Opt] = []
    for i, a in enumerate(free):
        name = a.arg.name
        last = i == len(free) - 1
        if not last and extent(a) >= 2 * threads:
            inner = free[i + 1].arg.name
            return [
                *out,
                opt("PARALLEL", name),
                opt("STAGE", c.tall.name, at=name),
                opt("MOVE", inner, before=rows),
                opt("STAGE", c.wide.name, at=inner, order="row"),
            ]
        if last:
            block = -(-extent(a) // max(2, threads))  # each item packs a panel: few items, and a loop left to move inside them
            cut = [opt("TILE", name, block)] if 1 < block < extent(a) else []
            inner = f"{name}.t" if cut else name
            grid = [*cut, opt("PARALLEL", name), opt("STAGE", c.tall.name, at=name)]
            moved = [opt("MOVE", inner, before=rows)] if cut else []
            return [*out, *grid, *moved, opt("STAGE", c.wide.name, at=inner, order="row")]
        out.append(opt("PARALLEL", name))
    return out


def _by_rows(rows: Node, copies: int, threads: int, c: Contraction) -> list[Opt]:
    """Work items over the rows, where their operand is the larger one: each worker packs its own rows once, and all
    of them read the window's operand."""
    name, block = rows.arg.name, -(-extent(rows) // (copies * threads)) * copies
    cut = [opt("TILE", name, block)] if copies < block < extent(rows) else []
    panel = f"{name}.t" if cut else name
    return [*cut, opt("PARALLEL", name), opt("STAGE", c.wide.name, at=name, order="row"), opt("STAGE", c.tall.name, at=panel)]


def _elements(buffer: Buffer) -> int:
    return math.prod(ix.upper(d) for d in buffer.shape)


def _even(size: int, most: int) -> int:
    """The number of equal parts' size, up to `most`, that wastes least."""
    return min(range(1, most + 1), key=lambda n: (-(-size // n) * n / size * (1 + 2 / n), -n))
