"""Weights that keep their contents: tensors from outside of a function that was captured as frozen are constant inputs of its kernels, so
that schedules may pack them once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...ir import index as ix
from ...ir.kernel import Kernel
from ...ir.rewriter import with_constants
from ...opts.analysis.structure import contractions
from ..fusion.call_list import Call, KernelCall
from .capture import ArraySource
from .memory_plan import StatePlan

USES = 8
"""Products that each element of a weight is in, from which a packed copy is worth its memory."""


def with_frozen(calls: Sequence[Call], leaves: Sequence[ArraySource], states: Sequence[StatePlan]) -> list[Call]:
    """The calls, with kernels that know which of their inputs are constant. `leaves`: where the arrays of the list's first places come from;
    `states`: what the function updates, which is not."""
    updated = {s.state.place for s in states if s.state.kind == "closure"}
    fixed = {p for p, s in enumerate(leaves) if s.kind == "closure" and s.place not in updated}
    return [_frozen(c, fixed) for c in calls]


def _frozen(call: Call, fixed: set[int]) -> Call:
    if not isinstance(call, KernelCall) or call.kernel.symbols or call.kernel.blocks is not None:
        return call
    known = {b.name for b, p in zip(call.kernel.inputs, call.inputs, strict=True) if p in fixed}
    names = sorted(known & _operands(call.kernel)) if known else []
    return replace(call, kernel=with_constants(call.kernel, names)) if names else call


def _operands(kernel: Kernel) -> set[str]:
    """The inputs of sums of products of which each element is in several products."""
    out = set()
    for c in contractions(kernel):
        products = prod(ix.upper(a.arg.extent) for a in (*c.nest.axes, *c.reduce))
        out |= {b.name for b in (c.wide, c.tall) if products >= USES * prod(ix.upper(d) for d in b.shape)}
    return out
