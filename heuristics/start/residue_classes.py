"""Start rule for sums whose results are told apart by residues, as those of transposed convolutions and of gradients of strided ones are
(`ir.normal_form.residue_classes`).

Where residues and taps are copies in registers, every index and mask of theirs is a number: what lies past the last tap is left out, and
the results of all residues, which read the same elements, are stored side by side as whole vectors. Lanes go along blocks of one residue,
or along the results that share what they read, as along the channels of an image: weights are packed then, and elements of a copy with the
image's borders are broadcast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest
from math import prod

from ...ir import index as ix
from ...ir.buffer import Buffer, loads
from ...ir.node import Node, axes_of, const
from ...ir.operators import substitute
from ...ir.skipped_tiles import conjuncts, kept_share
from ...opts.analysis.structure import extent
from ...opts.defaults import site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opt, Opts, opt
from ..machine import DEFAULT
from .start_rule import Numbers, StartFacts, StartRule

FREE, FREE_ALONG_CHANNELS = 5, 4
"""Registers that are no accumulators: fewer where what is broadcast needs none for long."""
COPIES = 640
"""Products of an iteration that are written out."""
READ = 0.5
"""What a load costs beside multiplications, in cycles."""
WAITED = 1.3
"""How much longer a chain of additions takes than their latency."""
FULL, CROWDED = 0.65, 1.15
"""The share of the registers above which accumulators leave too few for what is read, and how much longer that takes."""
MASKED = 1.1
"""How much longer several vectors take of which the last is never whole: no iteration goes without masks."""
NEAR_IMAGE = 0.5
"""The share of the second cache that a copy of an image may take which is read anew for each block of channels."""
ITEMS = 8
"""Work items a thread that are enough."""
GUESSES = (4, 3)
"""How many schedules with lanes along blocks, and along channels, are asked about."""


Load = tuple[Buffer, tuple[Node, ...], Node | None]
"""A buffer that is read, where, and under which mask."""


@dataclass(frozen=True)
class ResidueTile:
    """The axes of such a sum. `lane`: consecutive results of one residue; `residues` and `taps`: those in registers, which make `products`;
    `row`: blocks beside the lane's, None where there are none; `shared`: results that read the same elements, None where there are none;
    `reads`: elements that a point of the tile reads; `slid`, `fixed`: the operand under the window, and the other one; `cut`: the last block has fewer
    results."""

    nest: Nest
    lane: Node
    residues: tuple[Node, ...]
    taps: tuple[Node, ...]
    products: int
    row: Node | None
    shared: Node | None
    reads: int
    slid: Load
    fixed: Buffer
    cut: bool

    @property
    def sums(self) -> int:
        """Residues that are summed: the others are 0."""
        return prod(extent(a) for a in self.residues if a in self.nest.axes)


class ResidueClasses(StartRule):
    """Residues and taps in registers, and rows of blocks side by side. Lanes along the blocks of the last axis, and several results that
    share what they read; or lanes along such results (`channels`), and several blocks."""

    name = "residue classes"

    def applies(self, f: StartFacts) -> Iterable[ResidueTile]:
        if len(f.reductions) != 1 or f.target.kind == "gpu":
            return
        found = _tile(f, f.reductions[0])
        if found is not None:
            yield found

    def parameters(self, f: StartFacts, where: ResidueTile) -> Mapping[str, tuple[int, ...]]:
        return {"vectors": (1, 2, 3, 4), "rows": (1, 2, 4), "results": (1, 2, 3, 4, 5, 6, 8), "channels": (0, 1)}

    def sample(self, f: StartFacts, where: ResidueTile) -> Iterable[Numbers]:
        names = self.parameters(f, where)
        every = (dict(zip(names, values)) for values in product(*names.values()))
        costs = sorted((c, i, p) for i, p in enumerate(every) if (c := _cost(f, where, p)) is not None)
        kinds = ([p for _, _, p in costs if p["channels"] == kind][:n] for kind, n in enumerate(GUESSES))
        return (p for pair in zip_longest(*kinds) for p in pair if p is not None)

    def schedule(self, f: StartFacts, where: ResidueTile, p: Numbers) -> Opts:
        copies = _copies(f, where, p)
        lane = where.shared if p["channels"] else where.lane
        pad = [opt("PADTO", site_name(a), copies[a]) for a in (lane,) if a is not None and waste(extent(a), copies[a]) > 0.25]
        ordered = dict.fromkeys((lane, *([where.lane] if p["channels"] else []), *where.residues, where.row, where.shared))
        tile = [opt("UPCAST", site_name(a), n) for a in ordered if a is not None and (n := copies.get(a, extent(a))) > 1]
        steps = [opt("UNROLL", site_name(a), extent(a)) for a in where.taps]
        return (*pad, *tile, *steps, *(_along_channels(f, where, copies) if p["channels"] else _grid(f, where, copies)))


def _copies(f: StartFacts, t: ResidueTile, p: Numbers) -> dict[Node | None, int]:
    """How many results along each axis but the residues are in registers."""
    wide = p["vectors"] * f.target.lanes(t.nest.expr.dtype)
    lane, other = (t.shared, t.lane) if p["channels"] else (t.lane, t.shared)
    return {lane: wide, t.row: p["rows"], other: p["results"]}


def _along_channels(f: StartFacts, t: ResidueTile, copies: Mapping[Node | None, int]) -> list[Opt]:
    """The grid and the copies of lanes along channels: weights by channels, and the image with its borders, which the blocks of channels share
    where images alone are work for all threads; rows of it, where it is not near."""
    buffer, indices, _ = t.slid
    outer = _outer(f, t, copies)
    images = [a for a in outer if a in axes_of(*indices)]
    alone = images == outer[: len(images)] and prod(map(extent, images)) >= 2 * f.threads
    grid = images if images and alone else outer
    image = prod(ix.upper(n) for n, i in zip(buffer.shape, indices) if not axes_of(i).isdisjoint(t.nest.reduce_axes))
    near = image * buffer.dtype.size <= NEAR_IMAGE * f.target.l2
    at = grid[-1] if near else t.lane if t.row is None else t.row
    parallel = [opt("PARALLEL", site_name(a)) for a in grid]
    return [*parallel, opt("STAGE", t.fixed.name, at=site_name(outer[-1])), opt("STAGE", buffer.name, at=site_name(at), order="row")]


def _outer(f: StartFacts, t: ResidueTile, copies: Mapping[Node | None, int]) -> list[Node]:
    """The loops around a block of channels, its own among them."""
    assert t.shared is not None
    around = f.shared[: f.shared.index(t.shared) + 1]
    return [a for a in around if extent(a) > copies.get(a, 1)]


def _tile(f: StartFacts, n: Nest) -> ResidueTile | None:
    """What is known of a sum of products of two loads that is stored by blocks and residues."""
    store = next((m for m in f.nests if m.store is not None), None)
    both = list(loads(n.expr))
    read = [i for _, i, _ in both]
    if store is None or n.expr.op != "mul" or len(read) != 2 or not store.indices:
        return None
    digits = [_digits(i) for i in store.indices]
    lane = digits[-1][0] if digits[-1] else None
    slid = [i for i in read if lane in axes_of(*i)]
    if lane not in n.axes or lane is None or len(slid) != 1 or not _neighbours(slid[0], lane):
        return None
    window, room = axes_of(*slid[0]), f.target.registers - FREE
    beside = {a for i in read if i is not slid[0] for a in axes_of(*i)}
    # (a group and its channels are stored as a block and its residues are, but both operands know the group)
    digits = [d if d[:1] and d[0] in window and d[0] not in beside else d[:1] for d in digits]
    if not any(d[1:] for d in digits):
        return None
    residues, taps = list[Node](), list[Node]()
    for block, *rest in (d for d in reversed(digits) if d):
        if prod(map(extent, (*residues, *rest))) <= room:
            residues += rest
            taps += [a for a in n.reduce_axes if extent(a) > 1 and any(_slides(i, block, a) for i in slid[0])]
    if not residues:
        return None
    while taps and _products(n, residues, taps) > COPIES:
        taps.pop()
    over = set(n.reduce_axes)
    rows = [d[0] for d in digits[:-1] if d and d[0] in n.axes and d[0] in window]
    rows = [b for b in rows if any(_slides(i, b, a) for i in slid[0] for a in over)] or [
        d[0] for d in digits[:-1] if d[1:] and d[0] in rows
    ]
    shared = [a for a in n.axes if a not in window and a not in residues and extent(a) > 1]
    moved = sum(1 for i in slid[0] if any(r in axes_of(i) for r in residues))
    reads = prod(map(extent, taps)) * 2**moved
    products = _products(n, residues, taps)
    row, channel = (rows[-1] if rows else None), (shared[-1] if shared else None)
    under, other = both if read[0] is slid[0] else both[::-1]
    return ResidueTile(n, lane, tuple(residues), tuple(taps), products, row, channel, reads, under, other[0], store.mask is not None)


def _slides(index: Node, block: Node, tap: Node) -> bool:
    """Whether a block's window is read at this index."""
    terms, _ = ix.parts(index)
    return terms.get(block) == 1 and tap in terms


def _neighbours(indices: Sequence[Node], lane: Node) -> bool:
    """Whether an axis goes along neighbours in memory, either way."""
    return abs(ix.parts(indices[-1])[0].get(lane, 0)) == 1 and not any(lane in axes_of(i) for i in indices[:-1])


def _digits(index: Node) -> list[Node]:
    """The axes of a store's index that is a block and the places in it, the block first; empty for another index."""
    terms, _ = ix.parts(index)
    found, size = list[Node](), 1
    for a, k in sorted(terms.items(), key=lambda t: t[1]):
        if a.op != "axis" or k != size:
            return []
        found.append(a)
        size *= extent(a)
    return found[::-1]


def _products(n: Nest, residues: Iterable[Node], taps: Iterable[Node]) -> int:
    """How many products the residues have with their taps, but for those that masks leave out."""
    mine = [a for a in (*residues, *taps) if a in n.all_axes]
    masks = {c for _, _, m in loads(n.expr) if m is not None for c in conjuncts(m)}
    return round(kept_share(frozenset(masks), frozenset(mine)) * prod(map(extent, mine)))


def _broadcasts(t: ResidueTile, p: Numbers) -> int:
    """Elements that a tile with lanes along channels reads at one step of the sum."""
    _, indices, mask = t.slid
    mine = [a for a in (*t.residues, *t.taps) if a in t.nest.all_axes]
    found = set[tuple[Node, ...]]()
    for at in product(*(range(extent(a)) for a in mine)):
        here = {a: const(v) for a, v in zip(mine, at)}
        if mask is not None and any(substitute(c, here) is const(False) for c in conjuncts(mask)):
            continue
        for r, i in product(range(p["rows"]), range(p["results"])):
            blocks = {a: ix.add(a, const(n)) for a, n in ((t.row, r), (t.lane, i)) if a is not None}
            found.add(tuple(substitute(substitute(x, here), blocks) for x in indices))
    return len(found)


def _cost(f: StartFacts, t: ResidueTile, p: Numbers) -> float | None:
    """Cycles of a result of a residue, by a closed form; None where a tile does not fit the registers or the axes."""
    lanes, core = f.target.lanes(t.nest.expr.dtype), DEFAULT.core
    tile = p["vectors"] * p["rows"] * p["results"]
    lane = t.shared if p["channels"] else t.lane
    free = FREE_ALONG_CHANNELS if p["channels"] else FREE
    if tile * t.sums > f.target.registers - free or tile * t.products > 2 * COPIES or lane is None:
        return None
    copies, wide = _copies(f, t, p), p["vectors"] * lanes
    idle = 1 + waste(extent(lane), wide)
    if p["channels"] and (idle > 1.25 or t.cut or not _outer(f, t, copies)):
        return None
    for a, n in copies.items():
        if a is lane or n == 1:
            continue
        if a is None or waste(extent(a), n) > 0.25:
            return None
        idle *= 1 + waste(extent(a), n)
    work = tile * t.products / core.ports
    chain = WAITED * core.latency * t.products / t.sums
    if p["channels"]:
        read = p["vectors"] * t.products + _broadcasts(t, p)
    else:
        read = p["results"] * t.products + t.reads * p["vectors"] * p["rows"]
    crowded = CROWDED if tile * t.sums > FULL * f.target.registers else 1.0
    masked = MASKED if p["vectors"] > 1 and extent(lane) % wide else 1.0
    return idle * crowded * masked * (max(work, chain) + READ * read) / tile


def _grid(f: StartFacts, t: ResidueTile, copies: Mapping[Node | None, int]) -> list[Opt]:
    """The outermost axes in parallel, as many as make enough work items."""
    out, items = list[Opt](), 1
    for a in f.shared:
        if a is t.lane or a in t.residues or items >= ITEMS * f.threads:
            continue
        out.append(opt("PARALLEL", site_name(a)))
        items *= -(-extent(a) // copies.get(a, 1))
    return out
