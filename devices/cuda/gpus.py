"""Which NVIDIA GPUs there are. An opened driver does not survive a fork: another process asks, once, and its answer is handed down to
the processes that this one starts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ...files.child_process import ChildProcess, not_started
from ...ir.errors import DeviceError, TilewrightError
from ...targets import Target
from ...targets.table import nvidia

VARIABLE = "TILEWRIGHT_CUDA_FOUND"
"""Environment variable in which a process hands the answer to those it starts."""
_ASK_S = 60.0
ATTRIBUTES = {
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "shared": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "l2": "L2_CACHE_SIZE",
    "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "ecc": "ECC_ENABLED",
    "watchdog": "KERNEL_EXEC_TIMEOUT",
}
"""What `describe` asks of each GPU, and the driver's name for it. Sizes are bytes, clocks the highest ones."""


def visible_gpus() -> list[dict[str, Any]]:
    """Every GPU, as `describe` gives it, in the driver's order. Raises DeviceError with the reason and the fix where there is none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    answer = json.loads(os.environ.get(VARIABLE, "{}"))
    if answer.get("visible") != visible:
        answer = {**json.loads(_ask()), "visible": visible}
        os.environ[VARIABLE] = json.dumps(answer)
    if "error" in answer:
        raise DeviceError(answer["error"])
    return list(answer["devices"])


def forget() -> None:
    """Ask again the next time."""
    os.environ.pop(VARIABLE, None)


def _ask() -> str:
    try:
        answer = ChildProcess("tilewright.devices.cuda.gpus").answer(_ASK_S)
    except OSError as e:
        return _error(not_started("a process to ask the NVIDIA driver", e))
    if answer.late:
        return _error(
            f"the NVIDIA driver did not answer within {_ASK_S:.0f} s: see whether nvidia-smi does, and restart the machine if it hangs too"
        )
    if answer.status or not answer.last_line.startswith("{"):
        return _error(f"the NVIDIA driver ended the process that asked for its GPUs ({answer.why}): see what nvidia-smi says")
    return answer.last_line


def _error(text: str) -> str:
    return json.dumps({"error": text})


def choose(devices: list[dict[str, Any]], index: int) -> dict[str, Any]:
    """GPU number `index`, or DeviceError that lists those there are."""
    if not 0 <= index < len(devices):
        names = "; ".join(f"cuda:{i}: {d['name']}" for i, d in enumerate(devices))
        raise DeviceError(f"there is no GPU number {index}: use one of {names}")
    return devices[index]


def architecture(major: int, minor: int) -> str:
    """What to compile for: from 9.0 on with the features that only this very architecture has."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def target_of(d: Mapping[str, Any]) -> Target:
    """The Target of a GPU as `describe` gives it. Multiprocessors, L2 and shared memory tell apart cards of one
    architecture; clock and memory bandwidth (two transfers a clock) are for the model, and no part of the key."""
    bandwidth = 2e3 * d["memory_clock_khz"] * d["memory_bits"] / 8
    return nvidia(architecture(d["major"], d["minor"]), d["multiprocessors"], d["shared"], d["l2"], 1e3 * d["clock_khz"], bandwidth)


def describe() -> dict[str, Any]:
    """Asks the driver: for a process of its own."""
    from .driver import open_driver

    driver = open_driver()
    devices = []
    for i in range(driver.count()):
        devices.append(
            {
                "index": i,
                "name": driver.card(i),
                "driver": list(driver.version()),
                "by": driver.name,
                **{key: driver.attribute(i, name) for key, name in ATTRIBUTES.items()},
            }
        )
    if not devices:
        return {"error": "the NVIDIA driver shows no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"}
    return {"devices": devices}


def main() -> None:
    """Print the answer as one line of JSON."""
    try:
        answer = describe()
    except TilewrightError as e:
        answer = {"error": str(e)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
