"""`tune profile`: run a script, and say where the time of its kernels goes and what would gain most if it were tuned."""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import traceback
from argparse import Namespace
from typing import TYPE_CHECKING

from ...ir.errors import UsageError
from ..terminal.json_file import write
from ..terminal.style import console, duration, percent, rate, table, whole
from .profiled import MOST_TRACED, Profile, ProfileRow, gains

if TYPE_CHECKING:
    from rich.text import Text

    from ..terminal.listing import Listing

ORIGINS = {"exact": "green", "stale": "yellow", "nearest": "yellow", "seed": "magenta", "NumPy": "dim"}
_PARTS = {"matmul": "magenta", "conv": "magenta", "attention": "magenta", "softmax": "yellow", "layernorm": "yellow", "rmsnorm": "yellow",
          "logsumexp": "yellow", "sum": "yellow", "max": "yellow", "mean": "yellow", "gather": "blue", "scatter": "blue"}  # fmt: skip


def run(args: Namespace) -> int:
    """Run the script in this process, as `python FILE.py` would, and print the table after it. The exit code is the
    script's. Raises UsageError where there is no such script or a file cannot be written."""
    if not os.path.isfile(args.file):
        raise UsageError(f"there is no file {args.file}; write tune profile [--trace FILE] SCRIPT.py [its arguments]")
    profile = Profile(keep=args.trace is not None)
    code = _script(args.file, args.arguments, profile)
    _print(profile, args.limit)
    if args.trace:
        write(args.trace, json.dumps(profile.trace()) + "\n")
        note = f"wrote {args.trace}: open it in ui.perfetto.dev or chrome://tracing"
        if profile.dropped:
            note += f" (the first {MOST_TRACED} calls; {profile.dropped} more are only in the table)"
        console().print(note, soft_wrap=True, markup=False)
    if args.json:
        write(args.json, json.dumps(profile.to_json(), indent=1) + "\n")
    return code


def _script(file: str, arguments: list[str], profile: Profile) -> int:
    from ...tensor.running.observe import observing

    argv, path = sys.argv, list(sys.path)
    sys.argv = [file, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    started = time.perf_counter()
    code = 0
    try:
        with observing(profile.told):
            runpy.run_path(file, run_name="__main__")
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        if code == 1 and not isinstance(e.code, int):
            print(e.code, file=sys.stderr)
    except Exception:  # a script that fails says so as it does without a profile
        sys.stdout.flush()
        traceback.print_exc()
        code = 1
    finally:
        profile.begin, profile.wall = started, time.perf_counter() - started
        sys.argv, sys.path[:] = argv, path
    return code


def _print(profile: Profile, limit: int) -> None:
    out = console()
    rows = profile.rows()
    out.print()
    if not rows:
        out.print(f"{duration(profile.wall)}, in which no kernel ran: nothing was computed with tilewright's tensors", soft_wrap=whole(out))
        return
    out.print(_table(profile, rows, limit))
    if any(r.origin and r.roofline_s is None for r in rows):
        out.print("this machine's limits are not known: `tune devices --probe` measures them, for shares of the roofline", style="dim")
    for row, seconds in gains(rows)[:3]:
        text = f"tuning {row.name} could gain up to {duration(seconds)}, {100 * seconds / max(profile.wall, 1e-9):.0f} % of the whole"
        out.print(f"{text}: its schedule is {'a seed' if row.origin == 'seed' else row.origin}", soft_wrap=whole(out), markup=False)
    if gains(rows):
        out.print('tune them with `tune run --kernel FILE.py:FUNCTION`, or `jit(tune="tune")`', style="dim", soft_wrap=whole(out))


def _table(profile: Profile, rows: list[ProfileRow], limit: int) -> Listing:
    from rich.text import Text

    made = table(
        f"{duration(profile.wall)} in all",
        "kernel",
        ">calls?2",
        ">time",
        ">a call?3",
        ">GFLOP/s?4",
        ">GB/s?5",
        ">roofline?1",
        "schedule?6",
        ">share",
    )

    def share(seconds: float) -> str:
        return f"{100 * seconds / max(profile.wall, 1e-9):.1f} %"

    for r in rows[:limit]:
        each = r.seconds / r.calls
        figures = (rate(r.gflops, ""), rate(r.gbytes_s, ""), percent(r.roofline_s, each))
        made.add_row(
            coloured(r.name),
            str(r.calls),
            duration(r.seconds),
            duration(each),
            *figures,
            Text(r.origin, style=ORIGINS.get(r.origin, "")),
            share(r.seconds),
        )
    rest = rows[limit:]
    if rest:
        made.add_row(
            f"{len(rest)} more",
            str(sum(r.calls for r in rest)),
            duration(sum(r.seconds for r in rest)),
            *[""] * 5,
            share(sum(r.seconds for r in rest)),
        )
    for label, (calls, seconds) in profile.others().items():
        made.add_row(Text(label, style="dim"), str(calls or ""), duration(seconds), *[""] * 5, share(seconds))
    return made


def coloured(name: str) -> Text:
    """A kernel's name: contractions, reductions and indexed parts have colours of their own."""
    from rich.text import Text

    out = Text()
    for i, part in enumerate(name.split("+")):
        out.append("+" if i else "", style="dim")
        out.append(part, style=f"bold {_PARTS.get(part, 'cyan')}")
    return out
