"""Whether anybody but this user (and root) could change what we are about to read and run: as ssh and sudo ask of their files."""

from __future__ import annotations

import errno
import functools
import os
import stat
from pathlib import Path

_LINKS = 40


class NotOurs(OSError):
    """Somebody else owns a file or may write it; or it is no regular file."""


def why_not(path: str | os.PathLike[str], roots: bool = False) -> str | None:
    """Why somebody else could put something at this path or into it, None where nobody can. It must be this user's
    (or root's, with `roots`) and writable by nobody else; folders above it, and links on the way, may be root's, and
    others may write in those whose sticky bit keeps what is there (/tmp). Everywhere on systems without owners: None.
    Raises OSError, also where nothing is there."""
    if not hasattr(os, "geteuid"):
        return None
    path = Path(path).absolute()
    at, todo, links = path.anchor, list(reversed(path.parts[1:])), 0
    found = os.lstat(at)
    while True:
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if not _trusted(found.st_uid):
                return f"the link {at} belongs to {_user(found.st_uid)}"
            target = Path(os.readlink(at))
            todo += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            at = target.anchor or os.path.dirname(at)
        else:
            last = not todo
            if not (_trusted(found.st_uid) if not last or roots else found.st_uid == os.geteuid()):
                return f"{at} belongs to {_user(found.st_uid)}"
            if _others_write(found, at) and (last or not found.st_mode & stat.S_ISVTX):
                return f"others can write {at}"
            if last:
                return None
        name = todo.pop() if todo else "."
        at = os.path.dirname(at) if name == ".." else at if name == "." else os.path.join(at, name)
        found = os.lstat(at)


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file of this user's that nobody else may write: asked of what was opened, not of what has the
    name. Raises OSError, NotOurs for other files."""
    if not hasattr(os, "geteuid"):
        with open(path, "rb") as f:
            return f.read()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise NotOurs(e.errno, "it is a link", str(path)) from None
        raise
    with open(fd, "rb") as f:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or _others_write(found, fd):
            raise NotOurs(errno.EPERM, "it is not a file that this user alone may write", str(path))
        return f.read()


def is_own(path: str | os.PathLike[str]) -> bool:
    """Whether a folder, whose own folder is known to be ours, is so too. Raises OSError."""
    if not hasattr(os, "geteuid"):
        return True
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not _others_write(found, path)


def _trusted(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _others_write(found: os.stat_result, path: str | os.PathLike[str] | int) -> bool:
    """A group may write where it is its owner's own, which many systems give to each user, and no access list adds to it."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and (not _is_private_group(found.st_uid, found.st_gid) or _listed(path))


@functools.cache
def _is_private_group(uid: int, gid: int) -> bool:
    import grp
    import pwd

    try:
        name, group = pwd.getpwuid(uid).pw_name, grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _listed(path: str | os.PathLike[str] | int) -> bool:
    if not hasattr(os, "getxattr"):
        return False
    try:
        os.getxattr(path, "system.posix_acl_access")
    except OSError:
        return False
    return True


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
