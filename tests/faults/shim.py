"""`disk.c` compiled and steered: a full, read-only or failing disk, a jumping clock, and a log of everything written, for one folder."""

from __future__ import annotations

import functools
import mmap
import platform
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("disk.c")
NAME = "disk.so"


@functools.cache
def missing() -> str:
    """Why it cannot be used here, '' if it can."""
    if platform.libc_ver()[0] != "glibc":
        return "LD_PRELOAD with glibc is needed"
    return "" if shutil.which("cc") else "there is no C compiler"


class Shim:
    """Environment for processes whose folder `folder` lives on a disk that this object steers."""

    def __init__(self, scratch: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.library, self._control, self.folder = scratch / NAME, scratch / "control", folder
        self.log = scratch / "disk.log"
        if not self.library.exists():
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(self.library), str(SOURCE), "-ldl", "-lpthread"], check=True)
        self._control.write_bytes(bytes(16))
        with open(self._control, "r+b") as f:
            self._map = mmap.mmap(f.fileno(), 16)

    def env(self, logged: bool = False) -> dict[str, str | None]:
        """What a process needs in its environment; `logged`: everything that is written is kept in `log`."""
        env: dict[str, str | None] = {
            "LD_PRELOAD": str(self.library),
            "FAULTS_DIR": str(self.folder.resolve()),
            "FAULTS_CTL": str(self._control),
        }
        return {**env, "FAULTS_LOG": str(self.log)} if logged else env

    def disk(self, mode: str) -> None:
        """'full', 'read-only', 'failing' or 'well', from now on, for every process."""
        self._map[0] = {"full": ord("f"), "read-only": ord("r"), "failing": ord("e"), "well": 0}[mode]

    def clock(self, seconds: float) -> None:
        """The wall clock is off by so much from now on."""
        self._map[8:16] = struct.pack("d", seconds)
