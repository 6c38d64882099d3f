"""`tune fleet scheduler`, `worker`, `status` and `certificates`."""

from __future__ import annotations

import asyncio
import json
import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files import folders
from ...ir.errors import FleetError, UsageError
from ..terminal.style import console, table

if TYPE_CHECKING:
    from rich.console import Console

    from ...fleet.engine import FleetSlot
    from ...fleet.launch import FleetLaunch
    from ...fleet.scheduler import LostSlot
    from ...fleet.tls import Role


def security(url: str, role: Role, folder: str | None) -> Any:
    """Dask's security for a URL. Raises FleetError, also where Dask is not installed."""
    from ...fleet.tls import security as made
    from ...fleet.worker import dask

    dask()
    return made(url, role, None if folder is None else Path(folder))


def scheduler(args: Namespace) -> int:
    """Be the scheduler until a signal."""
    secured = security("tcp://" if args.insecure else "tls://all", "scheduler", args.tls)
    if args.dashboard is not None:
        from importlib.util import find_spec

        if find_spec("bokeh") is None:
            raise FleetError("Dask's dashboard needs the package bokeh: pip install 'tilewright[fleet-dashboard]'")
    from ...fleet.scheduler import SchedulerOptions, serve

    host = "" if args.host in ("0.0.0.0", "::") else args.host
    asyncio.run(serve(SchedulerOptions(host, args.port, secured, args.dashboard), _print_now))
    return 0


def worker(args: Namespace) -> int:
    """Take jobs until a signal."""
    if args.no_device and args.device:
        raise UsageError("--no-device and --device contradict each other")
    secured = security(args.url, "worker", args.tls)
    from ...fleet.worker import WorkerOptions, serve

    devices = () if args.no_device else tuple(args.device or ("cpu",))
    asyncio.run(serve(WorkerOptions(args.url, devices, args.threads, args.build, args.name, args.memory, security=secured), _print_now))
    return 0


def certificates(args: Namespace) -> int:
    """Make them."""
    from ...fleet import tls

    folder = tls.default_folder() if args.folder is None else folders.expanded(args.folder)
    made = tls.make(folder, args.days)
    _print_now(f"{folder}: {', '.join(p.name for p in made)}")
    for role in tls.ROLES:
        _print_now(f"a {role}'s machine needs {', '.join(tls.files(role))}")
    if any(p.name == tls.AUTHORITY_KEY for p in made):
        _print_now(f"{tls.AUTHORITY_KEY} stays here: whoever has it can let anybody in")
    return 0


def status(args: Namespace) -> int:
    """Print who is there, and who was lost."""

    secured = security(args.url, "client", args.tls)
    from ...fleet.dask_engine import DaskEngine

    engine = DaskEngine(args.url, secured)
    try:
        slots, strangers, gone = engine.slots(), engine.strangers, engine.gone()
    finally:
        engine.close()
    if args.format == "json":
        from ...fleet.scheduler import times_lost

        said = {"slots": [s.to_json() for s in slots], "other_workers": strangers, "lost": [g.to_json() for g in gone]}
        _print_now(json.dumps({"schema": 1, "url": args.url, **said, "times_lost": dict(times_lost(gone))}, indent=1))
        return 0
    show(console(wide=args.wide), args.url, slots, gone)
    if strangers:
        _print_now(f"{strangers} workers there were not started by `tune fleet worker`, and take no jobs of ours")
    return 0


def _print_now(text: str) -> None:
    print(text, flush=True)


MOST_LOST = 12
"""Losses that the table has; --json has all that the scheduler noted."""
HOW = {"died": "died", "silent": "fell silent", "left": "was ended"}


def show(out: Console, url: str, slots: Sequence[FleetSlot], gone: Sequence[LostSlot]) -> None:
    """Print both tables; the second only where something was lost."""
    if slots:
        _print_slots(out, url, slots)
    else:
        out.print(f"no worker has joined {url}: tune fleet worker {url}", soft_wrap=True)
    if gone:
        _lost(out, gone)


def _print_slots(out: Console, url: str, slots: Sequence[FleetSlot]) -> None:
    from rich.text import Text

    shown = table(url, "host", "times on", "processor", ">threads", "runs", "slot?1", "address?2", "target?3")
    for s in slots:
        d = s.device
        runs = Text(f"cannot be used: {s.refused}", style="red") if s.refused else Text(", ".join(s.running) or "idle")
        kind = d.spec.rpartition("/")[2] if d is not None else f"builds {s.build} at a time"
        target = d.target if d else ""
        processor = " ".join(target.split(":")[1:3])
        threads = str(d.threads) if d else ""
        shown.add_row(Text(s.host), Text(kind), Text(processor), threads, runs, s.name, Text(s.address), Text(target))
    out.print(shown)
    machines = len({s.host for s in slots})
    busy = sum(bool(s.running) for s in slots)
    out.print(f"{machines} machine{_s(machines)}, {len(slots)} slot{_s(len(slots))}, {busy} busy")


def _lost(out: Console, gone: Sequence[LostSlot]) -> None:
    from rich.text import Text

    from ...fleet.scheduler import times_lost

    often = times_lost(gone)
    left_out = len(gone) - MOST_LOST
    shown = table(
        f"lost, the last {MOST_LOST} of {len(gone)} (--json has all)" if left_out > 0 else "lost",
        "when (UTC)", "host", "timed on", "worker", "had", "now",
    )  # fmt: skip
    for g in gone[-MOST_LOST:]:
        had = [f"{t} (lost {often[t]} times)" if often[t] > 1 else t for t in g.jobs]
        shown.add_row(
            Text(g.when[:19].replace("T", " ")),
            Text(g.host),
            Text(g.spec.rpartition("/")[2] or "a builder"),
            Text(HOW[g.how], style="" if g.how == "left" and not g.jobs else "red"),
            Text(", ".join(had) or "no job"),
            Text("back" if g.back else "away"),
        )
    out.print(shown)


def _s(n: int) -> str:
    return "s" * (n != 1)


# launch -----------------------------------------------------------------------------------------------------
# `tune fleet launch`: workers on other machines.


UNREACHED = 3


def launch(args: Namespace) -> int:
    """Start them, or print what starts them; the exit code."""
    spec = launch_spec(args)
    if args.action2 == "ssh":
        return _ssh(spec, args)
    if args.action2 == "kubernetes":
        from ...fleet import launch as kubernetes

        cluster = kubernetes.ClusterSpec(
            image=args.image, kind=args.kind, secret=args.secret, nodes=tuple(args.node), namespace=args.namespace
        )
        return _written(kubernetes.yaml(kubernetes.manifest(spec, cluster)), args.output)
    from ...fleet.launch import script

    return _written(script(args.action2, spec), args.output)


def _written(text: str, file: str | None) -> int:
    if file is None:
        print(text, end="")
        return 0
    from ...files.write_file import replace

    try:
        replace(file, text)
    except OSError as e:
        raise UsageError(f"cannot write {file}: {e.strerror}") from None
    print(f"wrote {file}")
    return 0


def launch_spec(args: Namespace) -> FleetLaunch:
    """What the arguments ask for. Raises UsageError."""
    from ...fleet.launch import TLS, FleetLaunch, size, span

    tls = args.tls or (TLS if getattr(args, "secret", "") else None)
    shared: dict[str, Any] = {"url": args.url, "name": args.name, "devices": tuple(args.device), "threads": args.threads}
    shared |= {"build": args.build, "tls": tls, "tune": args.tune, "setup": tuple(getattr(args, "setup", ()))}
    if args.action2 == "ssh":
        return FleetLaunch(**shared)
    if args.device and args.gpus and not any(d.startswith(("cuda", "opencl")) for d in args.device):
        raise UsageError("--gpus asks for GPUs and no --device uses one: leave --device out, or name cuda:0 too")
    return FleetLaunch(
        **shared,
        machines=args.machines,
        cores=args.cores,
        memory=None if args.memory_of_job is None else size(args.memory_of_job),
        gpus=args.gpus,
        seconds=None if args.time is None else span(args.time),
        queue=getattr(args, "queue", None),
        account=getattr(args, "account", None),
        exclusive=not args.shared,
        more=tuple(getattr(args, "directive", ())),
    )


def _ssh(spec: FleetLaunch, args: Namespace) -> int:
    from ...fleet import launch as ssh

    command = ssh.stop(spec.name) if args.stop else ssh.start(spec)
    how = shlex.split(args.ssh)
    if not how:
        raise UsageError("--ssh names no command")
    if args.dry_run:
        for host in args.hosts:
            print(shlex.join(ssh.words(host, command, how)))
        return 0
    told = ssh.everywhere(args.hosts, command, how)
    if args.format == "json":
        print(json.dumps([{"host": t.host, "ok": t.ok, "said": t.said} for t in told], indent=1))
    else:
        for t in told:
            print(f"{t.host}: {t.said}" if t.ok else f"{t.host}: failed: {t.said}")
        if all(t.ok for t in told) and not args.stop:
            print(f"who has joined: tune fleet status {spec.url}")
    return 0 if all(t.ok for t in told) else UNREACHED
