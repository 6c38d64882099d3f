"""A sum of those elements whose key is the result's place is added up where the keys say, by a phase before the rest.

`Σ_i where(key[i] == v, x[i], 0)` for every v is a comparison of each key with each place (`ir.sums_by_key`); as a scatter each element is added
once. The kernel may then read the totals as it reads the sum: a histogram that is made a table, or means of groups that their members are
compared with. (A store with `combine` says the same of an output, which its own kernel cannot read.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...ir import index as ix
from ...ir.body import Store, Value, values_of
from ...ir.buffer import Buffer
from ...ir.dtypes import DType, index
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, const
from ...ir.operators import cast, substitute
from ...ir.sums_by_key import SumByKey, sums_by_key
from .kernel_parts import left, loaded, needed, renamed, store_roots, totals
from .rule import Named, RewriteRule, together


def scattered(kernel: Kernel, names: Sequence[str]) -> tuple[Kernel, Kernel] | None:
    """(the sums `names`, added up at their keys; what is left and loads these). None where one is no such sum, or needs another."""
    known = sums_by_key(kernel)
    if not names or any(n not in known for n in names):
        return None
    sums = [v for v in kernel.body if isinstance(v, Value) and v.name in names]
    needs = [{x.name for item in needed(kernel.body, (v.body,)) for x in values_of(item)} for v in sums]
    if any(n & set(names) for n in needs):
        return None
    loops: dict[tuple[int | Node, ...], tuple[Node, ...]] = {}
    stores = [_store(known[v.name], loops) for v in sums]
    body = needed(kernel.body, (r for s in stores for r in store_roots(s)))
    first = Kernel(f"{kernel.name}_keys", body, tuple(stores), (*loaded(kernel.inputs, body, stores), *(s.buffer for s in stores)))
    works = {v.name: replace(s.buffer, role="in") for v, s in zip(sums, stores, strict=True)}
    return first, left(kernel, works)


def _range_of(key: Node) -> tuple[int, int]:
    """The least and the largest number that a key's type holds, as an index: what callers state of an input is not relied on, since a key
    beside it has been counted nowhere so far. Large numbers without a sign are negative ones there."""
    while key.op == "cast" and _is_widening(key.src[0].dtype, key.dtype):
        key = key.src[0]
    bits = 8 * key.dtype.size
    return (0, (1 << bits) - 1) if key.dtype.kind == "u" and bits < 64 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _is_widening(of: DType, to: DType) -> bool:
    """Whether a wider type has all numbers of an integer type."""
    return of.is_int and of is not index and of.size < to.size and (of.kind == "u" or to.kind == "i")


def _store(k: SumByKey, loops: dict[tuple[int | Node, ...], tuple[Node, ...]]) -> Store:
    """The sum as a store that adds; `loops`: axes that sums over as many elements go through together."""
    v, reduced = k.value, k.value.reduce_axes
    shared = loops.setdefault(tuple(a.arg.extent for a in reduced), reduced)
    if not set(shared).isdisjoint((*v.axes, *(axes_of(v.body) - set(reduced)))):
        shared = reduced
    along = dict(zip(reduced, shared, strict=True))
    conditions = [substitute(c, along) for c in k.conditions]
    places: list[Node] = []
    for a in v.axes:
        at = a if a not in k.keys else cast(substitute(k.keys[a], along), index)
        places.append(at)
        low, high = _range_of(k.keys[a]) if a in k.keys else (0, 0)
        conditions += [ix.compare("le", const(0), at)] if low < 0 else []
        conditions += [ix.compare("lt", at, const(a.arg.extent))] if high >= ix.upper(a.arg.extent) else []
    mask = None
    for c in conditions:
        mask = c if mask is None else mask & c
    axes = (*(a for a in v.axes if a not in k.keys), *shared)
    work = Buffer(totals(v.name), v.dtype, tuple(a.arg.extent for a in v.axes), "out")
    return Store(work, tuple(places), cast(substitute(k.part, along), v.dtype), axes, "add", mask)


END = ".s"
"""Behind the names of the first phase's axes."""


@lru_cache(maxsize=64)
def _kernels(kernel: Kernel, named: tuple[Named, ...]) -> tuple[Kernel, ...]:
    """The kernels of the two phases; OptError where the sums are none by keys, or need each other."""
    names = tuple(name for name, _ in named)
    found = scattered(kernel, names)
    if found is None:
        known = ", ".join(sums_by_key(kernel)) or f"{kernel.name} has none"
        raise OptError(f"scatter of {', '.join(names)}: name sums of where(key == place, ..., 0) that do not need each other ({known})")
    return renamed(found[0], END), found[1]


SCATTER = RewriteRule(
    name="scatter",
    kernels=_kernels,
    proposals=lambda kernel, taken: together(sums_by_key(kernel), taken),
    processors="keys of threads would meet",
    written="REWRITE(sum, rule=scatter)",
    meaning="Add up a sum of `where(key == place, …, 0)` at the places that the keys say, by a phase before the rest: each element once, "
    "not once for every place ([below](#sums-by-keys)).",
)
