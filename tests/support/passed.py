"""What passed once and need not again: complete checks of a compiler, by its version, this processor and the sources that it was given to.

Each case that passed is an empty file in the user's state folder, so that an interrupted check goes on where it was."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import platformdirs
from tilewright.targets.named import machine

ROOT = Path(__file__).parents[2]


@functools.cache
def folder(*sources: str) -> Path:
    """Where the cases lie that passed with this LLVM, processor and content of files and folders."""
    version = ".".join(map(str, llvm.llvm_version_info))
    seen = hashlib.sha256(f"{llvmlite.__version__} {machine().key}".encode())
    for name in sources:
        at = ROOT / name
        for path in sorted(at.rglob("*.py")) if at.is_dir() else [at]:
            seen.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return Path(platformdirs.user_state_dir("tilewright", appauthor=False), "llvm-checked", f"{version}-{seen.hexdigest()[:16]}")


def known(case: str, *sources: str) -> bool:
    """Whether a case passed."""
    return (folder(*sources) / case).exists()


def note(case: str, *sources: str) -> None:
    """A case passed."""
    folder(*sources).mkdir(parents=True, exist_ok=True)
    (folder(*sources) / case).touch()
