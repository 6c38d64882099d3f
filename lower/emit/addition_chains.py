"""How many additions follow each other in one accumulator.

Each addition rounds. Of n random numbers of mean 0, one accumulator's error grows as n, and that of their sum as its root; of numbers of one
sign, relative errors grow as the root of n. Pairwise summation keeps to the root of log n (Higham 1993, "The accuracy of floating point
summation"). A short chain is added to an outer accumulator, which begins anew after as many of its own, and so on:
then each level adds as little as a short chain, and there are as many levels as n has digits to that base. So errors are those of pairwise
sums, whatever the loops are (`benchmarks/sum_accuracy.py`).

Accumulators in registers are carried through one more loop around their own, over blocks of its iterations. Those in memory (a reduce loop
outside a spatial one) have an array for each level; after a block the inner one is added to the outer one, and cleared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import NamedTuple

from ...ir import index as ix
from ...ir.node import axis as make_axis
from ...ir.node import const
from ...opts.addition_order import Cuts
from ...opts.analysis.contractions import computed_contraction
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...program.builder import Loop
from ...program.program import Val
from .. import pieces
from ..lowering import Lowering
from ..pieces import Piece
from ..storage import Assignment


class Longest(NamedTuple):
    """Additions that may follow each other: `alone`, where the chain is the sum; `first`, of elements, where the sums of at least `few` chains
    are added up again; `others`, of the sums of chains; `last`, of those that make the result, whose roundings weigh most."""

    alone: int
    first: int
    few: int
    others: int
    last: int

    def above(self) -> Longest:
        """Where sums of chains are added."""
        return Longest(self.last, self.others, self.few, self.others, self.last)


SUM = Longest(16, 32, 4, 16, 8)
"""NumPy's pairwise sums have chains of 16 elements, and of 2 sums above."""
PARTS = 16
PARTIAL = Longest(64, 64, 4, 16, 16)
"""Those of one of `PARTS` or more partial sums: each rounds smaller numbers."""
PRODUCT = Longest(384, 512, 2, 256, 256)
"""Those of a sum of products that registers share operands of. BLAS libraries add up as many before they go to memory."""
MOST = 1 << 20
"""Iterations that a loop is taken to have at most where their number is known at run time only."""
Sizes = tuple[int, ...]


def longest(low: Lowering, n: Nest, combine: str) -> Longest | None:
    """How long the chains of additions of a nest may be; None where their order does not matter, or an instruction decides it."""
    sched = low.sched
    if combine != "add" or not n.expr.dtype.is_float or n.name in sched.tensors:
        return None
    if computed_contraction(low.ctx.kernel, n) is not None:
        return None if sched.target.kind == "gpu" else PRODUCT
    return PARTIAL if copies(low, n, "upcast") >= PARTS else SUM


def copies(low: Lowering, n: Nest, kind: str) -> int:
    """Register copies of a kind along what a nest reduces."""
    return prod(p.trips for p in low.sched.lanes(n).regs if p.kind == kind and p.axis in n.reduce_axes)


def levels(trips: int, steps: int, most: Longest) -> tuple[Sizes, int]:
    """(iterations of the blocks that a loop is cut into, outer to inner; additions to an accumulator outside of them all) where each iteration
    of the loop adds `steps` times."""
    if steps * trips <= most.alone:
        return (), steps * trips
    count = max(min(most.few, -(-steps * trips // most.alone)), -(-trips // max(1, most.first // steps)))
    sizes = [-(-trips // count)]
    count = -(-trips // sizes[0])
    while count > most.last:
        groups = max(most.few, -(-count // most.others))
        sizes.insert(0, sizes[0] * -(-count // groups))
        count = -(-trips // sizes[0])
    return tuple(sizes), count


def trips(part: Part) -> int:
    """The most iterations of a loop."""
    return part.trips if isinstance(part.size, int) else min(ix.upper(part.size), MOST)


@dataclass(frozen=True)
class ShortChains:
    """How loops are cut so that no chain has more additions than `most` says. `sizes`: of each loop, the blocks of its
    iterations; `steps`: additions to an accumulator outside of all loops; `starts`: what a chain begins with, of each value that the loops
    carry, None of what is no sum."""

    low: Lowering
    sizes: Sequence[Sizes]
    steps: int
    most: Longest
    starts: Sequence[Val | None] = ()
    fixed: bool = False
    """Whether blocks begin at multiples of their size, wherever a loop is in pieces."""
    combines: Sequence[str] = ()
    """How the values of `starts` are combined; sums where it is not said."""

    def carry(self, loops: Sequence[Part], piece: Piece, accs: list[Val], body: Callable[[list[Val]], list[Val]]) -> list[Val]:
        """What a piece of the first of some loops leaves of what it carries; `body` is for one of its iterations. Where it may have few
        iterations, they have a loop of their own: a short row is one chain."""
        part, sizes = loops[0], self.sizes[-len(loops)]
        if piece.most is not None and piece.most * self.steps <= self.most.alone:
            sizes = ()
        if not sizes or not piece.maybe or piece.between is None:
            return self._blocks(part, sizes, piece, accs, body)
        low, (lo, hi) = self.low, piece.between
        first = ix.minmax("min", hi, ix.add(lo, const(sizes[-1])))
        accs = self._merged(accs, lambda begun: self._blocks(part, (), replace(piece, between=(lo, first)), begun, body))
        left = low.b.op("lt", low.scalar(first), low.scalar(hi))
        with low.b.branch(left, accs, rare=True) as loop:
            rest = replace(piece, between=(first, hi), maybe=False)
            loop.yields = self._blocks(part, sizes, rest, loop.carried, body)
        return loop.results

    def whole(self, loops: Sequence[Part], found: Sequence[Piece], accs: list[Val], body: Callable[[list[Val]], list[Val]]) -> list[Val]:
        """What the pieces of the first of some loops leave of what it carries, its blocks being those of the whole loop."""
        return self._in_pieces(loops[0], self.sizes[-len(loops)], found, None, accs, body)

    def _in_pieces(
        self, part: Part, sizes: Sizes, found: Sequence[Piece], block: Piece | None, accs: list[Val], body: Callable[[list[Val]], list[Val]]
    ) -> list[Val]:
        if not sizes or sizes == (1,):
            for piece in found:
                with self.low.open(part, accs, piece if block is None else _common(piece, block)) as loop:
                    loop.yields = self._merged(loop.carried, body) if sizes else body(loop.carried)
                accs = loop.results
            return accs
        with blocks(self.low, part, sizes[0], block or pieces.ALL, accs) as (loop, inner):
            loop.yields = self._merged(loop.carried, lambda begun: self._in_pieces(part, sizes[1:], found, inner, begun, body))
        return loop.results

    def in_groups(
        self, steps: Sequence[Assignment], accs: list[Val], run: Callable[[Sequence[Assignment], list[Val]], list[Val]]
    ) -> list[Val]:
        """What accumulators become by steps without a loop."""
        if self.fixed or len(steps) <= self.most.alone:
            return run(steps, accs)
        for i in range(0, len(steps), self.most.alone):
            accs = self._merged(accs, partial(run, steps[i : i + self.most.alone]))
        return accs

    def _blocks(self, part: Part, sizes: Sizes, piece: Piece, accs: list[Val], body: Callable[[list[Val]], list[Val]]) -> list[Val]:
        if not sizes or piece.at is not None or sizes == (1,):
            with self.low.open(part, accs, piece) as loop:
                loop.yields = self._merged(loop.carried, body) if sizes else body(loop.carried)
            return loop.results
        with blocks(self.low, part, sizes[0], piece, accs) as (loop, inner):
            loop.yields = self._merged(loop.carried, lambda begun: self._blocks(part, sizes[1:], inner, begun, body))
        return loop.results

    def _merged(self, accs: Sequence[Val], run: Callable[[list[Val]], list[Val]]) -> list[Val]:
        """What accumulators become by a chain that begins anew."""
        begun = [acc if start is None else start for acc, start in zip(accs, self.starts, strict=True)]
        combines = self.combines or ["add"] * len(self.starts)
        done = zip(accs, run(begun), self.starts, combines, strict=True)
        b = self.low.b
        return [new if start is None or (c == "add" and b.zero(acc)) else b.op(c, acc, new) for acc, new, start, c in done]


def _common(piece: Piece, block: Piece) -> Piece:
    """The iterations that a piece and a block have in common."""
    assert block.between is not None
    lo, hi = (const(piece.at), const(piece.at + 1)) if piece.at is not None else piece.between or block.between
    first, end = ix.minmax("max", lo, block.between[0]), ix.minmax("min", hi, block.between[1])
    return replace(piece, between=(first, end), at=None, maybe=True)


def fixed_chains(low: Lowering, loops: Sequence[Part], found: Cuts) -> ShortChains:
    """The chains of a sum whose order is fixed."""
    return ShortChains(low, [found.sizes.get(p.name, ()) for p in loops], 1, SUM, fixed=True)


def chains(low: Lowering, loops: Sequence[Part], steps: int, most: Longest, around: int = 1) -> ShortChains:
    """How the loops of reductions are cut, each iteration of the innermost of which adds `steps` times. `around`: the iterations of other
    loops of theirs."""
    sizes: list[Sizes] = []
    allowed = most
    for at, part in reversed(list(enumerate(loops))):
        outside = around * prod(map(trips, loops[:at]))
        here = allowed._replace(alone=allowed.first) if outside >= allowed.few else allowed
        cut, added = levels(trips(part), steps, here)
        if _in_slots(low, part):
            cut, added = (), steps * trips(part)
        allowed, steps = most.above() if cut or any(sizes) else most, added
        sizes.insert(0, cut)
    return ShortChains(low, sizes, steps, most)


def _in_slots(low: Lowering, part: Part) -> bool:
    """Whether tiles are fetched ahead of a loop's iterations, which therefore stay one loop."""
    return any(s.at.name == part.name and s.depth > 1 for s in low.sched.stages.values())


@contextmanager
def blocks(low: Lowering, part: Part, size: int, piece: Piece, init: Sequence[Val] = ()) -> Iterator[tuple[Loop, Piece]]:
    """Inside: a loop over blocks of `size` iterations of a piece of a loop, and the piece that a block is."""
    lo, hi = piece.between or (const(0), pieces.trips(low.sched, low.scope, part))
    count = ix.ceildiv(ix.add(hi, lo, -1), size)
    known = count.op == "const"  # (how many blocks there are is not worth a division)
    begin, end, step = (const(0), count, 1) if known else (lo, hi, size)
    var = make_axis(f"{part.name}.b{size}", end, part.axis.arg.family)
    with (
        low.b.loop(var.arg.name, low.scalar(begin), low.scalar(end), step, init, piece.maybe) as loop,
        low.scalars.bind(var, loop.var),
    ):
        first = ix.add(lo, ix.mul(var, const(size))) if known else var
        inner = replace(piece, between=(first, ix.minmax("min", ix.add(first, const(size)), hi)), maybe=False)
        with low.within(pieces.entered(low.sched, low.scope, part, piece)):  # (what is known of all iterations)
            yield loop, inner
