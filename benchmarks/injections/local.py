"""A fleet on this machine: a scheduler, and workers that stand for machines of their own (each has its own lock for timings)."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.kinds import Verdict
from faults.tool import Tool, kill, processes, start, until
from tilewright.fleet import tls
from tilewright.fleet.dask_engine import DaskEngine
from tilewright.ir.errors import FleetError

from .device import LOG, WATCHED

BEGINS_S = 60.0
"""Seconds in which a process of the fleet has to be there."""
WORKING = ("runner", "child", "builder")
"""Processes that a worker has only while it is on a kernel."""
CALL_S = 2e-4
"""Seconds of a call on the scripted device."""


@dataclass
class LocalFleet:
    """`secured`: over TLS, else --insecure. `workers`: the commands `tune fleet worker`, by the name of their machine."""

    scratch: Path
    secured: bool
    port: int = 0
    scheduler: Tool | None = None
    workers: dict[str, Tool] = field(default_factory=dict)
    ended: list[Tool] = field(default_factory=list)
    """Commands that were ended or killed: nothing of them may be left."""

    @property
    def url(self) -> str:
        return f"{'tls' if self.secured else 'tcp'}://127.0.0.1:{self.port}"

    @property
    def script(self) -> Path:
        """By which the device behaves."""
        return self.scratch / "script.json"

    @property
    def log(self) -> Path:
        """Of what the device timed."""
        return self.scratch / "timed.txt"

    @property
    def env(self) -> dict[str, str | None]:
        """Of every process that takes part."""
        return {"TILEWRIGHT_FLEET_TLS": str(self.scratch / "tls")}

    def security(self) -> Any:
        """Dask's, of a client."""
        return tls.security(self.url, "client", self.scratch / "tls")

    # coming and going -----------------------------------------------------------------------------------------------
    def begin(self, machines: int) -> None:
        """Raises RuntimeError where they do not come up."""
        if self.secured:
            tls.make(self.scratch / "tls")
        (self.scratch / "tmp").mkdir()
        self.log.touch()
        self.behave()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = int(s.getsockname()[1])
        self.start_scheduler()
        for i in range(machines):
            self.join(f"host{i}")
        self.whole()

    def behave(self, *rules: dict[str, Any], **more: Any) -> None:
        """What the device does from now on."""
        self.script.write_text(json.dumps({"time": CALL_S, "rules": rules, **more}))

    def start_scheduler(self) -> None:
        """On the same port as before. Raises RuntimeError."""
        how = ("--tls", str(self.scratch / "tls")) if self.secured else ("--insecure",)
        words = ("fleet", "scheduler", "--host", "127.0.0.1", "--port", str(self.port), *how)
        tool = self.scheduler = start(self.scratch, *words, env=self.env)
        until(lambda: "workers join" in tool.output() or not tool.running(), BEGINS_S)
        if not tool.running():
            raise RuntimeError(f"no scheduler: {tool.tail()}")

    def join(self, machine: str, *how: str) -> None:
        """One more machine; without `how`, with the watched device."""
        files = {"TILEWRIGHT_FAKE_SCRIPT": str(self.script), LOG: str(self.log)}
        own = {"XDG_STATE_HOME": str(self.scratch / f"state-{machine}"), "TMPDIR": str(self.scratch / "tmp")}
        what = how or ("--device", WATCHED)
        self.workers[machine] = start(self.scratch, "fleet", "worker", self.url, *what, "--name", machine, env={**self.env, **files, **own})

    def leave(self, machine: str, number: signal.Signals = signal.SIGTERM) -> None:
        """A machine's command ends, orderly or not."""
        tool = self.workers.pop(machine)
        kill(tool.pid, number)
        self.ended.append(tool)

    def mend(self) -> None:
        """Start what is gone."""
        if self.scheduler is None or not self.scheduler.running():
            if self.scheduler is not None:
                self.ended.append(self.scheduler)
            self.start_scheduler()
        self.behave()

    def whole(self, seconds: float = BEGINS_S) -> None:
        """Wait until every machine is there and idle. Raises RuntimeError."""
        said = "nobody was asked"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            dead = [f"{name}: {t.tail()}" for name, t in self.workers.items() if not t.running()]
            if dead:
                raise RuntimeError(f"a worker's command has ended: {dead}")
            try:
                said = self._missing()
            except FleetError as e:
                said = str(e)
            if not said:
                return
            time.sleep(0.2)
        raise RuntimeError(f"the fleet is not whole after {seconds:g} s: {said}")

    def _missing(self) -> str:
        engine = DaskEngine(self.url, self.security())
        try:
            end = time.monotonic() + 5
            while True:
                slots = engine.slots()
                absent = self.workers.keys() - {s.host for s in slots}
                busy = [f"{s.host} runs {s.running}" for s in slots if s.running]
                extra = len(slots) - len(self.workers)
                said = f"absent: {sorted(absent)}, busy: {busy}, {extra} too many" if absent or busy or extra else ""
                if not said or time.monotonic() > end:
                    return said
                time.sleep(0.1)
        finally:
            engine.close()

    def end(self, v: Verdict) -> None:
        """As a user ends them; what is left afterwards is counted."""
        tools = [*self.workers.values(), *([self.scheduler] if self.scheduler else [])]
        for tool in tools:
            if tool.running():
                tool.process.send_signal(signal.SIGTERM)
        for tool in (*tools, *self.ended):
            tool.clean(v, 10)
        self.workers.clear()
        self.ended.clear()

    # who is there ---------------------------------------------------------------------------------------------------
    def of(self, machine: str, role: str) -> list[int]:
        """Processes of one role."""
        return [pid for pid, r in processes(self.workers[machine].mark).items() if r == role]

    def slot(self, machine: str) -> int | None:
        """The process of a machine that takes jobs: the one that its command made for it."""
        for pid in processes(self.workers[machine].mark):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                if b"spawn_main" in words and parent == self.workers[machine].pid:
                    return pid
        return None

    def working(self) -> dict[int, str]:
        """What still runs of a kernel: 'machine role' by process."""
        return {pid: f"{m} {r}" for m, t in self.workers.items() for pid, r in processes(t.mark).items() if r in WORKING}


@contextmanager
def place() -> Iterator[Path]:
    """A folder for a while."""
    folder = Path(tempfile.mkdtemp(prefix="tilewright-fleet-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
