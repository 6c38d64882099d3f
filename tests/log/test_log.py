"""TILEWRIGHT_LOG: what is understood, what goes where, helper processes, and a live display that stays whole."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tilewright import log
from tilewright.cli import main
from tilewright.cli.terminal.live import LogAbove
from tilewright.log import setup

DEBUG, INFO, OFF = logging.DEBUG, logging.INFO, setup.LEVELS["off"]
LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} (?:DEBUG|INFO ) tilewright\.(\w+)\[(\d+)\] .+$", re.M)


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    """Logging as it was."""
    before = setup.current()
    yield
    setup.apply(before)


@pytest.mark.parametrize(
    ("text", "levels", "file"),
    [
        ("debug", dict.fromkeys(log.ROOMS, DEBUG), None),
        ("INFO", dict.fromkeys(log.ROOMS, INFO), None),
        ("search:debug,measure:info", {"search": DEBUG, "measure": INFO}, None),
        (" search : debug ".replace(" :", ":").replace(": ", ":"), {"search": DEBUG}, None),
        ("debug,cache:off", {**dict.fromkeys(log.ROOMS, DEBUG), "cache": OFF}, None),
        ("lower:debug,file=/tmp/a,b:c", {"lower": DEBUG}, "/tmp/a,b:c"),
        ("search,cache:off", {"search": DEBUG, "cache": OFF}, None),
        ("file=/tmp/x", dict.fromkeys(log.ROOMS, DEBUG), "/tmp/x"),
    ],
)
def test_settings(text: str, levels: dict[str, int], file: str | None) -> None:
    found = setup.parse(text)
    assert (found.levels, found.file) == (levels, file)
    assert setup.parse(found.text) == found, "what helpers inherit means the same"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loud", "'loud' is no level"),
        ("search=debug", "'search=debug' is no level"),
        ("kitchen:debug", "there is no room 'kitchen'"),
        ("search:", "'' is no level"),
        (",", "is empty"),
        ("debug file=/tmp/x", "put a comma before"),
        ("debug,file=", "names no file"),
    ],
)
def test_what_cannot_be_understood_names_the_right_form(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(setup.BadSetting, match=re.escape(said)):
        setup.parse(text)
    monkeypatch.setenv(log.ENV, text)
    assert main(["kernels"]) == 2
    said_there = capsys.readouterr().err
    assert said_there.startswith("error: TILEWRIGHT_LOG") and said in said_there


def python(code: str, setting: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, log.ENV: setting}, timeout=240)


def test_import_warns_and_goes_on() -> None:
    done = python("import tilewright; print(tilewright.__version__)", "loud")
    assert done.returncode == 0 and done.stdout and "UserWarning: TILEWRIGHT_LOG: 'loud' is no level" in done.stderr
    assert "UserWarning: TILEWRIGHT_LOG: cannot write" in python("import tilewright", "file=/nowhere/at/all").stderr


def test_the_command_says_it_once() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.cli", "kernels"],
        capture_output=True,
        text=True,
        env={**os.environ, log.ENV: "loud"},
        timeout=240,
    )
    assert done.returncode == 2 and done.stderr.count("TILEWRIGHT_LOG:") == 1 and done.stderr.startswith("error: ")


def test_rooms_have_loggers_of_these_names() -> None:
    assert [log.logger(r).name for r in log.ROOMS] == [f"tilewright.{r}" for r in log.ROOMS]
    with pytest.raises(ValueError, match="kitchen"):
        log.logger("kitchen")


def test_a_program_that_sets_up_logging_itself_gets_messages(caplog: pytest.LogCaptureFixture) -> None:
    setup.apply(None)
    room = log.logger("search")
    assert not room.listens()
    with caplog.at_level(DEBUG, "tilewright.search"):
        assert room.listens()
        room.debug("%d of %s", 3, "them")
    assert [(r.getMessage(), r.funcName) for r in caplog.records] == [
        ("3 of them", "test_a_program_that_sets_up_logging_itself_gets_messages")
    ]


def test_values_are_formatted_only_where_somebody_reads() -> None:
    class Dear:
        def __str__(self) -> str:
            raise AssertionError("formatted for nobody")

    setup.apply(setup.parse("search:info"))
    log.logger("search").debug("%s", Dear())
    log.logger("lower").info("%s", Dear())


def test_lines_are_whole_and_move_no_cursor(tmp_path: Path) -> None:
    file = tmp_path / "log"
    setup.apply(setup.parse(f"search:debug,file={file}"))
    log.logger("search").info("kernel %s", "a\x1b[2Jb\nc")
    assert LINE.fullmatch(file.read_text().rstrip("\n")) and r"a\x1b[2Jb\nc" in file.read_text()


def test_a_log_that_cannot_be_written_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    setup.apply(setup.parse("search:debug,file=/dev/full"))
    log.logger("search").info("lost")


@pytest.mark.slow
def test_helper_processes_write_to_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright import named_kernels
    from tilewright.measure import Measurer

    file = tmp_path / "log"
    monkeypatch.setenv(log.ENV, f"measure:debug,lower:debug,file={file}")
    setup.from_environment()
    with Measurer(named_kernels.make("add", {"m": 4, "n": 16}), "cpu", 1, builders=1) as m:
        (built,) = [b for _, b in m.build([()])]
        assert m.measure([built])[0].ok
    lines = [(room, int(pid), line) for line in file.read_text().splitlines() for room, pid in LINE.findall(line)]
    assert len(lines) == len(file.read_text().splitlines()), "every line is whole"
    mine = [line for room, pid, line in lines if pid == os.getpid()]
    others = [line for room, pid, line in lines if pid != os.getpid()]
    assert any("started tilewright.measure.processes.runner" in line for line in mine) and any(" ok, " in line for line in mine)
    for said in ("compiled in", "interleave took", "a child for candidates on random inputs"):
        assert any(said in line for line in others), said
    assert len({pid for _, pid, _ in lines}) >= 3, "this process, a builder, and a measured child"


def test_messages_wait_while_a_display_is_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(log.ENV, "search:debug")
    setup.from_environment()
    shown: list[str] = []
    above = LogAbove(shown.append)
    above.begin()
    name = os.environ[log.ENV].rpartition("file=")[2]
    log.logger("search").debug("one")
    assert not shown and "one" in Path(name).read_text()
    above.show()
    above.show()
    log.logger("search").debug("two")
    above.end()
    assert [LINE.findall(s) != [] for s in shown] == [True, True] and "one" in shown[0] and "two" in shown[1]
    assert not Path(name).exists() and os.environ[log.ENV] == "search:debug"
    log.logger("search").debug("three")
    said = capsys.readouterr().err
    assert "three" in said and "one" not in said


def test_a_file_that_was_named_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(log.ENV, f"search:debug,file={tmp_path / 'log'}")
    setup.from_environment()
    above = LogAbove(lambda text: pytest.fail("shown"))
    above.begin()
    log.logger("search").debug("one")
    above.show()
    above.end()
    assert "one" in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_the_board_stays_whole(tmp_path: Path, known_limits: Path) -> None:
    from ..cli.terminal import ESCAPES, Terminal

    env = {
        "TILEWRIGHT_CACHE": str(tmp_path / "c.db"),
        "XDG_STATE_HOME": str(known_limits),
        log.ENV: "search:info,measure:debug",
    }
    with Terminal("run", "--kernel", "add", "--shape", "m=8,n=64", "--threads", "1", "--trials", "3", env=env) as tune:
        assert tune.wait() == 0, tune.text
    # what erases the board and moves over it ends a line as well
    lines = re.sub(r"\x1b\[\d*[AK]", "\n", tune.seen.replace("\r", ""))
    lines = ESCAPES.sub("", lines)
    found = LINE.findall(lines)
    assert len(found) == len(re.findall(r"tilewright\.\w+\[", lines)), "each message begins a line of its own"
    assert {"search", "measure"} == {room for room, _ in found} and len({pid for _, pid in found}) >= 3
