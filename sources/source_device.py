"""A device that runs a user's sources: what one of ours knows of the machine, with another way of building and calling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import devices
from ..devices.base import Device, Executable, SourceLike
from ..ir.errors import BuildError, DeviceError, UsageError
from ..targets import named
from .source_spec import SourceSignature

if TYPE_CHECKING:
    from ..devices.base import Memory
    from ..program.program import Signature
    from ..targets import Target

FAMILIES = {"cpu": ("c", "c++"), "opencl": ("opencl",), "cuda": ("cuda",)}
"""What each kind of device builds."""


class SourceDevice(Device):
    """One of our devices as the place where sources of one language run. It travels between processes by its name."""

    def __init__(self, name: str, language: str, target: str = "") -> None:
        """`target`: only build, and for this GPU, such as sm_80, which need not be here. Raises DeviceError where there is no such
        device, UsageError where it does not run the language."""
        self.name, self.language, self._for = name, language, target
        self._inner = "cpu:c" if name in ("cpu", "cpu:c") else name
        if target and (language != "cuda" or named(target).lang != "cuda"):
            raise UsageError("--target is a GPU of NVIDIA's, such as sm_80, that CUDA is built for")
        kind = name.partition(":")[0]
        if kind in FAMILIES:  # (that it does not run the language is told whether or not there is one)
            self._must_run(FAMILIES[kind])
        inner = self.inner
        self.isolation, self.first_launch_s, self.compares = inner.isolation, inner.first_launch_s, inner.compares
        self._must_run(FAMILIES.get(self.family_name, ()))

    def _must_run(self, languages: Sequence[str]) -> None:
        if self.language not in languages:
            kinds = {"opencl": "OpenCL C (.cl)", "cuda": "CUDA C++ (.cu)"}.get(self.language, "C")
            here = "cpu" if self.language in ("c", "c++") else self.language
            raise UsageError(f"the device {self.name} does not run {kinds}: use --device {here}")

    @property
    def inner(self) -> Device:
        """The device that it stands for."""
        return devices.get(self._inner)

    @property
    def family_name(self) -> str:
        """cpu, opencl or cuda."""
        lang = "cuda" if self._for else self.inner.target.lang
        return {"c": "cpu", "llvm": "cpu"}.get(lang, lang)

    @property
    def target(self) -> Target:
        if self._for:
            return named(self._for)
        return replace(self.inner.target, lang=self.language if self.language == "c++" else self.inner.target.lang)

    @property
    def threads(self) -> int:
        return self.inner.threads

    def compiler_id(self) -> str:
        return self.inner.compiler_id()

    def fingerprint(self) -> dict[str, Any]:
        return self.inner.fingerprint()

    def check(self) -> None:
        self.inner.check()

    def check_timing(self) -> None:
        self.inner.check_timing()

    def check_threads(self, threads: int) -> None:
        self.inner.check_threads(threads)

    def memory(self) -> Memory | None:
        return self.inner.memory()

    def before_fork(self) -> None:
        if self.isolation == "worker":
            self.inner.before_fork()

    def build(self, source: SourceLike) -> bytes:
        s = source.signature
        if not isinstance(s, SourceSignature):
            raise BuildError(f"{self.name} builds users' sources here, and {s.name} is none")
        if self.family_name == "cpu":
            from . import on_cpu

            return on_cpu.build(source.text, s, self.inner.target)
        if self.family_name == "opencl":
            from . import on_opencl

            return on_opencl.build(source.text, s, self._opencl())
        from . import on_cuda

        return on_cuda.build(source, s, self.target, None if self._for else self._cuda().compile)

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        if not isinstance(signature, SourceSignature):
            raise DeviceError(f"{self.name} runs users' sources here, and {signature.name} is none")
        if self.family_name == "cpu":
            from . import on_cpu

            return on_cpu.CpuSource(obj, signature, threads)
        if self.family_name == "opencl":
            from . import on_opencl

            return on_opencl.ClSource(obj, signature, self._opencl())
        from . import on_cuda

        return on_cuda.CudaSource(obj, signature, self._cuda())

    def _opencl(self) -> Any:
        from ..devices.opencl import OpenClDevice

        assert isinstance(self.inner, OpenClDevice)
        return self.inner

    def _cuda(self) -> Any:
        from ..devices.cuda import CudaDevice

        assert isinstance(self.inner, CudaDevice)
        return self.inner
