"""A server that stands still: stopped processes and slow statements are as bad as a server that is gone, and no worse."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, CacheWarning, Key
from tilewright.cache.server import server_writer
from tilewright.cache.server.server_errors import Unreachable
from tilewright.cache.server.server_writer import SilenceWatch
from tilewright.ir.errors import CacheError

pytestmark = pytest.mark.slow
LIMIT_S = 2.0
"""What the tests wait for a server that stands still; one that answers on a busy machine must be quicker."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWER_S", "HURRIED_ANSWER_S"):
        monkeypatch.setattr(server_writer, name, LIMIT_S)
    monkeypatch.setattr(server_writer, "CONNECT_S", 2)


def backend(store: Cache) -> int:
    assert store.team is not None
    return int(store.team.writer._transaction(lambda c: c.exec_driver_sql("SELECT pg_backend_pid()").scalar_one(), reading=True))


def test_a_stopped_process_of_the_server_is_not_waited_for(line, make_row, key: Key) -> None:
    rows = [make_row(), make_row(opts=[["UPCAST", "a1", 3]])]
    with cache.open(line.url) as store:
        store.record(rows[0])
        store.team.pull()
        stopped = backend(store)
        try:
            os.kill(stopped, signal.SIGSTOP)
        except PermissionError:
            pytest.skip("the server runs as another user")
        try:
            with pytest.raises(Unreachable, match=r"does not answer \(nothing came for 2 s\)") as e:
                store.record(rows[1], patience_s=0.25)
            assert "sesame" not in str(e.value)
            kept = store.spill(rows[1:], "run7")
            assert store.best(key) is not None and kept.exists()
            with pytest.warns(CacheWarning, match="took in 1 measurements"):
                store.ensure_writable()  # the rest of the server answers, over another connection
            assert backend(store) != stopped
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert len(store.rows()) == 2


def test_a_server_that_accepts_connections_and_says_nothing(line, make_row, key: Key) -> None:
    with cache.open(line.url) as store:
        store.record(make_row())
        store.team.pull()
    line.flows.clear()
    with cache.open(line.url) as store, pytest.warns(CacheWarning, match="does not answer") as said:
        store.ensure_writable()
        assert store.best(key) is not None and len(store.rows()) == 1
    assert "sesame" not in "".join(str(w.message) for w in said)
    line.flows.set()
    with cache.open(line.url) as store:
        assert store.record(make_row()) == 1


def test_a_kept_connection_on_which_nothing_comes_is_given_up(line, make_row, monkeypatch: pytest.MonkeyPatch) -> None:
    with cache.open(line.url) as store:
        store.record(make_row())
        line.flows.clear()
        with pytest.raises(Unreachable, match="nothing came"):
            store.record(make_row())
        line.flows.set()
        assert store.record(make_row()) == 1
        with pytest.raises(Unreachable, match="statement timeout"):  # a server that is slow, and says so
            store.team.writer._transaction(lambda c: c.exec_driver_sql("SELECT pg_sleep(60)"))
        with pytest.raises(Unreachable, match="nothing came"):  # also while much is read
            store.team.writer._transaction(lambda c: c.exec_driver_sql("SELECT pg_sleep(60)"), reading=True)
        store.team.writer.execute("SELECT pg_sleep(2.2)")  # changes of the tables may take long


def test_a_watch_ends_one_connection_and_leaves_those_that_speak() -> None:
    here, there = socket.socketpair()
    quiet, behind = socket.socketpair()
    speaking, silent = SilenceWatch(60), SilenceWatch(0.01)
    with here, there, quiet, behind:
        speaking.over(here)
        silent.over(quiet)
        assert behind.recv(1) == b"" and silent.fired
        speaking.heard()
        speaking.done()
        there.sendall(b"x")
        assert here.recv(1) == b"x" and not speaking.fired


def test_where_no_thread_can_watch_it_is_an_error_that_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(self: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", none_left)
    before = len(os.listdir("/proc/self/fd"))
    a, b = socket.socketpair()
    with a, b, pytest.raises(CacheError, match="want of a file or a thread"):
        SilenceWatch(LIMIT_S).over(a)
    a.close(), b.close()
    with pytest.raises(CacheError, match="want of a file or a thread"):
        SilenceWatch(LIMIT_S).over(a)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_new_machine_hears_of_it_in_time(line, home: Path, key: Key) -> None:
    line.flows.clear()
    with cache.open(line.url) as store, pytest.raises(Unreachable, match="does not answer"):
        store.best(key)
    line.flows.set()
