"""`tune fleet worker`: processes that take jobs, one for each device of this machine (and for each builder).

Each process has a nanny, in the command's own process, that starts it again when it dies. When the command ends, all end."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import Nanny, Worker

from ..cache.version import tool_version
from ..files import folders
from ..ir.errors import FleetError
from ..log import logger
from . import dask_setup as settings
from .dask_setup import id_of, title_of
from .engine import FleetSlot, SlotDevice
from .scheduler import reach

if TYPE_CHECKING:
    from ..devices import Device


log = logger("fleet")
AGAIN_S = 2.0
"""Seconds between two looks at the processes, and between two attempts to find a scheduler that went away, on the average."""


class SlotWorker(Worker):
    """Dask's worker, which tells the scheduler which slot it is. `slot`: what the command knew of it."""

    def __init__(self, *args: Any, slot: Mapping[str, Any], **given: Any) -> None:
        device = None if slot["device"] is None else asdict(replace(SlotDevice(**slot["device"]), tool=tool_version()))
        self.facts: dict[str, Any] = {**slot, **versions(), "device": device}
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the command's to answer
        given.setdefault("dashboard_address", settings.NO_PAGES)
        super().__init__(*args, startup_information={"tilewright": lambda worker: self.facts}, **given)


@dataclass(frozen=True)
class WorkerOptions:
    """What `tune fleet worker` was asked for. `devices`: what `devices.get` takes; `threads`: of each that is a processor (None: the
    device's own number); `build`: processes that only compile; `memory`: what Dask limits each process to, in its words ('auto': an
    equal share of the machine's); `security`: Dask's, None for tcp://."""

    url: str
    devices: Sequence[str] = ("cpu",)
    threads: int | None = None
    build: int = 0
    name: str = ""
    memory: str = "auto"
    lock: str = ""
    security: Any = field(default=None, repr=False)


def slots(options: WorkerOptions) -> list[dict[str, Any]]:
    """What each process is told. Raises DeviceError for a device that kernels cannot run on, FleetError for none at all."""
    from ..devices import get

    lock = options.lock or str(default_path())
    same = {"host": options.name or host(), "lock": lock, "machine": machine(lock)}
    out = []
    for spec in dict.fromkeys(options.devices):
        device = described(spec, options.threads if exclusive(get(spec)) else None)
        out.append({**same, "device": asdict(device), "width": 1, "build": 0, "exclusive": exclusive(get(spec))})
    out += [{**same, "device": None, "width": 0, "build": 1, "exclusive": False}] * options.build
    if not out:
        raise FleetError("this worker would have nothing to do: give it a --device, or --build N")
    return out


async def serve(options: WorkerOptions, say: Callable[[str], None] = lambda text: None) -> None:
    """Take jobs until SIGINT or SIGTERM. A scheduler that goes away is waited for. Raises FleetError where none answers at first."""
    settings.apply()
    told = slots(options)
    await reach(options.url, options.security)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    joined = False
    while not over.is_set():
        nannies = [_nanny(options, slot, i, len(told)) for i, slot in enumerate(told)]
        try:
            try:
                await asyncio.gather(*nannies)
            except (RuntimeError, OSError, TimeoutError) as e:
                if not joined:
                    raise FleetError(f"a worker's process could not be started: {e.__cause__ or e}") from None
                # the scheduler went away once more meanwhile, or something is wrong here: not at once again, whichever it is
                say(f"could not join {options.url} again: {e.__cause__ or e}")
                await _pause(over)
            else:
                joined = True
                for nanny, slot in zip(nannies, told):
                    say(f"{_named(slot)} joined {options.url} as {nanny.worker_address}")
                await _until(over, nannies, options)
        finally:
            await asyncio.gather(*(n.close(timeout=5) for n in nannies), return_exceptions=True)
        if not over.is_set():
            say(f"the scheduler at {options.url} is gone; waiting for it")
            await _back(over, options)
    say("left")


async def _until(over: asyncio.Event, nannies: Sequence[Nanny], options: WorkerOptions) -> None:
    """Return when this worker should end, or when the scheduler is gone: then Dask ends the workers' processes, and nothing but an
    attempt to reach it tells that from one that is being started again. While all run, nobody is asked: they would notice."""
    missed = 0
    while not over.is_set() and missed < 2:
        await _pause(over)
        if any(n.status.name in ("closed", "failed") for n in nannies):
            return
        if over.is_set() or all(_runs(n) for n in nannies):
            missed = 0
            continue
        try:
            await reach(options.url, options.security)
            missed = 0
        except FleetError:
            missed += 1


def _runs(nanny: Nanny) -> bool:
    """Whether its process is there and has joined the scheduler."""
    return nanny.process is not None and nanny.process.status.name == "running"


async def _pause(over: asyncio.Event) -> None:
    """Some time, shorter if this worker should end. A thousand machines that lost their scheduler must not all ask at once."""
    with suppress(TimeoutError):
        await asyncio.wait_for(over.wait(), AGAIN_S * random.uniform(0.5, 1.5))


async def _back(over: asyncio.Event, options: WorkerOptions) -> None:
    while not over.is_set():
        try:
            await reach(options.url, options.security)
            return
        except FleetError:
            await _pause(over)


def _nanny(options: WorkerOptions, slot: Mapping[str, Any], i: int, n: int) -> Nanny:
    from distributed.system import MEMORY_LIMIT

    kind = "build" if slot["device"] is None else slot["device"]["spec"]
    return Nanny(
        options.url,
        worker_class=SlotWorker,
        nthreads=1,
        name=f"{slot['host']} {kind} {os.getpid()}.{i}",
        memory_limit=MEMORY_LIMIT // n if options.memory == "auto" else options.memory,
        resources={"timing": slot["width"], "build": slot["build"]},
        security=options.security,
        config=settings.DASK,
        silence_logs=settings.SILENT,
        death_timeout=30,
        slot=dict(slot),
    )


def _named(slot: Mapping[str, Any]) -> str:
    if slot["device"] is None:
        return "a builder"
    d = slot["device"]
    return f"{d['spec'].rpartition('/')[2]} ({d['target']}, {d['threads']} thread{'s' * (d['threads'] != 1)})"


# worker facts -----------------------------------------------------------------------------------------------
# What a worker says of itself, whether a client can work with it, and the lock of its machine.
#
# Work that is timed on the processor has the lock alone. Work that is timed on GPUs, and builds, share it. It is a lock on a file in the
# user's state folder. The system lets go of it when a process ends, however it ends.


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
