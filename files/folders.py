"""The folders of this user's own in which Tilewright keeps things, as the platform has them."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path


def data() -> Path:
    """What is kept for good, such as the cache: ~/.local/share/tilewright."""
    return _folder("user_data_dir")


def config() -> Path:
    """Settings: ~/.config/tilewright."""
    return _folder("user_config_dir")


def state() -> Path:
    """What is known of this machine: ~/.local/state/tilewright."""
    return _folder("user_state_dir")


def made() -> Path:
    """What can be made again: ~/.cache/tilewright."""
    return _folder("user_cache_dir")


def _folder(name: str) -> Path:
    import platformdirs

    find: Callable[..., str] = getattr(platformdirs, name)
    try:
        found = Path(find("tilewright", appauthor=False))
    except RuntimeError:
        found = Path("~")
    if found.parts[0] != "~":
        return found
    # neither HOME nor an account: a container whose user is only a number
    return _homeless(os.getuid()) / name.removeprefix("user_").removesuffix("_dir")


def expanded(path: str | os.PathLike[str]) -> Path:
    """A path whose ~ is the user's home; as it is, for a user who has none."""
    return Path(os.path.expanduser(path))


@functools.cache
def _homeless(user: int) -> Path:
    """A folder of this user's among the temporary files, for one who has no home; said once."""
    import tempfile

    from .owned import is_own

    place = Path(tempfile.gettempdir()) / f"tilewright-{user}"
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        if not is_own(place):  # somebody else has made it, to have us read from it
            place = Path(tempfile.mkdtemp(prefix="tilewright-"))
    except OSError:
        pass  # whoever writes there says that it is not possible, as of any folder
    warnings.warn(f"this user has no home: what is kept lies in {place}; set HOME, or XDG_DATA_HOME and its like", stacklevel=2)
    return place
