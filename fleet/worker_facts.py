"""What a worker says of itself, whether a client can work with it, and the lock of its machine.

Work that is timed on the processor has the lock alone. Work that is timed on GPUs, and builds, share it. It is a lock on a file in the
user's state folder. The system lets go of it when a process ends, however it ends."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cache.version import tool_version
from ..files import folders
from ..ir.errors import FleetError
from .dask_setup import id_of, title_of
from .engine import FleetSlot, SlotDevice

if TYPE_CHECKING:
    from ..devices import Device


PROTOCOL = 1
"""Of what travels: payloads of jobs and messages."""
EXTRA = "pip install 'tilewright[fleet]'"
_NAMED = {"python": "Python", "dask": "distributed", "tool": "Tilewright's code", "protocol": "the fleet's protocol"}


def dask() -> Any:
    """The package `distributed`. Raises FleetError, which names the extra, where it is not installed."""
    try:
        import distributed
    except ImportError as e:
        raise FleetError(f"a fleet needs Dask ({e}): {EXTRA}") from None
    return distributed


def versions() -> dict[str, Any]:
    """What must be equal on both sides: Python's minor version, Dask's, the digest of the code that makes sources, and the protocol."""
    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "dask": dask().__version__,
        "tool": tool_version(),
        "protocol": PROTOCOL,
    }


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """How the versions of a worker differ from a client's, both named; '' where they do not."""
    said = [
        f"{what} {theirs.get(name, 'unknown')} there, {ours[name]} here" for name, what in _NAMED.items() if theirs.get(name) != ours[name]
    ]
    return f"{'; '.join(said)}: install the same versions on both" if said else ""


def described(spec: str, threads: int | None = None) -> SlotDevice:
    """A device of this machine as data. Raises DeviceError where kernels cannot run on it."""
    from ..devices import get

    device = get(spec)
    device.check()
    threads = threads or device.threads
    device.check_threads(threads)
    return SlotDevice(spec, device.target.key, device.compiler_id(), threads, tool_version(), device.fingerprint())


def exclusive(device: Device) -> bool:
    """Whether timing on a device needs the whole machine: on a processor it does; a GPU only minds the processor's timings."""
    return device.target.kind != "gpu"


def machine(lock: str) -> str:
    """12 hex digits, equal for those who share a lock."""
    import uuid

    return hashlib.sha256(f"{uuid.getnode()} {platform.node()} {lock}".encode()).hexdigest()[:12]


def host() -> str:
    """This machine's name."""
    return platform.node() or "?"


def slot_of(address: str, said: Mapping[str, Any], ours: Mapping[str, Any], keys: Sequence[Any]) -> FleetSlot:
    """The slot behind what a worker said of itself (`SlotWorker.facts`); `keys`: Dask's, of the jobs that it has."""
    device = None if said["device"] is None else SlotDevice(**said["device"])
    return FleetSlot(
        name=device.slot_name if device is not None else "",
        address=address,
        device=device,
        width=int(said["width"]),
        build=int(said["build"]),
        host=str(said["host"]),
        refused=difference(said, ours),
        running=tuple(map(title_of, keys)),
        jobs=tuple(map(id_of, keys)),
        machine=str(said["machine"]),
        alone=bool(said["exclusive"]),
    )


POLL_S = 0.002
"""How often a waiter asks. Once what is timed takes seconds, it asks less often."""
POLL_LATER_S = 0.02


def default_path() -> Path:
    """The lock of this machine and user."""
    return folders.state() / "fleet.lock"


@contextmanager
def machine_lock(path: str | os.PathLike[str], alone: bool, stopped: Callable[[], bool] = lambda: False) -> Iterator[float]:
    """Inside, nobody else has the lock (`alone`), or only others who share it. Gives the seconds that were waited. Raises
    KeyboardInterrupt when `stopped` becomes true while waiting, and FleetError where there can be no such file."""
    import fcntl

    began = time.monotonic()
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as e:
        raise FleetError(f"cannot open the lock {path} that keeps timings apart: {e.strerror}") from None
    try:
        while True:
            try:
                fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopped():
                    raise KeyboardInterrupt from None
                time.sleep(POLL_S if time.monotonic() - began < 1.0 else POLL_LATER_S)
        yield time.monotonic() - began
    finally:
        os.close(fd)
