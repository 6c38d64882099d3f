"""FOLD: reductions over one axis that read each other, and a product that spans it, run in tiles of the axis.

Attention written out keeps a row of scores for each query: their maximum, then the sum of their exponentials, then a sum of rows
weighted by these. As a fold it does all of that for a tile of the keys at a time and merges the tiles (`ir.online`). The scores of
many queries then stay in the nearest cache, exponentials are computed once, and tiles that a mask hides are not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain, count

from ...ir.body import Fold, Value
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axis, make
from ...ir.normal_form import tidy_as_named
from ...ir.online import NoFold, online
from ...ir.operators import substitute_on
from ..neighbourhood import Neighbourhood
from ..opt import Opts, opt
from ..registry import Doc, Option, Rewriting, always
from ..rewrites.kernel_parts import changed_item, changed_store, with_axes
from ..schedule import Scheduled

END = ".o"
"""What stands behind a name that an axis or a value of a fold gets from one of the kernel."""


@lru_cache(maxsize=128)
def folded(kernel: Kernel, name: str) -> Kernel:
    """`kernel` with the reductions over an axis or a family as a fold. Raises OptError where none can
    be made. Axes that lie in one loop nest only keep their names. A family with several sites is called after one of the kernel's, with
    `.o` behind, and its sites by number: `key.o`, `key.o1`. Values that several parts of the block read are `top.o1` and so on, after its
    first component."""
    found = online(kernel, along=name, spanning=True)
    if isinstance(found, NoFold):
        raise OptError(f"FOLD({name}): {found.reason}")
    tidied = tidy_as_named(found)
    # (sites of one family that a fold parts have families of their own, which only the tidied kernel has)
    return _values_named(_axes_named(tidied, _origins(kernel, tidied) | _origins(kernel, found)), kernel)


@lru_cache(maxsize=128)
def foldable(kernel: Kernel) -> str:
    """The family of `kernel` that FOLD may name; empty where there is none."""
    if len(kernel.body) < 2 or kernel.blocks is not None:
        return ""
    found = online(kernel, spanning=True)
    folds = [item for item in found.body if isinstance(item, Fold)] if isinstance(found, Kernel) else []
    over = (a for f in folds for c in f.components if c in kernel.values for a in kernel.values[c].reduce_axes)
    # (of several axes that a component reduces, only one is the fold's)
    return next((name for name in dict.fromkeys(str(a.arg.family) for a in over) if online(kernel, along=name, spanning=True)), "")


def _origins(kernel: Kernel, found: Kernel) -> dict[str, list[Node]]:
    """The axes of `kernel` that each family of the kernel with a fold stands for, in the order of its values and stores."""
    out: dict[str, list[Node]] = {}
    pairs = [(kernel.values[n], v) for n, v in found.values.items() if n in kernel.values]
    old_new = [((*a.axes, *a.reduce_axes), (*b.axes, *b.reduce_axes)) for a, b in pairs]
    old_new += [(a.axes, b.axes) for a, b in zip(kernel.stores, found.stores, strict=True)]
    for old, new in old_new:
        for a, b in zip(old, new, strict=False):
            if a.arg.extent == b.arg.extent and a not in out.setdefault(b.arg.family, []):
                out[b.arg.family].append(a)
    return out


def _axes_named(kernel: Kernel, origins: dict[str, list[Node]]) -> Kernel:
    """`kernel` with every axis named after one of the kernel that it was made from."""
    table: dict[Node, Node] = {}
    taken: set[str] = set()
    folds = {item.axis.arg.family for item in kernel.body if isinstance(item, Fold)}
    for family, axes in kernel.families.items():
        sites = [a for a in axes if not any(a is item.axis for item in kernel.body if isinstance(item, Fold))]
        whole = len(sites) == 1 and family not in folds
        mine = origins.get(family, ())
        known = [a.arg.name for a in mine] if whole else [x for a in mine for x in (a.arg.family, a.arg.name)]
        base = next(x for x in chain(known, (family,), (f"{family}.{k}" for k in count(2))) if x not in taken)
        taken.add(base)
        for k, a in enumerate(sites):
            table[a] = axis(base, a.arg.extent, base) if whole else axis(f"{base}{END}{k + 1}", a.arg.extent, base + END)
        table |= {a: axis(base + END, a.arg.extent, base + END) for a in axes if a not in table}
    return with_axes(kernel, table)


def _values_named(kernel: Kernel, old: Kernel) -> Kernel:
    """`kernel` with what `old` has no reduction for named after one that it has; components keep their names."""
    components = [c for item in kernel.body if isinstance(item, Fold) for c in item.components]
    kept = {n for n, v in old.values.items() if not isinstance(v.expr, Node)} | {*components}
    base = next(v for v in (*components, *kernel.values) if v in old.values)
    new = {n: f"{base}{END}{k + 1}" for k, n in enumerate(n for n in kernel.values if n not in kept)}

    def go(e: Node) -> Node:
        return substitute_on(e, {}, lambda n, src: make("ref", n.dtype, src, new.get(n.arg, n.arg)))

    def value(v: Value) -> Value:
        return replace(v, name=new.get(v.name, v.name))

    body = [changed_item(item, go) for item in kernel.body]
    named = tuple(value(x) if isinstance(x, Value) else replace(x, block=tuple(map(value, x.block))) for x in body)
    return replace(kernel, body=named, stores=tuple(changed_store(s, go) for s in kernel.stores))


def rewrite(r: Rewriting) -> Scheduled:
    """The kernel with a fold; the other options are for that."""
    o = r.only("a kernel has one fold")
    a = r.apply(folded(r.kernel, o.on), r.others, r.target)
    return r.schedule((a,), a.effects | {"REASSOC"})


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """The axis along which a chain of reductions reads a product that spans it."""
    if near.cpu and "FOLD" not in near.ops and (name := foldable(near.kernel)):
        yield (opt("FOLD", name),)


FOLD = Option(
    name="FOLD",
    letter="FO",
    on="axis",
    arg=None,
    kind="stage",
    regroups=always,
    legend="fold in tiles",
    docs=(
        Doc(
            "FOLD(axis)",
            "Run reductions over the axis that read each other in tiles of it, with the product that they read: attention that is "
            "written as scores, their maximum, a sum and a weighted sum. Tiles are merged as online softmax does it (`REASSOC`) "
            "([below](#folds)).",
        ),
    ),
    rewrite=rewrite,
    by_phase=lambda kernel, o: True,
    proposes_whole=True,
    propose=propose,
)
