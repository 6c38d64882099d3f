"""Which OpenCL devices there are. A driver may abort the process that asks, and none survives a fork: another process asks, once,
and its answer is handed down to the processes that this one starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from ..ir.errors import DeviceError
from ..targets import Target, host
from ..targets.named import opencl as as_target

VARIABLE = "TILEWRIGHT_OPENCL_FOUND"
"""Environment variable in which a process hands the answer to those it starts."""
_ASK_S = 60.0
INSTALL = (
    "install a driver: a GPU's comes from its vendor; for processors PoCL (Debian, Ubuntu: apt-get install pocl-opencl-icd) "
    "or Intel's runtime (pip install intel-opencl-rt intel-cmplr-lib-rt, then OCL_ICD_VENDORS=.../lib/libintelocl.so)"
)


def find() -> list[dict[str, Any]]:
    """Every device of every platform, as `describe` gives it. Raises DeviceError with the reason and the fix where there is none."""
    text = os.environ.get(VARIABLE)
    if text is None:
        text = _ask()
        os.environ[VARIABLE] = text
    answer = json.loads(text)
    if "error" in answer:
        raise DeviceError(answer["error"])
    return list(answer["devices"])


def _ask() -> str:
    try:
        done = subprocess.run([sys.executable, "-m", "tilewright.devices.opencl_find"], capture_output=True, text=True, timeout=_ASK_S, check=False)
    except subprocess.TimeoutExpired:
        return _error(f"an OpenCL driver did not answer within {_ASK_S:.0f} s; remove its file from /etc/OpenCL/vendors or name another by OCL_ICD_VENDORS")
    except OSError as e:
        return _error(f"cannot start a process to look for OpenCL drivers: {e}")
    last = done.stdout.strip().splitlines()[-1:] or [""]
    if done.returncode or not last[0].startswith("{"):
        why = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        return _error(
            f"an OpenCL driver ended the process that asked for its devices ({why}); remove its file from /etc/OpenCL/vendors or name another by OCL_ICD_VENDORS"
        )
    return last[0]


def _error(text: str) -> str:
    return json.dumps({"error": text})


def choose(devices: list[dict[str, Any]], selector: str) -> dict[str, Any]:
    """The device that `selector` names: '' (a GPU, else an accelerator, else a processor), its index, or part of its or its platform's name."""
    if not selector:
        rank = {"gpu": 0, "accelerator": 1, "cpu": 2}
        # a checker is no device to tune for
        usable = [d for d in devices if "oclgrind" not in d["platform"].lower()] or devices
        return min(usable, key=lambda d: rank.get(d["kind"], 3))
    if selector.isdecimal() and int(selector) < len(devices):
        return devices[int(selector)]
    matching = [d for d in devices if selector.lower() in f"{d['platform']} {d['name']}".lower()]
    if not matching or selector.isdecimal():
        names = "; ".join(f"{i}: {d['platform']} - {d['name']}" for i, d in enumerate(devices))
        raise DeviceError(f"no OpenCL device {selector!r}: use an index or a part of a name ({names})")
    return matching[0]


def target_of(d: Mapping[str, Any]) -> Target:
    """The Target of a device as `describe` gives it."""
    features = {name for name, extension in (("fp64", "cl_khr_fp64"), ("fp16", "cl_khr_fp16")) if extension in d["extensions"]}
    if d["kind"] != "cpu":
        return as_target(d["name"], f"{d['vendor']} {d['name']}", "gpu", frozenset(features), d["units"], d["shared"], d["group"])
    if "intel" in d["platform"].lower():
        features.add("simt")  # its compiler vectorises across work-items; PoCL's hardly does
    driver = "intel" if "simt" in features else "pocl" if "portable" in d["platform"].lower() else d["platform"]
    machine = host()
    return as_target(f"{driver}-{machine.name}", f"{driver}-{machine.cpu}", "cpu", frozenset(features), d["units"], d["shared"], d["group"], machine)


def describe() -> list[dict[str, Any]]:
    """Asks the drivers: for the process that may end over it."""
    import pyopencl as cl

    out = []
    for p, platform in enumerate(cl.get_platforms()):
        for i, d in enumerate(platform.get_devices()):
            kind = "gpu" if d.type & cl.device_type.GPU else "cpu" if d.type & cl.device_type.CPU else "accelerator"
            out.append(
                {
                    "at": [p, i], "platform": platform.name.strip(), "platform_version": platform.version.strip(), "name": d.name.strip(), "vendor": d.vendor.strip(),
                    "driver": d.driver_version.strip(), "version": d.version.strip(), "kind": kind, "units": d.max_compute_units, "shared": d.local_mem_size,
                    "group": d.max_work_group_size, "memory": d.global_mem_size, "buffer": d.max_mem_alloc_size, "clock_mhz": d.max_clock_frequency,
                    "extensions": sorted(d.extensions.split()),
                }
            )  # fmt: skip
    return out


def main() -> None:
    """Print the answer as one line of JSON."""
    try:
        devices = describe()
        answer: dict[str, Any] = {"devices": devices} if devices else {"error": f"no OpenCL driver has a device: {INSTALL}"}
    except ModuleNotFoundError:
        answer = {"error": "the opencl device needs pyopencl: pip install 'tilewright[opencl]'"}
    except Exception as e:
        # whatever a driver or its loader raises, the reason goes to the user
        why = "no OpenCL driver is installed" if "PLATFORM_NOT_FOUND" in str(e) else f"OpenCL cannot be used ({e})"
        answer = {"error": f"{why}: {INSTALL}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
