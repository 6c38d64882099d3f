"""Whether a project's cache may answer: a file in a folder above the working directory, which came with somebody's repository.

It holds no code, but its rows decide which schedules run. So it is used where this user owns it, nobody else can
write it, and the user said so: by TILEWRIGHT_PROJECT_CACHE=1 (0: never), or when the command line asked, which it
does once a project. The answers are in `projects.json` in the platform's folder for a user's settings."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..files import folders, owned
from ..files.strict import Misread, canon, parse, read
from ..ir.errors import UsageError
from .file_check import CacheWarning

ENV = "TILEWRIGHT_PROJECT_CACHE"
MAX_BYTES = 1 << 20
MOST = 1000
"""Answers that are kept; the oldest go."""
_told: set[str] = set()


def may_answer(path: Path) -> bool:
    """Whether the cache is used; where it is not, a warning says how it would be, once a process. Raises UsageError
    for a setting that is neither 0 nor 1."""
    said = setting()
    if said is False:
        return False
    why = refusal(path)
    if why is None:
        allowed = said or answer(path)
        if allowed is not None:
            return allowed
        why = f"nobody allowed it: set {ENV}=1 to use it, or 0 to be told no more"
    if str(path) not in _told:
        _told.add(str(path))
        warnings.warn(f"the project's cache {path} is not used: {why}", CacheWarning, stacklevel=4)
    return False


def setting() -> bool | None:
    """What the environment says, None where it says nothing."""
    text = os.environ.get(ENV, "")
    if text not in ("", "0", "1"):
        raise UsageError(f"{ENV} is 1 (use the caches of projects) or 0 (never), not {text!r}")
    return None if not text else text == "1"


def refusal(path: Path) -> str | None:
    """Why its place forbids using it, whatever anybody said; None where it does not."""
    try:
        why = owned.why_not(path, roots=True)
    except OSError as e:
        return f"it cannot be looked at ({e.strerror})"
    return None if why is None else f"{why}; name it with --cache or TILEWRIGHT_CACHE to use it all the same"


def answer(path: Path) -> bool | None:
    """What the user said of this project when asked; None where nobody asked."""
    return _answers().get(_name(path))


def remember(path: Path, yes: bool) -> None:
    """Keep an answer. Raises OSError where that is not possible."""
    from ..files.write_file import replace

    known = {k: v for k, v in _answers().items() if k != _name(path)}
    known[_name(path)] = yes
    file = _file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # the order is the age, so keys are not sorted
    lines = ",\n ".join(f"{canon(k)}:{canon(v)}" for k, v in list(known.items())[-MOST:])
    replace(file, f'{{"schema":1,"projects":{{\n {lines}\n}}}}\n')


@dataclass(frozen=True)
class _Answers:
    """The file of answers."""

    schema: Literal[1]
    projects: dict[str, bool]


def _file() -> Path:
    return folders.config() / "projects.json"


def _answers() -> dict[str, bool]:
    file = _file()
    try:
        raw = owned.read(file)
        if len(raw) > MAX_BYTES:
            raise Misread("it is too large")
        return read(_Answers, parse(raw.decode(), "it"), unknown="ignore").projects
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as e:
        if str(file) not in _told:
            _told.add(str(file))
            warnings.warn(
                f"the answers in {file} are not readable ({getattr(e, 'strerror', None) or e}); delete the file to be asked again",
                CacheWarning,
                stacklevel=4,
            )
        return {}


def _name(path: Path) -> str:
    return os.path.realpath(path)
