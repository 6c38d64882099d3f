"""OpenCL devices of any vendor, by pyopencl: `opencl` is the best that is here, `opencl:INDEX` and `opencl:PART-OF-NAME` choose."""

from __future__ import annotations

import json
import os
import platform
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..ir.errors import BuildError, DeviceError
from . import limits as limits_file
from .base import Device, Executable, SourceLike
from .limits import Limits
from .memory import Memory
from .opencl_find import choose, find, target_of

if TYPE_CHECKING:
    from ..lower.program import Signature
    from ..targets import Target

_MAGIC = b"tilewright opencl object 1\n"


class OpenClDevice(Device):
    """One device of one platform. An object is a line of JSON (what it was built for, and a checksum) and the driver's binary."""

    isolation = "worker"

    def __init__(self, selector: str = "") -> None:
        self.name = f"opencl:{selector}" if selector else "opencl"
        self._selector = selector

    @cached_property
    def found(self) -> dict[str, Any]:
        """What the driver says of the device (`opencl_find.describe`). Raises DeviceError where there is none."""
        return choose(find(), self._selector)

    @cached_property
    def _target(self) -> Target:
        return target_of(self.found)

    @property
    def target(self) -> Target:
        return self._target

    @property
    def threads(self) -> int:
        # a driver for processors uses the cores it finds, a GPU has no such choice
        return int(self.found["units"]) if self._target.kind == "cpu" else 1

    def compiler_id(self) -> str:
        d = self.found
        return f"opencl {d['platform']} {d['driver']}"

    def fingerprint(self) -> dict[str, Any]:
        d = self.found
        keep = ("platform", "platform_version", "name", "vendor", "driver", "version", "units", "memory", "clock_mhz")
        return {
            "device": "opencl",
            "cpu": d["name"],
            **{k: d[k] for k in keep},
            "os": platform.system(),
            "os_release": platform.release(),
            "host": platform.node(),
        }

    def check(self) -> None:
        _ = self._target

    def _open(self) -> Any:
        from .opencl_run import session

        _environment()
        return session(self.found["at"])

    def build(self, source: SourceLike) -> bytes:
        if source.target.lang != "opencl":
            raise BuildError(f"the {self.name} device builds opencl, not {source.target.lang}: render for its target {self.target.name}")
        from ..lower import abi
        from .opencl_run import build

        # some drivers abort the process over too much of either
        abi.shared_bytes(source.signature, self.target)
        _environment()
        code = build(self.found["at"], source.text)
        head = {"compiler": self.compiler_id(), "crc": zlib.crc32(code), "name": self.found["name"]}
        return _MAGIC + json.dumps(head, sort_keys=True).encode() + b"\n" + code

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        from .opencl_run import ClExecutable

        line, _, code = obj.removeprefix(_MAGIC).partition(b"\n")
        try:
            head = json.loads(line) if obj.startswith(_MAGIC) else None
        except ValueError:
            head = None
        if not isinstance(head, dict) or head.get("crc") != zlib.crc32(code):
            raise BuildError("not a whole object of the opencl device (damaged, or of another version): build it again")
        if (head["compiler"], head["name"]) != (self.compiler_id(), self.found["name"]):
            raise DeviceError(f"this code was built for {head['name']} by {head['compiler']}; build it again for {self.found['name']}")
        return ClExecutable(self._open(), code, signature, self.target)

    def memory(self) -> Memory:
        from .opencl_run import ClMemory

        return ClMemory(self._open())

    def limits(self, probe: bool = False) -> Limits | None:
        file = limits_file.path({"device": self.name, "name": self.found["name"], "driver": self.found["driver"], "units": self.found["units"]})
        if not probe:
            return limits_file.read(file)
        from .opencl_limits import measure

        self._open()
        now = measure(self)
        before = limits_file.read(file)
        now = now.best(before) if before else now
        limits_file.write(file, now, {"device": self.name, **self.fingerprint()})
        return now


def _environment() -> None:
    """Before a driver is opened: its caches of kernels go where ours do, and pyopencl keeps none of its own."""
    import platformdirs

    cache = os.path.join(platformdirs.user_cache_dir("tilewright", appauthor=False), "pocl")
    os.environ.setdefault("POCL_CACHE_DIR", cache)
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    if os.environ["POCL_CACHE_DIR"] == cache:
        os.makedirs(cache, exist_ok=True)
