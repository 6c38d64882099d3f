"""Which OpenCL drivers are installed, which devices each has, which one a user means, and what code may use there.

A driver may abort or hang the process that asks it, two of them in one process may disturb each other, and none survives a fork. So every
driver is asked by a process of its own, which sees no other: `python -m tilewright.devices.opencl.drivers [LIBRARY]` prints one line of
JSON, {"devices": […]} or {"none": "why"}. The answers are handed down to the processes that this one starts."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...files import folders, owned
from ...files.child_process import ChildProcess, not_started
from ...ir.errors import DeviceError
from ...targets import Target, machine
from ...targets.table import opencl as as_target
from ..once import once

# pocl cache -----------------------------------------------------------------------------------------------------------
#
# Where PoCL keeps what it compiled. Without a folder in which it can write, PoCL shows no platform, not even to say
# what devices it has.


CACHE_VARIABLE = "POCL_CACHE_DIR"
_DAY_S = 86400.0
KEPT_S = 14 * _DAY_S
LEAST = 4 << 20
"""Bytes that must be free there: a program takes up to some hundred thousand, and LLVM ends the process when a write fails."""
NO_FOLDER = f"PoCL needs a folder in which it can write {LEAST >> 20} MiB: set {CACHE_VARIABLE} to one, or TMPDIR"


def setting() -> dict[str, str]:
    """`CACHE_VARIABLE`, unless it is set: a folder beside our artefacts, or where that cannot be or somebody else could write there, one that
    ends with the process. Nothing where there is no such folder either."""
    if CACHE_VARIABLE in os.environ:
        return {}
    folder = str(folders.made() / "pocl")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if owned.why_not(folder) is not None or not _writable(folder):
            raise PermissionError(folder)
    except OSError:
        made = _temporary()
        return {CACHE_VARIABLE: made} if made else {}
    prune(folder)
    return {CACHE_VARIABLE: folder}


def check_room() -> None:
    """Raise DeviceError where PoCL could not compile."""
    folder = os.environ.get(CACHE_VARIABLE, "")
    if not folder or (os.path.isdir(folder) and _free(folder) < LEAST):
        raise DeviceError(NO_FOLDER + (f"; {folder} is full" if folder else ""))


def _free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _writable(folder: str) -> bool:
    """Whether a file can be made there (root is told that it may, where the disk is read-only), and has room."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return _free(folder) >= LEAST
    except OSError:
        return False


@once
def _temporary() -> str:
    try:
        folder = tempfile.mkdtemp(prefix="tilewright-pocl-")
    except OSError:
        return ""
    if not _writable(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return ""
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # a forked child of this process ends, too
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def prune(folder: str, now: float | None = None) -> None:
    """Delete what PoCL keeps in a folder of ours and nobody used for KEPT_S seconds: it never does so itself, and a
    search leaves thousands of programs there, and each of its processes an empty file. At most once a day. What cannot be deleted stays."""
    now, stamp = time.time() if now is None else now, Path(folder) / "pruned"
    try:
        if stamp.exists() and now - stamp.stat().st_mtime < _DAY_S:
            return
        stamp.touch()
    except OSError:
        return  # tidying can wait
    # two letters, then a folder a program, with a file that PoCL touches at every use
    for used in (*Path(folder).glob("??/*/last_accessed"), *Path(folder).glob("tempfile_*")):
        with contextlib.suppress(OSError):  # another process is at it too
            if now - used.stat().st_mtime > KEPT_S:
                if used.name == "last_accessed":
                    shutil.rmtree(used.parent, ignore_errors=True)
                else:
                    used.unlink()


# drivers --------------------------------------------------------------------------------------------------------------

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
_MODULE = "tilewright.devices.opencl.drivers"


@dataclass(frozen=True)
class InstalledDriver:
    """One driver's answer. `file` names it to the user; `environment` is what a process that is to use it, and no other, sets before its
    first OpenCL call. `devices` are as `describe` gives them; without any, `error` is the reason, with the fix."""

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
        env = {**os.environ, **settings(), **environment}
        try:
            process = ChildProcess(_MODULE, environment.get("OCL_ICD_FILENAMES", ""), env=env)
        except OSError as e:
            raise DeviceError(not_started("a process to ask the OpenCL drivers", e)) from e
        asked.append((file, environment, process))
    end = time.monotonic() + ASK_S
    # one that hangs leaves the others time to be heard
    return [_answer(file, environment, process, max(ASK_S / 6, end - time.monotonic())) for file, environment, process in asked]


def _answer(file: str, environment: Mapping[str, str], process: ChildProcess, wait_s: float) -> InstalledDriver:
    away = "remove that file, or choose drivers by OCL_ICD_VENDORS" if file.endswith(".icd") else "choose another by OCL_ICD_VENDORS"
    what = f"the OpenCL driver of {file}" if file else "OpenCL"
    ended = process.answer(wait_s)
    if ended.late:
        return InstalledDriver(file, environment, error=f"{what} did not answer within {ASK_S:.0f} s: {away}")
    if ended.status or not ended.last_line.startswith("{"):
        return InstalledDriver(file, environment, error=f"{what} ended the process that asked for its devices ({ended.why}): {away}")
    answer = json.loads(ended.last_line)
    if "none" in answer:
        if not file:
            return InstalledDriver(file, environment, error=f"{answer['none']}: {INSTALL}")
        return InstalledDriver(file, environment, error=f"{what}: {answer['none']}; install what is missing, or {away}")
    return InstalledDriver(file, environment, tuple(answer["devices"]))


def settings() -> dict[str, str]:
    """What every process that uses a driver, or asks it, sets. PoCL, which counts the machine's cores, uses those that this process may, and
    keeps what it compiles where it can."""
    from ...targets import usable_cores

    out = {"PYOPENCL_NO_CACHE": "1", "PYOPENCL_COMPILER_OUTPUT": "0"}
    threads = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")  # of PoCL before 4, and since
    if not any(name in os.environ for name in threads):
        out |= dict.fromkeys(threads, str(usable_cores()))
    return {name: value for name, value in out.items() if name not in os.environ} | setting()


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
    if "pocl" in library and CACHE_VARIABLE not in os.environ:
        return NO_FOLDER
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
        answer: dict[str, Any] = {"devices": devices} if devices else {"none": _why_not(library, "it has no device")}
    except Exception as e:
        # whatever a driver, its loader or the binding raises: the reason goes to the user
        answer = {"none": _why_not(library, " ".join(str(e).split()) or type(e).__name__)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()


CHECKS = "checks kernels (tune check) and is no device to tune for"
_EXTENSIONS = {"fp64": ("cl_khr_fp64", "cl_amd_fp64"), "fp16": ("cl_khr_fp16",), "subgroups": ("cl_khr_subgroup_shuffle",)}
_INTEL = {"cl_intel_subgroups", "cl_intel_required_subgroup_size"}
"""Subgroups of a size that a kernel chooses, and shuffles with names of their own."""


@dataclass(frozen=True)
class FoundDevice:
    """A device. `about` is what its driver says (`describe`); `environment` opens its driver and no
    other; `file` names the driver."""

    about: Mapping[str, Any]
    environment: Mapping[str, str]
    file: str

    @property
    def label(self) -> str:
        """Platform and name."""
        return f"{self.about['platform']} - {self.about['name']}"

    @property
    def late(self) -> bool:
        """Whether the driver compiles at the first launch."""
        return "portable computing" in self.about["platform"].lower()

    @property
    def checker(self) -> bool:
        """Whether it interprets kernels to check them: no device to tune for."""
        return "oclgrind" in self.about["platform"].lower()


def find() -> list[FoundDevice]:
    """Every device of every driver, in a fixed order: its place is its index. Raises DeviceError with the reason and
    the fix where there is none."""
    asked = drivers()
    out: list[FoundDevice] = []
    for driver in asked:
        # two files may name one driver
        out += [FoundDevice(d, driver.environment, driver.file) for d in driver.devices if all(d != f.about for f in out)]
    if not out:
        why = "; ".join(d.error for d in asked)
        raise DeviceError(why if INSTALL in why else f"{why}; or {INSTALL}")
    return out


def choose(devices: Sequence[FoundDevice], selector: str, failed: Sequence[str] = ()) -> FoundDevice:
    """The device that `selector` names. '': a GPU, else an accelerator, else a processor; among those of a kind for 'gpu', 'cpu' or
    'accelerator'. 'N': its index. 'P:N': the Nth of a platform, which is a number too or a part of its name. Else a part of its platform's
    or its own name (the first that has it). Raises DeviceError that lists what there is, and why others `failed`."""
    matching = _matching(devices, selector.lower())
    if matching:
        return matching[0]
    if devices and all(d.checker for d in devices):
        why = "; or ".join([*failed, INSTALL])
        raise DeviceError(f"the only OpenCL driver that works here is Oclgrind, which {CHECKS}: {why}")
    names = "; ".join(f"opencl:{i} is {d.label}" for i, d in enumerate(devices))
    raise DeviceError("; ".join([f"no OpenCL device {selector!r}: use an index or a part of a name ({names})", *failed]))


_KINDS = ("gpu", "accelerator", "cpu")


def _matching(devices: Sequence[FoundDevice], selector: str) -> list[FoundDevice]:
    if selector in ("", *_KINDS):
        usable = [d for d in devices if not d.checker and selector in ("", d.about["kind"])]
        # who installed Intel's runtime beside PoCL wants it: it compiles faster, and runs both forms of schedules
        return sorted(usable, key=lambda d: (_KINDS.index(d.about["kind"]), "intel" not in d.about["platform"].lower()))
    if selector.isdecimal():
        return [d for i, d in enumerate(devices) if selector == str(i)]
    platform, _, at = selector.rpartition(":")
    if platform and at.isdecimal():
        platforms = list(dict.fromkeys(_platform(d) for d in devices))
        of = platforms[int(platform) :][:1] if platform.isdecimal() else [p for p in platforms if platform in p[1].lower()]
        return [d for d in devices if _platform(d) in of[:1]][int(at) :]
    # the platform's name counts first: an Intel processor also runs other vendors' drivers
    return [d for part in ("platform", "name") for d in devices if selector in d.about[part].lower()]


def _platform(d: FoundDevice) -> tuple[str, str, str]:
    return d.file, d.about["platform"], d.about["platform_version"]


PYOPENCL = "PYOPENCL_CTX"
"""The variable by which users of pyopencl say which device is meant where a program does not: PLATFORM[:DEVICE], each a number or a part
of a name."""


def chosen(devices: Sequence[FoundDevice], context: str) -> FoundDevice:
    """The device that pyopencl takes for this value of its variable. Numbers are places in its own order. Raises DeviceError."""
    platform, _, at = context.lower().partition(":")
    if any(part.isdecimal() for part in (platform, at)):
        ended = ChildProcess(_MODULE, env={**os.environ, **settings()}).answer(ASK_S)
        answer = json.loads(ended.last_line) if not ended.status and ended.last_line.startswith("{") else {}
        place = {json.dumps(d, sort_keys=True): i for i, d in enumerate(answer.get("devices", ()))}
        devices = sorted(devices, key=lambda d: place.get(json.dumps(dict(d.about), sort_keys=True), len(place)))
    platforms = list(dict.fromkeys(_platform(d) for d in devices))
    of = [p for i, p in enumerate(platforms) if (platform == str(i) if platform.isdecimal() else platform in p[1].lower())][:1]
    mine = [d for d in devices if _platform(d) in of]
    found = [d for i, d in enumerate(mine) if (at == str(i) if at.isdecimal() else at in d.about["name"].lower())]
    if not found:
        raise DeviceError(
            f"{PYOPENCL}={context} names no OpenCL device that works here: mend it, unset it, or use opencl:NAME (tune devices)"
        )
    return found[0]


def target_of(d: Mapping[str, Any]) -> Target:
    """The Target of a device as its driver describes it."""
    features = {name for name, any_of in _EXTENSIONS.items() if set(any_of) & set(d["extensions"])}
    if d["kind"] != "cpu":
        if set(d["extensions"]) >= _INTEL:
            features |= {"subgroups", "intel_subgroups"}
        # a GPU's name alone may be a code ("gfx90a") or a brand
        name, cpu = _word(d["name"]), _word(f"{d['vendor']} {d['name']}")
        gpu = as_target(name, cpu, "gpu", frozenset(features), d["units"], d["shared"], d["group"])
        # without its size a subgroup is of no use, as nothing says who is in it
        warp = max(1, d.get("subgroup", 0)) if "subgroups" in features else 1
        cache = d["cache"] or gpu.l2
        return replace(gpu, warp=warp, l2=cache, l3=cache)
    platform = d["platform"].lower()
    if "intel" in platform:
        features.add("simt")  # its compiler vectorises across work-items; PoCL's hardly does
    driver = "intel" if "intel" in platform else "pocl" if "portable computing" in platform else _word(d["platform"])
    if driver == "pocl" and (kind := d["name"].partition("-")[0]) not in ("pthread", "cpu"):
        driver = f"pocl-{_word(kind)}"  # POCL_DEVICES: it has several for one processor, such as `basic`, which has one thread
    base = machine()  # whole: TILEWRIGHT_TARGET lowers the code that we make, and here the driver chooses instructions
    if driver.startswith("pocl"):
        features |= base.features  # it compiles for this processor, and assembles what instructions our text has
    return as_target(f"{driver}-{base.name}", base.cpu, "cpu", frozenset(features), d["units"], d["shared"], d["group"], base)


def _word(name: str) -> str:
    """A name as one lower-case word."""
    return re.sub(r"[^a-z0-9.]+", "-", re.sub(r"\((r|tm|c)\)", " ", name.lower())).strip("-")
