"""`tune cache`: list, show, explain, check, export, import and clear what is remembered. What works on several places, prunes and
signs has files of its own."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ...cache.objectives import TIME
from ...ir.errors import CacheError, UsageError
from ..terminal.style import OUTCOMES, console, duration, kept_opts, table
from .keys import keys
from .query import best_rows, filters, select, shape_of
from .signed import export_signed, mention_older, trust

if TYPE_CHECKING:
    from ...cache import Cache, Row


def run(args: Namespace) -> int:
    """Do the chosen action on the cache that the arguments name."""
    if args.action == "check":
        from ..tuning.required import check

        return check(args)
    if args.action in ("team", "pull", "push", "roles"):
        from .team import run as team

        return team(args)
    if args.action in ("diff", "merge"):
        from . import between

        return between.diff(args) if args.action == "diff" else between.merge(args)
    if args.action == "keys":
        return keys(args)
    from ... import cache
    from .prunecmd import prune

    actions = {"list": _list, "show": _show, "explain": _explain, "export": _export, "import": _import, "clear": _clear, "prune": prune}
    with cache.open(args.cache) as store:
        store.will_write = args.action in ("import", "clear", "prune") and not getattr(args, "dry_run", False)
        return actions[args.action](store, args)


def _list(store: Cache, args: Namespace) -> int:
    found = select(store, args)
    rows = found if args.all else best_rows(store, found)
    if args.format == "json":
        print(json.dumps([_plain(r) for r in rows], indent=1))
        return 0
    from rich.text import Text

    others = any(r.objective != TIME for r in rows)
    heads = ("kernel", "shape", "dtype?3", "device?2", ">threads?5", *(["for"] if others else []), "outcome", ">time", "opts?4", "when?6")
    listed = table(f"cache {store.location}", *heads)
    for r in rows:
        outcome = f"[{OUTCOMES[r.outcome]}]{r.outcome}[/]"
        if r.usable and (standing := store.standing(r)) != "verified":
            outcome += f", {standing}"
        time = duration(r.t_min or r.t_med or 0.0) if r.t_med else "-"
        # texts, so that brackets in a name are not markup
        listed.add_row(
            Text(r.name),
            Text(shape_of(r)),
            Text(r.dtype),
            Text(r.device),
            str(r.threads),
            *([Text(r.objective.replace(",", " and "))] if others else []),
            outcome,
            time,
            kept_opts(r.opts_display),
            r.when[:19].replace("T", " "),
        )
    out = console(wide=args.wide)
    out.print(listed)
    if not args.all:
        out.print(f"the best of each key, from {len(found)} measurements (--all lists each)")
    return 0


def _show(store: Cache, args: Namespace) -> int:
    rows = best_rows(store, select(store, args))
    if not rows:
        print("the cache holds nothing like that (`tune cache list` shows what it holds)")
    for i, row in enumerate(rows):
        if i:
            print()
        for name, value in _plain(row).items():
            print(f"{name:<14} {value if isinstance(value, str) else json.dumps(value)}")
    return 0


def _explain(store: Cache, args: Namespace) -> int:
    from ...devices import get
    from ...kernels import make, parse_shape
    from ...plan import key_of

    kernel = make(args.kernel, parse_shape(args.shape) if args.shape else None, args.dtype)
    device = get(args.device)
    for line in store.explain(key_of(kernel, device, args.threads or device.threads)).lines():
        print(line)
    return 0


def _export(store: Cache, args: Namespace) -> int:
    from ...cache import bundles

    rows = select(store, args)
    if args.best:
        rows = best_rows(store, rows)
    if args.sign:
        return export_signed(rows, args)
    try:
        written = bundles.write(rows, sys.stdout if args.file == "-" else args.file, args.overwrite)
    except CacheError:
        if args.file == "-":  # keep the interpreter's last flush quiet: it would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
    if args.file != "-":
        print(f"wrote {written} measurements to {args.file}")
        mention_older(args.file)
    return 0


def _import(store: Cache, args: Namespace) -> int:
    done = store.import_(args.file, trust(args))
    print(f"added {done.added} measurements to {store.location}; {done.known} were there already")
    return 0


def _clear(store: Cache, args: Namespace) -> int:
    chosen: dict[str, Any] = filters(args)
    if not (chosen or args.kernel or args.shape or args.all):
        raise UsageError("tune cache clear: say what (--kernel, --shape, --dtype, --device, --threads), or --all for everything")
    # the cache compares whole names and shapes; the command line may give a part of one
    exact = {(r.name, r.shape) for r in select(store, args)}
    gone = sum(store.clear(**chosen, name=name, shape=shape) for name, shape in exact)
    print(f"deleted {gone} measurements from {store.location}")
    return 0


def _plain(row: Row) -> dict[str, Any]:
    """A row's fields with its JSON text decoded."""
    from ...cache.rows import JSON_FIELDS

    return {name: json.loads(value) if name in JSON_FIELDS else value for name, value in row.to_dict().items()}
