"""The tutorial docs/new-device.md does what it says, and the fake device follows the interface."""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import re
import resource
import signal
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import guarded
import numpy as np
import pytest
from device_kernels import source
from tilewright import devices
from tilewright.devices import Device, Executable, registry
from tilewright.ir import BuildError

DOC = Path(__file__).resolve().parents[2] / "docs" / "new-device.md"
MODULE = "new_device_tutorial"


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    made = types.ModuleType(MODULE)
    sys.modules[MODULE] = made  # dataclasses look their module up
    yield made
    del sys.modules[MODULE]
    registry._FACTORIES.pop("echo", None)
    registry._MADE.pop("echo", None)


def test_the_tutorial_runs_from_top_to_bottom(module: types.ModuleType) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOC.read_text(), re.S | re.M)
    assert len(blocks) == 4
    exec(compile("\n".join(blocks), str(DOC), "exec"), module.__dict__)
    assert (module.a == 2).all()
    assert devices.get("echo") is module.device


BUFFER = guarded.array(np.zeros((1 << 20) + (1 << 14), np.int64))
"""Room for every kernel here, and for the overrun."""
SPEC = f"{Path(__file__).resolve().parents[1] / 'fake_device.py'}:FakeDevice"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "script.json"
    monkeypatch.setenv("TILEWRIGHT_FAKE_SCRIPT", str(file))
    return file


def make(script: Path, content: dict[str, Any], sha: str = "ab" * 32) -> tuple[Device, Executable]:
    script.write_text(json.dumps(content))
    device = devices.get(SPEC)
    text = dataclasses.replace(source(), sha=sha)
    return device, device.load(device.build(text), text.signature, 1)


def in_child(exe: Executable, action: Any = None) -> int:
    """The wait status of a child that runs it."""
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        if action:
            action()
        try:
            exe.run([BUFFER.ctypes.data])
        except MemoryError:
            os._exit(9)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def test_right_results_and_scripted_times(script: Path) -> None:
    _, exe = make(script, {"time": 0.25})
    a = guarded.array(np.zeros(100, np.int64))
    seconds = exe.time([[a.ctypes.data]], (), 1000, 2.0)
    assert set(a) == {1} and len(set(seconds)) == 1 and 0.25 <= seconds[0] < 0.5 and sum(seconds[:-1]) <= 2.0
    assert exe.time([[a.ctypes.data]], (), 2, 60.0) == seconds[:1] * 2


def test_times_differ_by_source_and_repeat(script: Path) -> None:
    def seconds(sha: str) -> float:
        return make(script, {}, sha)[1].time([[BUFFER.ctypes.data]])[0]

    assert seconds("a" * 64) == seconds("a" * 64) != seconds("b" * 64)


def test_rules_match_text_hash_and_share(script: Path) -> None:
    def seconds(rule: dict[str, Any]) -> float:
        return make(script, {"rules": [{**rule, "time": 7.0}]})[1].time([[BUFFER.ctypes.data]])[0]

    assert seconds({"text": "add i64 %x, 1"}) == seconds({"sha": "abab"}) == seconds({"share": 1.0}) == 7.0
    assert 7.0 not in (seconds({"text": "no such text"}), seconds({"sha": "cd"}), seconds({"share": 0.0}))


def test_no_rule_touches_the_kernels_that_compare_results(script: Path) -> None:
    script.write_text(json.dumps({"rules": [{"do": "build"}]}))
    assert devices.get(SPEC).build(source(name="compare_float32"))


def test_wrong_and_stale_results(script: Path) -> None:
    a = guarded.array(np.zeros(100, np.int64))
    make(script, {"rules": [{"do": "wrong"}]})[1].run([a.ctypes.data])
    assert a[0] != 1 and (a[1:] == 1).all()
    a[:] = 0
    make(script, {"rules": [{"do": "stale"}]})[1].run([a.ctypes.data])
    assert (a == 0).all()


def test_build_failure_and_exception(script: Path) -> None:
    with pytest.raises(BuildError, match="the script says"):
        make(script, {"rules": [{"do": "build"}]})
    with pytest.raises(RuntimeError, match="the script says"):
        make(script, {"rules": [{"do": "raise"}]})[1].run([BUFFER.ctypes.data])
    with pytest.raises(ValueError, match="use one of"):
        make(script, {"rules": [{"do": "dance"}]})


def test_crash_exit_and_endless_allocation(script: Path) -> None:
    assert os.WTERMSIG(in_child(make(script, {"rules": [{"do": "crash"}]})[1])) == signal.SIGSEGV
    assert os.WEXITSTATUS(in_child(make(script, {"rules": [{"do": "exit"}]})[1])) == 3
    limit = 1 << 29

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    assert os.WEXITSTATUS(in_child(make(script, {"rules": [{"do": "memory"}]})[1], limited)) == 9


def test_overrun_writes_past_the_output(script: Path) -> None:
    _, exe = make(script, {"rules": [{"do": "overrun"}]})
    a = guarded.array(np.zeros((1 << 20) + (1 << 14), np.int64))
    exe.run([a.ctypes.data])
    assert a[(1 << 20) + 5] == 0x5A5A5A5A5A5A5A5A


def test_a_hang_ignores_signals_that_python_handles(script: Path) -> None:
    _, exe = make(script, {"rules": [{"do": "hang"}]})
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(1))
        os.write(write, b"!")
        exe.run([BUFFER.ctypes.data])
        os._exit(0)
    assert os.read(read, 1) == b"!"
    os.close(read)
    os.close(write)
    asleep = 0
    while asleep < 10:  # it waits for its own mutex, and for nothing else that takes so long
        asleep = asleep + 1 if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.02)
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.1)
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.kill(pid, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
