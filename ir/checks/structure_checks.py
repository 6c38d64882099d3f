"""Structural checks every kernel passes when it is made."""

from __future__ import annotations

from .. import index as ix
from ..body import COMBINES, Fold, KernelBody, Reduce, Scan, Store, Value, values_of
from ..buffer import Buffer, load_parts
from ..errors import KernelError
from ..node import MASKED, Node, axes_of, walk
from ..operators import substitute

# aliases ----------------------------------------------------------------------------------------------------
# Outputs that share the memory of an input: kernels that work in place.
#
# An element of the input may be read for one element of the output only, the one at its own place: whatever a schedule
# does, that read comes before the write that needs it. (A reduction over the input, or a neighbour's element, might be
# read after its place was written.)


def check_aliases(kernel: KernelBody) -> None:
    """Raise KernelError where an output cannot share the memory of the input that it names."""
    inputs = {b.name: b for b in kernel.inputs}
    taken: dict[str, str] = {}
    for out in kernel.outputs:
        if not out.alias:
            continue
        what = f"kernel {kernel.name}: {out.name} cannot be written in place of {out.alias}"
        source = inputs.get(out.alias)
        if source is None:
            raise KernelError(f"{what}, which is not an input (inputs: {', '.join(inputs) or 'none'})")
        if out.alias in taken:
            raise KernelError(f"{what}: {taken[out.alias]} is already")
        taken[out.alias] = out.name
        if (source.dtype, source.shape) != (out.dtype, out.shape):
            raise KernelError(
                f"{what}: one is {source.dtype}{list(source.shape)}, the other {out.dtype}{list(out.shape)}; give them one type and shape"
            )
        if source.constant:
            raise KernelError(f"{what}, which is constant: what was packed of it would not change")
        stores = [s for s in kernel.stores if s.buffer == out]
        if len(stores) != 1 or stores[0].combine is not None:
            raise KernelError(f"{what}: it is written by more than one plain store")
        if not _is_injective(stores[0]):
            raise KernelError(f"{what}: its indices do not show that every element is written once; store to the axes themselves")
        _check_reads(kernel, source, stores[0], what)


def _check_reads(kernel: KernelBody, source: Buffer, store: Store, what: str) -> None:
    pointwise, reading = _values(kernel, source)
    for other in kernel.stores:
        roots = (other.expr, *other.indices) if other.mask is None else (other.expr, *other.indices, other.mask)
        if other is not store and any(_touches(r, source, reading) for r in roots):
            raise KernelError(
                f"{what}: {other.buffer.name} needs {source.name} too, and might be computed later; store them in kernels of their own"
            )
    if any(_touches(i, source, reading) for i in store.indices):
        raise KernelError(f"{what}: {source.name} decides where it is written")
    todo = [store.expr] if store.mask is None else [store.expr, store.mask]
    seen: set[Node] = set()
    while todo:
        for n in walk(todo.pop()):
            if n.op == "load" and load_parts(n)[0] == source and load_parts(n)[1] != store.indices:
                raise KernelError(
                    f"{what}: {source.name} is read at {list(load_parts(n)[1])} for the element {list(store.indices)}, whose place alone it may read"
                )
            if n.op == "ref" and n.arg in reading and n not in seen:
                seen.add(n)
                if n.arg not in pointwise:
                    raise KernelError(f"{what}: {n.arg} combines elements of {source.name}, which might be read after they are written")
                value = pointwise[n.arg]
                todo.append(substitute(value.body, dict(zip(value.axes, n.src, strict=True))))


def _values(kernel: KernelBody, source: Buffer) -> tuple[dict[str, Value], set[str]]:
    """The pointwise values by name, and the names of all values that need elements of `source`."""
    pointwise: dict[str, Value] = {}
    reading: set[str] = set()
    for item in kernel.body:
        for v in values_of(item):
            if _touches(v.body, source, reading):
                reading.add(v.name)
            if not isinstance(item, Fold) and isinstance(v.expr, Node):
                pointwise[v.name] = v
        if isinstance(item, Fold) and any(v.name in reading for v in item.block):
            reading.update(item.components)
    return pointwise, reading


def _touches(root: Node, source: Buffer, reading: set[str]) -> bool:
    return any((n.op == "load" and load_parts(n)[0] == source) or (n.op == "ref" and n.arg in reading) for n in walk(root))


def _is_injective(store: Store) -> bool:
    """Whether different points certainly have different elements: each axis is in one index, and there each step of
    an axis is longer than all that the axes of shorter steps can reach together."""
    left = set(store.axes)
    for i in store.indices:
        terms, _ = ix.parts(i)
        reach = 0
        for axis, step in sorted(terms.items(), key=lambda t: t[1]):
            if axis not in left or step <= reach:
                return False
            left.discard(axis)
            reach += step * (ix.upper(axis.arg.extent) - 1)
    return all(a.arg.extent == 1 for a in left)


# check ------------------------------------------------------------------------------------------------------
def check(kernel: KernelBody) -> None:
    """Raise KernelError where names clash, references dangle, an expression uses an axis that is not bound, or an
    index certainly leaves its dimension."""
    if not kernel.stores:
        raise KernelError(f"kernel {kernel.name} stores nothing")
    names = [b.name for b in kernel.buffers]
    known: dict[str, Value] = {}
    buffers = set(kernel.buffers)
    for item in kernel.body:
        block = values_of(item)
        inner = dict(known)
        for v in block:
            _value(kernel, v, inner, buffers, {item.axis.arg.family} if isinstance(item, Fold) else set())
            inner[v.name] = v
            names.append(v.name)
        if isinstance(item, Fold):
            for c in item.components:
                known[c] = item.component(c)
            if len(item.monoid.merge) != len(item.components) or len(item.monoid.identity) != len(item.components):
                raise KernelError(f"fold {item.name}: {len(item.components)} components need as many identities and merges")
        else:
            known[item.name] = item
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        told = "; ".join(f"{n} is defined more than once ({' and '.join(_called(kernel, n))})" for n in sorted(twice))
        raise KernelError(f"kernel {kernel.name}: {told}: give one of them another name")
    for s in kernel.stores:
        if len(s.indices) != len(s.buffer.shape):
            raise KernelError(f"store to {s.buffer.name}: {len(s.indices)} indices for {len(s.buffer.shape)} dimensions")
        if len(set(s.axes)) < len(s.axes):
            raise KernelError(f"store to {s.buffer.name} of kernel {kernel.name} has one axis in two places")
        if s.combine is not None and s.combine not in COMBINES:
            raise KernelError(f"store to {s.buffer.name}: unknown combine {s.combine!r}")
        roots = (s.expr, *s.indices) if s.mask is None else (s.expr, *s.indices, s.mask)
        _bound(kernel, f"store to {s.buffer.name}", roots, set(s.axes))
        for root in roots:
            _refs(kernel, root, known, buffers)
    _extents(kernel)
    check_aliases(kernel)


def _called(kernel: KernelBody, name: str) -> list[str]:
    """What all that has a name is, in words."""
    kinds = {Scan: "a scan", Reduce: "a reduction"}
    out = ["an output" if b.role == "out" else "an input" for b in kernel.buffers if b.name == name]
    for item in kernel.body:
        out += [kinds.get(type(v.expr), "a value") for v in values_of(item) if v.name == name]
    return out


def _value(kernel: KernelBody, v: Value, known: dict[str, Value], buffers: set[Buffer], folded: set[str]) -> None:
    bound = {*v.axes, *v.reduce_axes}
    if len(bound) < len(v.axes) + len(v.reduce_axes):
        raise KernelError(f"value {v.name} of kernel {kernel.name} has one axis in two places")
    if isinstance(v.expr, Scan) and v.expr.axis not in v.axes:
        raise KernelError(f"scan {v.name}: its axis must be one of the value's axes")
    _bound(kernel, f"value {v.name}", (v.body,), bound)
    _refs(kernel, v.body, known, buffers)


def _bound(kernel: KernelBody, where: str, roots: tuple[Node, ...], bound: set[Node]) -> None:
    loose = {a for r in roots for a in axes_of(r)} - bound
    if loose:
        names = ", ".join(sorted(a.arg.name for a in loose))
        raise KernelError(
            f"{where} of kernel {kernel.name} uses {names}, which it does not bind: give it among its axes, or reduce over it"
        )


def _refs(kernel: KernelBody, root: Node, known: dict[str, Value], buffers: set[Buffer]) -> None:
    for n in walk(root):
        if n.op in ("ref", MASKED):
            target = known.get(n.arg)
            if target is None:
                raise KernelError(f"kernel {kernel.name} refers to {n.arg}, which is not an earlier value")
            many = len(n.src) - (n.op == MASKED)
            if many != len(target.axes):
                raise KernelError(f"{n.arg} has {len(target.axes)} axes and was indexed with {many}")
        elif n.op == "load" and load_parts(n)[0] not in buffers:
            raise KernelError(f"kernel {kernel.name} loads from {load_parts(n)[0].name}, which is not its parameter")


def check_reads(kernel: KernelBody) -> None:
    """Raise KernelError where a kernel that somebody wrote reads one of its outputs. (A schedule's phases may: SPLIT's second
    phase reads copies of the output.)"""
    for n in walk(*kernel.expressions()):
        if n.op == "load" and load_parts(n)[0].role == "out":
            name = load_parts(n)[0].name
            raise KernelError(
                f"kernel {kernel.name} reads {name}, which is an output and holds nothing yet: give what is stored there a name, "
                f"v = kb.value(...), and use v[...] both in the store and here"
            )


def _extents(kernel: KernelBody) -> None:
    for family, axes in kernel.families.items():
        extents = {a.arg.extent for a in axes}
        if len(extents) > 1:
            told = ", ".join(f"{a.arg.name} {a.arg.extent!r}" for a in axes)
            raise KernelError(
                f"axes of family {family} have different extents: {told}; what stands before '@' in an axis' name is its family, "
                f"whose axes go through the same dimension: name those of another extent otherwise, such as {family}2"
            )
        if len({a.arg.name for a in axes}) != len(axes):
            raise KernelError(f"two axes of family {family} share a name")
