"""Every file that a command writes: through links, into pipes and devices, whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tilewright.cache import bundles
from tilewright.cli.report import html as report_html
from tilewright.cli.tuning import run
from tilewright.files.write_file import replace, why_not

WRITERS: dict[str, Callable[[str], object]] = {
    "replace": lambda p: replace(p, "text"),
    "--json": lambda p: run.write(p, "text"),
    "--html": lambda p: report_html.write(p, []),
    "export": lambda p: bundles.write([], p),
}


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Callable[[str], object]:
    return WRITERS[request.param]


def test_a_link_stays_and_its_file_is_written(write: Callable[[str], object], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.touch()  # as good as any kind
    target.chmod(0o640)
    link.symlink_to(target)
    write(str(link))
    assert link.is_symlink() and target.read_text() and target.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in target.parent.iterdir()] == ["file"]


def test_a_pipe_is_written_to(write: Callable[[str], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(str(tmp_path / "pipe"))
    reader.join(20)
    assert got and got[0] and (tmp_path / "pipe").is_fifo()


def test_a_device_stays_one(write: Callable[[str], object], tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    write(str(link))
    write("/dev/null")
    assert link.is_symlink() and Path("/dev/null").is_char_device()


def test_what_is_open_is_written_not_replaced(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w+") as f:
        replace(f"/proc/self/fd/{f.fileno()}", "text")
        assert os.fstat(f.fileno()).st_ino == (tmp_path / "out").stat().st_ino and f.read() == "text"


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_why_not(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path, said in (
        (tmp_path, "it is a folder"),
        (tmp_path / "no" / "x", "its folder does not exist"),
        (tmp_path / "x", None),
        ("/dev/null", None),
    ):
        assert why_not(path) == said
    assert why_not(tmp_path / "loop") is not None and why_not("a\0b") is not None
