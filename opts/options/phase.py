"""PHASE: a value is computed by a phase of its own, before all that reads it.

Loops of one phase share a grid, so a value that is read at shifted places keeps them all serial. In a phase of its own it has a
grid of its own: it is stored to the workspace between phases, as the partial results of SPLIT are, and what follows loads it
from there. (What Halide calls compute_root, with a parallel loop for each stage.)"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from ...ir import index as ix
from ...ir.body import Fold, Store, Value
from ...ir.buffer import Buffer, load
from ...ir.dtypes import bool_, index
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...ir.operators import substitute
from ..analysis.structure import read_elsewhere
from ..memory_limits import check_work
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..plans import ONCE
from ..registry import OPTIONS, Doc, Golden, Option, Rewriting, check_workspace
from ..rewrites.kernel_parts import changed_item, changed_store, loaded, needed, renamed, store_roots
from ..schedule import Scheduled
from ..syntax import FLAG


def workspace(value: str) -> str:
    """The name of the buffer in which a value waits for the phases that read it."""
    return f"{value}.kept"


@lru_cache(maxsize=64)
def phased(kernel: Kernel, names: tuple[str, ...], apart: frozenset[str] = frozenset()) -> tuple[Kernel, ...]:
    """The kernels of all phases, in order: one for each of the values `names`, which come in the kernel's order, and the rest. Of
    those `apart`, the axes have names of their own: `m.p1` in the first phase, `m.p2` in the second."""
    out = []
    rest = kernel
    for i, name in enumerate(names):
        first, rest = _separated(rest, name)
        out.append(renamed(first, f".p{i + 1}") if name in apart else first)
    return (*out, rest)


def _separated(kernel: Kernel, name: str) -> tuple[Kernel, Kernel]:
    """(what computes a value, what is left and loads it)."""
    place = next((i for i, item in enumerate(kernel.body) if item.name == name), None)
    if place is None:
        raise OptError(f"PHASE({name}): nothing reads it")
    v = kernel.body[place]
    assert isinstance(v, Value)
    shape = tuple(a.arg.extent for a in v.axes)
    out = Buffer(workspace(name), v.dtype, shape, "out")
    pointwise = isinstance(v.expr, Node)
    store = Store(out, v.axes, v.expr if isinstance(v.expr, Node) else v[v.axes], v.axes)
    body = needed(kernel.body[:place] if pointwise else kernel.body[: place + 1], (store.expr,))
    first = Kernel(f"{kernel.name}_{name}", body, (store,), (*loaded(kernel.inputs, body, (store,)), out))
    kept = Buffer(out.name, v.dtype, shape)

    def loads(root: Node) -> Node:
        return substitute(root, {n: load(kept, tuple(loads(i) for i in n.src)) for n in walk(root) if n.op == "ref" and n.arg == name})

    stores = tuple(changed_store(s, loads) for s in kernel.stores)
    later = tuple(changed_item(item, loads) for item in kernel.body if item.name != name)
    rest = needed(later, (r for s in stores for r in store_roots(s)))
    return first, Kernel(kernel.name, rest, stores, (*loaded((*kernel.inputs, kept), rest, stores), *kernel.outputs))


def rewrite(r: Rewriting) -> Scheduled:
    """A schedule for each phase. An option is for every phase that has what it names."""
    for i, o in enumerate(r.mine):
        if any(x.on == o.on for x in r.mine[:i]):
            raise OptError(f"{o}: it has a phase already")
        if o.fields["apart"] not in (0, 1):
            raise OptError(f"{o}: apart is 1 where its axes get names of their own, else 0")
        _check(r.kernel, o)
    names = {o.on for o in r.mine}
    apart = frozenset(o.on for o in r.mine if o.fields["apart"])
    return in_phases(r, phased(r.kernel, tuple(item.name for item in r.kernel.body if item.name in names), apart))


def order(kernel: Kernel, mine: Opts) -> int:
    """The order among options. A phase of a pointwise value comes before other options put what it holds into sums. (Others name
    values, such as operands, that those options make.)"""
    values = [kernel.values.get(o.on) for o in mine]
    return 0 if all(values) and any(v is not None and isinstance(v.expr, Node) for v in values) else 1


def in_phases(r: Rewriting, kernels: tuple[Kernel, ...]) -> Scheduled:
    """The schedule of kernels that run one after another: what is before the last one waits in the workspace."""
    check_workspace(r)
    check_work(r.mine[0], sum(b.dtype.size * prod(ix.upper(d) for d in b.shape) for k in kernels[:-1] for b in k.outputs))
    axes = frozenset(x for k in kernels for x in _axes(k))
    lost = next((o for o in r.others if not any(concerns(o, k, axes) for k in kernels)), None)
    if lost is not None:
        known = sorted({a.arg.name for k in kernels for a in k.axes} | {b.name for k in kernels for b in k.buffers})
        raise OptError(f"{lost}: no phase has what it names (there are: {', '.join(known)})")
    found = [r.apply(k, tuple(o for o in r.others if concerns(o, k, axes)), r.target) for k in kernels]
    return r.schedule(tuple(found), frozenset().union(*(s.effects for s in found)))


def _check(kernel: Kernel, o: Opt) -> None:
    item = next((i for i in kernel.body if i.name == o.on), None)
    if item is None and o.on in kernel.values:
        raise OptError(f"{o}: {o.on} is part of a fold, which has one phase with what it merges")
    if item is None or isinstance(item, Fold):
        names = [i.name for i in kernel.body if isinstance(i, Value)]
        raise OptError(f"{o}: name a value of the kernel ({', '.join(names) or 'it has none'})")
    if item.dtype is index or item.dtype is bool_:
        raise OptError(f"{o}: {o.on} is {item.dtype}, which no buffer holds; cast it to an integer type first")
    if any(a.arg.extent == 0 for a in item.axes):
        raise OptError(f"{o}: {o.on} has no elements")


def concerns(o: Opt, kernel: Kernel, known: frozenset[str]) -> bool:
    """Whether a kernel has all that an option names: the axes its loops belong to, its buffers and values. `known`: the axes and
    families of all phases. A loop is of the axis with the longest name that its own begins with: `k.f1.t` of `k.f1`, not of `k`."""
    form, axes = OPTIONS[o.op], _axes(kernel)
    tensors = {b.name for b in kernel.buffers if b.role == "out" or not form.stored(o)} | set(kernel.values)

    def loop(name: str) -> bool:
        if any(name.startswith(f"{t}.") and name[len(t) + 1 :][:1].isdigit() for t in tensors):  # (y.0 clears dimension 0 of a scatter's y)
            return True
        while name not in known and "." in name:
            name = name.rpartition(".")[0]
        return name in axes or name in ("grid", ONCE)

    kind = form.names(o.fields)
    here = kind == "grid" or (kind in ("tensor", "any") and o.on in tensors) or (kind != "tensor" and loop(o.on))
    return here and all(loop(str(o.fields[f])) for f in form.named_fields if o.fields[f])


@lru_cache(maxsize=256)
def _axes(kernel: Kernel) -> frozenset[str]:
    return frozenset(x for a in kernel.axes for x in (a.arg.name, a.arg.family))


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Values that are read elsewhere than where they are made: each alone, and all of them."""
    found = [v for v in read_elsewhere(near.kernel) if ("PHASE", v) not in near.taken]
    yield from ((opt("PHASE", v),) for v in found)
    if len(found) > 1:
        yield tuple(opt("PHASE", v) for v in found)


PHASE = Option(
    name="PHASE",
    letter="PH",
    on="tensor",
    arg={"apart": int},
    defaults={"apart": 0},
    short=((FLAG, "apart"),),
    choices={"apart": (0, 1)},
    kind="grid",
    legend="phase",
    docs=(
        Doc(
            "PHASE(value, apart=0)",
            "Compute a value by a phase of its own, with its own grid, before all that reads it. It waits in memory. "
            "An option that follows is for each phase that has what it names ([below](#chains-of-stencils)). With `apart=1` "
            "the axes of the phase have names of their own: those of the first such phase end in `.p1`.",
        ),
    ),
    golden={"phase": Golden("softmax", {"m": 4, "n": 32}, [["PHASE", "e"], ["UPCAST", "n", 16], ["PARALLEL", "m"]])},
    rewrite=rewrite,
    order=order,
    by_phase=lambda kernel, o: True,
    proposes_whole=True,
    propose=propose,
)
