"""The steps of docs/ladder.md: their options, and why each is worth what it is. Sizes in the reasons are of AVX-512
(32 registers of 16 float32), 1 MiB of L2."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.opts.opt import Opt, opt

COMPUTED = ("start", "tuned")
"""Titles of the steps whose options are not written here: the start schedule of the machine, and the winner of a search."""


@dataclass(frozen=True)
class Step:
    """One rung: all of its options, those of the rungs below included."""

    title: str
    opts: tuple[Opt, ...]
    why: str


@dataclass(frozen=True)
class Story:
    """A kernel, the shape it is measured at, and its rungs from the bottom."""

    kernel: str
    shape: dict[str, int]
    steps: tuple[Step, ...]


_START = "What `tilewright.heuristics.starts` proposes from the kernel's structure and the machine's sizes, ranked by the analytic model; nothing was measured for it."
_TUNED = "The winner of a search from an empty cache, checked twice. Where no candidate beats the start schedule by more than the noise, the winner is the start schedule."

_LANES = (opt("UPCAST", "n", 16),)
_WIDE = (opt("UPCAST", "n", 64),)
_TILE = (*_WIDE, opt("UPCAST", "m", 6))
_UNROLL = (*_TILE, opt("UNROLL", "k", 4))
_BLOCK = (*_UNROLL, opt("TILE", "k", 256), opt("MOVE", "k", before="m"))
_PANEL = (*_BLOCK, opt("STAGE", "b", at="k"))

MATMUL = Story(
    "matmul",
    {"m": 1024, "n": 1024, "k": 1024},
    (
        Step(
            "naive",
            (),
            "Three loops, one multiply-add a step, each waiting for the sum before it. b is read down a column: every load is 4 KiB after the last one, a new "
            "cache line each time, and lines 4 KiB apart share one set of the L1, so none is there when the next column wants it.",
        ),
        Step(
            "lanes",
            _LANES,
            "16 columns of c at once: one vector load takes a whole cache line of b, one FMA does 16 sums, and an element of a is broadcast to all. There is "
            "still one accumulator, so every FMA waits for the one before.",
        ),
        Step(
            "four vectors",
            _WIDE,
            "64 columns: four accumulators that do not wait for each other, and one broadcast of a feeds four FMAs instead of one.",
        ),
        Step(
            "register tile",
            _TILE,
            "6 rows by 64 columns: 24 accumulators in registers. A step of k loads 4 vectors of b and 6 elements of a for 24 FMAs, where the rung before loaded "
            "5 for 4; and b is read once for 6 rows instead of once a row. 24 sums, 4 vectors of b and a broadcast take 29 of the 32 registers.",
        ),
        Step(
            "unroll",
            _UNROLL,
            "Four steps of k spelled out share one loop counter and one jump. 24 FMAs a step had hidden most of that already.",
        ),
        Step(
            "block of k",
            _BLOCK,
            "k in blocks of 256, the loop over blocks outermost: 256 rows of b, 1 MiB, serve all 171 strips of rows before the next block comes, where "
            "each strip read all 4 MiB. The sums are added to c after every block.",
        ),
        Step(
            "packed panel",
            _PANEL,
            "The block of b is copied once into the order it is read in: 64 columns, then the next row, all consecutive. Before, each step of k jumped by 4 KiB, to another "
            "page and into the same sets of the L1; now the processor's prefetchers see one stream. The copy is 1/171 of the reads.",
        ),
        Step(
            "parallel",
            (*_PANEL, opt("TILE", "n", 256), opt("PARALLEL", "n")),
            "Blocks of 256 columns are work items. Each packs a panel of its own, now 256 KiB: it fits a core's L2 with room for a and c, which 1 MiB did not.",
        ),
        Step("start", (), _START),
        Step("tuned", (), _TUNED),
    ),
)

_ROWS = (opt("PARALLEL", "h"), opt("PARALLEL", "row"))
_KEYS = (*_ROWS, opt("TILE", "key", 64))
_QUERIES = (*_KEYS, opt("UPCAST", "row", 64), opt("STAGE", "q", at="row"))
_TILES = (*_QUERIES, opt("UPCAST", "key@dot", 4), opt("UPCAST", "d@out", 4))
_KEPT = (*_TILES, opt("STAGE", "P", at="key"))

ATTENTION = Story(
    "attention",
    {"b": 1, "h": 12, "s": 1024, "d": 64},
    (
        Step(
            "naive",
            (),
            "Five nests, one after the other over the whole problem: scores (48 MiB of them), maxima, sums, outputs, division. Nothing keeps exp(score - max): it is computed once "
            "for the sum and again for each of the 64 outputs that it weighs.",
        ),
        Step(
            "parallel rows",
            _ROWS,
            "Heads and queries are work items, so all five nests run for one query at a time: its 1024 scores, 4 KiB, stay in the L1. The arithmetic is the same, on more cores.",
        ),
        Step(
            "blocks of keys",
            _KEYS,
            "64 keys at a time, and two blocks are merged by rescaling to the larger maximum (online softmax). A block whose keys all come after the query does nothing "
            "and is not run, which saves almost half. The 64 rows of v, 16 KiB, stay in the L1 while each output walks down a column of them; scratch no longer grows with the sequence.",
        ),
        Step(
            "lanes over queries",
            _QUERIES,
            "64 queries are the lanes: scores, maxima, exp and sums are vectors with no horizontal step, and one element of k or v is broadcast to all of them. For that, q is copied "
            "with its queries side by side. Without the copy the loop nest of `tune show` has the dots' 64 queries as `upcast`, not as `lanes`: scalars.",
        ),
        Step(
            "register tiles",
            _TILES,
            "Four keys in the dots and four outputs in the weighted sums: 64 x 4 accumulators are 16 vectors, and one read of q or one exp serves four of them. "
            "exp is computed 17 times for each pair of query and key instead of 65 times.",
        ),
        Step(
            "weights kept",
            _KEPT,
            "P, 64 x 64 weights of the block, is stored by its first reader: exp is computed once for each pair, not 17 times.",
        ),
        Step(
            "unroll",
            (*_KEPT, opt("UNROLL", "d@dot", 4), opt("UNROLL", "key@out", 4)),
            "Four steps of both inner reductions share one counter and one jump.",
        ),
        Step("start", (), _START),
        Step("tuned", (), _TUNED),
    ),
)

STORIES = (MATMUL, ATTENTION)
