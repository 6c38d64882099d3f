"""Which slots an entry's target means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from ..ir.errors import DeviceError, UsageError
from ..search.manifest.required import like, target_of

if TYPE_CHECKING:
    from ..search.manifest.entries import Place
    from .seam import FleetSlot, SlotDevice

_SEVERAL = ("cuda", "opencl")
"""Devices of which a machine may have several: `cuda` means any of them, `cuda:1` one."""


def fitting(place: Place, slots: Sequence[FleetSlot]) -> list[FleetSlot]:
    """The slots that a target of a manifest means and this client can use. Raises DeviceError, which says what there is instead, where
    there are none, and UsageError where `host` could be several kinds of machine."""
    timing = [s for s in slots if s.device is not None and s.width]
    wanted = place.target
    if wanted == "host":
        alike = [s for s in timing if s.device is not None and _same_device(s.device.spec, place.device)]
    else:
        key, _ = target_of(place)
        alike = [s for s in timing if s.device is not None and like(s.device.target, key) and _speaks(s.device, place)]
        wanted = key
    alike = [s for s in alike if s.device is not None and (place.compiler is None or like(s.device.compiler, place.compiler))]
    usable = [s for s in alike if not s.refused]
    if not usable:
        if alike:
            raise DeviceError(f"the worker at {alike[0].host} has it, but cannot be used: {alike[0].refused}")
        said = f"{place.device}, {'any target' if wanted == 'host' else wanted}" + (
            f", compiler {place.compiler}" if place.compiler else ""
        )
        raise DeviceError(f"no slot of the fleet is for it ({said}); there {_there(timing)}")
    kinds = dict.fromkeys((s.device.target, s.device.compiler) for s in usable if s.device is not None)
    if place.target == "host" and len(kinds) > 1:
        raise UsageError(
            f"target {place.name!r} says host, which could be any of {', '.join(t for t, _ in kinds)} in this fleet; name one in the manifest"
        )
    return usable


def _same_device(spec: str, asked: str) -> bool:
    if ".py:" in spec and ".py:" in asked:  # a plug-in's file may lie elsewhere there
        return PurePath(spec).name == PurePath(asked).name
    return spec == asked or (asked in _SEVERAL and spec.partition(":")[0] == asked)


def _speaks(device: SlotDevice, place: Place) -> bool:
    """Whether a device with the right target key is the one that the target names. A name's key holds the language, so there the
    kind is enough; a pattern may fit several."""
    return _same_device(device.spec, place.device)


def _there(timing: Sequence[FleetSlot]) -> str:
    found = dict.fromkeys(f"{s.device.spec} {s.device.target} ({s.host})" for s in timing if s.device is not None)
    return f"is {', '.join(found)}" if len(found) == 1 else f"are {', '.join(found)}" if found else "is no worker with a device"
