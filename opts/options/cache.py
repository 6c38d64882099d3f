"""CACHE: what the caches do with a buffer: its stores go past them, or its lines are asked for before they are used.

`prefetch`: the last pass of a row kernel has little to compute for each line that it writes, and waits for each: a store reads the line
first. The pass before it, which reads what is in a cache by then and computes more, can have them fetched meanwhile. Where nothing is
stored for each element, the last pass over a row can have the next row fetched. `stream`: stores of whole vectors do not read the line
at all, and leave the caches to others."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir.buffer import Buffer, loads
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, walk
from ...targets import Target
from ..analysis.dot_instructions import same_in_groups
from ..analysis.structure import extent
from ..builder import ScheduleBuilder
from ..memory_limits import buffer_bytes, is_far
from ..neighbourhood import Neighbourhood
from ..nests import FoldItem, Item, Nest, plain
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option
from ..schedule import Scheduled
from ..short_form import meant
from .fuse import by_family

STREAM, PREFETCH = POLICIES = ("stream", "prefetch")


@dataclass(frozen=True, eq=False)
class Prefetch:
    """A reduction asks for `buffer` at `indices`, over its own axes; `later`: where the iteration of the loop around
    it that comes next will read, or the first one that is `ahead` bytes away."""

    nest: Nest
    buffer: Buffer
    indices: tuple[Node, ...]
    later: bool
    ahead: int = 0


AHEAD = 4 << 10
"""Bytes between what a sum of packed numbers reads and what it asks for: so much comes from memory while one line does, and 2 KB was as good."""
FAR = 4
"""A second cache over the bytes of packed rows from which on they are taken to come from memory: between two calls others use it."""

_ASKED: weakref.WeakKeyDictionary[Scheduled, dict[str, list[Prefetch]]] = weakref.WeakKeyDictionary()


def prefetches(s: Scheduled) -> dict[str, list[Prefetch]]:
    """The name of a reduction → what it asks for."""
    if not s.prefetched:
        return {}
    found = _ASKED.get(s)
    if found is None:
        found = _ASKED[s] = {}
        for b in s.kernel.buffers:
            one = prefetching(s.items, b) if b.name in s.prefetched else None
            if one is not None:
                found.setdefault(one.nest.name, []).append(one)
    return found


def prefetching(items: Sequence[Item], buffer: Buffer) -> Prefetch | None:
    """Who asks for a buffer; None where nobody can. Of an output: the last reduction before its only store that runs
    over the store's points, along the axis on which it is consecutive. Of an input: the last of several nests that
    read the same rows, if it is a reduction along them."""
    nests = [n for i in items for n in ((i,) if isinstance(i, Nest) else i.nests if _over_rows(i) else ())]
    return _output(nests, buffer) if buffer.role == "out" else _input(nests, buffer) or _packed(nests, buffer)


def _output(nests: list[Nest], buffer: Buffer) -> Prefetch | None:
    stores = [n for n in nests if n.store is not None and n.store.buffer == buffer]
    if len(stores) != 1 or stores[0].kind != "store" or not _row(stores[0].indices):
        return None
    (n,) = stores
    *outer, last = n.indices
    assert n.store is not None
    if n.store.combine or n.mask is not None:
        return None
    rest = set(n.axes) - {last}
    found = [r for r in nests[: nests.index(n)] if _is_single_axis(r) and set(r.axes) == rest and _alike(r.reduce_axes[0], last)]
    return Prefetch(found[-1], buffer, (*outer, found[-1].reduce_axes[0]), False) if found else None


def _input(nests: list[Nest], buffer: Buffer) -> Prefetch | None:
    reads = [(n, i) for n in nests for b, i, _ in loads(*n.roots) if b == buffer and _row(i)]
    if not reads:
        return None
    n, indices = reads[-1]
    again = any(m is not n and i[:-1] == indices[:-1] and _alike(i[-1], indices[-1]) for m, i in reads)
    if not again or not _is_single_axis(n) or n.reduce_axes[0] is not indices[-1] or not axes_of(*indices[:-1]):
        return None
    return Prefetch(n, buffer, indices, True)


def _packed(nests: list[Nest], buffer: Buffer) -> Prefetch | None:
    reads = [(n, i) for n in nests for b, i, _ in loads(*n.roots) if b == buffer]
    if not reads or any(read != reads[0] for read in reads) or not _is_single_axis(reads[0][0]):
        return None
    (n, indices), (along,) = reads[0], reads[0][0].reduce_axes
    others = [i for b, i, _ in loads(*n.roots) if b != buffer and along in axes_of(*i)]
    grouped = any(x.op == "div" and x.src[0] is along for i in others for x in walk(*i))
    rows = axes_of(*indices) - {along}
    if not grouped or not rows or all(same_in_groups(x, along, 2) for x in indices):
        return None
    return Prefetch(n, buffer, indices, True, AHEAD)


def _over_rows(item: FoldItem) -> bool:
    """Whether a fold does nothing but reduce along its own axis (argmax), like nests one after another."""
    return all(a.arg.family == item.fold.axis.arg.family for n in item.nests for a in n.reduce_axes)


def _row(indices: tuple[Node, ...]) -> bool:
    return bool(indices) and indices[-1].op == "axis" and indices[-1] not in axes_of(*indices[:-1])


def _is_single_axis(n: Nest) -> bool:
    return n.kind == "reduce" and len(n.reduce_axes) == 1


def _alike(a: Node, b: Node) -> bool:
    return bool(a.arg.family == b.arg.family and a.arg.extent == b.arg.extent)


def has_streams(opts: Opts) -> bool:
    """Whether some output's stores go past the caches."""
    return any(o.op == CACHE.name and o.fields["policy"] == STREAM for o in opts)


def act(b: ScheduleBuilder, o: Opt) -> None:
    """Note an output whose stores go past the caches, or a buffer whose lines are asked for."""
    policy = o.fields["policy"]
    if policy not in POLICIES:
        raise OptError(f"{o}: policy is {' or '.join(POLICIES)}")
    buffers = b.kernel.outputs if policy == STREAM else b.kernel.buffers
    if o.on not in {x.name for x in buffers}:
        axes = {x for a in b.plans for x in (a.arg.name, a.arg.family)}
        said = meant("F", o.on, None, {*axes, *b.names}) if policy == PREFETCH else ""
        what = "an output" if policy == STREAM else "a buffer"
        raise OptError(f"{o}: CACHE with {policy} names {what} ({', '.join(x.name for x in buffers)}){said}")
    if policy == STREAM:
        b.nt.add(o.on)
        return
    if b.target.kind == "gpu":
        raise OptError(f"{o}: {b.target.name} has no such request; prefetch is for processors")
    b.prefetched.add(o.on)


def check(s: Scheduled) -> None:
    """Raise OptError where nobody could ask, or where asking would be for nothing."""
    for b in s.kernel.buffers:
        if b.name not in s.prefetched:
            continue
        what = f"CACHE({b.name}, policy={PREFETCH})"
        if s.group > 1:
            raise OptError(f"{what}: a request is for one thread an item; leave it out, or the threads of a group (LOCAL, GROUP)")
        if b.name in s.nt or b.name in s.held or b.name in s.stages:
            raise OptError(
                f"{what}: its lines do not pass through the caches with {STREAM if b.name in s.nt else 'STAGE'}; leave out one of the two"
            )
        if prefetching(s.items, b) is None and b.role == "out":
            raise OptError(f"{what}: no reduction before its store runs over the same points along the output's last axis")
        if prefetching(s.items, b) is None:
            raise OptError(f"{what}: no reduction is the last of several that read the same rows of it, or has scales for groups of them")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Each output, and each buffer that some reduction can ask for; on GPUs neither is worth it."""
    if near.target.kind == "gpu":
        return
    taken = {(o.on, o.fields["policy"]) for o in near.schedule.opts if o.op == CACHE.name}
    yield from ((opt("CACHE", x.name, policy=STREAM),) for x in near.kernel.outputs if (x.name, STREAM) not in taken)
    for b in near.kernel.buffers:
        if (b.name, PREFETCH) not in taken and prefetching(near.schedule.items, b) is not None:
            yield (opt("CACHE", b.name, policy=PREFETCH),)


def with_rows(kernel: Kernel, target: Target) -> Opts:
    """The outputs that are worth asking for, or else the inputs: where an output is asked for, the prefetchers have
    time enough for the inputs."""
    beside = [n.store.buffer for groups in by_family(kernel, target).values() for g in groups for n in g if n.store is not None]
    worth = [b for b in kernel.outputs if b not in beside and _worth_it(kernel, b, target)]
    worth = worth or [b for b in kernel.inputs if _worth_it(kernel, b, target) and not _read_at_once(kernel, b, target)]
    return tuple(opt("CACHE", b.name, policy=PREFETCH) for b in worth)


def _read_at_once(kernel: Kernel, b: Buffer, target: Target) -> bool:
    """Whether all that read rows of a buffer do so in one loop by default (FUSE). Then no pass over a row leaves memory idle, and a request
    for the next row is only a second stream beside the one that the prefetchers follow."""
    items = plain(kernel)
    readers = [n for i in items for n in (i.nests if isinstance(i, FoldItem) else (i,)) if any(x == b for x, _, _ in loads(*n.roots))]
    return any(all(n in group for n in readers) for groups in by_family(kernel, target).values() for group in groups)


def _worth_it(kernel: Kernel, b: Buffer, target: Target) -> bool:
    """Whether rows of a buffer in memory can be asked for before they are used."""
    found, size = prefetching(plain(kernel), b) if target.kind != "gpu" else None, buffer_bytes(b.shape, b.dtype.size)
    # (a row that is read next comes from the last cache as late as from memory)
    least = 2 * target.l2 if found is None or not found.ahead else target.l2 // FAR
    return (is_far(target, b.shape, b.dtype.size) or (b in kernel.inputs and size > least)) and rows_stay(kernel, b, target)


def rows_stay(kernel: Kernel, b: Buffer, target: Target) -> bool:
    """Whether what one pass asks for of a buffer stays in the second cache until the next, beside what both read."""
    found = prefetching(plain(kernel), b) if target.kind != "gpu" else None
    return found is not None and 4 * extent(found.nest.reduce_axes[0]) * b.dtype.size <= target.l2


CACHE = Option(
    name="CACHE",
    letter="C",
    on="tensor",
    arg={"policy": str},
    short=(("/", "policy"),),
    choices={"policy": POLICIES},
    kind="store",
    stored=lambda o: o.fields["policy"] == STREAM,
    legend="stream past caches, or prefetch",
    docs=(
        Doc(
            "CACHE(output, policy=stream)",
            "Use non-temporal stores of whole vectors where the output turns out to be aligned, and to lie apart from what is "
            "loaded in a page, and ordinary stores elsewhere. Of a scatter, this is for the stores that clear the output.",
        ),
        Doc(
            "CACHE(output, policy=prefetch)",
            "Prefetch the output's lines in the last reduction before the store that runs over the same points, "
            "such as softmax's sum. The store then finds the lines in a cache. For processors, with OpenCL too.",
        ),
        Doc(
            "CACHE(input, policy=prefetch)",
            "Where several nests read the same rows, the last of them is a reduction along the rows "
            "(cross_entropy's sum). It prefetches the row that the next iteration of the loop around it reads. A sum with a scale for each "
            "group of a packed row prefetches what it reads some KB later.",
        ),
    ),
    golden={
        "stream": Golden("add", {"m": 8, "n": 32}, [["UPCAST", "n", 32], ["CACHE", "y", {"policy": "stream"}]]),
        "prefetch": Golden("log_softmax", {"m": 4, "n": 32}, [["UPCAST", "n", 32], ["CACHE", "y", {"policy": "prefetch"}]]),
    },
    act=act,
    check=check,
    propose=propose,
    with_rows=with_rows,
    late=lambda o, outputs: o.fields["policy"] == STREAM or o.on in outputs,
)
