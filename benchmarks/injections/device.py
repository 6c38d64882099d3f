"""The tests' scripted device, which also writes down what it timed: the truth that a run's rows are compared with.

The file named by TILEWRIGHT_FAKE_LOG gets a line for each timing of a candidate: when it was loaded and when the timing ended (both in
seconds since 1970), the process that times, and the hash of its source. With `"build_s"` in the script, each build takes as much longer."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from fake_device import FakeDevice, FakeExecutable
from tilewright.devices import Executable, SourceLike
from tilewright.program.program import Signature

LOG = "TILEWRIGHT_FAKE_LOG"
WATCHED = f"{Path(__file__).resolve()}:WatchedDevice"


class WatchedDevice(FakeDevice):
    """See the module's text."""

    def build(self, source: SourceLike) -> bytes:
        """As the tests' device, after `build_s` seconds."""
        time.sleep(float(self._read().get("build_s", 0.0)))
        return super().build(source)

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        """What is timed writes it down."""
        made = super().load(obj, signature, threads)
        if signature.name.startswith("compare_") or not isinstance(made, FakeExecutable):
            return made
        return WatchedExecutable(made, json.loads(obj.partition(b"\0")[0])["sha"])


class WatchedExecutable(FakeExecutable):
    """`of`, and a line in the log for each timing."""

    def __init__(self, of: FakeExecutable, sha: str) -> None:
        self.__dict__.update(of.__dict__)
        self._sha, self._since = sha, time.time()

    def time(self, *args: Any, **named: Any) -> list[float]:
        """As it was told to, and written down."""
        found = super().time(*args, **named)
        self._note()
        return found

    def _note(self) -> None:
        if path := os.environ.get(LOG):
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:  # one write of a short line: lines of several processes do not mix
                os.write(fd, f"{self._since:.6f} {time.time():.6f} {os.getppid()} {self._sha}\n".encode())
            finally:
                os.close(fd)


def timings(text: str) -> list[tuple[float, float, int, str]]:
    """(loaded, ended, process, hash of the source) of each whole line."""
    out = []
    for line in text.splitlines():
        loaded, ended, process, sha = line.split(" ")
        out.append((float(loaded), float(ended), int(process), sha))
    return out
