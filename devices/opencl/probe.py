"""Measures what a GPU can do at best under OpenCL: chains of fused multiply-adds, and streams through arrays larger than its caches.

Each figure is the best of short runs, because other work on the machine only ever makes it smaller. `python -m
tilewright.devices.opencl.probe DEVICE SECONDS` prints them as JSON: a driver that fails over it ends that process and no other. (What a
processor can do, `devices/cpu/device.py` measures: a driver changes nothing of it.)"""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...files.child_process import ChildProcess
from ...ir.errors import DeviceError, TilewrightError
from ..limits import Limits, Rates
from .session import ClMemory

if TYPE_CHECKING:
    from ...targets import Target
    from .drivers import FoundDevice
    from .session import ClSession


class Probed(Protocol):
    """What is asked of the device that is measured."""

    found: FoundDevice
    target: Target
    threads: int

    def open(self) -> ClSession: ...


_MIB = 1 << 20
_CHAINS = 16
"""Independent accumulators: latency times throughput of any device's units, and a few more."""
_STEPS = 4096
_LANES = 4
"""Elements of the vectors: threads that load so many at a time reach the memory's rate everywhere."""
_LEAST, _RUNS = 2, 12
"""Runs of each kernel, at least and at most."""
_LIMIT_S = 120.0


def probe(spec: str, seconds: float) -> Limits:
    """The limits of the device that `devices.get(spec)` gives, measured in a process of its own: in about so many seconds, and what its driver
    takes to compile the kernels. Raises DeviceError."""
    try:
        answer = ChildProcess("tilewright.devices.opencl.probe", spec, str(seconds)).answer(_LIMIT_S)
    except OSError as e:
        raise DeviceError(f"the limits of {spec} could not be measured: {e}") from e
    if answer.late or answer.status:
        why = f"it took longer than {_LIMIT_S:.0f} s" if answer.late else answer.complaint
        raise DeviceError(f"the limits of {spec} could not be measured: {why}")
    return Limits.from_json(json.loads(answer.last_line))


def _text(double: bool) -> str:
    """The kernels."""
    v = f"float{_LANES}"
    accs = "\n".join(f"    V a{i} = x + (V)({i});" for i in range(_CHAINS))
    steps = "\n".join(f"        a{i} = fma(a{i}, y, x);" for i in range(_CHAINS))
    total = " + ".join(f"a{i}" for i in range(_CHAINS))
    fma = f"""kernel void NAME(global V *out) {{
    V x = (V)(get_global_id(0) * 1e-9f), y = (V)(0.999f);
{accs}
    for (int k = 0; k < {_STEPS}; k++) {{
{steps}
    }}
    V t = {total};
    out[get_global_id(0)] = t;
}}"""
    out = [fma.replace("NAME", "fma32").replace("V", v)]
    if double:
        out.insert(0, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        out.append(fma.replace("NAME", "fma64").replace("V", f"double{_LANES // 2}"))
    walk = "long i = get_global_id(0); i < n; i += get_global_size(0)"  # neighbours touch neighbouring words
    arguments = f"(global const {v} *restrict a, global const {v} *restrict b, global {v} *restrict c, long n)"
    out += [
        f"kernel void copy{arguments} {{ for ({walk}) c[i] = a[i]; }}",
        f"kernel void triad{arguments} {{ for ({walk}) c[i] = a[i] + b[i] * 3.0f; }}",
        # four sums, so that the additions do not wait for one another
        f"kernel void read{arguments} {{ {v} s = 0, t = 0, u = 0, w = 0; n /= 4; for ({walk}) {{ s += a[i]; t += a[i + n]; u += a[i + 2 * n]; w += a[i + 3 * n]; }} c[get_global_id(0)] = s + t + u + w; }}",
    ]
    return "\n".join(out)


def measure(device: Probed, seconds: float) -> Limits:
    """The limits of a device, by the kernels above, run for about so many seconds."""
    s, about = device.open(), device.found.about
    target = device.target
    double = "fp64" in target.features
    program = s.compile(_text(double))
    items, group = target.cores * 4096, min(256, target.max_threads)  # enough to fill the machine several times
    size = min(256 * _MIB, about["buffer"], about["memory"] // 16) // (4 * _LANES) * 4 * _LANES
    handles = [s.add(size) for _ in range(3)]
    buffers = [s.buffers[h] for h in handles]
    for h in handles:
        ClMemory(s).fill(h, 1, size)  # memory never written may be one page of zeros that sits in the cache
    each_s = seconds / (4 + double)
    try:
        peaks = {"fma64": 1.0}
        for kind, lanes in (("fma32", _LANES), *([("fma64", _LANES // 2)] if double else [])):
            peaks[kind] = 2.0 * _CHAINS * _STEPS * lanes * items / _best(s, program, kind, [buffers[2]], items, group, each_s)
        rates = {}
        for kind, arrays in (("read", 1), ("copy", 2), ("triad", 3)):
            rates[kind] = arrays * size / _best(s, program, kind, [*buffers, size // (4 * _LANES)], items, group, each_s)
    finally:
        for h in handles:
            s.drop(h)
    one = Rates(peaks["fma32"], peaks["fma64"], rates["read"], rates["copy"], rates["copy"], rates["triad"], rates["triad"])
    return Limits(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), {device.threads: one})


def _best(s: ClSession, program: object, name: str, args: Sequence[object], items: int, group: int, limit_s: float) -> float:
    """The shortest of some launches, in seconds: no more than fit into `limit_s`, but for the least."""
    import numpy as np

    kernel = s.cl.Kernel(program, name)
    kernel.set_args(*(np.int64(a) if isinstance(a, int) else a for a in args))
    times: list[float] = []
    until = time.monotonic() + limit_s
    while len(times) < _LEAST or (len(times) < _RUNS and time.monotonic() < until):
        event = s.cl.enqueue_nd_range_kernel(s.queue, kernel, (items,), (group,))
        event.wait()
        times.append((event.profile.end - event.profile.start) * 1e-9)
    return min(times)


def main() -> None:
    """Measure and print."""
    from ..registry import get

    device: Any = get(sys.argv[1])
    try:
        print(json.dumps(measure(device, float(sys.argv[2])).to_json()))
    except TilewrightError as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
