"""The arguments of commands about one schedule: show, bench, pin, unpin, explain, check, bisect."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentTypeError

from .parser import DTYPES, OPTS, Grammar, Renamed, add_allow, add_kernel, add_output, add_random, add_where, at_least

STAGES = ("kernel", "normal", "schedule", "program", "passes", "source", "asm", "ptx", "sass")
ONLY_CUDA = ("ptx", "sass")
"""Stages of NVIDIA GPUs."""
_CHECKED = "a named kernel (`tune kernels`) or my.py:function"


def _stages(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(w.strip() for w in text.split(",")))
    wrong = [w for w in words if w not in (*STAGES, "all")]
    if wrong:
        raise ArgumentTypeError(f"there is no stage {wrong[0][:40]!r}; stages are {', '.join(STAGES)}, several with commas between, or all")
    return words


def show(p: Grammar) -> None:
    """`tune show`."""
    add_kernel(p, required=True)
    add_where(p, device="cpu")
    add_allow(p)
    p.add_argument(
        "--target",
        metavar="NAME",
        help="render for this target (znver5, neon, sm_90a, opencl-gpu ...), which need not be here; C with --device cpu:c",
    )
    chosen = p.add_mutually_exclusive_group()
    chosen.add_argument("--opts", metavar="OPTS", help=f"the schedule, {OPTS}; default: best")
    chosen.add_argument("--seed-schedule", action=Renamed, new="--opts", dest="opts", fixed="start", default=SUPPRESS)
    chosen.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help="what is different between two schedules (as for --opts): options, predicted and measured times, and source",
    )
    only = p.add_mutually_exclusive_group()
    only.add_argument("--source", action="store_true", help="print the rendered source and nothing else")
    only.add_argument(
        "--stage",
        type=_stages,
        metavar="WHICH",
        help=f"print a stage of the way to machine code and nothing else: {', '.join(STAGES)}; several with commas, or all",
    )


def bench(p: Grammar) -> None:
    """`tune bench`."""
    add_kernel(p, required=True)
    add_where(p, device="cpu", every=True)
    add_allow(p)
    p.add_argument("--opts", action="append", metavar="OPTS", help=f"a schedule, {OPTS}; as often as there are schedules; default: best")
    p.add_argument(
        "--against",
        metavar="WHAT",
        help="what all are compared with, in place of the first schedule: start, best, numpy, torch, or torch:PYTHON (an interpreter "
        "that has it)",
    )
    p.add_argument("--rounds", type=at_least(3), default=9, metavar="N", help="paired rounds of each comparison; default 9")
    p.add_argument(
        "--budget", default="1m", metavar="TIME", help="time for the comparisons (default 1m); three rounds of each are made anyway"
    )
    add_random(p, "the inputs")
    add_output(p, "table", "json")


def pin(p: Grammar) -> None:
    """`tune pin`."""
    add_kernel(p, required=True)
    add_where(p, device="cpu", every=True)
    add_allow(p)
    p.add_argument("--opts", required=True, metavar="OPTS", help=f"the schedule, {OPTS}")
    add_random(p, "the inputs")


def unpin(p: Grammar) -> None:
    """`tune unpin`."""
    add_kernel(p, required=True)
    add_where(p, device="cpu", every=True)
    add_allow(p)


def explain(p: Grammar) -> None:
    """`tune explain`."""
    add_kernel(p, required=True)
    add_where(p, device="cpu")
    add_allow(p)
    p.add_argument("--opts", metavar="OPTS", help=f"the schedule, {OPTS}; default: best, which must be in the cache")
    p.add_argument("--budget", default="30s", metavar="TIME", help="time to measure for (default 30s)")
    p.add_argument(
        "--starts",
        action="store_true",
        help="which start rules apply, what each proposes, what the model says of it, and what is chosen; measures nothing",
    )
    p.add_argument("--target", metavar="NAME", help="with --starts: for this target, which need not be here")
    add_output(p, "table", "json")


def check(p: Grammar) -> None:
    """`tune check`."""
    add_kernel(p, required=True, help=_CHECKED)
    p.add_argument(
        "--shape",
        metavar="m=..,n=..",
        help="extents by name; default: a small, odd shape (checking takes about a microsecond an operation)",
    )
    p.add_argument("--dtype", help=DTYPES)
    where = p.add_mutually_exclusive_group()
    where.add_argument(
        "--target",
        default="opencl-gpu",
        metavar="NAME",
        help="lower for this target (opencl-gpu, opencl-cpu, sm_80, host ...); default opencl-gpu",
    )
    where.add_argument("--device", help="lower for this device's target (`tune devices`)")
    p.add_argument(
        "--opts", metavar="OPTS", help="check this schedule, in short form ('Lm8 Un4'), as JSON, or start; default: every start schedule"
    )
    add_random(p, "the inputs")


def bisect(p: Grammar) -> None:
    """`tune bisect`."""
    add_kernel(p, required=True, help=_CHECKED)
    p.add_argument("--shape", metavar="m=..,n=..", help="extents by name; default: a small, odd shape")
    p.add_argument("--dtype", help=DTYPES)
    p.add_argument("--opts", required=True, metavar="OPTS", help="the options that are wrong, in short form ('Un16 Pm') or as JSON")
    where = p.add_mutually_exclusive_group()
    where.add_argument("--device", default="cpu", help="the device that is wrong (`tune devices`); default cpu")
    where.add_argument("--target", metavar="NAME", help="check the Programs for this target only, which need not be here")
    p.add_argument("--threads", type=at_least(1), metavar="N", help="threads used on the device; default: its own")
    add_random(p, "the inputs")
