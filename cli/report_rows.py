"""What a report is about: for each kernel its best row and the history behind it, as columns to show, sort and filter by."""

from __future__ import annotations

import difflib
import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ..ir.errors import UsageError
from .query import filters, same_kernel, shape_of

if TYPE_CHECKING:
    from ..cache import Cache, Row


@dataclass(frozen=True)
class Entry:
    """One tuned kernel: the row that a look-up returns, and every measurement of its key, oldest first."""

    best: Row
    history: tuple[Row, ...]

    @property
    def seconds(self) -> float:
        """The best time of one call."""
        return self.best.t_min or self.best.t_med or float("inf")


COLUMNS: dict[str, Callable[[Entry], Any]] = {
    "kernel": lambda e: e.best.name,
    "shape": lambda e: shape_of(e.best),
    "dtype": lambda e: e.best.dtype,
    "device": lambda e: e.best.device,
    "threads": lambda e: e.best.threads,
    "time": lambda e: e.seconds,
    "median": lambda e: e.best.t_med,
    "gflops": lambda e: e.best.flops / e.seconds / 1e9,
    "gbs": lambda e: e.best.bytes / e.seconds / 1e9,
    "roofline": lambda e: e.best.roofline_s / e.seconds if e.best.roofline_s else None,
    "gain": lambda e: e.best.seed_s / e.seconds if e.best.seed_s else None,
    "tried": lambda e: len(e.history),
    "strategy": lambda e: e.best.strategy,
    "when": lambda e: e.best.when,
    "opts": lambda e: short_of(e.best),
}
"""Name of a column → its value: seconds, shares, factors, counts and texts; None where nothing was measured."""
FALLING = ("gflops", "gbs", "roofline", "gain", "tried", "when")
"""Columns whose largest value comes first unless asked otherwise."""


def short_of(row: Row) -> str:
    """A row's schedule in short form."""
    from ..opts.opt import parse, short

    return short(parse(row.opts_display))


def entries(cache: Cache, args: Namespace) -> list[Entry]:
    """The tuned kernels that the arguments ask for, sorted as they ask. Raises UsageError for an unknown column or date."""
    rows = [r for r in cache.rows(**filters(args)) if _wanted(r, args)]
    histories: dict[Any, list[Row]] = {}
    for r in rows:
        histories.setdefault(r.key, []).append(r)
    found = []
    for history in histories.values():
        usable = [r for r in history if r.usable]
        if usable:
            best = min(usable, key=lambda r: (r.t_med or 0.0, r.t_min or 0.0, r.digest))
            found.append(Entry(best, tuple(history)))
    found.sort(key=lambda e: (e.best.name, e.best.dtype, sorted(e.best.shape_dict.items()), e.best.device, e.best.threads))
    found = sort(found, args.sort) if args.sort else found
    return found[: args.limit] if args.limit else found


def sort(found: Sequence[Entry], by: str) -> list[Entry]:
    """Entries by a column: `NAME`, `NAME:asc` or `NAME:desc`; those without a value last."""
    name, _, order = by.partition(":")
    if name not in COLUMNS:
        near = difflib.get_close_matches(name, COLUMNS, 1)
        raise UsageError(f"cannot sort by {name!r}{f'; did you mean {near[0]}?' if near else ''} (columns: {', '.join(COLUMNS)})")
    if order not in ("", "asc", "desc"):
        raise UsageError(f"--sort {by}: the order is asc or desc, not {order!r}")
    value = COLUMNS[name]
    have = [e for e in found if value(e) is not None]
    have.sort(key=value, reverse=order == "desc" or (not order and name in FALLING))
    return have + [e for e in found if value(e) is None]


def _wanted(row: Row, args: Namespace) -> bool:
    if args.kernel and not (same_kernel(row.name, args.kernel) or fnmatchcase(row.name, args.kernel)):
        return False
    if args.shape:
        from ..kernels import parse_shape

        if not parse_shape(args.shape).items() <= row.shape_dict.items():
            return False
    if args.strategy and not fnmatchcase(row.strategy, args.strategy):
        return False
    return not (args.since and row.when < _moment(args.since))


def _moment(text: str) -> str:
    """The earliest `Row.when` of a date or time."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since takes a date such as 2026-01-31 or a time such as 2026-01-31T12:00, not {text!r}") from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="microseconds")


def provenance(row: Row) -> dict[str, Any]:
    """Where and how a row was measured."""
    return dict(json.loads(row.provenance))
