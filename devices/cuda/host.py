"""Runs CUDA text as C++ on this machine's processor: the check of CUDA kernels where there is no GPU.

`host.hpp` defines what is CUDA's in the text: a thread is a fiber, barriers and warp exchanges check who comes to them. A buffer ends
at an inaccessible page and inputs cannot be written, so an access outside is found and named. For tests and small shapes."""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
import re
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir import index as ix
from ...ir.errors import BuildError, DeviceError, VerifyError
from ...ir.node import walk
from ...program import abi
from ...program import hopper as maps
from ..base import SourceLike
from .libcuda import for_host

if TYPE_CHECKING:
    import numpy as np

    from ...ir.node import Node
    from ...program.program import Param

    Array = np.ndarray[Any, Any]


HEADER = Path(__file__).with_name("host.hpp")
MODEL_OF_HOPPER = "tilewright_hopper::"
MODELS = {
    "tilewright_tensor::": Path(__file__).with_name("host_tensor.hpp"),
    "cp_async": Path(__file__).with_name("host_async.hpp"),
    MODEL_OF_HOPPER: Path(__file__).with_name("host_hopper.hpp"),
}
"""Further headers, by what is in the text that needs them: without them a build takes less time."""
COMPILERS = ("g++", "clang++", "c++")
FLAGS = (
    "-std=gnu++17", "-O0", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fstack-clash-protection",
    "-U_FORTIFY_SOURCE", "-x", "c++",
    "-fsanitize=alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero", "-fno-sanitize-recover=all",
)  # fmt: skip
"""Nothing is optimised: texts are long and run once or twice on small shapes, so that a build takes several times as long as a run."""
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+|alignas\(\d+\)\s+)?([\w\s]+?)\s+(\w+)\s*\[\s*\]\s*;")
_PAGE = mmap.PAGESIZE
_CANARY = 0xC5
_LOCK = threading.Lock()


class HostModule:
    """CUDA text as a library of this process. `names`: its kernels (`extern "C"` or not); their arguments are pointers and int64s."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        """Raises BuildError with the compiler's first errors (lines are those of `text`), DeviceError where there is no compiler."""
        self.text = text
        with tempfile.TemporaryDirectory(prefix="tilewright-host-") as folder:
            self._library: Any = ctypes.CDLL(str(build_library(text, names, Path(folder))))
        for name in names:
            getattr(self._library, f"tilewright_launch_{name}").restype = ctypes.c_char_p

    def launch(
        self,
        name: str,
        groups: int | tuple[int, int],
        threads: int,
        args: Sequence[int | bytes],
        dynamic_shared: int = 0,
        reverse: bool = False,
    ) -> None:
        """Run a grid of `groups` × `threads` threads to its end; `groups` may be (groups, how many of them are a cluster). `args`:
        addresses, integers, and tensor maps as bytes. Groups and threads go in ascending order, or `reverse`. Raises VerifyError with
        what a thread did wrong."""
        groups, cluster = groups if isinstance(groups, tuple) else (groups, 1)
        every = [w for a in args for w in (struct.unpack(f"<{len(a) // 8}Q", a) if isinstance(a, bytes) else (a & (1 << 64) - 1,))]
        words = (ctypes.c_uint64 * max(1, len(every)))(*every)
        # what TMA fills must start at a multiple of 1024, and may end before the page that nobody may touch
        align = 1024 if MODEL_OF_HOPPER in self.text else 16
        with _LOCK:
            memories = [Guarded(dynamic_shared, align) for _ in range(cluster)]
            found = getattr(self._library, f"tilewright_launch_{name}")(
                ctypes.c_uint64(groups),
                ctypes.c_uint(threads),
                (ctypes.c_void_p * cluster)(*(m.address for m in memories)),
                ctypes.c_uint(cluster),
                ctypes.c_size_t(dynamic_shared),
                words,
                ctypes.c_bool(reverse),
            )
            message = found.decode() if found else ""
            if message and (at := re.search(r"address 0x([0-9a-f]+)", message)):
                where = next(filter(None, (m.where(int(at[1], 16)) for m in memories)), "")
                message += f" ({where} dynamic shared memory)" if where else ""
            for m in memories:
                m.free()
        if message:
            raise VerifyError(f"kernel {name}, {message}")

    def close(self) -> None:
        """Unload it; no launch may follow."""
        import _ctypes

        library, self._library = self._library, None
        if library is not None:
            _ctypes.dlclose(library._handle)


def build_library(text: str, names: Sequence[str], folder: Path) -> Path:
    """CUDA text as a shared library in `folder`, with a function `tilewright_launch_NAME` for each kernel. Raises as HostModule does."""
    compiler = _compiler()
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(_translation(text, names))
    headers = [x for path in (HEADER, *(p for word, p in MODELS.items() if word in text)) for x in ("-include", str(path))]
    ran = subprocess.run([compiler, *FLAGS, *headers, str(source), "-lm", "-o", str(library)], capture_output=True, text=True)
    if ran.returncode:
        errors = [line for line in ran.stderr.splitlines() if "error" in line] or ran.stderr.splitlines()
        raise BuildError(f"{os.path.basename(compiler)} does not compile the CUDA text as C++: " + "\n".join(errors[:8]))
    return library


class Guarded:
    """Memory that ends (to `align`) at an inaccessible page, with another before its first page; what else those pages hold is a
    canary. Freed by `free`, or with the object."""

    def __init__(self, nbytes: int, align: int = 1, fill: int = 0xFF) -> None:
        self.nbytes = nbytes
        self._size = -(-max(nbytes, 1) // _PAGE) * _PAGE
        self._map: mmap.mmap | None = mmap.mmap(-1, self._size + 2 * _PAGE)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._inner = self._start + _PAGE
        self.address = self._inner + (self._size - nbytes) // align * align
        ctypes.memset(self._inner, _CANARY, self._size)
        ctypes.memset(self.address, fill, nbytes)
        for page in (self._start, self._inner + self._size):
            self._protect(page, _PAGE, 0)

    def _protect(self, address: int, size: int, access: int) -> None:
        if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
            raise DeviceError(f"cannot protect memory: {os.strerror(ctypes.get_errno())}")

    def view(self) -> Array:
        """Its bytes."""
        import numpy as np

        return np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(self.address))

    def read_only(self) -> None:
        """A write from now on is a fault."""
        self._protect(self._inner, self._size, mmap.PROT_READ)

    def where(self, address: int) -> str:
        """How an address lies to it ('4 bytes past the end of'), or '' when it is somewhere else."""
        if self.address <= address < self.address + self.nbytes:
            return "a write to the read-only bytes of"
        if not self._start <= address < self._inner + self._size + _PAGE:
            return ""
        past = address - self.address - self.nbytes
        return f"{past} bytes past the end of" if past >= 0 else f"{self.address - address} bytes before the start of"

    def broken(self) -> str:
        """Which bytes beside it were overwritten, or ''."""
        before = ctypes.string_at(self._inner, self.address - self._inner)
        end = self.address + self.nbytes
        after = ctypes.string_at(end, self._inner + self._size - end)
        return "before its start" if before.strip(bytes([_CANARY])) else "past its end" if after.strip(bytes([_CANARY])) else ""

    def free(self) -> None:
        """Give it back now."""
        if self._map is not None:
            self._protect(self._start, self._size + 2 * _PAGE, mmap.PROT_READ | mmap.PROT_WRITE)
            self._map = None


def run_on_host(source: SourceLike, arrays: Sequence[Array] | Mapping[str, Array], vars: Sequence[int] = (), reverse: bool = False) -> None:
    """Compile rendered CUDA text as C++ and run it once: `HostProgram(source).run(…)`."""
    program = HostProgram(source)
    try:
        program.run(arrays, vars, reverse)
    finally:
        program.close()


def entries(source: SourceLike) -> list[str]:
    """The names of its kernels, a phase each."""
    return [abi.entry(source.signature, i) for i in range(len(source.signature.items))]


class HostProgram:
    """Rendered CUDA text, all of its phases, as C++ in this process."""

    def __init__(self, source: SourceLike, module: HostModule | None = None) -> None:
        """`module`: one that holds the text's kernels already. Raises BuildError and DeviceError as HostModule does."""
        self.signature, self.target = source.signature, source.target
        self._names = entries(source)
        self._module = module or HostModule(source.text, self._names)

    def run(self, arrays: Sequence[Array] | Mapping[str, Array], vars: Sequence[int] = (), reverse: bool = False) -> None:
        """Run every phase on `arrays` (in parameter order, or by name), writing outputs in place.

        Arrays are C-contiguous, of the parameters' types and element counts; outputs, workspace, scratch and shared memory begin as 0xFF
        bytes (NaN). `vars`: values of the symbols. `reverse` runs groups and threads in descending order: results that differ from
        those of the other order show a race.

        Raises VerifyError with group, thread and place for an access outside a buffer, a write to an input, a
        misaligned access, a barrier or shuffle that some threads do not come to, a signed overflow."""
        signature, target = self.signature, self.target
        if isinstance(arrays, Mapping):
            arrays = [arrays[p.name] for p in signature.params]
        symbols = dict(zip(signature.symbols, vars, strict=True))
        buffers = {p.name: _operand(p, a, symbols, signature.align) for p, a in zip(signature.params, arrays, strict=True)}
        if signature.work:
            buffers["the workspace"] = Guarded(signature.work, abi.ALIGN)
        if size := abi.arena_bytes(signature, target, vars):
            buffers["the arena"] = Guarded(size, abi.ALIGN)
        by_kind = {"work": "the workspace", "arena": "the arena"}
        args: list[int | bytes] = []
        for arg in abi.arguments(signature, target):
            if arg.kind == "map":
                name = signature.params[signature.maps[arg.at].param].name
                args.append(for_host(maps.numbers(signature.maps[arg.at], name, symbols), buffers[name].address))
                continue
            args.append(vars[arg.at] if arg.kind == "symbol" else buffers[by_kind.get(arg.kind) or signature.params[arg.at].name].address)
        try:
            clusters = signature.clusters or (1,) * len(self._names)
            grids = zip(self._names, abi.grids(signature, vars), signature.threads, clusters, strict=True)
            for i, (name, groups, threads, c) in enumerate(grids):
                self._module.launch(name, (groups, c), threads, args, abi.dynamic_shared(signature, target, i), reverse)
                for at, b in buffers.items():
                    if how := b.broken():
                        raise VerifyError(f"kernel {name} wrote beside {at}, {how}")
        except VerifyError as e:
            raise VerifyError(_placed(str(e), buffers)) from None
        for p, a in zip(signature.params, arrays, strict=True):
            if p.role != "in":
                a.reshape(-1).view("uint8")[...] = buffers[p.name].view()

    def close(self) -> None:
        """Unload it."""
        self._module.close()


def _operand(p: Param, a: Array, symbols: Mapping[str, int], align: int) -> Guarded:
    count = math.prod(_extent(d, symbols) for d in p.shape)
    if a.nbytes != count * p.dtype.size or not a.flags.c_contiguous:
        raise VerifyError(f"parameter {p.name}: give a C-contiguous array of {count} elements of {p.dtype.name}, not {a.dtype} {a.shape}")
    out = Guarded(a.nbytes, math.lcm(p.dtype.size, align))
    if p.role != "out":
        out.view()[...] = a.reshape(-1).view("uint8")
    if p.role == "in":
        out.read_only()
    return out


def _extent(d: int | Node, symbols: Mapping[str, int]) -> int:
    return d if isinstance(d, int) else ix.evaluate(d, {n: symbols[n.arg.name] for n in walk(d) if n.op == "sym"})


def _placed(message: str, buffers: Mapping[str, Guarded]) -> str:
    """A message with the buffer that its address lies at."""
    if at := re.search(r"address 0x([0-9a-f]+), which it may not touch$", message):
        for name, b in buffers.items():
            if where := b.where(int(at[1], 16)):
                return f"{message}: {where} {name}"
    return message


def _translation(text: str, names: Sequence[str]) -> str:
    """The text as C++ that the header makes sense of, and a launcher for each kernel. Lines keep their numbers."""
    # a reference to the pointer: the memory is new at each launch
    body = _DYNAMIC.sub(r"static \1*& \2 = *(\1**)&tilewright_host::dynamic;", text)
    launchers = "\n".join(
        f'extern "C" const char* tilewright_launch_{n}(uint64_t groups, unsigned threads, char** memory, unsigned cluster, size_t bytes, const uint64_t* args, bool reverse) '
        f"{{ return tilewright_host::launch({n}, groups, threads, memory, cluster, bytes, args, reverse); }}"
        for n in names
    )
    return f'#line 1 "kernel.cu"\n{body}\n{launchers}\n'


@functools.cache
def _compiler() -> str:
    for name in (os.environ.get("CXX") or "", *COMPILERS):
        if name and (found := shutil.which(name)):
            return found
    raise DeviceError("checking CUDA text on the processor needs a C++ compiler: install g++ or clang++, or set CXX")
