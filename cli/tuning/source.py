"""`tune source`: search for the best configuration of somebody's own source, and say how to get it again."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import warnings
from argparse import Namespace
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from ... import cache
from ...ir.errors import BuildError, OptError, UsageError
from ...search.budget import Budget
from ...search.interrupts import watched
from ...targets import command_prefix
from ..functions.tracing import split_source
from ..terminal.live import display
from ..terminal.output import with_code, write
from ..terminal.style import MOST_TEXT, console, opts_text, shape_text, soft_wrapped
from .run import SummaryWords, summary

if TYPE_CHECKING:
    from ...search import Result
    from ...sources.source_spec import SourceSpec

STARTS = 4
"""Configurations of a T4 file that a search begins with."""


def run(args: Namespace) -> int:
    """Tune a source (or find it in the cache) and print the summary; the exit code says what came of it."""
    return watched(lambda: _run(args))


def _run(args: Namespace) -> int:
    from ...sources.tuning import tune_source

    spec, budget, trials = spec_from(args)
    if args.write_t1:
        from ...sources.t1 import write as as_t1

        write(args.write_t1, as_t1(spec))
    if args.build_only:
        return _build_only(args, spec)
    if args.target:
        raise UsageError("--target is for --build-only; what a source is tuned for is the --device")
    out = console(sys.stderr if "-" in (args.json, args.write) else None)
    for note in spec.notes:
        warnings.warn(note, stacklevel=1)
    wish = Budget.make(budget, trials)
    title = " ".join(filter(None, (spec.function, shape_text(dict(spec.sizes)), f"({spec.lattice.size} configurations)")))
    with display(title, wish.seconds, wish.trials, args.quiet, out) as progress:
        result = tune_source(
            spec, progress=progress, interrupt="return", command=command(args), **search_settings(args, spec, budget, trials)
        )
    counted = f"{{}} of {spec.lattice.size} configurations"
    summary(
        out, args, result, words=SummaryWords(["tune", "show", f"{Path(spec.file).name}:{spec.function}"], "untuned", "values", counted)
    )
    _written(args, spec, result)
    return result.exit_code


def spec_from(args: Namespace) -> tuple[SourceSpec, str | float | None, int | None]:
    """What is tuned, and the budget and trials that count. Raises UsageError."""
    from ...sources import parameters as parameters
    from ...sources import t1
    from ...sources.reading import shape_sizes, spec_of

    settings: dict[str, Any] = {
        k: getattr(args, k)
        for k in ("args", "check", "rtol", "atol", "block", "grid", "problem", "flags")
        if (getattr(args, k) is not None)
    }
    settings |= {"deterministic": False} if args.nondeterministic else {}
    settings |= {"cold": True} if args.cold else {}
    settings |= {"sizes": shape_sizes(args.shape)} if args.shape else {}
    settings |= {"restrict": args.restrict} if args.restrict else {}
    for key, given, flag in (("params", args.param, False), ("flag_params", args.flag_param, True)):
        made = [parameters.parse(text, flag) for text in given]
        double = next((p.name for i, p in enumerate(made) if p.name in {q.name for q in made[:i]}), None)
        if double is not None:
            raise UsageError(f"--param {double} is given twice: write all its values in one, NAME=8,16,32")
        settings |= {key: {p.name: p.values for p in made}} if made else {}
    if args.t1:
        if args.file or args.function:
            raise UsageError("--t1 names the source and the function itself: leave FILE and --function out")
        found = t1.read(args.t1, **settings)
        own = args.budget is None and args.trials is None
        return found.spec, found.seconds if own else args.budget, found.trials if own else args.trials
    if not args.file:
        raise UsageError("name the source: tune source kernel.c --function NAME --param TILE=8,16 --args spec.toml, or --t1 FILE.json")
    file, function = split_source(args.file)  # (as other commands name it)
    if file and args.function not in (None, function):
        raise UsageError(f"{args.file} names {function}, and --function {args.function}: give one of them")
    return spec_of(file or args.file, function if file else args.function or "", **settings), args.budget, args.trials


def search_settings(args: Namespace, spec: SourceSpec, budget: str | float | None, trials: int | None) -> dict[str, Any]:
    """The search's settings."""
    from ...sources.parameters import number

    first: list[dict[str, Any]] = []
    for text in args.first:
        pairs = [part.partition("=") for part in text.split(",")]
        if not all(equals for _, equals, _ in pairs):
            raise UsageError(f"--first {text}: write NAME=VALUE,NAME=VALUE")
        first.append({n.strip(): number(v.strip()) for n, _, v in pairs})
    if args.t4:
        first += _fastest(args.t4, spec)
    return {
        "device": args.device,
        "budget": budget,
        "trials": trials,
        "threads": args.threads,
        "strategy": args.strategy,
        "random_seed": args.random_seed,
        "cache": args.cache,
        "retune": args.retune,
        "study": args.study,
        "mode": args.mode,
        "first": first,
    }


def _fastest(path: str, spec: SourceSpec) -> list[dict[str, Any]]:
    """The fastest configurations of recorded results that are legal here. Raises UsageError where none is."""
    from ...search.bench.space_files import load
    from ...sources.parameters import text_of

    found = [e for e in load(path).entries if e.t_min is not None]
    kept: list[dict[str, Any]] = []
    for e in sorted(found, key=lambda e: e.t_min or 0.0):
        try:
            at = spec.at({n: text_of(v) for n, v in e.params.items()})
        except UsageError:
            continue
        if at in spec.lattice and len(kept) < STARTS:
            kept.append(dict(e.params))
    if not kept:
        raise UsageError(f"--t4 {path}: none of its {len(found)} right configurations is one of {spec.function}'s")
    return kept


def command(args: Namespace) -> str:
    """The command that repeats this search."""
    words = [*command_prefix(args.device or "cpu"), "tune", "source", *([args.file] if args.file else [])]
    for name, value in vars(args).items():
        flag = "--" + name.replace("_", "-")
        if (
            name
            in ("command", "file", "json", "write", "write_t1", "write_t4", "overwrite", "quiet", "retune", "cache", "mode", "build_only")
            or name.startswith("_")
            or not value
        ):
            continue
        words += [flag] if value is True else [w for v in (value if isinstance(value, list) else [value]) for w in _joined(flag, str(v))]
    return shlex.join([*words, "--retune"])


def _joined(flag: str, value: str) -> list[str]:
    """A flag and its value; one that begins with a dash has to be joined."""
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]


def _written(args: Namespace, spec: SourceSpec, result: Result) -> None:
    """The files that were asked for."""
    from ...sources.building import plain_text, texts

    if args.json:
        values = texts(result.opts) if result.found else None
        write(args.json, json.dumps(with_code(result.to_json()) | {"values": values, "configurations": spec.lattice.size}, indent=1) + "\n")
    if args.write and result.found:
        write(args.write, f"/* the best configuration of {spec.function} */\n{plain_text(spec, texts(result.opts))}")
    if args.write_t4:
        from ...sources.source_task import resolved
        from ..report.report import as_t4

        key = resolved(spec, "", {"device": args.device, "threads": args.threads}).key
        with cache.open(args.cache) as store:
            rows = store.rows(kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy)
        write(args.write_t4, as_t4([r for r in rows if not r.verified]) + "\n")


BUILT = 12


def _build_only(args: Namespace, spec: SourceSpec) -> int:
    """Build the untuned configuration and some drawn ones; 4 where one does not build."""
    from ...sources.building import CheckedSource, build, schedule
    from ...sources.source_device import SourceDevice
    from ...sources.source_spec import DEVICES

    device = SourceDevice(args.device or DEVICES[spec.language], spec.language, args.target or "")
    rng = Random(f"build {args.random_seed}")
    wanted = min(args.trials or BUILT, spec.lattice.size)
    points = {spec.untuned: None}
    while len(points) < wanted:
        points.setdefault(spec.lattice.draw(rng))
    out, counts = console(), Counter[str]()
    task = CheckedSource(spec, Path(tempfile.gettempdir()))
    for at in points:
        opts = schedule(spec, at)
        try:
            made = build(task, opts, device)
            counts["built"] += 1
            if not args.quiet:
                out.print(
                    f"{opts_text(opts).plain}: {len(made.obj)} bytes in {1e3 * made.build_s:.0f} ms",
                    soft_wrap=soft_wrapped(out),
                )
        except (BuildError, OptError) as e:
            counts["failed"] += 1
            out.print(f"{opts_text(opts).plain}: {str(e)[:MOST_TEXT]}", soft_wrap=soft_wrapped(out))
    out.print(f"{counts['built']} of {len(points)} configurations build; nothing was run")
    return 4 if counts["failed"] else 0
