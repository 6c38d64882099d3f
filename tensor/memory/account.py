"""What live tensors hold: counted, capped, and named in errors with the lines that made them."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

from ...ir.errors import TilewrightError, UsageError
from ..graph.source_lines import Line, show
from .pools import LEAST


class TensorMemoryError(TilewrightError, MemoryError):
    """There is no room for a tensor; the text lists the largest live ones and the lines that made them."""


class Account:
    """What live tensors hold, per process; an optional cap in bytes. The largest are known by name, small ones by their
    bytes. `evicting`: whether tensors on devices go to the host at the cap, those first that were used longest ago."""

    def __init__(self) -> None:
        self._held = self._peak = 0
        self.cap: int | None = None
        self.evicting = False
        self.notes: deque[int] = deque()
        self._buffers: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.RLock()
        self._clock = 0

    @property
    def live(self) -> int:
        """Bytes that live tensors hold now."""
        self.settle()
        return self._held

    @property
    def peak(self) -> int:
        """The most bytes that they held."""
        self.settle()
        return self._peak

    @peak.setter
    def peak(self, nbytes: int) -> None:
        self.settle()
        self._peak = nbytes

    def settle(self) -> None:
        """Add up the notes: bytes that came, or went (negative). Finalisers run anywhere, so all that they do is leave one."""
        with self._lock:
            while self.notes:
                self._held += self.notes.popleft()
                if self._held > self._peak:
                    self._peak = self._held

    def room(self, nbytes: int, line: Line) -> None:
        """Raise TensorMemoryError where `nbytes` more would pass the cap."""
        if self.cap is None or self.live + nbytes <= self.cap:
            return
        if self.evicting:
            self.relieve(self.live + nbytes - self.cap)
        if self.live + nbytes > self.cap:
            raise TensorMemoryError(
                f"{mb(nbytes)} more{self._for(line)} would pass the cap of {mb(self.cap)}; live tensors hold {mb(self.live)}: "
                f"{self.largest()}. Free some of them (del, or a smaller batch), or raise the cap with tilewright.memory_cap"
            )

    @staticmethod
    def _for(line: Line) -> str:
        return f" (for {show(line)})" if line[0] else ""

    def relieve(self, nbytes: int) -> None:
        """Evict tensors of devices until so many bytes are free, if there are as many."""
        known = [b for r in list(self._buffers.values()) if (b := r()) is not None and b.evictable]
        for buffer in sorted(known, key=lambda b: b.used):
            if nbytes <= 0:
                return
            nbytes -= buffer.nbytes
            buffer.evict()

    def add(self, buffer: Any) -> None:
        """Count a buffer until it dies."""
        notes = self.notes
        notes.append(buffer.nbytes)
        if buffer.nbytes >= LEAST:
            self._buffers[id(buffer)] = weakref.ref(buffer)
        if len(notes) > 1024:
            self.settle()

    def named(self, buffer: Any) -> None:
        """A buffer has taken the memory of one that was counted."""
        if buffer.nbytes >= LEAST:
            self._buffers[id(buffer)] = weakref.ref(buffer)

    def unname(self, buffer: Any) -> None:
        """A buffer dies."""
        self._buffers.pop(id(buffer), None)

    def moved(self, nbytes: int) -> None:
        """So many bytes came to the device, or left it."""
        self.notes.append(nbytes)

    def touch(self, buffer: Any) -> None:
        """A buffer was used."""
        self._clock += 1
        buffer.used = self._clock

    def largest(self, count: int = 5) -> str:
        """The largest live tensors with the lines that made them."""
        live = [b for r in list(self._buffers.values()) if (b := r()) is not None]
        found = sorted(live, key=lambda b: -b.nbytes)[:count]
        return ", ".join(f"{b.dtype}{list(b.shape)} {mb(b.nbytes)} {show(b.line)}".rstrip() for b in found) or "none"


ACCOUNT = Account()


def memory_cap(nbytes: int | None, evict: bool = False) -> None:
    """The most bytes that tensors may hold together (None: as many as there are). At the cap an operation raises
    TensorMemoryError, which lists the largest live tensors and the lines that made them. With `evict`, tensors on
    devices with memory of their own go to the host before that, those first that were used longest ago."""
    if nbytes is not None and nbytes < 0:
        raise UsageError(f"a cap of {nbytes} bytes: give a number of bytes from 0 on, or None for no cap")
    ACCOUNT.cap, ACCOUNT.evicting = nbytes, evict


def mb(nbytes: int) -> str:
    """Bytes for people."""
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes} bytes"
