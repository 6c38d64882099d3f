"""Measures what an OpenCL device can do at best: chains of fused multiply-adds, and streams through arrays larger than its caches.

Each figure is the best of short runs, because other work on the machine only ever makes it smaller. `python -m
tilewright.devices.opencl.probe DEVICE` prints them as JSON: a driver that fails over it ends that process and no other."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...files.child_process import ChildProcess
from ...ir.errors import DeviceError, TilewrightError
from ..limits import Limits, Rates

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
_RUNS = 12
_LIMIT_S = 120.0


def probe(spec: str) -> Limits:
    """The limits of the device that `devices.get(spec)` gives, measured in a process of its own. Raises DeviceError."""
    try:
        answer = ChildProcess("tilewright.devices.opencl.probe", spec).answer(_LIMIT_S)
    except OSError as e:
        raise DeviceError(f"the limits of {spec} could not be measured: {e}") from e
    if answer.late or answer.status:
        why = f"it took longer than {_LIMIT_S:.0f} s" if answer.late else answer.complaint
        raise DeviceError(f"the limits of {spec} could not be measured: {why}")
    return Limits.from_json(json.loads(answer.last_line))


def _text(width: int, double: bool, gpu: bool) -> str:
    """Kernels over vectors of `width` floats (1: scalars)."""
    v = f"float{width}" if width > 1 else "float"
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
        d = f"double{max(1, width // 2)}" if width > 3 else "double"
        out.insert(0, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        out.append(fma.replace("NAME", "fma64").replace("V", d))
    # processors: an item walks a share of its own; GPUs: neighbours touch neighbouring words
    walk = "long i = get_global_id(0); i < n; i += get_global_size(0)"
    if not gpu:
        walk = "long i = n / get_global_size(0) * get_global_id(0), e = i + n / get_global_size(0); i < e; i++"
    arguments = f"(global const {v} *restrict a, global const {v} *restrict b, global {v} *restrict c, long n)"
    out += [
        f"kernel void copy{arguments} {{ for ({walk}) c[i] = a[i]; }}",
        f"kernel void triad{arguments} {{ for ({walk}) c[i] = a[i] + b[i] * 3.0f; }}",
        # four sums, so that the additions do not wait for one another
        f"kernel void read{arguments} {{ {v} s = 0, t = 0, u = 0, w = 0; n /= 4; for ({walk}) {{ s += a[i]; t += a[i + n]; u += a[i + 2 * n]; w += a[i + 3 * n]; }} c[get_global_id(0)] = s + t + u + w; }}",
    ]
    return "\n".join(out)


def measure(device: Probed) -> Limits:
    """The limits of a device, by the kernels above."""
    from .session import ClMemory

    s, about = device.open(), device.found.about
    target = device.target
    gpu = target.kind == "gpu"
    width = 4 if gpu else max(1, target.vector_bytes // 4)
    double = "fp64" in target.features
    program = s.compile(_text(width, double, gpu))
    # processors: a few items a core; GPUs: enough to fill the machine several times
    items, group = (target.cores * 4096, min(256, target.max_threads)) if gpu else (target.cores * 32, 1)
    size = min(256 * _MIB, about["buffer"], about["memory"] // 16) // (4 * width) * 4 * width
    handles = [s.add(size) for _ in range(3)]
    buffers = [s.buffers[h] for h in handles]
    for h in handles:
        ClMemory(s).fill(h, 1, size)  # memory never written may be one page of zeros that sits in the cache
    try:
        peaks = {}
        for kind, lanes in (("fma32", width), ("fma64", max(1, width // 2) if width > 3 else 1)):
            if kind == "fma64" and not double:
                peaks[kind] = 1.0
                continue
            peaks[kind] = 2.0 * _CHAINS * _STEPS * lanes * items / _best(s, program, kind, [buffers[2]], items, group)
        rates = {}
        for kind, arrays in (("read", 1), ("copy", 2), ("triad", 3)):
            rates[kind] = arrays * size / _best(s, program, kind, [*buffers, size // (4 * width)], items, group)
    finally:
        for h in handles:
            s.drop(h)
    one = Rates(peaks["fma32"], peaks["fma64"], rates["read"], rates["copy"], rates["copy"], rates["triad"], rates["triad"])
    return Limits(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), {device.threads: one})


def _best(s: ClSession, program: object, name: str, args: Sequence[object], items: int, group: int) -> float:
    """The shortest of some launches, in seconds."""
    import numpy as np

    kernel = s.cl.Kernel(program, name)
    kernel.set_args(*(np.int64(a) if isinstance(a, int) else a for a in args))
    times = []
    for _ in range(_RUNS):
        event = s.cl.enqueue_nd_range_kernel(s.queue, kernel, (items,), (group,))
        event.wait()
        times.append((event.profile.end - event.profile.start) * 1e-9)
    return float(min(times))


def main() -> None:
    """Measure and print."""
    from ..registry import get

    device: Any = get(sys.argv[1])
    try:
        print(json.dumps(measure(device).to_json()))
    except TilewrightError as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
