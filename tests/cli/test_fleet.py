"""`tune fleet` and `tune run --fleet`: what they say where there is no fleet."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tilewright.cli import main

MANIFEST = '[[kernel]]\nname = "add"\nshapes = ["m=8,n=8"]\n'


@pytest.fixture
def tune(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command; its exit code, and what it printed in all."""
    monkeypatch.setenv("TILEWRIGHT_FLEET_TLS", str(tmp_path / "tls"))
    (tmp_path / "tune.toml").write_text(MANIFEST)

    def run(*words: str) -> tuple[int, str]:
        code = main([w.replace("MANIFEST", str(tmp_path / "tune.toml")) for w in words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.mark.parametrize(
    "words, why",
    [
        (("run", "matmul", "--fleet", "tls://x:1", "--against", "numpy"), "--against and --fleet do not go together"),
        (("run", "matmul", "--fleet", "tls://x:1", "--shape", "m=1..9"), "write them into a --manifest"),
        (("run", "matmul", "--fleet", "tls://x:1", "--mode", "require"), "leave out --fleet"),
        (("run", "matmul", "--slots", "2"), "--slots says how many devices of a --fleet"),
        (("run", "--manifest", "MANIFEST", "--fleet", "tls://x:1", "--mode", "require"), "needs no --fleet"),
        (("fleet", "worker", "tcp://x:1", "--no-device", "--device", "cpu"), "contradict"),
        (("fleet", "worker", "tcp://x:1", "--memory", "much"), "is not a size"),
    ],
)
def test_what_makes_no_sense_is_said(tune: Any, words: tuple[str, ...], why: str) -> None:
    code, said = tune(*words)
    assert code == 2 and why in said


@pytest.mark.parametrize("words", [("fleet", "status", "tls://x:1"), ("run", "--manifest", "MANIFEST", "--fleet", "tls://x:1")])
def test_the_extra_and_certificates_are_named_where_they_are_missing(
    tune: Any, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = tune(*words)
    assert code == 3 and "tune fleet certificates" in said
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, said = tune(*words)
    assert code == 3 and "pip install 'tilewright[fleet]'" in said


def test_certificates_are_made_once_and_renewed(tune: Any, tmp_path: Path) -> None:
    code, said = tune("fleet", "certificates")
    assert code == 0 and "ca-key.pem stays here" in said and "a client's machine needs ca.pem, client.pem, client-key.pem" in said
    before = (tmp_path / "tls" / "client.pem").read_text()
    code, said = tune("fleet", "certificates", "--days", "30")
    assert code == 0 and "stays here" not in said and (tmp_path / "tls" / "client.pem").read_text() != before
    (tmp_path / "tls" / "ca-key.pem").unlink()
    code, said = tune("fleet", "certificates")
    assert code == 3 and "where the authority's key is kept" in said


def under_way(**more: Any) -> Any:
    from tilewright.fleet.engine import FleetSlot, SlotDevice
    from tilewright.fleet.fleet_run import UnderWay
    from tilewright.search.manifest.manifest_file import Entry, Place

    device = SlotDevice("cuda:0", "cuda:sm_90", "nvrtc-13", 1, "0" * 16)
    entry = Entry("matmul", {"m": 64}, "float32", Place("gpu"), 1)
    return UnderWay(entry, FleetSlot("n", "tcp://a", device, host="there"), 60.0, None, 100.0, **more)


def test_lines_say_what_was_sent_where_and_what_it_found() -> None:
    from io import StringIO

    from tilewright.cli.fleet.tune_on_fleet import FleetPlain
    from tilewright.cli.terminal.style import console
    from tilewright.search.manifest.tune_all import Overall

    now, out = [100.0], StringIO()
    board, overall = FleetPlain(console(out), lambda: now[0]), Overall(2, 60.0)
    u = under_way(attempt=2)
    for found in ({}, {}, {"t_min": 2e-6, "gflops": 3.0}, {"t_min": 2e-6, "gflops": 3.0}):
        u.top, now[0] = found, now[0] + 1
        u.counts["ok"] += 1
        board.show([u], overall)
    said = out.getvalue().splitlines()
    assert said[0] == "there cuda:0: tuning matmul m=64 float32 for gpu, once more after its worker was lost"
    assert len(said) == 2 and "ok 3, best 2 µs  3 GFLOP/s, 0:57 left" in said[1]


def test_the_board_has_a_line_for_each_slot() -> None:
    from io import StringIO

    from rich.console import Console
    from tilewright.cli.fleet.tune_on_fleet import FleetBoard
    from tilewright.search.manifest.tune_all import Overall

    out = StringIO()
    with FleetBoard(Console(file=out, force_terminal=True, width=160, color_system=None), lambda: 110.0) as board:
        board.show([under_way(phase="start schedules"), under_way(top={"t_min": "not a time"})], Overall(2, None))
        said = out.getvalue()
    assert (
        said.count("there cuda:0") == 2 and said.count("matmul m=64 float32 for gpu") == 2 and "start schedules" in said and "0:50" in said
    )


def test_a_port_that_is_taken_is_said(tune: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = tune("fleet", "scheduler", "--insecure", "--host", "127.0.0.1", "--port", str(taken.getsockname()[1]))
    assert code == 3 and "in use" in said and "--port" in said
