"""Where what a command prints goes: to standard output, into the file that `--json` names, or, if it is longer than the terminal, to a
pager."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

from ...files.write_file import replace
from ...ir.errors import UsageError
from .sanitised import behind

if TYPE_CHECKING:
    from ..commands import Command


def run_command(args: Namespace, command: Command) -> int:
    """Run a command; what it prints goes where it should. The command's exit code."""
    if getattr(args, "_json", "") == "printed" and args.json not in (None, "-"):
        return _into_file(args, command)
    pager = _pager(args) if command.paged else None
    if pager is None:
        return command.run(args)
    with _paged() as page:
        code = command.run(args)
    _print(page.getvalue(), pager)
    return code


def _into_file(args: Namespace, command: Command) -> int:

    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        code = command.run(args)
    write(args.json, page.getvalue())
    return code


def _pager(args: Namespace) -> str | None:
    """The pager's command; None where there is none, or nobody at a terminal to page for."""
    if getattr(args, "no_pager", False) or os.environ.get("TERM") == "dumb":
        return None
    if not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
        return None
    wanted = os.environ.get("PAGER")
    if wanted is None:
        return "less" if shutil.which("less") else None
    return wanted if wanted.strip() and wanted.strip() != "cat" else None


class _Page(io.StringIO):
    """Text that is kept, of a command that believes that it writes to the terminal."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.terminal.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.terminal.encoding


@contextlib.contextmanager
def _paged() -> Iterator[_Page]:
    """Standard output goes into a page; what is there when the command fails is printed all the same."""
    before = sys.stdout
    page = _Page(behind(before))
    sys.stdout = cast("TextIO", type(before)(page)) if behind(before) is not before else page  # type: ignore[call-arg]
    try:
        yield page
    except BaseException:
        before.flush()
        behind(before).write(page.getvalue())
        raise
    finally:
        sys.stdout = before


def _print(text: str, pager: str) -> None:
    """Print to the terminal where it fits, else through the pager."""
    out = behind(sys.stdout)
    _, lines = shutil.get_terminal_size()
    if text.count("\n") < lines:
        out.write(text)
        return
    env = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        process = subprocess.Popen(pager, shell=True, stdin=subprocess.PIPE, env=env, text=True, encoding="utf-8", errors="replace")
    except OSError:
        out.write(text)
        return
    # whoever reads may leave before the end, and Ctrl-C is for the pager
    with contextlib.suppress(BrokenPipeError):
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            continue
    if code == 127:  # the shell found no such pager
        out.write(text)


def with_code(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts whose `exit_code` is that of the process: 143, say, where a signal is about to end it."""
    from ...search.interrupts import process_code

    return {**facts, "exit_code": process_code(facts["exit_code"])}


def write(path: str, text: str) -> None:
    """The result where --json says. Raises UsageError where that cannot be written after all."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        replace(path, text)
    except BrokenPipeError:
        raise  # the reader has gone, which is no error
    except OSError as e:
        again = "the result is in the cache, so the same command with another file gives it again"
        raise UsageError(f"cannot write --json {path}: {e.strerror}; {again}") from None
