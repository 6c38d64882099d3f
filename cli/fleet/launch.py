"""`tune fleet launch`: workers on other machines."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError

if TYPE_CHECKING:
    from ...fleet.launch.launch_spec import FleetLaunch

UNREACHED = 3


def launch(args: Namespace) -> int:
    """Start them, or print what starts them; the exit code."""
    spec = launch_spec(args)
    if args.action2 == "ssh":
        return _ssh(spec, args)
    if args.action2 == "kubernetes":
        from ...fleet.launch import kubernetes

        cluster = kubernetes.ClusterSpec(
            image=args.image, kind=args.kind, secret=args.secret, nodes=tuple(args.node), namespace=args.namespace
        )
        return _written(kubernetes.yaml(kubernetes.manifest(spec, cluster)), args.output)
    from ...fleet.launch.batch import script

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
    from ...fleet.launch.kubernetes import TLS
    from ...fleet.launch.launch_spec import FleetLaunch, size, span

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
    from ...fleet.launch import ssh

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
