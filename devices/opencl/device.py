"""OpenCL devices of any vendor, by pyopencl: `opencl` is the best that is here, `opencl:INDEX` and `opencl:PART-OF-NAME` choose."""

from __future__ import annotations

import json
import platform
import re
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...ir.errors import BuildError, DeviceError
from .. import limits as limits_file
from ..base import Device, Executable, SourceLike
from ..limits import Limits
from ..memory import Memory
from .drivers import drivers
from .find import CHECKS, FoundDevice, choose, find, target_of

if TYPE_CHECKING:
    from ...program.program import Signature
    from ...targets import Target
    from .session import ClSession

_MAGIC = b"tilewright opencl object 1\n"


class OpenClDevice(Device):
    """One device of one driver. An object is a line of JSON (what it was built for, and a checksum), then the
    driver's binary; with PoCL the source: PoCL compiles for a group's size at the first launch, whatever its binaries
    hold, and keeps the results in a cache of its own."""

    isolation = "worker"
    first_launch_s = 20.0

    def __init__(self, selector: str = "") -> None:
        self.name = f"opencl:{selector}" if selector else "opencl"
        self._selector = selector

    @cached_property
    def found(self) -> FoundDevice:
        """The driver's device, not opened. Raises DeviceError where there is none."""
        return choose(find(), self._selector)

    @cached_property
    def _target(self) -> Target:
        return target_of(self.found.about)

    @property
    def target(self) -> Target:
        return self._target

    @property
    def threads(self) -> int:
        # a driver for processors uses the cores it finds, a GPU has no such choice
        return int(self.found.about["units"]) if self._target.kind == "cpu" else 1

    @property
    def _late(self) -> bool:
        """Whether the driver compiles at the first launch."""
        return "portable computing" in self.found.about["platform"].lower()

    def compiler_id(self) -> str:
        d = self.found.about
        # PoCL's version does not tell which LLVM it was built with
        llvm = re.search(r"LLVM \d[\d.]*", d["platform_version"])
        return " ".join(filter(None, ("opencl", d["platform"], d["driver"], llvm and llvm.group(), "rounded" if d["rounded"] else "")))

    def fingerprint(self) -> dict[str, Any]:
        d = self.found.about
        keep = ("platform", "platform_version", "name", "vendor", "driver", "version", "units", "memory", "clock_mhz")
        return {
            "device": "opencl",
            "cpu": d["name"],
            **{k: d[k] for k in keep},
            "os": platform.system(),
            "os_release": platform.release(),
            "host": platform.node(),
            "python": platform.python_version(),
        }

    def family(self) -> list[tuple[str, str]]:
        asked = drivers()
        failed = [(f"opencl ({d.file})", d.error) for d in asked if d.error]
        try:
            devices, mine = find(), self.found
        except DeviceError as e:
            return [(self.name, str(e)), *(failed if any(d.devices for d in asked) else ())]
        others = [(f"opencl:{i}", CHECKS if d.checker else "") for i, d in enumerate(devices) if d is not mine and d.about != mine.about]
        return [(self.name, ""), *others, *failed]

    def check(self) -> None:
        _ = self._target

    def check_threads(self, threads: int) -> None:
        if threads != self.threads:
            fewer = "; PoCL takes fewer of them with POCL_MAX_PTHREAD_COUNT=N" if self._late else ""
            raise DeviceError(f"{self.name} runs with {self.threads} threads, not {threads}: leave the number of threads out{fewer}")

    def open(self) -> ClSession:
        """The device, open in this process (which must not fork after it). Raises DeviceError."""
        from .session import session

        return session(self.found)

    def build(self, source: SourceLike) -> bytes:
        if source.target.lang != "opencl":
            raise BuildError(
                f"the {self.name} device builds OpenCL C, not {source.target.lang}: render for an 'opencl' target such as {self.target.name}"
            )
        from .run import refuse

        refuse(source.signature, self.target)
        s = self.open()
        if self._late:
            s.compile(source.text)
            code = source.text.encode()
        else:
            code = s.binary(source.text)
        head = {"compiler": self.compiler_id(), "crc": zlib.crc32(code), "name": self.found.about["name"]}
        return _MAGIC + json.dumps(head, sort_keys=True).encode() + b"\n" + code

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        self.check_threads(threads)
        line, _, code = obj.removeprefix(_MAGIC).partition(b"\n")
        try:
            head = json.loads(line) if obj.startswith(_MAGIC) else None
        except ValueError:
            head = None
        if not isinstance(head, dict) or head.get("crc") != zlib.crc32(code):
            raise BuildError("not a whole object of the opencl device (damaged, or of another version): build it again")
        if (head["compiler"], head["name"]) != (self.compiler_id(), self.found.about["name"]):
            raise DeviceError(
                f"this code was built for {head['name']} by {head['compiler']}; build it again for {self.found.about['name']}"
            )
        from .run import ClExecutable, refuse

        refuse(signature, self.target)
        s = self.open()
        return ClExecutable(s, s.compile(code.decode()) if self._late else s.link(code), signature, self.target)

    def memory(self) -> Memory:
        from .memory import ClMemory

        return ClMemory(self.open())

    def limits(self, probe: bool | float = False) -> Limits | None:
        d = self.found.about
        identity = {"device": "opencl", **{k: d[k] for k in ("platform", "name", "driver", "units")}}
        file = limits_file.path(identity)
        if not probe:
            return limits_file.read(file)
        from .probe import probe as measure

        now = measure(self.spec or self.name)
        try:
            before = limits_file.read(file)
        except DeviceError:  # damaged: this probe is the cure
            before = None
        now = now.best(before) if before else now
        limits_file.write(file, now, identity)
        return now
