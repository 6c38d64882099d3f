"""Exit codes, error messages without tracebacks, and the grammar."""

from __future__ import annotations

import subprocess
import sys

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
