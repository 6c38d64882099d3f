"""Which server is the team's: TILEWRIGHT_TEAM_CACHE, else the file `cache.toml` in the platform's folder for a user's
settings, which says `team = "postgresql://USER@HOST/DATABASE"`. Both may be empty.

Its rows then answer what the user's own cache and the project's do not."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from ...files import folders, owned
from ...ir.errors import UsageError
from ..file_errors import CacheWarning
from .address import EXAMPLE, Address

ENV = "TILEWRIGHT_TEAM_CACHE"


def team() -> Address | None:
    """The server, None where none is named. Raises UsageError for a file that cannot be understood, CacheError for a
    URL that cannot."""
    named = os.environ.get(ENV)
    if named is None:
        named = _written(path())
    return Address.parse(named) if named else None


def path() -> Path:
    """Where the file is."""
    return folders.config() / "cache.toml"


def remember(url: str) -> Path:
    """Write the file; where. '' forgets the team. Raises CacheError for a URL that is none, UsageError where it cannot be written."""
    from ...files.write_file import replace

    if url and Address.parse(url).secret:
        raise UsageError("the settings are no place for a password: put it into ~/.pgpass, and name the server without")
    file = path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = url.replace("\\", "\\\\").replace('"', '\\"')
        replace(file, f'# the cache of this user\'s team\nteam = "{text}"\n')
    except OSError as e:
        raise UsageError(f"cannot write {file}: {e.strerror}; {ENV}=URL says the same") from None
    return file


def _written(file: Path) -> str:
    try:
        raw = owned.read(file)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as e:  # a home that this user may not look into, say: work goes on
        warnings.warn(f"the settings {file} are not read: {e.strerror or e}; {ENV}= (empty) says so for good", CacheWarning, stacklevel=5)
        return ""
    import tomllib

    try:
        said = tomllib.loads(raw.decode())
    except ValueError:
        raise UsageError(f'{file} is not understood: it says team = "{EXAMPLE}", and nothing else') from None
    url = said.pop("team", "")
    if said or not isinstance(url, str):
        raise UsageError(f'{file} is not understood: it says team = "{EXAMPLE}", and nothing else')
    return url
