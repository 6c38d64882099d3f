"""What travels, as plain JSON data: devices, measurements, builds and duels. What comes over a network is read strictly, field by field,
and nothing of it is ever unpickled."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...devices.limits import Limits
from ...files.strict import Codec, Misread
from ...ir.errors import FleetError, TilewrightError
from ...measure.outcome import Measurement
from ...opts.opt import Opt, parse
from ...plan.artefacts import decode_signature, encode_signature
from ...program.program import Signature

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
