"""Steps of a call that may be cut at any moment: each is noted before it begins and when it ends, its output goes to a file as it comes,
and everything is packed into one tar again and again. Used by `gpu_call.py`."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DONE = frozenset({"ok", "failed", "timeout"})
"""How a step ends that is not done again. ('cut': the call ended over it.)"""
_TAIL = 60
_GRACE_S, _PACK_S, _POLL_S = 3.0, 15.0, 0.05
_LIBC = ctypes.CDLL(None)
_MOST = 1 << 20
"""Bytes of a step's output that are kept: its end."""


@dataclass(frozen=True)
class Step:
    """A command that prints JSON lines, ended with all that it started after `limit` seconds."""

    name: str
    title: str
    command: tuple[str, ...]
    limit: float


@dataclass(frozen=True)
class StepRun:
    """How a step ended: 'ok', 'failed', 'timeout' (by its own limit) or 'cut' (by the call's end). `rows`: the JSON objects that it
    printed; `tail`: the last lines of everything else."""

    name: str
    status: str
    seconds: float = 0.0
    code: int | None = None
    rows: tuple[dict[str, Any], ...] = ()
    tail: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    date: str = ""

    @property
    def why(self) -> str:
        """The last thing that a step said which is not ok."""
        return "" if self.status == "ok" else next((line for line in reversed(self.tail) if line.strip()), "")


class CallFolder:
    """All that calls make, under one folder: `state.json` (how each step ended), `output/STEP.txt`, and what others put there. `pack`
    writes it to one tar, whole or not at all."""

    def __init__(self, folder: Path, tar: Path) -> None:
        self.folder, self.tar = folder, tar
        self.state = folder / "state.json"
        self.spent = 0.0
        self.runs: dict[str, StepRun] = {}
        (folder / "output").mkdir(parents=True, exist_ok=True)
        if self.state.is_file():
            data = json.loads(self.state.read_text())
            self.spent = float(data["spent"])
            self.runs = {
                name: StepRun(**{k: tuple(v) if isinstance(v, list) else v for k, v in r.items()}) for name, r in data["runs"].items()
            }

    def put(self, run: StepRun) -> None:
        """Note how a step ended (or, as 'cut', that it begins), and pack."""
        self.spent += run.seconds
        self.runs[run.name] = run
        whole = {"spent": self.spent, "runs": {n: asdict(r) for n, r in self.runs.items()}}
        _replace(self.state, (json.dumps(whole, indent=1) + "\n").encode())
        self.pack()

    def pack(self) -> None:
        """Write everything to the tar."""
        new = self.tar.with_name(f".{self.tar.name}.new")
        with tarfile.open(new, "w:gz", compresslevel=3) as t:
            t.add(self.folder, arcname=".")
        os.replace(new, self.tar)

    def resume(self, tar: Path) -> bool:
        """Go on from the tar of an earlier call, where this folder knows of none; whether it did."""
        if self.state.is_file() or not tar.is_file():
            return False
        with tarfile.open(tar) as t:
            t.extractall(self.folder, filter="data")
        self.__init__(self.folder, self.tar)  # type: ignore[misc]
        return True

    def left(self, steps: Sequence[Step]) -> list[Step]:
        """What is to be done, in order; what a call has cut before comes last."""
        todo = [s for s in steps if s.name not in self.runs or self.runs[s.name].status not in DONE]
        return [s for s in todo if s.name not in self.runs] + [s for s in todo if s.name in self.runs]


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    os.replace(new, path)


def play(steps: Sequence[Step], calls: CallFolder, until: float, env: Mapping[str, str], told: Callable[[StepRun], None]) -> bool:
    """Do what is left, in order, until the time `until` of `time.monotonic`; whether all is done. A step begins where half of its limit
    is left; one that has no room is passed over, and comes first in the next call."""
    for step in calls.left(steps):
        room = until - time.monotonic()
        if room < step.limit / 2:
            continue
        run = carry_out(step, min(step.limit, room), env, calls)
        if run.status == "timeout" and room < step.limit:
            run = StepRun(**{**asdict(run), "status": "cut"})
        told(run)
        calls.put(run)
    return not calls.left(steps)


def carry_out(step: Step, limit: float, env: Mapping[str, str], calls: CallFolder) -> StepRun:
    """Run a step's command for at most `limit` seconds, its output in a file."""
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    calls.put(StepRun(step.name, "cut", tail=("the call ended over this step",), command=step.command, date=date))
    output, begin = calls.folder / "output" / f"{step.name}.txt", time.monotonic()
    status, code = "ok", None
    with output.open("wb") as file:
        try:
            # a call that is killed takes its step along: nothing else may hold the GPU when the next one begins
            process = subprocess.Popen(
                step.command, env=dict(env), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, preexec_fn=_die_with_us
            )  # fmt: skip
        except OSError as e:
            return StepRun(step.name, "failed", tail=(str(e),), command=step.command, date=date)
        try:
            status = _wait(process, begin + limit, calls)
        finally:
            _end(process)
    code = process.returncode
    text = output.read_bytes()[-_MOST:].decode(errors="replace")
    output.write_text(text)
    rows, rest = parted(text)
    took = round(time.monotonic() - begin, 1)
    return StepRun(step.name, "failed" if status == "ok" and code else status, took, code, rows, rest, step.command, date)


def _die_with_us() -> None:
    """In a child before its command: SIGKILL when this process ends (prctl(2), PR_SET_PDEATHSIG)."""
    _LIBC.prctl(1, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], until: float, calls: CallFolder) -> str:
    packed = time.monotonic()
    while process.poll() is None:
        if time.monotonic() >= until:
            return "timeout"
        if time.monotonic() - packed > _PACK_S:
            calls.pack()
            packed = time.monotonic()
        time.sleep(_POLL_S)
    return "ok"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of a step: it is asked, then made to. What does not end (it stands still inside a driver) is left behind."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)


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
