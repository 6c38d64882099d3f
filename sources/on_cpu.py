"""C and C++ on this machine's processor: compiled to a shared library by the C compiler found, called and timed natively.

A library is loaded from memory that only this process has, or from a folder of this user's, so nobody else can put another in its place."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..devices.base import Executable
from ..devices.cpu import c_compiler as cc
from ..devices.cpu.linker import elf_symbols
from ..ir.errors import BuildError, UsageError
from ..targets import lowered
from .source_spec import CALL, LocalBytes, SourceSignature

if TYPE_CHECKING:
    from ..targets import Target

_MACHINE = ("-march", "-mcpu", "-mtune")
_OPTIMISE = ("-O",)
_LINKED = ("-l", "-L", "-Wl,", "-fopenmp", "-fopenacc", "-pthread", "-flto", "-static", "-fsanitize", "-stdlib", "-fuse-ld")
"""Flags that the linker needs. Others stay away from it: with -Ofast it would switch the whole process to flushing small numbers."""
_LIBRARY = ("-l", "-Wl,")
_TIMER = """
typedef void call_t(void *const *);
struct span { long seconds, nanoseconds; };
typedef int clock_t(int, struct span *);
typedef void *copy_t(void *, const void *, unsigned long);
static double now(clock_t *clock) { struct span t; clock(1, &t); return (double)t.seconds + 1e-9 * (double)t.nanoseconds; }
long tilewright_time(call_t *call, void *const *const *sets, long count, long repeats, double limit, double *out,
                     long restored, void *const *to, void *const *from, const unsigned long *bytes, clock_t *clock, copy_t *copy) {
    const double began = now(clock);
    for (long i = 0; i < repeats; i++) {
        for (long k = 0; k < restored; k++) copy(to[k], from[k], bytes[k]);
        const double start = now(clock);
        call(sets[i % count]);
        const double end = now(clock);
        out[i] = end - start;
        if (end - began > limit) return i + 1;
    }
    return repeats;
}
"""
"""Times calls one by one. What a call changes and must find as it was is copied back before, outside the time. It is given
the functions of the C library that it calls, so that none need be linked."""
_IN_PROCESS = frozenset({"memcpy", "memmove", "memset", "memcmp", "_GLOBAL_OFFSET_TABLE_"})
"""What compilers call by themselves: who needs no more is compiled and linked in one go, with no library, and so without the start file of
-Ofast, too."""
_OF_COMPILER = ("-O", "-f", "-m", "-W", "-D", "-U", "-I", "-std=", "-g")
"""Flags that do nothing to such a link."""
_CALLS_LIBRARIES: set[str] = set()
"""Functions that were found to need more, in this process."""


def default_flags(flags: Sequence[str], target: Target) -> tuple[str, ...]:
    """What is added to a user's flags: -O3 where none says how to optimise, and this machine's instructions where none says which.
    With TILEWRIGHT_TARGET these are that processor's."""
    out = [] if any(f.startswith(_OPTIMISE) for f in flags) else ["-O3"]
    if not any(f.startswith(_MACHINE) for f in flags):
        out += cc.instructions(target, cc.find()) if lowered() else ["-march=native"]
    return tuple(out)


def build(text: str, s: SourceSignature, target: Target) -> bytes:
    """The shared library of a configuration. Raises BuildError with the compiler's first error."""
    compiler = cc.find()
    flags = (*default_flags(s.flags, target), *s.flags)
    linked, compiled = [f for f in flags if f.startswith(_LINKED)], [f for f in flags if not f.startswith(_LIBRARY)]
    with cc.workplace() as folder:
        plus = s.language == "c++"
        source = "source.cpp" if plus else "source.c"
        Path(folder, source).write_text(text)
        Path(folder, "timer.o").write_bytes(_timer(compiler))
        compiling = (*compiler.command, "-fPIC", *compiled, *(f"-I{p}" for p in s.folders), source)
        library, made = ("-shared", "timer.o", "-o", "source.so"), Path(folder, "source.so")
        if not linked and s.function not in _CALLS_LIBRARIES and all(f.startswith(_OF_COMPILER) for f in flags):
            cc.run((*compiling, *library, "-nostdlib"), Path(folder))
            if elf_symbols(alone := made.read_bytes())[1] <= _IN_PROCESS:
                return alone
            _CALLS_LIBRARIES.add(s.function)
        cc.run((*compiling, "-c", "-o", "source.o"), Path(folder))
        cc.run((*compiler.command, "source.o", *library, *linked, *(["-lstdc++"] * plus), "-lm", "-Wl,-z,defs"), Path(folder))
        return made.read_bytes()


@functools.cache
def _timer(compiler: cc.Compiler) -> bytes:
    """The object of `_TIMER`, made once a process."""
    with cc.workplace() as folder:
        Path(folder, "timer.c").write_text(_TIMER)
        cc.run((*compiler.command, "-c", "-fPIC", "-O2", "timer.c", "-o", "timer.o"), Path(folder))
        return Path(folder, "timer.o").read_bytes()


class CpuSource(Executable):
    """A loaded library. It stays loaded as long as the process lives: its own threads may still be in it."""

    def __init__(self, obj: bytes, s: SourceSignature, threads: int) -> None:
        """Raises BuildError where it does not load."""
        self.signature, self.threads, self._s = s, threads, s
        self._library = _loaded(obj)
        self._call = ctypes.cast(self._library[CALL], ctypes.c_void_p)
        self._run = self._library[CALL]
        self._run.restype = None
        self._time = self._library["tilewright_time"]
        self._time.restype = ctypes.c_long
        self._order = [
            v if isinstance(v, int) else ctypes.create_string_buffer(v, len(v)) for v in s.order if not isinstance(v, LocalBytes)
        ]
        self._aside: dict[int, Any] = {}
        self._given = [ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p) for name in ("clock_gettime", "memcpy")]
        with contextlib.suppress(AttributeError):  # it does not use OpenMP
            self._library["omp_set_num_threads"](ctypes.c_int(threads))

    def _arguments(self, pointers: Sequence[int]) -> Any:
        """The addresses of all arguments of a call."""
        if len(pointers) != len(self._s.params):
            raise UsageError(f"{self._s.name} takes {len(self._s.params)} arrays, not {len(pointers)}")
        given = [pointers[v] if isinstance(v, int) else ctypes.addressof(v) for v in self._order]
        return (ctypes.c_void_p * max(1, len(given)))(*given)

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        self._run(self._arguments(pointers))

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        if not pointer_sets or repeats < 1:
            raise UsageError("timing needs at least one set of pointers and one repeat")
        arguments = [self._arguments(p) for p in pointer_sets]
        sets = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        seconds = (ctypes.c_double * repeats)()
        # what a call changes is timed on one set of arrays (`preparing`), which begins as it must
        changed = self._s.restore
        sizes = [self._s.sizes[i] for i in changed]
        live = [pointer_sets[0][i] for i in changed]
        for i, address, size in zip(changed, live, sizes, strict=True):
            if i not in self._aside:
                self._aside[i] = ctypes.create_string_buffer(size)
            ctypes.memmove(self._aside[i], address, size)
        to = (ctypes.c_void_p * max(1, len(changed)))(*live)
        aside = (ctypes.c_void_p * max(1, len(changed)))(*(ctypes.addressof(self._aside[i]) for i in changed))
        counts = (ctypes.c_ulong * max(1, len(changed)))(*sizes)
        made = self._time(
            self._call,
            sets,
            ctypes.c_long(len(arguments)),
            ctypes.c_long(repeats),
            ctypes.c_double(min(limit_s, 1e9)),
            seconds,
            *(ctypes.c_long(len(changed)), to, aside, counts, *self._given),
        )
        return list(seconds[:made])

    def poison(self) -> None:
        """It has no memory of its own that is known."""


def _loaded(obj: bytes) -> ctypes.CDLL:
    """A library, loaded from memory. Its descriptor stays open: the loader knows a library by its name, and would take the next one under
    the same number for this one. Where a filter of system calls forbids such memory, from a folder that only this user may enter."""
    try:
        fd = os.memfd_create("tilewright-source", os.MFD_CLOEXEC)
    except OSError:
        with cc.workplace() as folder:
            return _opened(f"{folder}/source.so", obj)
    try:
        return _opened(f"/proc/self/fd/{fd}", obj)
    except BuildError:
        os.close(fd)
        raise


def _opened(file: str, obj: bytes) -> ctypes.CDLL:
    """The library, written to a file and loaded from there."""
    try:
        Path(file).write_bytes(obj)
        return ctypes.CDLL(file)
    except OSError as e:
        raise BuildError(f"the built library does not load: {e}") from None
