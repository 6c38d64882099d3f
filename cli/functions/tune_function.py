"""`tune run --kernel my.py:function` of a function of tensors: all kernels that it becomes, heaviest first."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from typing import TYPE_CHECKING

from ...ir.errors import CacheMiss, UsageError
from ..terminal.output import with_code, write
from ..terminal.style import console, duration, opts_text, table
from ..tuning.tune_manifest import plain, tune_entries
from .tracing import FunctionGraph, ask, picked, split_number

if TYPE_CHECKING:
    from rich.console import Console

    from ...ir.kernel import Kernel
    from ...search.manifest.manifest_file import Manifest

MISSING = 5
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
    from ...search.budget import parse_seconds

    base, which = split_number(args.kernel)
    seconds = None if args.budget is None else parse_seconds(args.budget)
    out = console(sys.stderr if args.json == "-" else None)
    graph = ask(base, args.shape, args.dtype)
    found = manifest_of(graph, which, args)
    if not found.entries:
        out.print(f"{base} becomes no kernel: NumPy's code computes all of it")
        return 0
    if args.mode == "require":
        return _required(found, args, out)
    done, code = tune_entries(found, args, seconds, out)
    if args.json:
        facts = {"schema": 1, "function": base, "kernels": [plain(d) for d in done], "exit_code": code}
        write(args.json, json.dumps(with_code(facts), indent=1) + "\n")
    return code


def manifest_of(graph: FunctionGraph, which: str, args: Namespace) -> Manifest:
    """The distinct kernels of a function (or the one that was picked) as a manifest, heaviest first."""
    from ...ir.normal_form import normalise
    from ...search.manifest.manifest_file import Entry, Manifest, Place

    place = Place(args.device or "cpu", args.device or "cpu", threads=args.threads)
    chosen = [picked(graph, which)] if which else [k for k in graph.kernels if k is not None]
    entries = [
        Entry(
            kernel.name,
            {family: int(axes[0].arg.extent) for family, axes in normalise(kernel).families.items() if isinstance(axes[0].arg.extent, int)},
            "",
            place,
            0,
            start=args.start or "auto",
            random_seed=args.random_seed or 0,
            given=kernel,
        )
        for kernel in heaviest(chosen)
    ]
    return Manifest(graph.path, (place,), tuple(entries))


def heaviest(kernels: list[Kernel]) -> list[Kernel]:
    """Each distinct kernel once, by the work of all its calls together."""
    from ...ir.cost import cost
    from ...ir.normal_form import normalise
    from ...plan import canonical_of

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

    from ... import cache
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
