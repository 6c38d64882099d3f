"""The device `cpu:c`: C text through this machine's C compiler, run as the `cpu` device runs its own objects.

It is a second opinion: another compiler and another renderer for the same Programs, which must agree with `cpu` bit for bit. The compiler is
the first of $CC (which may hold arguments), gcc, clang, and zig (on the path or from the pip package ziglang)."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files.child_process import not_started
from ...ir.errors import BuildError, DeviceError
from ...program.abi import entry
from ...targets.named import X86_FEATURES
from ..base import SourceLike
from ..limits import Limits
from .device import CpuDevice
from .linker import elf_symbols

if TYPE_CHECKING:
    from ...program.program import Signature
    from ...targets import Target


INSTALL = "install gcc or clang (apt-get install gcc), or pip install 'tilewright[zig]', or set CC to a compiler"
TIMEOUT_S = 120
"""No kernel takes so long: a compiler that does is stuck. A compiler's own children end by this limit too, in processor time."""
_ERROR_LINES = 8

# contraction is decided in the Program; nothing may be called, and the object is linked into a process at any address
_FLAGS = [
    "-std=gnu11",
    "-O2",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fPIC",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-ident",
    "-w",
]
# the text is vectors already; gcc's own passes would also find permutations of doubles that gcc 12 gets wrong
_NO_VECTORISERS = ("-fno-tree-vectorize", "-fno-tree-slp-vectorize")
_GCC_FLAGS = ("-fno-tree-loop-distribute-patterns", *_NO_VECTORISERS)
_CLANG_FLAGS = ("-fno-builtin",)


@dataclass(frozen=True, slots=True)
class Compiler:
    """`command`: the words that start it; `kind`: 'gcc' or 'clang' (zig is clang); `version` as it says itself."""

    command: tuple[str, ...]
    kind: str
    version: str

    @property
    def zig(self) -> bool:
        """Whether it is clang inside zig, which names processors in its own way."""
        return "ziglang" in self.command or "zig" in os.path.basename(self.command[0])

    @property
    def id(self) -> str:
        """Kind and version as one word, such as gcc-12.2.0."""
        return f"{'zig-' if self.zig else ''}{self.kind}-{self.version}"


def find() -> Compiler:
    """The compiler to use. Raises DeviceError, with the fix, where there is none."""
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@functools.cache
def _find(cc: str, path: str) -> Compiler:
    if cc.strip():
        words = tuple(shlex.split(cc))
        if shutil.which(words[0], path=path) is None:
            raise DeviceError(f"CC names {words[0]}, which is not there: unset it, or {INSTALL}")
        return _identify(words)
    for name in ("gcc", "clang"):
        if shutil.which(name, path=path):
            return _identify((name,))
    if shutil.which("zig", path=path):
        return _identify(("zig", "cc"))
    if importlib.util.find_spec("ziglang"):
        return _identify((sys.executable, "-m", "ziglang", "cc"))
    raise DeviceError(f"there is no C compiler here: {INSTALL}")


def _identify(words: tuple[str, ...]) -> Compiler:
    """Which compiler these words start."""
    macros = run((*words, "-E", "-dM", "-x", "c", os.devnull), Path.cwd())
    defined = dict(line.split(" ", 2)[1:] for line in macros.splitlines() if line.count(" ") >= 2)
    kind = "clang" if "__clang__" in defined else "gcc"
    names = (
        ("__clang_major__", "__clang_minor__", "__clang_patchlevel__")
        if kind == "clang"
        else ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__")
    )
    if not all(n in defined for n in names):
        raise DeviceError(f"{shlex.join(words)} is neither gcc nor clang, and kernels use their vectors: {INSTALL}")
    return Compiler(words, kind, ".".join(defined[n] for n in names))


def flags(target: Target, compiler: Compiler) -> tuple[str, ...]:
    """What code for `target` is compiled with; the instructions allowed follow from the target alone."""
    return (*_FLAGS, *(_GCC_FLAGS if compiler.kind == "gcc" else _CLANG_FLAGS), *instructions(target, compiler))


def portable_flags(target: Target) -> tuple[str, ...]:
    """The same for a build file, whichever of gcc and clang reads it: clang passes over gcc's names of these passes, and refuses others."""
    return (*_FLAGS, "-Wno-psabi", *_NO_VECTORISERS, *instructions(target, Compiler(("cc",), "gcc", "")))


def instructions(target: Target, compiler: Compiler) -> tuple[str, ...]:
    """The flags that say which instructions code for `target` may use."""
    if target.arch != "x86_64":
        return ()
    return (
        "-march=x86_64" if compiler.zig else "-march=x86-64",
        *(f"-m{f}" for k in sorted(target.features) for f in X86_FEATURES.get(k, ())),
        f"-mprefer-vector-width={8 * target.vector_bytes}",
    )


def compile_c(text: str, target: Target, compiler: Compiler) -> bytes:
    """Object bytes of C text. Raises BuildError with the compiler's first lines."""
    return _compiled(text, "-c", target, compiler)


def assembly_of(text: str, target: Target, compiler: Compiler) -> str:
    """The assembly of the same object. Raises BuildError."""
    return _compiled(text, "-S", target, compiler).decode(errors="replace")


@contextlib.contextmanager
def workplace() -> Iterator[str]:
    """A folder for what a compiler reads and writes. Raises DeviceError where none can be made."""
    try:
        made = tempfile.TemporaryDirectory(prefix="tilewright-")
    except OSError as e:
        raise DeviceError(f"a C compiler needs a folder for temporary files ({e.strerror}): set TMPDIR to one that can be written") from e
    with made as folder:
        yield folder


def _compiled(text: str, what: str, target: Target, compiler: Compiler) -> bytes:
    with workplace() as folder:
        source, out = Path(folder, "kernel.c"), Path(folder, "kernel.out")
        source.write_text(text)
        run((*compiler.command, what, *flags(target, compiler), "kernel.c", "-o", "kernel.out"), Path(folder))
        return out.read_bytes()


_LIMITED = ("/bin/sh", "-c", f'ulimit -t {TIMEOUT_S} 2>/dev/null; exec "$@"', "sh")
"""Who kills us (or the builder we run in) does not know the processes that a compiler starts. Setting the limit in Python, between fork and
exec, would copy the page tables of this process for each compiler: 4 ms in a builder, where a shell takes 0.6."""


def run(words: tuple[str, ...], folder: Path) -> str:
    """What a compiler prints; it reads nothing. Raises BuildError with its first error, DeviceError where it does not start."""
    try:
        done = subprocess.run(
            (*_LIMITED, *words) if os.name == "posix" else words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as e:
        raise BuildError(f"{os.path.basename(words[0])} took longer than {TIMEOUT_S} s and was stopped") from e
    except (FileNotFoundError, PermissionError) as e:
        if e.errno != errno.EPERM:  # a program that is not there, or must not be run
            raise DeviceError(f"the C compiler {words[0]} does not start: {e}; {INSTALL}") from e
        raise DeviceError(not_started(f"the C compiler {words[0]}", e)) from e
    except OSError as e:
        raise DeviceError(not_started(f"the C compiler {words[0]}", e)) from e
    if done.returncode in (126, 127):  # the shell's own
        raise DeviceError(f"the C compiler {words[0]} does not start: {done.stderr.strip()}; {INSTALL}")
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()] or [
            f"it ended with status {done.returncode} and said nothing"
        ]
        first = next((i for i, line in enumerate(lines) if re.search(r"\berror\b", line)), 0)  # what came before it were warnings
        lines = lines[first:]
        raise BuildError(
            f"{os.path.basename(words[0])} rejects the source:\n"
            + "\n".join(lines[:_ERROR_LINES] + (["…"] if len(lines) > _ERROR_LINES else []))
        )
    return done.stdout


class CpuCDevice(CpuDevice):
    """This machine's processor through gcc, clang or zig cc. Limits are those of `cpu`: it is the same machine."""

    name = "cpu:c"
    lang = "c"

    @property
    def target(self) -> Target:
        return replace(super().target, lang="c")

    def compiler_id(self) -> str:
        return find().id

    def fingerprint(self) -> dict[str, Any]:
        return {**super().fingerprint(), "device": self.name}

    def check(self) -> None:
        super().check()
        find()

    def limits(self, probe: bool | float = False) -> Limits | None:
        return CpuDevice().limits(probe)

    def _compile(self, source: SourceLike) -> tuple[bytes, ...]:
        target = source.target
        if target.arch != self.target.arch:
            raise BuildError(f"the C compiler here builds for {self.target.arch}, not for {target.arch}: build on such a machine")
        compiler = find()
        obj = compile_c(source.text, target, compiler)
        undefined = elf_symbols(obj)[1]
        if undefined:
            raise BuildError(
                f"the object needs {', '.join(sorted(undefined))}, which nothing provides: {compiler.id} made a library call of an operation "
                f"that {target.name} has no instruction for; try another compiler (CC=…), or the device cpu"
            )
        return (obj,)

    def _symbols(self, signature: Signature) -> tuple[str, ...]:
        return tuple(entry(signature, i) for i in range(len(signature.items)))
