"""The thread pool: lazy start, sleeping workers, forks, busy pools."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import guarded
import numpy as np
import pytest
from device_kernels import MARK, source
from tilewright import targets
from tilewright.devices import Device
from tilewright.devices.cpu import pool as pool_ir
from tilewright.devices.cpu.engine import compile_text
from tilewright.devices.cpu.linker import elf_symbols
from tilewright.devices.cpu.pool import pool


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    here = os.path.dirname(__file__)
    support = os.path.join(os.path.dirname(here), "support")
    prelude = f"import sys; sys.path[:0] = [{here!r}, {support!r}]\nimport guarded\nimport os, time, threading, numpy as np\nfrom device_kernels import *\nfrom tilewright import devices\ncpu = devices.get('cpu')\n"
    prelude += "from tilewright.devices.cpu.pool import pool\ndef load(t, n):\n    return cpu.load(cpu.build(t), t.signature, n)\n"
    return subprocess.run([sys.executable, "-c", prelude + text], capture_output=True, text=True, timeout=240)


def test_workers_start_with_the_first_call_that_needs_them() -> None:
    out = run_script(
        "a = guarded.array(np.zeros(100, np.int64))\n"
        "one, four = load(source(), 1), load(source(), 2)\n"
        "one.run([a.ctypes.data]); print(pool().started(), threading.active_count(), len(os.listdir('/proc/self/task')))\n"
        "four.run([a.ctypes.data]); print(pool().started())\n"
    )
    first, second = out.stdout.splitlines()
    assert (first.split()[0], second) == ("0", "1"), out.stderr


def test_sleeping_workers_wake(cpu: Device) -> None:
    exe = cpu.load(cpu.build(source(MARK, items=64)), source(MARK, items=64).signature, 2)
    a = guarded.array(np.zeros(64, np.int64))
    for pause in (0, 0.001, 0.01, 0.05) * 3:
        time.sleep(pause)
        a[:] = 0
        exe.run([a.ctypes.data])
        assert (a != 0).all()
    if cpu.threads > 1:
        assert pool().started() >= 1


def test_idle_workers_use_no_processor_time(cpu: Device) -> None:
    exe = cpu.load(cpu.build(source()), source().signature, 2)
    a = guarded.array(np.zeros(100, np.int64))
    exe.run([a.ctypes.data])
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_a_forked_child_gets_its_own_workers(cpu: Device) -> None:
    exe = cpu.load(cpu.build(source(MARK, items=64)), source(MARK, items=64).signature, 2)
    a = guarded.array(np.zeros(64, np.int64))
    exe.run([a.ctypes.data])
    assert pool().started() >= 1
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            code = 1
            if pool().started() == 0:
                a[:] = 0
                exe.run([a.ctypes.data])
                code = 0 if (a != 0).all() and pool().started() == 1 else 2
            os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        a[:] = 0
        exe.run([a.ctypes.data])  # and the parent's still work
        assert (a != 0).all()


@pytest.mark.slow
def test_a_child_forked_while_the_pool_is_busy_can_use_it(cpu: Device) -> None:
    text = source(MARK, items=64)
    exe = cpu.load(cpu.build(text), text.signature, 2)
    stop = threading.Event()

    def keep_busy() -> None:
        b = guarded.array(np.zeros(64, np.int64))
        while not stop.is_set():
            exe.run([b.ctypes.data])

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                a = guarded.array(np.zeros(64, np.int64))
                exe.run([a.ctypes.data])
                os._exit(0 if (a != 0).all() else 1)
            deadline = time.monotonic() + 240
            while (done := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.005)
            if done[0] == 0:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
            assert done == (pid, 0), "the child hangs"
    finally:
        stop.set()
        busy.join()


@pytest.mark.slow
@pytest.mark.parametrize("idle", ["", "time.sleep(0.02)"])
def test_the_interpreter_ends_cleanly_with_live_workers(idle: str) -> None:
    out = run_script(f"a = guarded.array(np.zeros(100, np.int64))\nload(source(), 2).run([a.ctypes.data])\n{idle}\nprint('end')")
    assert (out.returncode, out.stdout) == (0, "end\n"), out.stderr


@pytest.mark.slow
def test_code_may_go_while_workers_live() -> None:
    out = run_script(
        "import gc\na = guarded.array(np.zeros(100, np.int64))\n"
        "for i in range(30):\n    e = load(source(name=f'k{i}'), 2); e.run([a.ctypes.data]); del e; gc.collect()\n"
        "time.sleep(0.01); print(a[0], pool().started())"
    )
    assert (out.returncode, out.stdout) == (0, "30 1\n"), out.stderr


def test_without_room_for_a_thread_the_caller_does_all() -> None:
    out = run_script(
        "import resource\na = guarded.array(np.zeros(100, np.int64))\ne = load(source(), 2)\npool()\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); os.setuid(65534) if os.getuid() == 0 else None\n"
        "e.run([a.ctypes.data]); print(set(a.tolist()), pool().started())"
    )
    assert (out.returncode, out.stdout) == (0, "{1} 0\n"), out.stderr


@pytest.mark.parametrize("arch", pool_ir.SUPPORTED)
def test_the_pool_builds_for_every_supported_architecture(arch: str, cpu: Device) -> None:
    target = next(t for t in map(targets.named, targets.NAMES) if t.arch == arch)
    text = pool_ir.pool_text(arch)
    defined, undefined = elf_symbols(compile_text(text, target, arch == cpu.target.arch, outside=pool_ir.EXTERNALS))
    assert set(pool_ir.FUNCTIONS) <= defined and undefined == set(pool_ir.EXTERNALS)


@pytest.mark.parametrize("threads", [3, 8])
def test_more_threads_than_cores_lose_no_item(threads: int, cpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that wake late, posts taken back, and several callers at once: every item must run once, whatever happens."""
    monkeypatch.setattr("tilewright.devices.cpu.device._max_threads", lambda: 64)
    text = source(items=37)
    exe = cpu.load(cpu.build(text), text.signature, threads)
    wrong: list[int] = []

    def caller() -> None:
        a = guarded.array(np.zeros(37, np.int64))
        for n in range(1, 1001):
            exe.run([a.ctypes.data])
            if not (a == n).all():
                wrong.append(n)

    callers = [threading.Thread(target=caller) for _ in range(3)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong
