"""`tune` on this machine: what it finds, keeps and answers, also for kernels whose extents are all 1."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright.cache as caches
from tilewright import named_kernels
from tilewright.ir.errors import CacheMiss, DeviceError, KernelError, UsageError
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.measure.checking.verify import expectations
from tilewright.measure.inputs import generate
from tilewright.opts import parse
from tilewright.plan import Artefacts, best
from tilewright.search import Result, machine_limits, tune

alone = pytest.mark.alone  # what one search finds, in the time it has, is what they are about
SHAPE = {"m": 96, "n": 96, "k": 64}


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tune") / "cache.db"


@pytest.fixture(scope="module")
def first(location: Path) -> Result:
    """A small search from an empty cache, without start schedules, so that there is something to gain."""
    return tune("matmul", shape=SHAPE, dtype="float32", trials=40, threads=1, start="none", cache=location)


@pytest.fixture
def opened(location: Path, first: Result) -> Iterator[caches.Cache]:
    with caches.open(location) as c:
        yield c


@alone
@pytest.mark.slow
def test_finds_better_than_the_empty_schedule(first: Result) -> None:
    assert (first.exit_code, first.origin, first.verified, first.confirmed) == (0, "tuned", True, True)
    assert first.start_opts == () and first.start_s is not None
    assert first.t_min is not None and first.t_min < first.start_s / 3
    assert first.opts and first.significant
    assert first.gflops == pytest.approx(2 * 96 * 96 * 64 / first.t_min * 1e-9)
    assert sum(first.counts.values()) >= 40 and first.counts["ok"] > 10


@alone  # as whichever of them is the first in its process searches
@pytest.mark.slow
def test_every_measurement_is_a_row_and_one_is_the_answer(first: Result, opened: caches.Cache) -> None:
    rows = opened.rows(name="matmul")
    assert len([r for r in rows if not r.provisional]) == sum(first.counts.values()) + 1
    [answer] = [r for r in rows if r.verified and not r.provisional]
    assert opened.best(answer.key) == answer
    assert answer.t_min == first.t_min and answer.start_s == pytest.approx(first.start_s)
    assert answer.shape_dict == SHAPE and answer.dtype == "float32" and answer.device == "cpu" and answer.threads == 1
    assert answer.flops == 2 * 96 * 96 * 64 and answer.source_sha == first.source_sha


@alone
@pytest.mark.slow
def test_second_time_it_is_cached(first: Result, location: Path) -> None:
    again = tune("matmul", shape=SHAPE, dtype="float32", threads=1, cache=location)
    assert again.origin == "cached" and again.opts == first.opts and again.t_min == first.t_min
    assert again.start_opts == first.start_opts and again.start_s == first.start_s
    assert tune("matmul", shape=SHAPE, dtype="float32", threads=1, cache=location, mode="require").origin == "cached"


@alone
@pytest.mark.slow
def test_require_lists_what_is_missing(location: Path, first: Result) -> None:
    with pytest.raises(CacheMiss, match=r"no cached schedule for matmul.*2 threads.*kernel hash [0-9a-f]{64}"):
        tune("matmul", shape=SHAPE, threads=2, cache=location, mode="require")


@alone
@pytest.mark.slow
def test_retune_starts_from_what_is_stored(first: Result, location: Path, tmp_path: Path) -> None:
    own = tmp_path / "copy.db"  # the tests beside it count the rows of the first search, in whatever order all of them run
    with closing(sqlite3.connect(location)) as stored, closing(sqlite3.connect(own)) as copy:
        stored.backup(copy)
    again = tune("matmul", shape=SHAPE, dtype="float32", threads=1, cache=own, retune=True, trials=20)
    assert again.origin == "tuned" and again.exit_code == 0
    with caches.open(own) as c:
        rows = c.rows(name="matmul", threads=1, verified=False)
        # (a start schedule may be the same source in other words, and a source is measured once a run)
        sources = {r.source_sha for r in rows if parse(r.opts_display) == first.opts}
        assert len({r.run_id for r in rows if r.source_sha in sources}) == 2
        answers = [r for r in c.rows(name="matmul", verified=True, threads=1) if not r.provisional]
        assert len(answers) == 2


@pytest.mark.slow
def test_record_measures_only_the_start(tmp_path: Path) -> None:
    r = tune("matmul", shape=SHAPE, threads=1, cache=tmp_path / "c.db", mode="record", trials=20)
    assert r.exit_code == 0 and r.opts == r.start_opts and r.gain == 1.0 and not r.significant
    with caches.open(tmp_path / "c.db") as c:
        assert {x.strategy for x in c.rows()} == {"start", "portfolio"}


@pytest.mark.slow
def test_a_kernel_object(tmp_path: Path) -> None:
    kernel = named_kernels.make("softmax", {"m": 64, "n": 128}, "float32")
    r = tune(kernel, threads=1, cache=tmp_path / "c.db", trials=2, random_seed=3)
    assert r.exit_code == 0 and r.kernel == "softmax"


def test_bad_arguments(tmp_path: Path) -> None:
    c = tmp_path / "c.db"
    for wrong, error, says in [
        ({"kernel": "matmull"}, KernelError, "matmul"),
        ({"mode": "maybe"}, UsageError, "mode='maybe'"),
        ({"mode": "require", "retune": True}, UsageError, "use one of them"),
        ({"start": "some"}, UsageError, "start must be"),
        ({"threads": 0}, UsageError, "at least 1"),
        ({"strategy": "bean"}, UsageError, "did you mean 'beam'"),
        ({"budget": "soon"}, UsageError, "budget 'soon' is not a time"),
        ({"device": "cqu"}, DeviceError, "cpu"),
        ({"vars": {"m": 3}}, UsageError, "no symbol 'm'"),
    ]:
        with pytest.raises(error, match=says):  # type: ignore[call-overload]
            tune(**{"kernel": "matmul", "shape": SHAPE, "cache": c, "trials": 1, **wrong})
    assert not c.exists()


PROGRAM = """
import sys
from tilewright.opts import parse
from tilewright.search import Interrupted, tune
class Show:
    def phase(self, name): print(name, flush=True)
    def candidate(self, m): pass
    def best(self, b): print("best", flush=True)
    def done(self, r): pass
try:
    r = tune("matmul", shape={"m": 96, "n": 96, "k": 64}, threads=1, cache=sys.argv[1], budget="60s", progress=Show())
except Interrupted as e:
    r = e.result
    print("interrupted", flush=True)
print("exit", r.exit_code, r.t_min is not None, flush=True)
"""


def started(location: Path, until: str) -> subprocess.Popen[str]:
    """A search in another process, in a session of its own, as far as the line `until`."""
    p = subprocess.Popen([sys.executable, "-c", PROGRAM, str(location)], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert p.stdout is not None
    for line in p.stdout:
        if line.strip() == until:
            return p
    raise AssertionError(f"it ended before {until!r}")


@pytest.mark.slow
def test_ctrl_c_keeps_the_best(tmp_path: Path) -> None:
    location = tmp_path / "c.db"
    p = started(location, "best")
    os.killpg(p.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    out, _ = p.communicate(timeout=240)
    assert out.splitlines()[-2:] == ["interrupted", "exit 130 True"], "a program that tunes hears of Ctrl-C"
    with caches.open(location) as c:
        [answer] = [r for r in c.rows(verified=True) if not r.provisional]
        assert answer.outcome == "ok"
    assert tune("matmul", shape=SHAPE, threads=1, cache=location, mode="require").origin == "cached"


@pytest.mark.slow
def test_sigkill_loses_little_and_leaves_the_answer_so_far(tmp_path: Path) -> None:
    location = tmp_path / "c.db"
    p = started(location, "searching")
    with caches.open(location) as c:
        until = time.monotonic() + 240
        while len(c.rows()) <= 3 and time.monotonic() < until:
            time.sleep(0.1)
    os.kill(p.pid, signal.SIGKILL)
    p.wait(timeout=240)
    with caches.open(location) as c:
        rows = c.rows()
        assert len(rows) > 3 and all(r.provisional for r in rows if r.verified)
        timed = {r.opts: r.t_min for r in rows if r.outcome == "ok" and not r.verified}
        answer = c.best(rows[0].key)
        assert answer is not None and answer.t_min == timed[answer.opts], "what answers was measured"
        assert answer.facts["effort"]["interrupted"], "and the next search goes on from it"
    assert tune("matmul", shape=SHAPE, threads=1, cache=location, mode="require").opts == parse(answer.opts_display)
    r = tune("matmul", shape=SHAPE, threads=1, cache=location, trials=20)
    assert r.exit_code == 0


@pytest.mark.slow
def test_the_limits_of_a_new_machine_are_measured_before_its_first_search(
    tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a part of the budget, where a search is coming, and once: so a result has its share of the roofline."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    asked: list[float] = []

    def measured(device: Any, seconds: float, limit_s: float) -> Any:
        asked.append(seconds)
        shutil.copytree(known_limits, tmp_path / "state", dirs_exist_ok=True)
        return device.limits()

    monkeypatch.setattr(machine_limits, "measured", measured)
    about: dict[str, Any] = {"shape": {"m": 32, "n": 32, "k": 32}, "threads": 1, "cache": tmp_path / "cache.db"}
    first = tune("matmul", budget="200s", trials=4, **about)
    assert first.roofline_pct and first.roofline_pct > 0 and asked == [5.0]
    again = tune("matmul", budget="200s", trials=4, **about)
    assert again.origin == "cached" and again.roofline_pct and len(asked) == 1


def ones(name: str) -> dict[str, int]:
    # a window of one element has no room for padding
    return {n: 0 if n == "pad" else 1 for n in named_kernels.get(name).shape_names}


def made(name: str) -> Kernel:
    return normalise(named_kernels.make(name, ones(name)))


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_operands_and_references_have_the_kernels_shapes(name: str) -> None:
    kernel = made(name)
    for whole in (False, True):
        values = generate(kernel, {}, 0, whole)
        assert [values[b.name].shape for b in kernel.inputs] == [b.shape for b in kernel.inputs]
        expected = expectations(kernel, values, {}, whole)
        assert [expected[b.name].shape for b in kernel.outputs] == [b.shape for b in kernel.outputs]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "matmul", "sum_all", "argmax", "embedding_grad"])
def test_they_are_tuned_and_called(name: str, tmp_path: Path) -> None:
    found = tune(name, ones(name), trials=2, cache=tmp_path / "cache.db", threads=1)
    assert found.found and found.verified
    compiled = best(name, ones(name), cache=tmp_path / "cache.db", store=Artefacts(tmp_path / "store"), threads=1)
    assert compiled.origin == "exact"
    values = [np.zeros(b.shape, b.dtype.np) for b in compiled.kernel.inputs]
    compiled(*values)
