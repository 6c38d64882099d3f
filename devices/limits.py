"""Measured limits of a machine, and the file they are kept in."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..files.output import replace
from ..ir.dtypes import DType
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import DeviceError

SCHEMA = 1
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Rates:
    """Best rates seen with one number of threads: floating-point operations a second (an FMA is two), and bytes a second that the
    program itself reads and writes (`copy` counts two arrays, `triad` three). `_nt`: non-temporal stores."""

    peak_f32: float
    peak_f64: float
    read: float
    copy: float
    copy_nt: float
    triad: float
    triad_nt: float


@dataclass(frozen=True)
class Limits:
    """Peak rates by number of threads (1 and all usable cores). `date` is ISO 8601, UTC."""

    date: str
    rates: Mapping[int, Rates]

    def bandwidth(self, threads: int, nt: bool = False, writes: bool = True) -> float:
        """The most bytes a second that `threads` threads move from and to memory: the better of copy and triad with that kind of
        store, or the read rate for a kernel whose stores are negligible."""
        return self._at(threads, lambda r: r.read if not writes else max(r.copy_nt, r.triad_nt) if nt else max(r.copy, r.triad))

    def peak(self, threads: int, dtype: DType | str = "float32") -> float:
        """Floating-point operations a second of `threads` threads in the compute type of `dtype` (integers: as float32)."""
        wide = dtype_of(dtype).compute.size == 8
        return self._at(threads, lambda r: r.peak_f64 if wide else r.peak_f32)

    def _at(self, threads: int, rate: Any) -> float:
        """Between measured counts: no more than linear scaling from one thread, no more than the next measured count gives."""
        if threads in self.rates:
            return float(rate(self.rates[threads]))
        below = max((n for n in self.rates if n < threads), default=min(self.rates))
        above = min((n for n in self.rates if n > threads), default=max(self.rates))
        linear = float(rate(self.rates[below])) * max(1.0, threads / below)
        return min(linear, max(float(rate(self.rates[above])), float(rate(self.rates[below]))))

    def best(self, other: Limits) -> Limits:
        """The better of both figure by figure, with this one's date: other work on a machine only ever makes a figure smaller."""

        def better(n: int) -> Rates:
            a, b = self.rates.get(n, other.rates.get(n)), other.rates.get(n, self.rates.get(n))
            return Rates(**{f.name: max(getattr(a, f.name), getattr(b, f.name)) for f in fields(Rates)})

        return Limits(self.date, {n: better(n) for n in sorted({*self.rates, *other.rates})})

    def to_json(self) -> dict[str, Any]:
        """A JSON-able form, read back by `from_json`."""
        return {"schema": SCHEMA, "date": self.date, "rates": {str(n): asdict(r) for n, r in sorted(self.rates.items())}}

    @staticmethod
    def from_json(data: Any) -> Limits:
        """Strict: raises DeviceError on anything that `to_json` did not write."""
        try:
            names = {f.name for f in fields(Rates)}
            if data["schema"] != SCHEMA or any(set(r) != names for r in data["rates"].values()) or not data["rates"]:
                raise ValueError("other fields than this version writes")
            found = Limits(str(data["date"]), {int(n): Rates(**{k: float(v) for k, v in r.items()}) for n, r in data["rates"].items()})
            if not all(n > 0 and all(0 < v < math.inf for v in asdict(r).values()) for n, r in found.rates.items()):
                raise ValueError("a rate that cannot be")
            return found
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as e:
            raise DeviceError(f"stored limits are not readable ({e}); measure them again with: tune devices --probe") from e


def path(identity: Mapping[str, Any]) -> Path:
    """The file for the machine that `identity` describes, in the platform's state directory."""
    import platformdirs

    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return Path(platformdirs.user_state_dir("tilewright", appauthor=False)) / f"limits-{key}.json"


def read(file: Path) -> Limits | None:
    """What was kept; None if nothing was, DeviceError if the file is damaged."""
    try:
        with open(file, "rb", opener=lambda p, flags: os.open(p, flags | getattr(os, "O_NONBLOCK", 0))) as f:  # a pipe would wait for ever
            if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
                raise OSError("it is no regular file")
            raw = f.read(MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        raise DeviceError(f"cannot read the stored limits {file}: {e}") from e
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise DeviceError(f"stored limits {file} are damaged ({e}); measure them again with: tune devices --probe") from e
    return Limits.from_json(data)


def write(file: Path, limits: Limits, identity: Mapping[str, Any]) -> None:
    """Replace the file in one step, so that a reader never sees half of it. Raises DeviceError where that is not possible."""
    text = json.dumps({**limits.to_json(), "machine": dict(identity)}, indent=1, sort_keys=True) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, text)
    except OSError as e:
        raise DeviceError(f"cannot keep the measured limits in {file}: {e}; make the directory writable or set XDG_STATE_HOME") from e
