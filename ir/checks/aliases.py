"""Outputs that share the memory of an input: kernels that work in place.

An element of the input may be read for one element of the output only, the one at its own place: whatever a schedule
does, that read comes before the write that needs it. (A reduction over the input, or a neighbour's element, might be
read after its place was written.)"""

from __future__ import annotations

from .. import index as ix
from ..body import Fold, KernelBody, Store, Value, values_of
from ..buffer import Buffer, load_parts
from ..errors import KernelError
from ..node import Node, walk
from ..operators import substitute


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
        if not _once(stores[0]):
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


def _once(store: Store) -> bool:
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
