"""Where caches are: shipped with the package < the team's < the project's < the user's. A nearer layer's answer wins. The
project's takes part where its user allowed it, the team's where one is named (`server.configured`)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..files import folders
from ..ir.errors import CacheError, UsageError
from . import project_consent
from .server import team_setting
from .server.address import EXAMPLE, Address
from .shipped import Shipped, layer

ENV = "TILEWRIGHT_CACHE"
PROJECT = Path(".tilewright") / "cache.db"


@dataclass(frozen=True, slots=True)
class Layers:
    """`top` is written and read: a path or a database URL. `below` are only read, nearest first: files, servers (which stand for
    their mirrors), and what the package ships."""

    top: str
    below: tuple[Path | Address | Shipped, ...]
    named: bool = True
    """Whether somebody named the top; else it is the user's default one, which is read as empty where it cannot be read."""


def find(location: str | os.PathLike[str] | None = None) -> Layers:
    """The layers for `location` (a path or URL), else for the environment variable TILEWRIGHT_CACHE, else the user's default.

    A cache that is named in either way stands alone: what is in it, and nothing else, decides. Raises UsageError for an empty name."""
    if location is not None and not os.fspath(location):
        raise UsageError(f"the cache has an empty name: give a path or a database URL, or leave it out for {ENV} or the default one")
    named = os.fspath(location) if location is not None else os.environ.get(ENV)
    if named:
        return Layers(named, ())
    project = project_path()
    if project is not None and not project_consent.may_answer(project):
        project = None
    return Layers(str(user_path()), tuple(p for p in (project, team_setting.team(), layer()) if p is not None), named=False)


def user_path() -> Path:
    """The platform's place for a user's data, e.g. ~/.local/share/tilewright/cache.db."""
    return folders.data() / "cache.db"


def project_path(start: Path | None = None) -> Path | None:
    """The first `.tilewright/cache.db` in `start` (default: the working directory) or a folder above it."""
    try:
        here = (start or Path.cwd()).absolute()
    except FileNotFoundError:
        return None  # the working directory was deleted
    return next((p for p in (d / PROJECT for d in (here, *here.parents)) if _is_file(p)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # a folder that may not be looked into


_MISSPELT = re.compile(r"postgres\w*(\+\w*)?(:|//)|[a-zA-Z+]{2,}(:/{0,2}|//)[^/\s]*@")
"""What was meant as a server's URL: a scheme without all of `://`."""


def is_url(location: str) -> bool:
    """Whether this names a database server (or is written as a SQLAlchemy URL) rather than a file."""
    return "://" in location


def file_of(location: str) -> Path | None:
    """The cache file that a location names, None where it is a server's. Raises CacheError for an sqlite:// URL of one in memory,
    which nobody else could read."""
    if not is_url(location) and _MISSPELT.match(location):
        shown = re.sub(r":[^:/@]+@", ":***@", location)
        raise CacheError(f"the cache {shown} is no URL and looks like one: write {EXAMPLE}, or ./{shown} for a file")
    if not location.startswith("sqlite"):
        return None if is_url(location) else folders.expanded(location).absolute()
    path = location.partition("://")[2]
    if not path.startswith("/") or path == "/" or "?" in path or ":memory:" in path:
        raise CacheError(f"the cache {location} is not a file: use a path, or sqlite:///PATH")
    return Path(path[1:]).absolute()
