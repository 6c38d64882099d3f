"""A kernel as text: its parameters, and its values over axes in order, each as one would write it down."""

from __future__ import annotations

from collections.abc import Iterator

from .body import Fold, Reduce, Scan, Store, Value
from .buffer import Buffer, Extent
from .kernel import Kernel
from .node import Node
from .node_text import show


def kernel_text(kernel: Kernel) -> str:
    """Every parameter, axis, value and store of `kernel`, a statement a line; ends with a newline. Equal kernels give
    equal texts."""
    out = [f"kernel {kernel.name}"]
    out += [f"  {_buffer(b)}" for b in kernel.buffers]
    out += [f"  symbol {s.arg.name} in {s.arg.lo}..{s.arg.hi}" for s in kernel.symbols]
    for family, axes in kernel.families.items():
        sites = ", ".join(a.arg.name for a in axes)
        whose = f" (family {family})" if sites != family else ""
        out.append(f"  axis {sites}: {_extent(axes[0].arg.extent)}{whose}")
    for item in kernel.body:
        out += _fold(item) if isinstance(item, Fold) else [_value(item)]
    out += [_store(s) for s in kernel.stores]
    return "\n".join(out) + "\n"


def _extent(extent: Extent) -> str:
    return show(extent) if isinstance(extent, Node) else str(extent)


def _buffer(b: Buffer) -> str:
    notes = ", constant" if b.constant else ""
    notes += f", may lie in {b.alias}" if b.alias else ""
    notes += f", elements in {b.range[0]}..{b.range[1]}" if b.range is not None else ""
    notes += ", ascending" * b.ascending + ", regular" * b.regular
    return f"{b.role} {b.name}: {b.dtype}[{', '.join(map(_extent, b.shape))}]{notes}"


def _names(axes: tuple[Node, ...]) -> str:
    return ", ".join(a.arg.name for a in axes)


def _value(v: Value) -> str:
    head = f"{v.name}[{_names(v.axes)}]" if v.axes else v.name
    if isinstance(v.expr, Reduce):
        what = f"{v.expr.combine} over {_names(v.expr.axes)} of {show(v.expr.expr)}"
        return f"{head}: {v.dtype} = {what} (in {v.expr.dtype})"
    if isinstance(v.expr, Scan):
        what = f"running {v.expr.combine} along {v.expr.axis.arg.name} of {show(v.expr.expr)}"
        return f"{head}: {v.dtype} = {what} (in {v.expr.dtype})"
    return f"{head}: {v.dtype} = {show(v.expr)}"


def _fold(f: Fold) -> Iterator[str]:
    yield f"fold {f.name} over {f.axis.arg.name}, in blocks:"
    yield from (f"  {_value(v)}" for v in f.block)
    for name, identity, merge in zip(f.components, f.monoid.identity, f.monoid.merge, strict=True):
        yield f"  {name}: begins as {show(identity)}; two blocks a and b merge to {show(merge)}"


def _store(s: Store) -> str:
    sign = "=" if s.combine is None else f"{s.combine}="
    mask = f" where {show(s.mask)}" if s.mask is not None else ""
    own = f", each {s.own[0].arg.name} writing {s.own[2]} of dimension {s.own[1]}" if s.own is not None else ""
    place = f"{s.buffer.name}[{', '.join(map(show, s.indices))}]"
    return f"{place} {sign} {show(s.expr)}{mask} for every {_names(s.axes) or 'point'}{own}"
