"""`tune profile`: run a script, and say where the time of its kernels goes and what would gain most if it were tuned."""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ...measure.roofline import roofline
from ..terminal.output import write
from ..terminal.style import console, duration, percent, rate, soft_wrapped, table

if TYPE_CHECKING:
    from rich.text import Text

    from ...ir.kernel import Kernel
    from ...tensor.capture.kernel_lookup import FoundKernel
    from ...tensor.running.observers import Event
    from ..terminal.style import Listing


# profiled ---------------------------------------------------------------------------------------------------
# What a script's kernels did, gathered call by call: a row for each kernel, and what the rest of the time was.


MOST_TRACED = 1_000_000
"""Events that a trace holds at most."""
TUNED = ("exact", "NumPy", "loop")
"""Origins of what a search would not change."""
_TRACKS = {"kernel": 1, "numpy": 1, "graph": 2, "build": 2}


@dataclass(frozen=True)
class ProfileRow:
    """All calls of one kernel. `seconds`: together; `flops` and `nbytes`: of one call (bytes: compulsory traffic);
    `roofline_s`: the least that one call can take, None where the machine's limits are not known; `origin`: where the
    schedule is from ('exact', 'stale', 'nearest', 'start'; 'NumPy' for its own code, 'loop' for kernels that a loop runs)."""

    name: str
    device: str
    calls: int
    seconds: float
    flops: int
    nbytes: int
    roofline_s: float | None
    origin: str
    threads: int

    @property
    def gflops(self) -> float:
        """10⁹ operations a second."""
        return self.flops * self.calls / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes_s(self) -> float:
        """10⁹ bytes a second, of compulsory traffic."""
        return self.nbytes * self.calls / self.seconds / 1e9 if self.seconds else 0.0


@dataclass
class _Sum:
    name: str
    device: str
    kernel: Kernel | FoundKernel | None
    kind: str = "kernel"
    calls: int = 0
    seconds: float = 0.0
    threads: int = 0


@dataclass
class Profile:
    """`told` is the observer. `keep`: whether events are kept for a trace; `wall`: seconds of the whole script, which
    began at `begin`."""

    keep: bool = False
    wall: float = 0.0
    begin: float = 0.0
    dropped: int = 0
    events: list[Event] = field(default_factory=list)
    _sums: dict[tuple[str, str], _Sum] = field(default_factory=dict)
    _named: dict[int, tuple[Any, str]] = field(default_factory=dict)
    _rest: dict[str, tuple[int, float]] = field(default_factory=dict)

    def told(self, event: Event) -> None:
        """Count an event."""
        if self.keep:
            if len(self.events) < MOST_TRACED:
                self.events.append(event)
            else:
                self.dropped += 1
        if event.kind in ("build", "graph"):
            calls, seconds = self._rest.get(event.kind, (0, 0.0))
            self._rest[event.kind] = calls + 1, seconds + event.seconds
            return
        key = f"{event.kind} {event.name}" if event.subject is None else self._identity(event.subject)
        row = self._sums.setdefault((key, event.device), _Sum(event.name, event.device, event.subject, event.kind))
        row.calls += 1
        row.seconds += event.seconds
        row.threads = max(row.threads, event.threads)

    def _identity(self, kernel: Kernel | FoundKernel) -> str:
        """Equal for kernels that mean the same; remembered by object, which is kept so that its id stays its own."""
        found = self._named.get(id(kernel))
        if found is None:
            from ...plan import canonical_of
            from ...tensor.capture.kernel_lookup import FoundKernel

            name = kernel.artefact if isinstance(kernel, FoundKernel) else canonical_of(kernel).identity
            found = self._named[id(kernel)] = kernel, name
        return found[1]

    def rows(self) -> list[ProfileRow]:
        """The most time first."""
        return sorted((_row(s) for s in self._sums.values()), key=lambda r: -r.seconds)

    def others(self) -> dict[str, tuple[int, float]]:
        """(how often, seconds) of what was no kernel: building, partition, and the rest, which is Python."""
        found = {}
        if "build" in self._rest:
            found["looking up and building kernels"] = self._rest["build"]
        if "graph" in self._rest:
            found["making kernels of graphs"] = self._rest["graph"]
        known = sum(s.seconds for s in self._sums.values()) + sum(seconds for _, seconds in self._rest.values())
        found["Python, and all else"] = 0, max(0.0, self.wall - known)
        return found

    def to_json(self) -> dict[str, Any]:
        """Seconds, bytes, counts."""
        rows = [{**asdict(r), "gflops": r.gflops, "gbytes_s": r.gbytes_s} for r in self.rows()]
        others = {label: {"calls": n, "seconds": s} for label, (n, s) in self.others().items()}
        gain = [{"name": r.name, "seconds": s} for r, s in gains(self.rows())]
        return {"schema": 1, "seconds": self.wall, "kernels": rows, "others": others, "gains": gain}

    def trace(self) -> dict[str, Any]:
        """Every event in the Trace Event Format of Chrome and Perfetto; times in microseconds from the script's begin."""
        rows = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}
            for tid, name in ((1, "kernels"), (2, "graphs and builds"))
        ]
        for e in self.events:
            about = {"kind": e.kind, "device": e.device}
            rows.append(
                {
                    "name": e.name, "cat": e.kind, "ph": "X", "pid": 1, "tid": _TRACKS[e.kind],
                    "ts": 1e6 * (e.start - self.begin), "dur": 1e6 * e.seconds, "args": about,
                }
            )  # fmt: skip
        return {"traceEvents": rows, "displayTimeUnit": "ns"}


def gains(rows: Sequence[ProfileRow]) -> list[tuple[ProfileRow, float]]:
    """What would gain most if tuned: kernels whose schedule is not their own, by how many seconds they are above their
    roofline. (None reaches it: this is the most that there is to gain.)"""
    found = [(r, r.seconds - r.calls * (r.roofline_s or 0.0)) for r in rows if r.origin not in TUNED]
    return sorted(((r, s) for r, s in found if s > 0), key=lambda pair: -pair[1])


def _row(s: _Sum) -> ProfileRow:
    if s.kernel is None:
        return ProfileRow(s.name, s.device, s.calls, s.seconds, 0, 0, None, "NumPy" if s.kind == "numpy" else "loop", 1)
    from ...devices import get
    from ...heuristics import necessary
    from ...ir.cost import cost
    from ...tensor.capture.kernel_lookup import FoundKernel
    from ...tensor.running.compiled_kernels import any_for

    place = get(s.device)
    limits = place.limits()
    if isinstance(s.kernel, FoundKernel):
        k, threads = s.kernel, s.threads or 1
        least = None if limits is None else max(k.nbytes / limits.bandwidth(threads, writes=False), k.flops / limits.peak(threads))
        return ProfileRow(s.name, s.device, s.calls, s.seconds, k.flops, k.nbytes, least or None, k.origin, threads)
    compiled = any_for(s.kernel, s.device)
    threads = s.threads or (compiled.threads if compiled is not None else 1)
    if s.kernel.symbols:
        return ProfileRow(s.name, s.device, s.calls, s.seconds, 0, 0, None, compiled.origin if compiled else "start", threads)
    work = cost(necessary(s.kernel))
    roof = roofline(s.kernel, limits, threads, target=place.target, rotating=False).seconds if limits is not None else None
    return ProfileRow(s.name, s.device, s.calls, s.seconds, work.flops, work.bytes, roof, compiled.origin if compiled else "start", threads)


# profile ----------------------------------------------------------------------------------------------------
ORIGINS = {"exact": "green", "stale": "yellow", "tree": "green", "nearest": "yellow", "start": "magenta", "NumPy": "dim", "loop": "dim"}
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
        console().print(note, soft_wrap=True)
    if args.json:
        write(args.json, json.dumps(profile.to_json(), indent=1) + "\n")
    return code


def _script(file: str, arguments: list[str], profile: Profile) -> int:
    from ...tensor.running.observers import observing

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
        out.print(
            f"{duration(profile.wall)}, in which no kernel ran: nothing was computed with tilewright's tensors", soft_wrap=soft_wrapped(out)
        )
        return
    out.print(_table(profile, rows, limit))
    if any(r.origin and r.roofline_s is None for r in rows):
        out.print("this machine's limits are not known: `tune devices --probe` measures them, for shares of the roofline", style="dim")
    for row, seconds in gains(rows)[:3]:
        text = f"tuning {row.name} could gain up to {duration(seconds)}, {100 * seconds / max(profile.wall, 1e-9):.0f} % of the whole"
        out.print(
            f"{text}: its schedule is {'a start schedule' if row.origin == 'start' else row.origin}",
            soft_wrap=soft_wrapped(out),
        )
    if gains(rows):
        out.print('tune them with `tune run --kernel FILE.py:FUNCTION`, or `jit(tune="tune")`', style="dim", soft_wrap=soft_wrapped(out))


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
