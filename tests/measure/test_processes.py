"""Messages over pipes, helpers that the starter forks, and pausing the builders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from measure_fakes import compile_by_name, double
from tilewright.ir import MeasureError
from tilewright.measure.processes import builder, forked, process
from tilewright.measure.processes.builder import BuilderSetup
from tilewright.measure.processes.forked import Forked, Helper
from tilewright.measure.processes.process import Slots, needs_pause
from tilewright.measure.processes.protocol import Channel, Closed, pair, roomy


def test_messages_arrive_in_order_and_whole():
    a, b = pair()
    big = os.urandom(3 << 20)
    # more than a pipe holds: someone has to read meanwhile
    writer = threading.Thread(target=lambda: [a.send(m) for m in ("one", {"two": 2}, big)])
    writer.start()
    assert [b.receive(5) for _ in range(3)] == ["one", {"two": 2}, big]
    writer.join()
    b.send("back")
    assert a.receive(1) == "back"


def test_nothing_to_read_times_out_and_the_message_still_arrives_later():
    a, b = pair()
    with pytest.raises(TimeoutError):
        b.receive(0.01)
    a.send(1)
    assert b.receive(1) == 1


def test_half_a_message_is_not_a_message():
    a, b = pair()
    os.write(a.write_fd, b"\x10\0\0\0\0\0\0\0half")
    with pytest.raises(TimeoutError):
        b.receive(0.01)
    assert not b.pending()


def test_messages_sent_before_the_end_are_read_then_closed():
    a, b = pair()
    a.send("last words")
    a.close()
    assert b.receive(1) == "last words"
    with pytest.raises(Closed):
        b.receive(1)


def test_writing_to_a_closed_end():
    a, b = pair()
    b.close()
    with pytest.raises(Closed):
        a.send("x")
    assert isinstance(a, Channel)


def test_sources_are_sent_before_anybody_reads():
    """A builder goes on while the search thinks of what to ask next: its results wait in the pipe."""
    a, b = pair()
    roomy(a.write_fd)
    sources = [("\n".join(f"%x{i} = fadd <16 x float> %a{i * k}, %b{i}" for i in range(8000)), os.urandom(30_000)) for k in range(1, 7)]
    writer = threading.Thread(target=lambda: [a.send(s) for s in sources], daemon=True)
    writer.start()
    writer.join(20)
    assert not writer.is_alive(), "all of it is sent"
    assert [b.receive(5) for _ in sources] == sources


def state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def wait_for(pid, states):
    until = time.monotonic() + 240
    while time.monotonic() < until:
        if state(pid) in states:
            return True
        time.sleep(0.005)
    return False


def test_exclusive_stops_every_process_of_the_group_and_lets_it_go_on():
    code = "import time\nwhile True: time.sleep(0.001)"
    first = subprocess.Popen([sys.executable, "-c", code], process_group=0)
    second = subprocess.Popen([sys.executable, "-c", code], process_group=first.pid)
    try:
        with Slots(first.pid).exclusive():
            assert wait_for(first.pid, "T") and wait_for(second.pid, "T")
        assert wait_for(first.pid, "RS") and wait_for(second.pid, "RS")
    finally:
        for p in (first, second):
            p.kill()
            p.wait()
    with Slots(first.pid).exclusive() as nothing:
        assert nothing is None  # the group is gone: nothing to pause, no error


def test_no_group_no_pause():
    with Slots(None).exclusive() as nothing:
        assert nothing is None


def test_a_pause_is_needed_unless_all_fit():
    assert needs_pause(threads=2, builders=2, cores=2)
    assert needs_pause(threads=1, builders=2, cores=2)
    assert not needs_pause(threads=1, builders=1, cores=2)


SETUP = BuilderSetup(double(), "cpu", compile_by_name, {}, 1 << 31)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No starter of another test."""
    forked._here.__dict__.clear()
    yield
    forked._here.__dict__.clear()


def told(helper: tuple[Helper, Channel]) -> dict[str, Any]:
    """What a builder says of itself; it is killed."""
    started, channel = helper
    assert channel.receive(60) == (None, "ready")
    channel.send(("build", 1, ("tell",)))
    ticket, failed = channel.receive(60)
    started.kill()  # while it waits for the next request: after a hang-up it may have ended by itself first
    process.stop(started, channel)
    assert ticket == 1
    found: dict[str, Any] = json.loads(failed.detail)
    return found


def start() -> tuple[Helper, Channel]:
    return process.start(builder.MODULE, SETUP)


@pytest.mark.slow
def test_a_helper_is_our_child_and_has_our_surroundings_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start()
    assert isinstance(first[0], Forked) and os.getpgid(first[0].pid) == first[0].pid
    assert (told(first)["parent"], first[0].wait()) == (os.getpid(), -signal.SIGKILL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_TOLD", "later")
    starter = forked.prepare(process.environment())
    second = start()
    assert Path(f"/proc/{second[0].pid}/comm").read_text() == "tw-builder\n"
    assert told(second) == {"parent": os.getpid(), "folder": str(tmp_path), "variable": "later"}
    # what a library reads as it loads is not changed afterwards
    monkeypatch.setenv("LD_BIND_NOW", "1")
    assert forked.prepare(process.environment()) is not starter


@pytest.mark.slow
def test_a_starter_that_ended_is_replaced_and_its_helpers_stay() -> None:
    before = start()
    starter = forked.prepare(process.environment())
    starter.close()
    assert told(before)["parent"] == told(start())["parent"] == os.getpid()
    assert forked.prepare(process.environment()) is not starter


@pytest.mark.slow
def test_where_nothing_can_be_forked_helpers_are_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "MODULE", "tilewright.measure.nothing")
    helper = start()
    assert isinstance(helper[0], subprocess.Popen) and told(helper)["parent"] == os.getpid()


@pytest.mark.slow
def test_what_keeps_a_process_from_being_a_helper_is_told_at_once() -> None:
    helper = start()
    starter = forked.prepare(process.environment())
    os.kill(helper[0].pid, signal.SIGKILL)
    gone = helper[0].wait() and helper[0].pid  # whose group is gone with it
    (read, write), folder = os.pipe(), os.open(".", os.O_PATH)
    try:
        with pytest.raises(PermissionError):  # (and not after a minute without an answer)
            starter.fork(builder.MODULE, gone, (read, write, 2, 2, folder))
    finally:
        for fd in (read, write, folder):
            os.close(fd)
    assert told(start())["parent"] == os.getpid(), "the next one is made"


def test_a_helper_that_is_gone_may_be_ended() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        pid = os.fork()
        if not pid:
            os._exit(0)
        while Path(f"/proc/{pid}").exists():
            pass
        helper = Forked(pid)
        helper.kill()
        assert helper.wait() == 0
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_folder_that_cannot_be_opened_forks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: object, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(process.os, "open", refused)
    assert process._folder() is None


def test_a_starter_is_for_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    now = forked._surroundings({})
    monkeypatch.setattr(forked.os, "getresuid", lambda: (4711, 4711, 4711))
    assert forked._surroundings({}) != now


def test_other_systems_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.sys, "platform", "win32")
    with pytest.raises(MeasureError, match="measuring needs Linux"):
        start()


def test_where_no_process_may_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that forbids it."""

    def forbidden(*args: object, **named: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    monkeypatch.setattr(process.forked, "_here", threading.local())
    before = len(os.listdir("/proc/self/fd"))
    assert not process.begin()
    with pytest.raises(MeasureError, match="let this process start others"):
        process.start("tilewright.measure.processes.runner", None)
    assert len(os.listdir("/proc/self/fd")) == before
