"""Arguments, environments and outputs that nobody expects: a clear error and its exit code, never a traceback, never a hang."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright.cli.main import exit_code
from tilewright.ir.errors import (
    BuildError,
    CacheError,
    CacheMiss,
    DeviceError,
    KernelError,
    MeasureError,
    OptError,
    UsageError,
    VerifyError,
)

from .conftest import Tune

SMALL = ("--kernel", "matmul", "--shape", "m=4,n=4,k=4")
SHOW, RUN = ("show", *SMALL), ("run", *SMALL, "--mode", "require")
DIGITS = "9" * 5000
ESCAPE = "\x1b[31mred\x07\x9b\u202e"
OPENS = "[" * 100_000


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        # numbers
        (["show", "--kernel", "matmul", "--shape", f"m={DIGITS}"], 2, "size m has 5000 digits; no array is that large"),
        (["run", "--kernel", "matmul", "--shape", f"m={DIGITS}", "--mode", "require"], 2, "size m has 5000 digits"),
        (["check", "--kernel", "matmul", "--shape", f"m={DIGITS}"], 2, "size m has 5000 digits"),
        (["report", "--shape", f"m={DIGITS}"], 2, "size m has 5000 digits"),
        (["show", "--kernel", "matmul", "--shape", "m=²"], 2, "cannot read 'm=²' as a size"),
        ([*SHOW, "--threads", DIGITS], 2, "is not a whole number of at least 1"),
        ([*RUN, "--random-seed", DIGITS], 2, "is not a whole number of at least 0"),
        ([*RUN, "--random-seed", str(1 << 63)], 2, "is not a whole number of at least 0 (and of 64 bits)"),
        ([*RUN, "--trials", "1e3"], 2, "'1e3' is not a whole number of at least 1"),
        ([*RUN, "--budget", DIGITS + "s"], 2, "budget"),
        ([*RUN, "--budget", "nan"], 2, "budget"),
        ([*SHOW, "--opts", f'[["TILE","m",{DIGITS}]]'], 2, "error: "),
        ([*SHOW, "--opts", OPENS], 2, "error: "),
        # devices and targets
        ([*SHOW, "--device", f"cuda:{DIGITS}"], 3, "unknown device 'cuda:999"),
        ([*SHOW, "--device", f"opencl:{DIGITS}"], 3, "error: "),
        ([*SHOW, "--device", "os:environ"], 3, "device 'os:environ' cannot be made: TypeError"),
        ([*SHOW, "--device", "sys:exit"], 3, "device 'sys:exit' cannot be made: SystemExit"),
        ([*SHOW, "--device", ".:x"], 3, "device '.:x' cannot be made: TypeError"),
        ([*SHOW, "--device", "json:loads"], 3, "device 'json:loads' cannot be made: TypeError"),
        ([*SHOW, "--device", ""], 3, "unknown device ''"),
        ([*SHOW, "--opts", "start", "--target", ESCAPE], 3, "unknown target"),
        # names
        (["show", "--kernel", ESCAPE], 2, r"unknown kernel '\x1b[31mred"),
        (["show", "--kernel", f"{ESCAPE}.py:f"], 2, r"there is no file \x1b[31mred\x07\x9b\u202e.py"),
        (["show", "--kernel", "\udcff\udcfe"], 2, r"unknown kernel '\udcff\udcfe'"),
        (["show", "--kernel", "\udcff.py"], 2, r"there is no file \udcff.py"),
        (["show", "--kernel", OPENS], 2, "...(100"),
        ([ESCAPE], 2, "invalid choice"),
        (["cache", "import", ESCAPE], 2, r"cannot read the bundle \x1b[31mred"),
        (["cache", "check", "--manifest", ESCAPE], 2, r"cannot read the manifest \x1b[31mred"),
        (["kernels", ESCAPE], 2, r"unrecognized arguments: \x1b[31mred"),
        # places
        ([*SHOW, "--cache", ""], 2, "the cache has an empty name: give a path or a database URL, or leave it out"),
        (["cache", "list", "--cache", ""], 2, "the cache has an empty name"),
        ([*RUN, "--cache", "sqlite:///:memory:"], 2, "is not a file"),
        ([*RUN, "--json", ""], 2, "cannot write --json : it has no name"),
        ([*RUN, "--json", "/"], 2, "cannot write --json /: it is a folder"),
        ([*RUN, "--json", "/dev/null/x"], 2, "cannot write --json /dev/null/x: its folder does not exist"),
        (["cache", "export", "/dev/null/x"], 2, "cannot write file /dev/null/x"),
        (["report", "--html", "/dev/full"], 2, "cannot write /dev/full: No space left on device"),
        (["report", "--since", DIGITS], 2, "error: "),
        (["report", "--sort", ESCAPE], 2, "error: "),
        (["plot", ESCAPE], 2, "tune plot writes .png, .svg, .pdf"),
    ],
    ids=lambda x: ascii(" ".join(x) if isinstance(x, list) else x)[:70],
)
def test_arguments(tune: Tune, args: list[str], code: int, said: str) -> None:
    done = tune(*args)
    assert done.code == code and said in done.err
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", done.out + done.err) is None
    assert len(done.err) < 8000


@pytest.mark.slow
def test_names_in_a_kernel_cannot_touch_the_terminal(tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        'from tilewright.ir import KernelBuilder, float32\ndef f(m=8):\n    kb = KernelBuilder("\\x1b]0;title\\x07[bold]")\n    i = kb.axis("m", m)\n'
        '    x = kb.input("x", (m,), float32)\n    kb.store("y", float32, (m,), (i,), x[i] * 2.0)\n    return kb.build()\n'
    )
    for args in (["show", "--kernel", f"{file}:f", "--opts", "start"], ["check", "--kernel", f"{file}:f", "--opts", "[]"]):
        done = tune(*args)
        assert "\x1b" not in done.out + done.err and r"\x1b]0;title" in done.out and "[bold]" in done.out


def test_colours_pass_and_what_texts_hold_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from io import StringIO

    from rich.text import Text
    from tilewright.cli.terminal import sanitised, style

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    behind = StringIO()
    out = style.console(sanitised.Shown(behind))  # type: ignore[arg-type]
    out.print(Text("a\x1bb", style="red"))
    listed = style.table("t\x9b", "h\x1b")
    listed.add_row(Text("c\x1bd"))
    out.print(listed)
    assert "\x1b[31m" in behind.getvalue(), "a colour of rich's"
    assert r"a\x1bb" in behind.getvalue() and r"t\x9b" in behind.getvalue()
    assert re.search("[\x1b\x9b]", re.sub("\x1b\\[[0-9;]*m", "", behind.getvalue())) is None, "cells too"
    assert sanitised.clean("é µs\t→ line\n") == "é µs\t→ line\n"


# outside of the command ---------------------------------------------------------------------------------------------
FULL = "error: cannot write standard output: No space left on device"
CLOSED = "error: cannot write standard output: Bad file descriptor"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("{tune} kernels >/dev/full", 2, FULL),
        ("{tune} kernels --format json >/dev/full", 2, FULL),
        ("{tune} show --kernel add --source --opts start >/dev/full", 2, FULL),
        ("{tune} --help >/dev/full", 2, FULL),
        ("{tune} kernels >&-", 2, CLOSED),
        ("{tune} nonsense 2>&-", 2, ""),
        ("{tune} cache list <&- 2>&-", 0, ""),
        ("unset HOME; {tune} cache list", 0, ""),
        ("HOME=/proc/x {tune} cache list", 0, ""),
        ("HOME=/dev/null TILEWRIGHT_CACHE= {tune} devices", 0, ""),
        ("PYTHONIOENCODING=ascii LC_ALL=C {tune} kernels", 0, ""),
        ("COLUMNS=1 {tune} kernels", 0, ""),
        ("COLUMNS=-5 TERM=dumb {tune} kernels", 0, ""),
        ("mkdir gone; cd gone; rmdir ../gone; {tune} cache list --cache rel.db", 2, "error: the working directory was deleted"),
        ("mkdir gone; cd gone; rmdir ../gone; {tune} show --kernel x.py:f", 2, "error: there is no file x.py"),
        ("XDG_STATE_HOME={known_limits} TILEWRIGHT_CACHE=/dev/null {tune} run --kernel add --shape m=4 --trials 1 --quiet", 2, "error: "),
    ],
)
def test_environments(tmp_path: Path, known_limits: Path, line: str, code: int, said: str) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "TILEWRIGHT_CACHE": str(tmp_path / "cache.db"), "XDG_CACHE_HOME": "", "XDG_DATA_HOME": ""}
    tune = f"{sys.executable} -m tilewright.cli"
    done = subprocess.run(
        ["bash", "-c", line.format(tune=tune, known_limits=known_limits)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=env,
    )
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError, 2),
        (KernelError, 2),
        (OptError, 2),
        (CacheError, 2),
        (DeviceError, 3),
        (BuildError, 4),
        (MeasureError, 4),
        (VerifyError, 4),
        (CacheMiss, 5),
    ],
)
def test_every_error_has_its_exit_code(error: type, code: int) -> None:
    assert exit_code(error("x")) == code


def test_no_command_prints_help(tune: Tune) -> None:
    done = tune()
    assert done.code == 2 and "COMMAND" in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run"], "--kernel"),
        (["runn"], "invalid choice"),
        (["run", "--kernel", "matmul", "--threads", "0"], "'0' is not a whole number of at least 1"),
        (["run", "--kernel", "matmul", "--trials", "x"], "'x' is not a whole number of at least 1"),
        (["run", "--kernel", "matmul", "--mode", "maybe"], "invalid choice: 'maybe'"),
        (["show", "--kernel", "matmul", "--opts", "[]", "--seed-schedule"], "not allowed with"),
        (["show", "--kernel", "matmul", "--opts", "seed", "--target", "avx2"], "the word seed is now start"),
        (["run", "--kernel", "matmul", "--start", "seeds"], "--start seeds is now --start auto"),
        (["cache"], "ACTION"),
    ],
)
def test_bad_usage(tune: Tune, args: list[str], said: str) -> None:
    done = tune(*args)
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("command", ["run", "show", "report", "devices", "kernels", "cache"])
def test_every_command_has_help(tune: Tune, command: str) -> None:
    done = tune(command, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: tune {command}")


def test_version(tune: Tune) -> None:
    assert tune("--version").out.startswith("tilewright 0.")


def test_the_installed_command_and_the_module_agree() -> None:
    said = [
        subprocess.run([*c, "--version"], capture_output=True, text=True, timeout=60).stdout
        for c in ([sys.executable, "-m", "tilewright.cli"],)
    ]
    assert said[0].startswith("tilewright ")


def test_a_closed_pipe_is_quiet() -> None:
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m tilewright.cli kernels | true"], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_kernels_lists_shape_names_and_dtypes(tune: Tune) -> None:
    line = next(text for text in tune("kernels").out.splitlines() if "matmul " in text)
    assert "m=1024,n=1024,k=1024" in line and "float32" in line
