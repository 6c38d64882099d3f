"""Structural checks every kernel passes when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..body import COMBINES, Fold, KernelBody, Reduce, Scan, Value, values_of
from ..buffer import load_parts
from ..errors import KernelError
from ..node import Node, axes_of, walk
from ..op_names import MASKED
from .aliases import check_aliases

if TYPE_CHECKING:
    from ..buffer import Buffer


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
    """Raise KernelError where a kernel that somebody wrote reads one of its outputs. (A schedule's phases may: PRIVATE's second
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
