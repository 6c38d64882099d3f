"""What is in the machine code of a schedule, for people: each kernel's instructions by kind, registers, shared
memory, occupancy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...ir.errors import BuildError, DeviceError
from ...program import abi
from ...targets.table import RATES
from ..base import SourceLike
from . import nvrtc
from .nvrtc import packages, toolkits

# Machine code of NVIDIA GPUs as text, and what is in it: NVIDIA's nvdisasm reads a cubin of any architecture, with no
# GPU.
#
# The program comes from the pip package nvidia-cuda-nvdisasm (extra `sass`), from a toolkit, or from the path.
# Instructions are counted where they stand, not as often as they run: a loop's body counts once. What the words mean is
# in NVIDIA's "CUDA Binary Utilities", chapter "Instruction Set Reference".


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


# How much of a multiprocessor a kernel's groups fill at once, and what stands in the way of more.


WARP = 32
_REGISTERS = 64 << 10
_SCHEDULERS = 4
_REGISTER_UNIT = 256
"""Registers are handed to warps in multiples of this."""
_SHARED_UNIT = 128
_SYSTEM = 1024
"""Bytes of shared memory that a group takes beside its own, since compute capability 8.0."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`groups` resident on a multiprocessor at once, their `warps`, the `share` of the warps it could hold, and what
    is `full` first: 'registers', 'shared memory', 'warps' or 'groups'."""

    groups: int
    warps: int
    share: float
    full: str

    @property
    def text(self) -> str:
        """`2 groups a multiprocessor (16 warps, 25 %): registers are full`."""
        share = f"{self.warps} warps, {100 * self.share:.0f} %"
        what = f"{self.groups} group{'s' * (self.groups != 1)} a multiprocessor ({share})"
        return (
            f"{what}: {self.full} {'is' if self.full == 'shared memory' else 'are'} full"
            if self.groups
            else f"too much for one: {self.full}"
        )


def occupancy(arch: str, threads: int, registers: int, shared: int) -> Occupancy | None:
    """What fits for groups of `threads` that take `registers` a thread and `shared` bytes, static and dynamic, on an
    architecture such as 'sm_90a'; None for one whose sizes are not known. The rules are those of NVIDIA's occupancy
    calculator: registers are handed out by warp, in each of the four parts of a multiprocessor."""
    sizes = RATES.get(arch) or RATES.get(f"{arch}a")
    if sizes is None:
        return None
    warps = -(-threads // WARP)
    each = -(-max(1, registers) * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = _REGISTERS // _SCHEDULERS // each * _SCHEDULERS // warps
    taken = -(-(shared + _SYSTEM) // _SHARED_UNIT) * _SHARED_UNIT
    held = sizes.threads // WARP
    fits = {
        "warps": held // warps,
        "registers": by_registers,
        "shared memory": sizes.shared // taken,
        "groups": sizes.groups,
    }
    full = min(fits, key=lambda what: fits[what])
    groups = fits[full]
    return Occupancy(groups, groups * warps, groups * warps / held, full)


@dataclass(frozen=True)
class KernelContents:
    """One phase. `shared`: bytes of static and dynamic shared memory a group; `spills`: bytes that a thread stores of
    registers it has no room for; `stack`: bytes of its own memory. `counts` is what `sass.counts` says of it; empty
    where nothing could read the machine code, and then `why` says what to install."""

    name: str
    threads: int
    registers: int
    shared: int
    spills: int
    stack: int
    occupancy: Occupancy | None
    counts: Mapping[str, int]
    why: str = ""

    @property
    def takes(self) -> str:
        """Registers, shared memory, spills and occupancy in one line."""
        parts = [f"{self.threads} threads of {self.registers} registers"]
        parts += [f"{self.shared} bytes of shared memory"] * (self.shared > 0)
        parts += [f"{self.spills} bytes of registers spilled"] * (self.spills > 0)
        parts += [f"{self.stack} bytes of stack"] * (self.stack > self.spills)
        return ", ".join(parts) + (f"; {self.occupancy.text}" if self.occupancy else "")

    @property
    def families(self) -> dict[str, str]:
        """Its instructions for a reader, by heading."""
        return families(self.counts)

    def to_json(self) -> dict[str, Any]:
        """Plain data; sizes are bytes."""
        o = self.occupancy
        figures = ("name", "threads", "registers", "shared", "spills", "stack")
        return {name: getattr(self, name) for name in figures} | {
            "occupancy": {"groups": o.groups, "warps": o.warps, "share": o.share, "full": o.full} if o else None,
            "instructions": dict(sorted(self.counts.items())),
            "why": self.why or None,
        }


def contents(source: SourceLike) -> tuple[KernelContents, ...]:
    """Every phase of CUDA text, in their order, from a build of its own. Raises DeviceError where NVRTC is missing,
    BuildError where it rejects the text. Machine code that cannot be read (no nvdisasm, a GPU that it does not know)
    leaves counts out."""
    cubin, log = nvrtc.compile(source.text, source.target.cpu)
    try:
        found, why = by_kernel(cubin), ""
    except (DeviceError, BuildError) as e:
        found, why = {}, str(e)
    return tuple(_phases(source, nvrtc.resources(log), found, why))


def listing(source: SourceLike) -> str:
    """The machine code of CUDA text, and before it what each kernel takes. Raises DeviceError where NVRTC or nvdisasm
    is missing, BuildError where either rejects what it is given."""
    find()  # to miss it after a build would be late
    cubin, log = nvrtc.compile(source.text, source.target.cpu)
    text = disassemble(cubin)
    heads = [f"// {c.name}: {c.takes}\n" for c in _phases(source, nvrtc.resources(log), of_text(text), "")]
    return "".join(heads) + text


def _phases(
    source: SourceLike, figures: Mapping[str, nvrtc.Resources], found: Mapping[str, Mapping[str, int]], why: str
) -> Iterator[KernelContents]:
    signature, target = source.signature, source.target
    for i, threads in enumerate(signature.threads):
        name = abi.entry(signature, i)
        takes = figures[name]
        shared = takes.shared + abi.dynamic_shared(signature, target, i)
        fits = occupancy(target.cpu, threads, takes.registers, shared)
        counts = found.get(name, {})
        yield KernelContents(name, threads, takes.registers, shared, takes.spill_stores, takes.stack, fits, counts, why)
