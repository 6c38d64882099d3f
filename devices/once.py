"""What a process makes once, whichever of its threads asks first, and locks that a forked child finds open."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from ..ir.errors import DeviceError

P = ParamSpec("P")
R = TypeVar("R")


def process_lock() -> threading.RLock:
    """A lock for state of a process. Another thread may hold it while this one forks: the child, which does not have that thread, finds
    it open."""
    lock = threading.RLock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]  # as the locks of `threading` do
    return lock


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
