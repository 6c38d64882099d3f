"""The command as a process of its own, and every process that it starts: they are found by a mark in their
environment, so none can hide."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.measure.processes import starter

from .kinds import Verdict

MARK = "TILEWRIGHT_FAULTS_RUN"
SLOW = float(os.environ.get("TILEWRIGHT_FAULTS_SLOW", "1"))
"""How many times longer than on an idle machine things may take before a run counts as hung."""
HERE = Path(__file__).resolve().parent
FLAKY = f"{HERE / 'flaky.py'}:FlakyDevice"
ENDS_S = 60.0
"""After so many seconds beyond its budget a run hangs."""


@dataclass
class Tool:
    """One run of the command. `said` is the file with what it printed."""

    process: subprocess.Popen[bytes]
    mark: str
    said: Path
    words: tuple[str, ...]

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        """What it printed so far."""
        return self.said.read_text(errors="replace")

    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, v: Verdict, seconds: float = ENDS_S) -> int | None:
        """Its exit code (negative: the signal); None, and everything killed, where it does not end."""
        try:
            return self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            v.fail("hung", f"`tune {' '.join(self.words[:6])} …` did not end: {self.tail()}; {self.where()}")
            self.clean(None)
            return None

    def where(self) -> str:
        """What its processes are doing, for a note on one that hangs."""
        parts = []
        for pid, role in processes(self.mark).items():
            try:
                parts.append(
                    f"{role} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]} in {Path(f'/proc/{pid}/wchan').read_text()}"
                )
            except OSError:
                continue
        return ", ".join(parts)

    def tail(self) -> str:
        """The last of its output, on one line."""
        return " / ".join(self.output().strip().splitlines()[-4:])[-500:]

    def clean(self, v: Verdict | None, seconds: float = 5.0) -> None:
        """Count what is left of it after a while as orphans, and kill that. With None, only kill."""
        end = time.monotonic() + seconds * SLOW
        while v is not None and processes(self.mark) and time.monotonic() < end:
            time.sleep(0.05)
        left = processes(self.mark)
        if left and v is not None:
            v.fail("orphans", f"left running: {', '.join(left.values())}", len(left))
        while left := processes(self.mark):
            for pid in left:
                kill(pid, signal.SIGKILL)
            self.process.poll()
            time.sleep(0.01)
        self.process.wait()


def start(scratch: Path, *words: str, env: Mapping[str, str | None] | None = None) -> Tool:
    """`tune WORDS` in a session of its own, in the folder `scratch`, with a home there too."""
    mark = uuid.uuid4().hex
    said = scratch / f"said-{mark[:8]}.txt"
    with open(said, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tilewright.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=scratch,
            env=surroundings(scratch, {MARK: mark, **(env or {})}),
            start_new_session=True,
            preexec_fn=_as_from_a_shell,
        )
    return Tool(process, mark, said, words)


def _as_from_a_shell() -> None:
    """Signals as a shell leaves them: what this process ignores (under nohup, say) would otherwise be ignored by the command too."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def surroundings(scratch: Path, more: Mapping[str, str | None]) -> dict[str, str]:
    """The environment of a run: a home in `scratch`, no settings of ours, and `more` (None removes)."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TILEWRIGHT_", "XDG_"))}
    env.update(HOME=str(home(scratch)), COLUMNS="300", NO_COLOR="1", PYTHONWARNINGS="default::ResourceWarning")
    env.update({k: v for k, v in more.items() if v is not None})
    return {k: v for k, v in env.items() if more.get(k, "") is not None}


def home(scratch: Path) -> Path:
    """The run's home folder, in which the machine's limits are known (made-up ones, so that no run takes seconds to measure them)."""
    found = scratch / "home"
    if not found.exists():
        from tilewright import devices
        from tilewright.devices import Limits, Rates
        from tilewright.devices import limits as kept
        from tilewright.devices.cpu.device import CpuDevice

        cpu = devices.get("cpu")
        assert isinstance(cpu, CpuDevice)
        rates = Rates(peak_f32=1.5e11, peak_f64=7e10, read=1.5e10, copy=1.2e10, copy_nt=1.5e10, triad=1.2e10, triad_nt=1.5e10)
        file = found / ".local" / "state" / "tilewright" / kept.path(cpu._identity()).name
        kept.write(file, Limits("2000-01-01T00:00:00+00:00", {1: rates, cpu.threads: rates}), cpu._identity())
    return found


def processes(mark: str) -> dict[int, str]:
    """The living processes of a run by number, with what each is: main, runner, child (of the runner, where
    candidates run), builder, starter, other."""
    found: dict[int, tuple[int, str]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            with open(f"/proc/{entry.name}/environ", "rb") as f:
                if mark.encode() not in f.read():
                    continue
            with open(f"/proc/{entry.name}/cmdline", "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
            with open(f"/proc/{entry.name}/stat") as f:
                start, _, rest = f.read().rpartition(")")
                parts = rest.split()
        except OSError:
            continue
        if parts[0] not in "ZX":
            found[int(entry.name)] = (int(parts[1]), _role(words, start.partition("(")[2]))
    return {
        pid: "child" if role == "runner" and found.get(parent, (0, ""))[1] == "runner" else role for pid, (parent, role) in found.items()
    }


def _role(words: list[str], name: str) -> str:
    """By what the starter calls those that it forks, or by the command line."""
    forked = {made.decode(): module.rpartition(".")[2] for module, made in starter.NAMES.items()}
    if name in forked:
        return forked[name]
    roles = {
        "tilewright.measure.processes.runner": "runner", "tilewright.measure.processes.builder": "builder", "tilewright.measure.processes.starter": "starter",
        "tilewright.cli": "main",
    }  # fmt: skip
    return next((role for module, role in roles.items() if module in words), "other")


def pick(mark: str, role: str) -> list[int]:
    """The run's processes of one role."""
    return [pid for pid, r in processes(mark).items() if r == role]


def kill(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False where the process has gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def until(what: Callable[[], bool], seconds: float) -> bool:
    """Wait for something, so long at most; whether it came."""
    end = time.monotonic() + seconds * SLOW
    while not what():
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)  # each look reads all of /proc
    return True
