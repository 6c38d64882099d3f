"""Completion in the shells themselves, where they are installed: what `tune completion` prints is read by each, and asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("argcomplete")

ASK = {
    "fish": """source (tune completion fish | psub); for line in $argv; complete -C "$line"; echo ==; end""",
    # what a line editor sets: the line, the place in it, its words
    "zsh": """compdef() { }; _describe() { print -rl -- ${(P)2} }; eval "$(tune completion zsh)"
for line in "$@"; do BUFFER=$line CURSOR=${#line}; words=(${=line}); _python_argcomplete tune; print -- "=="; done""",
    "bash": """eval "$(tune completion bash)"
for line in "$@"; do COMP_LINE=$line COMP_POINT=${#line} COMP_TYPE=9; COMPREPLY=(); _python_argcomplete tune x y; printf '%s\\n' "${COMPREPLY[@]}" ==; done""",
}
LINES = {
    "tune run matmul_bi": {"matmul_bias_gelu", "matmul_bias_relu"},
    "tune run --objective time,": {"time,energy", "time,dynamic-energy", "time,scratch"},
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", ASK)
def test_a_shell_completes_commands_kernels_and_values(shell: str, tmp_path: Path) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    words = {"fish": ["-N", "-c"], "zsh": ["-f", "-c"], "bash": ["--norc", "-c"]}[shell]
    lines = [*LINES] if shell == "fish" else [shell, *LINES]
    done = subprocess.run([found, *words, ASK[shell], *lines], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=240)
    # fish and zsh show what a word means after it
    answers = [{line.split("\t")[0].split(":")[0].strip() for line in part.splitlines()} - {""} for part in done.stdout.split("==")]
    assert answers[: len(LINES)] == [*LINES.values()], done.stderr
