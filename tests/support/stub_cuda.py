"""A stub GPU: the real driver packages over a `libcuda.so.1` of the host's memory and processor (`tests/devices/stub/libcuda_stub.c`).

What `fake_cuda` puts in the place of the driver's Python face, this puts below it: adapters, packages, arguments, events, asynchronous
queues, sticky errors and the process that asks for GPUs are all real. Only machine code is another: the CUDA text runs as
C++. The library is found by LD_LIBRARY_PATH, which a process reads when it starts: `environment` gives the variables."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pytest
from cuda_build import needs_cxx
from fake_cuda import NAMES
from tilewright.devices import SourceLike
from tilewright.devices.cuda.device import CudaDevice
from tilewright.devices.cuda.driver import open_driver
from tilewright.devices.cuda.host import HEADER, MODELS, build_library
from tilewright.devices.cuda.session import CudaSession

SPEC = f"{Path(__file__).resolve()}:StubCudaDevice"
SOURCES = Path(__file__).parents[1] / "devices" / "stub"
WORDS = """
template <class... A> unsigned stub_sizes(void (*)(A...), unsigned* sizes) {
    const unsigned all[] = {(unsigned)sizeof(A)..., 0};
    for (unsigned i = 0; i < sizeof...(A); i++) sizes[i] = all[i];
    return sizeof...(A);
}
"""
CLUSTERS = re.compile(r"__cluster_dims__\((\d+)[^)]*\)\s*(?:__\w+__\s*\([^)]*\)\s*)*(\w+)\s*\(")


def _compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


def has(package: str) -> bool:
    """Whether a package of the driver is installed (looked for without importing it, which would load the driver)."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


needs_stub = pytest.mark.skipif(
    _compiler() is None or not sys.platform.startswith("linux") or bool(needs_cxx.args[0]),
    reason="the stub driver is built by gcc and g++, on Linux",
)
"""Skips a test where the stub library cannot be built."""


@functools.cache
def library() -> Path:
    """The folder of the stub libraries, built once for a version of their sources. pycuda binds every symbol when it is imported; those
    that the stub lacks say that they are not supported."""
    texts = [p.read_text() for p in sorted(SOURCES.glob("*.c"))]
    wanted = _symbols_of_pycuda()
    name = hashlib.sha256("\0".join([*texts, *wanted]).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"tilewright-stub-{os.getuid()}-{name}"
    if folder.exists() and folder.stat().st_uid != os.getuid():
        folder = Path(tempfile.mkdtemp(prefix="tilewright-stub-")) / name  # nobody else's code
    if not folder.exists():
        made = Path(tempfile.mkdtemp(prefix="tilewright-stub-"))
        for source, soname in (("libcuda_stub.c", "libcuda.so.1"), ("libnvml_stub.c", "libnvidia-ml.so.1")):
            text = (SOURCES / source).read_text()
            more = (
                [f"Result {n}(void) {{ return 801; }}" for n in wanted if f"Result {n}(" not in text] if source == "libcuda_stub.c" else []
            )
            (made / source).write_text("\n".join([text, *more]))
            flags = ["-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{soname}", "-o", str(made / soname)]
            subprocess.run([str(_compiler()), *flags, str(made / source), "-ldl", "-lpthread"], check=True)
        try:
            made.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(made)
    return folder


def _symbols_of_pycuda() -> list[str]:
    spec = importlib.util.find_spec("pycuda")
    found = [p for root in spec.submodule_search_locations or () for p in Path(root).glob("_driver*.so")] if spec else []
    if not found or not shutil.which("nm"):
        return []
    listed = subprocess.run(["nm", "-D", "--undefined-only", str(found[0])], capture_output=True, text=True, check=True).stdout
    return sorted(w for line in listed.splitlines() if (w := line.split()[-1]).startswith("cu"))


def environment(**settings: str) -> dict[str, str]:
    """Variables of a process that finds the stub. `settings` such as STUB_FAIL are told in the stub's source."""
    return {"LD_LIBRARY_PATH": str(library()), "TILEWRIGHT_CUDA_FOUND": "{}", **settings}


def run(script: str, *args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, with the stub as its driver."""
    here = str(Path(__file__).parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]), **environment(**settings)}
    return subprocess.run([sys.executable, "-c", script, *args], env=env, capture_output=True, text=True, timeout=240)


def image(text: str) -> bytes:
    """CUDA text as what the stub loads for a module."""
    names = NAMES.findall(text)
    clusters = {name: int(count) for count, name in CLUSTERS.findall(text)}
    about = "".join(
        f'extern "C" unsigned stub_about_{n}(unsigned* sizes, unsigned* cluster) {{ *cluster = {clusters.get(n, 1)}; return stub_sizes({n}, sizes); }}\n'
        for n in names
    )
    headers = [p.read_text() for p in (HEADER, *MODELS.values())]
    key = hashlib.sha256("\0".join([text, WORDS, about, *headers]).encode()).hexdigest()[:32]
    kept = library() / f"{key}.image"
    if kept.exists():  # g++ takes a second, and every worker needs the comparing kernels
        return kept.read_bytes()
    with tempfile.TemporaryDirectory(prefix="tilewright-stub-") as folder:
        made = build_library(f"{text}{WORDS}{about}", names, Path(folder))
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(made.read_bytes())
        partial.rename(kept)
    return kept.read_bytes()


class StubSession(CudaSession):
    """Its holding kernel runs on the processor too."""

    def build(self, text: str) -> bytes:
        return image(text)


class StubCudaDevice(CudaDevice):
    """The cuda device, but for the compiler."""

    def __init__(self, selector: str = "") -> None:
        super().__init__(selector)
        self.name = f"stub-cuda:{self.index}" if selector else "stub-cuda"

    def compiler_id(self) -> str:
        return "stub-nvrtc-1"

    def check(self) -> None:
        _ = self._card

    def _compile(self, source: SourceLike, options: Sequence[str] = ()) -> tuple[bytes, str]:
        names: Sequence[str] = NAMES.findall(source.text)
        log = "\n".join(
            f"ptxas info : Compiling entry function '{n}' for '{source.target.cpu}'\nptxas info : Used 32 registers" for n in names
        )
        return image(source.text), log

    @cached_property
    def _session(self) -> StubSession:
        return StubSession(open_driver(), self.index, self.target)

    def _open(self) -> StubSession:
        return self._session
