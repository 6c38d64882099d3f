"""How much of a multiprocessor a kernel's groups fill at once, and what stands in the way of more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

WARP = 32
_REGISTERS = 64 << 10
_SCHEDULERS = 4
_REGISTER_UNIT = 256
"""Registers are handed to warps in multiples of this."""
_SHARED_UNIT = 128
_SYSTEM = 1024
"""Bytes of shared memory that a group takes beside its own, since compute capability 8.0."""


@dataclass(frozen=True, slots=True)
class SmSizes:
    """What one multiprocessor holds at most: warps, groups, and bytes of shared memory."""

    warps: int
    groups: int
    shared: int


SIZES: Mapping[str, SmSizes] = MappingProxyType(
    {
        "sm_75": SmSizes(32, 16, 64 << 10),
        "sm_80": SmSizes(64, 32, 164 << 10),
        "sm_86": SmSizes(48, 16, 100 << 10),
        "sm_87": SmSizes(48, 16, 164 << 10),
        "sm_89": SmSizes(48, 24, 100 << 10),
        "sm_90": SmSizes(64, 32, 228 << 10),
        "sm_100": SmSizes(64, 32, 228 << 10),
        "sm_120": SmSizes(48, 24, 100 << 10),
    }
)
"""CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`groups` resident on a multiprocessor at once, their `warps`, the `share` of the warps it could hold, and what is `full` first:
    'registers', 'shared memory', 'warps' or 'groups'."""

    groups: int
    warps: int
    share: float
    full: str

    @property
    def text(self) -> str:
        """`2 groups a multiprocessor (16 warps, 25 %): registers are full`."""
        what = f"{self.groups} group{'s' * (self.groups != 1)} a multiprocessor ({self.warps} warps, {100 * self.share:.0f} %)"
        return (
            f"{what}: {self.full} {'is' if self.full == 'shared memory' else 'are'} full"
            if self.groups
            else f"too much for one: {self.full}"
        )


def occupancy(arch: str, threads: int, registers: int, shared: int) -> Occupancy | None:
    """What fits for groups of `threads` that take `registers` a thread and `shared` bytes, static and dynamic, on an architecture such
    as 'sm_90a'; None for one whose sizes are not known. The rules are those of NVIDIA's occupancy calculator: registers are handed
    out by warp, in each of the four parts of a multiprocessor."""
    sizes = SIZES.get(arch.rstrip("abcdefghijklmnopqrstuvwxyz"))
    if sizes is None:
        return None
    warps = -(-threads // WARP)
    each = -(-max(1, registers) * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = _REGISTERS // _SCHEDULERS // each * _SCHEDULERS // warps
    system = 0 if arch.startswith("sm_7") else _SYSTEM
    taken = -(-(shared + system) // _SHARED_UNIT) * _SHARED_UNIT
    fits = {
        "warps": sizes.warps // warps,
        "registers": by_registers,
        "shared memory": sizes.shared // taken if taken else sizes.groups,
        "groups": sizes.groups,
    }
    full = min(fits, key=lambda what: fits[what])
    groups = fits[full]
    return Occupancy(groups, groups * warps, groups * warps / sizes.warps, full)
