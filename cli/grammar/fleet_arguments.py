"""The arguments of `tune fleet`."""

from __future__ import annotations

from argparse import ArgumentTypeError

from .parser import PORT, READS, UPDATES, Grammar, PathUse, add_cache, add_output, at_least

BATCH = {"slurm": "Slurm (sbatch)", "pbs": "PBS (qsub)", "sge": "SGE (qsub)", "lsf": "LSF (bsub)"}
"""Batch systems that `tune fleet launch` writes job scripts for."""


def _add_url(p: Grammar) -> None:
    p.add_argument("url", metavar="URL", help="the scheduler's address, as it printed it: tls://host:8786 (tcp:// without certificates)")


def add_tls(p: Grammar) -> None:
    """--tls."""
    p.add_path(
        "--tls",
        use=READS,
        metavar="FOLDER",
        help="the fleet's certificates; default: TILEWRIGHT_FLEET_TLS, else the user's configuration folder",
    )


def scheduler(p: Grammar) -> None:
    """`tune fleet scheduler`."""
    add_tls(p)
    p.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="NAME",
        help="listen at this address; default: this machine alone; 0.0.0.0: all of its addresses",
    )
    p.add_argument("--port", type=at_least(0, PORT), default=8786, metavar="N", help="default 8786; 0 takes a free one")
    p.add_argument("--insecure", action="store_true", help="tcp:// without certificates: whoever reaches the port can run code on workers")
    p.add_argument(
        "--dashboard", metavar="[HOST]:PORT", help="show Dask's dashboard there (needs bokeh: pip install 'tilewright[fleet-dashboard]')"
    )


def worker(p: Grammar) -> None:
    """`tune fleet worker`."""
    _add_url(p)
    add_tls(p)
    p.add_argument("--device", action="append", metavar="NAME", help="a device to time on (`tune devices`); may be repeated; default cpu")
    p.add_argument("--threads", type=at_least(1), metavar="N", help="threads of a processor; default: every usable core")
    p.add_argument(
        "--build", type=at_least(0), default=0, metavar="N", help="also N processes that only compile, for other machines' devices"
    )
    p.add_argument("--no-device", action="store_true", help="only compile (with --build)")
    p.add_argument("--name", default="", metavar="NAME", help="what the fleet calls this machine; default: its host name")
    p.add_argument(
        "--memory",
        type=_memory,
        default="auto",
        metavar="SIZE",
        help="end a process that takes more, such as 8GiB; default: an equal share",
    )


def _memory(text: str) -> str:
    import re

    if text != "auto" and not re.fullmatch(r"\d+(\.\d+)?\s*([kMGT]i?)?B?", text):
        raise ArgumentTypeError(f"{text!r} is not a size; write it like 8GiB")
    return text


def status(p: Grammar) -> None:
    """`tune fleet status`."""
    _add_url(p)
    add_tls(p)
    add_output(p, "table", "json")
    p.add_argument("--wide", action="store_true", help="every column, however wide the terminal is")


def certificates(p: Grammar) -> None:
    """`tune fleet certificates`."""
    p.add_path(
        "folder", use=UPDATES, nargs="?", metavar="FOLDER", help="default: TILEWRIGHT_FLEET_TLS, else the user's configuration folder"
    )
    p.add_argument("--days", type=at_least(1), default=825, metavar="N", help="how long they hold; default 825")


# launch -----------------------------------------------------------------------------------------------------
def launch_ssh(p: Grammar) -> None:
    """`tune fleet launch ssh`."""
    _add_url(p)
    p.add_argument("hosts", metavar="HOST", nargs="+", help="host or user@host, as ssh takes it")
    p.add_argument("--ssh", default="ssh", metavar="COMMAND", help="how to connect, such as 'ssh -p 2222 -i key'")
    p.add_argument("--stop", action="store_true", help="end the workers that were started so")
    p.add_argument("--dry-run", action="store_true", help="print the commands, and run none")
    _add_worker(p)
    add_output(p, "text", "json")


def launch_batch(p: Grammar) -> None:
    """`tune fleet launch` of each batch system."""
    _add_url(p)
    _add_machines(p)
    p.add_argument("--queue", metavar="NAME", help="the queue, or Slurm's partition")
    p.add_argument("--account", metavar="NAME", help="the account, or project")
    p.add_argument("--directive", action="append", default=[], metavar="TEXT", help="one more line for the batch system; may be repeated")
    _add_worker(p)


def launch_kubernetes(p: Grammar) -> None:
    """`tune fleet launch kubernetes`."""
    _add_url(p)
    p.add_argument("--image", required=True, metavar="IMAGE", help="an image with Tilewright in it")
    p.add_argument("--kind", choices=("Deployment", "Job"), default="Deployment", help="keep workers, or run them for --time")
    p.add_argument("--secret", default="", metavar="NAME", help="the Secret that holds the worker's certificates")
    p.add_argument("--node", action="append", default=[], metavar="LABEL=VALUE", help="only nodes with this label; may be repeated")
    p.add_argument("--namespace", default="", metavar="NAME", help="default: the context's")
    _add_machines(p)
    _add_worker(p, setup=False)


def _add_machines(p: Grammar) -> None:
    p.add_path("--output", use=PathUse("writes", "worker"), metavar="FILE", help="where to write it; default: standard output")
    p.add_argument("--machines", type=at_least(1), default=1, metavar="N", help="how many workers; default 1")
    p.add_argument("--cores", type=at_least(1), metavar="N", help="cores of each")
    p.add_argument("--memory-of-job", metavar="SIZE", help="memory of each, such as 32GiB")
    p.add_argument(
        "--gpus", type=at_least(0), default=0, metavar="N", help="GPUs of each, which are timed on unless --device says otherwise"
    )
    p.add_argument("--time", metavar="TIME", help="how long they may run: 4:00:00, 2-12:00:00 (days first) or 90m")
    p.add_argument("--shared", action="store_true", help="share machines with other work, which spoils timings")


def _add_worker(p: Grammar, setup: bool = True) -> None:
    p.add_argument("--name", default="tilewright", help="what jobs, logs and pods are called; default tilewright")
    p.add_argument(
        "--device", action="append", default=[], metavar="NAME", help="a device to time on over there; may be repeated; default cpu"
    )
    p.add_argument("--threads", type=at_least(1), metavar="N", help="threads of a processor; default: every usable core")
    p.add_argument("--build", type=at_least(0), default=0, metavar="N", help="also N processes that only compile")
    p.add_argument("--tls", metavar="FOLDER", help="the certificates' folder over there; default: the user's configuration folder")
    p.add_argument("--tune", default="tune", metavar="COMMAND", help="the command over there, such as ~/venv/bin/tune")
    if setup:
        p.add_argument("--setup", action="append", default=[], metavar="LINE", help="a line of shell before it; may be repeated")


def sweep(p: Grammar) -> None:
    """`tune fleet sweep`."""
    p.add_path("file", use=READS, metavar="models.toml", help="kernels, models and targets (docs/sweeps.md)")
    p.add_argument("--budget", metavar="TIME", help="time for all of it, such as 2h; default: each entry's own")
    p.add_argument("--trials", type=at_least(1), metavar="N", help="measurements of each entry at most")
    p.add_argument("--target", action="append", metavar="NAME", help="only the sweep's entries for this target; may be repeated")
    p.add_argument("--model", action="append", metavar="NAME", help="only this model's shapes; may be repeated")
    p.add_path("--journal", use=UPDATES, metavar="FILE", help="what is done; default: a file with the sweep's name")
    p.add_argument("--again", action="store_true", help="begin anew, whatever the journal and the cache know")
    p.add_argument("--retry", action="store_true", help="also begin entries that took their process with them twice")
    p.add_argument("--dry-run", action="store_true", help="print the plan, and tune nothing")
    p.add_argument("--trust", action="store_true", help="run the Python files that the sweep names, wherever they are")
    p.add_argument("--quiet", action="store_true", help="no live display")
    p.add_argument("--fleet", metavar="URL", help="on the machines of a fleet, such as tls://host:8786")
    add_tls(p)
    add_cache(p)
    add_output(p, "table", "json", printed=False)
    p.add_argument("--wide", action="store_true", help="every column, however wide the terminal is")
