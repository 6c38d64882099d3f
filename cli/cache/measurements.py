"""`tune cache` list, show, explain, export, import and clear."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ...cache import bundles
from ...cache.keys import allowed, for_text, policy
from ...cache.rows import JSON_FIELDS
from ...ir.errors import CacheError, CacheMiss, UsageError
from ...ir.units import counted
from ..terminal.style import OUTCOMES, console, duration, stored_opts, table
from .query import best_rows, filters, narrowed, on_cache, select, shape_of
from .signing import export_signed, mention_older, trust

if TYPE_CHECKING:
    from ...cache import Cache, Row


@on_cache()
def list_rows(store: Cache, args: Namespace) -> int:
    """Print measurements, one a line."""
    found = select(store, args)
    rows = found if args.all else best_rows(store, found)
    if args.format == "json":
        print(json.dumps([_decoded(r) for r in rows], indent=1))
        return 0
    from rich.text import Text

    others = any(for_text(r.objective, r.policy) for r in rows)
    heads = ("kernel", "shape", "dtype?3", "device?2", ">threads?5", *(["for"] if others else []), "outcome", ">time", "opts?4", "when?6")
    listed = table(f"cache {store.location}", *heads)
    for r in rows:
        outcome = Text(r.outcome, style=OUTCOMES[r.outcome])
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
            *([Text(for_text(r.objective, r.policy).removeprefix(", ").removeprefix("for "))] if others else []),
            outcome,
            time,
            stored_opts(r.opts_display),
            r.when[:19].replace("T", " "),
        )
    out = console(wide=args.wide)
    out.print(listed)
    if store.path is not None and not store.path.exists():
        out.print("there is no such file yet", style="dim")
    if not args.all:
        out.print(f"the best of each key, from {counted(len(found), 'measurement')} (--all lists each)")
    return 0


@on_cache()
def show(store: Cache, args: Namespace) -> int:
    """Print every field of the best measurement of each kernel."""
    rows = best_rows(store, select(store, args))
    if not rows:
        print("the cache holds nothing like that (`tune cache list` shows what it holds)")
    for i, row in enumerate(rows):
        if i:
            print()
        for name, value in _decoded(row).items():
            print(f"{name:<14} {value if isinstance(value, str) else json.dumps(value)}")
    return 0


@on_cache()
def explain(store: Cache, args: Namespace) -> int:
    """Say why a look-up hits or misses, for each kernel of a function of tensors."""
    from ...devices import get
    from ...plan import key_of
    from ...plan.size_trees import explained
    from ...search.result import told_apart
    from ..functions.tracing import kernels_of

    effects = policy(allowed(args.allow or ()))
    device = get(args.device)
    asked = kernels_of(args)
    for i, kernel in enumerate(asked, 1):
        if len(asked) > 1:
            print(f"{args.kernel}#{i} ({kernel.name})")
        key = key_of(kernel, device, args.threads or device.threads, effects)
        report = store.explain(key)
        for line in (*report.lines(), *(() if report.hit else explained(kernel, key, store, device))):
            print(line)
        for name, said in told_apart(report.row.facts) if report.row is not None else ():
            print(f"  {name}: {said}")
    return 0


@on_cache()
def export(store: Cache, args: Namespace) -> int:
    """Write a bundle."""
    rows = asked_for(store, args) if args.manifest else select(store, args)
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
        print(f"wrote {counted(written, 'measurement')} to {args.file}")
        mention_older(args.file)
    return 0


def asked_for(store: Cache, args: Namespace) -> list[Row]:
    """The answers that a manifest asks for. Raises CacheMiss, before anything is written, where one is not there or stale."""
    from ...search.manifest import manifest_file, tune_all

    checked = [tune_all.check(e, store) for e in manifest_file.load(args.manifest, "none").entries]
    absent = [f"{c.entry.title} is {c.state}" for c in checked if c.state != "present"]
    if absent:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        said = f"{len(absent)} of {len(checked)} entries of {args.manifest} have no answer: {'; '.join(absent[:3])}{more}"
        raise CacheMiss(f"{said}; `tune run --manifest {args.manifest}` tunes them")
    return narrowed(dict.fromkeys(c.row for c in checked if c.row is not None), args)


@on_cache(writes=True)
def import_bundle(store: Cache, args: Namespace) -> int:
    """Merge a bundle."""
    from ...devices import get

    done = store.import_(args.file, trust(args))
    print(f"added {counted(done.added, 'measurement')} to {store.location}; {done.known} were there already")
    here = get("cpu").target.key
    for other in sorted({r.target for r in bundles.read(args.file) if r.target.startswith("llvm:")} - {here}):
        print(f"some are for {other[5:]}, and this processor is {here[5:]}: such answer only where the model prefers them")
    return 0


@on_cache(writes=True)
def clear(store: Cache, args: Namespace) -> int:
    """Delete the measurements that the arguments name."""
    chosen: dict[str, Any] = filters(args)
    if not (chosen or args.kernel or args.shape or args.all):
        raise UsageError("tune cache clear: say what (--kernel, --shape, --dtype, --device, --threads), or --all for everything")
    # the cache compares whole names and shapes; the command line may give a part of one
    exact = {(r.name, r.shape) for r in select(store, args)}
    gone = sum(store.clear(**chosen, name=name, shape=shape) for name, shape in exact)
    print(f"deleted {counted(gone, 'measurement')} from {store.location}")
    return 0


def _decoded(row: Row) -> dict[str, Any]:
    """A row's fields with its JSON text decoded."""
    return {name: json.loads(value) if name in JSON_FIELDS else value for name, value in row.to_dict().items()}
