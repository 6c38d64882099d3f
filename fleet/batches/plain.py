"""What travels, as plain JSON data: targets, devices, measurements, builds and duels. Readers are strict: what comes over a network is
looked at field by field, and nothing of it is ever unpickled."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from ...ir.errors import FleetError, TilewrightError
from ...measure.outcome import Duel, EnergyUse, Measurement, Outcome
from ...opts.opt import parse
from ...targets import Target

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ...program.program import Signature

MOST_OBJECT = 64 << 20
"""Bytes of one object."""
_TEXTS = ("detail", "note")
_NUMBERS = ("t_min", "t_med", "error", "score")


def schedule(data: Any) -> tuple[Opt, ...]:
    """Options from their JSON form. Raises FleetError."""
    try:
        return parse(data)
    except TilewrightError as e:
        raise FleetError(f"what a worker sent is no schedule: {e}") from e


def target_json(target: Target) -> dict[str, Any]:
    """A target, whole."""
    return asdict(target) | {"features": sorted(target.features)}


def target(data: Any) -> Target:
    """What `target_json` wrote. Raises FleetError."""
    try:
        kinds = {f.name: str(f.type) for f in fields(Target)}
        if set(data) != set(kinds):
            raise ValueError("other fields than this version writes")
        read: Mapping[str, Callable[[Any], Any]] = {
            "str": str,
            "int": int,
            "float": float,
            "frozenset[str]": lambda x: frozenset(map(str, x)),
        }
        return Target(**{name: read[kinds[name]](data[name]) for name in kinds})
    except (KeyError, TypeError, ValueError) as e:
        raise FleetError(f"what a worker says of its target is not readable ({e}); client and worker must be the same version") from e


# measurements ------------------------------------------------------------------------------------------------------------
def measurement_json(m: Measurement) -> dict[str, Any]:
    """A measurement without its options, which whoever asked knows; no infinities, which JSON does not have."""
    data = {f.name: getattr(m, f.name) for f in fields(Measurement) if f.name != "opts"}
    data |= {name: data[name] if data[name] is None or math.isfinite(data[name]) else None for name in _NUMBERS}
    return data | {"outcome": m.outcome.value, "checks": list(m.checks), "clocks": dict(m.clocks), "energy": m.energy and m.energy.json}


def measurement(data: Any, opts: tuple[Opt, ...]) -> Measurement:
    """What `measurement_json` wrote, of these options. Raises FleetError."""
    try:
        if set(data) != {f.name for f in fields(Measurement)} - {"opts"}:
            raise ValueError("other fields than this version writes")
        got = dict(data) | {"outcome": Outcome(data["outcome"]), "checks": tuple(map(str, data["checks"])), "clocks": dict(data["clocks"])}
        for name in _NUMBERS:
            got[name] = _number(data[name])
        got |= {name: float(data[name]) for name in ("build_s", "lower_s")}
        got |= {name: int(data[name]) for name in ("n", "compared")}
        got |= {name: str(data[name]) for name in _TEXTS}
        got |= {name: None if data[name] is None else str(data[name]) for name in ("sha", "outputs")}
        got["scratch"] = None if data["scratch"] is None else int(data["scratch"])
        got["energy"] = None if data["energy"] is None else EnergyUse.of(data["energy"])
        timed = got["outcome"] in (Outcome.ok, Outcome.slow)
        if timed and not (got["t_min"] and got["t_min"] > 0):
            raise ValueError("a right candidate without a time")
        return Measurement(opts, **(got | {"cleared": bool(data["cleared"])}))
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise FleetError(f"what a worker says of a candidate is not readable ({e}); client and worker must be the same version") from e


def _number(x: Any) -> float | None:
    value = None if x is None else float(x)
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{x} is no figure")
    return value


def duel_json(d: Duel) -> dict[str, Any]:
    """A comparison of two."""
    return asdict(d)


def duel(data: Any) -> Duel:
    """What `duel_json` wrote. Raises FleetError."""
    try:
        ratio, t_a, t_b, noise = (_number(data[name]) or 0.0 for name in ("ratio", "t_a", "t_b", "noise"))
        significant, torn = bool(data["significant"]), bool(data.get("torn", False))
        return Duel(ratio, significant, t_a, t_b, int(data["rounds"]), noise, int(data["compared"]), torn)
    except (KeyError, TypeError, ValueError) as e:
        raise FleetError(f"what a worker says of a comparison is not readable ({e})") from e


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

    def to_json(self, whole: bool) -> dict[str, Any]:
        """Plain data without the options; `whole`: with the object, compressed, and its checksum."""
        from ...plan import signatures

        data: dict[str, Any] = {"sha": self.sha, "effects": sorted(self.effects)}
        data |= {name: round(getattr(self, name), 6) for name in ("lower_s", "render_s", "build_s")}
        if whole and self.obj is not None and self.signature is not None:
            packed = base64.b64encode(zlib.compress(self.obj, 1)).decode()
            data |= {"signature": signatures.encode(self.signature), "object": packed, "crc": hashlib.sha256(self.obj).hexdigest()}
        return data


def build(data: Any, opts: tuple[Opt, ...]) -> TravellingBuild:
    """What `TravellingBuild.to_json` wrote, of these options. Raises FleetError."""
    from ...plan import signatures

    try:
        obj = signature = None
        if "object" in data:
            unpack = zlib.decompressobj()
            obj = unpack.decompress(base64.b64decode(data["object"], validate=True), MOST_OBJECT)
            if hashlib.sha256(obj).hexdigest() != data["crc"]:
                raise ValueError("an object that is damaged")
            signature = signatures.decode(data["signature"])
        lower, render, compiling = (float(data[name]) for name in ("lower_s", "render_s", "build_s"))
        return TravellingBuild(opts, str(data["sha"]), frozenset(map(str, data["effects"])), lower, render, compiling, signature, obj)
    except (KeyError, TypeError, ValueError, zlib.error, TilewrightError) as e:
        raise FleetError(f"what a worker says of a build is not readable ({e}); client and worker must be the same version") from e


def of_built(b: Any) -> TravellingBuild:
    """What is kept of a `plan.Built`."""
    return TravellingBuild(tuple(b.opts), b.sha, frozenset(b.effects), b.lower_s, b.render_s, b.build_s, b.signature, b.obj)


def json_of(schedules: Sequence[Sequence[Opt]]) -> list[list[Any]]:
    """Option lists as JSON."""
    return [[o.json for o in s] for s in schedules]


def facts(data: Any) -> Mapping[str, Any]:
    """A worker's answer, which must be an object. Raises FleetError."""
    if not isinstance(data, Mapping):
        raise FleetError(f"a worker answered {type(data).__name__} instead of an object")
    return data
