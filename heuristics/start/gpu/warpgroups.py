"""Start schedules of sums of products by Hopper's warpgroups: one more of them copies operands by TMA (`opts/options/grid.py`).

The shapes are CUTLASS's and DeepGEMM's: 128 × 256 by two warpgroups of 64 × 256 in four slots of 128 bytes of the reduction where the output
is large, 128 × 128 in more slots where it is not, and 64 rows where it is thin; a grid of one group a multiprocessor, in bands."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from math import prod

from ....ir.errors import KernelError
from ....ir.kernel import Kernel
from ....opts.analysis.structure import extent
from ....opts.defaults import family_name
from ....opts.opt import Opt, Opts, opt
from ....targets import Target
from ....targets.tensor_rows import WGMMA_TYPES, wgmma_columns, wgmma_row
from .warps import BANDS, CHUNK, TensorProduct, chunks, find_products, operands

SHAPES = ((2, 256), (2, 192), (2, 128), (1, 256), (1, 128), (1, 64), (1, 32), (1, 16))
"""(warpgroups along m, columns of each)."""
DEPTHS = (6, 4, 3, 2)
ROW, ROWS = 128, 64
"""Bytes of the reduction in a slot, and rows of a warpgroup's tile."""
RESERVED = 1 << 10
"""Bytes of shared memory for barriers."""
IDLE = 1.25
"""How much of a tile may lie outside the output."""


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """The numbers of such a schedule."""

    consumers: int
    columns: int
    depth: int
    persist: bool = True
    sk: int = 1


def hopper_starts(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterator[Opts]:
    """Guesses, perhaps illegal, for the largest sum of products, the largest tiles first."""
    if "sm90a" not in target.features:
        return
    found = find_products(kernel, target, allowed)
    if found:
        p = max(found, key=lambda p: prod(extent(a) for a in p.nest.all_axes))
        yield from (warpgroup_product(kernel, p, w) for w in warpgroups(p, target))


def warpgroups(p: TensorProduct, target: Target) -> Iterator[Warpgroups]:
    """Numbers for `warpgroup_product`."""
    deep = ROW // p.row.a.size
    for consumers, columns in SHAPES:
        if _suffix(p) is None or columns not in wgmma_columns(str(_suffix(p))):
            continue
        rows, wide = consumers * ROWS, extent(p.n)
        if (rows > ROWS and rows > IDLE * extent(p.m)) or (columns > 16 and columns > IDLE * wide) or extent(p.k) < 2 * deep:
            continue
        tiles = -(-extent(p.m) // rows) * -(-wide // columns) * prod(extent(a) for a in p.nest.axes if a is not p.m and a is not p.n)
        depth = next((d for d in DEPTHS if d * (rows + columns) * ROW + RESERVED <= target.shared), 0)
        if depth < 2:
            continue
        guess = Warpgroups(consumers, columns, depth, tiles > target.cores)
        yield guess
        yield from (replace(guess, sk=sk, persist=False) for sk in chunks(tiles, extent(p.k) // (CHUNK * deep), target))


def _suffix(p: TensorProduct) -> str | None:
    """The kind of wgmma that multiplies what a row of mma.sync does."""
    suffix = p.row.name.rpartition(".")[2]
    return suffix if suffix in WGMMA_TYPES and p.row.c.size == 4 else None


def warpgroup_product(kernel: Kernel, p: TensorProduct, w: Warpgroups) -> Opts:
    """The options. KernelError where there is no such instruction."""
    suffix = _suffix(p)
    if suffix is None:
        raise KernelError(f"{p.row.name} has no counterpart of a warpgroup")
    row = wgmma_row(suffix, w.columns)
    m, k = family_name(kernel, p.m), str(p.k.arg.name)
    deep = ROW // row.a.size
    out: list[Opt] = [opt("SPLIT", k, w.sk)] * (w.sk > 1)
    out.append(opt("TC", p.nest.name, m=str(p.m.arg.name), n=str(p.n.arg.name), k=k, row=row.name))
    out += [opt("LOCAL", m, w.consumers)] * (w.consumers > 1)
    out += [opt("TILE", k, deep), opt("UNROLL", k, deep // row.k)]
    out += [opt("STAGE", b.name, at=k, order="row", depth=w.depth) for b, _ in operands(p)]
    out.append(opt("GRID", "grid", warpspec=w.consumers, **({"persist": 1} if w.persist else {})))
    rows = -(-extent(p.m) // (w.consumers * ROWS))
    band = next((b for b in BANDS if rows % b == 0), 0)
    if band and -(-extent(p.n) // w.columns) > 1:
        out.append(opt("SWIZZLE", "grid", band))
    return tuple(out)
