"""The journal of a sweep: what was begun and how it ended, one JSON line each, on the disk before the next thing happens.

What was found is in the cache, and only the cache says whether an entry is done. The journal knows what the cache cannot: which entries
failed and why, and which were begun and never ended, because the process or the machine went away with them. An entry that was so lost
twice is not begun a third time, unless somebody asks for it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal

from ...cache.rows import now
from ...files.strict import Misread, canon, parse
from ...files.strict import read as read_data
from ...files.text import content
from ...ir.errors import UsageError

if TYPE_CHECKING:
    from .manifest_file import Entry
    from .tune_all import Done

HEADER = {"tilewright": "sweep", "schema": 1}
BEGUN = "begun"
_HEAD = json.dumps(HEADER, sort_keys=True).encode()
ENDS = ("tuned", "cached", "failed", "interrupted")
FORGOTTEN = "forgotten"
"""What was said of the entry before counts no more."""
LOSSES = 2
"""How often an entry may be begun and not end."""
MAX_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class _JournalLine:
    """A line. `entry`: an `identity`; `t_min`: seconds."""

    entry: str
    event: Literal["begun", "forgotten", "tuned", "cached", "failed", "interrupted"]
    when: str
    title: str = ""
    message: str = ""
    t_min: float | None = None


@dataclass(slots=True)
class EntryStory:
    """What the journal says of an entry. `event`: the last one, '' where there is none; `lost`: how often in a row it was begun and did
    not end; `t_min`: seconds of what was found."""

    event: str = ""
    when: str = ""
    message: str = ""
    t_min: float | None = None
    lost: int = 0

    @property
    def deadly(self) -> bool:
        """Whether it took its process with it too often."""
        return self.lost >= LOSSES


def identity(entry: Entry) -> str:
    """16 hex digits of what an entry is: kernel, shape, element type and target."""
    p = entry.place
    what = [entry.kernel, sorted(entry.shape.items()), entry.dtype, p.name, p.device, p.target, p.threads, p.compiler]
    return hashlib.sha256(canon(what).encode()).hexdigest()[:16]


def path_of(sweep: str | os.PathLike[str]) -> Path:
    """Where the journal of a sweep is: `models.journal.jsonl` for `models.toml`."""
    return Path(sweep).with_suffix(".journal.jsonl")


def read(path: Path) -> dict[str, EntryStory]:
    """What a journal says, by `identity`; nothing where there is none. The last line may be torn. Raises UsageError for another file."""
    try:
        raw = content(path, MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise UsageError(f"cannot read the journal {path}: {e.strerror}; name another with --journal") from None
    lines = raw[: raw.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines()
    if not lines and _HEAD.startswith(raw):
        return {}  # it was begun, and nothing was written yet
    if raw and (not lines or _line(lines[0], path, 1) != HEADER):
        raise UsageError(f"{path} is not the journal of a sweep: name another with --journal, or delete it")
    out: dict[str, EntryStory] = {}
    for number, text in enumerate(lines[1:], 2):
        try:
            event = read_data(_JournalLine, _line(text, path, number))
        except Misread as e:
            raise UsageError(
                f"{path}, line {number}, is no event of a sweep ({e}): delete the line, or the journal to begin anew"
            ) from None
        if event.event == FORGOTTEN:
            out.pop(event.entry, None)
            continue
        story = out.setdefault(event.entry, EntryStory())
        story.event, story.when, story.message, story.t_min = event.event, event.when, event.message, event.t_min
        story.lost = story.lost + 1 if event.event == BEGUN else 0
    return out


def _line(text: str, path: Path, number: int) -> Any:
    try:
        return parse(text, f"{path}, line {number}")
    except Misread as e:
        raise UsageError(f"{e}: delete the line, or the journal to begin anew") from None


class SweepJournal:
    """A journal that is written; one process at a time. `stories`: what it said at first. Use it as a context."""

    def __init__(self, path: Path, forget: Iterable[Entry] = ()) -> None:
        """`forget`: entries of which nothing counts that it says. Raises UsageError where it is another file, is being written, or
        cannot be written."""
        self.path = path
        self.stories = read(path)
        self._file: IO[bytes] | None = None
        try:
            self._file = open(path, "ab")  # noqa: SIM115 — it stays open
            _lock(self._file, path)
            kept = _whole(path)
            self._file.truncate(kept)
            if not kept:
                self._write(HEADER)
            for i in (i for i in map(identity, forget) if self.stories.pop(i, None) is not None):
                self._write({"entry": i, "event": FORGOTTEN, "when": now()})
        except BaseException as e:
            if self._file is not None:
                self._file.close()
            if not isinstance(e, OSError):
                raise
            raise UsageError(f"cannot write the journal {path}: {e.strerror}; name another with --journal") from None

    def begun(self, entry: Entry) -> None:
        """An entry is about to be tuned."""
        self._write({"entry": identity(entry), "event": BEGUN, "when": now(), "title": entry.title})

    def ended(self, done: Done) -> None:
        """What came of an entry. That one is elsewhere or was left is no news."""
        if done.status in ENDS:
            found = {} if done.result is None or done.result.t_min is None else {"t_min": float(done.result.t_min)}
            said = {"entry": identity(done.entry), "event": done.status, "when": now(), "message": done.message[:1000]}
            self._write({**said, **found})

    def _write(self, said: dict[str, Any]) -> None:
        assert self._file is not None
        try:
            self._file.write(json.dumps(said, sort_keys=True).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as e:
            raise UsageError(f"cannot write the journal {self.path}: {e.strerror}; what was tuned is in the cache") from None

    def __enter__(self) -> SweepJournal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def deadly(entries: Iterable[Entry], stories: dict[str, EntryStory]) -> list[Entry]:
    """The entries that are not begun again."""
    return [e for e in entries if stories.get(identity(e), EntryStory()).deadly]


def _whole(path: Path) -> int:
    """Bytes of the complete lines."""
    raw = path.read_bytes()
    return raw.rfind(b"\n") + 1


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return  # this system has no such locks
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another sweep is writing {path}: wait for it, or name another journal with --journal") from None
