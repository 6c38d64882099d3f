"""What lies between devices: seconds and seconds a byte of each collective, and what work side by side costs each other, measured between
processes of this machine and kept."""

from __future__ import annotations

import datetime
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..files import folders
from ..files.write_file import replace as write
from .collectives import MeshAxis
from .errors import PlanError
from .list_schedule import Slow
from .pipeline_schedule import Link

MEASURED = ("send", "all-reduce", "all-gather", "reduce-scatter")
RESOURCES = ("compute", "memory", "network")
"""What an operation of a device is limited by."""
SCHEMA = 2


@dataclass(frozen=True)
class Rate:
    """`alpha` seconds, and `beta` seconds for each byte that a device sends. `off`: how far a measured time lay from that, at most, as a share."""

    alpha: float
    beta: float
    off: float = 0.0


@dataclass(frozen=True)
class Network:
    """`rates` by collective, between `ranks` processes. `date`: ISO 8601, UTC; '' where they are assumed. `slowed`: how many times as long work
    that one resource limits takes beside work that another limits, on one device; empty where that was not measured. `slow`: links that are slower
    than those rates."""

    date: str
    ranks: int
    rates: Mapping[str, Rate]
    slowed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    slow: Slow = field(default_factory=dict)

    def __post_init__(self) -> None:
        for devices, times in self.slow.items():
            if not (math.isfinite(times) and times >= 1) or sorted({*devices}) != list(devices) or not 1 <= len(devices) <= 2:
                raise PlanError(f"a slow link is of one device or of two, and 1 or more times as slow; not {devices}: {times:g}")

    @property
    def link(self) -> Link:
        """The link that a message from one device to another takes."""
        return Link(self.rates["send"].alpha, self.rates["send"].beta)

    def axis(self, n: int, times: float = 1.0) -> MeshAxis:
        """An axis of a mesh of `n` devices, with the rates of each collective; what was not measured has those of an all-reduce. `times`: how many
        times as long the slowest link makes them. What comes from other stages goes over other links."""
        r = self.rates["all-reduce"]
        slowed = {kind: 1.0 if kind == "send" else times for kind in self.rates}
        rates = {kind: (slowed[kind] * x.alpha, slowed[kind] * x.beta) for kind, x in self.rates.items()}
        return MeshAxis(n, times * r.alpha, times * r.beta, rates=rates)

    def faster(self, times: float) -> Network:
        """The same with so many times the bandwidth."""
        return replace(self, rates={kind: replace(r, beta=r.beta / times) for kind, r in self.rates.items()})

    def without(self, device: int) -> Network:
        """The same without a device; those after it are numbered anew."""
        left = {tuple(d - (d > device) for d in of): times for of, times in self.slow.items() if device not in of}
        return replace(self, slow=left)

    def to_json(self) -> dict[str, Any]:
        rates = {k: asdict(r) for k, r in self.rates.items()}
        return {
            "schema": SCHEMA,
            "date": self.date,
            "ranks": self.ranks,
            "rates": rates,
            "slowed": {k: dict(x) for k, x in self.slowed.items()},
        }

    @staticmethod
    def from_json(data: Any) -> Network:
        """Raises PlanError where this is not what `to_json` made."""
        try:
            if data["schema"] != SCHEMA or set(data["rates"]) != set(MEASURED):
                raise ValueError("of another version")
            slowed = {a: {b: float(data["slowed"][a][b]) for b in RESOURCES if b != a} for a in RESOURCES}
            if not all(math.isfinite(x) and x >= 1 for by in slowed.values() for x in by.values()):
                raise ValueError("work beside other work is faster than alone")
            rates = {str(k): Rate(float(r["alpha"]), float(r["beta"]), float(r["off"])) for k, r in data["rates"].items()}
            if not all(math.isfinite(x) and x >= 0 for r in rates.values() for x in (r.alpha, r.beta, r.off)):
                raise ValueError("a rate is negative")
            return Network(str(data["date"]), int(data["ranks"]), rates, slowed)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise PlanError(f"the measured links are damaged ({e}): measure them again with tune devices --links") from None


def uniform(alpha: float, beta: float) -> Network:
    """Links that were not measured: every collective has these rates."""
    return Network("", 0, dict.fromkeys(MEASURED, Rate(alpha, beta)))


ASSUMED = uniform(13e-6, 1 / 3.4e9)
"""Of two processes of a machine, where none was measured."""


def fitted(kind: str, ranks: int, times: Sequence[tuple[float, float]]) -> Rate:
    """The rate of (bytes, seconds) that is off by the least share, by weighted least squares; no part of it is negative."""
    sent = [(MeshAxis(ranks).sent(kind, nbytes), seconds) for nbytes, seconds in times]
    weights = [1 / t**2 for _, t in sent]
    sw, sx, sy = sum(weights), sum(w * x for w, (x, _) in zip(weights, sent)), sum(w * y for w, (_, y) in zip(weights, sent))
    sxx, sxy = sum(w * x * x for w, (x, _) in zip(weights, sent)), sum(w * x * y for w, (x, y) in zip(weights, sent))
    beta = (sw * sxy - sx * sy) / (sw * sxx - sx * sx) if sw * sxx != sx * sx else 0.0
    alpha = (sy - beta * sx) / sw
    if beta < 0:
        alpha, beta = sy / sw, 0.0
    elif alpha < 0:
        alpha, beta = 0.0, sxy / sxx
    off = max(abs(alpha + beta * x - y) / y for x, y in sent)
    return Rate(alpha, beta, off)


def measure(ranks: int = 2, backend: str = "mpi") -> Network:
    """Measure between so many processes of this machine (about four seconds), and keep it. Raises PlanError where what the backend needs is not
    there."""
    from .running.launcher import launched

    found = launched(f"{__package__}.running.link_times", ranks, {}, 60.0, backend)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    rates = {kind: fitted(kind, ranks, [(b, t) for b, t in found["seconds"][kind]]) for kind in MEASURED}
    links = Network(date, ranks, rates, found["slowed"])
    file = place(backend)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, json.dumps(links.to_json(), indent=1) + "\n")
    except OSError as e:
        raise PlanError(
            f"cannot keep the measured links in {file}: {e.strerror}; make the directory writable or set XDG_STATE_HOME"
        ) from None
    return links


def place(backend: str = "mpi") -> Path:
    """The file of this machine's networks."""
    return folders.state() / f"links-{platform.node() or 'here'}{'' if backend == 'mpi' else f'-{backend}'}.json"


def kept(backend: str = "mpi") -> Network | None:
    """What was measured on this machine; None if nothing was. Raises PlanError where the file is damaged."""
    file = place(backend)
    try:
        text = file.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise PlanError(f"cannot read the measured links {file}: {e}") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise PlanError(f"the measured links {file} are damaged ({e}): measure them again with tune devices --links") from None
    return Network.from_json(data)
