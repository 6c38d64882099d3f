"""What the model of GPUs says of a schedule: what decides how long each phase takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..terminal.style import bytes_text, duration

if TYPE_CHECKING:
    from ...devices import Device
    from ...heuristics import GpuEstimate
    from ...ir.kernel import Kernel
    from ...opts.opt import Opt


def predicted(kernel: Kernel, opts: Sequence[Opt], device: Device) -> tuple[GpuEstimate, ...]:
    """The model's estimate of each phase, with the device's measured bandwidth where it has one; none for
    processors."""
    if device.target.kind != "gpu":
        return ()
    from ...heuristics import gpu_estimates
    from ...opts import apply

    return gpu_estimates(apply(kernel, opts, device.target), limits=device.limits())


def lines(found: Sequence[GpuEstimate]) -> list[str]:
    """A few lines of text for each phase."""
    out = []
    for i, e in enumerate(found):
        name = f"phase {i}" if len(found) > 1 else "the model"
        groups = f"{e.groups} group{'s' * (e.groups != 1)} of {e.threads} threads, {e.resident} at once on a multiprocessor ({e.registers} registers)"
        out.append(f"{name} expects {duration(e.seconds)}: {groups}, {e.waves:.3g} waves")
        out.append(
            f"  under way {bytes_text(int(e.under_way))} on a multiprocessor, where {bytes_text(int(e.needed))} keep its memory busy"
        )
        out += [f"  {t.name}: {duration(t.seconds)} ({t.why})" for t in e.terms]
    return out


def to_json(found: Sequence[GpuEstimate]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [asdict(e) for e in found]
