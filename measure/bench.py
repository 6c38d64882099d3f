"""What candidates are measured on: operands, what is expected of the results, and how cores are shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..ir.errors import DeviceError, MeasureError
from ..log import logger
from .checking.first_outputs import FirstOutputs
from .processes.slots import Slots

if TYPE_CHECKING:
    from ..devices import Device, Memory
    from .checking.compare import Checker
    from .checking.verify import Verdict
    from .energy.meter import EnergyMeter
    from .memory import Operands
    from .on_device.compare import DeviceChecker, DeviceFirstOutputs
    from .on_device.memory import DeviceOperands
    from .on_device.reference import DeviceReference

log = logger("measure")


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
    judge: DeviceChecker | None = None
    """Compares on the device, where that is possible."""
    reference: DeviceReference | None = None
    """Makes the references on the device; `checker` is empty then, and `otherwise` makes the host's where that fails."""
    otherwise: Callable[[], Checker] | None = None
    cost_s: tuple[float, float] | None = None
    """Processor seconds that it took to make, where that is known: for inputs and references, and for copies of operands."""
    energy: str = ""
    """What is measured beside the time, as in `RunnerSetup`."""
    kept: dict[int, FirstOutputs | DeviceFirstOutputs] = field(default_factory=dict)

    _meter: EnergyMeter | DeviceError | None = None

    @property
    def operands(self) -> Operands | DeviceOperands:
        """What candidates run on: the host's operands, or their copies on the device."""
        return self.on_device or self.host

    def open(self, computing: Callable[[], None]) -> None:
        """In a child: open the device's memory, if it has one, and get the operands ready. `computing` is called before what may
        take long although the device answers: the compiler, and a heavy reference."""
        memory = self.device.memory()
        if memory is not None:
            from .on_device.memory import DeviceOperands

            self.on_device = DeviceOperands(self.host, memory)
        self.operands.touch()
        computing()
        if memory is not None:
            memory.prepare()
        if memory is not None and memory.compares:
            self._judged_there(memory)

    def _judged_there(self, memory: Memory) -> None:
        from .on_device.compare import DeviceChecker

        try:
            if self.reference is not None:
                self.judge = DeviceChecker(self.reference.compute(self.device, self._device, memory))
            else:
                self.judge = DeviceChecker.of(self.checker, memory)
        except (DeviceError, MeasureError) as e:
            if not memory.sound():
                raise
            log.info("results are compared on the host: %s", e)
            if self.reference is not None:
                assert self.otherwise is not None
                self.reference, self.checker = None, self.otherwise()

    def meter(self) -> EnergyMeter:
        """In a child: what measures energy, opened once. Raises DeviceError."""
        if isinstance(self._meter, DeviceError):
            raise self._meter  # looking again would take seconds
        if self._meter is None:
            from .energy.find import counter_of
            from .energy.meter import EnergyMeter

            try:
                self._meter = EnergyMeter(counter_of(self.device), idle=self.energy == "dynamic-energy")
            except DeviceError as e:
                self._meter = e
                raise
        return self._meter

    def broken(self) -> bool:
        """After an error of the device: whether nothing that it holds for this process can be relied on."""
        return self.on_device is not None and not self.on_device.memory.sound()

    def check(self, addresses: Sequence[int], full: bool = False) -> Verdict:
        """The verdict on the outputs of one set of operands, by whoever is quickest; `full`: by NumPy, which also has the last word on
        what the device says of the same outputs. Where the reference is the device's own, so is the verdict."""
        if self.judge is not None and (not full or self.reference is not None):
            return self.judge.check(self._device, addresses)
        verdict = self.checker.check(self.host, self.operands.fetch(addresses), full=full)
        if self.judge is not None and (there := self.judge.check(self._device, addresses)) != verdict:
            log.info("results are compared on the host: the device says %s, NumPy %s", there, verdict)
            self.judge.free()
            self.judge = None
        return verdict

    def first_outputs(self, slot: int) -> FirstOutputs | DeviceFirstOutputs:
        """What keeps the first outputs of the candidate in a slot: on the device, where that compares and has room, and then it takes
        addresses of `operands`; or on the host, and then it takes the host's."""
        if slot not in self.kept:
            self.kept[slot] = self._first_outputs()
        return self.kept[slot]

    def _first_outputs(self) -> FirstOutputs | DeviceFirstOutputs:
        if self.judge is not None:
            from .on_device.compare import DeviceFirstOutputs

            try:
                return DeviceFirstOutputs(self._device, self._device.memory)
            except MeasureError as e:
                if self.broken():
                    raise
                log.info("runs are compared on the host: %s", e)
        return FirstOutputs(self.host, stay=self.on_device is None)

    def leave(self, addresses: Sequence[int]) -> None:
        """A set of operands is about to be written: what is kept of a first run there moves to a copy. (On a device it is one.)"""
        if self.on_device is None:
            for kept in self.kept.values():
                if isinstance(kept, FirstOutputs):
                    kept.leave(addresses)

    def forget(self, slot: int) -> None:
        """Another candidate comes into a slot: nothing is compared any more with what is kept of the one there, or of those in slots
        behind it."""
        for i, kept in self.kept.items():
            if i >= slot and isinstance(kept, FirstOutputs):
                kept.forget()

    @property
    def _device(self) -> DeviceOperands:
        assert self.on_device is not None
        return self.on_device

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.host.nbytes + self.checker.nbytes
