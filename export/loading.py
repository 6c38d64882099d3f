"""An exported library, called from Python: `load("lib/")`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ..ir.dtypes import dtype as dtype_of
from ..ir.errors import BuildError, DeviceError, UsageError, VerifyError
from .c_library import MARK
from .python_caller import Library


def facts(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What a folder's export says of itself. Raises UsageError."""
    try:
        found: dict[str, Any] = json.loads((Path(folder) / MARK).read_text())
        if found["schema"] != 1 or not str(found["name"]).isidentifier():
            raise ValueError
        if "language" in found:
            raise UsageError(f"{folder} holds a kernel for {found['target']} in {found['language']}: {found['name']}_host.c calls it")
        return found
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{folder} holds no exported library: tune export writes one") from None


def note_command(folder: str | os.PathLike[str], command: str) -> None:
    """Add the command that wrote an export to what the folder says of itself."""
    mark = Path(folder) / MARK
    found = json.loads(mark.read_text())
    mark.write_text(json.dumps({**found, "command": command}, indent=1) + "\n")


def build(folder: str | os.PathLike[str], what: str) -> str:
    """Let make build a part of a library. Raises BuildError, and DeviceError where there is no make."""
    try:
        done = subprocess.run(["make", "-s", what], cwd=folder, capture_output=True, text=True, errors="replace")
    except OSError as e:
        raise DeviceError(f"make does not start: {e.strerror}; build the C files of {folder} with any compiler") from e
    if done.returncode:
        raise BuildError(f"make {what} in {folder}:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class ExportedLibrary(Library):
    """See `Library`; built first where it is not. Its errors are UsageError and DeviceError."""

    usage, failure = UsageError, DeviceError

    def __init__(self, folder: str | os.PathLike[str], threads: int = 1, target: str | None = None) -> None:
        known = facts(folder)
        library = Path(folder) / f"lib{known['name']}.so"
        if not library.is_file():
            build(folder, library.name)
        with tempfile.TemporaryDirectory() as new:  # under a name that was never loaded: a library of this path may be another one by now
            link = Path(new) / library.name
            link.symlink_to(library.resolve())
            super().__init__(str(link), known, threads, target)

    def type_of(self, name: str) -> Any:
        """NumPy's type of an array's elements, with our own for those that NumPy lacks."""
        return dtype_of(name).np


def load_exported(folder: str | os.PathLike[str], threads: int = 1, target: str | None = None) -> ExportedLibrary:
    """A library that `tune export` or `export.write` made, built first where it is not. `target`: the processor whose code runs, by default
    the best of the library's that this one has. Raises UsageError, BuildError, DeviceError."""
    return ExportedLibrary(folder, threads, target)


def check(folder: str | os.PathLike[str], threads: int = 1) -> str:
    """Build a library anew, and run its recorded call: what the test said. Raises VerifyError where results differ: in any bit, or by more
    than rounding where the library is for another processor than the one that recorded the call."""
    name = facts(folder)["name"]
    build(folder, "clean")
    build(folder, "all")
    build(folder, f"{name}_test")
    done = subprocess.run([f"./{name}_test", str(threads)], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise VerifyError(f"{folder}: {(done.stdout + done.stderr).strip() or f'the test ended with {done.returncode}'}")
    return done.stdout.strip()
