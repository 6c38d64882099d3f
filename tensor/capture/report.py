"""What a captured function runs: a line a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.index import upper
from ..memory.account import mb
from .lookup import FoundKernel
from .program import JitProgram

if TYPE_CHECKING:
    from ...devices import Limits

REPEATS = 20
"""Calls that are timed of a kernel, the best of which counts."""


def report(name: str, programs: Sequence[JitProgram], measure: bool) -> str:
    """A text about every program: what it was captured for, its kernels (heaviest first) and its memory."""
    if not programs:
        return f"{name}: not called yet"
    return "\n\n".join(_program(p, measure) for p in programs)


def _program(p: JitProgram, measure: bool) -> str:
    from ...devices import get

    device = get(p.device)
    limits = device.limits()
    rows = [("kernel", "calls", "schedule", "from", *(("time", "% of roofline") if measure else ()))]
    for k in p.kernels:
        said = f"{k.origin}, {k.standing}" if k.standing and k.standing != "verified" else k.origin
        rows.append((k.name, str(k.calls), k.opts, said, *(_timed(k, p, limits) if measure else ())))
    memory = p.plan.memory
    used = f"intermediates {mb(memory.peak)} in one arena, {mb(memory.total)} apart"
    updated = sum(s.fresh is None for s in p.plan.states)
    states = f"; {updated} of {len(p.plan.states)} updated tensors in place" if p.plan.states else ""
    hosted = sum(c.host is not None for c in p.calls)
    numpy = f", {hosted} calls of NumPy's code" if hosted else ""
    shapes = ", ".join(f"{n.dtype}{list(n.shape)}" for n in p.graph.slots)
    head = f"{p.name}({shapes}) on {p.device}: {len(p.calls) - hosted} kernels, {len(p.kernels)} of them distinct{numpy}"
    return "\n".join([head, *_table(rows), f"{used}{states}" + ("; from disk" if p.warm else "")])


def _timed(k: FoundKernel, p: JitProgram, limits: Limits | None) -> tuple[str, str]:
    seconds = kernel_seconds(k, p.device, {name: high for name, _, high in p.graph.symbols})
    if limits is None or not seconds or not k.nbytes:
        return f"{1e6 * seconds:.3g} us", ""
    least = max(k.flops / limits.peak(k.executable.threads), k.nbytes / limits.bandwidth(k.executable.threads))
    return f"{1e6 * seconds:.3g} us", f"{100 * least / seconds:.0f} %"


def kernel_seconds(k: FoundKernel, device: str, symbols: Mapping[str, int] | None = None) -> float:
    """Seconds of the quickest of some calls, on memory of zeros. `symbols`: the values of symbolic sizes, which are the largest
    in memory."""
    from math import prod

    from ...ir.dtypes import uint8
    from ..memory import buffers

    arrays = []
    for param in k.executable.signature.params:
        b = buffers.new((max(prod(_extents(param.shape)) * param.dtype.size, 1),), uint8, device, ("", 0))
        buffers.fill(b, 0)
        arrays.append(b)
    vars = [(symbols or {})[s] for s in k.executable.signature.symbols]
    return min(k.executable.time([[b.address for b in arrays]], vars, REPEATS, 0.2))


def _extents(shape: Iterable[Any]) -> list[int]:
    return [upper(d) for d in shape]


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
