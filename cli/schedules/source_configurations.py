"""Configurations of a source of one's own for `bench`, `pin` and `explain`: which arguments it has says the command that tuned it."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...ir.errors import OptError, UsageError
from ...opts import parse
from ..terminal.style import shape_text

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ...search.option_worth import Contestant
    from ...sources.source_task import SourceTask

    Configuration = tuple[Opt, ...]


def source_task(args: Namespace) -> SourceTask | None:
    """The source that --kernel names, as the command that tuned it last says; None where a kernel has that name, or nothing. Raises UsageError
    for what a source has not, and where no command is known."""
    from ... import cache
    from ...named_kernels import is_named, is_path
    from ...sources.source_task import resolved
    from ..functions.tracing import source_rows, split_source
    from ..tuning.source import spec_from

    file, function = split_source(args.kernel)
    if not file and (is_named(function) or is_path(function)):
        return None
    with cache.open(args.cache) as store:
        rows = source_rows(store, args.kernel)
    found = max((r for r in rows if r.facts["source"].get("command")), key=lambda r: r.when, default=None)
    if found is None:
        if not file and not rows:
            return None
        file = file or str(rows[0].facts["source"].get("file"))
        raise UsageError(
            f"the cache does not say how {function} of {file} is called: tune source {file} --function {function} … tunes it first"
        )
    wrong = next((n for n in ("dtype", "allow", "starts", "target") if getattr(args, n, None)), None)
    if wrong is not None:
        raise UsageError(f"--{wrong} is for kernels, and {args.kernel} is a source")
    words = shlex.split(str(found.facts["source"]["command"]))
    given = _parsed([*words[words.index("source") :], *_source_arguments(args)])
    spec = spec_from(given)[0]
    return resolved(spec, "", {"device": given.device, "threads": given.threads})


def _parsed(words: Sequence[str]) -> Namespace:
    from ..commands import build_parser

    return build_parser().parse_args(words)


def _source_arguments(args: Namespace) -> list[str]:
    """What this command says of shape, device and threads, in the words of `tune source`."""
    device = args.device if args.device != "cpu" else None
    return [w for n, v in (("shape", args.shape), ("device", device), ("threads", args.threads)) if v for w in (f"--{n}", str(v))]


def about(task: SourceTask) -> str:
    """The source, its sizes and where it runs."""
    threads = f"{task.threads} thread{'s' * (task.threads != 1)}"
    return " ".join(filter(None, (task.name, shape_text(dict(task.spec.sizes)), f"on {task.device.name},", threads)))


def configurations(task: SourceTask, words: Sequence[str], where: str | None) -> list[Configuration]:
    """What `--opts` says: start (untuned), best (the cache's answer), or values as `TILE=8 UNROLL=2`; those left out are the best's, or untuned.
    Raises UsageError."""
    from ... import cache
    from ...sources.building import schedule, texts

    with cache.open(where) as store:
        row = store.best(task.key)
    untuned = schedule(task.spec, task.spec.untuned)
    best = None if row is None else parse(row.opts)
    out = []
    for word in words:
        name = word.strip().lower()
        if name == "best" and best is None:
            raise UsageError(
                f"the cache holds no answer for {about(task)}: tune source {task.spec.file} --function {task.name} … finds one"
            )
        if name in ("start", "best"):
            out.append(tuple(best or ()) if name == "best" else untuned)
            continue
        pairs = [part.partition("=") for part in word.replace(",", " ").split()]
        if not pairs or not all(equals for _, equals, _ in pairs):
            raise UsageError(f"--opts {word}: write start, best or values such as '{' '.join(map(_set, untuned))}'")
        made = schedule(task.spec, task.spec.at(texts(best or untuned) | {n: v for n, _, v in pairs}))
        task.fit(made)
        out.append(made)
    return out


def _set(o: Opt) -> str:
    return f"{o.on}={o.fields['to']}"


def single_changes(task: SourceTask, opts: Configuration) -> list[Configuration]:
    """A configuration with one value changed, to its neighbours and to the untuned one, as far as restrictions allow it."""
    from ...sources.building import point, schedule

    at, out = point(task.spec, opts), []
    for i, p in enumerate(task.spec.parameters):
        for j in sorted({at[i] - 1, at[i] + 1, task.spec.untuned[i]} - {at[i]}):
            if 0 <= j < len(p.values):
                changed = schedule(task.spec, (*at[:i], j, *at[i + 1 :]))
                try:
                    task.fit(changed)
                except OptError:
                    continue
                out.append(changed)
    return out


def compared(task: SourceTask, lists: Sequence[Configuration], rounds: int, budget: str, random_seed: int, quiet: bool) -> list[Contestant]:
    """Verify and time configurations, and compare each with the first in pairs."""
    from ...search.budget import Budget, parse_seconds
    from ...search.option_worth import contest
    from ...search.task import TuneRequest
    from .option_worth import status_line

    seconds = parse_seconds(budget)
    with ExitStack() as stack:
        show = (lambda text: None) if quiet or not sys.stderr.isatty() else stack.enter_context(status_line())
        m = stack.enter_context(task.measurer(TuneRequest(Budget(None), random_seed=random_seed)))
        return contest(m, lists, rounds, seconds, show)
