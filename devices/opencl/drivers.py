"""Which OpenCL drivers are installed, and what each says of its devices.

A driver may abort or hang the process that asks it, two of them in one process may disturb each other, and none survives a fork. So every
driver is asked by a process of its own, which sees no other; the answers are handed down to the processes that this one starts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...ir.errors import DeviceError

VARIABLE = "TILEWRIGHT_OPENCL_FOUND"
"""Environment variable in which a process hands the answers to those it starts."""
CHOICE = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")
"""Variables by which a user chooses drivers (the first two, of the two common loaders; the last of both)."""
FOLDERS = ("/etc/OpenCL/vendors", "/usr/local/etc/OpenCL/vendors")
"""Where drivers put a file with their library's name; wheels do so in the same folder of their environment."""
ASK_S = 60.0
INSTALL = (
    "install a driver: a GPU's comes from its vendor; for processors PoCL (Debian, Ubuntu: apt-get install pocl-opencl-icd) "
    "or Intel's runtime (pip install intel-opencl-rt intel-cmplr-lib-rt; proprietary)"
)
_MODULE = "tilewright.devices.opencl.describe"


@dataclass(frozen=True)
class InstalledDriver:
    """One driver's answer. `file` names it to the user; `environment` is what a process that is to use it, and no other, sets before its
    first OpenCL call. `devices` are as `opencl_describe` gives them; without any, `error` is the reason, with the fix."""

    file: str
    environment: Mapping[str, str]
    devices: Sequence[Mapping[str, Any]] = ()
    error: str = ""


def drivers() -> list[InstalledDriver]:
    """Every driver's answer, asked once (`forget` to ask again). Raises DeviceError, with the fix, where nobody can be asked."""
    choice = {name: os.environ[name] for name in CHOICE if name in os.environ}
    handed = _handed_down()
    if handed is not None and choice == handed["choice"]:
        return [InstalledDriver(**d) for d in handed["drivers"]]
    if find_spec("pyopencl") is None:
        raise DeviceError("the opencl device needs pyopencl: pip install 'tilewright[opencl]'")
    found = _ask([("=".join(next(iter(choice.items()))), {})] if choice else [(file, _only(library)) for file, library in installed()])
    os.environ[VARIABLE] = json.dumps({"choice": choice, "drivers": [vars(d) for d in found]})
    return found


def forget() -> None:
    """Ask again the next time."""
    os.environ.pop(VARIABLE, None)


def _handed_down() -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        answer = json.loads(os.environ[VARIABLE])
        if {"choice", "drivers"} <= set(answer):
            return dict(answer)
    return None


def _only(library: str) -> dict[str, str]:
    """What makes a loader open this library and no other: the one that pyopencl's wheel carries reads the first, Khronos's the second."""
    return {"OCL_ICD_VENDORS": library, "OCL_ICD_FILENAMES": library} if library else {}


def installed() -> list[tuple[str, str]]:
    """(file, library) of each driver; a library without a folder is found by the dynamic linker."""
    found = []
    for folder in dict.fromkeys([*map(Path, FOLDERS), Path(sys.prefix) / "etc/OpenCL/vendors", _wheel()]):
        for file in sorted(folder.glob("*.icd")):
            with contextlib.suppress(OSError, UnicodeDecodeError):  # a file that cannot be read names no driver
                library = file.read_text().strip()
                if library and (folder / library).is_file():  # beside the file, or an absolute path
                    library = str(folder / library)
                elif str(file).startswith(sys.prefix) and library.startswith("/"):
                    # wheels (Intel's) name folders of the machine that made them; their libraries are in this environment's
                    here = Path(sys.prefix) / "lib" / Path(library).name
                    library = str(here) if here.is_file() else ""
                found.append((str(file), library))
    # without any file, the loader may know drivers in its own way (another operating system, a stub)
    return [(f, library) for f, library in found if library] or [("", "")]


def _wheel() -> Path:
    """Where wheels of drivers put theirs: beside the loader of pyopencl's own."""
    spec = find_spec("pyopencl")
    return Path(spec.origin).parent / ".libs" if spec is not None and spec.origin else Path()


def _ask(which: Sequence[tuple[str, Mapping[str, str]]]) -> list[InstalledDriver]:
    asked = []
    for file, environment in which:
        try:
            command = [sys.executable, "-m", _MODULE, environment.get("OCL_ICD_FILENAMES", "")]
            process = subprocess.Popen(
                command,
                env={**os.environ, **settings(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as e:
            raise DeviceError(f"cannot start a process to ask the OpenCL drivers: {e}; free some memory or processes") from e
        asked.append((file, environment, process))
    end = time.monotonic() + ASK_S
    # one that hangs leaves the others time to be heard
    return [_answer(file, environment, process, max(ASK_S / 6, end - time.monotonic())) for file, environment, process in asked]


def _answer(file: str, environment: Mapping[str, str], process: subprocess.Popen[str], wait_s: float) -> InstalledDriver:
    away = "remove that file, or choose drivers by OCL_ICD_VENDORS" if file.endswith(".icd") else "choose another by OCL_ICD_VENDORS"
    what = f"the OpenCL driver of {file}" if file else "OpenCL"
    try:
        out, err = process.communicate(timeout=wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return InstalledDriver(file, environment, error=f"{what} did not answer within {ASK_S:.0f} s: {away}")
    last = (out.strip().splitlines() or [""])[-1]
    if process.returncode or not last.startswith("{"):
        said = [line for line in err.splitlines() if line.strip()][-1:] or ["it said nothing"]
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        return InstalledDriver(
            file, environment, error=f"{what} ended the process that asked for its devices ({how}: {said[0].strip()[:200]}): {away}"
        )
    answer = json.loads(last)
    if "none" in answer:
        if not file:
            return InstalledDriver(file, environment, error=f"{answer['none']}: {INSTALL}")
        return InstalledDriver(file, environment, error=f"{what}: {answer['none']}; install what is missing, or {away}")
    return InstalledDriver(file, environment, tuple(answer["devices"]))


def settings() -> dict[str, str]:
    """What every process that uses a driver sets: PoCL, which counts the machine's cores, uses those that this process may."""
    from ...targets import usable_cores

    out = {"PYOPENCL_NO_CACHE": "1", "PYOPENCL_COMPILER_OUTPUT": "0"}
    threads = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")  # of PoCL before 4, and since
    if not any(name in os.environ for name in threads):
        out |= dict.fromkeys(threads, str(usable_cores()))
    return {name: value for name, value in out.items() if name not in os.environ}
