"""Measured limits of a machine, and the file they are kept in."""

from __future__ import annotations

import functools
import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from ..files import folders
from ..files.strict import Count, Misread, Positive, Within, plain
from ..files.strict import read as read_data
from ..files.write_file import content
from ..files.write_file import replace as put
from ..ir.dtypes import DTypeLike
from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import DeviceError
from ..log import logger

log = logger("devices")

SCHEMA = 2
"""Schema 1, which is read too, knew no caches, and no order among thread counts."""

MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Cached:
    """Bytes a second over a working set of `size` bytes (of all threads together) that stays in a cache: reading
    alone, and the better of copy and triad."""

    size: Count
    read: Positive
    mixed: Positive


@dataclass(frozen=True, slots=True)
class Rates:
    """Best rates seen with one number of threads: floating-point operations a second (an FMA is two), and bytes a second that the
    program itself reads and writes (`copy` counts two arrays, `triad` three). `_nt`: non-temporal stores. `caches`: the same over
    smaller sets, ascending, none where nobody measured them."""

    peak_f32: Positive
    peak_f64: Positive
    read: Positive
    copy: Positive
    copy_nt: Positive
    triad: Positive
    triad_nt: Positive
    caches: tuple[Cached, ...] = ()


PEAKS, MEMORY, CACHED = ("peak_f32", "peak_f64"), ("read", "copy", "copy_nt", "triad", "triad_nt"), "caches"
"""The figures of arithmetic, those of memory, and what stands for all of the caches."""
DOUBT = 0.05
"""The share by which a figure may be off where nobody measured its spread."""
_SPREADS = 0.02, 0.25
"""The least and the most that a spread counts."""
FIGURES = tuple(f.name for f in fields(Rates) if f.name != "caches")
"""The fields of Rates that are one number."""


@dataclass(frozen=True)
class Limits:
    """Peak rates by number of threads (1 and all usable cores). `date` is ISO 8601, UTC. More threads never have less
    than fewer: they can leave some idle."""

    date: str
    rates: Mapping[Count, Rates]
    spread: Mapping[str, Annotated[float, Within(0)]] = field(default_factory=dict)
    """How far the runs of a figure (or of "caches") lay apart when it was measured: median ÷ best − 1. None is known of old files."""

    def spread_of(self, figures: Iterable[str]) -> float:
        """The share by which the largest of some figures may be off."""
        least, most = _SPREADS
        return min(most, max([least, *(self.spread.get(f, DOUBT) for f in figures)]))

    def bandwidth(self, threads: int, nt: bool = False, writes: bool = True) -> float:
        """The most bytes a second that `threads` threads move from and to memory: the better of copy and triad with that kind of
        store, or the read rate for a kernel whose stores are negligible."""
        return self._at(threads, lambda r: r.read if not writes else max(r.copy_nt, r.triad_nt) if nt else max(r.copy, r.triad))

    def cached(self, threads: int, size: int, writes: bool = True) -> float | None:
        """The most bytes a second over a set of `size` bytes that is used again and again: what the largest measured
        set that is no larger gives, as a larger one is never faster. None where no caches were measured."""
        if not all(r.caches for r in self.rates.values()):
            return None

        def rate(r: Rates) -> float:
            found = [c for c in r.caches if c.size <= size] or [r.caches[0]]
            return found[-1].read if not writes else max(found[-1].read, found[-1].mixed)

        return self._at(threads, rate)

    def peak(self, threads: int, dtype: DTypeLike = "float32") -> float:
        """Floating-point operations a second of `threads` threads in the compute type of `dtype` (integers: as float32)."""
        wide = dtype_of(dtype).compute.size == 8
        return self._at(threads, lambda r: r.peak_f64 if wide else r.peak_f32)

    def _at(self, threads: int, rate: Any) -> float:
        """A figure between measured counts: no more than linear scaling from one thread, no more than the next measured count gives."""
        known = {n: max(float(rate(r)) for m, r in self.rates.items() if m <= n) for n in self.rates}
        if threads in known:
            return known[threads]
        below = max((n for n in known if n < threads), default=min(known))
        above = min((n for n in known if n > threads), default=max(known))
        return min(known[below] * max(1.0, threads / below), max(known[above], known[below]))

    def best(self, other: Limits) -> Limits:
        """The better of both figure by figure, with this one's date: other work on a machine only ever makes a figure smaller."""

        def better(n: int) -> Rates:
            a, b = (one.rates[n] if n in one.rates else two.rates[n] for one, two in ((self, other), (other, self)))
            return Rates(**{f: max(getattr(a, f), getattr(b, f)) for f in FIGURES}, caches=_faster(a.caches, b.caches))

        spread = {**other.spread, **self.spread}
        return Limits(self.date, {n: better(n) for n in sorted({*self.rates, *other.rates})}, spread).ordered()

    def ordered(self) -> Limits:
        """The rates, with no figure below what fewer threads gave."""
        out: dict[int, Rates] = {}
        for n, r in sorted(self.rates.items()):
            best = next(reversed(out.values()), r)
            out[n] = replace(r, **{f: max(getattr(r, f), getattr(best, f)) for f in FIGURES})
        return Limits(self.date, out, self.spread)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able form, read back by `from_json`."""
        return {"schema": SCHEMA, **plain(replace(self, rates=dict(sorted(self.rates.items()))))}

    @staticmethod
    def from_json(data: Any) -> Limits:
        """Strict: raises DeviceError on anything that `to_json` did not write."""
        try:
            file = read_data(_LimitsFile, data, unknown="ignore")
            if not file.rates or any(list(r.caches) != sorted(r.caches, key=lambda c: c.size) for r in file.rates.values()):
                raise Misread("there are no rates, or the sizes of caches do not ascend", ("rates",))
        except ValueError as e:
            raise DeviceError(f"stored limits are not readable ({e}); measure them again with: tune devices --probe") from e
        return Limits(file.date, file.rates, file.spread).ordered()


@dataclass(frozen=True, kw_only=True)
class _LimitsFile(Limits):
    """What is stored. The machine is described there too, for people."""

    schema: Literal[1, 2]


def _faster(a: tuple[Cached, ...], b: tuple[Cached, ...]) -> tuple[Cached, ...]:
    """The better rate at each size that both know; the first's sizes, if it has any."""
    other = {c.size: c for c in b}
    return tuple(Cached(c.size, max(c.read, other.get(c.size, c).read), max(c.mixed, other.get(c.size, c).mixed)) for c in a) or b


def path(identity: Mapping[str, Any]) -> Path:
    """The file for the machine that `identity` describes, in the platform's state directory."""
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    return folders.state() / f"limits-{key}.json"


def keep(identity: Mapping[str, Any], found: Limits) -> Limits:
    """What was just measured, or before where that was better, kept for the machine that `identity` describes. Raises DeviceError where that is
    not possible."""
    file = path(identity)
    try:
        before = read(file)
    except DeviceError:  # damaged: this probe is the cure
        before = None
    found = found.best(before) if before else found
    write(file, found, identity)
    return found


def read(file: Path) -> Limits | None:
    """What was kept; None if nothing was, or where that cannot be read, which is said once. DeviceError if the file is damaged."""
    try:
        raw = content(file, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as e:
        _unreadable(f"the stored limits {file} cannot be read ({e.strerror or e}): this machine's are taken as not measured")
        return None
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise DeviceError(f"stored limits {file} are damaged ({e}); measure them again with: tune devices --probe") from e
    return Limits.from_json(data)


@functools.cache
def _unreadable(said: str) -> None:
    """Say it, once a process."""
    warnings.warn(said, stacklevel=4)


def write(file: Path, limits: Limits, identity: Mapping[str, Any]) -> None:
    """Replace the file in one step, so that a reader never sees half of it. Raises DeviceError where that is not possible."""
    text = json.dumps({**limits.to_json(), "machine": dict(identity)}, indent=1, sort_keys=True) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        put(file, text)
        log.info("measured limits are kept in %s", file)
    except OSError as e:
        raise DeviceError(f"cannot keep the measured limits in {file}: {e}; make the directory writable or set XDG_STATE_HOME") from e
