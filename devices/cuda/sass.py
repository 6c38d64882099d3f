"""Machine code of NVIDIA GPUs as text, and what is in it: NVIDIA's nvdisasm reads a cubin of any architecture, with
no GPU.

The program comes from the pip package nvidia-cuda-nvdisasm (extra `sass`), from a toolkit, or from the path.
Instructions are counted where they stand, not as often as they run: a loop's body counts once. What the words mean is
in NVIDIA's "CUDA Binary Utilities", chapter "Instruction Set Reference"."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ...ir.errors import BuildError, DeviceError
from .nvrtc import packages, toolkits

INSTALL = "pip install 'tilewright[sass]' (nvidia-cuda-nvdisasm), or set CUDA_HOME to a CUDA toolkit"
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "tensor cores": ("HMMA", "IMMA", "QMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA"),
    "arithmetic": ("FFMA", "FMUL", "FADD", "HFMA2", "DFMA", "MUFU", "IMAD", "IDP"),
    "asynchronous copies": ("LDGSTS", "LDGDEPBAR", "DEPBAR", "UTMALDG", "UTMASTG", "UBLKCP", "SYNCS"),
    "global memory": ("LDG", "STG", "RED", "ATOMG"),
    "shared memory": ("LDSM", "LDS", "STS", "STSM", "ATOMS"),
    "spills": ("LDL", "STL"),
    "threads": ("BAR", "SHFL", "WARPSYNC", "WARPGROUP", "USETMAXREG", "MEMBAR", "BRA"),
}
"""What `families` says of a kernel, by heading. (HFMA2.MMA, which moves a constant, is arithmetic.)"""
MEMORY = frozenset({"LDG", "STG", "LDS", "STS", "LDL", "STL", "LDGSTS"})
"""Accesses whose width is counted too."""
_TENSOR = frozenset(FAMILIES["tensor cores"]) - {"DMMA"} | {"LDSM"}
_READ_S = 60.0
_WIDTH = re.compile(r"\.[US]?(8|16|64|128)(?=\.|$)")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]*)")


def find() -> Path:
    """nvdisasm. Raises DeviceError, with the fix, where it is missing."""
    for folder in (*(p / "bin" for p in packages()), *(h / "bin" for h in toolkits())):
        if os.access(folder / "nvdisasm", os.X_OK):
            return folder / "nvdisasm"
    on_path = shutil.which("nvdisasm")
    if on_path is None:
        raise DeviceError(f"nvdisasm, which reads a GPU's machine code, is not installed; {INSTALL}")
    return Path(on_path)


def disassemble(cubin: bytes) -> str:
    """The machine code of every kernel of a cubin, as text.

    Raises DeviceError where nvdisasm is missing or hangs, BuildError where it cannot read this (no cubin, or of a GPU
    newer than it)."""
    tool = find()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        try:
            done = subprocess.run([tool, "-c", file], capture_output=True, timeout=_READ_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise DeviceError(f"{tool} does not run here: {e}; {INSTALL}") from e
    if done.returncode:
        why = done.stderr.decode(errors="replace").replace(str(file), "it").strip() or f"status {done.returncode}"
        fix = "install the nvdisasm of a newer CUDA for a newer GPU"
        raise BuildError(f"{tool.name} cannot read this machine code: {why}; {fix}")
    return done.stdout.decode(errors="replace")


def by_kernel(cubin: bytes) -> dict[str, Counter[str]]:
    """`counts` of each kernel by its name (matmul_p0 ...), in the order of names. Raises as `disassemble` does."""
    return dict(sorted(of_text(disassemble(cubin)).items()))


def counts(cubin: bytes) -> Counter[str]:
    """How many instructions of each kind all kernels of a cubin hold, by the first word of their names: HMMA, LDSM,
    LDGSTS, HGMMA, UTMALDG, FFMA, BAR, SHFL and so on; what is not there counts 0. Loads and stores count by their
    width in bits as well (LDG.128, STS.32, LDGSTS.128), and instructions of tensor cores under their whole name
    (HMMA.16816.F32.BF16). LDL and STL access a thread's own memory: spilled registers, and arrays without registers.
    Raises as `disassemble` does."""
    total: Counter[str] = Counter()
    for found in by_kernel(cubin).values():
        total.update(found)
    return total


def of_text(text: str) -> dict[str, Counter[str]]:
    """`counts` of each kernel in what `disassemble` gave."""
    out: dict[str, Counter[str]] = {}
    here: Counter[str] = Counter()
    for line in text.splitlines():
        if section := _SECTION.match(line):
            here = out.setdefault(section[1], Counter())
        elif found := _INSTRUCTION.match(line):
            here.update(_names(found[1]))
    return out


def _names(whole: str) -> tuple[str, ...]:
    """The keys that an instruction counts under."""
    first = whole.partition(".")[0]
    if first in MEMORY:
        width = _WIDTH.search(whole)
        return first, f"{first}.{width[1] if width else 32}"
    return (first, whole) if first in _TENSOR and whole != first else (first,)


def families(found: Mapping[str, int]) -> dict[str, str]:
    """The counts of one kernel for a reader, by heading: {'global memory': '4 LDG.128, 4 STG.32'}. Headings with
    nothing are left out; the rest of the instructions is none of these."""
    out = {}
    for heading, names in FAMILIES.items():
        parts = [part for name in names if found.get(name) for part in _detail(name, found)]
        if parts:
            out[heading] = ", ".join(parts)
    return out


def _detail(name: str, found: Mapping[str, int]) -> list[str]:
    """An instruction by its widths or whole names, where it has them."""
    parts = {key: n for key, n in found.items() if key.startswith(f"{name}.")}
    if not parts or sum(parts.values()) < found[name]:
        parts = {name: found[name]}
    return [f"{n} {key}" for key, n in sorted(parts.items(), key=lambda p: (-p[1], p[0]))]
