"""Calls whose buffers are known: their checks, and a loop that queues a list of them on a device."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.errors import UsageError
from .base import Executable, Packed

Places = Sequence[tuple[int, int]]
"""(position of a call, position of its parameter): where one address is used."""


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A call: an executable, an address for each parameter of its signature (a handle, on a device with memory of its
    own), and the value of each of its symbols. `packed`: what `Executable.pack` made of its constant inputs. `keep`:
    anything that must live as long as the call, such as the arrays at the addresses."""

    executable: Executable
    pointers: tuple[int, ...]
    vars: tuple[int, ...] = ()
    packed: Packed | None = None
    keep: object = None


def check(calls: Sequence[BoundCall], slots: Sequence[Places]) -> None:
    """Raise UsageError for calls that do not fit their executables, and for addresses that are missing or misaligned.
    `slots`: places whose addresses are given later."""
    later: set[tuple[int, int]] = set()
    for slot in slots:
        for at in slot:
            place(calls, *at)
            if at in later:
                raise UsageError(f"{described(calls, *at)} is in two slots, or twice in one: an address can have one source")
            later.add(at)
    for i, c in enumerate(calls):
        signature = c.executable.signature
        if len(c.pointers) != len(signature.params):
            raise UsageError(f"call {i}: {signature.name} takes {len(signature.params)} buffers, not {len(c.pointers)}")
        if len(c.vars) != len(signature.symbols):
            names = ", ".join(signature.symbols) or "none"
            raise UsageError(f"call {i}: {signature.name} needs a value for each of its symbols ({names}), not {len(c.vars)} values")
        for j, pointer in enumerate(c.pointers):
            if (i, j) not in later:
                check_address(calls, i, j, pointer)


def place(calls: Sequence[BoundCall], call: int, parameter: int) -> None:
    """Raise UsageError where no call has this parameter."""
    if not 0 <= call < len(calls):
        raise UsageError(f"there is no call {call}: they are numbered from 0 to {len(calls) - 1}")
    params = calls[call].executable.signature.params
    if not 0 <= parameter < len(params):
        raise UsageError(f"call {call} ({calls[call].executable.signature.name}) has no parameter {parameter}: it has {len(params)}")


def described(calls: Sequence[BoundCall], call: int, parameter: int) -> str:
    """A parameter of a call, as messages name it."""
    signature = calls[call].executable.signature
    return f"{signature.params[parameter].name} of call {call} ({signature.name})"


def check_address(calls: Sequence[BoundCall], call: int, parameter: int, pointer: int) -> None:
    """Raise UsageError where this cannot be the address of a parameter."""
    signature = calls[call].executable.signature
    size = max(signature.align, signature.params[parameter].dtype.size)
    if pointer <= 0:
        raise UsageError(f"{described(calls, call, parameter)} has no address: give one, or put it into a slot")
    if calls[call].executable.addressed and pointer % size:
        raise UsageError(f"{described(calls, call, parameter)} must lie at a multiple of {size} bytes, not at {pointer}")


class QueuedCalls:
    """The calls one after the other from Python, into the device's queue, which is waited for once."""

    def __init__(self, calls: Sequence[BoundCall], slots: Sequence[Places]) -> None:
        check(calls, slots)
        self.calls = tuple(calls)
        self._queued = [c.executable.queue(c.vars, c.packed) for c in calls]
        self._pointers = [list(c.pointers) for c in calls]
        self._slots = [tuple(slot) for slot in slots]
        self._lock = threading.Lock()

    def run(self, *addresses: int) -> None:
        """As `Replay.__call__`."""
        if len(addresses) != len(self._slots):
            raise UsageError(f"this replay takes {len(self._slots)} addresses, one for each slot, not {len(addresses)}")
        with self._lock:
            for slot, address in zip(self._slots, addresses, strict=True):
                for call, parameter in slot:
                    self._pointers[call][parameter] = address
            try:
                for queued, pointers in zip(self._queued, self._pointers, strict=True):
                    queued(*pointers)
            finally:
                if self.calls:
                    self.calls[-1].executable.wait()

    def patch(self, call: int, parameter: int, address: int) -> None:
        """As `Replay.patch`, for one address."""
        with self._lock:
            self._pointers[call][parameter] = address

    @property
    def threads(self) -> tuple[int, ...]:
        """How many threads each call may use."""
        return tuple(c.executable.threads for c in self.calls)
