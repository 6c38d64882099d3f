"""`tune devices` and `tune kernels`: what kernels can run on here, with the measured limits of each; and the named kernels."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...ir.errors import DeviceError
from ..terminal.style import Listing, bytes_text, console, rate, shape_text, soft_wrapped, table

if TYPE_CHECKING:
    from rich.console import Console

    from ...devices import Device, Limits


def run(args: Namespace) -> int:
    """Print every device, usable or not and why; `--probe` measures the limits of those that are."""
    from ...devices import get, names

    if args.links:
        return _links(args)
    found: list[tuple[str, Device | None, Limits | None, str]] = []
    for name, why in _members(names()):
        try:
            if why:
                raise DeviceError(why)
            device = get(name)
            device.check()
            processor = device.target.kind == "cpu"
            before = processor and any(d is not None and d.target.kind == "cpu" for _, d, _, _ in found)
            probe = args.probe and not (before and device.limits() is not None)
            if probe and args.format == "table":
                what = "this processor" if processor else name
                console().print(f"measuring peak arithmetic and bandwidth of {what}; keep the machine quiet")
            found.append((name, device, device.limits(probe=probe), ""))
        except DeviceError as error:
            found.append((name, None, None, str(error)))
    if args.format == "json":
        print(json.dumps([_fields(*f) for f in found], indent=1))
        return 0
    from rich.text import Text

    out = console(wide=args.wide)
    for name, usable, limits, why in found:
        if usable is None:
            out.print(Text.assemble((name, "bold"), "  ", ("not usable", "red"), f": {why}"), soft_wrap=soft_wrapped(out))
        else:
            _describe(name, usable, limits, out)
    return 0


def _links(args: Namespace) -> int:
    """Measure what lies between processes, and print it."""
    from ...placement.network import measure

    found = measure(backend=args.backend or "mpi")
    if args.format == "json":
        print(json.dumps(found.to_json(), indent=1))
        return 0
    rows = table(f"links between {found.ranks} processes, measured {found.date}", "what", ">latency", ">bandwidth", ">off by at most")
    for kind, r in found.rates.items():
        rows.add_row(kind, f"{r.alpha * 1e6:.3g} µs", rate(1e-9 / r.beta if r.beta else None, "GB/s"), f"{r.off:.0%}")
    console(wide=args.wide).print(rows)
    return 0


def _members(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, why it is not usable or '') of every device behind these names."""
    from ...devices import get

    for name in names:
        try:
            device = get(name)
            # one that only this process knows goes by the name it was registered under
            yield from ((name if shown == device.name else shown, why) for shown, why in device.family())
        except DeviceError as error:
            yield name, str(error)


def _describe(name: str, device: Device, limits: Limits | None, out: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from ...targets import machine

    t = device.target
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    made = device.fingerprint()
    grid.add_row("processor", str(made.get("cpu", t.cpu)))
    if "platform" in made:
        grid.add_row("driver", f"{made['platform']}, {made.get('platform_version', made.get('driver', ''))}")
    elif "by" in made:
        grid.add_row("driver", f"{made['driver']}, through {made['by']}")
    grid.add_row("target", f"{t.name} ({t.arch}, tuned as {t.cpu}): {' '.join(sorted(t.features)) or 'baseline'}")
    if "lowered" in made:
        grid.add_row(
            "lowered", f"by {made['lowered']}: code uses no more than that; the machine has {' '.join(sorted(machine().features))}"
        )
    if t.kind == "gpu":
        clock = f", up to {t.clock / 1e6:.0f} MHz" if t.clock else ""
        grid.add_row("processors", f"{t.cores} multiprocessors{clock}, {t.registers} registers a thread")
        if t.bandwidth:
            grid.add_row("memory", f"{rate(t.bandwidth / 1e9, 'GB/s')} by its bus")
        grid.add_row("caches", f"L2 {bytes_text(t.l2)}")
    else:
        grid.add_row("registers", f"{t.registers} of {t.vector_bytes} bytes")
        grid.add_row("threads", f"{device.threads} usable")
        grid.add_row("caches", f"L1 {bytes_text(t.l1)}, L2 {bytes_text(t.l2)} a core, L3 {bytes_text(t.l3)}")
    if t.groups:
        grid.add_row("groups", f"up to {t.max_threads} threads, {bytes_text(t.shared)} shared")
    grid.add_row("compiler", device.compiler_id())
    out.print(Text.assemble((name, "bold"), "  ", ("usable", "green")))
    out.print(grid)
    if limits is None:
        out.print("limits not measured yet: tune devices --probe")
    else:
        out.print(_limits_table(limits))
        if any(r.caches for r in limits.rates.values()):
            out.print(_caches_table(limits))


def _limits_table(limits: Limits) -> Listing:
    rows = table(
        f"limits measured {limits.date}",
        ">threads",
        ">FMA float32",
        ">FMA float64?3",
        ">read",
        ">copy?1",
        ">copy nt?4",
        ">triad?2",
        ">triad nt?5",
    )
    for threads, r in sorted(limits.rates.items()):
        flops = [rate(v / 1e9, "GFLOP/s") for v in (r.peak_f32, r.peak_f64)]
        moved = [rate(v / 1e9, "GB/s") for v in (r.read, r.copy, r.copy_nt, r.triad, r.triad_nt)]
        rows.add_row(str(threads), *flops, *moved)
    return rows


def _caches_table(limits: Limits) -> Listing:
    rows = table("rates of sets that are used again and again", ">threads", ">set", ">read", ">with stores")
    for threads, r in sorted(limits.rates.items()):
        for c in r.caches:
            rows.add_row(str(threads), bytes_text(c.size), rate(c.read / 1e9, "GB/s"), rate(c.mixed / 1e9, "GB/s"))
    return rows


def _fields(name: str, device: Device | None, limits: Limits | None, error: str) -> dict[str, Any]:
    if device is None:
        return {"name": name, "usable": False, "why": error}
    t = device.target
    return {
        "name": name,
        "usable": True,
        "target": {**asdict(t), "features": sorted(t.features)},
        "threads": device.threads,
        "compiler": device.compiler_id(),
        "fingerprint": device.fingerprint(),
        "limits": limits.to_json() if limits else None,
    }


def kernels(args: Namespace) -> int:
    """Print every named kernel as a table or as JSON."""
    from ...named_kernels import NAMES, get

    defs = [get(name) for name in NAMES]
    if args.format == "json":
        fields = [
            {"name": d.name, "doc": d.doc, "shape": d.default_shape, "odd_shape": d.odd_shape, "dtypes": list(d.dtypes)} for d in defs
        ]
        print(json.dumps(fields, indent=1))
        return 0
    listed = table("kernels", "kernel", "--shape (default)", "--dtype?2", "what it computes?1")
    for d in defs:
        listed.add_row(d.name, shape_text(d.default_shape), ", ".join(d.dtypes), d.doc)
    out = console(wide=args.wide)
    out.print(listed)
    out.print("Your own: tune run --kernel my.py:function, where function() returns a tilewright Kernel.")
    return 0
