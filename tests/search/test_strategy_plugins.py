"""Strategies that others wrote: by entry point and import path, failing ones, and the example that asks a program."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from tilewright.examples.ask_a_program import PROGRAM, AskProgram
from tilewright.files import plugins
from tilewright.ir.errors import UsageError
from tilewright.opts import parse
from tilewright.search import Space, Strategy, tune
from tilewright.search.strategy import check, create, names
from tilewright.testing.strategies import StrategyTestCase

TEXT = """
from tilewright.opts import parse
from tilewright.search import Strategy
class Once(Strategy):
    name = "once"
    asked = False
    def ask(self, n):
        self.asked = True
        return [parse("Um4 Un32")]
    def tell(self, opts, measurement):
        pass
    @property
    def done(self):
        return self.asked
class Raising(Once):
    def ask(self, n):
        raise ValueError("oops")
class Forgetful(Once):
    def tell(self, opts, measurement):
        raise KeyError("who?")
class Odd(Once):
    def ask(self, n):
        return ["Um4"]
class Silent(Once):
    def ask(self, n):
        return None
class Leaving(Once):
    def ask(self, n):
        raise SystemExit(7)
class Refusing(Once):
    def __init__(self, space, *, seed=0, start=()):
        raise RuntimeError("not today")
class NoStrategy:
    def __init__(self, space, *, seed=0, start=()):
        pass
"""
SHAPE = {"m": 16, "n": 32, "k": 16}


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(TEXT)
    return str(tmp_path / "mine.py")


@pytest.fixture
def space() -> Space:
    found: Space = StrategyTestCase.space.__wrapped__(StrategyTestCase())
    return found


def test_an_entry_point_is_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: Space) -> None:
    info = tmp_path / "plug-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tilewright.strategies]\nplugged = plugged_strategy:Once\nbroken = no_such_module_here:X\n")
    (tmp_path / "plugged_strategy.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.entry_points.cache_clear()
    try:
        assert {"portfolio", "plugged", "broken"} <= set(names()) and check("plugged") == "plugged"
        assert create("plugged", space).ask(3) == [parse("Um4 Un32")]
        with pytest.raises(UsageError, match="'broken' is declared as no_such_module_here:X but cannot be imported: ModuleNotFoundError"):
            check("broken")
    finally:
        plugins.entry_points.cache_clear()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Refusing", "cannot be made: RuntimeError: not today; it takes"),
        ("NoStrategy", "it made a NoStrategy, which is no tilewright.search.Strategy"),
        ("Nobody", "cannot be imported: AttributeError"),
    ],
)
def test_what_is_no_strategy_is_said(file: str, space: Space, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        create(f"{file}:{name}", space)
    with pytest.raises(UsageError, match=r"unknown strategy 'portfolo'; did you mean 'portfolio'\? .*module:Class or file.py:Class"):
        check("portfolo")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [("Raising", "ValueError: oops at .*mine.py:17"), ("Odd", "it asked for what is no schedule"), ("Forgetful", "KeyError: 'who")],
)
def test_a_strategy_that_fails_ends_the_search_with_what_it_has(file: str, tmp_path: Path, name: str, said: str) -> None:
    with pytest.warns(UserWarning, match=f"failed, and the search ends with what it has: {said}"):
        result = tune("matmul", shape=SHAPE, threads=1, cache=tmp_path / "c.db", strategy=f"{file}:{name}", budget="100s", start="none")
    assert result.exit_code == 0 and result.verified


PROPOSER = """
import json, sys
answers = iter(json.loads(sys.argv[1]))
for line in sys.stdin:
    with open(sys.argv[2], "a") as f:
        f.write(line)
    print(json.dumps(next(answers, [])), flush=True)
"""


def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str) -> Path:
    (tmp_path / "proposer.py").write_text(PROPOSER)
    log = tmp_path / "log"
    monkeypatch.setenv(PROGRAM, f"{sys.executable} {tmp_path / 'proposer.py'} '{answers}' {log}")
    return log


@pytest.mark.slow
def test_a_program_proposes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = asking(tmp_path, monkeypatch, '[["Um4 Un32", "nonsense", "Uz3"], ["Um4 Un32"], ["Um2 Un16"]]')
    result = tune(
        "matmul",
        shape=SHAPE,
        threads=1,
        cache=tmp_path / "c.db",
        strategy="tilewright.examples.ask_a_program:AskProgram",
        budget="120s",
        start="none",
    )
    assert result.exit_code == 0 and result.verified and sum(result.counts.values()) == 3  # as written, and the two that are legal and new
    said = log.read_text()
    assert '"options": ["' in said and "cannot read 'nonsense'" in said and '"illegal here"' in said and '"known already"' in said


@pytest.mark.parametrize(("name", "said"), [("Silent", "TypeError: 'NoneType'"), ("Leaving", "SystemExit: 7 at .*mine.py")])
def test_a_strategy_that_gives_nothing_or_leaves_is_not_asked_again(file: str, space: Space, name: str, said: str) -> None:
    strategy = create(f"{file}:{name}", space)
    with pytest.warns(UserWarning, match=f"failed, and the search ends with what it has: {said}"):
        assert strategy.ask(4) == [] and strategy.done


def test_a_program_goes_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, space: Space) -> None:
    (tmp_path / "proposer.sh").write_text("sleep 1000 & echo '[\"Um4 Un32\"]'; echo $! > $0.pid; wait")
    monkeypatch.setenv(PROGRAM, f"sh {tmp_path}/proposer.sh")
    asker = AskProgram(space)
    assert len(asker.ask(1)) == 1
    while not (tmp_path / "proposer.sh.pid").exists() or not (child := (tmp_path / "proposer.sh.pid").read_text()):
        time.sleep(0.01)
    asker.close()
    for _ in range(500):  # whoever inherits it takes it back
        state = Path(f"/proc/{int(child)}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("what the program started goes on")


def test_a_program_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], space: Space) -> None:
    for command, said in (("true", "has ended"), ("echo 3", "'3' is no list"), ("echo I would unroll", "'I would unroll' is no list")):
        monkeypatch.setenv(PROGRAM, command)
        asker = AskProgram(space)
        asker.program.wait()
        assert asker.ask(4) == [] and asker.done and said in capfd.readouterr().err
        asker.close()
    monkeypatch.setenv(PROGRAM, """echo '["Um4 Un32"]'""")  # it ends before it is asked
    asker = AskProgram(space)
    asker.program.wait()
    assert len(asker.ask(4)) == 1
    asker.close()
    monkeypatch.setenv(PROGRAM, "no-such-program-anywhere")
    with pytest.raises(UsageError, match="does not start"):
        AskProgram(space)
    monkeypatch.delenv(PROGRAM)
    with pytest.raises(UsageError, match="names no program"):
        AskProgram(space)


PAIRS = """
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    if "options" in question:
        pairs = iter([f"{a} {b}" for a in question["options"] for b in question["options"] if a[0] in "UT" and b[0] == "P"])
    print(json.dumps([p for p, _ in zip(pairs, range(question["wanted"]))]), flush=True)
"""


@pytest.fixture
def proposer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pairs.py").write_text(PAIRS)
    monkeypatch.setenv(PROGRAM, f"{sys.executable} {tmp_path / 'pairs.py'}")


@pytest.mark.slow
@pytest.mark.usefixtures("proposer")
class TestAskProgram(StrategyTestCase):
    def strategy(self, space: Space, *, seed: int = 0, start: Any = ()) -> Strategy:
        return AskProgram(space, seed=seed, start=start)


def test_nothing_is_warned_of_where_all_is_well(file: str, space: Space) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = create(f"{file}:Once", space)
        assert not made.done and made.ask(2) and made.done and made.name == "once"
        made.close()
