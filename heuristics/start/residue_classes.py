"""Start rule for sums whose results are told apart by residues, as those of transposed convolutions and of gradients of strided ones are
(`ir.normal_form.residue_classes`).

Where residues and taps are copies in registers, every index and mask of theirs is a number: what lies past the last tap is left out, and
the results of all residues, which read the same elements, are stored side by side as whole vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ...ir import index as ix
from ...ir.buffer import loads
from ...ir.node import Node, axes_of, const
from ...ir.operators import substitute
from ...ir.skipped_tiles import conjuncts
from ...opts.analysis.structure import extent
from ...opts.defaults import site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opt, Opts, opt
from ..machine import DEFAULT
from .start_rule import Numbers, StartFacts, StartRule

FREE = 5
"""Registers that are no accumulators."""
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
ITEMS = 8
"""Work items a thread that are enough."""
GUESSES = 4


@dataclass(frozen=True)
class ResidueTile:
    """The axes of such a sum. `lane`: consecutive results of one residue; `residues` and `taps`: those in registers, which make `products`;
    `row`: blocks beside the lane's, None where there are none; `shared`: results that read the same elements, None where there are none;
    `reads`: elements that a point of the tile reads."""

    nest: Nest
    lane: Node
    residues: tuple[Node, ...]
    taps: tuple[Node, ...]
    products: int
    row: Node | None
    shared: Node | None
    reads: int

    @property
    def sums(self) -> int:
        """Residues that are summed: the others are 0."""
        return prod(extent(a) for a in self.residues if a in self.nest.axes)


class ResidueClasses(StartRule):
    """Lanes along the blocks of the last axis, with residues and taps in registers, rows of blocks side by side, and several results that
    share what they read."""

    name = "residue classes"

    def applies(self, f: StartFacts) -> Iterable[ResidueTile]:
        if len(f.reductions) != 1 or f.target.kind == "gpu":
            return
        found = _tile(f, f.reductions[0])
        if found is not None:
            yield found

    def parameters(self, f: StartFacts, where: ResidueTile) -> Mapping[str, tuple[int, ...]]:
        return {"vectors": (1, 2, 3, 4), "rows": (1, 2, 4), "results": (1, 2, 3, 4, 6, 8)}

    def sample(self, f: StartFacts, where: ResidueTile) -> Iterable[Numbers]:
        names = self.parameters(f, where)
        every = (dict(zip(names, values)) for values in product(*names.values()))
        costs = [(c, i, p) for i, p in enumerate(every) if (c := _cost(f, where, p)) is not None]
        return (p for _, _, p in sorted(costs, key=lambda x: x[:2])[:GUESSES])

    def schedule(self, f: StartFacts, where: ResidueTile, p: Numbers) -> Opts:
        lanes = f.target.lanes(where.nest.expr.dtype)
        wide = p["vectors"] * lanes
        pad = [opt("PADTO", site_name(where.lane), wide)] if waste(extent(where.lane), wide) > 0.25 else []
        tile = [opt("UPCAST", site_name(where.lane), wide)]
        tile += [opt("UPCAST", site_name(a), extent(a)) for a in where.residues]
        tile += [
            opt("UPCAST", site_name(a), n) for a, n in ((where.row, p["rows"]), (where.shared, p["results"])) if a is not None and n > 1
        ]
        steps = [opt("UNROLL", site_name(a), extent(a)) for a in where.taps]
        return (*pad, *tile, *steps, *_grid(f, where, p))


def _tile(f: StartFacts, n: Nest) -> ResidueTile | None:
    """What is known of a sum of products of two loads that is stored by blocks and residues."""
    store = next((m for m in f.nests if m.store is not None), None)
    read = [i for _, i, _ in loads(n.expr)]
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
    return ResidueTile(n, lane, tuple(residues), tuple(taps), products, rows[-1] if rows else None, shared[-1] if shared else None, reads)


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
    share = 1.0
    for axes in {frozenset(axes_of(c)) for c in masks}:
        if axes <= set(mine):
            each = [dict(zip(axes, at)) for at in product(*(range(extent(a)) for a in axes))]
            of_them = [
                substitute(c, {a: const(v) for a, v in at.items()}) is const(True) for at in each for c in masks if axes_of(c) == axes
            ]
            share *= sum(of_them) / len(of_them)
    return round(share * prod(map(extent, mine)))


def _cost(f: StartFacts, t: ResidueTile, p: Numbers) -> float | None:
    """Cycles of a result of a residue, by a closed form; None where a tile does not fit the registers or the axes."""
    lanes, core = f.target.lanes(t.nest.expr.dtype), DEFAULT.core
    tile = p["vectors"] * p["rows"] * p["results"]
    if tile * t.sums > f.target.registers - FREE or tile * t.products > 2 * COPIES:
        return None
    idle = 1 + waste(extent(t.lane), p["vectors"] * lanes)
    for a, n in ((t.row, p["rows"]), (t.shared, p["results"])):
        if n > 1 and (a is None or waste(extent(a), n) > 0.25):
            return None
        idle *= 1 if a is None else 1 + waste(extent(a), n)
    work = tile * t.products / core.ports
    chain = WAITED * core.latency * t.products / t.sums
    read = p["results"] * t.products + t.reads * p["vectors"] * p["rows"]
    crowded = CROWDED if tile * t.sums > FULL * f.target.registers else 1.0
    masked = MASKED if p["vectors"] > 1 and extent(t.lane) % (p["vectors"] * lanes) else 1.0
    return idle * crowded * masked * (max(work, chain) + READ * read) / tile


def _grid(f: StartFacts, t: ResidueTile, p: Numbers) -> list[Opt]:
    """The outermost axes in parallel, as many as make enough work items."""
    out, items = list[Opt](), 1
    copies = {t.row: p["rows"], t.shared: p["results"]}
    for a in f.shared:
        if a is t.lane or a in t.residues or items >= ITEMS * f.threads:
            continue
        out.append(opt("PARALLEL", site_name(a)))
        items *= -(-extent(a) // copies.get(a, 1))
    return out
