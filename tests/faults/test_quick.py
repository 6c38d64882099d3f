"""A few injections of every kind that takes little time, always the same ones, and that the harness itself sees what it must."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import evidence, growth, kills, planted, power, powerlog, signals
from faults.flips import judge_file, sound
from faults.kinds import Verdict, load
from faults.powerlog import Change
from faults.shim import Shim, missing
from faults.tool import processes, start

KINDS = load()
QUICK = [name for name, k in KINDS.items() if k.quick]
INJECTIONS = 8
needs_shim = pytest.mark.skipif(bool(missing()), reason=missing())


def test_there_are_kinds_enough() -> None:
    assert len(KINDS) >= 12 and len(QUICK) >= 5 and all(k.what and "|" not in k.what for k in KINDS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_quick_kinds(name: str, tmp_path: Path) -> None:
    total = Verdict()
    for i in range(INJECTIONS):
        total.add(KINDS[name].inject(random.Random(f"test/{name}/{i}"), tmp_path))
    assert total.injections >= INJECTIONS and not total.bad, "\n".join(total.notes)


@pytest.mark.slow
@pytest.mark.parametrize("inject", [kills.kill_main, kills.kill_child, signals.sigint, planted.always_wrong], ids=lambda f: f.__name__)
def test_one_of_some_that_take_a_search(inject, tmp_path: Path) -> None:
    v = inject(random.Random(5), tmp_path)
    assert not v.bad, "\n".join(v.notes)


@pytest.mark.slow
@needs_shim
def test_power_loss_once(tmp_path: Path) -> None:
    v = power.power_loss(random.Random(3), tmp_path)
    assert v.injections == power.IMAGES and not v.bad, "\n".join(v.notes)


# what the harness must see -------------------------------------------------------------------------------------------
@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cache.db"
    path.write_bytes(sound(False).files[""])
    return path


def test_a_lost_row_is_seen(file: Path) -> None:
    v, before = Verdict(), evidence.committed(file)
    assert len(before) == len(sound(False).rows)
    evidence.check(v, file, before)
    assert not v.bad
    evidence.check(v, file, {*before, "f" * 64})
    assert v.lost == 1


def test_a_believed_row_that_nobody_measured_is_seen(file: Path) -> None:
    row = next(r for r in sound(False).best.values() if r is not None)
    for changed in (row.__class__(**{**row.to_dict(), "t_med": 1e-9}), row.__class__(**{**row.to_dict(), "verified": False})):
        v = Verdict()
        evidence.judge(v, changed, {row.digest: row}, evidence.never)
        assert v.wrong == 1
    v = Verdict()
    evidence.judge(v, row, {row.digest: row}, lambda r: r.opts == row.opts)
    assert v.wrong == 1


def test_an_answer_that_goes_without_a_word_is_seen(file: Path) -> None:
    """A key's rows deleted, the counts of the tool corrected with them: a forgery that nothing can tell from a cache
    that never had them."""
    row = next(r for r in sound(False).best.values() if r is not None)
    with closing(sqlite3.connect(file, isolation_level=None)) as c:
        c.execute("DELETE FROM measurement WHERE kernel = ?", (row.kernel,))
        for (table,) in c.execute("SELECT name FROM sqlite_master WHERE name = 'tilewright_tally'").fetchall():
            c.execute(f"DELETE FROM {table} WHERE key_hash = ?", (row.key.hash,))
    v = Verdict()
    judge_file(v, file, False, "a forgery")
    assert v.lost > 0 and v.wrong == 0


@pytest.mark.slow
def test_a_lock_and_a_process_that_are_left_are_seen(file: Path, tmp_path: Path) -> None:
    v = Verdict()
    with closing(sqlite3.connect(file, isolation_level=None)) as c:
        c.execute("BEGIN IMMEDIATE")
        evidence.unlocked(v, file)
    assert v.orphans == 1
    tool = start(tmp_path, "kernels")
    tool.wait(Verdict())
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, "TILEWRIGHT_FAULTS_RUN": tool.mark})
    while left.pid not in processes(tool.mark):  # a process that was just started shows no environment for a moment
        time.sleep(0.01)
    v = Verdict()
    tool.clean(v, seconds=0.1)
    assert v.orphans == 1 and left.wait(10) == -9 and not processes(tool.mark)


def changes() -> Iterator[Change]:
    yield Change("c", "/d/f", 0, b"")
    yield Change("w", "/d/f", 0, b"kept" * 256)
    yield Change("s", "/d/f", 0, b"")
    yield Change("w", "/d/f", 0, b"lost" * 256)
    yield Change("t", "/d/f", 512, b"")


def test_a_power_loss_keeps_what_was_synced_and_anything_of_the_rest() -> None:
    whole = [powerlog.image([*changes()], 3, random.Random(i)) for i in range(20)]
    assert all(x == {"/d/f": b"kept" * 256} for x in whole)
    after = {powerlog.image([*changes()], 5, random.Random(i))["/d/f"] for i in range(300)}
    assert {b"kept" * 256, b"lost" * 128, b"kept" * 128, b"lost" * 256} <= after
    assert any(len(x) == 1024 and x[:512] != x[512:] for x in after), "writes are torn between sectors"
    unsynced = {bool(powerlog.image([*changes()], 2, random.Random(i))) for i in range(50)}
    assert unsynced == {True, False}, "a new file that was never synced may be missing"


@needs_shim
def test_a_disk_in_trouble(tmp_path: Path) -> None:
    """The library does what it says, below its folder and nowhere else."""
    shim = Shim(tmp_path, tmp_path / "disk")
    code = """
import errno, os, sys, time
def tried(f):
    try:
        f(); return "done"
    except OSError as e:
        return errno.errorcode[e.errno]
f = os.open("disk/a", os.O_RDWR | os.O_CREAT)
os.write(f, b"x" * 100)
print("ready", time.time() > 4e9, flush=True)
sys.stdin.readline()
other = os.open("b", os.O_RDWR | os.O_CREAT)
print(tried(lambda: os.pwrite(f, b"y", 0)), tried(lambda: os.pwrite(f, b"y", 100)), tried(lambda: os.write(other, b"z")), tried(lambda: os.open("disk/c", os.O_CREAT | os.O_WRONLY)), tried(lambda: os.unlink("disk/a")))
"""
    said = {}
    for mode in ("full", "read-only", "well"):
        shim.disk("well")
        shim.clock(4e9)
        env = {**os.environ, **{k: v for k, v in shim.env().items() if v is not None}}
        p = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=env)
        assert p.stdout is not None and p.stdout.readline() == "ready True\n"
        shim.disk(mode)
        said[mode] = p.communicate("\n", timeout=30)[0].split()
        (tmp_path / "disk" / "a").unlink(missing_ok=True)
    assert said == {
        "full": ["done", "ENOSPC", "done", "done", "done"],
        "read-only": ["EROFS", "EROFS", "done", "EROFS", "EROFS"],
        "well": ["done"] * 5,
    }


def test_growth_is_told_from_noise() -> None:
    def samples(rise: float, fds: int = 9) -> list[growth.Sample]:
        rng = random.Random(1)
        return [
            growth.Sample(
                float(i),
                int(1e8 + rise * i + rng.uniform(-1e6, 1e6)),
                9 if i < 80 else fds,
                3,
                0,
                1.0 + rng.uniform(-0.2, 0.2),
                i,
                i * 2000,
            )
            for i in range(100)
        ]

    assert growth.judge(samples(0)) == []
    assert any("rss" in g for g in growth.judge(samples(2e5)))
    assert any("fds" in g for g in growth.judge(samples(0, fds=10)))
    assert growth.judge(samples(0)[:5]), "a soak that hardly ran proves nothing"
