"""Writing a file that someone named: whole or not at all, and never in place of something that is no file, or is another's."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
from pathlib import Path

from .kinds import foreign


class Refused(OSError):
    """A file of another kind is there."""


def replace(path: str | os.PathLike[str], content: str | bytes, kind: str | None = None) -> None:
    """The file's new content (a text as UTF-8), at once: a reader sees the old or the new one. Through a link, the
    file that it names is replaced; what is no regular file (a pipe, a terminal, /dev/stdout) is written to. Keeps the
    permissions of a file that was there. `kind` (of `files.kinds.KINDS`): a file that is not of this kind stays, and
    Refused is raised. Raises OSError."""
    data = content.encode() if isinstance(content, str) else content
    target = Path(path).resolve()  # the file that a link names, not the link
    if (target.exists() and not target.is_file()) or _stream(path):
        with open(path, "wb") as f:
            f.write(data)
        return
    other = foreign(target, kind) if kind is not None else None
    if other is not None:
        raise Refused(errno.EEXIST, f"{other}; it was left as it is", str(path))
    fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(temporary, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def why_not(path: str | os.PathLike[str], kind: str | None = None) -> str | None:
    """Why `replace` could not write there, found before hours of work; None where it looks as if it could. Makes and changes nothing."""
    try:
        target = Path(path).resolve()
        if not os.fspath(path):
            return "it has no name"
        if target.is_dir():
            return "it is a folder"
        if not target.parent.is_dir():
            return "its folder does not exist"
        if target.exists() and not os.access(target, os.W_OK):
            return "it is not writable"
        if (target.is_file() or not target.exists()) and not _stream(path):
            if not os.access(target.parent, os.W_OK | os.X_OK):
                return "its folder is not writable"
            return foreign(target, kind) if kind is not None else None
    except (OSError, ValueError, RuntimeError) as e:  # a loop of links, a NUL in the name
        return str(getattr(e, "strerror", None) or e)
    return None


def _stream(path: str | os.PathLike[str]) -> bool:
    """/dev/stdout and its like are whatever is open there, also where that is a file with a name."""
    return Path(path).absolute().parts[1:2] in (("dev",), ("proc",))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# text -------------------------------------------------------------------------------------------------------
# Texts that a person wrote: UTF-8, with or without the mark that some editors put at the beginning.


_MARK = b"\xef\xbb\xbf"


def content(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a regular file, at most `most`. Raises OSError, also for another kind of file and for one that is larger."""
    nonblocking = getattr(os, "O_NONBLOCK", 0)  # a FIFO would wait for ever
    with open(path, "rb", opener=lambda p, flags: os.open(p, flags | nonblocking)) as f:
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
            raise OSError(0, "it is no regular file")
        raw = f.read(most + 1)
    if len(raw) > most:
        raise OSError(0, f"it is larger than {most} bytes")
    return raw


def read(path: str | os.PathLike[str]) -> str:
    """A file's text. Raises OSError, UnicodeDecodeError."""
    with open(path, "rb") as f:
        return decoded(f.read())


def decoded(raw: bytes, errors: str = "strict") -> str:
    """The text of a file's bytes, its lines ended as everywhere. Raises UnicodeDecodeError."""
    return raw.removeprefix(_MARK).decode(errors=errors).replace("\r\n", "\n").replace("\r", "\n")


# secrets ----------------------------------------------------------------------------------------------------
# Passwords in URLs, which nobody else must see.


SECRETS = ("password", "sslpassword", "passwd")
"""What the query of a server's URL may say that is secret."""
_USERINFO = re.compile(r"([\w+]+://[^\s:/@]*):[^\s]*@")
_QUERY = re.compile(rf"([?&;]\s*(?:{'|'.join(SECRETS)})=)[^\s&;]*", re.IGNORECASE)


def hidden(text: str) -> str:
    """A text with the passwords of all URLs in it left out."""
    return _QUERY.sub(r"\1***", _USERINFO.sub(r"\1:***@", text)) if "://" in text else text
