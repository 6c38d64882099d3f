"""How much memory there is, and what is refused because it does not fit."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import tilewright
from tilewright.ir.errors import UsageError
from tilewright.ir.node import sym
from tilewright.targets.free_memory import NoRoom, free_memory, require_room

MEMINFO = "MemTotal: 99 kB\nMemAvailable: 8388608 kB\n"


def group(folder: Path, limit: str, used: str, inactive: str, name: str = "memory.max", now: str = "memory.current") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(limit)
    (folder / now).write_text(used)
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\ntotal_inactive_file {inactive}\n")


def test_the_smallest_limit_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    free = lambda: free_memory(str(tmp_path / "meminfo"), str(tmp_path / "cgroup"), str(tmp_path / "fs"))  # noqa: E731
    assert free() == 8 << 30
    group(tmp_path / "fs" / "a" / "b", "max", "1", "0")
    assert free() == 8 << 30
    group(tmp_path / "fs" / "a", str(4 << 30), str(3 << 30), str(1 << 29))  # half a GiB of it are files
    assert free() == (1 << 30) + (1 << 29)
    group(tmp_path / "fs", str(1 << 30), str(1 << 31), "0")
    assert free() == 0


def test_older_cgroups_too(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "cgroup").write_text("3:cpuset:/\n4:memory:/x\n")
    old = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    group(tmp_path / "fs" / "memory", str((1 << 63) - 4096), "7", "0", *old)
    group(tmp_path / "fs" / "memory" / "x", str(2 << 30), str(1 << 30), "0", *old)
    assert free_memory(str(tmp_path / "meminfo"), str(tmp_path / "cgroup"), str(tmp_path / "fs")) == 1 << 30


def test_a_limit_of_the_address_space_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 40, resource.RLIM_INFINITY))
    assert free_memory() < 1 << 40
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, resource.RLIM_INFINITY))
    assert free_memory() == 0


def test_nothing_is_known_where_nothing_is_said(tmp_path: Path) -> None:
    assert free_memory(str(tmp_path / "no"), str(tmp_path / "no"), str(tmp_path / "no")) > 0


def test_it_says_what_is_needed_and_what_there_is() -> None:
    require_room(1000, "a thing")
    with pytest.raises(NoRoom, match=r"a thing needs 1,048,576 GiB of memory, and [\d,.]+ GiB can be had here: give a smaller shape"):
        require_room(1 << 50, "a thing")


BIG = 99_999_999_999
CALLS: dict[str, Callable[[Path], object]] = {
    "tune": lambda p: tilewright.tune("softmax", {"m": BIG}, trials=1, cache=p),
    "symbol": lambda p: tilewright.tune("softmax", {"m": sym("m", 1, BIG)}, trials=1, cache=p),
    "empty": lambda p: tilewright.empty((BIG, 4096)),
}


@pytest.mark.parametrize("call", CALLS)
def test_operands_that_do_not_fit_are_refused(call: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs [\d,]+ GiB of memory, and [\d,.]+ GiB can be had here"):
        CALLS[call](tmp_path / "c.db")


COMMANDS = (
    "run softmax --shape m=99999999999 --trials 1 --quiet",
    "run softmax --shape m=1..99999999999 --quiet",
    "run matmul --shape m=1..9999999999,n=4096,k=4096 --quiet",
    "run softmax --shapes m=64;m=99999999999 --quiet",
    "bench softmax --shape m=99999999999 --opts start --against numpy",
    "check softmax --shape m=99999999999",
    "bisect softmax --shape m=99999999999 --opts Pm",
    "pin softmax --shape m=99999999999 --opts Pm",
    "explain softmax --shape m=99999999999 --opts start",
    "bench-search --kernel softmax --shape m=99999999999 --record r.jsonl",
)


@pytest.mark.many
@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_that_makes_operands_refuses_them(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tilewright.cli import main

    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "c.db"))
    monkeypatch.chdir(tmp_path)
    code = main(words.split())
    said = " ".join(capsys.readouterr().err.split())
    assert code == 2 and "GiB of memory, and" in said and "can be had here" in said, said
    assert not (tmp_path / "r.jsonl").exists()


def test_an_entry_of_a_manifest_that_does_not_fit_fails_and_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tilewright.cli import main

    (tmp_path / "k.toml").write_text(
        '[targets.here]\ndevice = "cpu"\n[[kernel]]\nname = "softmax"\nshapes = [{ m = 99999999999 }, { m = 8, n = 8 }]\ntrials = 1\n'
    )
    code = main(["run", "--manifest", str(tmp_path / "k.toml"), "--cache", str(tmp_path / "c.db"), "--quiet"])
    said = " ".join(capsys.readouterr().out.split())
    assert code == 4 and "1 tuned" in said and "1 failed" in said and "GiB can be had here" in said, said
