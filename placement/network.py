"""What lies between devices: seconds and seconds a byte of each collective, measured between processes of this machine and kept."""

from __future__ import annotations

import datetime
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..files import folders
from ..files.write_file import replace
from .collectives import MeshAxis
from .errors import PlanError
from .pipeline_costs import Link

MEASURED = ("send", "all-reduce", "all-gather", "reduce-scatter")


@dataclass(frozen=True)
class Rate:
    """`alpha` seconds, and `beta` seconds for each byte that a device sends. `off`: how far a measured time lay from that, at most, as a share."""

    alpha: float
    beta: float
    off: float = 0.0


@dataclass(frozen=True)
class MeasuredLinks:
    """`rates` by collective, between `ranks` processes. `date`: ISO 8601, UTC."""

    date: str
    ranks: int
    rates: Mapping[str, Rate]

    @property
    def link(self) -> Link:
        """Of a message from one device to another."""
        return Link(self.rates["send"].alpha, self.rates["send"].beta)

    def axis(self, n: int) -> MeshAxis:
        """An axis of a mesh of `n` devices: the rates of an all-reduce, which most plans need most."""
        return MeshAxis(n, self.rates["all-reduce"].alpha, self.rates["all-reduce"].beta)

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, "date": self.date, "ranks": self.ranks, "rates": {k: asdict(r) for k, r in self.rates.items()}}

    @staticmethod
    def from_json(data: Any) -> MeasuredLinks:
        """Raises PlanError where this is not what `to_json` made."""
        try:
            if data["schema"] != 1 or set(data["rates"]) != set(MEASURED):
                raise ValueError("of another version")
            rates = {str(k): Rate(float(r["alpha"]), float(r["beta"]), float(r["off"])) for k, r in data["rates"].items()}
            if not all(math.isfinite(x) and x >= 0 for r in rates.values() for x in (r.alpha, r.beta, r.off)):
                raise ValueError("a rate is negative")
            return MeasuredLinks(str(data["date"]), int(data["ranks"]), rates)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise PlanError(f"the measured links are damaged ({e}): measure them again with tune devices --links") from None


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


def measure(ranks: int = 2) -> MeasuredLinks:
    """Measure between so many processes of this machine (about two seconds), and keep it. Raises PlanError where no MPI is there."""
    from .running.launcher import launched

    found = launched(f"{__package__}.running.link_times", ranks, {}, 60.0)
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    links = MeasuredLinks(date, ranks, {kind: fitted(kind, ranks, [(b, t) for b, t in found[kind]]) for kind in MEASURED})
    file = place()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, json.dumps(links.to_json(), indent=1) + "\n")
    except OSError as e:
        raise PlanError(
            f"cannot keep the measured links in {file}: {e.strerror}; make the directory writable or set XDG_STATE_HOME"
        ) from None
    return links


def place() -> Path:
    """Where this machine's are kept."""
    return folders.state() / f"links-{platform.node() or 'here'}.json"


def kept() -> MeasuredLinks | None:
    """What was measured on this machine; None if nothing was. Raises PlanError where the file is damaged."""
    try:
        text = place().read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise PlanError(f"cannot read the measured links {place()}: {e}") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise PlanError(f"the measured links {place()} are damaged ({e}): measure them again with tune devices --links") from None
    return MeasuredLinks.from_json(data)
