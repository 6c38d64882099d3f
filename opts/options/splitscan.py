"""SPLITSCAN: one scan becomes three kernels, so that the axis it runs along can be spread over the grid.

The first combines the elements of each chunk, the second scans these results, and the third scans each chunk from what all before
it come to (reduce-then-scan: G. E. Blelloch, "Prefix sums and their applications", 1990; D. Merrill and A. Grimshaw, "Parallel scan
for stream architectures", 2009). The input is read twice, and nothing but one state a chunk is written in between."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import COMBINE, Scan, Value, tuple_scan
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node
from ..analysis.structure import extent, scanned_axes
from ..defaults import added_phase
from ..neighbourhood import Neighbourhood
from ..opt import Opts, opt
from ..registry import OPTIONS, Doc, Golden, Option
from ..rewriting import Rewriting
from ..scan_chunks import in_chunks
from ..schedule import Scheduled
from .phase import concerns

CHUNKS = (2, 4, 8, 16, 64)
LEAST = 64
"""Elements of a chunk that is worth a work item."""


def splittable(kernel: Kernel) -> tuple[Node, ...]:
    """The axes that are scanned along, of known extents."""
    return tuple(a for a in kernel.axes if a in scanned_axes(kernel) and isinstance(a.arg.extent, int) and a.arg.extent > 1)


def rewrite(r: Rewriting) -> Scheduled:
    """Three schedules. An option is for the sums of the chunks and for their scans, as far as they have what it names; what is scanned in
    between has a fixed one."""
    o = r.only("only one axis can be split so")
    kept = next((x for x in r.opts if OPTIONS[x.op].outlives_call(x)), None)
    if kept is not None:
        raise OptError(f"{kept}: the workspace between the phases of {o} is made anew by each call; use one of them")
    sums, carry, chunks = in_chunks(r.kernel, o)
    axes = frozenset(x for k in (sums, chunks) for a in k.axes for x in (a.arg.name, a.arg.family))
    lost = next((x for x in r.others if not concerns(x, chunks, axes)), None)
    if lost is not None:
        names = sorted({a.arg.name for a in chunks.axes} | {b.name for b in chunks.buffers})
        raise OptError(f"{lost}: no phase has what it names (there are: {', '.join(names)})")
    grid = opt("PARALLEL", f"{o.on}.s")
    a, c = (r.apply(k, (grid, *(x for x in r.others if concerns(x, k, axes))), r.target) for k in (sums, chunks))
    b = r.apply(carry, added_phase(carry, r.target, r.apply), r.target)
    exact = all(_exact(v) for v in r.kernel.values.values())
    return r.schedule((a, b, c), a.effects | c.effects | (frozenset() if exact else {"REASSOC"}))


def _exact(v: Value) -> bool:
    """Whether a value is the same in whichever order the elements of its scan are put together."""
    if not isinstance(v.expr, Scan) or v.expr.combine in ("max", "min"):
        return True
    if v.expr.combine == COMBINE:  # a result that is a whole number may depend on sums of floats
        return not any(e.dtype.is_float for e in tuple_scan(v.expr.expr).elements)
    return not v.dtype.is_float


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Chunks of a long scan."""
    if "SPLITSCAN" not in near.ops:
        yield from ((opt("SPLITSCAN", a.arg.name, n),) for a in splittable(near.kernel) for n in CHUNKS if extent(a) >= LEAST * n)


SPLITSCAN = Option(
    name="SPLITSCAN",
    letter="KS",
    on="axis",
    kind="grid",
    legend="split the scan",
    docs=(
        Doc(
            "SPLITSCAN(axis, n)",
            "Compute a scan in n chunks on the grid: one phase combines the elements of each chunk, a short one scans these, "
            "and the last scans each chunk from what comes before it (`REASSOC`). The chunks are the axis `axis.s`. An option that "
            "follows is for the first phase and the last, as far as they have what it names.",
        ),
    ),
    golden={"splitscan": Golden("cumsum", {"m": 2, "n": 64}, [["SPLITSCAN", "n", 4], ["UPCAST", "n", 8]])},
    rewrite=rewrite,
    by_phase=True,
    propose=propose,
)
