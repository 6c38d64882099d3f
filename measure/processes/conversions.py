"""Builds as the runner's tasks, and the runner's results as measurements."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from ... import devices
from ...ir.errors import DeviceError
from ..batch import BatchResult, BatchTask, summary
from ..outcome import Measurement

if TYPE_CHECKING:
    from ...devices import Device
    from ...plan import Built


def _flushes(b: Built) -> bool:
    """Whether it uses a matrix instruction that takes subnormal numbers for zero, as docs/options.md says of bfloat16's."""
    from ...opts.opt import Opt
    from ...opts.registry import OPTIONS

    return any(OPTIONS[o.op].flushes(o) for o in b.opts if isinstance(o, Opt) and o.op in OPTIONS)


def _regroups(b: Built) -> bool:
    """Whether factors of a product meet in another order: infinities, NaN and the largest numbers may come out otherwise."""
    from ...opts.opt import Opt
    from ...opts.registry import OPTIONS

    return any(OPTIONS[o.op].regroups(o) for o in b.opts if isinstance(o, Opt) and o.op in OPTIONS)


def _task(b: Built) -> BatchTask:
    return BatchTask(b.obj, b.signature, "NONDET" in b.effects)


def _measurement(b: Built, r: BatchResult, threads: int) -> Measurement:
    beside = getattr(b.signature, "bytes_beside", None)  # a user's source does not say
    return Measurement(
        tuple(b.opts),
        r.outcome,
        **summary(r.times),
        error=r.error,
        detail=r.detail,
        sha=b.sha,
        build_s=b.build_s,
        lower_s=b.lower_s + b.render_s,
        outputs=r.outputs,
        cleared=r.cleared,
        checks=r.checks,
        compared=r.compared,
        clocks=r.clocks,
        note=r.note,
        energy=r.energy,
        scratch=None if beside is None else beside(threads),
    )


def _portable(device: Device, asked: Any) -> Any:
    """What `devices.get` in another process turns into this device: its spec, or itself where only this process knows that name."""
    spec = asked if isinstance(asked, str) else device.spec
    if spec and spec not in devices.local_names():
        return spec
    try:
        pickle.dumps(device)
    except (pickle.PicklingError, TypeError, AttributeError) as e:
        raise DeviceError(
            f"device {device.name} cannot be handed to another process ({e}); name it as module:factory or file.py:factory"
        ) from e
    return device
