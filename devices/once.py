"""What a process makes once, whichever of its threads asks first, and locks that a forked child finds open."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

from ..ir.errors import DeviceError

P = ParamSpec("P")
R = TypeVar("R")


L = TypeVar("L", bound=Any)
_LOCKS = weakref.WeakSet[Any]()


def process_lock() -> threading.RLock:
    """A lock for state of a process. Another thread may hold it while this one forks: the child, which does not have that thread, finds
    it open."""
    return open_in_children(threading.RLock())


def open_in_children(lock: L) -> L:
    """A lock of `threading`, which a forked child finds open."""
    _LOCKS.add(lock)
    return lock


PATIENCE_S = 30.0
"""Seconds that a fork waits, at most, for what other threads make."""
_HOLDERS = "logging", "concurrent.futures.thread"
"""Modules that hold locks of theirs over a fork. What is registered last comes first then, and our wait must, as others may need these locks."""
_making: dict[int, int] = {}
"""How deep threads are within `undivided`, by their numbers."""
_changed = threading.Condition(threading.Lock())
_forking: list[int] = []
_registered: set[tuple[bool, ...]] = set()
"""Of which of the holders our hooks know, once for each registration."""


@contextlib.contextmanager
def undivided() -> Iterator[None]:
    """Inside, no other thread forks this process. Compilers and what is half made hold locks, of LLVM and of Python's own, which a
    child would find held for ever."""
    me = threading.get_ident()
    with _changed:
        _making[me] = _making.get(me, 0) + 1
        if (known := tuple(name in sys.modules for name in _HOLDERS)) not in _registered:
            _registered.add(known)
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
    try:
        yield
    finally:
        with _changed:
            _making[me] -= 1
            if not _making[me]:
                del _making[me]
                _changed.notify_all()


def _before_fork() -> None:
    """Wait until no other thread is within `undivided`."""
    me = threading.get_ident()
    if me in _forking:  # registered again
        return
    _changed.acquire()
    _forking.append(me)
    until = time.monotonic() + PATIENCE_S
    while _making.keys() - {me} and (left := until - time.monotonic()) > 0:
        _changed.wait(left)


def _after_fork() -> None:
    me = threading.get_ident()
    if me in _forking:
        _forking.remove(me)
        _changed.release()


def _in_child() -> None:
    me = threading.get_ident()
    for thread in _making.keys() - {me}:
        del _making[thread]
    _forking[:] = [t for t in _forking if t == me]
    _after_fork()


def _open_locks() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()  # as the locks of `threading` do


os.register_at_fork(after_in_child=_open_locks)


class once(Generic[P, R]):
    """A function that is called once for each list of arguments. Threads that ask meanwhile wait for its answer. (`functools.cache` calls it
    in each of them.) What raises is called again."""

    def __init__(self, make: Callable[P, R]) -> None:
        functools.update_wrapper(self, make)
        self._make, self._made, self._lock = make, dict[Any, R](), process_lock()

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        key = arguments, *named.items()
        try:
            return self._made[key]
        except KeyError:
            pass
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(*arguments, **named)
            return self._made[key]

    def cache_clear(self) -> None:
        """Forget the answers."""
        self._made.clear()


def forked(what: str) -> DeviceError:
    """What a child is told that uses a driver which its parent opened."""
    return DeviceError(
        f"{what} was opened before this process was forked, and its driver does not survive a fork: start processes by spawn "
        "(multiprocessing.get_context('spawn')), or use the device in children only; device='cpu' works here"
    )
