"""Asks the OpenCL driver that the environment names for its devices, and prints one line of JSON.

`python -m tilewright.devices.opencl.describe [LIBRARY]`: the process that may end over it. {"devices": […]} or {"none": "why"}."""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any


def describe() -> list[dict[str, Any]]:
    """Every device of every platform. `at` is the device's place in its platform; sizes are bytes."""
    import pyopencl as cl

    out: list[dict[str, Any]] = []
    for platform in cl.get_platforms():
        for i, d in enumerate(platform.get_devices()):
            kind = "gpu" if d.type & cl.device_type.GPU else "cpu" if d.type & cl.device_type.CPU else "accelerator"
            rounded = bool(d.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)
            out.append(
                {
                    "platform": platform.name.strip(), "platform_version": platform.version.strip(), "at": i, "name": d.name.strip(), "vendor": d.vendor.strip(),
                    "driver": d.driver_version.strip(), "version": d.version.strip(), "kind": kind, "units": d.max_compute_units, "shared": d.local_mem_size,
                    "group": min(d.max_work_group_size, d.max_work_item_sizes[0]), "memory": d.global_mem_size, "buffer": d.max_mem_alloc_size,
                    "subgroup": _subgroup(d), "tick_ns": d.profiling_timer_resolution, "cache": d.global_mem_cache_size, "clock_mhz": d.max_clock_frequency, "rounded": rounded, "extensions": sorted(d.extensions.split()),
                }
            )  # fmt: skip
    # a loader that reads both ways of naming a driver shows it twice
    return [d for i, d in enumerate(out) if d not in out[:i]]


def _subgroup(d: Any) -> int:
    """Threads that run in step and can exchange values, where the device says so; else 0. Intel's GPUs have subgroups of 16 since
    Gen8 (cl_intel_required_subgroup_size: a kernel chooses its own among them), AMD's waves of 64 or 32."""
    extensions = set(d.extensions.split())
    if {"cl_intel_subgroups", "cl_intel_required_subgroup_size"} <= extensions:
        return 16
    return int(d.wavefront_width_amd) if "cl_amd_device_attribute_query" in extensions else 0


def _why_not(library: str, error: str) -> str:
    if "PLATFORM_NOT_FOUND" not in error:
        return error
    if not library:
        return "no OpenCL driver is there"
    try:
        ctypes.CDLL(library)
    except OSError as e:
        return f"its library cannot be loaded ({e})"
    return "its library shows no platform (no device of its kind, or no permission to use it)"


def main() -> None:
    """Print the answer."""
    library = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        devices = describe()
        answer: dict[str, Any] = {"devices": devices} if devices else {"none": "it has no device"}
    except Exception as e:
        # whatever a driver, its loader or the binding raises: the reason goes to the user
        answer = {"none": _why_not(library, " ".join(str(e).split()) or type(e).__name__)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
