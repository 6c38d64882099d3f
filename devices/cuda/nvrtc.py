"""CUDA text to machine code by NVRTC, NVIDIA's compiler as a library: it needs no GPU, no driver and no toolkit.

The library comes from the pip package nvidia-cuda-nvrtc (extra `cuda`) or from a toolkit. It may be called from several threads at
once: the interpreter's lock is released and NVRTC takes none of its own."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...ir.errors import BuildError, DeviceError

INSTALL = "pip install 'tilewright[cuda]' (nvidia-cuda-nvrtc), or set CUDA_HOME to a CUDA toolkit"
OPTIONS = ("--std=c++17", "--fmad=false", "--ptxas-options=-v")
"""What every kernel is compiled with: a Program says itself where a multiplication and an addition are one rounding."""
_INVALID_OPTION = 5
_LOG_LINES = 8


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes, as the assembler reports it: registers a thread; bytes of spills and of stack a thread; bytes of
    static shared memory a group (dynamic shared memory is given at the launch)."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int


def compile(text: str, arch: str, options: Sequence[str] = OPTIONS, name: str = "kernel.cu") -> tuple[bytes, str]:
    """(cubin, log) of CUDA C++ for an architecture such as 'sm_80' or 'sm_90a'. `resources` reads the log.

    Raises BuildError with the first lines of the compiler's log, DeviceError where there is no NVRTC or it does not know `arch`."""
    return _compiled(text, arch, options, name, "CUBIN")


def compile_to_ptx(text: str, arch: str) -> str:
    """The PTX that the same compilation goes through. Raises as `compile` does."""
    return _compiled(text, arch, OPTIONS, "kernel.cu", "PTX")[0].rstrip(b"\0").decode(errors="replace")


def _compiled(text: str, arch: str, options: Sequence[str], name: str, what: str) -> tuple[bytes, str]:
    lib = library()
    program = ctypes.c_void_p()
    _check(lib, lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None), "nvrtcCreateProgram")
    try:
        words = [f"--gpu-architecture={arch}", *options, *(f"--include-path={p}" for p in includes())]
        given = (ctypes.c_char_p * len(words))(*(w.encode() for w in words))
        status = lib.nvrtcCompileProgram(program, len(words), given)
        log = _bytes(lib, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status:
            if status == _INVALID_OPTION and "gpu-architecture" in log:
                known = ", ".join(architectures())
                raise DeviceError(
                    f"NVRTC {'.'.join(map(str, version()))} does not compile for {arch}; it knows {known}: install the NVRTC of a newer CUDA"
                )
            raise BuildError(f"NVRTC ({_error(lib, status)}) for {arch}: {_first_lines(log)}")
        return _bytes(lib, program, what), log
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def resources(log: str) -> dict[str, Resources]:
    """What each kernel takes, by name, from the log of `compile` (with `--ptxas-options=-v`). Functions that are no
    kernels are left out."""
    out: dict[str, Resources] = {}
    name, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if m := re.search(r"Compiling entry function '([^']+)'", line):
            name, frame = m[1], (0, 0, 0)
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            frame = (int(m[1]), int(m[2]), int(m[3]))
        elif (m := re.search(r"Used (\d+) registers", line)) and name:
            smem = re.search(r"(\d+) bytes smem", line)
            out[name] = Resources(int(m[1]), frame[1], frame[2], frame[0], int(smem[1]) if smem else 0)
            name = ""
    return out


def version() -> tuple[int, int]:
    """NVRTC's release, which is that of its CUDA, such as (13, 0). Raises DeviceError where there is none."""
    lib = library()
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(lib, lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


def architectures() -> tuple[str, ...]:
    """What this NVRTC compiles for: 'sm_80' and so on, without the variants of one architecture (sm_90a goes with sm_90)."""
    lib = library()
    count = ctypes.c_int()
    _check(lib, lib.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
    found = (ctypes.c_int * count.value)()
    _check(lib, lib.nvrtcGetSupportedArchs(found), "nvrtcGetSupportedArchs")
    return tuple(f"sm_{n}" for n in found)


@functools.cache
def library() -> Any:
    """NVRTC, loaded once a process. Raises DeviceError, with the fix, where it is missing."""
    tried = []
    for path in _candidates():
        try:
            # NVRTC opens this one by its bare name, which only finds it where it is loaded already or on the loader's path
            for companion in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")) if os.path.isabs(path) else ():
                ctypes.CDLL(str(companion))
            lib = ctypes.CDLL(path)
        except OSError as e:
            if os.path.isabs(path):  # it is there and does not load: that is news
                tried.append(str(e))
            continue
        lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        return lib
    raise DeviceError(
        f"NVRTC, the CUDA compiler library, is not {'usable' if tried else 'installed'}{': ' + tried[0] if tried else ''}; {INSTALL}"
    )


def _candidates() -> Iterator[str]:
    """Where the library may be: pip packages, toolkits, the loader's own path; newest first within each."""
    for folder in (*(p / "lib" for p in packages()), *(h / d for h in toolkits() for d in ("lib64", "lib"))):
        # libnvrtc.alt and libnvrtc-builtins are other libraries; a name without a version is a link for linkers
        yield from map(str, sorted(folder.glob("libnvrtc.so.*"), key=_number, reverse=True))
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def _number(file: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", file.name))


def packages() -> Iterator[Path]:
    """The folders of pip's NVIDIA packages that hold lib/ and include/."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for root in spec.submodule_search_locations or () if spec else ():
        yield from sorted(Path(root).glob("cu[0-9]*"), reverse=True)  # since CUDA 13
        yield from (p for p in (Path(root) / n for n in ("cuda_nvrtc", "cuda_runtime")) if p.is_dir())  # CUDA 12


def toolkits() -> Iterator[Path]:
    """The folders of CUDA toolkits that may be here."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    if sys.platform.startswith("linux"):
        yield Path("/usr/local/cuda")


@functools.cache
def includes() -> tuple[str, ...]:
    """Folders of CUDA's headers, if there are any; kernels that include nothing need none."""
    return tuple(str(p / "include") for p in (*packages(), *toolkits()) if (p / "include" / "cuda_fp16.h").is_file())[:1]


def _bytes(lib: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(lib, getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    out = ctypes.create_string_buffer(size.value)
    _check(lib, getattr(lib, f"nvrtcGet{what}")(program, out), f"nvrtcGet{what}")
    return out.raw


def _check(lib: Any, status: int, call: str) -> None:
    if status:
        raise BuildError(f"NVRTC: {call} failed ({_error(lib, status)})")


def _error(lib: Any, status: int) -> str:
    return str(lib.nvrtcGetErrorString(status).decode())


def _first_lines(log: str) -> str:
    """The first errors of a log, else its first lines, as one short text."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    at = next((i for i, line in enumerate(lines) if "error" in line), 0)
    kept = lines[at : at + _LOG_LINES]
    return "\n".join(kept) if kept else "the compiler said nothing"
