"""Start schedules for GPUs, from the kernel's structure: read `opts/analysis/structure.py` first, then `gathered.py`.

Sums of products are in `warpgroups.py`, `warps.py` and `contractions.py`, folds in `tensor_folds.py` and `folds.py`, everything else in
`rows.py`. Here they are gathered and ranked. What a compiler would take long for, or find no registers for, is no
start schedule (`benchmarks/gpu_starts.py` builds them all)."""

from __future__ import annotations

from collections.abc import Iterable, Set
from math import prod

from ....ir.kernel import Kernel
from ....opts.analysis.structure import contractions, extent, shared_axes
from ....opts.defaults import points
from ....opts.nests import FoldItem
from ....opts.opt import Opts, opt
from ....opts.options.fuse import with_rows
from ....opts.schedule import Scheduled
from ....targets import Target
from ...machine import DEFAULT
from ...model.gpu.chip import chip_of
from ...model.gpu.estimate import estimate_gpu
from ...model.gpu.occupancy import statements, thread_registers
from ..effects import EXACT
from ..legal import Trials
from ..scatters import thread_copies
from ..tiny_axes import copies
from .chains import chains
from .contractions import contraction, with_rings
from .folds import folds
from .rows import columns, rows, transposed
from .tensor_folds import tensor_folds
from .warpgroups import hopper_starts
from .warps import tensor_starts

LONG = 4500
"""Instructions of a text that takes a compiler longer than a start schedule may."""
FOLDED = 1100
"""The same where a fold's partial results are merged as well."""
REGISTERS = 224
"""Registers above which a thread's are likely to be spilled."""
SAFE = 0.75
"""The share of a multiprocessor's registers that a group may be expected to take: estimates are about that good."""
ALIKE = 2
"""Start schedules of one tile that come before those of others."""
FEW = 12
"""Schedules without matrix instructions that are tried where there are some with them."""
LEAST_WARP = 31 << 10
"""Bytes of shared memory that leave too few groups of one warp on a multiprocessor."""


def gpu_candidates(trials: Trials, allowed: Set[str] = EXACT) -> list[Opts]:
    """Legal start schedules, as the model ranks them."""
    kernel, target = trials.kernel, trials.target
    ranked: dict[str, tuple[float, str, Opts]] = {}
    # a driver for processors has no grid of its own accord
    grid = tuple(opt("PARALLEL", str(a.arg.name)) for a in shared_axes(kernel)) if target.kind == "cpu" else ()
    for wish in _wishes(kernel, target, allowed):
        opts = trials.legal_at_once((*grid, *wish))
        if opts is None:
            continue
        s = trials.apply(opts)
        if s.hash not in ranked and s.effects <= allowed and buildable(s):
            ranked[s.hash] = (estimate_gpu(s), str(opts), opts)
    return _varied([opts for _, _, opts in sorted(ranked.values())])


def _varied(found: list[Opts]) -> list[Opts]:
    """The same in another order: what differs in its rings and blocks alone from ALIKE better ones comes after all
    others, so that the first few are not one tile over and over."""
    counts: dict[Opts, int] = {}
    first: list[Opts] = []
    later: list[Opts] = []
    for opts in found:
        kind = tuple(o for o in opts if o.op in ("TC", "LOCAL", "GROUP", "UPCAST", "SPLIT"))
        counts[kind] = counts.get(kind, 0) + 1
        (first if counts[kind] <= ALIKE else later).append(opts)
    return first + later


def buildable(s: Scheduled) -> bool:
    """Whether a compiler is likely to build it soon, without spilling registers; and whether a warp alone does not fill
    a multiprocessor's shared memory."""
    if s.phases:
        return all(buildable(p) for p in s.phases)
    if s.target.kind != "gpu" or not s.opts:
        return True
    shared = sum(st.bytes for st in s.stages.values())
    if s.group <= s.target.warp and shared > LEAST_WARP:
        return False
    folded = any(isinstance(i, FoldItem) for i in s.items)
    registers = thread_registers(s, chip_of(s.target, DEFAULT.gpu))
    room = min(REGISTERS, SAFE * DEFAULT.gpu.file / max(1, s.group))
    return statements(s, DEFAULT.gpu) <= (FOLDED if folded else LONG) and registers <= room


def _wishes(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterable[Opts]:
    fused, tiny = with_rows(kernel, target), copies(kernel)
    for wish in _apart(kernel, target, allowed):
        if tiny and all(o.op != "TC" for o in wish):
            yield (*wish, *tiny, *fused)
        yield (*wish, *fused)


def _apart(kernel: Kernel, target: Target, allowed: Set[str]) -> Iterable[Opts]:
    by_units = [
        *tensor_folds(kernel, target, allowed),
        *hopper_starts(kernel, target, allowed),
        *tensor_starts(kernel, target, allowed),
    ]
    yield from by_units
    found = contractions(kernel)
    if found:
        c = max(found, key=lambda c: prod(extent(a) for a in c.nest.all_axes))
        free = prod(extent(a) for a in shared_axes(kernel) if a is not c.lane and a not in c.rows)
        some = with_rings(c, target, free)
        for guess in some[:: -(-len(some) // FEW) if by_units else 1]:
            yield contraction(kernel, c, guess)
    folded = folds(kernel)
    yield from folded
    for threads in (32, 64, 128, 256, 512, 1024):
        for vector in (1, 2, 4, 8, 16) if not folded else (1,):  # a fold's rows have values enough to keep
            for stage in (False, True):
                yield rows(kernel, target, threads, vector, stage)
    yield from columns(kernel)
    yield from chains(kernel)
    for threads in (64, 128, 256):
        for vector in (1, 2, 4, 8):
            yield points(kernel, threads, vector)
    yield from transposed(kernel)
    yield from thread_copies(kernel, target)
