"""Runs Programs as an AArch64 processor does: LLVM's object or the C compiler's, linked to `aarch64_driver.c`, under qemu's user mode.

scripts/qemu.sh installs what it takes. The C compiler here is the cross compiler, with the flags of the device `cpu:c`."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tilewright import targets
from tilewright.devices.cpu import c_compiler as cc
from tilewright.devices.cpu.engine import compile_text
from tilewright.ir.index import evaluate
from tilewright.ir.node import Node, walk
from tilewright.program import abi
from tilewright.program.program import Program
from tilewright.renderers import render

NEON = targets.named("neon")
DRIVER = Path(__file__).with_name("aarch64_driver.c")
LINKER = "aarch64-linux-gnu-gcc"
TIMEOUT_S = 120


@functools.cache
def missing() -> str:
    """Why nothing can be run for AArch64 here, or ''."""
    absent = [what for what in (LINKER, "qemu-aarch64") if shutil.which(what) is None]
    if absent:
        return f"no {' and no '.join(absent)}: bash scripts/qemu.sh installs them"
    with tempfile.TemporaryDirectory() as folder:
        try:
            _link(Path(folder), ["-xc", os.devnull], [])
        except subprocess.CalledProcessError as e:
            return f"{LINKER} cannot link for AArch64: {e.stderr.strip().splitlines()[-1:]}; bash scripts/qemu.sh installs its C library"
    return ""


def run(program: Program, arrays: Sequence[Any], vars: Sequence[int] = (), lang: str = "llvm") -> None:
    """Render for NEON in 'llvm' or 'c', and run every phase on the arrays, in place. Raises AssertionError with how it ended."""
    target = replace(NEON, lang=lang)
    source = render(program, target)
    s = source.signature
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        if lang == "c":
            obj, symbols = (
                cc.compile_c(source.text, target, cc.Compiler((LINKER,), "gcc", "")),
                [abi.entry(s, i) for i in range(len(s.items))],
            )
        else:
            obj, symbols = compile_text(source.text, target, native=False), [s.entry(i) for i in range(len(s.items))]
        (folder / "kernel.o").write_bytes(obj)
        (folder / "driver.o").write_bytes(_driver())
        _link(folder, [], symbols)
        values: dict[Node, int] = {
            n: v for item in s.items for n in walk(item) if n.op == "sym" for at, v in zip(s.symbols, vars, strict=True) if n.arg.name == at
        }
        head = [
            len(arrays),
            len(vars),
            len(s.items),
            s.work,
            s.scratch,
            *vars,
            *(evaluate(i, values) for i in s.items),
            *(a.nbytes for a in arrays),
        ]
        given = np.array(head, "<i8").tobytes() + b"".join(a.tobytes() for a in arrays)
        done = subprocess.run(["qemu-aarch64", str(folder / "run")], input=given, capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"it ended with {done.returncode} {done.stderr.decode(errors='replace')[-300:]}"
    at = 0
    for a in arrays:
        if a.flags.writeable:
            a[...] = np.frombuffer(done.stdout, a.dtype, a.size, at).reshape(a.shape)
        at += a.nbytes
    assert at == len(done.stdout)


@functools.cache
def _driver() -> bytes:
    """The object of the driver: one for all that is run."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "driver.o")
        subprocess.run([LINKER, "-O1", "-c", "-o", str(made), str(DRIVER)], check=True, capture_output=True, text=True)
        return made.read_bytes()


def _link(folder: Path, sources: list[str], symbols: Sequence[str]) -> None:
    """`run` in the folder: the sources, a table of the phases, and kernel.o where there is one."""
    declared = "\n".join(f'extern void p{i}(void) __asm__("{n}");' for i, n in enumerate(symbols))
    table = f"{declared}\nvoid (*const phases[])(void) = {{ {''.join(f'p{i}, ' for i in range(len(symbols)))} 0 }};\n"
    (folder / "table.c").write_text(table + ("" if symbols else "int main(void) { return 0; }\n"))
    objects = [str(o) for o in folder.glob("*.o")]
    subprocess.run(
        [LINKER, "-O1", "-static", "-o", str(folder / "run"), str(folder / "table.c"), *objects, *sources],
        check=True,
        capture_output=True,
        text=True,
    )
