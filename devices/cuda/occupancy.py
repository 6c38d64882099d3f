"""How much of a multiprocessor a kernel's groups fill at once, and what stands in the way of more."""

from __future__ import annotations

from dataclasses import dataclass

from ...targets.gpu_rates import RATES

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
