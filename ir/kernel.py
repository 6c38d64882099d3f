"""Kernels: an ordered list of named values over axes, and the stores that make them visible, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, NoReturn

from .body import Fold, KernelBody, Reduce, Scan, Store, Value
from .buffer import Buffer, Extent
from .checks.access_bounds import unproved
from .checks.structure_checks import check
from .errors import KernelError
from .node import Node
from .node_text import show


@dataclass(frozen=True, slots=True)
class DecidedBlocks:
    """`axes`: families, outermost first. `sizes`: what their blocks may be, a number of elements for each of `axes`."""

    axes: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]

    def only(self, families: Mapping[str, object]) -> DecidedBlocks | None:
        """The same of the families that a kernel still has; None where there is none."""
        left = [k for k, name in enumerate(self.axes) if name in families]
        if len(left) == len(self.axes):
            return self
        sizes = dict.fromkeys(tuple(s[k] for k in left) for s in self.sizes)
        return DecidedBlocks(tuple(self.axes[k] for k in left), tuple(sizes)) if left else None

    def choices(self, axis: str) -> tuple[int, ...]:
        """The sizes that an axis's blocks may have, ascending."""
        k = self.axes.index(axis)
        return tuple(sorted({s[k] for s in self.sizes}))


@dataclass(frozen=True, eq=False)
class Kernel(KernelBody):
    """A named kernel. Raises KernelError where it is not sound: names that clash, references to nothing, an index that leaves its
    dimension. `blocks`: the block sizes that its schedules must keep to, where whoever wrote it decided them. `fixed`: results have the same
    bits under every schedule (`fixed_sums`)."""

    blocks: DecidedBlocks | None = None
    fixed: bool = False

    def __post_init__(self) -> None:
        check(self)
        _ = self.unproved  # an access that leaves its buffer is an error here, before anything merges axes

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raises KernelError: a kernel says what is computed, and `best` makes something that runs."""
        raise KernelError(
            f"the kernel {self.name} says what is computed, and does not run: tilewright.best(kernel) is what takes arrays, and "
            "tilewright.operation makes a function of tensors of what returns it"
        )

    @cached_property
    def unproved(self) -> frozenset[tuple[str, int]]:
        """(buffer or value, dimension) that some index may leave, for all that is known without data: these are
        merged with no other, so that evaluation checks them as they were written."""
        return unproved(self)


# A kernel as text: its parameters, and its values over axes in order, each as one would write it down -----------------

# html text ------------------------------------------------------------------------------------------------------------
#
# Small pieces of HTML, for what notebooks show of an object (`_repr_html_`). All text is escaped here.


_LEFT = 'style="text-align:left"'


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), title: str = "") -> str:
    """Rows of cells, left-aligned; the first cell of a row is its header where the table has no `head`."""
    out = ["<table>"]
    if title:
        out.append(f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>')
    if head:
        out.append("<thead><tr>" + "".join(f"<th {_LEFT}>{escape(cell)}</th>" for cell in head) + "</tr></thead>")
    out.append("<tbody>")
    for row in rows:
        tags = ["td" if head or i else "th" for i in range(len(row))]
        out.append("<tr>" + "".join(f"<{t} {_LEFT}>{escape(c)}</{t}>" for t, c in zip(tags, row, strict=True)) + "</tr>")
    return "".join([*out, "</tbody></table>"])


def text(lines: str) -> str:
    """Text as it stands, in letters of one width; long lines scroll."""
    return f'<pre style="overflow-x:auto">{escape(lines)}</pre>'


def folded(summary: str, inside: str) -> str:
    """HTML behind a line that opens it."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


# kernel text ----------------------------------------------------------------------------------------------------------


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
    notes += ", ascending" * b.ascending + ", regular" * b.regular + (f", in {b.pattern}" if b.pattern else "")
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
