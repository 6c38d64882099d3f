"""Picking rows of the cache from the command line's arguments."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..cache import Cache, Row


def kernel_name(spec: str) -> str:
    """The name rows carry for --kernel: a named kernel's own, or the function of `my.py:function`."""
    return spec.rsplit(":", 1)[-1]


def filters(args: Namespace) -> dict[str, str | int]:
    """Row fields that must be equal, from the arguments that were given."""
    from ..ir.dtypes import dtype

    out: dict[str, str | int] = {}
    if args.kernel:
        out["name"] = kernel_name(args.kernel)
    if args.dtype:
        out["dtype"] = dtype(args.dtype).name
    if args.device:
        out["device"] = args.device
    if args.threads:
        out["threads"] = args.threads
    return out


def select(cache: Cache, args: Namespace) -> list[Row]:
    """The rows that the arguments ask for; a shape may name some of the extents only."""
    rows = list(cache.rows(**filters(args)))
    if args.shape:
        from ..kernels import parse_shape

        want = parse_shape(args.shape)
        rows = [r for r in rows if want.items() <= r.shape_dict.items()]
    return rows


def best_rows(cache: Cache, rows: Iterable[Row]) -> list[Row]:
    """The best measurement of each key among `rows`, sorted by what was tuned."""
    keys = dict.fromkeys(row.key for row in rows)
    found = (cache.best(key) for key in keys)
    return sorted((row for row in found if row is not None), key=lambda r: (r.name, r.dtype, sorted(r.shape_dict.items()), r.device, r.threads))
