"""Which schedule of a decision tree over sizes (`cache.size_tree`) a kernel has.

A row of the kernel whose sizes are symbols holds two trees with the same tests: of schedules for kernels of single sizes ("exact"), which
answer where nothing was measured for those very sizes, and of schedules for symbols ("symbolic"), each verified with the ranges that its
sizes have. Sizes of a kernel are told by the shapes of its arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..cache.file_check import CacheWarning
from ..cache.objective_types import TIME
from ..cache.rows import TREE as FACT
from ..cache.size_tree import SizeTree, name_of, parse_tree
from ..ir.errors import CacheError, OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..ir.normal_form import Canonical, loose, normalise
from ..opts import SYNTAX, apply_cached, fits, parse, short
from .identity import canonical_of, opts_of, opts_text

if TYPE_CHECKING:
    from ..cache import Cache, Row
    from ..cache.keys import Key
    from ..devices import Device
    from ..opts import Opt
    from ..targets import Target

EXACT, SYMBOLIC = "exact", "symbolic"
"""The trees of a row, by the kernels that they are for."""
_NAMES = ("tensors", "axes", "loops")


def facts_of(kernel: Kernel, fixed: Mapping[str, int], **trees: SizeTree | None) -> dict[str, Any]:
    """What a row of a kernel with symbols keeps of its trees, whose schedules have the names of the kernel's normal form. `fixed`: sizes of
    the trees that are numbers here."""
    kernel = normalise(kernel)
    names = canonical_of(kernel)
    return {
        FACT: {
            "shapes": [[_extent_text(d) for d in b.shape] for b in kernel.buffers],
            "fixed": dict(fixed),
            "names": {n: getattr(names, n) for n in _NAMES},
            **{which: tree.lines() for which, tree in trees.items() if tree is not None},
        }
    }


def _extent_text(extent: int | Node) -> int | str:
    """An extent: a number, the name of a size, or '' for what depends on several."""
    return extent if isinstance(extent, int) else extent.arg.name if extent.op == "sym" else ""


def tree_in(row: Row, which: str) -> SizeTree | None:
    """A tree of a row, if it has one that can be read; a warning says why it cannot."""
    said = row.facts.get(FACT)
    if not isinstance(said, dict) or which not in said:
        return None
    try:
        return parse_tree(said[which], f"the {which} tree of sizes of {row.name or 'a kernel'}")
    except CacheError as e:
        warnings.warn(f"{e}; it is ignored", CacheWarning, stacklevel=2)
        return None


def symbolic_tree(kernel: Kernel, key: Key, cache: Cache) -> tuple[SizeTree, Row] | None:
    """The tree for a kernel with symbols, of the newest row of its key that has one for these very ranges."""
    ranges = {s.arg.name: (s.arg.lo, s.arg.hi) for s in kernel.symbols}
    rows = sorted((r for r in cache.answers(key) if FACT in r.facts), key=lambda r: r.when, reverse=True)
    for row in rows[:1]:
        tree = tree_in(row, SYMBOLIC)
        if tree is not None and dict(tree.ranges) == ranges:
            return tree, row
    return None


def tree_of_sizes(kernel: Kernel, key: Key, cache: Cache) -> tuple[SizeTree, Row, dict[str, int]] | None:
    """(tree, its row, sizes) for a kernel without symbols, of the newest row of a kernel that differs in its sizes alone. (Kernels where
    a size is 1 have an axis less, and rows of their own.)"""
    if kernel.symbols or key.objective != TIME or cache.is_empty():
        return None
    for row in cache.with_trees(key, loose(kernel)["extents"]):
        tree = tree_in(row, EXACT)
        sizes = None if tree is None else _sizes(kernel, row.facts[FACT].get("shapes"), row.facts[FACT].get("fixed"))
        if tree is not None and sizes is not None and set(tree.ranges) <= set(sizes):
            return tree, row, sizes
    return None


def _sizes(kernel: Kernel, shapes: Any, fixed: Any) -> dict[str, int] | None:
    """The sizes by name, where the shapes of a kernel's arrays are those of the kernel with symbols."""
    found: dict[str, int] = {k: v for k, v in fixed.items() if type(v) is int} if isinstance(fixed, dict) else {}
    if not isinstance(shapes, list) or len(shapes) != len(kernel.buffers):
        return None
    for buffer, shape in zip(kernel.buffers, shapes, strict=True):
        if not isinstance(shape, list) or len(shape) != len(buffer.shape):
            return None
        for name, extent in zip(shape, buffer.shape, strict=True):
            assert isinstance(extent, int)
            if isinstance(name, str) and name and found.setdefault(name, extent) != extent:
                return None
            if isinstance(name, int) and name != extent:
                return None
    return found


OWN = 1.05, 0.98
"""A schedule of a tree that the model expects to be so many times as slow as the kernel's own first start schedule gives way to that: one that is
as it was measured, and one that was made another to fit. (Start schedules are ranked by instructions counted, which tell more than the model.)"""


def as_here(
    kernel: Kernel, opts: tuple[Opt, ...], target: Target, estimate: Callable[[tuple[Opt, ...]], float], own: tuple[Opt, ...]
) -> tuple[Opt, ...]:
    """A schedule of other sizes as a kernel of single sizes (in normal form) has it: of what it may be there (`opts.fitted.fits`), what the
    model, `estimate`, expects to be fastest; or `own`, the kernel's first start schedule, where nothing of it fits well (`OWN`)."""
    best = min(fits(kernel, opts, target), key=estimate)
    return own if estimate(best) > OWN[best != opts] * estimate(own) else best


def schedule_for(kernel: Kernel, tree: SizeTree, row: Row, sizes: Mapping[str, int], device: Device, threads: int) -> tuple[Opt, ...]:
    """The schedule that a tree has for a kernel of these sizes (in normal form), as far as it is legal there."""
    from ..heuristics import estimate, starts

    def seconds(opts: tuple[Opt, ...]) -> float:
        return estimate(apply_cached(kernel, opts, device.target), threads, device.limits())

    opts = tree.schedules[tree.at(sizes)]
    return as_here(
        kernel, tuple(_renamed(opts, row, canonical_of(kernel))), device.target, seconds, starts(kernel, device.target, threads)[0]
    )


def explained(kernel: Kernel, key: Key, cache: Cache, device: Device) -> list[str]:
    """What a tree of sizes has for a kernel that nothing was measured for, as lines; none where no tree is."""
    kernel = normalise(kernel)
    found = tree_of_sizes(kernel, key, cache)
    if found is None:
        return []
    tree, row, sizes = found
    here = ", ".join(f"{n}={sizes[n]}" for n in tree.ranges)
    answer = f"a tree of sizes answers ({row.name or 'kernel'}, measured {row.when}): {here} has"
    taken = schedule_for(kernel, tree, row, sizes, device, key.threads)
    fitting = fits(kernel, tuple(_renamed(tree.schedules[tree.at(sizes)], row, canonical_of(kernel))), device.target)
    own = "" if taken in fitting else f": its own first start schedule, as {name_of(tree.at(sizes))} is not expected to be faster there"
    return [
        f"{answer} {short(taken)}{own}",
        *(f"  {said}" for said in tree.outside(sizes)),
        *(f"  {line}" for line in tree.lines()),
    ]


def parts_of(kernel: Kernel, tree: SizeTree, row: Row) -> list[tuple[int, dict[str, tuple[int, int]], tuple[Opt, ...]]]:
    """The schedules of a symbolic tree in the names of a kernel (in normal form): (number, ranges of the sizes that have it, options). A
    range has at least two sizes, so that all parts have the same symbols."""
    names, out = canonical_of(kernel), []
    for i, opts in enumerate(tree.schedules):
        renamed = tuple(_renamed(opts, row, names))
        if len(renamed) == len(opts):
            out.append((i, widened(tree.box(i), tree.ranges), renamed))
    return out


def widened(box: Mapping[str, tuple[int, int]], ranges: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Ranges of at least two sizes, in others that have as many."""
    return {n: (lo, hi) if lo < hi else (lo, lo + 1) if lo < ranges[n][1] else (lo - 1, lo) for n, (lo, hi) in box.items()}


def measured_rows(kernel: Kernel, key: Key, opts: Sequence[Opt], cache: Cache) -> list[Row]:
    """The rows of a key that are of one schedule."""
    try:
        wanted = opts_text(kernel, opts)
    except OptError:
        return []
    return [r for r in cache.answers(key) if r.usable and opts_text(kernel, opts_of(r, canonical_of(kernel))) == wanted]


def _renamed(opts: Sequence[Opt], row: Row, names: Canonical) -> Iterator[Opt]:
    """A row's options in the names of another kernel, without those on what it lacks."""
    said = row.facts[FACT].get("names")
    if not isinstance(said, dict):
        return
    theirs = Canonical("", "", "", {}, *({str(k): str(v) for k, v in dict(said.get(n, {})).items()} for n in _NAMES))
    for o in opts:
        try:
            yield from parse(names.from_canonical(theirs.to_canonical([o.json], SYNTAX), SYNTAX))
        except OptError:
            continue
