"""Steps that are done once, over several calls of a script: what is done is written down, a step that fails is too,
and the next one goes on. Used by `gpu_first_hour.py`."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

DONE = frozenset({"ok", "failed", "timeout"})
"""How a step ends that is not done again. ('cut': the call had no time left for it; the next call does it.)"""
_TAIL = 60
_GRACE_S = 5.0


@dataclass(frozen=True)
class Step:
    """A command that prints JSON lines. `expected`: seconds that it usually takes; `limit`: after which it is ended;
    `needs`: a file that it cannot do without."""

    name: str
    title: str
    command: tuple[str, ...]
    expected: float
    limit: float
    needs: str = ""


@dataclass(frozen=True)
class StepRun:
    """How a step ended: 'ok', 'failed', 'timeout', 'cut', or 'left out' for want of time. `rows`: the JSON objects
    that it printed; `tail`: the last lines of everything else."""

    name: str
    status: str
    seconds: float = 0.0
    code: int | None = None
    rows: tuple[dict[str, Any], ...] = ()
    tail: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    date: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


class StepFile:
    """What is done, in a file of JSON that each step replaces whole: a call that is killed loses the step under way
    only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spent = 0.0
        self.runs: dict[str, StepRun] = {}
        if path.is_file():
            data = json.loads(path.read_text())
            self.spent = float(data["spent"])
            self.runs = {name: StepRun(**{**r, "rows": tuple(r["rows"]), "tail": tuple(r["tail"])}) for name, r in data["runs"].items()}

    def put(self, run: StepRun) -> None:
        """Remember how a step ended, and the time that went by."""
        self.runs[run.name] = run
        self.spent += run.seconds
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"spent": self.spent, "runs": {n: asdict(r) for n, r in self.runs.items()}}, indent=1) + "\n")
        os.replace(new, self.path)

    def done(self, step: Step) -> bool:
        """Whether a step is not to be done again."""
        return step.name in self.runs and self.runs[step.name].status in DONE


def play(
    steps: Sequence[Step],
    state: StepFile,
    call_s: float,
    total_s: float,
    env: Mapping[str, str],
    told: Callable[[StepRun], None],
    look: Callable[[], dict[str, Any]] = dict,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Do what is not done, for at most `call_s` seconds now and `total_s` over all calls; whether everything is done
    or left out for want of the total. A step begins only where the time it is expected to take is left; `told` hears
    of each; `look` is asked for the device's clocks before and after."""
    begin, before = clock(), state.spent
    for step in steps:
        if state.done(step):
            continue
        now, whole = call_s - (clock() - begin), total_s - before - (clock() - begin)
        if whole < step.expected:
            run = StepRun(step.name, "left out", command=step.command, tail=(f"the {total_s:.0f} s of all steps are over",))
        elif now < step.expected:
            return False
        else:
            room = min(step.limit, now)
            run = carry_out(step, room, env, look)
            if run.status == "timeout" and room < step.limit:
                run = replace(run, status="cut")
        state.put(run)
        told(run)
        if run.status == "cut":
            return False
    return True


def carry_out(step: Step, limit: float, env: Mapping[str, str], look: Callable[[], dict[str, Any]] = dict) -> StepRun:
    """Run one step's command, with everything that it starts, for at most `limit` seconds."""
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if step.needs and not Path(step.needs).exists():
        return StepRun(step.name, "failed", tail=(f"{Path(step.needs).name} is not there",), command=step.command, date=date)
    begin, seen = time.monotonic(), look()
    try:
        process = subprocess.Popen(
            step.command,
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as e:
        return StepRun(step.name, "failed", tail=(str(e),), command=step.command, date=date)
    try:
        text, _ = process.communicate(timeout=limit)
        status = "failed" if process.returncode else "ok"
    except subprocess.TimeoutExpired:
        text, status = _ended(process), "timeout"
    except BaseException:  # Ctrl-C: the next call does this step
        _ended(process)
        raise
    rows, rest = parted(text)
    return StepRun(
        step.name,
        status,
        round(time.monotonic() - begin, 1),
        process.returncode,
        rows,
        rest,
        step.command,
        date,
        seen,
        look(),
    )


def _ended(process: subprocess.Popen[str]) -> str:
    """What a process that takes too long had printed; it is asked to end, then made to, with all that it started."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            return process.communicate(timeout=_GRACE_S)[0]
        except subprocess.TimeoutExpired:
            continue
    return ""


def parted(text: str) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """(the JSON objects among lines, the last of the others)."""
    rows: list[dict[str, Any]] = []
    rest: list[str] = []
    for line in text.splitlines():
        try:
            found = json.loads(line) if line.startswith("{") else None
        except ValueError:
            found = None
        if isinstance(found, dict):
            rows.append(found)
        else:
            rest.append(line)
    return tuple(rows), tuple(rest[-_TAIL:])
