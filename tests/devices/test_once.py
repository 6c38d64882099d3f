"""What a process makes once, and locks that a forked child finds open."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
from opencl_driver import POCL, needs_pocl
from tilewright import devices
from tilewright.devices.cpu import engine
from tilewright.devices.once import once, open_in_children, process_lock, undivided

SUPPORT = Path(__file__).parents[1] / "support"

USED_BEFORE_A_FORK = f"""
import os, sys, numpy as np, tilewright as tw
ones = np.ones((96, 96), np.float32)
old = tw.Tensor(ones, device="{POCL}") @ tw.Tensor(ones, device="{POCL}")
old.numpy()
program = tw.best("matmul", {{"m": 96, "n": 96, "k": 96}}, "float32", device="{POCL}")
program(ones, ones)
if os.fork() == 0:
    for use in (old.numpy, lambda: program(ones, ones), lambda: tw.Tensor(ones, device="{POCL}"),
                lambda: tw.best("softmax", {{"m": 96, "n": 96}}, "float32", device="{POCL}")):
        try:
            use()
        except tw.DeviceError as e:
            print("spawn" in str(e), flush=True)
    del old
    print((tw.Tensor(ones) @ tw.Tensor(ones)).numpy()[0, 0], flush=True)
    os._exit(0)
os.wait()
print((old + 1).numpy()[0, 0])
"""


FORKED_WHILE_COMPILING = """
import os, signal, sys, threading, numpy as np, tilewright as tw
from tilewright.devices.cpu import engine
from tilewright.plan import Artefacts
begun, parsed = threading.Event(), engine._parsed

def noted(text):
    begun.set()
    return parsed(text)

def compiled(n):
    place = {"cache": f"{sys.argv[1]}/c.db", "store": Artefacts(f"{sys.argv[1]}/{n}")}
    return tw.best("softmax", {"m": 8, "n": n}, "float32", threads=1, **place)

engine._parsed = noted
signal.alarm(60)
thread = threading.Thread(target=compiled, args=(64,))
thread.start()
begun.wait()
if os.fork() == 0:
    signal.alarm(20)
    os._exit(int(compiled(32)(np.zeros((8, 32), np.float32))[0, 0] * 32 != 1))
thread.join()
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_threads_get_one_result() -> None:
    made: list[str] = []
    start = threading.Barrier(8)

    @once
    def slow(name: str) -> list[str]:
        time.sleep(0.02)
        made.append(name)
        return [name]

    def ask(i: int) -> list[str]:
        start.wait()
        return slow("ab"[i % 2])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert sorted(made) == ["a", "b"] and len(set(map(id, found))) == 2


def test_what_raises_is_asked_again() -> None:
    answers = iter([OSError("busy"), 7])

    @once
    def asked() -> int:
        found = next(answers)
        if isinstance(found, OSError):
            raise found
        return found

    with pytest.raises(OSError, match="busy"):
        asked()
    assert asked() == asked() == 7


@pytest.mark.parametrize("lock", [process_lock(), open_in_children(threading.Lock())], ids=["reentrant", "not reentrant"])
def test_a_child_finds_locks_open(lock: Any) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=5) else 1)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_waits_for_what_another_thread_makes() -> None:
    made, begun = [], threading.Event()

    def make() -> None:
        with undivided(), undivided():
            begun.set()
            time.sleep(0.05)
            made.append("all")

    thread = threading.Thread(target=make)
    thread.start()
    begun.wait()
    with undivided():  # one's own work does not stand in the way
        child = os.fork()
        if child == 0:
            with undivided():
                os._exit(not made)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()


@pytest.mark.slow
def test_a_child_compiles_while_its_parents_thread_does(tmp_path: Path) -> None:
    run("-c", FORKED_WHILE_COMPILING, str(tmp_path))


def test_a_thread_that_ends_frees_nothing_of_llvms(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold LLVM's lock, and a child that is forked meanwhile finds it held for ever."""
    freed: list[str] = []
    monkeypatch.setattr(llvm.TargetMachine, "_dispose", lambda machine: freed.append(machine.triple))
    text = "define void @f() {\n  ret void\n}\n"
    thread = threading.Thread(target=engine.compile_text, args=(text, devices.get("cpu").target, False))
    thread.start()
    thread.join()
    assert not freed


def test_a_device_is_made_once() -> None:
    start = threading.Barrier(8)

    def slow() -> devices.Device:
        time.sleep(0.02)
        return type(devices.get("cpu"))()

    devices.register("slow-to-make", slow)

    def ask(_: int) -> devices.Device:
        start.wait()
        return devices.get("slow-to-make")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(id, pool.map(ask, range(8))))) == 1


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=240)
    assert not done.returncode, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param(POCL, marks=needs_pocl)])
def test_cold_threads(device: str) -> None:
    run(str(SUPPORT / "cold_threads.py"), device, "0")


@pytest.mark.slow
@needs_pocl
def test_a_forked_child_is_told_to_use_spawn() -> None:
    assert run("-c", USED_BEFORE_A_FORK).split() == ["True", "True", "True", "True", "96.0", "97.0"]
