"""`tune fleet scheduler`: the process that clients and workers meet at; whether one answers; and what a fleet lost.

The scheduler notes each worker that goes away and what ran there, and clients ask for these notes. They are events of Dask's
scheduler, which keeps the last 200 of a topic (`dask_setup.DASK`)."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from ..ir.errors import FleetError
from . import dask_setup as settings
from .dask_setup import title_of

if TYPE_CHECKING:
    from distributed import Scheduler


LOST_TOPIC = "tilewright.lost"
HowLost = Literal["died", "silent", "left"]


@dataclass(frozen=True, slots=True)
class LostSlot:
    """A worker that went away. `when`: UTC, ISO 8601, by the scheduler's clock; `worker`: its name, which it has again when its
    process is started again; `spec`: what it timed on, '' for a builder; `how`: its process or connection ended ("died"), it gave no sign
    of life for long ("silent"), or it was asked to end ("left"); `jobs`: titles of the jobs that it had, which nobody knows the result of;
    `back`: whether a worker of this name is there now."""

    when: str
    worker: str
    host: str
    address: str
    spec: str
    how: HowLost
    jobs: tuple[str, ...] = ()
    back: bool = field(default=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Plain data, the same names."""
        return {**asdict(self), "jobs": list(self.jobs)}


class LostNotes(SchedulerPlugin):  # type: ignore[misc, unused-ignore]
    """Notes the workers of a scheduler that go away."""

    name = "tilewright-lost"

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._there: dict[str, dict[str, str]] = {}
        self._leaving: set[str] = set()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Dask calls it."""
        state = scheduler.workers[worker]
        facts = state.extra.get("tilewright")
        if isinstance(facts, Mapping):
            self._there[worker] = {"worker": str(state.name), "host": str(facts["host"]), "spec": (facts["device"] or {}).get("spec", "")}

    def log_event(self, topic: str, msg: Any) -> None:
        """Dask calls it with all that is noted anywhere."""
        if topic in self._there:
            if isinstance(msg, dict) and msg.get("action") == "closing-worker":
                self._leaving.add(topic)
        elif topic == "all" and isinstance(msg, dict) and msg.get("action") == "remove-worker":
            self._removed(msg)

    def _removed(self, said: Mapping[str, Any]) -> None:
        address = said["worker"]
        known = self._there.pop(address, None)
        asked = address in self._leaving
        self._leaving.discard(address)
        if known is None:
            return
        silent = "ttl" in str(said.get("stimulus_id", ""))
        jobs = sorted(map(title_of, said.get("processing-tasks", ())))
        how: HowLost = "left" if asked or said.get("expected") else "silent" if silent else "died"
        self._scheduler.log_event(LOST_TOPIC, {**known, "address": address, "how": how, "jobs": jobs})


def lost_slots(events: Iterable[tuple[float, Mapping[str, Any]]], there: Iterable[str]) -> list[LostSlot]:
    """What the events of `LOST_TOPIC` say, in order. `there`: names of the workers that are there now."""
    names = set(there)
    return [
        LostSlot(
            when=datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
            jobs=tuple(said["jobs"]),
            back=said["worker"] in names,
            **{k: said[k] for k in ("worker", "host", "address", "spec", "how")},
        )
        for at, said in events
    ]


def times_lost(lost: Iterable[LostSlot]) -> Counter[str]:
    """How often each title was lost with a worker."""
    return Counter(title for slot in lost for title in slot.jobs)


MESSAGES_TOPIC = "tilewright-"
"""Messages for a client have the topic of this and the client's name."""
CONNECT_S = 5.0


ENDS = "scheduler-ends"
"""What clients are told before an orderly end: they would hear of workers that leave, as after a fault of these."""
HEARD_S = 0.1
"""Seconds in which they hear it: messages leave every 10 ms."""


class Forgetful(SchedulerPlugin):  # type: ignore[misc, unused-ignore]
    """Lets go of the messages that were kept for a client, when the client leaves. Tells clients when the scheduler ends."""

    name = "tilewright"

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def before_close(self) -> None:
        """Dask calls it."""
        self._scheduler.log_event("all", {"action": ENDS})
        await asyncio.sleep(HEARD_S)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Dask calls it."""
        broker = getattr(scheduler, "_broker", None)
        if broker is not None:
            broker.truncate(MESSAGES_TOPIC + client)


async def reach(url: str, security: Any = None) -> None:
    """Raise FleetError, which says what to do, where no scheduler answers at `url`."""
    from distributed.comm.core import connect

    given = security.get_connection_args("client") if security is not None else {}
    try:
        comm = await asyncio.wait_for(connect(url, timeout=CONNECT_S, **given), CONNECT_S + 1)  # type: ignore[no-untyped-call]
        try:
            await comm.write({"op": "identity", "n_workers": 0, "reply": True})
            said = await asyncio.wait_for(comm.read(), CONNECT_S)
        finally:
            await comm.close()
    except (OSError, TimeoutError, RuntimeError, ValueError, TypeError) as e:
        raise unreachable(url, e) from None
    if not isinstance(said, dict) or said.get("type") != "Scheduler":
        raise FleetError(f"what answers at {url} is no scheduler of a fleet; give the URL that `tune fleet scheduler` prints")


def unreachable(url: str, error: BaseException) -> FleetError:
    """The error for a scheduler that does not answer."""
    text = " ".join(str(error).split())
    why = text.replace(url, "")  # which may itself say tls
    if any(word in why.upper() for word in ("CERTIFICATE", "SSL", "TLS")):
        return FleetError(
            f"the scheduler at {url} and this machine do not trust each other ({text[:200]}): use certificates of one authority on both "
            "(`tune fleet certificates`), and tls:// on both"
        )
    return FleetError(
        f"no scheduler answers at {url} ({text[:200] or type(error).__name__}): start one with `tune fleet scheduler`, and see that its "
        "port can be reached from here"
    )


@dataclass(frozen=True)
class SchedulerOptions:
    """What `tune fleet scheduler` was asked for. `host`: '' for all addresses; `security`: Dask's, None for tcp://; `dashboard`: the
    address of Dask's dashboard, such as ':8787', None for none."""

    host: str = ""
    port: int = 8786
    security: Any = field(default=None, repr=False)
    dashboard: str | None = None


def made(options: SchedulerOptions) -> Scheduler:
    """The scheduler, not begun yet. Without a dashboard it serves no pages to anybody."""
    import dask

    if options.dashboard is None:
        dask.config.set({"distributed.scheduler.http.routes": []})
    scheduler = Scheduler(
        host=options.host or None,
        port=options.port,
        protocol="tls" if options.security is not None else "tcp",
        security=options.security,
        dashboard=options.dashboard is not None,
        dashboard_address=options.dashboard or settings.NO_PAGES,
    )
    scheduler.add_plugin(Forgetful(scheduler))
    scheduler.add_plugin(LostNotes(scheduler))
    return scheduler


async def serve(options: SchedulerOptions, say: Callable[[str], None] = lambda text: None) -> None:
    """Be the scheduler until SIGINT or SIGTERM. Raises FleetError where the port is taken."""
    settings.apply()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    shown = options.dashboard
    try:
        scheduler = made(options)
        async with scheduler:
            address = scheduler.address
            say(f"workers join with    tune fleet worker {address}")
            say(f"clients tune with    tune run --manifest tune.toml --fleet {address}")
            if shown is not None:
                say(f"tasks are shown at   http://{address.partition('://')[2].rpartition(':')[0]}:{shown.rpartition(':')[2]}/status")
            await over.wait()
    except (OSError, RuntimeError) as e:  # Dask wraps what kept it from starting
        why = e.__cause__ or e
        where = f"{options.host or 'all addresses'}, port {options.port}"
        raise FleetError(
            f"cannot listen on {where} ({getattr(why, 'strerror', None) or why}): choose others with --host and --port"
        ) from None
    say("the scheduler has ended")
