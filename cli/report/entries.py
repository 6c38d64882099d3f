"""What a report is about: for each kernel its best row and the history behind it, as columns to show, sort and filter by.

A row's roofline is told by today's limits of the machine: limits that were measured while the machine was busy were too low."""

from __future__ import annotations

import difflib
import functools
import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ... import devices
from ...cache.keys import for_text
from ...cache.layers import SHIPPED_RUN
from ...cache.objective_types import ENERGIES, TIME
from ...cache.ranking import energy_of, scratch_of
from ...devices.limits import DOUBT
from ...ir.dtypes import dtype
from ...ir.errors import OptError, TilewrightError, UsageError
from ...measure.roofline import SURE, share
from ...opts.opt import parse, short
from ...search.result import joules
from ..cache.query import same_kernel, shape_of
from ..terminal.style import bytes_text, duration, factor, rate

if TYPE_CHECKING:
    from ...cache import Cache, Row
    from ...measure.roofline import Roofline


def roofline_s(row: Row, seconds: float) -> float | None:
    """The least seconds of a call, as the row has it; where its `seconds` pass that by more than the spread, what this machine's limits say now,
    if it is this machine's row and a kernel known by name. None where the row says nothing."""
    kept = row.roofline_s
    if not kept or seconds <= 0:
        return kept
    said = row.facts.get("roofline")
    spread = said.get("spread", DOUBT) if isinstance(said, dict) else DOUBT
    if not isinstance(spread, float) or seconds * (1 + spread) >= kept:
        return kept
    now = _now(row.name, row.shape, row.dtype, row.device, row.threads, row.target, "DOWNCONVERT" in row.policy)
    host = row.facts.get("machine")
    return min(kept, now.seconds) if now is not None and isinstance(host, dict) and host == _machine(row.device) else kept


@functools.lru_cache(maxsize=1024)
def _now(name: str, shape: str, dtype: str, device: str, threads: int, target: str, lossy: bool) -> Roofline | None:
    """The figure by today's limits; None where the kernel or the device is not here."""
    import json

    from ... import named_kernels
    from ...search.kernel_task import KernelTask

    if name not in named_kernels.NAMES:
        return None
    try:
        task = KernelTask(name, json.loads(shape), dtype or None, device, threads, allow=("DOWNCONVERT",) if lossy else ())
        return task.roofline() if task.key.target == target else None
    except (TilewrightError, ValueError):
        return None  # another version's kernel or shape: the row says what it can


@functools.lru_cache(maxsize=16)
def _machine(device: str) -> object:
    try:
        return devices.get(device).fingerprint()
    except TilewrightError:
        return None


HUGE = 1e21


@dataclass(frozen=True)
class ReportEntry:
    """One tuned kernel: the row that a look-up returns, and every row of its key, oldest first. Every figure is of
    that row and of its run: times of two runs are of two states of the machine."""

    best: Row
    history: tuple[Row, ...]

    @property
    def seconds(self) -> float:
        """The least time of one call, as it was measured."""
        return self.best.t_min or self.best.t_med or 0.0

    @functools.cached_property
    def gain(self) -> tuple[float, bool] | None:
        """(how many times faster than its start schedule the answer is, whether paired rounds said so); else it is from single
        times of their one run."""
        about = provenance(self.best)
        stated = about.get("gain")
        if self.from_start:
            return 1.0, True  # one schedule
        # of an energy, how many times less it is; of scratch memory there is nothing to say
        if about.get("paired") is True and isinstance(stated, (int, float)) and 1 / HUGE < stated < HUGE:
            return float(stated), True
        single = ratio(self.best.start_s, self.seconds) if self.best.objective.startswith(TIME) else None
        return None if single is None else (single, False)

    @functools.cached_property
    def from_start(self) -> bool:
        """Whether no search beat the start schedule."""
        start = provenance(self.best).get("start_opts")
        return start is not None and start == json.loads(self.best.opts_display)

    @functools.cached_property
    def candidates(self) -> tuple[Row, ...]:
        """The history without the rows that only say again, timed once more, which candidate was the answer of its run."""
        tried = {(r.run_id, r.opts) for r in self.history if r.outcome in ("ok", "slow") and not r.verified}
        return tuple(r for r in self.history if not (r.verified and (r.run_id, r.opts) in tried))

    @property
    def plain_s(self) -> float | None:
        """The time of the kernel as it is written, with no option, in the run of the answer; None where that did not measure it."""
        same = (r.t_min for r in self.history if r.opts == "[]" and r.run_id == self.best.run_id and r.outcome in ("ok", "slow"))
        return min(filter(None, same), default=None)

    @property
    def origin(self) -> str:
        """Where the best schedule is from: `pin` where somebody chose it by hand, `start` where no search beat the start schedule, else the
        strategy of the search that found it."""
        if self.best.pinned:
            return "pin"
        return "start" if self.from_start else self.best.strategy

    @functools.cached_property
    def limits(self) -> Limit | None:
        """The limits over the kernel; None where they were not recorded."""
        kept = provenance(self.best).get("roofline")
        if not isinstance(kept, dict) or kept.get("bound") not in ("compute", *PLACES):
            return None
        peak, bandwidth = kept.get("peak"), kept.get("bandwidth")
        if not isinstance(peak, float) or not isinstance(bandwidth, float) or not (1.0 < peak < HUGE and 1.0 < bandwidth < HUGE):
            return None
        place = kept.get("place")
        return Limit(str(kept["bound"]), peak, bandwidth, place if place in PLACES else "memory")


PLACES = ("memory", "L3", "L2", "L1")
"""Where the operands of a kernel may lie while it is timed."""


@dataclass(frozen=True)
class Limit:
    """What binds a kernel (`compute`, or the `place` where its operands lie), and the limits that it had: operations
    a second, and bytes a second there."""

    bound: str
    peak: float
    bandwidth: float
    place: str


def ratio(a: float | None, b: float | None, scale: float = 1.0) -> float | None:
    """a ÷ b × scale; None where one of them is missing or zero, or the result is out of the range of anything measurable."""
    if not a or not b:
        return None
    value = a / b * scale
    return value if 1 / HUGE < value < HUGE else None


COLUMNS: dict[str, Callable[[ReportEntry], Any]] = {
    "kernel": lambda e: e.best.name,
    "shape": lambda e: shape_of(e.best),
    "dtype": lambda e: e.best.dtype,
    "device": lambda e: e.best.device,
    "threads": lambda e: e.best.threads,
    "time": lambda e: e.seconds,
    "median": lambda e: e.best.t_med,
    "gflops": lambda e: ratio(e.best.flops, e.seconds, 1e-9),
    "gbs": lambda e: ratio(e.best.bytes, e.seconds, 1e-9),
    "roofline": lambda e: ratio(roofline_s(e.best, e.seconds), e.seconds),
    "gain": lambda e: e.gain and e.gain[0],
    "paired": lambda e: e.gain and e.gain[1],
    "plain": lambda e: ratio(e.plain_s, e.seconds),
    "bound": lambda e: e.limits and e.limits.bound,
    "tried": lambda e: len(e.candidates),
    "origin": lambda e: e.origin,
    "strategy": lambda e: e.best.strategy,
    "when": lambda e: e.best.when,
    "pinned": lambda e: e.best.pinned,
    "objective": lambda e: e.best.objective,
    "energy": lambda e: energy_of(e.best).get("joules"),
    "scratch": lambda e: scratch_of(e.best),
    "opts": lambda e: short_of(e.best),
}
"""Name of a column → its value: seconds, shares, factors, counts and texts; None where nothing was measured."""
FALLING = ("gflops", "gbs", "roofline", "gain", "plain", "tried", "when", "pinned")
"""Columns whose largest value comes first unless asked otherwise."""


def cell_text(e: ReportEntry, name: str) -> str:
    """A column for a reader: `1.2 ms`, `80 %`, `1.83x`; a dash where it has no value. `notes` explains the signs."""
    value = COLUMNS[name](e)
    if value is None:
        return "-"
    if name in ("time", "median"):
        return duration(value)
    if name == "energy":
        return joules(value)
    if name == "scratch":
        return bytes_text(value) if value else "none"
    if name == "kernel":
        return f"{value}{for_text(e.best.objective)}"
    if name in ("gflops", "gbs"):
        return rate(value, "")
    if name == "roofline":
        return share(100 * value, e.limits.bound if e.limits else None)
    if name in ("gain", "plain"):
        return f"{'' if name == 'gain' and e.gain and e.gain[1] else '~'}{f'{value:.2f}x' if name == 'gain' else factor(value)}"
    return str(value)


def notes(found: Sequence[ReportEntry]) -> list[str]:
    """What the signs in these entries' columns mean."""
    out = []
    if any(e.gain and not e.gain[1] for e in found):
        out.append("~ from single times of one run: no paired rounds")
    if any(e.best.objective in ENERGIES and e.gain for e in found):
        out.append("for energy: over start says how many times less energy the schedule takes than the start schedule")
    if any(e.limits and e.limits.bound in PLACES[1:] for e in found):
        out.append("in L1, L2, L3: of the bandwidth of that cache, where the operands stay")
    if any((COLUMNS["roofline"](e) or 0.0) * 100 > SURE for e in found):
        out.append("! more than the roofline, which is wrong then: measure it again with tune devices --probe, and tune again")
    return out


def short_of(row: Row) -> str:
    """A row's schedule in short form."""
    try:
        return short(parse(row.opts_display))
    except OptError:
        # a row of another version
        return row.opts_display


def measurements(cache: Cache, args: Namespace) -> list[Row]:
    """Every measurement that the arguments ask for, of kernels without a valid schedule too, oldest first. What comes with the package is none."""
    exact: dict[str, str | int] = {"dtype": dtype(args.dtype).name} if args.dtype else {}
    if args.threads:
        exact["threads"] = args.threads
    wanted = _row_filter(args)
    return [r for r in cache.rows(**exact) if r.run_id != SHIPPED_RUN and wanted(r)]


def entries(cache: Cache, args: Namespace, unfinished: bool = False) -> list[ReportEntry]:
    """The tuned kernels that the arguments ask for, sorted as they ask. `unfinished`: those too whose search has not settled on an answer,
    with the best candidate so far in its place. Raises UsageError for an unknown column or date."""
    order = _order(args.sort) if args.sort else None
    histories: dict[Any, list[Row]] = {}
    for r in measurements(cache, args):
        histories.setdefault(r.key, []).append(r)
    found = []
    for history in histories.values():
        usable = [r for r in history if r.usable and r.t_med]
        if unfinished and not usable:
            usable = [r for r in history if r.outcome == "ok" and r.t_med]
        if usable and (not args.outcome or any(r.outcome == args.outcome for r in history)):
            answer = cache.best(usable[0].key)
            # of the measurements asked for, where what a look-up returns is not one
            best = answer if answer in usable else min(usable, key=lambda r: (r.t_med or 0.0, r.t_min or 0.0, r.digest))
            found.append(ReportEntry(best, tuple(history)))
    found.sort(key=lambda e: (e.best.name, e.best.dtype, sorted(e.best.shape_dict.items()), e.best.device, e.best.threads))
    found = sort(found, *order) if order else found
    return found[: args.limit] if args.limit else found


def _order(by: str) -> tuple[str, bool]:
    """(column, whether the largest comes first) of `NAME`, `NAME:asc` or `NAME:desc`."""
    name, _, order = by.partition(":")
    if name not in COLUMNS:
        near = difflib.get_close_matches(name, COLUMNS, 1)
        raise UsageError(f"cannot sort by {name!r}{f'; did you mean {near[0]}?' if near else ''} (columns: {', '.join(COLUMNS)})")
    if order not in ("", "asc", "desc"):
        raise UsageError(f"--sort {by}: the order is asc or desc, not {order!r}")
    return name, order == "desc" or (not order and name in FALLING)


def sort(found: Sequence[ReportEntry], name: str, falling: bool) -> list[ReportEntry]:
    """Entries by a column; those without a value last."""
    value = COLUMNS[name]
    have = sorted((e for e in found if value(e) is not None), key=value, reverse=falling)
    return have + [e for e in found if value(e) is None]


def _row_filter(args: Namespace) -> Callable[[Row], bool]:
    """Whether a row is what the arguments ask for (element type, threads and outcome apart). `*` in a name stands for anything."""
    shape: dict[str, int] = {}
    if args.shape:
        from ...named_kernels import parse_shape

        shape = parse_shape(args.shape)
    since = moment(args.since, "--since") if args.since else ""

    def check(row: Row) -> bool:
        return (
            (not args.kernel or same_kernel(row.name, args.kernel))
            and (not args.device or row.device == args.device or fnmatchcase(row.device, args.device))
            and (not args.strategy or fnmatchcase(row.strategy, args.strategy))
            and row.when >= since
            and (not shape or shape.items() <= row.shape_dict.items())
        )

    return check


def moment(text: str, flag: str) -> str:
    """The earliest `Row.when` of a date or time that `flag` was given. Raises UsageError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{flag} takes a date such as 2026-01-31 or a time such as 2026-01-31T12:00, not {text!r}") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="microseconds")


def provenance(row: Row) -> dict[str, Any]:
    """Where and how a row was measured."""
    return dict(row.facts)
