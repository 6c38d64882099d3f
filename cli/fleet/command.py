"""`tune fleet`: its parts, each with the work of a function in `fleet`."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files import folders
from ...ir.errors import FleetError, UsageError
from ..terminal.style import console

if TYPE_CHECKING:
    from ...fleet.tls import Role


def security(url: str, role: Role, folder: str | None) -> Any:
    """Dask's security for a URL. Raises FleetError, also where Dask is not installed."""
    from ...fleet.facts import dask
    from ...fleet.tls import security as made

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

    asyncio.run(serve(SchedulerOptions(args.host, args.port, secured, args.dashboard), _say))
    return 0


def worker(args: Namespace) -> int:
    """Take jobs until a signal."""
    if args.no_device and args.device:
        raise UsageError("--no-device and --device contradict each other")
    secured = security(args.url, "worker", args.tls)
    from ...fleet.worker import WorkerOptions, serve

    devices = () if args.no_device else tuple(args.device or ("cpu",))
    asyncio.run(serve(WorkerOptions(args.url, devices, args.threads, args.build, args.name, args.memory, security=secured), _say))
    return 0


def certificates(args: Namespace) -> int:
    """Make them."""
    from ...fleet import tls

    folder = tls.default_folder() if args.folder is None else folders.expanded(args.folder)
    made = tls.make(folder, args.days)
    _say(f"{folder}: {', '.join(p.name for p in made)}")
    for role in tls.ROLES:
        _say(f"a {role}'s machine needs {', '.join(tls.files(role))}")
    if any(p.name == tls.AUTHORITY_KEY for p in made):
        _say(f"{tls.AUTHORITY_KEY} stays here: whoever has it can let anybody in")
    return 0


def status(args: Namespace) -> int:
    """Print who is there, and who was lost."""
    from .status import show

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
        _say(json.dumps({"schema": 1, "url": args.url, **said, "times_lost": dict(times_lost(gone))}, indent=1))
        return 0
    show(console(wide=args.wide), args.url, slots, gone)
    if strangers:
        _say(f"{strangers} workers there were not started by `tune fleet worker`, and take no jobs of ours")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)
