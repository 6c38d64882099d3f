"""What really ran is recorded: by threads and processes at once, within bounds, and read as data."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, cache
from tilewright.ir.errors import UsageError
from tilewright.named_kernels import make
from tilewright.plan import usage

KERNEL = {"m": 8, "n": 16, "k": 4}
A, B = np.ones((8, 4), np.float32), np.ones((4, 16), np.float32)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "c.db"))
    monkeypatch.setenv(usage.ENV, "record")
    return usage.file_of(cache.open())


def runs(file: Path) -> dict[str, int]:
    usage.flush()
    found: Counter[str] = Counter()
    for u in usage.recorded(file)[0]:
        found[u.kernel.name] += u.runs
    return dict(found)


def test_named_kernels_tensors_and_captured_functions_are_counted(file: Path) -> None:
    k = tw.best("matmul", KERNEL)
    for _ in range(5):
        k(A, B)
    f = tw.jit(lambda x: (x @ x).relu() @ x)
    x = Tensor(np.ones((48, 48), np.float32))
    for _ in range(3):
        f(x)
    alone = tw.best(next(k for k in f.missing() if k.name == "matmul+relu"))
    alone(np.ones((48, 48), np.float32), np.ones((48, 48), np.float32))
    assert runs(file) == {"matmul": 8, "matmul+relu": 4}
    found = {tuple(map(tuple, (b.shape for b in u.kernel.buffers))): u for u in usage.recorded(file)[0]}
    assert found[(8, 4), (4, 16), (8, 16)].runs == 5
    assert file.parent == Path(os.environ["TILEWRIGHT_CACHE"]).parent


def test_jit_records_when_it_is_asked_to(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(usage.ENV)
    x = Tensor(np.ones((32, 24), np.float32))
    tw.jit(lambda x: x.softmax(-1))(x)
    assert runs(file) == {}
    f = tw.jit(lambda x: x.softmax(-1), tune="record")
    for _ in range(4):
        f(x)
    assert runs(file) == {"softmax": 4} and len(f.missing()) == 1


def test_no_run_of_many_threads_is_lost(file: Path) -> None:
    k = tw.best("matmul", KERNEL, threads=1)
    f = tw.jit(lambda x: x.softmax(-1), threads=1)
    x = Tensor(np.ones((16, 24), np.float32))

    def work() -> None:
        for _ in range(300):
            k(A, B)
            f(x)

    many = [threading.Thread(target=work) for _ in range(6)]
    for t in many:
        t.start()
    while any(t.is_alive() for t in many):
        usage.flush()
    assert runs(file) == {"matmul": 1800, "softmax": 1800}


def _child(n: int) -> None:
    k = tw.best("matmul", KERNEL)
    for _ in range(n):
        k(A, B)
    usage.flush()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_record_at_once(file: Path, method: str) -> None:
    k = tw.best("matmul", KERNEL)
    k(A, B)
    children = [multiprocessing.get_context(method).Process(target=_child, args=(n,)) for n in (10, 20, 30)]
    for c in children:
        c.start()
    for c in children:
        c.join(120)
    assert [c.exitcode for c in children] == [0, 0, 0]
    assert runs(file) == {"matmul": 61}


def test_the_file_is_bounded_and_the_rarest_go_first(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST", 3)
    for n in range(1, 7):
        k = tw.best("matmul", {**KERNEL, "m": n})
        for _ in range(n):
            k(A[:1].repeat(n, 0), B)
        usage.flush()
    assert sorted(u.runs for u in usage.recorded(file)[0]) == [4, 5, 6]
    monkeypatch.setattr(usage, "MOST_BYTES", 10)
    tw.best("softmax", {"m": 4, "n": 8})(np.ones((4, 8), np.float32))
    assert "softmax" not in runs(file)


def test_a_folder_that_cannot_be_written_is_said_once_and_the_program_goes_on(tmp_path: Path) -> None:
    recorder = usage.UsageRecorder(tmp_path / "file" / "x.recorded")
    (tmp_path / "file").write_text("no folder")
    kernel = make("matmul", KERNEL)
    counter = recorder.counter([(usage.UsedKernel(kernel, "", "cpu", 1), 1)])
    counter.runs += 1
    with pytest.warns(RuntimeWarning, match="cannot be recorded .* it goes on"):
        recorder.flush()
    recorder.flush()  # says nothing more
    (tmp_path / "file").unlink()
    recorder.flush()
    assert usage.recorded(recorder.file)[0][0].runs == 1


def test_what_is_no_kernel_is_left_out_and_a_damaged_file_is_an_error(file: Path) -> None:
    tw.best("matmul", KERNEL)(A, B)
    usage.flush()
    with sqlite3.connect(file) as connection:
        connection.execute("INSERT INTO used VALUES ('x', 'bad\x1b', '', '{}', 'cpu', 1, 9, ?)", (b"cos\nsystem\n(S'true'\ntR.",))
    found, wrong = usage.recorded(file)
    assert [u.kernel.name for u in found] == ["matmul"] and len(wrong) == 1 and "left out" in wrong[0] and "\x1b" not in wrong[0]
    file.write_bytes(b"no database" * 100)
    with pytest.raises(UsageError, match=r"cannot be read from .*delete it"):
        usage.recorded(file)


def test_a_word_that_says_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(usage.ENV, "rec")
    with pytest.raises(UsageError, match="TILEWRIGHT_TUNE='rec' says nothing"):
        tw.best("matmul", KERNEL)


def test_runs_of_bound_calls_that_are_gone_count_and_so_do_those_of_calls_that_say_nothing() -> None:
    k = tw.best("matmul", KERNEL, threads=1)
    at = [a.ctypes.data for a in (A, B, np.zeros((A.shape[0], B.shape[1]), np.float32))]
    counter = usage.RunCounter([])
    bound = counter.counted(k.executable.bind())
    bound(*at)
    bound(*at)
    assert (counter.take(), counter.take()) == (2, 0)
    bound(*at)
    del bound
    counter.counted(lambda *pointers: None)(*at)
    assert (counter.take(), counter.take()) == (2, 0) and counter.runs == 4
