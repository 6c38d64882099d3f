"""Where PoCL keeps what it compiled. Without a folder in which it can write, PoCL shows no platform, not even to say what devices it has."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from ...files import folders, owned
from ...ir.errors import DeviceError
from ..once import once

VARIABLE = "POCL_CACHE_DIR"
_DAY_S = 86400.0
KEPT_S = 14 * _DAY_S
LEAST = 4 << 20
"""Bytes that must be free there: a program takes up to some hundred thousand, and LLVM ends the process when a write fails."""
NO_FOLDER = f"PoCL needs a folder in which it can write {LEAST >> 20} MiB: set {VARIABLE} to one, or TMPDIR"


def setting() -> dict[str, str]:
    """`VARIABLE`, unless it is set: a folder beside our artefacts, or where that cannot be or somebody else could write there, one that
    ends with the process. Nothing where there is no such folder either."""
    if VARIABLE in os.environ:
        return {}
    folder = str(folders.made() / "pocl")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if owned.why_not(folder) is not None or not _writable(folder):
            raise PermissionError(folder)
    except OSError:
        made = _temporary()
        return {VARIABLE: made} if made else {}
    prune(folder)
    return {VARIABLE: folder}


def check_room() -> None:
    """Raise DeviceError where PoCL could not compile."""
    folder = os.environ.get(VARIABLE, "")
    if not folder or (os.path.isdir(folder) and _free(folder) < LEAST):
        raise DeviceError(NO_FOLDER + (f"; {folder} is full" if folder else ""))


def _free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _writable(folder: str) -> bool:
    """Whether a file can be made there (root is told that it may, where the disk is read-only), and has room."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return _free(folder) >= LEAST
    except OSError:
        return False


@once
def _temporary() -> str:
    try:
        folder = tempfile.mkdtemp(prefix="tilewright-pocl-")
    except OSError:
        return ""
    if not _writable(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return ""
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # a forked child of this process ends, too
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def prune(folder: str, now: float | None = None) -> None:
    """Delete what PoCL keeps in a folder of ours and nobody used for KEPT_S seconds: it never does so itself, and a
    search leaves thousands of programs there, and each of its processes an empty file. At most once a day. What cannot be deleted stays."""
    now, stamp = time.time() if now is None else now, Path(folder) / "pruned"
    try:
        if stamp.exists() and now - stamp.stat().st_mtime < _DAY_S:
            return
        stamp.touch()
    except OSError:
        return  # tidying can wait
    # two letters, then a folder a program, with a file that PoCL touches at every use
    for used in (*Path(folder).glob("??/*/last_accessed"), *Path(folder).glob("tempfile_*")):
        with contextlib.suppress(OSError):  # another process is at it too
            if now - used.stat().st_mtime > KEPT_S:
                if used.name == "last_accessed":
                    shutil.rmtree(used.parent, ignore_errors=True)
                else:
                    used.unlink()
