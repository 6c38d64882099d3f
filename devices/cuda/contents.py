"""What is in the machine code of a schedule, for people: each kernel's instructions by kind, registers, shared
memory, occupancy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...ir.errors import BuildError, DeviceError
from ...program import abi
from ..base import SourceLike
from . import nvrtc, sass
from .occupancy import Occupancy, occupancy


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
        return sass.families(self.counts)

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
        found, why = sass.by_kernel(cubin), ""
    except (DeviceError, BuildError) as e:
        found, why = {}, str(e)
    return tuple(_phases(source, nvrtc.resources(log), found, why))


def listing(source: SourceLike) -> str:
    """The machine code of CUDA text, and before it what each kernel takes. Raises DeviceError where NVRTC or nvdisasm
    is missing, BuildError where either rejects what it is given."""
    sass.find()  # to miss it after a build would be late
    cubin, log = nvrtc.compile(source.text, source.target.cpu)
    text = sass.disassemble(cubin)
    heads = [f"// {c.name}: {c.takes}\n" for c in _phases(source, nvrtc.resources(log), sass.of_text(text), "")]
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
