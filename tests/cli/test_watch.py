"""tune watch: the page over HTTP, what it refuses, and how it ends."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cli.report import watch
from tilewright.cli.report.entries import entries
from tilewright.cli.report.watch import Drawer, LivePage

from .conftest import Tune, row

ANYTHING = dict.fromkeys(
    ("kernel", "device", "strategy", "since", "shape", "dtype", "threads", "outcome", "sort", "limit"),
)


def ask(live: LivePage, path: str = "/", host: str = "", tag: str = "") -> tuple[int, dict[str, str], str]:
    """Status, headers and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=240)
    connection.request("GET", path, headers={"Host": host or f"127.0.0.1:{live.port}", "If-None-Match": tag})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.headers), text


def test_a_browser_gets_what_is_new_and_nothing_else() -> None:
    with LivePage(0) as live:
        assert not live.watched
        live.show("<p>één")
        status, headers, text = ask(live)
        assert (status, text, headers["X-Tune-State"]) == (200, "<p>één", "running") and live.watched
        status, headers, text = ask(live, tag=headers["ETag"])
        assert (status, text) == (304, "")
        live.show("two", ended=True)
        status, again, text = ask(live, tag=headers["ETag"])
        assert (status, text, again["X-Tune-State"]) == (200, "two", "ended")
        assert ask(live, "/etc/passwd")[0] == 404
        assert ask(live, host="elsewhere.example")[0] == 403, "a name that was made to lead here"
        assert ask(live, host=f"localhost:{live.port}")[0] == 200


def test_the_page_follows_a_search_before_it_has_an_answer(cache_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cli.report.watch.SHARE", float("inf"))
    monkeypatch.setattr("tilewright.cli.report.watch.LAST_S", 0.0)
    asked = Namespace(**ANYTHING)
    with cache.open(cache_file) as store, LivePage(0) as live:
        drawer = Drawer(live, lambda: entries(store, asked, unfinished=True), store.stamp)
        assert "holds nothing like that" in ask(live)[2]
        store.record([row(t_min=3e-5, t_med=3e-5, verified=False), row(opts=[], opts_display=[], verified=False)])
        drawer.look()
        text = ask(live)[2]
        assert 'href="#k0">matmul' in text and "9 µs" in text and 'id="live"' in text and entries(store, asked) == []
        drawer.last()
        assert ask(live)[1]["X-Tune-State"] == "ended"


def test_studies_are_a_part_that_is_made_less_often(cache_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cli.report.watch.SHARE", float("inf"))
    monkeypatch.setattr("tilewright.cli.report.watch.LAST_S", 0.0)
    made: list[str] = ["", "<p>the first</p>", "", "<p>the last</p>"]  # (nothing yet; something; nobody can read it; the end)
    with cache.open(cache_file) as store, LivePage(0, "var Plotly;") as live:
        drawer = Drawer(live, lambda: entries(store, Namespace(**ANYTHING), unfinished=True), store.stamp, lambda: made.pop(0))
        text = ask(live)[2]
        assert text.index('src="/script.js"') < text.index("drawStudies") and ask(live, "/script.js")[2] == "var Plotly;"
        for n, said in ((1, "the first"), (2, "the first")):
            store.record(row(n=n))
            drawer.look()
            assert f"<p>{said}</p>" in ask(live)[2] and len(made) == 3 - n
        drawer.last()
        assert "<p>the last</p>" in ask(live)[2]
    with LivePage(0) as live:
        assert ask(live, "/script.js")[0] == 404


def test_an_interrupt_lets_the_run_save_what_it_has(cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, saved = tmp_path / "begun", tmp_path / "saved"
    script = (
        "import pathlib, signal, sys, time\n"
        "try:\n    pathlib.Path(sys.argv[1]).touch(); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    pathlib.Path(sys.argv[2]).touch(); sys.exit(130)"
    )
    # a shell's background job ignores interrupts, and so would what it starts
    begin = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    monkeypatch.setattr(watch, "_command", lambda args: [sys.executable, "-c", begin + script, str(begun), str(saved)])
    monkeypatch.setattr(watch, "LAST_S", 0.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Thread(target=interrupt, daemon=True).start()
        asked = Namespace(**ANYTHING, words=["run", "matmul"], cache=str(cache_file), port=0, study=None)
        assert watch.run(asked) == 130 and saved.exists()
    finally:
        signal.signal(signal.SIGINT, before)


def test_mistakes_come_before_the_run(tune: Tune) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = tune("watch", "--port", port, "run", "matmul")
    assert done.code == 2 and f"port {port} is in use: name another with --port" in done.err
    assert "tune watch takes what tune run or tune source takes" in tune("watch", "matmul").err
    assert "unknown" in tune("watch", "run", "matmul", "--bugdet", "1s").err or tune("watch", "run", "--bugdet").code == 2
    assert "--since takes a date" in tune("watch", "--port", "0", "--since", "yesterday").err


@pytest.mark.slow
def test_it_ends_with_its_run_or_by_an_interrupt(filled: Path) -> None:
    command = [sys.executable, "-P", "-m", "tilewright", "watch", "--port", "0"]
    run = subprocess.run(
        [*command, "run", "matmul", "--mode", "require", "--shape", "m=3,n=3,k=3"], capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 5 and "live at http://127.0.0.1:" in run.stderr and "no cached schedule for matmul" in run.stderr, run.stderr
    with subprocess.Popen([*command, "--since", "2020-01-01"], stderr=subprocess.PIPE, text=True, env={**os.environ}) as watch:
        assert watch.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)", watch.stderr.readline())
        assert found
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=240)
        connection.request("GET", "/")
        assert "softmax" in connection.getresponse().read().decode()
        watch.send_signal(signal.SIGINT)
        assert watch.wait(240) == 0 and watch.stderr.read() == ""
