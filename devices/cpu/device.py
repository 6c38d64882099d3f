"""The embedded device: LLVM IR compiled in process by llvmlite, run by a native thread pool."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from ...ir.errors import BuildError, DeviceError
from ...targets import host, lowered
from .. import limits as limits_file
from ..base import Device, Executable, SourceLike, sealed, unsealed
from ..limits import Limits

if TYPE_CHECKING:
    from ...program.program import Signature
    from ...targets import Target


class CpuDevice(Device):
    """This machine's processor. An object is a line of JSON (what it was built for, and a checksum) and an ELF file, or several (and how long
    each is) where a kernel has phases."""

    name = "cpu"
    isolation = "fork"
    lang = "llvm"
    """The language it builds."""

    _target: Target | None = None

    def __init__(self, target: Target | None = None) -> None:
        """`target`: what its code may use, where that is not what TILEWRIGHT_TARGET leaves of this machine."""
        if target is not None:
            self._target = target

    @property
    def target(self) -> Target:
        return self._target or host()

    @property
    def threads(self) -> int:
        from ...targets import usable_cores

        return usable_cores()

    def compiler_id(self) -> str:
        import llvmlite  # its release fixes the LLVM version; asking LLVM itself would load 170 MB

        return f"llvmlite-{llvmlite.__version__}"

    def fingerprint(self) -> dict[str, Any]:
        return {
            **self._identity(),
            **({"lowered": lowered()} if lowered() else {}),
            "os": platform.system(),
            "os_release": platform.release(),
            "host": platform.node(),
            "python": platform.python_version(),
            "compiler": self.compiler_id(),
            "llvm": _llvm_version(),
            "threads": self.threads,
        }

    def _identity(self) -> dict[str, Any]:
        """What the limits depend on: the same on every start of one machine."""
        t = self.target
        return {"device": "cpu", "cpu": _cpu_name(), "target": t.key, "cores": self.threads, "l1": t.l1, "l2": t.l2, "l3": t.l3}

    def check(self) -> None:
        if not sys.platform.startswith("linux"):
            raise DeviceError(
                f"running and measuring kernels works on Linux; here ({sys.platform}) only showing and rendering do. Use Linux, WSL 2 or a container"
            )
        from .pool import SUPPORTED

        if self.target.arch not in SUPPORTED:
            raise DeviceError(f"the cpu device runs on {' and '.join(SUPPORTED)}, not on {self.target.arch}")

    def check_threads(self, threads: int) -> None:
        if not 1 <= threads <= _max_threads():
            raise DeviceError(f"{threads} threads: use 1 to {_max_threads()} (this process may use {self.threads} cores)")

    def build(self, source: SourceLike) -> bytes:
        target = source.target
        if target.lang != self.lang:
            raise BuildError(
                f"the {self.name} device builds {self.target.language.title}, not {target.lang}: render for a {self.lang!r} target such as {self.target.name}"
            )
        objects = self._compile(source)
        code = b"".join(objects)
        head: dict[str, Any] = {"arch": target.arch, "features": sorted(target.features), "target": target.name}
        if len(objects) > 1:
            head["sizes"] = [len(o) for o in objects]
        return sealed("cpu object", head, code)

    def _compile(self, source: SourceLike) -> tuple[bytes, ...]:
        """The ELF objects of source text. Raises BuildError."""
        from .engine import compile_parts

        return compile_parts(source.text, source.target, native=source.target.arch == self.target.arch)

    def _symbols(self, signature: Signature) -> tuple[str, ...]:
        """The function of each phase in an object."""
        return tuple(signature.entry(i) for i in range(len(signature.items)))

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        self.check()
        self.check_threads(threads)
        head, objects = _open(obj)
        here = self.target
        missing = sorted(set(head["features"]) - here.features)
        if head["arch"] != here.arch or missing:
            raise DeviceError(
                f"this code was built for {head['target']} and cannot run on this machine ({here.name}), {_lack(head['arch'], missing, here)}; build it for target 'host'"
            )
        from .engine import Code
        from .executable import CpuExecutable

        symbols = self._symbols(signature)
        return CpuExecutable(Code(objects, symbols), symbols, signature, threads)

    def before_fork(self) -> None:
        from .pool import pool

        pool()

    def limits(self, probe: bool | float = False) -> Limits | None:
        if not probe:
            kept = limits_file.read(limits_file.path(self._identity()))
            # a file from before caches were measured: the next search probes, and keeps what is better in it
            return kept if kept is None or all(r.caches for r in kept.rates.values()) else None
        from .probe import measure, slot

        self.check()
        return limits_file.keep(self._identity(), measure(self, slot(probe)))


def _lack(arch: str, missing: list[str], here: Target) -> str:
    """Why code that needs `arch` and the features `missing` cannot run."""
    from ...targets import lowered, machine

    if arch != here.arch:
        return f"which is {here.arch}"
    if lowered() and machine().features.issuperset(missing):
        return f"which {lowered()} lowers: it may not use {', '.join(missing)}"
    return f"which lacks {', '.join(missing)}"


def _open(obj: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    head, code = unsealed("cpu object", "the cpu device", obj)
    sizes = head.get("sizes", [len(code)])
    if not isinstance(sizes, list) or not all(isinstance(n, int) and n > 0 for n in sizes) or sum(sizes) != len(code):
        raise BuildError("not a whole object of the cpu device (damaged, or of another version): build it again")
    ends = list(itertools.accumulate(sizes))
    return head, tuple(code[a:b] for a, b in zip((0, *ends), ends))


def _max_threads() -> int:
    from .pool import MAX_THREADS

    return min(MAX_THREADS - 1, max(os.cpu_count() or 1, 1))


@functools.cache
def _llvm_version() -> str:
    import llvmlite.binding as llvm

    return ".".join(str(n) for n in llvm.llvm_version_info)


@functools.cache
def _cpu_name() -> str:
    """The processor's marketing name."""
    if sys.platform.startswith("linux"):
        # a sandbox may hide the file: the name is only shown
        with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
            for line in f:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "Model", "Hardware"):
                    return value.strip()
    return platform.processor() or platform.machine()
