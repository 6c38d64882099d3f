"""The command as a person meets it: a real search in a pseudo-terminal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tilewright import cache

from .terminal import Terminal

SMALL = ["run", "--kernel", "matmul", "--shape", "m=96,n=96,k=96", "--threads", "1"]


@pytest.fixture
def env(tmp_path: Path, known_limits: Path) -> dict[str, str]:
    """A cache of its own, on a machine whose limits are known."""
    return {"TILEWRIGHT_CACHE": str(tmp_path / "cache.db"), "XDG_STATE_HOME": str(known_limits)}


def best(env: dict[str, str]) -> list[cache.Row]:
    """The usable rows of the cache."""
    with cache.open(env["TILEWRIGHT_CACHE"]) as store:
        return [r for r in store.rows() if r.usable and not r.provisional]


@pytest.mark.slow
def test_search_then_cached_then_show_and_report(env: dict[str, str]) -> None:
    with Terminal(*SMALL, "--trials", "6", env=env) as first:
        assert first.wait() == 0, first.text
    for drawn in ("phase", "candidates", "best", "left", "GFLOP/s", " of roofline"):
        assert drawn in first.text
    assert "\x1b[?25l" in first.seen and first.seen.rstrip().rfind("\x1b[?25h") > first.seen.rfind("\x1b[?25l"), (
        "the cursor is hidden while live, then shown"
    )
    summary = first.text[first.text.rindex("matmul m=96,n=96,k=96 float32 on cpu, 1 thread: ") :]
    assert summary.startswith("matmul m=96,n=96,k=96 float32 on cpu, 1 thread: tuned and verified")
    assert re.search(r"reproduce\s+(TILEWRIGHT_TARGET=\S+ )?tune run --kernel matmul .*--retune", summary)
    (row,) = best(env)
    assert row.verified and row.t_min and json.loads(row.shape) == {"m": 96, "n": 96, "k": 96}

    with Terminal(*SMALL, "--trials", "6", env=env) as second:
        assert second.wait() == 0
    assert "1 thread: cached" in second.text and " with portfolio" not in second.text

    with Terminal("show", "--kernel", "matmul", "--shape", "m=96,n=96,k=96", "--threads", "1", env=env) as show:
        assert show.wait() == 0
    assert "best in the cache" in show.text and "define " in show.text
    assert "\x1b[" in show.seen, "axis kinds are coloured"

    with Terminal("report", env=env) as report:
        assert report.wait() == 0
    assert re.search(r"matmul float32 +cpu +[\d.]+ [µm]s", report.text)


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_so_far(env: dict[str, str]) -> None:
    with Terminal(*SMALL, "--budget", "60s", env=env) as tune:
        tune.until(" of roofline")
        tune.type("\x03")
        assert tune.wait() == 130
    assert "interrupted; the best so far is saved" in tune.text and "Traceback" not in tune.text
    assert len(best(env)) == 1
    with Terminal(*SMALL, "--trials", "1", env=env) as again:
        assert again.wait() == 0
    assert "of earlier searches" in again.text or "in earlier searches" in again.text, "what was left unconfirmed is checked"


def children(pid: int) -> set[int]:
    """Every process below `pid`."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            below.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, todo = set[int](), [pid]
    while todo:
        found.update(more := below.get(todo.pop(), []))
        todo += more
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_killed_search_leaves_no_process_and_a_sound_cache(env: dict[str, str]) -> None:
    with Terminal(*SMALL, "--budget", "60s", env=env) as tune:
        tune.until(" of roofline")
        below = children(tune.process.pid)
        assert below, "the search runs candidates in other processes"
        tune.process.kill()
        tune.wait()
    end = time.monotonic() + 240
    while left := {p for p in below if alive(p)}:
        assert time.monotonic() < end, f"still there: {[Path(f'/proc/{p}/cmdline').read_text() for p in left]}"
        time.sleep(0.05)
    with Terminal(*SMALL, "--trials", "2", env=env) as again:
        assert again.wait() == 0
    assert "1 thread: tuned" in again.text and "warning" not in again.text


@pytest.mark.slow
def test_a_damaged_cache_is_moved_aside_and_the_search_goes_on(env: dict[str, str]) -> None:
    path = Path(env["TILEWRIGHT_CACHE"])
    with cache.open(path) as store:
        store.ensure_writable()
    damaged = path.read_bytes()[:4096] + b"\xff" * 9000
    path.write_bytes(damaged)
    with Terminal(*SMALL, "--trials", "3", env=env) as tune:
        assert tune.wait() == 0
    assert "warning: " in tune.text and "1 thread: tuned" in tune.text
    assert [p.read_bytes() for p in path.parent.glob("cache.db.corrupt-*")] == [damaged]


@pytest.mark.slow
def test_an_unwritable_cache_is_bad_usage_at_once(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Terminal(*SMALL, "--cache", str(tmp_path / "file" / "cache.db"), env=env) as tune:
        assert tune.wait() == 2
    assert "error: " in tune.text and "Traceback" not in tune.text


@pytest.mark.slow
def test_plain_lines_when_piped(env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tilewright.cli", *SMALL, "--trials", "6", "--json", "-"]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["origin"] == "tuned" and got["verified"] and got["counts"]["ok"] >= 1 and sum(got["counts"].values()) <= 6
    assert got["roofline_pct"] > 0 and got["gflops"] > 0
    assert "\x1b" not in done.stderr and "trials left  searching" in done.stderr and "best " in done.stderr


@pytest.mark.slow
def test_require(env: dict[str, str]) -> None:
    with Terminal(*SMALL, "--mode", "require", env=env) as tune:
        assert tune.wait() == 5
    assert "error: " in tune.text and "Traceback" not in tune.text


@pytest.mark.slow
def test_unknown_names(env: dict[str, str]) -> None:
    with Terminal("run", "--kernel", "matmull", env=env) as kernel:
        assert kernel.wait() == 2
    assert "did you mean 'matmul'?" in kernel.text
    with Terminal("run", "--kernel", "matmul", "--device", "gpu", env=env) as device:
        assert device.wait() == 3
    assert "unknown device 'gpu'" in device.text
