"""Write the output blocks of docs/tensor.md: `python docs/make_tensor.py`. `tests/test_tensor_page.py` checks them.

A block of text behind a block of one command is what the command prints."""

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

from tilewright.cli import main

PAGE = Path(__file__).with_name("tensor.md")
ROOT = PAGE.parents[1]


def said(command: str) -> str:
    """What a command of `tune` prints, in a terminal of 100 columns, at the repository's root."""
    before, folder = os.environ.get("COLUMNS"), Path.cwd()
    out = io.StringIO()
    try:
        os.environ["COLUMNS"] = "100"
        os.chdir(ROOT)
        with contextlib.redirect_stdout(out):
            code = main(shlex.split(command)[1:])
    finally:
        os.chdir(folder)
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    if code:
        raise RuntimeError(f"{command}: exit code {code}")
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def made(page: str) -> str:
    """The page with its output blocks as they should be."""

    def block(found: re.Match[str]) -> str:
        return f"```sh\n{found[1]}\n```\n\n```text\n{said(found[1])}\n```\n"

    return re.sub(r"^```sh\n(tune graph [^\n]*)\n```\n\n```text\n.*?^```\n", block, page, flags=re.M | re.S)


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))
