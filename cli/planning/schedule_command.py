"""`tune plan --schedule`: one pipeline schedule, simulated and drawn."""

from __future__ import annotations

import json
import math
import re
import shutil
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ..terminal.output import write
from ..terminal.style import bytes_text, duration

if TYPE_CHECKING:
    from ...placement.pipeline_schedule import PipelineSchedule
    from ...placement.simulator import Timeline

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def run(args: Namespace) -> int:
    """Simulate it, say what it costs, and write what is asked for."""
    from ...placement import drawings
    from ...placement.pipeline_schedule import PartCosts, equal_parts
    from ...placement.simulator import simulate

    times = numbers(args.times or "1,1,1,0", 4, "--times", "18.5,18.1,9.3,0.6: milliseconds of F, B, W and a transfer")
    f, b, w, c = (ms / 1e3 for ms in times)
    held = (1.0, 1.0) if args.held is None else tuple(size(part, "--held") for part in pair(args.held))
    part, found = PartCosts(f, b, w, held=held[0], held_weight=held[1]), None
    memory = math.inf if args.memory is None else size(args.memory, "--memory")
    if args.schedule == "search":
        from ...placement.schedule_search import search_schedule

        stages, layout = _best_schedule(args), args.layout or "one-way"
        per = 2 if layout == "v" else 1
        costs = equal_parts(stages * per, part.divided(per), c)
        found = search_schedule(stages, args.microbatches, costs, memory, layout, args.seconds or 5)
        line = found.line
    else:
        schedule = _schedule(args)
        per = schedule.parts // schedule.stages
        line = simulate(schedule, equal_parts(schedule.parts, part.divided(per), c))
        if max(line.memory) > memory * (1 + 1e-9):
            raise UsageError(f"{schedule.name} holds {_amount(max(line.memory), args)} on a stage, more than --memory {args.memory}")
    for path, text in ((args.svg, drawings.svg), (args.trace, drawings.perfetto)):
        if path is not None:
            write(path, text(line))
    if args.save is not None:
        write(args.save, json.dumps(schedule.to_json()) + "\n")
    if args.json is not None:
        proved = {} if found is None else {"proven": found.proven, "bound_s": found.bound, "gap": found.gap, "tried": found.tried}
        write(args.json, json.dumps({"schema": 1, **facts(line), **proved}, indent=1) + "\n")
    if args.json != "-":
        _print(line, args)
        if found is not None:
            proof = (
                "nothing is faster: proven"
                if found.proven
                else f"not proven: at most {1 - found.bound / line.step:.2%} of a step could be saved"
            )
            print(f"search      {found.tried} schedules in {duration(found.seconds)}; {proof}")
    return 0


def _best_schedule(args: Namespace) -> int:
    if args.stages is None or args.microbatches is None:
        raise UsageError(f"{args.schedule} needs --stages and --microbatches")
    if args.chunks is not None:
        raise UsageError("--chunks is for interleaved; --layout says how a search lays out the model")
    return int(args.stages)


def _amount(held: float, args: Namespace) -> str:
    return f"{held:g} microbatches" if args.held is None else bytes_text(int(held))


def _schedule(args: Namespace) -> PipelineSchedule:
    from ...placement.handcrafted import SCHEDULES, generate
    from ...placement.pipeline_schedule import PipelineSchedule

    named = args.schedule
    if args.layout is not None or args.seconds is not None:
        raise UsageError("--layout and --seconds are for --schedule search")
    if named in SCHEDULES:
        if args.stages is None or args.microbatches is None:
            raise UsageError(f"{named} needs --stages and --microbatches")
        return generate(named, args.stages, args.microbatches, args.chunks)
    if not named.endswith(".json"):
        raise UsageError(f"there is no pipeline schedule {named!r}; there are {', '.join(SCHEDULES)}, search, and FILE.json of --save")
    if args.stages is not None or args.microbatches is not None or args.chunks is not None:
        raise UsageError("a schedule in a file has its own --stages, --microbatches and --chunks: leave them out")
    try:
        text = Path(named).read_bytes()
    except OSError as e:
        raise UsageError(f"cannot read {named}: {e.strerror}") from None
    return PipelineSchedule.from_json(text)


def facts(line: Timeline) -> dict[str, Any]:
    """What there is to say of a time line, in seconds and in bytes (or microbatches, where no sizes are known)."""
    s = line.schedule
    return {
        "schedule": s.name,
        "stages": s.stages,
        "microbatches": s.microbatches,
        "chunks": s.chunks,
        "step_s": line.step,
        "makespan_s": line.makespan,
        "bubble": line.bubble,
        "idle_s": list(line.idle),
        "memory": list(line.memory),
        "in_flight": [n / s.chunks if len(s.routes) == 1 else n for n in line.in_flight],
    }


def _print(line: Timeline, args: Namespace) -> None:
    from ...placement import drawings

    s = line.schedule
    print(drawings.text(line, min(shutil.get_terminal_size((100, 24)).columns, 200)))
    print(f"{s.name}: {s.stages} stages, {s.microbatches} microbatches" + (f", {s.chunks} chunks a stage" if s.chunks > 1 else ""))
    print(f"a step      {duration(line.step)}, and {duration(line.makespan)} from the first start to the last end")
    print(f"bubble      {line.bubble:.4f} of a step: the idlest stage waits {duration(max(line.idle))}")
    chunks = s.chunks if len(s.routes) == 1 else 1
    most = max(line.in_flight) / chunks
    print(f"activations of at most {most:g} microbatches on a stage" + (f": {bytes_text(int(max(line.memory)))}" if args.held else ""))


def numbers(text: str, n: int, flag: str, example: str) -> list[float]:
    """`n` numbers, not negative. Raises UsageError."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != n or not all(math.isfinite(x) and 0 <= x < 1e12 for x in found):
        raise UsageError(f"cannot read {flag} {text!r}; write {n} numbers, such as {example}")
    return found


def pair(text: str) -> list[str]:
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(f"cannot read --held {text!r}; write two sizes, such as 300MB,100MB")
    return parts


def size(text: str, flag: str) -> float:
    """Bytes of a text such as 2GB or 512MiB. Raises UsageError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or len(found[1]) > 18:
        raise UsageError(f"cannot read {flag} {text!r} as a size; write 2GB or 512MiB")
    unit: int = (1024 if found[3] else 1000) ** " KMGT".index(found[2].upper() or " ")
    return float(found[1]) * unit
