"""The grammar of `tune fleet`."""

from __future__ import annotations

from argparse import ArgumentTypeError

from . import fleet_more
from .words import READS, UPDATES, Grammar, add_output, at_least

ACTIONS = {
    "scheduler": (
        "be the process that clients and workers meet at",
        "Passes jobs and rows between clients and workers until it is stopped. It needs no device. Only those who have a certificate of "
        "the fleet (`tune fleet certificates`) can connect, unless --insecure is given.\n\n"
        "  tune fleet scheduler --port 8786",
    ),
    "worker": (
        "let a fleet tune on this machine's devices",
        "Takes jobs from the scheduler at URL until it is stopped: one process for each device, one timing at a time. A process that "
        "dies is started again, and a scheduler that goes away is waited for. Only join fleets whose clients you trust: a worker runs "
        "what they send.\n\n"
        "  tune fleet worker tls://host:8786\n  tune fleet worker tls://host:8786 --device cpu --device cuda:0",
    ),
    "status": (
        "machines, slots, what runs, what cannot be used, and what was lost",
        "Lists the slots of a fleet: where each is, what it times on, and what runs there now. Workers that went away are "
        "listed too, with the jobs that they had.\n\n  tune fleet status tls://host:8786",
    ),
    "certificates": (
        "make the certificates of a fleet",
        "Makes an authority and certificates for a scheduler, workers and clients in a folder. An authority that is there is kept, so "
        "running it again renews the rest. ca-key.pem stays where it is made; the scheduler's machine needs ca.pem and scheduler*.pem, "
        "a worker's ca.pem and worker*.pem, a client's ca.pem and client*.pem.\n\n"
        "  tune fleet certificates\n  tune fleet certificates ~/team-fleet --days 90",
    ),
    **fleet_more.ACTIONS,
}
"""What `tune fleet` does, each with its line in the list and its description."""
URL = "the scheduler's address, as it printed it: tls://host:8786 (tcp:// without certificates)"


def add_fleet(p: Grammar) -> None:
    """`tune fleet`."""
    sub = p.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Grammar)
    made: dict[str, Grammar] = {name: sub.add_parser(name, help=said, description=whole) for name, (said, whole) in ACTIONS.items()}
    for name in ("worker", "status"):
        made[name].add_argument("url", metavar="URL", help=URL)
    for name in ("scheduler", "worker", "status"):
        add_tls(made[name])
    s = made["scheduler"]
    s.add_argument("--host", default="", metavar="NAME", help="listen at this address only; default: all of this machine's")
    s.add_argument("--port", type=int, choices=range(65536), default=8786, metavar="N", help="default 8786; 0 takes a free one")
    s.add_argument("--insecure", action="store_true", help="tcp:// without certificates: whoever reaches the port can run code on workers")
    s.add_argument(
        "--dashboard", metavar="[HOST]:PORT", help="show Dask's dashboard there (needs bokeh: pip install 'tilewright[fleet-dashboard]')"
    )
    w = made["worker"]
    w.add_argument("--device", action="append", metavar="NAME", help="a device to time on (`tune devices`); may be repeated; default cpu")
    w.add_argument("--threads", type=at_least(1), metavar="N", help="threads of a processor; default: every usable core")
    w.add_argument(
        "--build", type=at_least(0), default=0, metavar="N", help="also N processes that only compile, for other machines' devices"
    )
    w.add_argument("--no-device", action="store_true", help="only compile (with --build)")
    w.add_argument("--name", default="", metavar="NAME", help="what the fleet calls this machine; default: its host name")
    w.add_argument(
        "--memory",
        type=_memory,
        default="auto",
        metavar="SIZE",
        help="end a process that takes more, such as 8GiB; default: an equal share",
    )
    add_output(made["status"], "table", "json")
    made["status"].add_argument("--wide", action="store_true", help="every column, however wide the terminal is")
    fleet_more.add_launch(made["launch"])
    fleet_more.add_sweep(made["sweep"])
    c = made["certificates"]
    c.add_path(
        "folder", use=UPDATES, nargs="?", metavar="FOLDER", help="default: TILEWRIGHT_FLEET_TLS, else the user's configuration folder"
    )
    c.add_argument("--days", type=at_least(1), default=825, metavar="N", help="how long they hold; default 825")


def add_tls(p: Grammar) -> None:
    """--tls."""
    p.add_path(
        "--tls",
        use=READS,
        metavar="FOLDER",
        help="the fleet's certificates; default: TILEWRIGHT_FLEET_TLS, else the user's configuration folder",
    )


def _memory(text: str) -> str:
    import re

    if text != "auto" and not re.fullmatch(r"\d+(\.\d+)?\s*([kMGT]i?)?B?", text):
        raise ArgumentTypeError(f"{text!r} is not a size; write it like 8GiB")
    return text
