"""`tune show` of a source that was tuned: the values of its parameters, and the text with them."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ..cache.query import shape_of
from ..terminal.style import console, duration, opts_text, whole

if TYPE_CHECKING:
    from ...cache import Row


def shown(args: Namespace) -> bool:
    """Whether --kernel names a source of the cache and no kernel; then its best configurations were printed, one for each key."""
    from ... import cache
    from ...kernels import is_named, is_path

    if is_named(args.kernel) or is_path(args.kernel) or args.target or args.opts is not None:
        return False
    with cache.open(args.cache) as store:
        rows = [r for r in store.rows(name=args.kernel, outcome="ok", verified=True) if isinstance(r.facts.get("source"), dict)]
        best = [b for key in dict.fromkeys(r.key for r in rows) if (b := store.best(key)) is not None]
    asked = _asked(args, best)
    if not best:
        return False
    if not asked:
        raise UsageError(f"no answer for {args.kernel} has that shape, device or number of threads: {'; '.join(map(_about, best))}")
    if args.stage:
        raise UsageError("a source has no stages; --source prints its text")
    for i, row in enumerate(asked[:1] if args.source else asked):
        _print(row, args.source, i)
    return True


def _asked(args: Namespace, rows: list[Row]) -> list[Row]:
    """Those of that shape and number of threads, the newest first. The device is looked at where it is not the default."""
    want: dict[str, int] = {}
    if args.shape:
        from ...kernels import parse_shape

        want = parse_shape(args.shape)
    kept = [
        r for r in rows if want.items() <= r.shape_dict.items() and args.threads in (None, r.threads) and args.device in ("cpu", r.device)
    ]
    return sorted(kept, key=lambda r: r.when, reverse=True)


def _about(row: Row) -> str:
    return f"{shape_of(row)} on {row.device}, {row.threads} thread{'s' * (row.threads != 1)}"


def _print(row: Row, text_alone: bool, at: int) -> None:
    from rich.text import Text

    from ...opts import parse

    source: dict[str, Any] = row.facts["source"]
    text = str(source.get("text", ""))
    if text_alone:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    out = console()
    if at:
        out.print()
    time = f", {duration(row.t_min)}" if row.t_min else ""
    out.print(Text.assemble((row.name, "bold"), f" of {source.get('file')}, {_about(row)}{time}"), soft_wrap=whole(out))
    out.print(opts_text(parse(row.opts)), soft_wrap=whole(out))
    flags = [str(f) for f in source.get("flags", ())]
    if flags:
        out.print(Text(f"flags: {shlex.join(flags)}", style="dim"), soft_wrap=True)
    out.print()
    out.print(text, markup=False, highlight=False, soft_wrap=True)
