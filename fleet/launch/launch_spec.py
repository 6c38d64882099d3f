"""What is wanted of the machines that join a fleet, whatever starts them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ...ir.errors import UsageError

_URL = re.compile(r"(tls|tcp)://[^\s/:\[\]]+:\d{1,5}|(tls|tcp)://\[[0-9a-fA-F:]+\]:\d{1,5}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT])(i?)B?")
_TIME = re.compile(r"(?:(\d+)-)?(\d{1,3}):(\d{2})(?::(\d{2}))?")
_UNITS = {"k": 1, "m": 2, "g": 3, "t": 4}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLaunch:
    """`machines`: how many, each with one `tune fleet worker`; `cores`, `memory` (bytes) and `gpus`: of each machine, None where the
    site decides; `seconds`: how long they may run; `exclusive`: nothing else on the machine meanwhile, which timings want.
    `devices`, `threads`, `build`: as `tune fleet worker` takes them; `tls`: the folder of certificates over there; `tune`: the
    command there; `setup`: lines of shell before it; `more`: directives for the batch system, as they are."""

    url: str
    name: str = "tilewright"
    machines: int = 1
    cores: int | None = None
    memory: int | None = None
    gpus: int = 0
    seconds: int | None = None
    queue: str | None = None
    account: str | None = None
    exclusive: bool = True
    devices: tuple[str, ...] = ()
    threads: int | None = None
    build: int = 0
    tls: str | None = None
    tune: str = "tune"
    setup: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _URL.fullmatch(self.url):
            raise UsageError(f"{self.url!r} is no scheduler's address; it looks like tls://host:8786")
        if not _NAME.fullmatch(self.name):
            raise UsageError(f"the name {self.name!r} must be of small letters, digits and '-', at most 40, as Kubernetes asks")
        for what, text in (
            ("queue", self.queue),
            ("account", self.account),
            ("directive", "".join(self.more)),
            ("device", "".join(self.devices)),
        ):
            if text is not None and re.search(r"[\x00-\x1f\x7f]", text):
                raise UsageError(f"the {what} {text!r} holds a character that would end its line")

    @property
    def words(self) -> list[str]:
        """The command that each machine runs."""
        # GPUs that a batch system gives to a job are numbered from 0 in it
        devices = self.devices or tuple(f"cuda:{i}" for i in range(self.gpus))
        out = [*shlex.split(self.tune), "fleet", "worker", self.url]
        for d in devices:
            out += ["--device", d]
        out += ["--threads", str(self.threads)] if self.threads else []
        out += ["--build", str(self.build)] if self.build else []
        out += ["--tls", self.tls] if self.tls else []
        return out

    @property
    def command(self) -> str:
        """The same as a line of shell. A `~` in front of the folder of certificates is the home over there."""
        return " ".join(w if w.startswith("~/") and shlex.quote(w[2:]) == w[2:] else shlex.quote(w) for w in self.words)


def size(text: str) -> int:
    """Bytes of `32GiB`, `512M`; a k is 1024 whether or not an i follows, as batch systems count. Raises UsageError."""
    found = _SIZE.fullmatch(text.strip())
    if not found or float(found[1]) <= 0:
        raise UsageError(f"{text!r} is not a size; write it like 32GiB")
    return int(float(found[1]) * 1024 ** _UNITS[found[2].lower()])


def span(text: str) -> int:
    """Seconds of `4:00:00`, `30:00` (minutes), `2-12:00:00` (days first) or `90m`. Raises UsageError."""
    found = _TIME.fullmatch(text)
    if found:
        days, a, b, c = found.groups()
        minutes_first = c is None and days is None
        hours, minutes, seconds = (0, int(a), int(b)) if minutes_first else (int(a), int(b), int(c or 0))
        total = int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
        if total and int(b) < 60 and seconds < 60:
            return total
    short = re.fullmatch(r"(\d{1,5})([smhd])", text)
    if short and int(short[1]):
        return int(short[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[short[2]]
    raise UsageError(f"{text!r} is not a time; write it like 4:00:00, 2-12:00:00 (days first) or 90m")


def clock(seconds: int) -> str:
    """`04:00:00`; hours go on beyond 24."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
