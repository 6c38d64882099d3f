"""The command line's grammar. Only argparse is imported here, so that `tune --help` is immediate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .. import __version__
from .grammar import others, remembered, schedules
from .grammar.fleet import add_fleet
from .grammar.schedules import ONLY_CUDA, STAGES
from .grammar.search import MODES, add_run
from .grammar.sources import add_source
from .grammar.words import Grammar
from .machine import bench_search_options

__all__ = ["COMMANDS", "MODES", "ONLY_CUDA", "STAGES", "build_parser"]

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
    """A subcommand: its line in the list, its description (paragraphs; the last one may be examples), and its grammar."""

    line: str
    says: str
    add: Callable[[Grammar], None]
    epilog: str = ""


COMMANDS: dict[str, Command] = {
    "run": Command(
        "search for a kernel's best schedule",
        "Searches for the fastest schedule of a kernel on a device, verifies every candidate on its whole output, and keeps what it "
        "measured. Where the cache knows an answer from a search as thorough, it says that at once.\n\n"
        "  tune run matmul --shape m=1000,n=777,k=513 --budget 20s\n  tune run my.py:kernel --threads 1",
        add_run,
        EXITS,
    ),
    "source": Command(
        "tune a C, OpenCL or CUDA source of yours that has parameters",
        "Searches for the best values of a source's #defines and compiler flags. Every configuration's whole output is checked, and what was "
        "measured is kept. Everything may come from a T1 file instead.\n\n"
        "  tune source kernel.c --function f --param TILE=8,16,32 --param UNROLL=1..8 --args spec.toml --check reference.py:f\n"
        "  tune source --t1 convolution.json --trials 50",
        add_source,
        EXITS,
    ),
    "show": Command(
        "a schedule: its options, loop nest and source",
        "Prints a schedule as options, as a loop nest and as rendered source: the cache's best one, or the nearest, or the start schedule, or the "
        "one that --opts gives. --diff sets two beside each other.\n\n"
        "  tune show softmax\n  tune show matmul --target znver5 --opts start --source\n  tune show matmul --diff start best",
        schedules.add_show,
    ),
    "bench": Command(
        "schedules beside each other, or beside NumPy or PyTorch",
        "Verifies schedules on their whole output, times each, and compares them with the first one in paired rounds, as the finals of a "
        "search do. Nothing is written to the cache.\n\n"
        "  tune bench matmul --opts best --opts 'Um6 Un64 Pn Sb@n'\n  tune bench softmax --opts best --against numpy",
        schedules.add_bench,
    ),
    "pin": Command(
        "make a schedule the cache's answer",
        "Verifies a schedule twice, as a search's winner is, and makes it the answer for this kernel, shape, device and thread count, "
        "whatever searches find. A schedule that does not fit or is not right leaves everything as it was.\n\n"
        "  tune pin matmul --shape m=512,n=512,k=512 --opts 'Um6 Un64 Pn Sb@n'\n  tune unpin matmul --shape m=512,n=512,k=512",
        schedules.add_pin,
    ),
    "unpin": Command(
        "let go of a pinned schedule",
        "The fastest verified schedule answers again. What was measured of the pinned one stays in the cache.",
        schedules.add_unpin,
    ),
    "check": Command(
        "run a schedule where every access is checked: races, bounds, barriers, and the result",
        "Runs schedules in the interpreter of Programs, and under Oclgrind where that is installed, and finds accesses out of bounds, data "
        "races, barriers that some threads miss, values used before they were written, and wrong results. Needs no device.",
        schedules.add_check,
    ),
    "bisect": Command(
        "which pass or option makes a schedule wrong, or whether the device does",
        "Runs the Program of a wrong schedule after emission and after each pass, and names the first stage that is wrong and the fewest "
        "options that show it.",
        schedules.add_bisect,
    ),
    "report": Command(
        "what the cache holds: times, rates, share of the roofline, gain over the start schedule",
        "Lists the fastest verified schedule of every kernel. Times are of the fastest call.\n\n"
        "  tune report matmul --sort roofline\n  tune report --html report.html",
        remembered.add_report,
    ),
    "watch": Command(
        "the report's page, live in a browser, during a run",
        "Runs `tune run` or `tune source` with the words that follow, and shows the report's page at an address of this machine while it "
        "measures. Ends with the run. Without a run it shows what others measure, until Ctrl-C.\n\n"
        "  tune watch run matmul --budget 60s\n  tune watch --port 9000",
        remembered.add_watch,
    ),
    "graph": Command(
        "what a function of tensors becomes: kernels, boundaries, the rules, bytes saved",
        "Calls a function on tensors without values, and says which kernels it becomes, which rule stored each tensor, and what fusion saves.",
        others.add_graph,
    ),
    "profile": Command(
        "run a script and say where its kernels' time goes",
        "Runs a script as Python would, and prints a line for each kernel that it ran.",
        others.add_profile,
    ),
    "explain": Command(
        "what each option of a schedule is worth, measured now",
        "Measures the schedule without each of its options, and with a neighbour in the place of each, and says which limit binds the kernel.",
        schedules.add_explain,
    ),
    "plot": Command(
        "a picture of what the cache holds (needs matplotlib)",
        "Draws convergence, a roofline or outcomes of what the arguments pick.",
        remembered.add_plot,
    ),
    "cache": Command("list, explain, move or delete what is remembered", "What the cache remembers.", remembered.add_cache_commands),
    "fleet": Command(
        "tune on many machines: a scheduler, workers, who is there, certificates",
        "Joins machines into a fleet. `tune run --manifest FILE --fleet URL` then tunes each entry on a machine of its target. docs/fleet.md "
        "shows it from the beginning. It needs Dask (pip install 'tilewright[fleet]').",
        add_fleet,
    ),
    "bench-search": Command(
        "score every search strategy on recorded spaces, without a device",
        "Runs searches on recordings of spaces that were measured before, and says which strategy finds good schedules soonest.",
        bench_search_options.add,
    ),
    "devices": Command(
        "devices and what they can do",
        "Lists every device with its target, compiler and measured limits; of one that cannot be used, why, and what helps.",
        others.add_devices,
    ),
    "kernels": Command(
        "named kernels, their shapes and dtypes", "Lists the named kernels with their shapes and element types.", others.add_kernels
    ),
    "completion": Command(
        "completion of commands and options for a shell",
        "Prints what a shell needs to complete commands, options and names of kernels. It needs argcomplete (pip install "
        "'tilewright[completion]').\n\n"
        '  eval "$(tune completion bash)"        # in ~/.bashrc; zsh likewise, in ~/.zshrc\n'
        "  tune completion fish > ~/.config/fish/completions/tune.fish",
        others.add_completion,
    ),
}
"""Every subcommand, in the order of the help."""


def build_parser() -> Grammar:
    """The whole grammar of `tune`."""
    p = Grammar(
        prog="tune",
        description="Search for the fastest way to run a kernel on this machine, verify it, and remember it.",
        epilog="start with:  tune run matmul --budget 20s\n\n" + EXITS,
    )
    p.add_argument("--version", action="version", version=f"tilewright {__version__}")
    sub = p.add_subparsers(dest="command", metavar="COMMAND", parser_class=Grammar)
    for name, c in COMMANDS.items():
        c.add(sub.add_parser(name, help=c.line, description=c.says, epilog=c.epilog or None))
    return p
