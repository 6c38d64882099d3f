"""A team's cache as one object: the server that is written, and the mirror that is read.

Look-ups read the mirror and never wait for the server; the first one of a machine, which has no mirror yet, fetches it. Everything that
lists rows asks for what is new first, as far as the server answers."""

from __future__ import annotations

import time
import warnings

from ...ir.errors import CacheError
from ..lookup import Reader
from ..recover import CacheWarning, Damaged, Older
from ..rows import Row
from .address import Address
from .errors import Forbidden, Unreachable
from .mirror import Mirror, MirrorPull
from .writer import ServerWriter

QUIET_S = 30.0
"""How long a server that did not answer is left alone by what can do without it."""

HURRY_S = 0.9
"""How long a server is waited for where there is a mirror already (see `writer.HURRIED_S`)."""


class Team:
    """One server and this machine's mirror of it. `elsewhere`: its rows count as measured elsewhere."""

    def __init__(self, address: Address, elsewhere: bool = False) -> None:
        self.address = address
        self.mirror = Mirror(address, elsewhere)
        self.writer = ServerWriter(address)
        self._quiet_until = 0.0

    def pull(self, again: bool = False) -> MirrorPull:
        """Bring the mirror up to date; tables of an earlier schema are migrated where this user may. Raises CacheError."""
        try:
            return self._pull(again)
        except Damaged:
            return self._pull(True)

    def _pull(self, again: bool) -> MirrorPull:
        try:
            return self.mirror.pull(self.writer, again)
        except Older as old:
            try:
                self.writer.prepare()
            except Forbidden:
                raise old from None
            return self.mirror.pull(self.writer, again)

    def fetch(self) -> None:
        """See that there is a mirror. Raises CacheError where there is none and the server does not answer."""
        if not self.mirror.there:
            self.pull()

    def refresh(self) -> None:
        """Bring the mirror up to date as far as the server answers; says so where it does not. Raises CacheError where there is no
        mirror either, or this user may not read the server."""
        if time.monotonic() < self._quiet_until and self.mirror.there:
            return
        patience, self.writer.patience_s = self.writer.patience_s, HURRY_S if self.mirror.there else self.writer.patience_s
        try:
            self.pull()
        except Unreachable as e:
            if not self.mirror.there:
                raise
            self.went_away(e)
        finally:
            self.writer.patience_s = patience

    def push(self, rows: list[Row]) -> int:
        """Add rows to the server; how many it did not have. Raises CacheError."""
        sent = self.writer.record(rows) if rows else 0
        self.add(rows)
        return sent

    def add(self, rows: list[Row]) -> None:
        """Let rows of this machine answer here at once, whether the server has them or not."""
        try:
            self.mirror.add(rows)
        except CacheError as e:
            warnings.warn(f"the mirror of {self.address} is behind until the next pull: {e}", CacheWarning, stacklevel=4)

    def renew(self) -> None:
        """Make a damaged mirror again. Raises CacheError where the server does not answer."""
        warnings.warn(f"the mirror of {self.address} is damaged and made anew", CacheWarning, stacklevel=4)
        self.mirror.discard()
        self.fetch()

    def dropped(self, reader: Reader, error: CacheError) -> None:
        """Somebody cannot read `reader`: where that is this mirror, and it is damaged, the next pull makes it anew."""
        if reader is self.mirror.reader and isinstance(error, Damaged):
            self.mirror.discard()

    def went_away(self, error: Unreachable) -> None:
        """Say that the server does not answer, and leave it alone for a while."""
        self._quiet_until = time.monotonic() + QUIET_S
        at = self.mirror.position()
        since = f" of {at.pulled[:16].replace('T', ' ')} UTC" if at is not None else ""
        warnings.warn(f"{error}. Until then its mirror{since} is read", CacheWarning, stacklevel=4)

    def close(self) -> None:
        """Let go of the connection and of the file."""
        self.mirror.close()
        self.writer.close()
