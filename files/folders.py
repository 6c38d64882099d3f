"""The folders of this user's own in which Tilewright keeps things, as the platform has them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
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


# answers ----------------------------------------------------------------------------------------------------
# Small ones that cost much to find and never change, kept between processes.


def remembered(kind: str, key: str, find: Callable[[], bytes]) -> bytes:
    """What `find` gives for `key`: found once, then read from the folder of what can be made again. Where that cannot be read or written, belongs to
    somebody else or is damaged, it is found each time; the store of artefacts, which lies there too, tells the user so. Raises what `find` raises."""
    from . import owned
    from .write_file import replace

    file = made() / kind / hashlib.sha256(key.encode()).hexdigest()
    with contextlib.suppress(OSError):
        if owned.why_not(file.parent) is None:
            digest, _, kept = owned.read(file).partition(b"\n")
            if digest == _digest(kept):
                return kept
    found = find()
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if owned.why_not(file.parent) is None:
            replace(file, _digest(found) + b"\n" + found)
            file.chmod(0o600)
    return found


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
