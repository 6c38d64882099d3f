"""The start rule for sums of products for groups of threads, without matrix instructions: a tile of the output for each group, a
register tile for each thread, and both operands staged in shared memory a block of the reduce axis at a time (Volkov &
Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", 2008), in a few slots so that the next block is on its way
while one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from ....ir.kernel import Kernel
from ....opts.analysis.structure import Contraction, contractions, extent, shared_axes, stepped
from ....opts.defaults import family_name
from ....opts.opt import Opt, Opts, opt
from ....targets import Target
from ..start_rule import Numbers, StartFacts, StartRule, Template
from .matrix_instructions import by_matrix_instructions
from .thread_rows import FEW, shared_rows

LANES = 4
"""Elements of float32 in one load of a thread."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The numbers of a contraction's schedule on a GPU."""

    lm: int
    """Threads along the rows."""
    ln: int
    """Threads along the columns."""
    um: int
    """Rows in a thread's registers."""
    un: int
    """Columns in a thread's registers."""
    kt: int
    """Block of the reduction for which both operands are staged; 0: neither is."""
    gk: int = 1
    """Threads that share the reduction."""
    pad: int = 4
    """Elements after each row of the staged tall operand."""
    band: int = 0
    """Width of the bands in which groups are numbered (SWIZZLE); 0: row by row."""
    sk: int = 1
    """Chunks of the reduction that a second phase adds up."""
    depth: int = 1
    """Slots of the staged tiles."""
    swizzle: int = 0
    """Rows among which chunks of the turned tile change places, in place of padding; 0: none."""


SOME = 12
"""Schedules without matrix instructions that are tried where there are some with them."""


class ThreadProducts(StartRule):
    """The largest sum of products, without matrix instructions."""

    name = "tiles"

    def applies(self, f: StartFacts) -> Iterable[Contraction]:
        found = contractions(f.kernel)
        return (max(found, key=lambda c: prod(extent(a) for a in c.nest.all_axes)),) if found else ()

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        for c in self.applies(f):
            some = with_rings(c, f.target, _free(f.kernel, c))
            step = max(1, -(-len(some) // SOME)) if by_matrix_instructions(f) else 1
            yield from (contraction(f.kernel, c, g) for g in some[::step])

    def quick(self, f: StartFacts) -> list[Opts]:
        """The reduction shared among threads where there are few results, then tiles by their closed form."""
        return [o for c in self.applies(f) for o in _likeliest(f, c)]

    def templates(self, f: StartFacts) -> Iterator[Template]:
        for c in self.applies(f):
            rows, width = max((extent(a) for a in c.rows), default=1), extent(c.lane)
            depth = max(extent(a) for a in c.reduce)
            tiles = {
                "lm": tuple(n for n in (1, 2, 4, 8, 16, 32) if n < 2 * rows),
                "ln": tuple(n for n in (1, 2, 4, 8, 16, 32, 64) if n < 2 * width),
                "um": tuple(n for n in (1, 2, 4, 6, 8, 12, 16) if n < 2 * rows),
                "un": tuple(n for n in (1, 2, 4, 8, 16) if n < 2 * width),
                "kt": (0, *(n for n in (4, 8, 16, 32, 64) if n <= depth)),
                "gk": (1, *(n for n in (8, 32, 128, 256) if n <= depth)),
                "pad": (0, 1, 4),
                "swizzle": (0, 4, 8),
                "depth": (1, 2, 3, 4),
                "band": (0, 2, 4, 8),
                "sk": (1, *(n for n in (2, 4, 8, 16) if depth >= 16 * n)),
            }
            yield Template(self.name, tiles, partial(_made, f.kernel, c))


def _made(kernel: Kernel, c: Contraction, numbers: Numbers) -> Opts:
    return contraction(kernel, c, Tiles(**numbers))


def _free(kernel: Kernel, c: Contraction) -> int:
    """Groups that other axes make of each tile."""
    return prod(extent(a) for a in shared_axes(kernel) if a is not c.lane and a not in c.rows)


def _likeliest(f: StartFacts, c: Contraction) -> Iterator[Opts]:
    kernel, found = f.kernel, guesses(c, f.target)
    shared = [g for g in found if g.gk > 1]  # few results: threads share the reduction
    for gk in (256, 32):
        yield from (contraction(kernel, c, g) for g in [g for g in shared if g.gk == gk][:1])
    free = _free(kernel, c)
    order = sorted((g for g in found if g.gk == 1), key=lambda g: (tile_cost(g, f.target, c, free), -g.kt))
    kinds: dict[tuple[int, int, int], Tiles] = {}
    for g in order:
        kinds.setdefault((g.um, g.un, g.sk), g)
    first = list(kinds.values())[: 1 if shared else 3]
    # the least tile fills a machine with what little there is, and may be staged where larger ones may not
    small = [g for g in found if (g.lm, g.ln, g.um, g.un, g.kt, g.sk) == (4, 8, 1, 1, 16, 1)]
    for g in (*first[:2], *small, *first[2:]):
        yield contraction(kernel, c, g)
    if prod(extent(a) for a in c.nest.axes) <= FEW * FEW * FEW:
        yield shared_rows(kernel, f.target, 32, 1, False)


KEPT = 6
"""Tiles that are tried with every ring."""
RINGS = ((16, 1, 0), (16, 2, 0), (16, 3, 0), (16, 3, 8), (32, 1, 0), (32, 2, 0), (32, 2, 8))
"""(block of the reduction, slots, swizzle)."""


def with_rings(c: Contraction, target: Target, free: int) -> list[Tiles]:
    """The likeliest guesses, in several slots too; `free`: groups that other axes make of each tile."""
    found = guesses(c, target)
    blocks = [g for g in found if g.kt and g.gk == 1]
    least = min((g.kt for g in blocks), default=0)
    order = sorted((g for g in blocks if g.kt == least), key=lambda g: (tile_cost(g, target, c, free), g.sk, -g.lm * g.ln))
    deep = max(extent(a) for a in c.reduce)
    rings = [r for r in RINGS if r[0] < deep]
    tried = [replace(g, kt=kt, depth=d, swizzle=w) for g in order[:KEPT] for kt, d, w in rings]
    return list(dict.fromkeys((*tried, *(g for g in found if g.kt == 0 or g.gk > 1 or not rings))))


def guesses(c: Contraction, target: Target) -> list[Tiles]:
    """Parameters for `contraction`: threads and register tile of rows and columns, block of the reduction."""
    tall = max((extent(a) for a in c.rows), default=1)
    wide, depth = extent(c.lane), max(extent(a) for a in c.reduce)
    out = []
    for lm, ln in ((16, 16), (8, 32), (8, 16), (4, 32), (8, 8), (4, 8), (1, 64)):
        for um, un in ((8, 8), (8, 4), (4, 4), (2, 4), (1, 4), (1, 1)):
            if (lm * um > 1 and lm * um > 1.6 * tall) or (ln * un > 1 and ln * un > 1.6 * wide):
                continue
            tiles = -(-tall // (lm * um)) * -(-wide // (ln * un))
            for kt in (16, 32) if depth >= 16 else (8,):
                if kt <= depth:
                    guess = Tiles(lm, ln, um, un, kt)
                    out.append(guess)
                    if tiles < target.cores and um * un > 1:  # too few groups: chunks of the reduction make more
                        out += [replace(guess, sk=n) for n in (4, 16) if depth >= 8 * n * kt]
    if tall <= 4 or wide <= 8:  # too little output to fill the machine: spread the reduction
        for gk in (32, 64, 128, 256):
            for lm in (1, 4, 8):
                out.append(Tiles(lm if tall >= lm else 1, 1, 1, 1, 0, gk, pad=0))
    return out


def contraction(kernel: Kernel, c: Contraction, t: Tiles) -> Opts:
    """lm × ln threads of um × un accumulators each; blocks of kt of the reduction, both operands staged for one; gk
    threads share the reduction, or sk chunks of it are summed by a second phase (perhaps illegal)."""
    k, lane = max(c.reduce, key=extent), c.lane
    row = max(c.rows, key=extent, default=None)
    out: list[Opt] = [opt("TILE", a, 1) for a in stepped(kernel, c.nest)]
    out += [opt("SPLIT", str(k.arg.name), t.sk)] * (t.sk > 1)
    if row is not None:
        out += [opt("LOCAL", family_name(kernel, row), t.lm)] * (t.lm > 1) + [opt("UPCAST", family_name(kernel, row), t.um)] * (t.um > 1)
    out += [opt("LOCAL", family_name(kernel, lane), t.ln)] * (t.ln > 1) + [opt("UPCAST", family_name(kernel, lane), t.un)] * (t.un > 1)
    if t.gk > 1:
        out += [opt("GROUP", family_name(kernel, k), t.gk), opt("UPCAST", family_name(kernel, k), LANES)]
    if t.kt:
        blocked = t.kt < extent(k)
        if blocked:
            out.append(opt("TILE", str(k.arg.name), t.kt))
        at = str(k.arg.name) if blocked else ""
        out.append(opt("UNROLL", str(k.arg.name), min(t.kt, 8)))
        if at:
            # the tall operand is turned, so that a thread reads its rows as one vector; the padding keeps its columns
            # on other banks
            turned = {"swizzle": t.swizzle} if t.swizzle and c.plain else {"pad": t.pad if c.plain else 0}
            out += [opt("STAGE", c.tall.name, at=at, depth=t.depth, **turned), opt("STAGE", c.wide.name, at=at, depth=t.depth)]
    if t.band:
        out.append(opt("SWIZZLE", "grid", t.band))
    return tuple(out)


def tile_cost(g: Tiles, target: Target, c: Contraction, free: int) -> float:
    """Relative time of a product: operands read for each product of a register tile, what tiles waste, and how evenly
    their groups fill the machine; to two digits, so that equals stay in order."""
    tall, wide = max((extent(a) for a in c.rows), default=1), extent(c.lane)
    down, across = -(-tall // (g.lm * g.um)), -(-wide // (g.ln * g.un))
    groups = max(1, down * across * free * g.sk)
    rounds = -(-groups // target.cores) * target.cores / groups
    waste = down * g.lm * g.um * across * g.ln * g.un / max(1, tall * wide)
    return round(rounds * waste * (1 + 2 * (g.um + g.un) / (g.um * g.un)), 2)
