"""What travels, as plain JSON data: devices, measurements, builds and duels. What comes over a network is read strictly, field by field,
and nothing of it is ever unpickled."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ...devices import Device, Executable, SourceLike
from ...devices.limits import Limits
from ...files.strict import Codec, Misread, canon
from ...ir.errors import BuildError, DeviceError, FleetError, TilewrightError, UsageError
from ...measure.outcome import Measurement
from ...named_kernels import is_path, split_name, split_path
from ...opts.opt import Opt, parse
from ...plan.artefacts import decode_signature, encode_signature
from ...program.program import Signature
from ...search.kernel_task import KernelTask
from ...targets import Target

T = TypeVar("T")
MOST_OBJECT = 64 << 20
"""Bytes of one object."""
_NUMBERS = ("t_min", "t_med", "error", "score")


def _packed(obj: bytes) -> list[str]:
    return [base64.b64encode(zlib.compress(obj, 1)).decode(), hashlib.sha256(obj).hexdigest()]


def _unpacked(data: Any) -> bytes:
    packed, digest = data
    try:
        obj = zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), MOST_OBJECT)
    except zlib.error as e:
        raise Misread(f"is an object that is damaged ({e})") from None
    if hashlib.sha256(obj).hexdigest() != digest:
        raise Misread("is an object that is damaged")
    return obj


CODEC = Codec(
    {
        bytes: (_packed, _unpacked),
        Signature: (encode_signature, decode_signature),
        Limits: (Limits.to_json, Limits.from_json),
    }
)


def read(of: type[T], data: Any, what: str, **known: Any) -> T:
    """What a worker says of `what`, every field of it but those that are `known`. Raises FleetError."""
    try:
        return CODEC.read(of, data, whole=True, **known)
    except (Misread, TilewrightError) as e:
        raise FleetError(f"what a worker says of {what} is not readable ({e}); client and worker must be the same version") from e


def schedule(data: Any) -> tuple[Opt, ...]:
    """Options from their JSON form. Raises FleetError."""
    try:
        return parse(data)
    except TilewrightError as e:
        raise FleetError(f"what a worker sent is no schedule: {e}") from e


def facts(data: Any) -> Mapping[str, Any]:
    """A worker's answer, which must be an object. Raises FleetError."""
    if not isinstance(data, Mapping):
        raise FleetError(f"a worker answered {type(data).__name__} instead of an object")
    return data


# measurements ------------------------------------------------------------------------------------------------------------
def measurement_json(m: Measurement) -> dict[str, Any]:
    """A measurement without its options, which whoever asked knows; no infinities, which JSON does not have."""
    data: dict[str, Any] = CODEC.plain(replace(m, opts=()))
    del data["opts"]
    return data | {name: data[name] if data[name] is None or math.isfinite(data[name]) else None for name in _NUMBERS}


def measurement(data: Any, opts: tuple[Opt, ...]) -> Measurement:
    """What `measurement_json` wrote, of these options. Raises FleetError."""
    m = read(Measurement, data, "a candidate", opts=opts)
    if m.outcome in ("ok", "slow") and not (m.t_min and m.t_min > 0):
        raise FleetError("what a worker says of a candidate is not readable (it is right and has no time)")
    return m


# builds --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TravellingBuild:
    """A schedule that was built somewhere: what the measuring side needs of it. `obj` None: whoever measures it has it, or
    makes it again; `made_at`: the address of the worker that made it, and most likely still has it. Seconds as in `plan.Built`."""

    opts: tuple[Opt, ...]
    sha: str
    effects: frozenset[str] = frozenset()
    lower_s: float = 0.0
    render_s: float = 0.0
    build_s: float = 0.0
    signature: Signature | None = None
    obj: bytes | None = None
    made_at: str = ""

    @property
    def source(self) -> None:
        """The text did not travel."""

    def to_json(self, whole: bool) -> dict[str, Any]:
        """Plain data without the options; `whole`: with the object, compressed, and its checksum."""
        whole = whole and self.obj is not None and self.signature is not None
        data: dict[str, Any] = CODEC.plain(replace(self, opts=()) if whole else replace(self, opts=(), obj=None, signature=None))
        del data["opts"]
        return data


def build(data: Any, opts: tuple[Opt, ...]) -> TravellingBuild:
    """What `TravellingBuild.to_json` wrote, of these options. Raises FleetError."""
    return read(TravellingBuild, data, "a build", opts=opts)


def of_built(b: Any) -> TravellingBuild:
    """What is kept of a `plan.Built`."""
    return TravellingBuild(tuple(b.opts), b.sha, frozenset(b.effects), b.lower_s, b.render_s, b.build_s, b.signature, b.obj)


# described --------------------------------------------------------------------------------------------------
# A device that is somewhere else: what a search must know of it, as data. It is not run here, and what it builds, it builds for there.


@dataclass(frozen=True)
class DeviceFacts:
    """`to_json` is what a worker answers. `spec`: what `devices.get` takes there; the others as in `Device`."""

    spec: str
    name: str
    target: Target
    compiler: str
    threads: int
    fingerprint: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dict(CODEC.plain(self))

    @staticmethod
    def from_json(data: Any) -> DeviceFacts:
        """What `to_json` wrote. Raises FleetError, DeviceError."""
        return read(DeviceFacts, data, "its device")

    @staticmethod
    def of(device: Device, threads: int) -> DeviceFacts:
        """Those of a device that is here."""
        known = device.spec or device.name
        return DeviceFacts(known, device.name, device.target, device.compiler_id(), threads, device.fingerprint(), device.limits())


class DescribedDevice(Device):
    """A device by its facts. It knows its target, and builds where this machine has the same compiler; it runs nothing."""

    def __init__(self, facts: DeviceFacts) -> None:
        self.facts = facts
        self.name = facts.name

    @property
    def target(self) -> Target:
        return self.facts.target

    @property
    def threads(self) -> int:
        return self.facts.threads

    def compiler_id(self) -> str:
        return self.facts.compiler

    def fingerprint(self) -> dict[str, Any]:
        return dict(self.facts.fingerprint)

    def limits(self, probe: bool | float = False) -> Limits | None:
        return self.facts.limits

    def build(self, source: SourceLike) -> bytes:
        from ...devices import get

        maker = get(self.facts.spec)
        if maker.compiler_id() != self.facts.compiler:
            raise BuildError(
                f"this machine has {maker.compiler_id()}, and the device's code is made by {self.facts.compiler}: install that one"
            )
        return maker.build(source)

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        raise DeviceError(f"the {self.name} device is on another machine: measure there, with tune run --fleet")


# subject ----------------------------------------------------------------------------------------------------
# The kernel that a batch is about, as plain data: by its name, or with the text of the user's file that makes it.


MOST_TEXT = 4 << 20
"""Bytes of a user's file."""


def subject(task: KernelTask, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON data from which a worker makes the same task. `asked`: kernel (a name, or `my.py:function`), shape, dtype, vars and allow as
    `tune` took them. Raises UsageError for a kernel that has no name."""
    name = asked["kernel"]
    if not isinstance(name, str):
        raise UsageError("a kernel travels by its name or with its file; give a fleet `matmul` or `my.py:function`, not a Kernel")
    data = {k: asked.get(k) for k in ("shape", "dtype", "vars")} | {"allow": sorted(asked.get("allow") or ()), "hash": task.key.kernel}
    if not is_path(name):
        return data | {"kernel": name}
    path, _ = split_name(name)
    file, function = split_path(path)
    try:
        text = Path(file).read_bytes()
    except OSError as e:
        raise UsageError(f"{file} cannot be read: {e.strerror}") from e
    if len(text) > MOST_TEXT:
        raise UsageError(f"{file} has {len(text)} bytes; a fleet takes kernel files of up to {MOST_TEXT}")
    rest = name[len(path) :]
    whole = {"name": Path(file).name, "text": text.decode("utf-8", "surrogateescape"), "sha256": hashlib.sha256(text).hexdigest()}
    return data | {"kernel": f"{function}{rest}", "file": whole}


def identity(data: Mapping[str, Any]) -> str:
    """Equal for equal subjects."""
    return hashlib.sha256(canon(dict(data)).encode()).hexdigest()


def task_of(data: Mapping[str, Any], device: str | Device, threads: int) -> KernelTask:
    """The task that `subject` described, on a device of this machine. A user's file runs in a process of its own, as it does where it
    is from. Raises FleetError where it is another kernel here, and what KernelTask does."""
    asked = (data["shape"], data["dtype"], device, threads, data["vars"], tuple(data["allow"]))
    if "file" not in data:
        return _checked_task(KernelTask(str(data["kernel"]), *asked), data)
    text = data["file"]["text"].encode("utf-8", "surrogateescape")
    if hashlib.sha256(text).hexdigest() != data["file"]["sha256"]:
        raise FleetError("the kernel's file was changed on its way; send it again")
    with tempfile.TemporaryDirectory(prefix="tilewright-kernel-") as folder:
        path = os.path.join(folder, os.path.basename(str(data["file"]["name"])))
        Path(path).write_bytes(text)
        return _checked_task(KernelTask(f"{path}:{data['kernel']}", *asked), data)


def _checked_task(task: KernelTask, data: Mapping[str, Any]) -> KernelTask:
    if task.key.kernel != data["hash"]:
        raise FleetError(
            f"{task.name} is another kernel on the worker ({task.key.kernel[:12]}, not {data['hash'][:12]}): it must not depend on the machine"
        )
    return task
