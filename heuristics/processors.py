"""Which machine is assumed for a processor that was not measured."""

from __future__ import annotations

from dataclasses import replace

from ..targets.traits import of_cpu
from .machine import DEFAULT, Caches, Core, Jumps, MachineModel

ZEN = MachineModel(caches=Caches(l3=32.0, dram=8.0, past=0.5, last_most=64.0), jumps=Jumps(near=1.0, shared=20.0))
"""Processors whose cores share a last cache by a few, close by (AMD's since Zen: 32 bytes a cycle by their manuals), and not by the mesh of
all cores: what it keeps is not worth storing past it, for whoever comes next reads it from memory. A core reads 26 to 33 GB/s from there
(measured on Zen 4). To go on in another page of the last cache costs less than where that mesh makes a core wait: up to 8 cycles while
other data is not in the way (measured on Zen 3 alone), and more beside others' calls."""

ZEN3 = replace(
    ZEN,
    core=Core(div=3.75, divided=0.06, sqrt=7.3, rooted=0.11),
    caches=replace(ZEN.caches, l3=21.0),
    jumps=replace(ZEN.jumps, far=46.0),
)
"""Zen 3, which divides and takes roots twice as fast as that Xeon (`benchmarks/calibrate.py`): 61 GB/s from the last cache.
Sums down strips of 64 bytes of 3 MB take 83 us there, where whole rows take 67; of 8 MB 230 and 170; and in memory a jump between pieces of 64 bytes takes 9 ns, between pieces of 256 15 (all measured)."""

ZEN4 = replace(ZEN, core=Core(issue=4.0, spill_carried=1.0), jumps=replace(ZEN.jumps, asked=150.0))
"""Zen 4, where requests for the rows that come next (CACHE with prefetch) are short streams too: 50 ns for each (measured on sums of rows of 4 KiB, two rows
at once; one row at a time comes at 45 GB/s). It takes six instructions a cycle, where that Xeon takes four; and what is stored on the stack
is there for the next load by its address's registers, without a wait for the cache."""

PROCESSORS = {"znver3": ZEN3, "znver4": ZEN4, "znver*": ZEN}
"""By LLVM's name of the processor, or a pattern of names; `machine.DEFAULT` for any other."""


def machine_of(cpu: str) -> MachineModel:
    """The machine that is assumed for a processor, by LLVM's name of it."""
    return of_cpu(PROCESSORS, cpu, DEFAULT)
