"""`tune explain`: where the cached best stands, and what each of its options is worth, measured now."""

from __future__ import annotations

import json
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...cache.keys import allowed
from ...cache.rows import POLICY
from ...ir.errors import CacheMiss, UsageError
from ...ir.normal_form import normalise
from ...measure.roofline import roofline, share, unit
from ...search.budget import parse_seconds
from ...search.result import told_apart
from ..terminal.live import LogAbove
from ..terminal.style import bytes_text, console, duration, factor, opts_text, soft_wrapped, table
from .opts_argument import ForTarget, cached, chosen, device_of, target_of

if TYPE_CHECKING:
    from rich.text import Text

    from ...devices import Device
    from ...devices.cuda.machine_code import KernelContents
    from ...heuristics import GpuEstimate
    from ...ir.kernel import Kernel
    from ...measure.roofline import Roofline
    from ...opts.opt import Opt
    from ...search.option_worth import Explanation, Ratio


# predicted --------------------------------------------------------------------------------------------------
# What the model of GPUs says of a schedule: what decides how long each phase takes.


def predicted(kernel: Kernel, opts: Sequence[Opt], device: Device) -> tuple[GpuEstimate, ...]:
    """The model's estimate of each phase, with the device's measured bandwidth where it has one; none for
    processors."""
    if device.target.kind != "gpu":
        return ()
    from ...heuristics import gpu_estimates
    from ...opts import apply

    return gpu_estimates(apply(kernel, opts, device.target), limits=device.limits())


def lines(found: Sequence[GpuEstimate]) -> list[str]:
    """A few lines of text for each phase."""
    out = []
    for i, e in enumerate(found):
        name = f"phase {i}" if len(found) > 1 else "the model"
        groups = f"{e.groups} group{'s' * (e.groups != 1)} of {e.threads} threads, {e.resident} at once on a multiprocessor ({e.registers} registers)"
        out.append(f"{name} expects {duration(e.seconds)}: {groups}, {e.waves:.3g} waves")
        out.append(
            f"  under way {bytes_text(int(e.under_way))} on a multiprocessor, where {bytes_text(int(e.needed))} keep its memory busy"
        )
        out += [f"  {t.name}: {duration(t.seconds)} ({t.why})" for t in e.terms]
    return out


def to_json(found: Sequence[GpuEstimate]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [asdict(e) for e in found]


# starts -----------------------------------------------------------------------------------------------------
SHOWN = 8
"""Start schedules that are listed."""


def _starts(kernel: Kernel, place: ForTarget, args: Namespace) -> int:
    """Print which start rules apply, what each proposes first and what the model says of it, and the start schedules that are chosen."""
    from ...heuristics import estimate, proposals, quick_starts, starts
    from ...opts import apply

    target, effects = place.target, allowed(args.allow or ())
    found = proposals(kernel, target, place.threads, effects)
    rule_of = {p.opts: name for name, each in reversed(list(found.items())) for p in each}
    chosen_: dict[str, list[dict[str, Any]]] = {
        how: [
            {"opts": o, "seconds": estimate(apply(kernel, o, target), place.threads), "rule": rule_of.get(o, "")}
            for o in choose(kernel, target, place.threads, effects)[:SHOWN]
        ]
        for how, choose in (("ranked", starts), ("quick", quick_starts))
    }
    if args.format == "json":
        rules = {name: [{"opts": [o.json for o in p.opts], "seconds": p.seconds} for p in each] for name, each in found.items()}
        plain = {how: [r | {"opts": [o.json for o in r["opts"]]} for r in rows] for how, rows in chosen_.items()}
        print(json.dumps({"target": target.name, "threads": place.threads, "rules": rules, **plain}, indent=1))
        return 0
    out = console()
    t = table(f"start rules that apply to {kernel.name} for {target.name}", "rule", ">proposals", ">the model expects", "its best")
    for name, each in found.items():
        t.add_row(name, str(len(each)), duration(each[0].seconds), opts_text(each[0].opts))
    out.print(t)
    for how, rows in chosen_.items():
        t = table(f"{how} start schedules", ">the model expects", "schedule", "rule")
        for r in rows:
            t.add_row(
                duration(r["seconds"]),
                opts_text(r["opts"]),
                r["rule"] or ("phases, or a rule with additions" if r["opts"] else "no options"),
            )
        out.print(t)
    return 0


# explain ----------------------------------------------------------------------------------------------------
INTERRUPTED = 130
UNCLEAR = 0.1
"""Noise above which paired rounds that agree on nothing say that they do not know, instead of that there is no difference."""


def run(args: Namespace) -> int:
    """Measure and print. Raises CacheMiss, with the command that tunes it, where the cache has no schedule of its own for the kernel."""
    from ...heuristics.contraction_order import order_lines
    from ...search.option_worth import explain
    from ..functions.tracing import kernel_of

    kernel = normalise(kernel_of(args))
    if args.starts:
        return _starts(kernel, target_of(args), args)
    if args.target:
        raise UsageError("--target is for --starts; what options are worth is measured here")
    place = device_of(args)
    device, threads = place.device, place.threads
    assert device is not None
    opts, facts = _schedule(args, kernel, place)
    quiet = args.format == "json" or not sys.stderr.isatty()
    with ExitStack() as stack:
        show = (lambda text: None) if quiet else stack.enter_context(status_line())
        show("building")
        found = explain(kernel, opts, device, threads, parse_seconds(args.budget), show)
    lossy = "DOWNCONVERT" in allowed(args.allow or ())
    roof = _roofline(kernel, device, threads, lossy)
    code = _machine_code(kernel, found, device)
    model = predicted(kernel, found.opts, device)
    if args.format == "json":
        print(
            json.dumps(
                _as_json(found, roof)
                | {
                    "kernels": [c.to_json() for c in code],
                    "model": to_json(model),
                    "answer": {k: facts[k] for k in (POLICY, "places", "ties") if k in facts},
                },
                indent=1,
            )
        )
    else:
        notes: list[str | Text] = [*order_lines(kernel, found.opts), *_code_lines(code), *lines(model)]
        notes += [f"{name}: {said}" for name, said in told_apart(facts)]
        peak = _peak(kernel, device, lossy)
        _print(found, roof, notes, peak, f"{kernel.name} on {device.name}, {threads} thread{'s' * (threads != 1)}")
    return INTERRUPTED if found.interrupted else 0


def _schedule(args: Namespace, kernel: Kernel, place: ForTarget) -> tuple[tuple[Opt, ...], Mapping[str, Any]]:
    """The schedule that --opts names, or the cache's own with the facts of its row. Raises CacheMiss."""
    if args.opts is not None and args.opts.strip().lower() != "best":
        return chosen(args.opts, kernel, place, args).opts, {}
    plan = cached(kernel, place, args)
    if plan.origin in ("exact", "stale"):
        return plan.opts, plan.row.facts if plan.row is not None else {}
    given = {n: getattr(args, n) for n in ("kernel", "shape", "dtype", "device", "threads", "cache")}
    given["numerics"] = "fixed" if kernel.fixed else None
    words = " ".join(f"--{n} {shlex.quote(str(v))}" for n, v in given.items() if v)
    where = f"{args.device} with {place.threads} thread{'s' * (place.threads != 1)}"
    raise CacheMiss(f"the cache has no schedule of {kernel.name} for {where}; tune it first: tune run {words}")


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """One line on standard error that says what goes on, drawn only when that changes: never beside a measurement."""
    from rich.live import Live
    from rich.text import Text

    out = console(sys.stderr)
    log = LogAbove(lambda text: out.print(text, end="", soft_wrap=True, style="dim"))

    def show(text: str) -> None:
        log.show()
        live.update(Text(text, style="dim"), refresh=True)

    with Live(console=out, auto_refresh=False, transient=True) as live:
        log.begin()
        try:
            yield show
        finally:
            log.end()


def _roofline(kernel: Kernel, device: Device, threads: int, lossy: bool) -> Roofline | None:
    limits = device.limits()
    return roofline(kernel, limits, threads, target=device.target, lossy=lossy) if limits and not kernel.symbols else None


def _machine_code(kernel: Kernel, found: Explanation, device: Device) -> tuple[KernelContents, ...]:
    """What the kernels of the schedule hold and take, where the device's machine code can be read: on NVIDIA GPUs."""
    if device.target.lang != "cuda":
        return ()
    from ...devices.cuda.machine_code import contents
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render

    return contents(render(lower(apply(kernel, found.opts, device.target)), device.target))


def _peak(kernel: Kernel, device: Device, lossy: bool) -> str:
    """What the arithmetic of the roofline counts at."""
    return "the peak of tensor cores" if unit(kernel, device.target, lossy) == "tensor cores" else "the measured peak"


def _print(found: Explanation, roof: Roofline | None, notes: Sequence[str | Text], peak: str, what: str) -> None:
    from rich.text import Text

    out = console()
    name, _, where = what.partition(" ")
    out.print(Text.assemble((name, "bold"), f" {where}: {duration(found.seconds)} a call"), soft_wrap=soft_wrapped(out))
    out.print(opts_text(found.opts), soft_wrap=soft_wrapped(out))
    if roof:
        limit = f"arithmetic: its operations at {peak}" if roof.bound == "compute" else f"{roof.bound}: its bytes at the measured bandwidth"
        out.print(
            f"bound by {limit} take {duration(roof.seconds)}; it reaches {share(roof.percent(found.seconds))} of that",
            soft_wrap=soft_wrapped(out),
        )
    if found.plain:
        out.print(
            f"as written, with no options: about {duration(found.plain)}, {found.plain / found.seconds:.3g} times slower",
            soft_wrap=soft_wrapped(out),
        )
    for note in notes:
        out.print(note, soft_wrap=soft_wrapped(out))
    t = table("what each option is worth", "option", ">time without it", "falls with it", "best neighbour", ">time with that")
    for w in found.worths:
        t.add_row(opts_text((w.opt,)), ratio_text(w.without) if w.without else w.why, opts_text(w.falls) if w.falls else "",
                  opts_text((w.neighbour,)) if w.neighbour else "", ratio_text(w.beside) if w.beside else "")  # fmt: skip
    out.print(t)
    out.print(
        "times are factors of the schedule's own: 2x takes twice as long. ± is the noise of paired rounds; ~ is a single measurement",
        style="dim",
        soft_wrap=soft_wrapped(out),
    )
    if found.interrupted:
        out.print("interrupted; this is what was measured until then", style="dim")
    elif not found.complete:
        out.print("the budget ended before everything was measured; a longer --budget fills the gaps", style="dim")


def _code_lines(code: Sequence[KernelContents]) -> Iterator[Text]:
    """What kernels take and hold."""
    from rich.text import Text

    for c in code:
        yield Text.assemble((c.name, "bold"), f": {c.takes}")
        yield from (Text(f"  {heading}: {counts}") for heading, counts in c.families.items())
    for why in dict.fromkeys(c.why for c in code if c.why):
        yield Text(f"instructions are not counted: {why}", style="dim")


def ratio_text(r: Ratio) -> str:
    """`1.32x ±2.0 %`, `no difference ±1.5 %`, `1.2x, unclear ±30 %`, `~45x`."""
    if r.noise is None:
        return f"~{factor(r.factor)}" if r.significant else f"~{factor(r.factor)}, unsure"
    share = f"±{100 * r.noise:.1f} %" if r.noise < 0.1 else f"±{100 * r.noise:.0f} %"
    if r.significant:
        return f"{factor(r.factor)} {share}"
    if not r.noise:
        return "same code"
    return f"no difference {share}" if r.noise < UNCLEAR else f"{factor(r.factor)}, unclear {share}"


def _as_json(found: Explanation, roof: Roofline | None) -> dict[str, Any]:
    return {
        "opts": [o.json for o in found.opts],
        "seconds": found.seconds,
        "plain_s": found.plain,
        "roofline": {"seconds": roof.seconds, "bound": roof.bound, "share": roof.seconds / found.seconds} if roof else None,
        "options": [
            {
                "opt": w.opt.json, "without": ratio_numbers(w.without), "why": w.why or None, "falls": [o.json for o in w.falls],
                "neighbour": w.neighbour.json if w.neighbour else None, "beside": ratio_numbers(w.beside),
            }
            for w in found.worths
        ],
        "measured": found.measured,
        "complete": found.complete,
        "interrupted": found.interrupted,
    }  # fmt: skip


def ratio_numbers(r: Ratio | None) -> dict[str, Any] | None:
    return None if r is None else {"factor": r.factor, "seconds": r.seconds, "noise": r.noise, "significant": r.significant}
