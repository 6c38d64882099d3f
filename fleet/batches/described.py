"""A device that is somewhere else: what a search must know of it, as data. It is not run here, and what it builds, it builds for there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...devices import Device, Executable, SourceLike
from ...devices.limits import Limits
from ...ir.errors import BuildError, DeviceError
from ...targets import Target
from . import messages

if TYPE_CHECKING:
    from ...program.program import Signature


@dataclass(frozen=True)
class DeviceFacts:
    """`to_json` is what a worker answers. `spec`: what `devices.get` takes there; the others as in `Device`."""

    spec: str
    name: str
    target: Target
    compiler: str
    threads: int
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dict(messages.CODEC.plain(self))

    @staticmethod
    def from_json(data: Any) -> DeviceFacts:
        """What `to_json` wrote. Raises FleetError, DeviceError."""
        return messages.read(DeviceFacts, data, "its device")

    @staticmethod
    def of(device: Device, threads: int) -> DeviceFacts:
        """Those of a device that is here."""
        known = device.spec or device.name
        return DeviceFacts(known, device.name, device.target, device.compiler_id(), threads, device.fingerprint(), device.limits())


class DescribedDevice(Device):
    """A device by its facts. It knows its target, and builds where this machine has the same compiler; it runs nothing."""

    def __init__(self, facts: DeviceFacts) -> None:
        self.facts = facts
        self.name = facts.name

    @property
    def target(self) -> Target:
        return self.facts.target

    @property
    def threads(self) -> int:
        return self.facts.threads

    def compiler_id(self) -> str:
        return self.facts.compiler

    def fingerprint(self) -> dict[str, Any]:
        return dict(self.facts.fingerprint)

    def limits(self, probe: bool | float = False) -> Limits | None:
        return self.facts.limits

    def build(self, source: SourceLike) -> bytes:
        from ...devices import get

        maker = get(self.facts.spec)
        if maker.compiler_id() != self.facts.compiler:
            raise BuildError(
                f"this machine has {maker.compiler_id()}, and the device's code is made by {self.facts.compiler}: install that one"
            )
        return maker.build(source)

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        raise DeviceError(f"the {self.name} device is on another machine: measure there, with tune run --fleet")
