"""SPLIT: an axis along which a reduction, a scan or a scatter goes in order, in chunks on the grid.

What is split decides how the chunks are put together: partial results of a reduction are combined in order by a second phase, a scan
needs what comes before each chunk, and a scatter gets copies of its output. Each is deterministic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.body import Fold, Reduce, Scan, Value
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node
from ..analysis.structure import extent, scanned_axes
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option, Rewriting, always, check_workspace
from ..rewrites import split_axis, split_scatter
from ..rewrites.split_scatter import Scatter, alike, copied_type, privatisable
from ..schedule import Scheduled

CHUNKS = (2, 4, 8, 16, 64)
TOGETHER = (2, 4, 8)
"""Chunks of a reduction that one work item may go through at once."""
LEAST = 64
"""Elements of a chunk that is worth a work item."""
COPIES = (2, 4, 8)
SCATTER_CHUNKS = (2, 4, 8, 16)
LEAST_POINTS = 1024
"""Points of a chunk of a scatter that is worth a work item."""
MOST_COPIES = 1 << 22
"""Bytes of all copies together that are worth a try."""


@dataclass(frozen=True, slots=True)
class Split:
    """What an option splits: the reduction of a value or a scan, along an axis, or a scatter into some outputs."""

    kind: str
    axis: Node | None = None
    value: Value | None = None
    outputs: tuple[str, ...] = ()


def named(kernel: Kernel, on: str) -> Split | None:
    """What a name splits. An axis: the first reduction over it, or the scans along it, or the scatters of whose points it is the outermost;
    a family: the first reduction over one of its sites.
    A value or an output: its own reduction, scan or scatter, where several go along one axis."""
    reduced = [(a, v) for v in kernel.body if isinstance(v, Value) and isinstance(v.expr, Reduce) for a in v.reduce_axes]
    exact = next((Split("reduction", a, v) for a, v in reduced if a.arg.name == on), None)
    if exact is not None:
        return exact
    scanned = next((a for a in scanned_axes(kernel) if a.arg.name == on), None)
    if scanned is not None:
        return Split("scan", scanned)
    groups = alike(kernel) if any(a.arg.name == on for a in kernel.axes) else []
    for names in groups:
        found = privatisable(kernel, names[0])
        if found is not None and found.serial[0].arg.name == on:
            return Split("scatter", found.serial[0], outputs=names)
    sites = next((Split("reduction", a, v) for a, v in reduced if a.arg.family == on), None)
    if sites is not None:
        return sites
    v = kernel.values.get(on)
    if v is not None and v in kernel.body and isinstance(v.expr, Reduce) and len(v.reduce_axes) == 1:
        return Split("reduction", v.reduce_axes[0], v)
    if v is not None and isinstance(v.expr, Scan):
        return Split("scan", v.expr.axis)
    return Split("scatter", outputs=(on,)) if any(b.name == on for b in kernel.outputs) else None


@lru_cache(maxsize=256)
def split_of(kernel: Kernel, o: Opt) -> Split:
    """What an option splits; OptError where it names nothing that can be."""
    found = named(kernel, o.on)
    if found is not None and (found.kind == "scatter" or o.fields["copies"] == 1):
        return found
    if found is not None:
        raise OptError(f"{o}: copies are for scatters; {o.on} is the axis of a {found.kind}")
    if any(isinstance(i, Fold) for i in kernel.body):
        raise OptError(f"{o}: a fold is not split yet; TILE it instead")
    reduced = {a.arg.name for v in kernel.values.values() for a in v.reduce_axes}
    scanned = {a.arg.name for a in scanned_axes(kernel)}
    known = ", ".join(sorted({*reduced, *scanned, *(n for names in alike(kernel) for n in names)}))
    raise OptError(f"{o}: {kernel.name} has no reduction, scan or scatter along {o.on} ({known or 'none at all'})")


def scan_name(kernel: Kernel, axis: Node) -> str:
    """How an option names the scan along an axis: by the axis, or by the value where something is reduced over it too."""
    found = named(kernel, str(axis.arg.name))
    if found is not None and found.kind == "scan":
        return str(axis.arg.name)
    return next(v.name for v in kernel.values.values() if isinstance(v.expr, Scan) and v.expr.axis is axis)


def rewrite(r: Rewriting) -> Scheduled:
    """The phases of what is split: reductions first, then scans, then scatters; other SPLITs are for the phases that come out."""
    found = [(o, split_of(r.kernel, o)) for o in r.mine]
    kind = next(k for k in ("reduction", "scan", "scatter") if any(s.kind == k for _, s in found))
    r = replace(r, mine=tuple(o for o, s in found if s.kind == kind))
    check_workspace(r)
    (first, *_) = splits = [s for _, s in found if s.kind == kind]
    if kind == "scatter":
        return split_scatter.rewrite(r, tuple(name for s in splits for name in s.outputs))
    assert first.axis is not None
    if kind == "scan":
        return split_axis.rewrite_scan(r, first.axis)
    assert first.value is not None
    return split_axis.rewrite(r, first.value, first.axis)


def by_phase(kernel: Kernel, o: Opt) -> bool:
    """Whether each phase has options of its own: the phases of a scan do."""
    found = named(kernel, o.on)
    return found is not None and found.kind == "scan"


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Chunks of long reductions and scans, and chunks and copies of each output that is scattered into. Once a reduction is split,
    several chunks at once."""
    kernel = near.kernel
    mine = [s for o in near.schedule.opts if o.op == SPLIT.name and (s := named(kernel, o.on)) is not None]
    kinds = {s.kind for s in mine}
    if "reduction" not in kinds:
        folded = {f.axis for f in kernel.body if isinstance(f, Fold)}
        single = dict.fromkeys(a for n in near.schedule.nests if n.kind == "reduce" for a in n.reduce_axes if a not in folded)
        yield from _chunks([(str(a.arg.name), a) for a in single])
    for s in mine:
        if s.kind == "reduction" and s.axis is not None and ("UPCAST", f"{s.axis.arg.name}.s") not in near.taken:
            yield from ((opt("UPCAST", f"{s.axis.arg.name}.s", n),) for n in TOGETHER)
    if "scan" not in kinds:
        yield from _chunks([(scan_name(kernel, a), a) for a in split_axis.splittable(kernel)])
    if "scatter" not in kinds and "OWN" not in near.ops:
        for names in alike(kernel):
            scatter = privatisable(kernel, names[0])
            assert scatter is not None
            yield from (tuple(opt("SPLIT", name, n=n, copies=c) for name in names) for n, c in _chunk_choices(scatter))


def _chunks(axes: Sequence[tuple[str, Node]]) -> Iterator[Opts]:
    yield from ((opt("SPLIT", name, n),) for name, a in axes for n in CHUNKS if extent(a) >= LEAST * n)


def _chunk_choices(scatter: Scatter) -> Iterator[tuple[int, int]]:
    """The numbers of chunks and copies that leave enough points to a chunk, and need not too much memory."""
    points = extent(scatter.serial[0])
    size = prod(ix.upper(d) for d in scatter.store.buffer.shape) * copied_type(scatter.store).size
    for n in (1, *SCATTER_CHUNKS):
        for c in (1, *COPIES):
            if n * c > 1 and n * c * size <= MOST_COPIES and n * LEAST_POINTS <= points:
                yield n, c


SPLIT = Option(
    name="SPLIT",
    letter="K",
    on="any",
    arg={"n": int, "copies": int},
    amount="n",
    defaults={"n": 1, "copies": 1},
    short=(("", "n"), ("x", "copies")),
    choices={"copies": (1, *COPIES)},
    kind="grid",
    stored=always,
    legend="split",
    docs=(
        Doc(
            "SPLIT(axis, n)",
            "Of an axis that is reduced over: compute the reduction in n chunks on the grid. A second phase adds them up in order (`REASSOC`). "
            "Options that follow are for the first phase, where the chunks are the axis `axis.s`.",
        ),
        Doc(
            "SPLIT(axis, n)",
            "Of an axis that is scanned along: compute the scan in n chunks on the grid. One phase combines the elements of each chunk, a "
            "short one scans these, and the last scans each chunk from what comes before it (`REASSOC`). An option that "
            "follows is for the first phase and the last, as far as they have what it names.",
        ),
        Doc(
            "SPLIT(axis, n, copies=c)",
            "Of the points of a scatter: scatter into private copies of the outputs, c for each of n chunks, which a second phase combines "
            "in order (`REASSOC` for sums of floats) ([below](#scatters-into-copies)). A value or an output in place of the axis splits it alone.",
        ),
    ),
    golden={
        "splitk": Golden("sum_all", {"n": 256}, [["SPLIT", "n", 4], ["UPCAST", "n", 16]]),
        "splitscan": Golden("cumsum", {"m": 2, "n": 64}, [["SPLIT", "n", 4], ["UPCAST", "n", 8]]),
        "private": Golden("embedding_grad", {"v": 6, "n": 64, "d": 16}, [["SPLIT", "dtable", {"n": 2, "copies": 2}], ["UPCAST", "d", 16]]),
    },
    rewrite=rewrite,
    by_phase=by_phase,
    propose=propose,
)
