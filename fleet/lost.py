"""What a fleet lost: the scheduler notes each worker that goes away, with what it was at, and clients ask for that.

The notes are events of Dask's scheduler, which keeps the last 200 of a topic (`settings.DASK`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from distributed.diagnostics.plugin import SchedulerPlugin

from .keys import title_of

if TYPE_CHECKING:
    from distributed import Scheduler

TOPIC = "tilewright.lost"
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
        self._scheduler.log_event(TOPIC, {**known, "address": address, "how": how, "jobs": jobs})


def lost_slots(events: Iterable[tuple[float, Mapping[str, Any]]], there: Iterable[str]) -> list[LostSlot]:
    """What the events of `TOPIC` say, in order. `there`: names of the workers that are there now."""
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
