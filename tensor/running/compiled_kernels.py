"""Kernels as compiled programs, each distinct one resolved and built once a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...devices.once import process_lock
from ...ir.kernel import Kernel
from ...plan import usage
from .observers import timed

if TYPE_CHECKING:
    from ...plan import CompiledKernel

ProgramKey = tuple[str, str, int | None, str]

_programs: dict[ProgramKey, CompiledKernel] = {}
_bound: dict[ProgramKey, Callable[..., None]] = {}
_lock = process_lock()


def key_of_program(kernel: Kernel, device: str, threads: int | None, cache: str = "") -> ProgramKey:
    """Equal for kernels that one program runs. (What may lie over an input is in a kernel's identity, though not in its key.)"""
    from ...plan import canonical_of

    return canonical_of(kernel).identity, device, threads, cache


def known(key: ProgramKey) -> CompiledKernel | None:
    """The program of a kernel that was built before."""
    return _programs.get(key)


def any_for(kernel: Kernel, device: str) -> CompiledKernel | None:
    """A program of this process that runs the kernel, with whatever threads and cache it was asked for."""
    identity = key_of_program(kernel, device, None)[:2]
    return next((p for k, p in list(_programs.items()) if k[:2] == identity), None)


def keep(key: ProgramKey, compiled: CompiledKernel) -> CompiledKernel:
    """Remember a program; the one that was there first stays."""
    with _lock:
        return _programs.setdefault(key, compiled)


def forget(key: ProgramKey) -> None:
    """Ask the cache again when the kernel is next needed."""
    with _lock:
        _programs.pop(key, None)
        _bound.pop(key, None)


def bound(kernel: Kernel, device: str) -> Callable[..., None]:
    """The kernel as `call(*addresses)`: of the inputs, then of the outputs, which the caller vouches for. On a device with
    memory of its own they are handles."""
    key = key_of_program(kernel, device, None)
    found = _bound.get(key)
    if found is None:
        made = compiled_kernel_for(kernel, device)
        found = made.executable.bind()
        if usage.wanted():
            found = _counted(found, made, device)
        with _lock:
            found = _bound.setdefault(key, found)
    return found


def _counted(call: Callable[..., None], made: CompiledKernel, device: str) -> Callable[..., None]:
    """The call, counted for `tune run --recorded`."""
    from ... import cache
    from ...ir.rewriter import without_aliases

    used = usage.UsedKernel(without_aliases(made.kernel), "", device, made.threads)
    return usage.recorder(cache.open()).counter([(used, 1)]).counted(call)


def compiled_kernel_for(kernel: Kernel, device: str, threads: int | None = None, cache: Any = None) -> CompiledKernel:
    """The compiled kernel."""
    from ...plan import best

    key = key_of_program(kernel, device, threads, str(cache or ""))
    found = known(key)
    if found is None:
        with timed("build", kernel.name, device, kernel):
            found = keep(key, best(kernel, device=device, threads=threads, cache=cache, start="quick"))
    return found
