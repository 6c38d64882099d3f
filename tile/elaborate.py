"""From a trace to a kernel: nests over whole axes, folds derived, names tidied, and what is left of the blocks noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..ir.blocks import DecidedBlocks
from ..ir.body import Fold, values_of
from ..ir.buffer import Buffer
from ..ir.checks.check import check_reads
from ..ir.checks.written_once import check_written_once
from ..ir.errors import KernelError
from ..ir.in_place import in_place
from ..ir.kernel import Kernel
from ..ir.node import Node, axis
from ..ir.normal_form.naming import tidy
from ..ir.rewrite import OtherAxes
from .nests import TileNests
from .trace import LoopTrace, Step, TileStore, Trace


@dataclass(frozen=True)
class Elaborated:
    """`raw`: the kernel as its nests came out. `kernel`: as it is handed out, without its blocks. `blocks`: the steps that are a
    matter of schedules, by the family that they cut. `meant`: names of the steps whose block size is part of what is computed."""

    raw: Kernel
    kernel: Kernel
    blocks: dict[str, Step]
    meant: tuple[str, ...]


def elaborate(trace: Trace, aliases: Mapping[str, str], finish: bool = True) -> Elaborated:
    """The kernel that a trace computes. With `finish` false only `raw` is made as it should be."""
    stores = list(_stores(trace.items))
    if not stores:
        raise KernelError(f"{trace.name} stores nothing: y[rows, cols] = tile writes an output")
    unwritten = [b.name for b in trace.buffers if b.role == "out" and all(s.buffer is not b for s in stores)]
    if unwritten:
        raise KernelError(f"{trace.name} never stores to its output {unwritten[0]}")
    nests = TileNests(trace, stores)
    used = [b for b in trace.buffers if b.role == "in"] + [b for b in trace.buffers if b.role == "out"]
    raw = _checked(trace.name, nests, tuple(used))
    joined = {s.axis for n in nests.nests for s in n.steps.values()}
    kept = {a for n in nests.nests for a in (*n.axes, *n.over)}
    meant = tuple(
        s.name for a, s in trace.steps.items() if s.block is not None and (a in kept or a not in joined) and s.axis.arg.extent > 1
    )
    if not finish:
        return Elaborated(raw, raw, {}, meant)
    kernel = tidy(_folded(raw) if trace.carries else raw)
    kernel = _renamed(kernel, _families(nests, kernel))
    blocks = {s.name: s for s in trace.steps.values() if s.block is not None and s.name not in meant and s.name in kernel.families}
    return Elaborated(raw, in_place(kernel, aliases), blocks, meant)


def _stores(items: list[LoopTrace | TileStore]) -> Iterator[TileStore]:
    for item in items:
        if isinstance(item, TileStore):
            yield item
        else:
            yield from _stores(item.items)


def _checked(name: str, nests: TileNests, buffers: tuple[Buffer, ...]) -> Kernel:
    try:
        raw = Kernel(name, nests.values(), nests.stores(), buffers)
        check_reads(raw)
    except KernelError as e:
        text = str(e)
        raise KernelError(_in_words(nests, text)) from None
    try:
        check_written_once(raw)
    except KernelError as e:
        raise KernelError(
            f"{_in_words(nests, str(e))}. Cells of the grid run in any order, and at the same time: a place that two of them write is a race "
            "(y.add(tile, rows, cols) adds up)"
        ) from None
    return raw


def _in_words(nests: TileNests, text: str) -> str:
    """An error about nests, with the names of the tile kernel's axes and what one writes there."""
    names = {a.arg.name: s.name for n in nests.nests for a, s in n.steps.items()}
    names |= {a.arg.name: s.name if s.block is None else f"{s.name}.cell" for a, s in nests.trace.steps.items()}
    lanes = sorted({a.arg.name for n in nests.nests for a in (*n.axes, *n.over)} - set(names), key=lambda x: (len(x), x))
    names |= {x: f"place{k or ''}" for k, x in enumerate(lanes) if x.startswith("\0l")}
    for known in sorted(names, key=len, reverse=True):  # a longer name may begin with a shorter one
        text = text.replace(known, names[known])
    text = text.replace("(kb.sum)", "(t.sum)").replace("Give combine='add' (or 'max', ...)", "Combine, as y.add does,")
    head, found, _ = text.partition("or read it by ")
    return f"{head}or load it with mask=... or other=... (where() does not keep a load from memory)" if found else text.replace("\0", "")


def _folded(raw: Kernel) -> Kernel:
    """The kernel with its chain of reductions as a fold, where it has one."""
    from ..ir.online.rewrite import online

    found = online(raw)
    return found if isinstance(found, Kernel) else raw


# names ------------------------------------------------------------------------------------------------------------------
def _families(nests: TileNests, tidied: Kernel) -> dict[str, str]:
    """What the grid and the loops call the families of the tidy kernel: by the place of an axis in its store or value, which tidying
    keeps. Whole blocks come first, then dimensions that a cell has all of."""
    found: dict[str, str] = {}
    stores = [n for n in nests.nests if n.buffer is not None]
    pairs = [(n.axes, s.axes) for n, s in zip(stores, tidied.stores, strict=True)]
    values = {v.name: v for item in tidied.body for v in values_of(item)}
    pairs += [(n.over, v.reduce_axes) for n in nests.nests if (v := values.get(n.name)) is not None]
    for step in (True, False):
        for (mine, its), n in zip(pairs, [*stores, *(n for n in nests.nests if n.name in values)], strict=True):
            for a, b in zip(mine, its, strict=False):
                known = n.steps.get(a) or nests.trace.steps.get(a)
                name = nests.trace.lanes.get(a, "") if known is None or not step else known.name
                if len(mine) == len(its) and a.arg.extent == b.arg.extent and name and (known is not None) is step:
                    found.setdefault(b.arg.family, name)
    return found


def _renamed(kernel: Kernel, wanted: dict[str, str]) -> Kernel:
    """Families called as the grid and the loops call them."""
    taken = {b.name for b in kernel.buffers} | set(kernel.values) | {i.name for i in kernel.body if isinstance(i, Fold)}
    names: dict[str, str] = {}
    for family, name in wanted.items():
        if name not in taken and name not in names.values():
            names[family] = name
    clash = set(names.values()) & (set(kernel.families) - set(names))
    changed = {f: n for f, n in names.items() if n not in clash}
    return OtherAxes(kernel, {a: _named(a, changed) for a in kernel.axes}).run()


def _named(a: Node, names: Mapping[str, str]) -> Node:
    """An axis of the family that has another name; itself where it keeps its own."""
    new = names.get(a.arg.family)
    if new is None:
        return a
    _, at, site = a.arg.name.partition("@")
    return axis(f"{new}{at}{site}", a.arg.extent, new)


def with_blocks(kernel: Kernel, blocks: DecidedBlocks | None) -> Kernel:
    """`kernel` with what its schedules must keep to."""
    return replace(kernel, blocks=blocks) if blocks is not None else kernel
