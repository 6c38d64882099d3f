"""What live tensors hold: counted, capped, and named in errors with the lines that made them."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

from ..ir.errors import TilewrightError, UsageError
from .lines import Line, show


class TensorMemoryError(TilewrightError, MemoryError):
    """There is no room for a tensor; the text lists the largest live ones and the lines that made them."""


class Account:
    """What live tensors hold, per process; an optional cap in bytes. `evicting`: whether tensors on devices go to the host
    at the cap, those first that were used longest ago."""

    def __init__(self) -> None:
        self.held = 0
        self.peak = 0
        self.cap: int | None = None
        self.evicting = False
        self.dead: deque[tuple[int, int]] = deque()
        self._buffers: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.RLock()
        self._clock = 0

    @property
    def live(self) -> int:
        """Bytes that live tensors hold now."""
        self.settle()
        return self.held

    def settle(self) -> None:
        """Count what has died. (Finalisers run anywhere, and only leave a note.)"""
        with self._lock:
            while self.dead:
                at, nbytes = self.dead.popleft()
                found = self._buffers.get(at)
                if found is not None and found() is None:
                    del self._buffers[at]
                self.held -= nbytes

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
        with self._lock:
            if self.dead:
                self.settle()
            self.held += buffer.nbytes
            if self.held > self.peak:
                self.peak = self.held
            self._buffers[id(buffer)] = weakref.ref(buffer)

    def named(self, buffer: Any) -> None:
        """A buffer has taken the memory of one that was counted."""
        self._buffers[id(buffer)] = weakref.ref(buffer)

    def moved(self, nbytes: int) -> None:
        """So many bytes came to the device, or left it."""
        with self._lock:
            self.held += nbytes
            self.peak = max(self.peak, self.held)

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
