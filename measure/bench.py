"""What candidates are measured on: inputs, operands, references, and how cores are shared. Made in the runner, before it forks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import devices
from ..ir.errors import DeviceError, MeasureError
from ..log import logger
from .checking.compare import Checker, DeviceChecker, DeviceFirstOutputs, FirstOutputs
from .checking.exact_sums import drift, is_exact
from .checking.verify import expectations, special_expectations
from .inputs import generate, generate_special, shape
from .measurement_policy import AS_PROGRAMS, MeasurementPolicy
from .operands import DeviceOperands, Operands
from .processes.process import Slots

if TYPE_CHECKING:
    from ..devices import Device, Memory
    from ..ir.kernel import Kernel
    from .checking.compare import Checker, DeviceChecker, DeviceFirstOutputs
    from .checking.compiled_references import DeviceReference
    from .checking.verify import Expect, Verdict
    from .energy import EnergyMeter
    from .operands import DeviceOperands, Operands

log = logger("measure")


@dataclass(frozen=True)
class Data:
    """Which inputs: a seed, and their kind, as in `Measurement.checks`. `subnormal`: special ones have subnormal
    numbers and others so small that products are. `moderate`: none is infinite, NaN or huge."""

    seed: int
    kind: str = "random"
    subnormal: bool = True
    moderate: bool = False

    @property
    def special(self) -> bool:
        """They have values that random ones never do."""
        return self.kind in ("special", "edges")


@dataclass(frozen=True)
class RunnerSetup:
    """What a runner is started with. `vars` maps symbol names to values; `memory_limit` is in bytes, on top of the operands.
    `hashed`: say which bits every candidate's outputs hold. `reference`: the kernel whose error bound results are held to, where it
    is not `kernel` itself (see `ir.lower_precision`). `prepare`: what makes the Bench of some inputs, importable by name; None:
    `prepare`. With another one `kernel` may be anything that it understands. `energy`: 'energy' or 'dynamic-energy' (what
    the machine takes at rest is subtracted) where that is measured too. `policy`: where operands lie."""

    kernel: Kernel
    device: Any
    threads: int
    vars: Mapping[str, int]
    deadline_s: float
    memory_limit: int
    hashed: bool = False
    reference: Kernel | None = None
    prepare: Callable[[RunnerSetup, Device, Data, bool], Bench] | None = None
    energy: str = ""
    policy: MeasurementPolicy = AS_PROGRAMS

    @property
    def judged(self) -> Kernel:
        """The kernel that results are compared with."""
        return self.reference or self.kernel


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
    turns: bool = True
    """Whether rounds of a duel on several sets of operands take turns with rounds on one."""
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
            self.on_device = DeviceOperands(self.host, memory)
        self.operands.touch()
        computing()
        if memory is not None:
            memory.prepare()
        if memory is not None and memory.compares:
            self._compare_there(memory)

    def _compare_there(self, memory: Memory) -> None:
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
            from .energy import EnergyMeter, counter_of

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


def prepare(setup: RunnerSetup, device: Device, data: Data, timed: bool) -> Bench:
    """What candidates are measured on. `timed`: they will be, so operands are there as often as it takes to pass the caches."""
    from .checking.compiled_references import plan

    began, once = time.process_time(), [0.0]
    kernel, vars, judged = setup.kernel, setup.vars, setup.judged
    whole = data.kind == "whole"
    reference = None
    if data.special:
        wild, huge = data.kind == "special" and not data.moderate, not data.moderate
        values = generate_special(kernel, vars, data.seed, wild, data.subnormal, huge)
    else:
        values = generate(kernel, vars, data.seed, whole)
        reference = plan(judged, device, values, *_roundings(judged, vars, whole))

    def on_host() -> Checker:
        return Checker(_expects(judged, data, values, vars, once.append), _checking(device), late=data.kind != "random")

    shapes = [shape(b, kernel, vars) for b in kernel.buffers]
    copies = setup.policy.sets(kernel, vars, device.target) if timed else 1
    copying = time.process_time()
    operands = Operands([b.name for b in kernel.buffers], [b.dtype for b in kernel.buffers], shapes, values, copies)
    copied = time.process_time() - copying
    order = [vars[s.arg.name] for s in kernel.symbols]
    checker = on_host() if reference is None else Checker({}, None)
    bench = Bench(device, setup.threads, operands, checker, order, Slots(None), data.kind)
    bench.reference, bench.otherwise, bench.turns = reference, on_host, setup.policy.operands == "program"
    bench.cost_s = (time.process_time() - began - copied - sum(once), copied)
    return bench


def _roundings(judged: Kernel, vars: Mapping[str, int], whole: bool) -> tuple[bool, float]:
    """Whether none can happen, and how much further than at random they may add up."""
    exact = whole and is_exact(judged, vars)
    return exact, drift(judged, vars) if whole and not exact else 1.0


def _expects(
    judged: Kernel, data: Data, values: Mapping[str, Any], vars: Mapping[str, int], once: Callable[[float], None]
) -> dict[str, Expect]:
    """The references on the host: by compiled code where that is quicker than NumPy, and right. `once` is told what compiling took, which the
    inputs that are prepared next need not wait for again."""
    from .checking.compiled_references import compiled_expectations

    if data.special:
        return special_expectations(judged, values, vars, data.seed)
    whole = data.kind == "whole"
    compiled = compiled_expectations(judged, values, *_roundings(judged, vars, whole), once)
    return expectations(judged, values, vars, whole) if compiled is None else compiled


def _checking(device: Device) -> Device | None:
    """The device that compares results, in the host's memory."""
    if device.isolation == "fork":
        return device
    try:
        cpu = devices.get("cpu")
        cpu.check()
    except DeviceError:
        return None  # NumPy compares
    return cpu
