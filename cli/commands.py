"""Every subcommand of `tune`, a row each. Only argparse is imported here, so that `tune --help` is immediate."""

from __future__ import annotations

import functools
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from .. import __version__
from .grammar import cache_arguments as cache
from .grammar import fleet_arguments as fleet
from .grammar import other_arguments as others
from .grammar import schedule_arguments as schedules
from .grammar import tuning_arguments as tuning
from .grammar.parser import Grammar

EXITS = """exit codes:
  0    found, or already in the cache
  2    bad usage (unknown kernel, bad shape, unreadable cache ...)
  3    the device is missing
  4    nothing valid was found
  5    --mode require: the cache does not hold it
  6    nothing was measured in the time given
  130  interrupted; the best so far is saved (143, 129 by a signal)
"""


class Command(NamedTuple):
    """A subcommand. `name`: its words (`cache list`); `line`: its line in the list; `text`: its description, in paragraphs, of which the
    last may be examples; `arguments`: what adds them; `runs`: `module:function` below `cli`, imported when the command runs, empty for
    a group of commands; `paged`: it prints all it has at once, and may print much."""

    name: str
    line: str
    text: str
    arguments: Callable[[Grammar], None]
    runs: str = ""
    epilog: str = ""
    paged: bool = False

    def run(self, args: Namespace) -> int:
        """Do it; the process's exit code."""
        module, _, function = self.runs.partition(":")
        return int(getattr(import_module(f".{module}", __package__), function)(args))


def _no_arguments(_: Grammar) -> None:
    """A group takes no arguments of its own."""


COMMANDS = (
    Command(
        "run",
        "search for a kernel's best schedule",
        "Searches for the fastest schedule of a kernel on a device. It verifies every candidate on its whole output, and keeps what it "
        "measured. If the cache has an answer from a search that was as thorough, it prints that at once.\n\n"
        "  tune run matmul --shape m=1000,n=777,k=513 --budget 20s\n  tune run my.py:kernel --threads 1",
        tuning.run,
        "tuning.run:run",
        EXITS,
    ),
    Command(
        "source",
        "tune a C, OpenCL or CUDA source of yours that has parameters",
        "Searches for the best values of a source's #defines and compiler flags. It checks the whole output of every configuration, and "
        "keeps what it measured. A T1 file may describe all of it instead.\n\n"
        "  tune source kernel.c --function f --param TILE=8,16,32 --param UNROLL=1..8 --args spec.toml --check reference.py:f\n"
        "  tune source --t1 convolution.json --trials 50",
        tuning.source,
        "tuning.source:run",
        EXITS,
    ),
    Command(
        "model",
        "tune the kernels of an ONNX, PyTorch or language model, heaviest first",
        "Runs a model once, shows its kernels, and searches for each that has no schedule of its own; what is left of the budget goes to those "
        "of which more search is expected to gain most, so that tuning again goes on. What was found is in the cache: the next process that runs the model takes it from there. The model is timed before and after, in turns.\n\n"
        "  tune model my_model.py:make --budget 5m\n  tune model model.onnx --shape batch=8,sequence=128\n  tune model llama.gguf --budget 5m",
        tuning.model,
        "tuning.model:run",
    ),
    Command(
        "export",
        "a kernel, a function or an ONNX model as a library of C",
        "Writes C sources, a header, weights and build files: a program with the schedules that are in the cache, which needs nothing of "
        "Python. gcc or clang builds it; a test in it compares a recorded call bit by bit.\n\n"
        "  tune export model.onnx --out lib/ --check\n  tune export my.py:step --shape x=33x20,w=20x17 --out lib/\n"
        "  tune export --kernel matmul --shape m=64,n=64,k=64 --out lib/",
        tuning.export,
        "functions.export_command:run",
    ),
    Command(
        "plan",
        "split a model over devices: what goes where, in which order, what it costs, and why",
        "Finds how to split a model over devices (data, tensor and pipeline parallel, ZeRO), with kernel times from the cache, and explains the "
        "plan. With --schedule it simulates one pipeline schedule, draws it, or searches for one. docs/plans.md says more.\n\n"
        "  tune plan --model gpt2 --devices 4 --memory 2GB\n  tune plan run --model gpt2 --devices 2\n"
        "  tune plan --schedule zb-h1 --stages 8 --microbatches 24 --times 18.5,18.1,9.3,0.6\n"
        "  tune plan --schedule dualpipe --stages 8 --microbatches 20 --svg dualpipe.svg",
        others.plan,
        "planning.plan_command:run",
    ),
    Command(
        "show",
        "a schedule: its options, loop nest and source",
        "Prints a schedule as options, as a loop nest and as rendered source. It is the cache's best schedule, else the nearest one, else "
        "the start schedule, or the one that --opts gives. --diff compares two.\n\n"
        "  tune show softmax\n  tune show matmul --target znver5 --opts start --source\n  tune show matmul --diff start best",
        schedules.show,
        "schedules.show:run",
        paged=True,
    ),
    Command(
        "bench",
        "compare schedules with each other, or with NumPy or PyTorch",
        "Verifies schedules on their whole output, times each, and compares them with the first one in paired rounds, as the finals of a "
        "search do. Nothing is written to the cache. Of a source (FILE.c:FUNCTION), --opts names values.\n\n"
        "  tune bench matmul --opts best --opts 'Um6 Un64 Pn Sb@n'\n  tune bench softmax --opts best --against numpy\n"
        "  tune bench saxpy.c:saxpy --opts best --opts 'TILE=8 UNROLL=2'",
        schedules.bench,
        "schedules.bench:run",
    ),
    Command(
        "pin",
        "make a schedule the cache's answer",
        "Verifies a schedule twice, as a search's winner is, and makes it the answer for this kernel, shape, device and thread count, "
        "whatever searches find. If the schedule does not fit or is not right, nothing changes. Of a source, --opts names values.\n\n"
        "  tune pin matmul --shape m=512,n=512,k=512 --opts 'Um6 Un64 Pn Sb@n'\n  tune unpin matmul --shape m=512,n=512,k=512",
        schedules.pin,
        "schedules.pin:run",
    ),
    Command(
        "unpin",
        "let go of a pinned schedule",
        "The fastest verified schedule answers again. Measurements of the pinned one stay in the cache.",
        schedules.unpin,
        "schedules.pin:remove",
    ),
    Command(
        "check",
        "run a schedule with every access checked: races, bounds, barriers, and the result",
        "Runs schedules in the interpreter of Programs, and under Oclgrind if that is installed. It finds accesses out of bounds, data "
        "races, barriers that some threads miss, values that are used before they are written, and wrong results. It needs no device.",
        schedules.check,
        "schedules.check:run",
    ),
    Command(
        "bisect",
        "find the pass or option that makes a schedule wrong, or whether the device does",
        "Runs the Program of a wrong schedule after emission and after each pass. It names the first stage that is wrong and the fewest "
        "options that show it.",
        schedules.bisect,
        "schedules.bisect:run",
    ),
    Command(
        "report",
        "what the cache holds: times, rates, share of the roofline, gain over the start schedule",
        "Lists the fastest verified schedule of every kernel. Times are of the fastest call.\n\n"
        "  tune report matmul --sort roofline\n  tune report --html report.html",
        cache.report,
        "report.report:run",
        paged=True,
    ),
    Command(
        "watch",
        "the report's page, live in a browser, during a run",
        "Runs `tune run` or `tune source` with the words that follow, and shows the report's page at an address of this machine while it "
        "measures. It ends with the run. Without a run it shows what others measure, until Ctrl-C.\n\n"
        "  tune watch run matmul --budget 60s\n  tune watch --port 9000",
        cache.watch,
        "report.watch:run",
    ),
    Command(
        "graph",
        "what a function of tensors becomes: kernels, boundaries, the rules, bytes saved",
        "Calls a function on tensors without values. It says which kernels the function becomes, which rule stored each tensor, and what "
        "fusion saves.",
        others.graph,
        "functions.graph_command:run",
        paged=True,
    ),
    Command(
        "profile",
        "run a script and say where its kernels' time goes",
        "Runs a script as Python would, and prints a line for each kernel that it ran.",
        others.profile,
        "functions.profile:run",
    ),
    Command(
        "explain",
        "what each option of a schedule is worth, measured now",
        "Measures the schedule without each of its options, and with a neighbour in the place of each. It says which limit binds the "
        "kernel. Of a source (FILE.c:FUNCTION) it measures each parameter's neighbouring values and the untuned one.",
        schedules.explain,
        "schedules.bench:explain",
    ),
    Command(
        "plot",
        "a picture of what the cache holds (needs matplotlib)",
        "Draws convergence, a roofline or outcomes of the measurements that the arguments choose.",
        cache.plot,
        "report.plot:run",
    ),
    Command("cache", "list, explain, move or delete measurements", "Works on the cache of measurements.", _no_arguments),
    Command(
        "cache list",
        "measurements, one a line",
        "Lists the best measurement of each kernel, or with --all every measurement, failures too.",
        cache.list_,
        "cache.measurements:list_rows",
        paged=True,
    ),
    Command(
        "cache show",
        "every field of the best measurement of each kernel",
        "Prints every field of the best measurement of each kernel.",
        cache.show,
        "cache.measurements:show",
        paged=True,
    ),
    Command(
        "cache explain",
        "why a kernel hits or misses, field by field",
        "Compares the key of a kernel, field by field, with the closest key in the cache.",
        cache.explain,
        "cache.measurements:explain",
    ),
    Command(
        "cache export",
        "write a bundle: sorted JSON Lines, made to be reviewed",
        "Writes measurements as sorted JSON Lines, to be kept in version control.",
        cache.export,
        "cache.measurements:export",
    ),
    Command(
        "cache import",
        "merge a bundle",
        "Merges a bundle, whole or not at all. Its rows count as measured elsewhere.",
        cache.import_,
        "cache.measurements:import_bundle",
    ),
    Command(
        "cache clear",
        "delete measurements",
        "Deletes the measurements that the arguments name, or with --all every one.",
        cache.clear,
        "cache.measurements:clear",
    ),
    Command(
        "cache team",
        "which server is the team's cache, and how old its mirror is",
        "Shows the server, this machine's mirror of it, and what waits to be sent. With a URL, keeps it in your settings.",
        cache.team,
        "cache.team:team",
    ),
    Command(
        "cache pull",
        "fetch what is new in the team's cache",
        "Sends what waits, and updates this machine's mirror of the team's cache. Look-ups read only the mirror.",
        cache.pull,
        "cache.team:pull",
    ),
    Command(
        "cache push",
        "send your measurements to the team's cache",
        "Adds the measurements of your own cache to the team's. It leaves out those that came with a bundle and those that you pinned.",
        cache.push,
        "cache.team:push",
    ),
    Command(
        "cache roles",
        "make the tables of a team's cache, and roles for readers and writers",
        "Makes or migrates the tables on the server, and two roles: one may read them, one may also add rows. It may be run again.",
        cache.roles,
        "cache.team:roles",
    ),
    Command(
        "cache diff",
        "how two caches, bundles or servers differ, key by key",
        "Compares what A and B would answer, key by key, and counts the measurements that only one of them has.",
        cache.diff,
        "cache.diff_merge:diff",
    ),
    Command(
        "cache merge",
        "merge several caches, bundles or servers into one",
        "Adds every measurement of several caches, bundles or servers to another one, all or nothing. Rows of a bundle count as measured "
        "elsewhere, as for an import.",
        cache.merge,
        "cache.diff_merge:merge",
    ),
    Command(
        "cache keys",
        "keys that sign bundles: make, trust, list, forget; verify a bundle",
        "Says whose signatures of bundles count. Keys and signatures are those of the tool minisign. Signatures are checked only where they "
        "are required.",
        _no_arguments,
    ),
    Command(
        "cache keys list",
        "whom you trust",
        "Lists the keys whose signatures count where none is named.",
        cache.keys_list,
        "cache.signing:list_keys",
    ),
    Command(
        "cache keys make",
        "make a pair of keys",
        "Writes a new secret key, and the public key with the same name (release.key and release.pub).",
        cache.keys_make,
        "cache.signing:make",
    ),
    Command(
        "cache keys trust",
        "trust a key from now on",
        "Keeps a public key. Its signatures count wherever a signature is required and no key is named.",
        cache.keys_trust,
        "cache.signing:trust_key",
    ),
    Command("cache keys forget", "trust a kept key no more", "Deletes a kept public key.", cache.keys_forget, "cache.signing:forget"),
    Command(
        "cache keys verify",
        "whether a trusted key signed a bundle",
        "Checks a bundle's signature, and reads the bundle. Imports nothing.",
        cache.keys_verify,
        "cache.signing:verify",
    ),
    Command(
        "cache prune",
        "delete what nobody would miss: superseded, of old tools, of dead targets",
        "Deletes rows that no look-up needs, and says first what each rule finds. Only --idle and --target take answers away, and these are "
        "named.",
        cache.prune,
        "cache.prune:prune",
    ),
    Command(
        "cache check",
        "what a manifest asks for: present, stale or missing; needs no device, fails when anything is missing",
        "Looks up what a manifest asks for, without any device, and says what is present, stale or missing.",
        cache.check,
        "tuning.tune_manifest:check",
        paged=True,
    ),
    Command(
        "fleet",
        "tune on many machines: a scheduler, workers, who is there, certificates",
        "Joins machines into a fleet. `tune run --manifest FILE --fleet URL` then tunes each entry on a machine of its target. docs/fleet.md "
        "shows it from the beginning. It needs Dask (pip install 'tilewright[fleet]').",
        _no_arguments,
    ),
    Command(
        "fleet scheduler",
        "be the process that clients and workers meet at",
        "Passes jobs and rows between clients and workers until it is stopped. It needs no device. Only those who have a certificate of "
        "the fleet (`tune fleet certificates`) can connect, unless --insecure is given.\n\n"
        "  tune fleet scheduler --host 0.0.0.0 --port 8786",
        fleet.scheduler,
        "fleet.processes:scheduler",
    ),
    Command(
        "fleet worker",
        "let a fleet tune on this machine's devices",
        "Takes jobs from the scheduler at URL until it is stopped: one process for each device, one timing at a time. A process that "
        "dies is started again. A worker waits for a scheduler that goes away. Only join fleets whose clients you trust: a worker runs "
        "what they send.\n\n"
        "  tune fleet worker tls://host:8786\n  tune fleet worker tls://host:8786 --device cpu --device cuda:0",
        fleet.worker,
        "fleet.processes:worker",
    ),
    Command(
        "fleet status",
        "machines, slots, what runs, what cannot be used, and what was lost",
        "Lists the slots of a fleet: where each is, what it times on, and what runs there now. It also lists workers that went away, "
        "with the jobs that they had.\n\n  tune fleet status tls://host:8786",
        fleet.status,
        "fleet.processes:status",
    ),
    Command(
        "fleet certificates",
        "make the certificates of a fleet",
        "Makes an authority and certificates for a scheduler, workers and clients in a folder. An authority that is there is kept, so "
        "running it again renews the rest. ca-key.pem stays where it is made; the scheduler's machine needs ca.pem and scheduler*.pem, "
        "a worker's ca.pem and worker*.pem, a client's ca.pem and client*.pem.\n\n"
        "  tune fleet certificates\n  tune fleet certificates ~/team-fleet --days 90",
        fleet.certificates,
        "fleet.processes:certificates",
    ),
    Command(
        "fleet launch",
        "start workers on other machines: over ssh, by a batch system, in Kubernetes",
        "Starts a worker on each host over ssh, or prints what a batch system or Kubernetes takes. In the end all of them run `tune fleet "
        "worker`.\n\n"
        "  tune fleet launch ssh tls://host:8786 node1 node2\n"
        "  tune fleet launch slurm tls://host:8786 --machines 4 --cores 32 --time 4:00:00 --output workers.sh\n"
        "  tune fleet launch kubernetes tls://host:8786 --image registry.example/tilewright --secret fleet | kubectl apply -f -",
        _no_arguments,
    ),
    Command(
        "fleet launch ssh",
        "start a worker on each host",
        "Starts a worker on each host. The workers go on when this command ends.",
        fleet.launch_ssh,
        "fleet.processes:launch",
    ),
    *(
        Command(
            f"fleet launch {system}",
            f"a job script for {name}",
            f"Prints a job script for {name}.",
            fleet.launch_batch,
            "fleet.processes:launch",
        )
        for system, name in fleet.BATCH.items()
    ),
    Command(
        "fleet launch kubernetes",
        "a Deployment or Job",
        "Prints a Kubernetes manifest of workers, as YAML.",
        fleet.launch_kubernetes,
        "fleet.processes:launch",
    ),
    Command(
        "fleet sweep",
        "tune whole models: shapes x dtypes x targets, with resume",
        "Tunes every kernel of a sweep file at every shape that its models ask for. Near shapes are tuned one after the other, so that each "
        "search begins with what the one before found. A journal next to the file records what is done, and the same command resumes "
        "where an earlier one ended.\n\n"
        "  tune fleet sweep models.toml --dry-run\n  tune fleet sweep models.toml --budget 2h",
        fleet.sweep,
        "fleet.sweep:sweep",
    ),
    Command(
        "bench-search",
        "score every search strategy on recorded spaces, without a device",
        "Runs searches on recordings of spaces that were measured before, and says which strategy finds good schedules soonest.",
        others.bench_search,
        "machine.bench_search:run",
    ),
    Command(
        "devices",
        "devices and what they can do",
        "Lists every device with its target, compiler and measured limits. If a device cannot be used, says why, and what helps.",
        others.devices,
        "machine.devices:run",
        paged=True,
    ),
    Command(
        "kernels",
        "named kernels, their shapes and dtypes",
        "Lists the named kernels with their shapes and element types.",
        others.kernels,
        "machine.devices:kernels",
        paged=True,
    ),
    Command(
        "completion",
        "completion of commands and options for a shell",
        "Prints what a shell needs to complete commands, options and names of kernels. It needs argcomplete (pip install "
        "'tilewright[completion]').\n\n"
        '  eval "$(tune completion bash)"        # in ~/.bashrc; zsh likewise, in ~/.zshrc\n'
        "  tune completion fish > ~/.config/fish/completions/tune.fish",
        others.completion,
        "machine.completion:run",
    ),
)
"""Every subcommand, in the order of the help."""
_LEVELS = (("command", "COMMAND"), ("action", "ACTION"), ("action2", "ACTION"))
"""Where the word of each level is in the arguments, and what the help calls it."""


@functools.cache
def build_parser() -> Grammar:
    """The whole grammar of `tune`, made once: making it takes longer than most commands that only read."""
    p = Grammar(
        prog="tune",
        description="Search for the fastest way to run a kernel on this machine, verify it, and remember it.",
        epilog="start with:  tune run matmul --budget 20s\n\n" + EXITS,
    )
    p.add_argument("--version", action="version", version=f"tilewright {__version__}")
    groups = {"": p.add_subparsers(dest="command", metavar="COMMAND", parser_class=Grammar)}
    for c in COMMANDS:
        above, _, word = c.name.rpartition(" ")
        made = groups[above].add_parser(word, help=c.line, description=c.text, epilog=c.epilog or None)
        if c.runs:
            c.arguments(made)
            made.set_defaults(_command=c)
        else:
            dest, metavar = _LEVELS[c.name.count(" ") + 1]
            groups[c.name] = made.add_subparsers(dest=dest, required=True, metavar=metavar, parser_class=Grammar)
    return p
