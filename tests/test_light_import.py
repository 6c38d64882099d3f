"""`import tilewright` and `tune --help` load none of the heavy libraries (times vary, loaded modules do not)."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAVY = {"numpy", "llvmlite", "sqlalchemy", "optuna", "rich", "ml_dtypes"}


def modules_after(code: str, env: dict[str, str] | None = None) -> set[str]:
    """Everything in sys.modules after `code` ran in a fresh interpreter."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    kept = {k: v for k, v in os.environ.items() if k != "TILEWRIGHT_LOG"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, env=kept | (env or {}))
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def loaded_by(code: str) -> set[str]:
    """Heavy libraries in sys.modules after `code` ran in a fresh interpreter."""
    return HEAVY & {m.split(".")[0] for m in modules_after(code)}


def test_the_probe_sees_heavy_modules() -> None:
    assert loaded_by("import numpy") == {"numpy"}


def test_import_tilewright_is_light() -> None:
    assert loaded_by("import tilewright") == set()


@pytest.mark.many
@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["run", "--help"],
        ["cache", "export", "--help"],
        ["--version"],
        [],
        ["run"],
        ["run", "--mode", "nonsense", "--kernel", "matmul"],
    ],
    ids=" ".join,
)
def test_help_and_usage_errors_are_light(args: list[str]) -> None:
    assert loaded_by(f"from tilewright.cli import main\nmain({args!r})") == set()


def test_a_tensor_of_an_array_loads_no_masked_arrays() -> None:
    assert "numpy.ma" not in modules_after("import numpy, tilewright\ntilewright.Tensor(numpy.ones(3)) + 1")


def test_logging_is_imported_only_where_it_is_asked_for() -> None:
    for code in ("import tilewright", "from tilewright.cli import main\nmain(['--help'])"):
        assert "logging" not in modules_after(code)
    assert "logging" in modules_after("import tilewright", {"TILEWRIGHT_LOG": "debug"})


def test_help_imports_nothing_but_the_grammar() -> None:
    found = {m for m in modules_after("from tilewright.cli import main\nmain(['run', '--help'])") if m.startswith("tilewright.")}
    assert {m.split(".")[1] for m in found} <= {"cli", "log"}, sorted(found)


def test_ctrl_c_while_the_command_is_loaded_is_no_traceback() -> None:
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tilewright.cli.grammar': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from tilewright.cli import main\n"
        "sys.exit(main(['--version']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
