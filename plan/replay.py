"""Replay: the native calling of a list of kernels whose buffers are known, again and again, with almost no overhead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..devices import AnyCall, BoundCall, BoundLoop, Places
from ..devices.bound_calls import QueuedCalls, check_address, place
from ..devices.cpu.executable import CpuExecutable
from ..ir.errors import UsageError


class Replay:
    """`replay()` makes all calls of a list in order, each complete before the next one, and returns when the last one
    is done. On the processor that is one native call, which costs some tens of nanoseconds a kernel beside the
    kernel's own work; on other devices a loop that queues the kernels and waits once.

    `calls`: see `CompiledKernel.bound` and `devices.BoundCall`; on the processor also loops of calls (`devices.BoundLoop`). All must be of
    one device. `slots`: addresses that are given with
    each run, such as those of arguments and of fresh outputs; slot i names every place (call, parameter) that gets
    the i-th address of `replay(address, ...)`. `symbols`: names of symbols whose values are given with each run, after the addresses, to
    all calls that have no `vars` of their own; a value that was never given costs some microseconds. (Of calls on memory without
    elements to write nothing runs.)

    The executables live as long as the replay. The memory at the addresses is the caller's to keep, unless a call
    keeps it. Safe to call from several threads; runs of one replay happen one at a time. On the processor, the first
    runs time short calls with one thread and with all, and settle on the quicker, for each power of two that a symbol
    has passed anew; results are the same.

    Raises UsageError for calls that do not fit their executables, for places that do not exist, for missing or
    misaligned addresses, and for calls of several devices."""

    def __init__(self, calls: Sequence[AnyCall], slots: Sequence[Places] = (), symbols: Sequence[str] = ()) -> None:
        from ..devices.cpu.native_calls import NativeCalls

        every = list(_kernels(calls))
        native = [isinstance(c.executable, CpuExecutable) for c in every]
        kinds = {type(c.executable) for c in every}
        if len(kinds) > 1 and not all(native):
            raise UsageError(f"calls of several devices ({', '.join(sorted(k.__name__ for k in kinds))}): make a replay for each")
        plain = [c for c in calls if isinstance(c, BoundCall)]
        if not all(native) and len(plain) < len(calls):
            raise UsageError(f"loops of calls run on the processor, not on {', '.join(sorted(k.__name__ for k in kinds))}")
        self._runner = NativeCalls(calls, slots, symbols) if all(native) else QueuedCalls(plain, slots, symbols)
        self.run = self._runner.run

    @property
    def calls(self) -> tuple[AnyCall, ...]:
        """The calls as they were given."""
        return self._runner.calls

    @property
    def threads(self) -> tuple[int, ...]:
        """How many threads each call uses."""
        return self._runner.threads

    def __len__(self) -> int:
        return len(self._runner.calls)

    def __call__(self, *words: int) -> None:
        """Run all, with an address for each slot, and then a value for each symbol. It checks their number only: wrong addresses crash
        the process."""
        self.run(*words)

    def patch(self, places: Iterable[tuple[int, int, int]]) -> None:
        """Change addresses for all runs to come: (position of the call, position of its parameter, address). Raises
        UsageError where there is no such parameter or an address cannot be one; then nothing was changed."""
        changes = list(places)
        for call, parameter, address in changes:
            place(self.calls, call, parameter)
            check_address(self.calls, call, parameter, address)
        for call, parameter, address in changes:
            self._runner.patch(call, parameter, address)


def _kernels(calls: Sequence[AnyCall]) -> Iterator[BoundCall]:
    """The calls of kernels, those in loops too."""
    for c in calls:
        if isinstance(c, BoundLoop):
            yield from _kernels(c.calls)
        else:
            yield c
