"""A builder: a process that turns option lists into objects, one at a time.

`python -m tilewright.measure.processes.builder READ_FD WRITE_FD PARENT_PID`. A compiler may crash, hang or eat memory; that ends this
process and not the search."""

from __future__ import annotations

import gc
import resource
import select
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import devices
from ...ir.errors import BuildError, DeviceError, KernelError, OptError
from ...log import logger
from ...opts.opt import short
from ..outcome import Measurement, Outcome
from . import process
from .protocol import Channel

if TYPE_CHECKING:
    from ...ir.kernel import Kernel


log = logger("measure")

MODULE = "tilewright.measure.processes.builder"
OBJECTS = 50_000
"""New objects after which the youngest are looked through for cycles."""


@dataclass(frozen=True)
class BuilderSetup:
    """`compile(kernel, opts, device, **extra) -> Built` must be importable by name; `device` is a spec or a picklable Device."""

    kernel: Kernel
    device: Any
    compile: Callable[..., Any]
    extra: dict[str, Any]
    memory_limit: int


def serve(channel: Channel, setup: BuilderSetup) -> None:
    """Say (None, "ready"), then answer ("build", ticket, opts) with (ticket, Built | Measurement), and ("drop", tickets) with (None, those of them
    that were not begun)."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = setup.memory_limit if hard == resource.RLIM_INFINITY else min(setup.memory_limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    device = devices.get(setup.device)
    # almost nothing that a build leaves is a cycle, and what was imported stays: looking through it all took a tenth of the time
    gc.freeze()
    gc.set_threshold(OBJECTS, 20, 50)
    channel.send((None, "ready"))
    waiting: deque[tuple[int, Any]] = deque()
    while True:
        while not waiting or channel.pending() or select.select([channel], [], [], 0)[0]:
            kind, *rest = channel.receive()
            if kind == "build":
                waiting.append((rest[0], rest[1]))
                continue
            dropped = {t for t, _ in waiting if t in rest[0]}
            waiting = deque(w for w in waiting if w[0] not in dropped)
            channel.send((None, dropped))
        ticket, opts = waiting.popleft()
        channel.send((ticket, _logged(opts, build(setup, device, opts))))


def _logged(opts: Any, made: Any) -> Any:
    if log.listens():
        if isinstance(made, Measurement):
            log.debug("%s: %s after %.3g ms (%s)", short(opts), made.outcome, 1e3 * made.build_s, made.detail)
        else:
            times = [1e3 * getattr(made, name, 0.0) for name in ("lower_s", "render_s", "build_s")]
            log.debug("%s: lowered in %.3g ms, rendered in %.3g ms, compiled in %.3g ms", short(opts), *times)
    return made


def build(setup: BuilderSetup, device: Any, opts: Any) -> Any:
    """Built, or a Measurement with the name of what went wrong."""
    begin, outcome = time.perf_counter(), Outcome.build
    try:
        return setup.compile(setup.kernel, opts, device, **setup.extra)
    except (OptError, KernelError) as e:
        outcome, text = Outcome.illegal, str(e)
    except (BuildError, DeviceError) as e:
        text = str(e)
    except MemoryError:
        text = "building it ran out of memory"
    except Exception as e:
        # a fault of the lowering or the renderer must not end the search; it is recorded with its place
        at = traceback.extract_tb(e.__traceback__)[-1]
        text = f"internal error: {type(e).__name__}: {e} ({at.filename.rsplit('/', 2)[-2]}/{at.filename.rsplit('/', 1)[-1]}:{at.lineno})"
    return Measurement(tuple(opts), outcome, detail=text, build_s=time.perf_counter() - begin)


if __name__ == "__main__":
    process.main(sys.argv, serve)
