"""A device for tests whose times and failures follow a script. `docs/new-device.md` explains it step by step.

It takes the same LLVM IR as the cpu device and computes right results with it, unless a rule of the script says otherwise. The
script is a dict, or the JSON file named by the environment variable TILEWRIGHT_FAKE_SCRIPT (read again at every build and load,
in every process):

    {"time": 0.001, "rules": [{"text": "phi <16 x float>", "do": "crash"}, {"share": 0.1, "do": "wrong"}, {"sha": "ab12", "time": 2e-4}]}

A rule matches a source by `text` (a substring), `sha` (a prefix of its hash) and `share` (that fraction of all sources, by hash);
conditions that it lacks hold. The first match decides. `do` is one of ACTIONS; `time` is seconds a call. Without a time, it
is the script's `time` (default 1 ms) times 1 to 2, by the source's hash: a landscape that is the same in every run. No rule
touches the kernels with which the measuring program itself compares results (their names begin with `compare_`).

Another process finds it by `devices.get("…/fake_device.py:FakeDevice")`."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.devices import Device, Executable, Limits, Rates, SourceLike
from tilewright.devices.cpu.device import CpuDevice
from tilewright.ir import BuildError
from tilewright.program.program import Signature
from tilewright.targets import Target

SCRIPT = "TILEWRIGHT_FAKE_SCRIPT"
SPEC = f"{Path(__file__).resolve()}:FakeDevice"
ACTIONS = ("ok", "build", "wrong", "stale", "hang", "crash", "exit", "memory", "overrun", "raise", "worker")
MEMORY_CAP = 8 << 30
"""Where the endless allocation stops if nobody limits it, to spare the machine."""


class FakeDevice(Device):
    """See the module's text. `script` replaces the file."""

    name = "fake"
    isolation = "fork"

    def __init__(self, script: dict[str, Any] | None = None) -> None:
        self._script = script
        self._cpu = CpuDevice()

    @property
    def target(self) -> Target:
        return self._cpu.target

    @property
    def threads(self) -> int:
        return 1

    def compiler_id(self) -> str:
        return "fake-1"

    def fingerprint(self) -> dict[str, Any]:
        return {"device": "fake"}

    def check(self) -> None:
        self._cpu.check()

    def build(self, source: SourceLike) -> bytes:
        if self._rule(source.text, source.sha, source.signature.name).get("do") == "build":
            raise BuildError("the script says that this source does not build")
        head = {"sha": source.sha, "text": source.text}
        return json.dumps(head).encode() + b"\0" + self._cpu.build(source)

    def load(self, obj: bytes, signature: Signature, threads: int) -> Executable:
        head, _, code = obj.partition(b"\0")
        try:
            source = json.loads(head)
        except ValueError:
            raise BuildError("not an object of the fake device: build it again") from None
        rule = self._rule(source["text"], source["sha"], signature.name)
        seconds = rule.get("time", self._time() * (1 + _fraction(source["sha"])))
        return FakeExecutable(self._cpu.load(code, signature, threads), rule.get("do", "ok"), seconds)

    def limits(self, probe: bool = False) -> Limits:
        rates = Rates(peak_f32=1e11, peak_f64=5e10, read=1e10, copy=1e10, copy_nt=1e10, triad=1e10, triad_nt=1e10)
        return Limits("2000-01-01T00:00:00+00:00", {1: rates})

    def _read(self) -> dict[str, Any]:
        if self._script is not None:
            return self._script
        file = os.environ.get(SCRIPT)
        return dict(json.loads(Path(file).read_text())) if file else {}

    def _time(self) -> float:
        return float(self._read().get("time", 1e-3))

    def _rule(self, text: str, sha: str, name: str) -> dict[str, Any]:
        if name.startswith("compare_"):
            return {}
        for rule in self._read().get("rules", []):
            if rule.get("do", "ok") not in ACTIONS:
                raise ValueError(f"the script asks for {rule['do']!r}; use one of {', '.join(ACTIONS)}")
            if rule.get("text", "") in text and sha.startswith(rule.get("sha", "")) and _fraction(sha) < rule.get("share", 1.0):
                return dict(rule)
        return {}


class FakeExecutable(Executable):
    """Runs the real code, then misbehaves as told; claims scripted times."""

    def __init__(self, real: Executable, action: str, seconds: float) -> None:
        self.signature, self.threads = real.signature, real.threads
        self._real, self._action, self._seconds = real, action, seconds

    def run(self, pointers: Sequence[int], vars: Sequence[int] = ()) -> None:
        if self._action == "stale":
            return
        self._real.run(pointers, vars)
        if self._action not in ("ok", "build"):
            self._misbehave(pointers)

    def time(
        self, pointer_sets: Sequence[Sequence[int]], vars: Sequence[int] = (), repeats: int = 1, limit_s: float = float("inf")
    ) -> list[float]:
        made = max(1, min(repeats, math.ceil(min(limit_s / self._seconds, repeats))))
        for pointers in pointer_sets[:made]:
            self.run(pointers, vars)
        return [self._seconds] * made

    def poison(self) -> None:
        self._real.poison()

    def close(self) -> None:
        self._real.close()

    def _misbehave(self, pointers: Sequence[int]) -> None:
        outputs = [i for i, p in enumerate(self.signature.params) if p.role != "in"]
        last = outputs[-1]
        param = self.signature.params[last]
        if self._action == "wrong":  # flip the exponent's second bit (or a high bit of an integer) of the first element
            ctypes.c_uint8.from_address(pointers[last] + param.dtype.size - 1).value ^= 0x20
        elif self._action == "overrun":  # from the end of the output well into whatever follows
            end = pointers[last] + param.dtype.size * math.prod(int(e) for e in param.shape if isinstance(e, int))
            ctypes.memset(end, 0x5A, 1 << 16)
        elif self._action == "hang":
            _hang()
        elif self._action == "crash":
            ctypes.memset(8, 0, 8)
        elif self._action == "exit":
            os._exit(3)
        elif self._action == "memory":
            _allocate_without_end()
        elif self._action == "worker":
            _end_who_measures()
        elif self._action == "raise":
            raise RuntimeError("the script says that this call fails")


def _fraction(sha: str) -> float:
    return int(hashlib.sha256(sha.encode()).hexdigest()[:8], 16) / 2**32


def _end_who_measures() -> None:
    """Kill the process that started the runner, as a candidate does that takes its machine down: with it end runner and child."""
    with open(f"/proc/{os.getppid()}/stat") as f:
        os.kill(int(f.read().rpartition(")")[2].split()[1]), signal.SIGKILL)


def _hang() -> None:
    """Wait for ever in native code, where no Python signal handler runs: lock one mutex twice."""
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def _allocate_without_end() -> None:
    held = []
    for _ in range(MEMORY_CAP >> 24):
        held.append(b"\1" * (1 << 24))
    raise AssertionError("nothing limits this process's memory")
