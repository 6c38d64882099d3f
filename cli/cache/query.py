"""The cache that a command works on, and the rows of it that the arguments name."""

from __future__ import annotations

import functools
from argparse import Namespace
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ...ir.dtypes import dtype
from ..terminal.style import shape_text

if TYPE_CHECKING:
    from ...cache import Cache, Row


def on_cache(writes: bool = False) -> Callable[[Callable[[Cache, Namespace], int]], Callable[[Namespace], int]]:
    """Makes a command of what works on an open cache: the one that the arguments name. `writes`: it may change the cache."""

    def decorated(work: Callable[[Cache, Namespace], int]) -> Callable[[Namespace], int]:
        @functools.wraps(work)
        def run(args: Namespace) -> int:
            from ... import cache

            with cache.open(args.cache) as store:
                store.will_write = writes and not getattr(args, "dry_run", False)
                return work(store, args)

        return run

    return decorated


def filters(args: Namespace) -> dict[str, str | int]:
    """Row fields that must be equal, from the arguments that were given (the kernel and its shape apart)."""
    out: dict[str, str | int] = {}
    if args.dtype:
        out["dtype"] = dtype(args.dtype).name
    if args.device:
        out["device"] = args.device
    if args.threads:
        out["threads"] = args.threads
    return out


def select(cache: Cache, args: Namespace) -> list[Row]:
    """The rows that the arguments ask for, but for those that come with the package; a shape may name some of the extents only."""
    from ...cache.layers import SHIPPED_RUN

    return narrowed([r for r in cache.rows(**filters(args)) if r.run_id != SHIPPED_RUN], args)


def narrowed(rows: Iterable[Row], args: Namespace) -> list[Row]:
    """Those of some rows that the arguments ask for, as `select`."""
    exact = filters(args)
    found = [r for r in rows if all(getattr(r, f) == v for f, v in exact.items())]
    if args.kernel:
        found = [r for r in found if same_kernel(r.name, args.kernel)]
    if args.shape:
        from ...named_kernels import parse_shape

        want = parse_shape(args.shape)
        found = [r for r in found if want.items() <= r.shape_dict.items()]
    return found


def same_kernel(name: str, spec: str) -> bool:
    """Whether a row's name is what --kernel says: equal, of a pattern's names (`mat*`), or the same function of a file of that name
    wherever it is."""
    from ...named_kernels import is_path, short_name

    if name == spec or fnmatchcase(name, spec):
        return True
    return is_path(spec) and name == short_name(spec)  # rows keep the function's name


def shape_of(row: Row) -> str:
    """A row's shape in the order its kernel names the extents (JSON sorts them)."""
    from ...named_kernels import get, is_named

    shape = row.shape_dict
    order = get(row.name).shape_names if is_named(row.name) else ()
    return shape_text({n: shape[n] for n in (*(n for n in order if n in shape), *(n for n in shape if n not in order))})


def best_rows(cache: Cache, rows: Iterable[Row]) -> list[Row]:
    """The best measurement of each key among `rows`, of one with two objectives the front; sorted by what was tuned."""
    from ...cache.objective_types import FRONTS
    from ...plan.resolve import front

    keys = dict.fromkeys(row.key for row in rows)
    found = [row for key in keys for row in (front(cache, key) if key.objective in FRONTS else [cache.best(key)])]
    return sorted(
        (row for row in found if row is not None), key=lambda r: (r.name, r.dtype, sorted(r.shape_dict.items()), r.device, r.threads)
    )
