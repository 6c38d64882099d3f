"""A kernel with its epilogue left out: what `matmul` and `matmul + bias + gelu` have in common."""

from __future__ import annotations

from ..body import Fold, Store, Value, values_of
from ..buffer import Buffer, loads
from ..dtypes import DType
from ..kernel import Kernel
from ..node import Node, ref, walk
from ..operators import cast, substitute


def without_epilogue(kernel: Kernel) -> Kernel:
    """`kernel` with every store that only post-processes one reduction (or fold, or scan) reduced to storing its
    result in the type it is accumulated in. Inputs nothing reads any more are dropped. Stores that read two results,
    or one at other places than their own axes, stay."""
    point = {v.name: v for v in kernel.body if isinstance(v, Value) and isinstance(v.expr, Node)}
    bare = {s: _bare(kernel, s, point) for s in kernel.stores}
    types: dict[str, set[DType]] = {}
    for b in bare.values():
        types.setdefault(b.buffer.name, set()).add(b.buffer.dtype)
    # (stores to parts of one output stay where their results are of different types)
    stores = tuple(b if len(types[s.buffer.name]) == 1 else s for s, b in bare.items())
    if all(a is b for a, b in zip(stores, kernel.stores, strict=True)):
        return kernel
    used = _used(kernel, stores)
    body = tuple(i for i in kernel.body if isinstance(i, Fold) or i.name in used)
    roots = [e for s in stores for e in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))]
    for item in body:
        roots += [v.body for v in item.block] if isinstance(item, Fold) else [item.body]
    read = {b for b, _, _ in loads(*roots)}
    buffers = tuple(b for b in kernel.buffers if b.role == "in" and b in read) + tuple(dict.fromkeys(s.buffer for s in stores))
    return Kernel(kernel.name, body, stores, buffers)


def _bare(kernel: Kernel, s: Store, point: dict[str, Value]) -> Store:
    """The store of the reduction's own result, or `s`."""
    expr = s.expr
    while True:
        inline = {n: point[n.arg] for n in walk(expr) if n.op == "ref" and n.arg in point}
        if not inline:
            break
        expr = substitute(expr, {n: substitute(v.body, dict(zip(v.axes, n.src, strict=True))) for n, v in inline.items()})
    results = {n for n in walk(expr) if n.op == "ref"}
    if len(results) != 1 or s.combine is not None or s.mask is not None:
        return s
    (result,) = results
    if set(result.src) != set(s.axes) or len(result.src) != len(s.axes):
        return s
    source = kernel.values[result.arg]
    dtype: DType = source.dtype
    buffer = Buffer(s.buffer.name, dtype, s.buffer.shape, "out")
    if buffer == s.buffer and expr is result:
        return s
    return Store(buffer, s.indices, cast(ref(result.arg, result.src, dtype), dtype), s.axes)


def _used(kernel: Kernel, stores: tuple[Store, ...]) -> set[str]:
    """Values some store still depends on."""
    used = {n.arg for s in stores for n in walk(s.expr, *s.indices) if n.op == "ref"}
    for item in reversed(kernel.body):
        block = values_of(item)
        if isinstance(item, Fold) or item.name in used:
            used |= {n.arg for v in block for n in walk(v.body) if n.op == "ref"}
    return used
