"""Signals interrupt a search, and wait while what it found is saved and shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tilewright.cache as caches
from tilewright.ir.errors import OutOfTimeError
from tilewright.search.interrupts import Deadline, SignalWatch, hold, release

SHAPE = "m=64,n=64,k=64"


def strike(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.01)


@pytest.fixture
def handled() -> Iterator[Callable[[int, object], None]]:
    """signal.signal, taken back in the end: under `nohup`, SIGHUP is ignored from the start."""
    before: dict[int, object] = {}

    def put(number: int, handler: object) -> None:
        before.setdefault(number, signal.signal(number, handler))

    yield put
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_was_ignored_stays_so(handled: Callable[[int, object], None]) -> None:
    handled(signal.SIGHUP, signal.SIG_IGN)
    with SignalWatch() as watch:
        strike(signal.SIGHUP)  # the terminal of a search that `nohup` started is closed
        assert watch.number == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_and_then_waits_until_all_is_out(number: int, handled: Callable[[int, object], None]) -> None:
    handled(number, signal.default_int_handler)
    before = signal.getsignal(number)
    with SignalWatch() as watch:
        with pytest.raises(KeyboardInterrupt):
            strike(number)
        hold()
        strike(number)  # the second one, as an impatient hand gives it, is noted
        assert watch.number == number and watch.code(0) == watch.code(130) == 128 + number and watch.code(4) == 4
        with pytest.raises(KeyboardInterrupt):
            strike(number)
        release()
    assert signal.getsignal(number) is before


def test_what_was_held_strikes_when_the_next_search_begins() -> None:
    with SignalWatch():
        hold()
        strike()
        with pytest.raises(KeyboardInterrupt):
            release()
        release()


def test_an_inner_watch_leaves_it_to_the_outer_one() -> None:
    with SignalWatch() as outer:
        with SignalWatch((signal.SIGINT,)) as inner:
            hold()
            strike(signal.SIGINT)
        assert (outer.number, inner.number) == (signal.SIGINT, 0)


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalWatch() as watch:
            strike(signal.SIGHUP)
            assert watch.number == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_command_saves_shows_and_says_which_signal(tmp_path: Path, known_limits: Path, number: int, code: int) -> None:
    location = tmp_path / "c.db"
    words = ["run", "--kernel", "matmul", "--shape", SHAPE, "--threads", "1", "--budget", "10m", "--cache", str(location)]
    words += ["--json", str(tmp_path / "r.json")]
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(known_limits)}
    with subprocess.Popen(
        [sys.executable, "-m", "tilewright.cli", *words],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # under nohup it would be ignored
    ) as tune:
        assert tune.stdout is not None
        for line in tune.stdout:
            if "searching" in line:
                break
        tune.send_signal(number)
        said = tune.stdout.read()
        assert tune.wait(240) == code
    assert "interrupted; the best so far is saved" in said and "reproduce" in said
    assert json.loads((tmp_path / "r.json").read_text())["exit_code"] == code
    with caches.open(location) as c:
        (answer,) = [r for r in c.rows(verified=True) if not r.provisional]
        assert c.standing(answer) == "unconfirmed"
    assert [p.name for p in tmp_path.glob("c.db*")] == ["c.db"]


IN_NATIVE_CODE = """
import hashlib, os, signal, sys, time
from tilewright.search.interrupts import hold, watched

def work():
    print("begun", flush=True)
    how = sys.argv[1]
    if how == "native":
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10**9)  # minutes, without an instruction of Python's
    while how == "deaf":
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            pass
    hold()
    while True:
        time.sleep(600)

sys.exit(watched(work))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["native", "deaf", "held"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_obeyed_whatever_is_under_way(how: str, number: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", IN_NATIVE_CODE, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    child.send_signal(number)
    try:
        _, said = child.communicate(timeout=240)  # it works for minutes, or for ever
    finally:
        child.kill()
    assert child.returncode == 128 + number and "ended by a signal" in said


IN_AN_EXEC = """
import os, signal, sys
from tilewright.search.interrupts import watched
sys.exit(watched(lambda: exec("import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)")))
"""


def test_one_that_strikes_inside_an_exec_ends_with_the_same_code() -> None:
    done = subprocess.run([sys.executable, "-c", IN_AN_EXEC], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 143 and done.stderr == "ended by a signal\n"


def test_a_deadline_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is cut off in the middle would lack its names for the rest of the process."""
    (tmp_path / "slow_module.py").write_text(
        "import time\nbegin = time.monotonic()\nwhile time.monotonic() < begin + 0.4: pass\nname = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OutOfTimeError), Deadline(0.0, time.monotonic() - 3):  # its margin is over at once
        import slow_module  # type: ignore[import-not-found]

        assert slow_module.name == 1
        while True:
            pass
    assert sys.modules.pop("slow_module").name == 1
