"""Arguments, environments and outputs that nobody expects: a clear error and its exit code, never a traceback, never a hang."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cli.command_line import exit_code
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

from .conftest import Tune, row

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
        timeout=240,
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
        subprocess.run([*c, "--version"], capture_output=True, text=True, timeout=240).stdout
        for c in ([sys.executable, "-m", "tilewright.cli"],)
    ]
    assert said[0].startswith("tilewright ")


def test_a_closed_pipe_is_quiet() -> None:
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m tilewright.cli kernels | true"], capture_output=True, text=True, timeout=240)
    assert done.stderr == ""


def test_kernels_lists_shape_names_and_dtypes(tune: Tune) -> None:
    line = next(text for text in tune("kernels").out.splitlines() if "matmul " in text)
    assert "m=1024,n=1024,k=1024" in line and "float32" in line


# texts of users that rich would read as styles and pictures ------------------------------------------------------------
UGLY = "ugly[ids]:x:[bold]"
"""A name, a path and a line of source: every one is printed as it is."""
UGLY_FILE = f'''
from tilewright.ir import KernelBuilder, float32
from tilewright import xp

def kernel(m=8):
    kb = KernelBuilder("{UGLY}")
    i = kb.axis("m", m)
    x = kb.input("x", (m,), float32)
    kb.store("y", float32, (m,), (i,), x[i] * 2.0)
    return kb.build()

def ugly(table, ids):
    ugly = table * 2; y = xp.sum(ugly[ids], axis=1); "ugly[ids]:x:[bold]"
    return y / xp.sum(y)

def ugly_inputs():
    import numpy as np
    return np.ones((10, 4), np.float32), np.arange(5)
'''
UGLY_SOURCE = """
#include <stddef.h>
#define TILE 8 // ugly[ids]:x:[bold]
void f(float *y, const float *x) { for (size_t i = 0; i < 64; i++) y[i] = x[i] + ugly[ids]:x:[bold]; }
"""
SEEN_BY = {
    "run": "run {file}:kernel --trials 1 --budget 1s", "show": "show {file}:kernel --opts start", "check": "check {file}:kernel --opts []",
 "pin": "pin {file}:kernel --opts Um4",
 "report": "report", "markdown": "report --format markdown",
    "graph": "graph {file}:ugly",
    "export": "export {file}:ugly --out {folder}/lib",
    "source": "source {source} --function f --param TILE=8 --args {args} --build-only",
    "list": "cache list --all", "show rows": "cache show", "explain rows": "cache explain {file}:kernel --dtype float64",
    "write": "cache export {folder}/b.jsonl", "diff": "cache diff {folder}/cache.db {folder}/none.db --all", "merge": "cache merge {folder}/cache.db --into {folder}/m.db",
    "prune": "cache prune --target * --dry-run", "manifest": "cache check --manifest {folder}/{ugly}.toml", "no file": "cache import {folder}/{ugly}",
    "no device": "show matmul --device {ugly}",
}  # fmt: skip


@pytest.fixture(scope="module")
def ugly_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ugly") / UGLY
    folder.mkdir()
    (folder / f"{UGLY}.py").write_text(UGLY_FILE)
    (folder / f"{UGLY}.c").write_text(UGLY_SOURCE)
    (folder / "args.toml").write_text('[[argument]]\nname="y"\nrole="output"\ndtype="float32"\nshape=[64]\n')
    (folder / f"{UGLY}.toml").write_text(f'[[kernel]]\nname = "{UGLY}.py:kernel"\nshapes = ["m=8"]\n')
    with cache.Cache.open(folder / "cache.db") as store:
        store.record([row(name=UGLY, device="cpu")])
    return folder


@pytest.mark.many
@pytest.mark.parametrize("line", SEEN_BY.values(), ids=list(SEEN_BY))
def test_texts_of_users_are_printed_as_they_are(
    tune: Tune, ugly_folder: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    places = {
        "folder": ugly_folder,
        "file": ugly_folder / f"{UGLY}.py",
        "source": ugly_folder / f"{UGLY}.c",
        "args": ugly_folder / "args.toml",
    }
    words = [w.format(ugly=UGLY, **places) for w in line.split(" ")]
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(ugly_folder / "cache.db"))
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))
    done = tune(*words)
    said = re.sub(r"\\([\[\]_*])", r"\1", done.out + done.err)  # Markdown's escapes are of Markdown
    assert UGLY in said and not re.search("[\u2600-\u27bf\U0001f300-\U0001faff]", said)
    assert not re.search(r"table\[(?!ids\])", said) and "Traceback" not in said


def test_all_of_the_command_prints_on_that_console() -> None:
    for file in (Path(__file__).parents[2] / "cli").rglob("*.py"):
        if file.name != "style.py":
            assert not re.search(r"\bConsole\(|from_markup|markup=|emoji=|\.input\(|rich\.print", file.read_text()), file
