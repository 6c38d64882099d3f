"""What candidates are measured on: operands, what is expected of the results, and how cores are shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .slots import Slots

if TYPE_CHECKING:
    from ..devices import Device
    from .compare import Checker
    from .device_memory import DeviceOperands
    from .first_outputs import FirstOutputs
    from .memory import Operands


@dataclass
class Bench:
    """Everything a child inherits from the runner for one set of inputs."""

    device: Device
    threads: int
    host: Operands
    checker: Checker
    vars: Sequence[int]
    slots: Slots
    name: str = "random"
    """What its inputs are, as `Measurement.checks` says it."""
    on_device: DeviceOperands | None = None
    kept: dict[int, FirstOutputs] = field(default_factory=dict)

    @property
    def operands(self) -> Operands | DeviceOperands:
        """What candidates run on: the host's operands, or their copies on the device."""
        return self.on_device or self.host

    def open(self) -> None:
        """In a child: open the device's memory, if it has one, and get the operands ready."""
        memory = self.device.memory()
        if memory is not None:
            from .device_memory import DeviceOperands

            self.on_device = DeviceOperands(self.host, memory)
        self.operands.touch()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.host.nbytes + self.checker.nbytes
