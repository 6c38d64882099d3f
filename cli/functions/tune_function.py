"""`tune run --kernel my.py:function` of a function of tensors: all kernels that it becomes, heaviest first."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import cache
from ...cache.rows import from_dict
from ...ir.errors import CacheMiss, KernelError, UsageError
from ...ir.normal_form import normalise
from ...ir.rewriter import without_aliases
from ...plan import canonical_of
from ...search.budget import DEFAULT_SECONDS, parse_seconds
from ..terminal.output import with_code, write
from ..terminal.style import console, duration, opts_text, soft_wrapped, table
from ..tuning.model import show_program
from ..tuning.tune_manifest import plain, tune_entries
from .tracing import FunctionGraph, ask, picked, split_number

if TYPE_CHECKING:
    from rich.console import Console

    from ...ir.kernel import Kernel
    from ...search.manifest.manifest_file import Manifest

MISSING = 5
SHARE = 0.2
"""The part of the budget in which the program itself runs with and without the new schedules."""
NOT_FOR_FUNCTIONS = ("study", "against")
_FLOPS_PER_BYTE = 8.0
"""Operations in the time of a byte, where nobody measured the machine: only the order of the kernels depends on it."""


def run(args: Namespace) -> int:
    """Tune every distinct kernel, or with `--mode require` look each up. The exit code is that of a manifest's run."""
    given = [f"--{n}" for n in NOT_FOR_FUNCTIONS if getattr(args, n) is not None]
    if given:
        raise UsageError(f"{', '.join(given)} is for one kernel, not for a function of tensors")
    if args.mode == "record":
        raise UsageError(
            "--mode record is for one kernel, not for a function of tensors; --trials 1 measures little more than the start schedules"
        )
    base, which = split_number(args.kernel)
    seconds = None if args.budget is None else parse_seconds(args.budget)
    out = console(sys.stderr if args.json == "-" else None)
    graph = ask(base, args.shape, args.dtype, args.numerics)
    found = manifest_of(graph, which, args)
    if not found.entries:
        out.print(f"{base} becomes no kernel: NumPy's code computes all of it")
        return 0
    if args.mode == "require":
        return _required(found, args, out)
    whole = not which and (args.device or "cpu") == "cpu"
    before = _schedules(found, args) if whole else {}
    done, code = tune_entries(found, args, None if seconds is None else seconds * (1 - whole * SHARE), out)
    program = _compared(base, found, args, before, seconds, out) if whole and any(d.status == "tuned" for d in done) else None
    if args.json:
        facts = {"schema": 1, "function": base, "kernels": [plain(d) for d in done], "program": program, "exit_code": code}
        write(args.json, json.dumps(with_code(facts), indent=1) + "\n")
    return code


def manifest_of(graph: FunctionGraph, which: str, args: Namespace) -> Manifest:
    """The distinct kernels of a function (or the one that was picked) as a manifest, heaviest first."""
    from ...search.manifest.manifest_file import Entry, Manifest, Place, sizes_of

    place = Place(args.device or "cpu", args.device or "cpu", threads=args.threads)
    chosen = [picked(graph, which)] if which else [k for k in graph.kernels if k is not None]
    entries = [
        Entry(
            kernel.name,
            sizes_of(kernel),
            "",
            place,
            0,
            start=args.start or "auto",
            random_seed=args.random_seed or 0,
            given=kernel,
            numerics="fixed" if kernel.fixed else "free",
        )
        for kernel in heaviest(chosen)
    ]
    return Manifest(graph.path, (place,), tuple(entries))


def _schedules(found: Manifest, args: Namespace) -> dict[str, str]:
    """The schedules that captured functions run now, as rows have them, by a kernel's hash."""
    from ...devices import get
    from ...plan import Artefacts, opts_text, resolve

    device = get(found.places[0].device)
    device.check()
    out = {}
    with cache.open(args.cache) as store:
        for e in found.entries:
            assert e.given is not None
            kernel = normalise(without_aliases(e.given))
            plan = resolve(kernel, device, args.threads or device.threads, store, store=Artefacts.default(), start="quick")
            out[plan.key.kernel] = opts_text(kernel, plan.opts)
    return out


def _compared(
    base: str, found: Manifest, args: Namespace, before: Mapping[str, str], seconds: float | None, out: Console
) -> dict[str, Any] | None:
    """Run the program with and without each new schedule, remember what helps it, and say so. None where that could not be done: the kernels'
    answers stay as they are."""
    from ...cache import program_choices
    from ...named_kernels import user_file

    spent = SHARE * seconds if seconds is not None else SHARE * DEFAULT_SECONDS * len(found.entries)
    options = {"cache": args.cache, "threads": args.threads, "numerics": args.numerics if args.numerics == "fixed" else None}
    question = (base, args.shape, args.dtype, before, options, spent)
    try:
        answer = user_file.ask(base, question, f"{__package__}.whole_process", 2 * spent)
        kind, *parts = user_file.loads(answer)
        if kind != "whole":
            raise KernelError(str(parts[-1]))
        facts: dict[str, Any] = parts[0]
        rows = [from_dict(r) for r in facts.pop("rows")]
    except KernelError as e:
        out.print(f"the program was not compared with and without the new schedules: {e}", soft_wrap=soft_wrapped(out))
        return None
    if rows:
        with cache.open(args.cache) as store:
            program_choices.keep(store, rows)
    show_program(out, base, facts)
    return facts


def heaviest(kernels: list[Kernel]) -> list[Kernel]:
    """Each distinct kernel once, by the work of all its calls together."""
    from ...ir.cost import cost

    first: dict[str, Kernel] = {}
    work: Counter[str] = Counter()
    for kernel in kernels:
        key = canonical_of(normalise(kernel)).hash
        c = cost(kernel)
        first.setdefault(key, kernel)
        work[key] += int(max(c.bytes, (c.flops + c.poly_flops) / _FLOPS_PER_BYTE))
    return [first[key] for key, _ in sorted(work.items(), key=lambda item: -item[1])]


def _required(found: Manifest, args: Namespace, out: Console) -> int:
    """Look up every kernel; MISSING where the cache lacks one."""
    from rich.text import Text

    from ...devices import get
    from ...plan import resolve

    if args.retune:
        raise UsageError("require answers from the cache and --retune searches again: use one of them")
    device = get(found.places[0].device)
    device.check()
    listed = table(found.path, "kernel", "", ">time", "opts")
    missing = 0
    with cache.open(args.cache) as store:
        for e in found.entries:
            assert e.given is not None
            try:
                plan = resolve(e.given, device, args.threads or device.threads, store, exact_only=True)
                listed.add_row(
                    e.kernel, Text("present", style="green"), duration(plan.row.t_min or 0.0) if plan.row else "", opts_text(plan.opts)
                )
            except CacheMiss:
                missing += 1
                listed.add_row(e.kernel, Text("missing", style="bold red"), "", "")
    out.print(listed)
    out.print(f"{len(found.entries) - missing} of {len(found.entries)} present")
    return MISSING if missing else 0
