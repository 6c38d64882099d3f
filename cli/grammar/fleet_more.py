"""The grammars of `tune fleet launch` and `tune fleet sweep`."""

from __future__ import annotations

from .words import READS, UPDATES, Grammar, PathUse, add_cache, add_output, at_least

BATCH = {"slurm": "Slurm (sbatch)", "pbs": "PBS (qsub)", "sge": "SGE (qsub)", "lsf": "LSF (bsub)"}
ACTIONS = {
    "launch": (
        "start workers on other machines: over ssh, by a batch system, in Kubernetes",
        "Starts a worker on each host over ssh, or prints what a batch system or Kubernetes takes. In the end all of them run `tune fleet "
        "worker`.\n\n"
        "  tune fleet launch ssh tls://host:8786 node1 node2\n"
        "  tune fleet launch slurm tls://host:8786 --machines 4 --cores 32 --time 4:00:00 --output workers.sh\n"
        "  tune fleet launch kubernetes tls://host:8786 --image registry.example/tilewright --secret fleet | kubectl apply -f -",
    ),
    "sweep": (
        "tune whole models: shapes x dtypes x targets, with resume",
        "Tunes every kernel of a sweep file at every shape that its models ask for. Shapes that are near each other are tuned one after the "
        "other, so that each begins with what was found for the one before. A journal beside the file keeps what is done, and the same "
        "command goes on where an earlier one ended.\n\n"
        "  tune fleet sweep models.toml --dry-run\n  tune fleet sweep models.toml --budget 2h",
    ),
}
"""What this file adds to `tune fleet`."""


def add_launch(p: Grammar) -> None:
    """`tune fleet launch`."""
    sub = p.add_subparsers(dest="system", required=True, metavar="HOW", parser_class=Grammar)
    s = sub.add_parser("ssh", help="start a worker on each host", description="Starts a worker on each host, which goes on when this ends.")
    s.add_argument("url", metavar="URL", help="the scheduler's address, such as tls://host:8786")
    s.add_argument("hosts", metavar="HOST", nargs="+", help="host or user@host, as ssh takes it")
    s.add_argument("--ssh", default="ssh", metavar="COMMAND", help="how to connect, such as 'ssh -p 2222 -i key'")
    s.add_argument("--stop", action="store_true", help="end the workers that were started so")
    s.add_argument("--dry-run", action="store_true", help="print the commands, and run none")
    _add_worker(s)
    add_output(s, "text", "json")
    for name, said in BATCH.items():
        b = sub.add_parser(name, help=f"a job script for {said}", description=f"Prints a job script for {said}.")
        b.add_argument("url", metavar="URL", help="the scheduler's address, such as tls://host:8786")
        _add_machines(b)
        b.add_argument("--queue", metavar="NAME", help="the queue, or Slurm's partition")
        b.add_argument("--account", metavar="NAME", help="the account, or project")
        b.add_argument(
            "--directive", action="append", default=[], metavar="TEXT", help="one more line for the batch system; may be repeated"
        )
        _add_worker(b)
    k = sub.add_parser("kubernetes", help="a Deployment or Job", description="Prints a Kubernetes manifest of workers, as YAML.")
    k.add_argument("url", metavar="URL", help="the scheduler's address, such as tls://host:8786")
    k.add_argument("--image", required=True, metavar="IMAGE", help="an image with Tilewright in it")
    k.add_argument("--kind", choices=("Deployment", "Job"), default="Deployment", help="keep workers, or run them for --time")
    k.add_argument("--secret", default="", metavar="NAME", help="the Secret that holds the worker's certificates")
    k.add_argument("--node", action="append", default=[], metavar="LABEL=VALUE", help="only nodes with this label; may be repeated")
    k.add_argument("--namespace", default="", metavar="NAME", help="default: the context's")
    _add_machines(k)
    _add_worker(k, setup=False)


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


def add_sweep(p: Grammar) -> None:
    """`tune fleet sweep`."""
    p.add_path("file", use=READS, metavar="models.toml", help="kernels, models and targets (docs/sweeps.md)")
    p.add_argument("--budget", metavar="TIME", help="time for all of it, such as 2h; default: each entry's own")
    p.add_argument("--trials", type=at_least(1), metavar="N", help="measurements of each entry at most")
    p.add_argument("--target", action="append", metavar="NAME", help="only the sweep's entries for this target; may be repeated")
    p.add_argument("--model", action="append", metavar="NAME", help="only this model's shapes; may be repeated")
    p.add_path("--journal", use=UPDATES, metavar="FILE", help="what is done; default: beside the sweep's file")
    p.add_argument("--again", action="store_true", help="begin anew, whatever the journal and the cache know")
    p.add_argument("--retry", action="store_true", help="begin entries that took their process with them twice, too")
    p.add_argument("--dry-run", action="store_true", help="print the plan, and tune nothing")
    p.add_argument("--trust", action="store_true", help="run the Python files that the sweep names, wherever they are")
    p.add_argument("--quiet", action="store_true", help="no live display")
    p.add_argument("--fleet", metavar="URL", help="on the machines of a fleet, such as tls://host:8786")
    p.add_path(
        "--tls",
        use=READS,
        metavar="FOLDER",
        help="the fleet's certificates; default: TILEWRIGHT_FLEET_TLS, else the user's configuration folder",
    )
    add_cache(p)
    add_output(p, "table", "json", printed=False)
    p.add_argument("--wide", action="store_true", help="every column, however wide the terminal is")
